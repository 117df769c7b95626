//! `siege`: its flags, its urls.txt, its text report and its JSON. Users are tasks of a client that follows redirects and
//! fetches what pages are made of, as siege's do.

mod options;
mod report;
mod urls;
mod user;

use crate::client::Request;
use options::{Options, Parsed};
use report::Totals;
use std::io::Write as _;

/// Runs `siege ARGS`; gives the exit code.
pub fn main(args: &[String]) -> i32 {
    let options = match options::parse(args) {
        Ok(Parsed::Run(options)) => options,
        Ok(Parsed::Text(text)) => {
            print!("{text}");
            return 0;
        }
        Err(error) => {
            eprintln!("siege: {error}");
            return 1;
        }
    };
    match carry_out(*options) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("[error] {error}");
            1
        }
    }
}

/// The requests of a list of URLs.
pub(crate) fn requests(list: &str) -> Result<Vec<Request>, String> {
    match options::parse(&["http://127.0.0.1/".to_owned()])? {
        Parsed::Run(options) => urls::read(list, &options),
        Parsed::Text(text) => Err(text),
    }
}

fn carry_out(options: Options) -> Result<(), String> {
    let targets = urls::targets(&options)?;
    if options.has_banner() {
        eprintln!("** SIEGE, by brisk {}", env!("CARGO_PKG_VERSION"));
        eprintln!("** Preparing {} concurrent users for battle.", options.users);
        eprintln!("The server is now under siege...");
    }
    if options.time.is_none() && options.repetitions.is_none() {
        eprintln!("siege: neither -t nor -r: the end is after an hour");
    }
    brisk_load::system::catch_interrupts().map_err(|error| error.to_string())?;
    let totals = user::attack(&options, targets)?;
    if options.json {
        println!("{}", totals.json());
    } else if !options.quiet {
        // As siege has it: figures for people beside the output, figures for programs in it.
        eprintln!("{}", totals.text());
    }
    write_log(&options, &totals)
}

fn write_log(options: &Options, totals: &Totals) -> Result<(), String> {
    let Some(path) = &options.log else { return Ok(()) };
    let wrong = |error: std::io::Error| format!("unable to create log file {path}: {error}");
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).map_err(wrong)?;
    if file.metadata().map_err(wrong)?.len() == 0 {
        writeln!(file, "{}", report::LOG_HEAD).map_err(wrong)?;
    }
    if let Some(mark) = &options.mark {
        writeln!(file, "**** {mark} ****").map_err(wrong)?;
    }
    writeln!(file, "{}", totals.log_line()).map_err(wrong)
}
