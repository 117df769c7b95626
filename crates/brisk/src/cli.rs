//! nginx's command line.

use crate::{config, control, launch, version};
use std::time::Duration;

/// The options of one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub prefix: Option<String>,
    pub conf: Option<String>,
    pub error_log: Option<String>,
    pub globals: String,
    pub test: bool,
    pub dump: bool,
    pub quiet: bool,
    pub signal: Option<String>,
    /// For `-s reload` and `-s reopen`.
    pub timeout: Option<Duration>,
    pub version: bool,
    pub configuration: bool,
    pub help: bool,
}

/// Runs the program as nginx would be run; gives the exit code.
pub fn main(args: &[String]) -> i32 {
    let options = match parse(args) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("brisk: {message}\nbrisk: `brisk -h` lists the options and commands");
            return 1;
        }
    };
    if options.help || options.version || options.configuration {
        inform(&options);
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
        return config::test(&paths, options.dump, options.quiet);
    }
    launch::run(&paths)
}

fn inform(options: &Options) {
    if options.help {
        eprint!("{}\n{HELP}", version::short());
    } else if options.configuration {
        eprint!("{}", version::long());
    } else {
        eprint!("{}", version::short());
    }
}

const HELP: &str = "\
Usage: brisk [-?hvVtTq] [-s signal] [-p prefix]
             [-e filename] [-c filename] [-g directives]
       brisk COMMAND ...       (brisk COMMAND --help says more)

Commands:
  serve [DIR]                               : serve a folder at once
  bench URL..., bench run|page|compare|diff : measure a server, a page, which of two is faster
  get URL, probe URL...                     : one exchange laid bare; pages watched at intervals
  ab, wrk, siege, httperf                   : the load generators of these names
  cache list|stats|purge|warm|why           : look into the caches of a running server
  upstream list|add|set|drain|remove        : see and change its groups of servers
  log                                       : its error log in memory
  directives [NAME], variables [NAME]       : what the configuration may hold
  coverage                                  : what becomes of each of nginx's directives

Options:
  -?,-h         : this help
  -v            : show version and exit
  -V            : show version and configure options then exit
  -t            : test configuration and exit
  -T            : test configuration, dump it and exit
  -q            : suppress non-error messages during configuration testing
  -s signal     : send signal to a master process: stop, quit, reopen, reload
  --timeout N   : how many seconds -s reload and -s reopen wait for the server (default: 30)
  -p prefix     : set prefix path (default: /etc/brisk/)
  -e filename   : set error log file (default: stderr before the configuration names one)
  -c filename   : set configuration file (default: brisk.conf, else nginx.conf, in the prefix)
  -g directives : set global directives out of configuration file
";

/// Parses nginx's options: letters may be joined, values may be glued or follow.
fn parse(args: &[String]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        // What other programs taught everybody.
        match arg.as_str() {
            "--help" | "help" => {
                options.help = true;
                continue;
            }
            "--version" => {
                options.version = true;
                continue;
            }
            "--timeout" => {
                let value = args.next().ok_or("option \"--timeout\" requires seconds")?;
                options.timeout = Some(seconds(value)?);
                continue;
            }
            text if let Some(value) = text.strip_prefix("--timeout=") => {
                options.timeout = Some(seconds(value)?);
                continue;
            }
            _ => {}
        }
        let Some(letters) = arg.strip_prefix('-') else {
            return Err(format!("invalid option: \"{arg}\""));
        };
        let mut rest = letters;
        while let Some(letter) = rest.chars().next() {
            rest = &rest[letter.len_utf8()..];
            match letter {
                '?' | 'h' => options.help = true,
                'v' => options.version = true,
                'V' => options.configuration = true,
                't' => options.test = true,
                'T' => (options.test, options.dump) = (true, true),
                'q' => options.quiet = true,
                's' | 'p' | 'e' | 'c' | 'g' => {
                    let glued = std::mem::take(&mut rest);
                    let value = if glued.is_empty() { args.next().cloned() } else { Some(glued.to_string()) };
                    set(&mut options, letter, value)?;
                }
                _ => return Err(format!("invalid option: \"{letter}\"")),
            }
        }
    }
    if options.timeout.is_some() && !matches!(options.signal.as_deref(), Some("reload" | "reopen")) {
        return Err("\"--timeout\" belongs to \"-s reload\" and \"-s reopen\"".into());
    }
    Ok(options)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let count = text.parse().ok().filter(|&count: &u64| count > 0);
    count.map(Duration::from_secs).ok_or_else(|| format!("invalid option: \"--timeout {text}\""))
}

fn set(options: &mut Options, letter: char, value: Option<String>) -> Result<(), String> {
    let needs = match letter {
        's' => "parameter",
        'p' => "directory name",
        'g' => "global directives",
        _ => "file name",
    };
    let value = value.ok_or_else(|| format!("option \"-{letter}\" requires {needs}"))?;
    match letter {
        'p' => options.prefix = Some(value),
        'e' => options.error_log = Some(value),
        'c' => options.conf = Some(value),
        'g' => options.globals = value,
        _ => {
            if !matches!(value.as_str(), "stop" | "quit" | "reopen" | "reload") {
                return Err(format!("invalid option: \"-s {value}\""));
            }
            options.signal = Some(value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Result<Options, String> {
        parse(&line.split(' ').map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn letters_may_be_joined_and_values_glued() {
        let options = check("-tq -c/etc/x.conf -p /srv -g daemon;").unwrap();
        assert!(options.test && options.quiet && !options.dump);
        assert_eq!(options.conf.as_deref(), Some("/etc/x.conf"));
        assert_eq!(options.prefix.as_deref(), Some("/srv"));
        assert_eq!(options.globals, "daemon;");
    }

    #[test]
    fn help_and_version_are_known_by_their_long_names() {
        assert!(check("--help").unwrap().help && check("help").unwrap().help);
        assert!(check("--version").unwrap().version);
    }

    #[test]
    fn unknown_options_are_named() {
        assert_eq!(check("-x"), Err("invalid option: \"x\"".into()));
        assert_eq!(check("start"), Err("invalid option: \"start\"".into()));
        assert_eq!(check("-s start"), Err("invalid option: \"-s start\"".into()));
        assert_eq!(check("-c"), Err("option \"-c\" requires file name".into()));
    }
}
