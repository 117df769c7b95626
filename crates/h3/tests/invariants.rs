//! What the fuzz targets ask for, over their corpora, over mixtures of the corpora's pieces, and over random bytes.

use brisk_h3::fuzz::{fuzz_connection, fuzz_qpack};
use proptest::prelude::*;
use std::path::Path;

/// The inputs of a corpus.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let files = std::fs::read_dir(folder).expect("a corpus");
    files.map(|file| std::fs::read(file.expect("a file").path()).expect("an input")).collect()
}

/// What inputs consist of: one piece, with what it is for and its length.
fn pieces(inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for input in inputs {
        let mut rest = input.as_slice();
        while let [_, len, ..] = *rest {
            let end = rest.len().min(2 + usize::from(len));
            all.push(rest[..end].to_vec());
            rest = &rest[end..];
        }
    }
    all
}

fn mixed(name: &str) -> impl Strategy<Value = Vec<u8>> {
    let piece = proptest::sample::select(pieces(&corpus(name)));
    let changed = (piece, any::<u8>(), any::<proptest::sample::Index>(), 0..4u8).prop_map(
        |(mut piece, byte, at, how)| {
            if how == 0 && piece.len() > 2 {
                let at = 2 + at.index(piece.len() - 2);
                piece[at] = byte;
            } else if how == 1 {
                piece[0] ^= 1 << (byte & 7);
            }
            piece
        },
    );
    proptest::collection::vec(changed, 0..12).prop_map(|pieces| pieces.concat())
}

#[test]
fn corpora() {
    corpus("h3").iter().for_each(|input| fuzz_connection(input));
    corpus("qpack").iter().for_each(|input| fuzz_qpack(input));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mixed_connections(data in mixed("h3")) {
        fuzz_connection(&data);
    }

    #[test]
    fn mixed_fields(data in mixed("qpack")) {
        fuzz_qpack(&data);
    }

    #[test]
    fn random_bytes(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        fuzz_connection(&data);
        fuzz_qpack(&data);
    }
}
