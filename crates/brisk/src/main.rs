//! The `brisk` program: nginx's command line, `brisk serve`, and tools around the configuration.
#![forbid(unsafe_code)]
// `brisk_load::output` is the way to the standard output and the standard error: these end with a panic where it cannot be written.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod alone;
mod background;
mod bundle;
mod cache;
mod certificates;
mod channel;
mod claim;
mod cli;
mod config;
mod control;
mod convert;
mod db;
mod directives;
mod doctor;
mod endpoint;
mod findings;
mod host;
mod httpd;
mod keeper;
mod launch;
mod limits;
mod local_certificate;
mod log;
mod master;
mod notice;
mod options;
mod orders;
mod php;
mod pools;
mod process;
mod programs;
mod refusal;
mod serve;
mod site;
mod sockets;
mod systemd;
mod takeover;
mod title;
mod top;
mod tune;
mod upgrade;
mod upstream;
mod version;
mod why;

use brisk_load::output;
use std::ffi::OsString;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    brisk_net::sys::disable_huge_pages();
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_default();
    let args: Result<Vec<String>, _> = args.map(OsString::into_string).collect();
    let code = match args {
        Ok(args) => cli::run(&program.to_string_lossy(), &args),
        Err(arg) => {
            let shown = arg.to_string_lossy();
            output::note(format_args!("brisk: the argument \"{}\" is not valid UTF-8", shown.escape_debug()));
            1
        }
    };
    std::process::exit(output::finish(code))
}
