//! The load generator without the server around it: `brisk bench` is the same.
#![forbid(unsafe_code)]

use brisk_cli::Entry;
use brisk_load::cli::{COMPARE, DIFF, bench};

const LOAD: Entry = bench(&[COMPARE, DIFF]);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    std::process::exit(brisk_load::output::finish(LOAD.main("brisk-load", &args)))
}
