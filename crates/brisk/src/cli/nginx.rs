//! nginx's command line: its options as nginx reads them, letters joined and values glued.

use crate::options::{Options, Topic};
use crate::{config, control, launch, version};
use brisk_cli::Call;
use brisk_cli::getopt::{self, Fault, Given, Long};
use brisk_conf::diag::did_you_mean;
use brisk_load::cli::args;
use brisk_load::output;
use clap::{Arg, ArgAction, Command, ValueHint};
use std::time::Duration;

/// What `-s` takes.
const SIGNALS: [&str; 4] = ["stop", "quit", "reopen", "reload"];

/// nginx's options, and what has been added to them.
pub fn definition() -> Command {
    let flag = |id: &'static str, letter: char, help: &'static str| {
        Arg::new(id).short(letter).action(ArgAction::SetTrue).help(help)
    };
    let option = |id: &'static str, letter: char, value: &'static str, help: &'static str| {
        Arg::new(id).short(letter).value_name(value).help(help)
    };
    Command::new("brisk")
        .about("A web server that reads nginx's configuration")
        .override_usage(
            "brisk [-tTqvVh] [-s SIGNAL] [-c FILE] [-p DIR] [-e FILE] [-g DIRECTIVES]\n       brisk COMMAND ...",
        )
        .subcommand_value_name("COMMAND")
        .subcommand_help_heading("Commands (brisk help COMMAND says more)")
        .disable_help_flag(true)
        .arg(flag("test", 't', "Test the configuration and exit"))
        .arg(flag("dump", 'T', "The same, and print all its files"))
        .arg(flag("quiet", 'q', "With -t: say nothing unless something is wrong"))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("With -t: print every message as JSON"))
        .arg(
            option(
                "signal",
                's',
                "SIGNAL",
                "Send a signal to the running server: stop, quit (finishes requests), reload, or reopen (the logs)",
            )
            .value_parser(SIGNALS)
            .hide_possible_values(true),
        )
        .arg(
            Arg::new("timeout")
                .long("timeout")
                .value_name("TIME")
                .help("How long -s reload and -s reopen wait for the server [default: 30s]"),
        )
        .arg(
            option("conf", 'c', "FILE", "The configuration [default: brisk.conf, else nginx.conf, in the prefix]")
                .value_hint(ValueHint::FilePath),
        )
        .arg(
            option("prefix", 'p', "DIR", "The folder from which relative paths start [default: /etc/brisk/]")
                .value_hint(ValueHint::DirPath),
        )
        .arg(
            option("error_log", 'e', "FILE", "The error log until the configuration names one [default: standard error]")
                .value_hint(ValueHint::FilePath),
        )
        .arg(option("globals", 'g', "DIRECTIVES", "Directives of the main level, as if they stood before the file"))
        .arg(flag("version", 'v', "Print the version"))
        .arg(flag("configuration", 'V', "Print the version and what is built in"))
        .arg(flag("help", 'h', "Print help").long("help"))
        .arg(Arg::new("long_version").long("version").action(ArgAction::SetTrue).help("Print the version to the standard output").hide(true))
        .after_help("Without options or commands, brisk reads its configuration and serves.")
}

/// What is read: besides, what shells cannot complete.
fn readable() -> Command {
    let help = "As -h, to the standard error, as nginx does";
    definition().arg(Arg::new("usage").short('?').action(ArgAction::SetTrue).help(help))
}

/// Runs the program as nginx would be run; gives the exit code.
pub fn main(call: &Call<'_>) -> i32 {
    let options = match parse(call.args, &call.commands().collect::<Vec<_>>()) {
        Ok(options) => options,
        Err(message) => {
            output::note(format_args!(
                "brisk: {message}\nbrisk: \"brisk help\" lists the options and commands"
            ));
            return 1;
        }
    };
    if let Some(topic) = options.topic {
        inform(call, topic);
        // As nginx: what was asked to be tested is still tested.
        if !options.test {
            return 0;
        }
    }
    let paths = config::Paths::new(&options);
    if let Some(signal) = &options.signal {
        return control::send(&paths, signal, options.timeout);
    }
    if options.test {
        let said = match (options.json, options.quiet) {
            (true, _) => config::Said::Json,
            (false, true) => config::Said::Faults,
            (false, false) => config::Said::All,
        };
        return config::test(&paths, options.dump, said);
    }
    launch::run(&paths)
}

fn inform(call: &Call<'_>, topic: Topic) {
    match topic {
        Topic::Help => drop(call.show_help()),
        Topic::LongVersion => output::print(version::short()),
        Topic::Usage => {
            output::note(version::short());
            call.hint_help();
        }
        Topic::Configuration => output::hint(version::long()),
        Topic::Version => output::hint(version::short()),
    }
}

/// Reads nginx's options. A word that is none may be meant for one of `commands`.
fn parse(args: &[String], commands: &[&'static str]) -> Result<Options, String> {
    let mut options = Options::default();
    for given in getopt::read(&readable(), args, Long::Added).map_err(fault)? {
        match given {
            Given::Option(id, value) => set(&mut options, &id, value)?,
            // nginx looks for letters behind the hyphen, and there are none.
            Given::Word(word) if word == "-" => {}
            Given::Word(word) => {
                let near = did_you_mean(&word, commands.iter().copied());
                let hint = near.map_or(String::new(), |near| format!("; did you mean \"brisk {near}\"?"));
                return Err(format!("invalid option: \"{word}\"{hint}"));
            }
        }
    }
    if options.timeout.is_some() && !matches!(options.signal.as_deref(), Some("reload" | "reopen")) {
        return Err("\"--timeout\" belongs to \"-s reload\" and \"-s reopen\"".into());
    }
    if options.json && !options.test {
        return Err("\"--json\" goes with -t, or behind a command".into());
    }
    Ok(options)
}

fn set(options: &mut Options, id: &str, value: String) -> Result<(), String> {
    match id {
        "test" => options.test = true,
        "dump" => (options.test, options.dump) = (true, true),
        "quiet" => options.quiet = true,
        "json" => options.json = true,
        "timeout" => options.timeout = Some(timeout(&value)?),
        "conf" => options.conf = Some(value),
        "prefix" => options.prefix = Some(value),
        "error_log" => options.error_log = Some(value),
        "globals" => options.globals = value,
        "signal" if SIGNALS.contains(&value.as_str()) => options.signal = Some(value),
        "signal" => return Err(format!("invalid option: \"-s {value}\"")),
        "help" => options.topic = options.topic.max(Some(Topic::Help)),
        "usage" => options.topic = options.topic.max(Some(Topic::Usage)),
        "configuration" => options.topic = options.topic.max(Some(Topic::Configuration)),
        "long_version" => options.topic = options.topic.max(Some(Topic::LongVersion)),
        _ => options.topic = options.topic.max(Some(Topic::Version)),
    }
    Ok(())
}

fn timeout(text: &str) -> Result<Duration, String> {
    args::some_time(text).map_err(|_| format!("invalid option: \"--timeout {text}\""))
}

/// What is wrong, in nginx's words.
fn fault(fault: Fault) -> String {
    match fault {
        Fault::Letter(letter) => format!("invalid option: \"{letter}\""),
        Fault::Name(name) | Fault::Ambiguous(name) => {
            let longs = ["--help", "--version", "--json", "--timeout"];
            let near = did_you_mean(&name, longs.into_iter());
            let hint = near.map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
            format!("invalid option: \"{name}\"{hint}")
        }
        Fault::Value(letter) => {
            let needs = match letter.as_str() {
                "s" => "parameter",
                "p" => "directory name",
                "g" => "global directives",
                "timeout" => "a time",
                _ => "file name",
            };
            let hyphens = if letter.len() > 1 { "--" } else { "-" };
            format!("option \"{hyphens}{letter}\" requires {needs}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Result<Options, String> {
        parse(&line.split(' ').map(str::to_string).collect::<Vec<_>>(), &["bench", "serve"])
    }

    #[test]
    fn letters_may_be_joined_and_values_glued() {
        let options = check("-tq -c/etc/x.conf -p /srv -g daemon; -").unwrap();
        assert!(options.test && options.quiet && !options.dump);
        assert_eq!(options.conf.as_deref(), Some("/etc/x.conf"));
        assert_eq!(options.prefix.as_deref(), Some("/srv"));
        assert_eq!(options.globals, "daemon;");
        // What follows is the value, whatever it looks like; the last one counts.
        assert_eq!(check("-tc -q -c=x -c -t").unwrap().conf.as_deref(), Some("-t"));
        assert_eq!(check("-c=x").unwrap().conf.as_deref(), Some("=x"));
    }

    #[test]
    fn help_and_version_are_known_by_their_long_names() {
        for (line, topic) in [
            ("--help", Topic::Help),
            ("-h", Topic::Help),
            ("-?", Topic::Usage),
            ("--version", Topic::LongVersion),
            ("-v", Topic::Version),
            ("-vV", Topic::Configuration),
            ("-Vvh", Topic::Help),
        ] {
            assert_eq!(check(line).unwrap().topic, Some(topic), "{line}");
        }
    }

    #[test]
    fn unknown_options_are_named() {
        assert_eq!(check("-x"), Err("invalid option: \"x\"".into()));
        assert_eq!(check("start"), Err("invalid option: \"start\"".into()));
        assert_eq!(check("-s start"), Err("invalid option: \"-s start\"".into()));
        assert_eq!(check("-stop"), Err("invalid option: \"-s top\"".into()));
        assert_eq!(check("-t -- -q"), Err("invalid option: \"-\"".into()));
        assert_eq!(check("-c"), Err("option \"-c\" requires file name".into()));
        assert_eq!(check("bnech"), Err("invalid option: \"bnech\"; did you mean \"brisk bench\"?".into()));
        assert!(
            check("--jsn").unwrap_err().contains("--json") && check("--json").unwrap_err().contains("-t")
        );
    }
}
