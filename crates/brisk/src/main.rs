//! The `brisk` program: nginx's command line, `brisk serve`, and tools around the configuration.
#![forbid(unsafe_code)]
// `brisk_load::output` is the way to the standard output: these end with a panic where it cannot be written.
#![deny(clippy::print_stdout)]

mod alone;
mod background;
mod bundle;
mod cache;
mod certificates;
mod channel;
mod cli;
mod config;
mod control;
mod directives;
mod host;
mod keeper;
mod launch;
mod local_certificate;
mod log;
mod master;
mod notice;
mod process;
mod refusal;
mod serve;
mod sockets;
mod systemd;
mod title;
mod upgrade;
mod upstream;
mod version;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    brisk_net::sys::disable_huge_pages();
    let mut args = std::env::args();
    let program = args.next().unwrap_or_default();
    let args: Vec<String> = args.collect();
    let code = if let Some(main) = brisk_drive::old::by_name(&program) { main(&args) } else { run(&args) };
    std::process::exit(brisk_load::output::finish(code))
}

/// Runs `brisk ARGS`; gives the exit code.
fn run(args: &[String]) -> i32 {
    match args.first().map(String::as_str) {
        Some("serve") => serve::main(&args[1..]),
        Some(name @ ("ab" | "httperf" | "siege" | "wrk")) => {
            brisk_drive::old::by_name(name).map_or(1, |main| main(&args[1..]))
        }
        Some("get") => brisk_drive::get::main(&args[1..]),
        Some("probe") => brisk_drive::probe::main(&args[1..]),
        Some("bench") if let Some(main) = args.get(1).and_then(|name| brisk_drive::sub_command(name)) => {
            main(&args[2..])
        }
        Some("bench") => brisk_load::cli::main("brisk bench", &args[1..]),
        Some("cache") => cache::main(&args[1..]),
        Some("directives") => directives::main(&args[1..]),
        Some("variables") => directives::variables(&args[1..]),
        Some("coverage") => directives::coverage(&args[1..]),
        Some("log") => log::main(&args[1..]),
        Some("upstream") => upstream::main(&args[1..]),
        _ => cli::main(args),
    }
}
