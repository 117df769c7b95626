//! `brisk-fuzz TARGET|all SECONDS [SEED]`: looks for inputs that break a parser's invariants, on stable Rust.
//!
//! An input that breaks one is written to the current directory: fix the bug, move the file into the corpus.
//! `brisk-fuzz seeds TARGET FOLDER` writes the corpus there, for other fuzzers.
#![forbid(unsafe_code)]

use brisk_fuzz::mutate::{Random, mutate};
use brisk_fuzz::{TARGETS, Target};
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
/// An input that takes longer than this is as bad as one that panics.
const SLOW: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [command, name, folder] = &args[..]
        && command == "seeds"
        && let Some(target) = Target::find(name)
    {
        return write_seeds(target, folder);
    }
    let number = |at: usize| args.get(at).and_then(|arg| arg.parse::<u64>().ok());
    let targets: Vec<&Target> = match args.first().map(String::as_str) {
        Some("all") => TARGETS.iter().collect(),
        Some(name) => Target::find(name).into_iter().collect(),
        None => Vec::new(),
    };
    let (false, Some(seconds)) = (targets.is_empty(), number(1)) else {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("usage: brisk-fuzz {}|all SECONDS [SEED]", names.join("|"));
        return ExitCode::FAILURE;
    };
    for target in targets {
        match explore(target, Duration::from_secs(seconds), number(2).unwrap_or(SEED)) {
            Ok(runs) => println!("{}: {runs} inputs in {seconds} s, no invariant broken", target.name),
            Err(file) => {
                eprintln!("{}: broken by {file}", target.name);
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn write_seeds(target: &Target, folder: &str) -> ExitCode {
    for (index, seed) in target.seeds().iter().enumerate() {
        if let Err(error) = std::fs::write(format!("{folder}/seed-{index}"), seed) {
            eprintln!("{folder}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Gives the number of inputs tried, or the file that holds the one that broke something.
fn explore(target: &Target, time: Duration, seed: u64) -> Result<u64, String> {
    let (seeds, tokens) = (target.seeds(), target.tokens());
    let mut random = Random::new(seed);
    let end = Instant::now() + time;
    let mut runs = 0;
    while Instant::now() < end {
        for _ in 0..100 {
            let input = mutate(&seeds, &tokens, target.bytes_max, &mut random);
            let start = Instant::now();
            if catch_unwind(|| (target.run)(&input)).is_err() || start.elapsed() > SLOW {
                let file = format!("broken-{}-{runs}", target.name);
                std::fs::write(&file, &input)
                    .map_err(|error| format!("an input that cannot be written ({error})"))?;
                eprintln!("{:?}", String::from_utf8_lossy(&input));
                return Err(file);
            }
            runs += 1;
        }
    }
    Ok(runs)
}
