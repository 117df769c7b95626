//! The commands of the program. Each has its row ([`Entry`]) beside the code that carries it out; from the rows come
//! `--help`, completions, man pages and the choice of the command.

mod completions;
mod help;
mod man;
mod nginx;

use crate::{cache, convert, db, directives, doctor, httpd, log, php, serve, top, tune, upstream, why};
use brisk_cli::Entry;
use brisk_drive::{get, page, probe, scenario};
use brisk_load::cli::{COMPARE, DIFF, bench};

/// `brisk`: nginx's command line, and the commands.
pub const BRISK: Entry =
    Entry { name: "brisk", define: nginx::definition, run: nginx::main, inner: COMMANDS, usage_code: 1 };

const COMMANDS: &[Entry] = &[
    serve::SERVE,
    httpd::HTTPD,
    convert::CONVERT,
    BENCH,
    doctor::DOCTOR,
    why::WHY,
    tune::TUNE,
    get::GET,
    probe::PROBE,
    brisk_drive::old::ALL[0],
    brisk_drive::old::ALL[1],
    brisk_drive::old::ALL[2],
    brisk_drive::old::ALL[3],
    cache::CACHE,
    upstream::UPSTREAM,
    db::DB,
    top::TOP,
    php::PHP,
    log::LOG,
    directives::DIRECTIVES,
    directives::VARIABLES,
    directives::COVERAGE,
    completions::COMPLETIONS,
    man::MAN,
    help::HELP,
];

const BENCH: Entry = bench(&[
    COMPARE,
    DIFF,
    scenario::cli::RUN,
    scenario::import::IMPORT,
    scenario::cli::SCHEMA,
    page::cli::PAGE,
]);

/// Runs the program with the name by which it was called; gives the exit code.
pub fn run(program: &str, args: &[String]) -> i32 {
    match brisk_drive::old::by_name(program) {
        Some(entry) => entry.main(entry.name, args),
        None => BRISK.main("brisk", args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, Command};
    use std::collections::BTreeMap;

    fn all(command: &Command, found: &mut Vec<Command>) {
        found.push(command.clone());
        command.get_subcommands().for_each(|inner| all(inner, found));
    }

    fn commands() -> Vec<Command> {
        let mut brisk = BRISK.definition("brisk");
        brisk.build();
        let mut found = Vec::new();
        all(&brisk, &mut found);
        found
    }

    fn name(command: &Command) -> &str {
        command.get_bin_name().unwrap_or_default()
    }

    fn is_old(command: &Command) -> bool {
        let name = command.get_name();
        name == httpd::HTTPD.name || brisk_drive::old::ALL.iter().any(|entry| entry.name == name)
    }

    #[test]
    fn every_command_and_every_option_has_its_text() {
        BRISK.definition("brisk").debug_assert();
        for command in commands() {
            assert!(command.get_about().is_some(), "{}", name(&command));
            for arg in command.get_arguments() {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                let is_sentence = help.len() > 3 && !help.ends_with('.') || is_old(&command);
                assert!(is_sentence, "{}: {}: {help:?}", name(&command), arg.get_id());
            }
        }
    }

    /// Options that mean one thing in some commands and another in others, and why.
    const OTHERWISE: &[(&str, &str)] = &[
        ("-c", "the configuration; in what measures, connections, as of ab and wrk"),
        ("-p", "the prefix; in what measures, the pipeline"),
        ("-t", "tests the configuration; in what measures, threads"),
        ("-T", "dumps the configuration; in what measures, a file to upload"),
        ("-u", "users, as of Locust; in what asks once, name and password as of curl"),
        ("--users", "one number in a scenario, several in a sweep"),
        ("--raw", "a file for each request; in get, the body as it came"),
        ("--json", "a file may be named where there are other reports"),
        ("--all", "everything that is stored; all manual pages"),
    ];

    /// An option is known by what it takes: the same letters take the same everywhere.
    #[test]
    fn the_same_option_means_the_same_everywhere() {
        let mut meanings: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        let takes = |arg: &Arg| match arg.get_value_names() {
            Some(names) if arg.get_action().takes_values() => names.join(" "),
            _ => String::new(),
        };
        for command in commands().iter().filter(|command| !is_old(command)) {
            for arg in command.get_arguments() {
                let id = arg.get_id().as_str().trim_end_matches('s').replace('_', "-");
                let meaning = format!("{id} {}", takes(arg));
                let short = arg.get_short().map(|letter| format!("-{letter}"));
                let long = arg.get_long().map(|name| format!("--{name}"));
                for option in short.into_iter().chain(long) {
                    meanings.entry(option).or_default().insert(meaning.clone(), name(command).to_owned());
                }
            }
        }
        let different: Vec<_> = meanings
            .iter()
            .filter(|(option, all)| all.len() > 1 && !OTHERWISE.iter().any(|(known, _)| known == option))
            .collect();
        assert!(different.is_empty(), "{different:#?}");
        let stale: Vec<_> = OTHERWISE
            .iter()
            .filter(|(option, _)| meanings.get(*option).is_none_or(|all| all.len() < 2))
            .collect();
        assert!(stale.is_empty(), "the same everywhere: {stale:?}");
    }
}
