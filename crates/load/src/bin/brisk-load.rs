//! The load generator without the server around it: `brisk bench` is the same.
#![forbid(unsafe_code)]

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    std::process::exit(brisk_load::output::finish(brisk_load::cli::main("brisk-load", &args)))
}
