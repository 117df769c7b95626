//! `brisk httpd`: Apache's command line, and its configuration as it is.

use crate::config::{self, Paths};
use crate::options::Options;
use crate::{control, launch};
use brisk_cli::getopt::{self, Given, Long};
use brisk_cli::{Call, Entry};
use brisk_conf::{Level, SourceMap};
use brisk_load::output;
use brisk_modules::htaccess::own_files::{self, Arguments, Host, VERSION, modules};
use brisk_server::conf::Places;
use clap::{Arg, ArgAction, Command, ValueHint};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// `brisk httpd`.
pub const HTTPD: Entry = Entry { name: "httpd", define: definition, run: main, inner: &[], usage_code: 1 };

/// What `-k` takes, and the signal that it is here.
const ORDERS: [(&str, &str); 5] = [
    ("start", ""),
    ("stop", "stop"),
    ("graceful-stop", "quit"),
    ("restart", "reload"),
    ("graceful", "reload"),
];

/// Files that are looked for where none is named.
const USUAL: [&str; 3] =
    ["/etc/apache2/apache2.conf", "/etc/httpd/conf/httpd.conf", "/usr/local/apache2/conf/httpd.conf"];

/// Apache's configuration where packages put it, if it is there.
pub fn usual() -> Option<String> {
    USUAL.iter().find(|file| Path::new(file).is_file()).map(|file| (*file).to_owned())
}

fn definition() -> Command {
    let flag = |id: &'static str, letter: char, help: &'static str| {
        Arg::new(id).short(letter).action(ArgAction::SetTrue).help(help)
    };
    let option = |id: &'static str, letter: char, value: &'static str, help: &'static str| {
        Arg::new(id).short(letter).value_name(value).help(help)
    };
    Command::new("httpd")
        .about("Serves a configuration of Apache as it is")
        .disable_help_flag(true)
        .arg(option("conf", 'f', "FILE", "The configuration [default: Debian's /etc/apache2/apache2.conf, else httpd.conf]").value_hint(ValueHint::FilePath))
        .arg(option("root", 'd', "DIR", "ServerRoot until the file names one").value_hint(ValueHint::DirPath))
        .arg(option("define", 'D', "NAME", "Defines a name for <IfDefine>; FOREGROUND keeps the server in the foreground"))
        .arg(option("before", 'C', "LINE", "A directive that stands before the file"))
        .arg(option("after", 'c', "LINE", "A directive that stands behind the file"))
        .arg(option("order", 'k', "ORDER", "start, stop, graceful-stop, restart or graceful (both reload without losing a request)"))
        .arg(option("level", 'e', "LEVEL", "Accepted; what goes wrong at the start is always shown"))
        .arg(option("error_log", 'E', "FILE", "The error log until the configuration names one").value_hint(ValueHint::FilePath))
        .arg(flag("test", 't', "Test the configuration and exit"))
        .arg(flag("hosts", 'S', "Show the virtual hosts"))
        .arg(flag("one", 'X', "One process, in the foreground"))
        .arg(flag("version", 'v', "Print the version"))
        .arg(flag("build", 'V', "Print the version and where files are looked for"))
        .arg(flag("modules", 'l', "Print the modules that are always there"))
        .arg(flag("loaded", 'M', "Print the modules of Apache's that Brisk stands for"))
        .arg(flag("help", 'h', "Print help").long("help"))
        .after_help("Modules named by LoadModule are Brisk's own; their paths do not count. docs/apache.md says what differs.")
}

/// What the command line says.
#[derive(Default)]
struct Wishes {
    conf: Option<String>,
    root: Option<String>,
    defines: Vec<String>,
    before: Vec<String>,
    after: Vec<String>,
    order: Option<String>,
    error_log: Option<String>,
    topics: Vec<String>,
}

fn main(call: &Call<'_>) -> i32 {
    let wishes = match read(call.args) {
        Ok(wishes) => wishes,
        Err(message) => {
            output::note(format_args!("brisk httpd: {message}"));
            call.hint_help();
            return 1;
        }
    };
    let asks = |topic: &str| wishes.topics.iter().any(|asked| asked == topic);
    if asks("help") {
        return call.show_help();
    }
    let paths = paths(&wishes);
    for topic in ["version", "build", "modules", "loaded"] {
        if asks(topic) {
            output::print(about(topic, paths.as_ref()));
            return 0;
        }
    }
    let Some(paths) = paths else {
        output::note(format_args!(
            "brisk httpd: there is no configuration at {}: name one with -f",
            USUAL.join(", ")
        ));
        return 1;
    };
    if asks("test") || asks("hosts") {
        return test(&paths, asks("hosts"));
    }
    let order = wishes.order.as_deref().unwrap_or("start");
    match ORDERS.iter().find(|(name, _)| *name == order) {
        None => {
            let names: Vec<&str> = ORDERS.iter().map(|(name, _)| *name).collect();
            output::note(format_args!("brisk httpd: -k {order}: it is one of {}", names.join(", ")));
            1
        }
        Some((_, "")) => launch::run(&paths),
        Some((_, signal)) => control::send(&paths, signal, None),
    }
}

fn read(args: &[String]) -> Result<Wishes, String> {
    let mut wishes = Wishes::default();
    for given in getopt::read(&definition(), args, Long::Whole).map_err(|fault| fault.to_string())? {
        let (id, value) = match given {
            Given::Option(id, value) => (id, value),
            Given::Word(word) => return Err(format!("invalid argument \"{word}\"")),
        };
        match id.as_str() {
            "conf" => wishes.conf = Some(value),
            "root" => wishes.root = Some(value),
            "define" => wishes.defines.push(value),
            "before" => wishes.before.push(value),
            "after" => wishes.after.push(value),
            "order" => wishes.order = Some(value),
            "error_log" => wishes.error_log = Some(value),
            "level" => {}
            _ => wishes.topics.push(id),
        }
    }
    Ok(wishes)
}

/// Which configuration is meant; `None`: there is none.
fn paths(wishes: &Wishes) -> Option<Paths> {
    let here = std::env::current_dir().map_or_else(|_| "/".into(), |dir| dir.display().to_string());
    let whole = |path: &str, from: &str| {
        if path.starts_with('/') { path.to_string() } else { format!("{from}/{path}") }
    };
    let root = wishes.root.as_deref().map(|root| whole(root, &here));
    let conf = match (&wishes.conf, &root) {
        // Apache: a relative file begins at ServerRoot.
        (Some(conf), root) => whole(conf, root.as_deref().unwrap_or(&here)),
        (None, Some(root)) => ["apache2.conf", "conf/httpd.conf"]
            .map(|name| format!("{root}/{name}"))
            .into_iter()
            .find(|path| Path::new(path).exists())?,
        (None, None) => USUAL.iter().find(|path| Path::new(path).exists())?.to_string(),
    };
    let folder = crate::bundle::folder(&conf);
    let root = root.unwrap_or_else(|| folder.trim_end_matches("/conf/").trim_end_matches('/').to_string());
    let defines = wishes.defines.clone();
    let is_alone = wishes.topics.iter().any(|topic| topic == "one");
    let stays = is_alone || defines.iter().any(|name| name == "FOREGROUND" || name == "NO_DETACH");
    let globals = match (is_alone, stays) {
        (true, _) => "daemon off; master_process off;",
        (_, true) => "daemon off;",
        _ => "",
    };
    let options = Options {
        prefix: Some(root.clone()),
        conf: Some(conf),
        error_log: wishes.error_log.clone(),
        globals: globals.into(),
        test: wishes.topics.iter().any(|topic| topic == "test"),
        ..Options::default()
    };
    let mut paths = Paths::new(&options);
    if rustix::process::geteuid().is_root() {
        let of = |place: &str| format!("{place}/brisk/");
        paths.env.places =
            Places { state: of("/var/lib"), cache: of("/var/cache"), logs: of("/var/log"), run: of("/run") };
    }
    let has_ipv6 = std::fs::read_to_string("/proc/net/if_inet6").is_ok_and(|text| !text.is_empty());
    let (env, exported) = environment(&folder);
    let (before, after) = (wishes.before.clone(), wishes.after.clone());
    paths.apache = Some(Arc::new(Arguments {
        root,
        defines,
        before,
        after,
        env,
        exported,
        has_ipv6,
        is_included: false,
    }));
    Some(paths)
}

/// The configuration in a file, without a command line; `None`: there is none.
pub fn of_file(file: &str) -> Option<Paths> {
    let here = std::env::current_dir().map_or_else(|_| "/".into(), |dir| dir.display().to_string());
    let conf = if file.starts_with('/') { file.to_string() } else { format!("{here}/{file}") };
    if !Path::new(&conf).exists() {
        return None;
    }
    paths(&Wishes { conf: Some(conf), ..Wishes::default() })
}

/// The environment; where it lacks what Debian's `envvars` beside the file exports, that. And the names that it exports.
fn environment(folder: &str) -> (BTreeMap<String, String>, Vec<String>) {
    let mut all: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let text = std::fs::read_to_string(format!("{folder}envvars")).unwrap_or_default();
    let mut exported = Vec::new();
    for (name, value) in own_files::exports(&text) {
        exported.push(name.clone());
        all.entry(name).or_insert(value);
    }
    (all, exported)
}

fn about(topic: &str, paths: Option<&Paths>) -> String {
    let [major, minor, patch] = VERSION;
    let mut out = String::new();
    match topic {
        "modules" => out.push_str("Compiled in modules:\n  core.c\n  mod_so.c\n  http_core.c\n"),
        "loaded" => {
            out.push_str("Modules of Apache that Brisk stands for (LoadModule switches them on):\n");
            for module in modules::all() {
                let _ = writeln!(out, " {module}_module (static)");
            }
        }
        _ => {
            let own = env!("CARGO_PKG_VERSION");
            let _ = writeln!(out, "Server version: Apache/{major}.{minor}.{patch} (Brisk/{own})");
            let _ =
                writeln!(out, "Server built:   Brisk {own}, which follows Apache {major}.{minor}.{patch}");
            if topic == "build" {
                let conf = paths.map_or(USUAL[0], |paths| &paths.conf);
                let root = paths
                    .as_ref()
                    .and_then(|paths| paths.apache.as_ref())
                    .map_or("/etc/apache2", |a| &a.root);
                let _ = writeln!(
                    out,
                    "Server MPM:     event\n  threaded:     yes (fixed thread count)\n    forked:     no"
                );
                let _ = writeln!(out, " -D HTTPD_ROOT=\"{root}\"\n -D SERVER_CONFIG_FILE=\"{conf}\"");
            }
        }
    }
    out
}

/// `-t` and `-S`.
fn test(paths: &Paths, shows_hosts: bool) -> i32 {
    let outcome = config::load(paths);
    for (level, text) in outcome.messages() {
        if level <= Level::Notice {
            output::note(format_args!("brisk httpd: {text}"));
        }
    }
    if outcome.loaded.is_none() {
        return 1;
    }
    if shows_hosts && let Some(arguments) = &paths.apache {
        let loader = crate::bundle::DiskLoader::new(&paths.env.conf_prefix);
        let mut sources = SourceMap::default();
        let told = own_files::read(Some(&paths.conf), &loader, &mut sources, arguments, &mut Vec::new());
        output::print(picture(&told.hosts, arguments));
        return 0;
    }
    output::note(format_args!("Syntax OK"));
    0
}

/// The virtual hosts as Apache shows them.
fn picture(hosts: &[Host], arguments: &Arguments) -> String {
    let mut out = String::from("VirtualHost configuration:\n");
    let mut addresses: Vec<&str> = Vec::new();
    for host in hosts {
        if !addresses.contains(&host.address.as_str()) {
            addresses.push(&host.address);
        }
    }
    let name = |host: &Host| if host.name.is_empty() { "localhost".to_string() } else { host.name.clone() };
    for address in addresses {
        let here: Vec<&Host> =
            hosts.iter().filter(|host| host.address == *address && !host.place.is_empty()).collect();
        let Some(first) = here.first() else { continue };
        if here.len() == 1 && first.aliases.is_empty() {
            let _ = writeln!(out, "{address:<22} {} ({})", name(first), first.place);
            continue;
        }
        let _ = writeln!(out, "{address:<22} is a NameVirtualHost");
        let _ = writeln!(out, "         default server {} ({})", name(first), first.place);
        let port = address.rsplit(':').next().unwrap_or_default();
        for host in here {
            let _ = writeln!(out, "         port {port} namevhost {} ({})", name(host), host.place);
            for alias in &host.aliases {
                let _ = writeln!(out, "                 alias {alias}");
            }
        }
    }
    let _ = writeln!(out, "ServerRoot: \"{}\"", arguments.root);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_apaches() {
        let args = |line: &str| line.split(' ').map(str::to_string).collect::<Vec<_>>();
        let wishes = read(&args("-d /r -f conf/httpd.conf -D APACHE2 -DFOREGROUND -k start -t")).unwrap();
        assert_eq!(wishes.defines, ["APACHE2", "FOREGROUND"]);
        let paths = paths(&wishes).unwrap();
        assert_eq!((paths.conf.as_str(), paths.globals.as_str()), ("/r/conf/httpd.conf", "daemon off;"));
        assert!(read(&args("-x")).is_err() && read(&args("start")).is_err());
    }

    #[test]
    fn hosts_are_shown_as_apache_shows_them() {
        let host = |address: &str, name: &str, alias: &[&str]| Host {
            address: address.into(),
            name: name.into(),
            aliases: alias.iter().map(ToString::to_string).collect(),
            place: "/a.conf:1".into(),
        };
        let hosts = [host("*:80", "a", &["w.a"]), host("*:80", "b", &[]), host("*:443", "c", &[])];
        let text = picture(&hosts, &Arguments { root: "/r".into(), ..Arguments::default() });
        assert_eq!(
            text,
            "VirtualHost configuration:\n*:80                   is a NameVirtualHost\n         default server a (/a.conf:1)\n         port 80 namevhost a (/a.conf:1)\n                 alias w.a\n         port 80 namevhost b (/a.conf:1)\n*:443                  c (/a.conf:1)\nServerRoot: \"/r\"\n"
        );
    }
}
