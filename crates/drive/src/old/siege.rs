//! `siege`: its flags, its urls.txt, its text report and its JSON. Users are tasks of a client that follows redirects and
//! fetches what pages are made of, as siege's do.

mod options;
mod report;
mod urls;
mod user;

use crate::client::Request;
use brisk_cli::{Call, Entry};
use brisk_load::output;
use options::{Options, Parsed};
use report::Totals;
use std::fs::File;
use std::io::Write as _;

/// `siege`.
pub const SIEGE: Entry =
    Entry { name: "siege", define: options::definition, run: main, inner: &[], usage_code: 1 };

fn main(call: &Call<'_>) -> i32 {
    let options = match options::parse(call.args) {
        Ok(Parsed::Run(options)) => options,
        Ok(Parsed::Text(text)) => {
            output::print(text);
            return 0;
        }
        Ok(Parsed::Usage) => return call.show_help(),
        Err(error) => {
            output::note(format_args!("siege: {error}"));
            return 1;
        }
    };
    match carry_out(*options) {
        Ok(()) => 0,
        Err(error) => {
            output::note(format_args!("[error] {error}"));
            1
        }
    }
}

/// The requests of a list of URLs.
pub(crate) fn requests(list: &str) -> Result<Vec<Request>, String> {
    match options::parse(&["http://127.0.0.1/".to_owned()])? {
        Parsed::Run(options) => urls::read(list, &options),
        Parsed::Text(_) | Parsed::Usage => Ok(Vec::new()),
    }
}

fn carry_out(options: Options) -> Result<(), String> {
    let targets = urls::targets(&options)?;
    let log = open_log(&options)?;
    if options.has_banner() {
        output::note(format_args!("** SIEGE, by brisk {}", env!("CARGO_PKG_VERSION")));
        output::note(format_args!("** Preparing {} concurrent users for battle.", options.users));
        // Behind it siege leaves a line for the requests that it shows.
        let room = if options.verbose { "\n" } else { "" };
        output::note(format_args!("The server is now under siege...{room}"));
    }
    if options.time.is_none() && options.repetitions.is_none() {
        output::note("siege: neither -t nor -r: the end is after an hour");
    }
    brisk_load::system::catch_interrupts().map_err(|error| error.to_string())?;
    let totals = user::attack(&options, targets)?;
    if options.json {
        output::line(totals.json());
    } else if !options.quiet {
        // As siege has it: figures for people beside the output, figures for programs in it.
        output::note(totals.text());
    }
    log.map_or(Ok(()), |(file, path)| write_log(file, path, &options, &totals))
}

/// The log that was asked for, and its path.
fn open_log(options: &Options) -> Result<Option<(File, &str)>, String> {
    let Some(path) = &options.log else { return Ok(None) };
    let file = File::options().create(true).append(true).open(path);
    Ok(Some((file.map_err(|error| format!("unable to create log file {path}: {error}"))?, path)))
}

fn write_log(mut file: File, path: &str, options: &Options, totals: &Totals) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("unable to write log file {path}: {error}");
    if file.metadata().map_err(wrong)?.len() == 0 {
        writeln!(file, "{}", report::LOG_HEAD).map_err(wrong)?;
    }
    if let Some(mark) = &options.mark {
        writeln!(file, "**** {mark} ****").map_err(wrong)?;
    }
    writeln!(file, "{}", totals.log_line()).map_err(wrong)
}
