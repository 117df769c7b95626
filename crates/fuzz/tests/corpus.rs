//! Replays the corpora, whole and cut at every byte, and a first round of random inputs.
#![forbid(unsafe_code)]

use brisk_fuzz::mutate::{Random, mutate};
use brisk_fuzz::{TARGETS, Target};

#[test]
fn what_once_broke_something_does_not() {
    for target in TARGETS {
        for seed in target.seeds() {
            // Shown only if an invariant breaks.
            println!("{}: {:?}", target.name, String::from_utf8_lossy(&seed));
            (target.run)(&seed);
            let step = 1 + seed.len() / 400;
            for cut in (0..seed.len()).step_by(step) {
                (target.run)(&seed[..cut]);
                (target.run)(&seed[cut..]);
            }
        }
    }
}

#[test]
fn a_few_thousand_random_inputs() {
    for target in TARGETS {
        let (seeds, tokens) = (target.seeds(), target.tokens());
        let mut random = Random::new(7);
        for _ in 0..target.rounds() {
            let input = mutate(&seeds, &tokens, target.bytes_max, &mut random);
            println!("{}: {:?}", target.name, String::from_utf8_lossy(&input));
            (target.run)(&input);
        }
    }
}

#[test]
fn targets_are_found_by_name() {
    assert!(Target::find("uri").is_some() && Target::find("nothing").is_none());
}
