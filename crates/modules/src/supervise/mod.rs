//! `supervise`: programs that the master process starts, watches and starts again: back ends that the user names.
//!
//! The module reads what is wanted; the master does it with what is left in the snapshot ([`Programs`]). Workers only tell how the programs
//! stand, by what the master says.

mod settings;

use brisk_conf::{Arity, Context, Diag, Directive, Risk};
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::module::{Module, Row};
use std::sync::Arc;

pub use settings::{Check, Health, Limit, Output, ProgramSpec, Restart};

/// `supervise`.
pub static MODULE: Module = Module { name: "supervise", rows: ROWS, ..Module::EMPTY };

static ROWS: &[Row] = &[directive("supervise")
    .doc("A program that the master process runs: command, user (else that of the worker, never root), directory, env, restart always | on_failure | never, health (tcp://, http:// or unix: with interval=, timeout=, fails=), start_timeout, stop_signal, stop_timeout, limit (nofile=, memory=, processes=, core=, cpu=), output (a level of the error log, or off). It is started with the configuration that names it, started again when it ends or does not answer, after pauses that grow, and ended when no configuration names it any more.")
    .in_(Context::MAIN)
    .arity(Arity::exactly(1).block())
    .takes("NAME { SETTING VALUE; ... }")
    .many()
    .definition()
    .risk(Risk::Security)
    .example("supervise shop { command /usr/bin/node /srv/shop/server.js; user www-data; health http://127.0.0.1:3000/health; }")
    .set(supervise)];

/// The programs of a configuration, for the process that starts them ([`Snapshot::data`]).
///
/// [`Snapshot::data`]: brisk_host::snapshot::Snapshot::data
#[derive(Default)]
pub struct Programs(pub Vec<Arc<ProgramSpec>>);

fn supervise(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let spec = settings::read(cx, d)?;
    let have = cx.global.data.iter().position(|data| data.is::<Programs>());
    let mut all = have.map_or_else(Vec::new, |at| {
        let before = cx.global.data.remove(at).downcast::<Programs>();
        before.map(|programs| programs.0.clone()).unwrap_or_default()
    });
    let is_double = all.iter().any(|other| other.name == spec.name);
    let name = spec.name.clone();
    all.push(Arc::new(spec));
    cx.global.data.push(Arc::new(Programs(all)));
    if is_double {
        return Err(Diag::emerg(d.span, format!("duplicate supervise \"{name}\""))
            .help("each program has a name of its own"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{config, errors};
    use std::path::PathBuf;
    use std::time::Duration;

    fn programs(text: &str) -> Vec<Arc<ProgramSpec>> {
        let (snap, messages) = config(&format!("{text} events {{}} http {{}}"));
        let snap = snap.unwrap_or_else(|| panic!("{messages:?}"));
        snap.data::<Programs>().map(|programs| programs.0.clone()).unwrap_or_default()
    }

    #[test]
    fn what_is_written_is_what_is_wanted() {
        let all = programs(
            "supervise a { command /bin/node 'my server.js' --port 1; user u g; directory /srv; env A=b=c; env B=; restart on_failure;
             health http://localhost:3000/up?x interval=10s timeout=1s fails=5; start_timeout 5s; stop_signal INT; stop_timeout 2s;
             limit nofile=64 memory=1g processes=9 core=0; output notice; }
             supervise b { command x; health unix:/run/b.sock; }
             supervise c { command x; health tcp://[::1]:80; output off; }",
        );
        let [a, b, c] = &all[..] else { panic!("{}", all.len()) };
        assert_eq!(a.command, ["/bin/node", "my server.js", "--port", "1"]);
        assert_eq!((a.user.as_deref(), a.group.as_deref()), (Some("u"), Some("g")));
        assert_eq!(a.directory.as_deref(), Some("/srv"));
        assert_eq!(a.environment, [("A".to_string(), "b=c".to_string()), ("B".to_string(), String::new())]);
        assert_eq!(
            (a.restart, a.output),
            (Restart::OnFailure, Output::At(brisk_server::core::LogLevel::Notice))
        );
        let health = a.health.as_ref().unwrap();
        let check = Check::Http {
            address: "127.0.0.1:3000".parse().unwrap(),
            host: "localhost:3000".into(),
            target: "/up?x".into(),
        };
        assert_eq!((&health.check, health.fails), (&check, 5));
        assert_eq!((health.interval, health.timeout), (Duration::from_secs(10), Duration::from_secs(1)));
        assert_eq!((a.start_timeout, a.stop_timeout), (Duration::from_secs(5), Duration::from_secs(2)));
        assert_eq!(a.stop_signal, rustix::process::Signal::INT);
        let limits = [(Limit::Files, 64), (Limit::Memory, 1 << 30), (Limit::Processes, 9), (Limit::Core, 0)];
        assert_eq!(a.limits, limits);
        assert_eq!(b.health.as_ref().unwrap().check, Check::Unix(PathBuf::from("/run/b.sock")));
        assert_eq!(b.restart, Restart::Always);
        assert_eq!(c.health.as_ref().unwrap().check, Check::Tcp("[::1]:80".parse().unwrap()));
        assert_eq!(c.output, Output::Off);
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let check = |text: &str, want: &str| {
            let all = errors(&format!("{text} events {{}} http {{}}"));
            assert_eq!(all.first().map(String::as_str), Some(want), "{text}");
        };
        check("supervise a { }", "supervise \"a\" has no command");
        check("supervise a { command x; } supervise a { command x; }", "duplicate supervise \"a\"");
        check("supervise a/b { command x; }", "invalid name \"a/b\" of a program");
        check("supervise a { command x; command y; }", "\"command\" directive is duplicate");
        check("supervise a { command x; color red; }", "unknown setting \"color\" of supervise");
        check("supervise a { command x { } }", "unexpected \"{\"");
        check("supervise a { command x; env A; }", "invalid value \"A\" of \"env\"");
        check("supervise a { command x; restart often; }", "invalid value \"often\"");
        check(
            "supervise a { command x; health 127.0.0.1:80; }",
            "invalid value \"127.0.0.1:80\" of \"health\"",
        );
        check(
            "supervise a { command x; health http://example.org/; }",
            "invalid value \"http://example.org/\" of \"health\"",
        );
        check(
            "supervise a { command x; health tcp://127.0.0.1; }",
            "invalid value \"tcp://127.0.0.1\" of \"health\"",
        );
        check(
            "supervise a { command x; health tcp://127.0.0.1:1 fails=0; }",
            "invalid parameter \"fails=0\"",
        );
        check("supervise a { command x; stop_signal STOP; }", "invalid value \"STOP\"");
        check("supervise a { command x; stop_timeout 0; }", "invalid value \"0\" of \"stop_timeout\"");
        check("supervise a { command x; limit nofile=many; }", "invalid parameter \"nofile=many\"");
        check("supervise a { command x; user a b c; }", "invalid number of arguments in \"user\"");
        check("supervise a { command x; user root; }", "supervise \"a\" would run as root");
        let inside = errors("events {} http { supervise a { command x; } }");
        assert_eq!(inside.first().map(String::as_str), Some("\"supervise\" directive is not allowed here"));
    }
}
