//! `state`: the servers of a group in a file, so that what was changed while the server ran is still there later.
//!
//! The file is read by the parser of configurations, and written by the server alone. It is read when a group is made: a reload
//! keeps the servers that the group has. A file that cannot be read is never overwritten.

use super::server::{self, Place};
use brisk_balance::{Endpoint, ServerSpec};
use brisk_conf::{Diag, NoFiles, SourceMap, Token, os_text};
use brisk_net::replace::replace;
use brisk_server::conf::Cx;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The file of one upstream.
pub(super) struct Kept {
    pub path: String,
    /// What was in it when the configuration was read.
    at_start: Vec<ServerSpec>,
    file: Mutex<File>,
    /// Held while it is written: two writers could leave the older state.
    turn: Arc<Mutex<()>>,
}

/// Who writes a file takes turns with all others who do: a configuration and the one before it, or groups that name the same file.
fn turn(path: &str) -> Arc<Mutex<()>> {
    static TURNS: Mutex<BTreeMap<String, Weak<Mutex<()>>>> = Mutex::new(BTreeMap::new());
    let mut turns = locked(&TURNS);
    if let Some(turn) = turns.get(path).and_then(Weak::upgrade) {
        return turn;
    }
    // Files of configurations that are gone.
    turns.retain(|_, turn| turn.strong_count() > 0);
    let turn = Arc::default();
    turns.insert(path.to_string(), Arc::downgrade(&turn));
    turn
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of the file.
enum File {
    /// Everything that is in it is in the group, too.
    Known,
    /// Why it could not be read when the group was made: there may be servers in it that the group has not.
    Unread(String),
}

/// What a file says.
#[derive(Debug, Default)]
struct Contents {
    servers: Vec<ServerSpec>,
    /// Lines that say something else.
    strange: Vec<String>,
}

impl Kept {
    /// Reads the file for a configuration that is being built. One that is not there yet has no servers; one that cannot be read
    /// is an error.
    pub fn new(cx: &mut Cx<'_, '_>, token: &Token) -> Result<Kept, Diag> {
        let path = cx.full_path(token.str());
        // Through the loader: the process that reads the configuration may wait for the disk, and says what is wrong in time.
        let found = contents(&path, cx.global.loader.read(&path).map(|text| text.to_vec()));
        let found = found.map_err(|why| {
            Diag::emerg(token.span, why).help("mend the file, or move it away: then the group has no servers")
        })?;
        for line in &found.strange {
            cx.warn(Diag::warn(token.span, format!("\"{line}\" in \"{path}\" is no server")).help(
                "the line is left out, and is gone from the file with the next change of the group's servers",
            ));
        }
        Ok(Kept::of(path, found.servers))
    }

    fn of(path: String, at_start: Vec<ServerSpec>) -> Kept {
        let turn = turn(&path);
        Kept { path, at_start, file: Mutex::new(File::Known), turn }
    }

    fn file(&self) -> MutexGuard<'_, File> {
        locked(&self.file)
    }

    /// The servers in the file as it is now, for a group that is made: another process may have changed them since the
    /// configuration was read. May wait for a disk.
    pub fn read(&self) -> Vec<ServerSpec> {
        match contents(&self.path, std::fs::read(&self.path)) {
            Ok(found) => found.servers,
            Err(why) => {
                *self.file() = File::Unread(why);
                self.at_start.clone()
            }
        }
    }

    /// Why the file could not be read, if it could not.
    pub fn complaint(&self) -> Option<String> {
        match &*self.file() {
            File::Known => None,
            File::Unread(why) => Some(why.clone()),
        }
    }

    /// Writes the servers that there are then; the file is replaced as a whole. May wait for a disk.
    pub fn write(&self, servers: impl FnOnce() -> Vec<ServerSpec>) -> io::Result<()> {
        let _turn = locked(&self.turn);
        if let File::Unread(why) = &*self.file() {
            return Err(io::Error::other(format!(
                "it is not overwritten, since it could not be read: {why}"
            )));
        }
        // Asked for in turn: the last writer has seen all changes.
        let text = text(&servers())?;
        // Cut down by the umask. A rename, so that a server that dies leaves either state.
        replace(Path::new(&self.path), text.as_bytes(), 0o666)
    }
}

/// What a file says whose bytes were asked for; the error says why that is not known.
fn contents(path: &str, read: io::Result<Vec<u8>>) -> Result<Contents, String> {
    match read {
        Ok(text) => parse(path, text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Contents::default()),
        Err(error) => Err(format!("open() \"{path}\" failed ({})", os_text(&error))),
    }
}

fn parse(path: &str, text: Vec<u8>) -> Result<Contents, String> {
    let mut sources = SourceMap::default();
    let file = sources.add(path, text);
    let mut diags = Vec::new();
    // No includes: the file is data.
    let tree = brisk_conf::parse(&mut sources, file, &NoFiles, &mut diags);
    // What stands behind a quote that does not end is not known.
    if let Some(diag) = diags.iter().find(|diag| diag.is_error()) {
        let line = diag.span.map_or(0, |span| sources.end_line(span));
        return Err(format!("{} in {path}:{line}", diag.message));
    }
    let mut found = Contents::default();
    for line in &tree {
        let words = || line.args.iter().map(Token::str);
        match spec(words()) {
            Some(spec) if line.name() == "server" && line.block.is_none() => found.servers.push(spec),
            _ => {
                let all: Vec<&str> = [line.name()].into_iter().chain(words()).collect();
                found.strange.push(all.join(" "));
            }
        }
    }
    Ok(found)
}

/// One server from its words; `None` if they are not understood.
fn spec<'t>(mut words: impl Iterator<Item = &'t str>) -> Option<ServerSpec> {
    let address = words.next()?;
    let mut spec = ServerSpec::new(address, Vec::new());
    let mut resolve = false;
    for word in words {
        let (name, text) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "weight" => spec.weight = text.parse().ok().filter(|&weight: &u32| weight > 0)?,
            "max_conns" => spec.max_conns = text.parse().ok()?,
            "max_fails" => spec.max_fails = text.parse().ok()?,
            "fail_timeout" => {
                spec.fail_timeout_secs = brisk_conf::value::parse_time(text.as_bytes(), true)?;
            }
            "slow_start" => spec.slow_start_ms = brisk_conf::value::parse_time(text.as_bytes(), false)?,
            "route" => spec.route = Some(text.into()),
            "service" => spec.service = Some(text.into()),
            "backup" => spec.backup = true,
            "down" => spec.down = true,
            "drain" => spec.drain = true,
            "resolve" => resolve = true,
            _ => return None,
        }
    }
    place(&mut spec, resolve).then_some(spec)
}

/// Fills in where a server is; false if it has neither an address nor a name to be looked up.
pub fn place(spec: &mut ServerSpec, resolve: bool) -> bool {
    let Ok(place) = server::place(&spec.server) else { return false };
    match place {
        Place::Unix(path) => spec.endpoints = vec![Endpoint::Unix(path)],
        Place::Ip(ip, port) => spec.endpoints = vec![Endpoint::Ip(SocketAddr::new(ip, port.unwrap_or(80)))],
        Place::Name(host, _) if resolve => spec.host = Some(host.into()),
        Place::Name(..) => return false,
    }
    true
}

/// Whether a text can stand in the file as a word, or as the end of one: nothing in it ends the word, or begins something else.
pub fn is_word(text: &str) -> bool {
    let ends = |c: char| {
        c.is_whitespace() || c.is_control() || matches!(c, ';' | '{' | '}' | '"' | '\'' | '$' | '#' | '\\')
    };
    !text.is_empty() && !text.contains(ends)
}

fn text(servers: &[ServerSpec]) -> io::Result<String> {
    let mut text = String::new();
    for spec in servers {
        let words = [Some(&spec.server), spec.route.as_ref(), spec.service.as_ref()];
        // Quoted lines of a file that somebody else has written: better the file as it is than one that says something else.
        if let Some(word) = words.into_iter().flatten().find(|word| !is_word(word)) {
            return Err(io::Error::other(format!("\"{word}\" cannot be written as a word")));
        }
        line(&mut text, spec);
    }
    Ok(text)
}

fn line(out: &mut String, spec: &ServerSpec) {
    // Writing to a string cannot fail.
    let _ = write!(out, "server {}", spec.server);
    let plain = ServerSpec::new("", Vec::new());
    let numbers = [
        ("weight", u64::from(spec.weight), u64::from(plain.weight), ""),
        ("max_conns", u64::from(spec.max_conns), u64::from(plain.max_conns), ""),
        ("max_fails", u64::from(spec.max_fails), u64::from(plain.max_fails), ""),
        ("fail_timeout", spec.fail_timeout_secs, plain.fail_timeout_secs, "s"),
        ("slow_start", spec.slow_start_ms, plain.slow_start_ms, "ms"),
    ];
    // Only what differs from the default: the file is read by people, too.
    for (name, value, _, unit) in numbers.into_iter().filter(|(_, value, default, _)| value != default) {
        let _ = write!(out, " {name}={value}{unit}");
    }
    for (name, text) in [("route", &spec.route), ("service", &spec.service)] {
        if let Some(text) = text {
            let _ = write!(out, " {name}={text}");
        }
    }
    let flags = [
        ("backup", spec.backup),
        ("down", spec.down),
        ("drain", spec.drain),
        ("resolve", spec.host.is_some()),
    ];
    for (name, _) in flags.into_iter().filter(|(_, is_set)| *is_set) {
        let _ = write!(out, " {name}");
    }
    out.push_str(";\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Contents, String> {
        parse("file", text.as_bytes().to_vec())
    }

    #[test]
    fn what_is_written_is_read_again() {
        let lines = [
            "server 127.0.0.1:81;\n",
            "server 127.0.0.1:82 weight=5 max_conns=7 max_fails=0 fail_timeout=30s slow_start=1500ms route=a backup down;\n",
            "server unix:/tmp/s drain;\n",
            "server 127.0.0.1:83 down drain;\n",
            "server a.example service=http resolve;\n",
        ];
        let found = parsed(&lines.concat()).unwrap();
        assert_eq!((found.servers.len(), found.strange.len()), (5, 0));
        assert_eq!(text(&found.servers).unwrap(), lines.concat());
    }

    #[test]
    fn what_is_no_server_is_told() {
        let found = parsed(
            "server; server a.example; server b weight=0; listen 80; server 127.0.0.1 x; server 127.0.0.1;",
        );
        let found = found.unwrap();
        assert_eq!(
            found.strange,
            ["server", "server a.example", "server b weight=0", "listen 80", "server 127.0.0.1 x"]
        );
        assert_eq!(found.servers.len(), 1);
        assert_eq!(parsed("server 127.0.0.1 { }").unwrap().strange, ["server 127.0.0.1"]);
        // What does not end may hide servers.
        for text in ["server 127.0.0.1; server", "server 127.0.0.1; server 'a;", "server 127.0.0.1; }"] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn nothing_in_a_word_ends_it() {
        for word in ["a b", "a;", "a{", "a}", "\"a", "a'", "a$b", "#a", "a\\", "a\n", "a\0", ""] {
            assert!(!is_word(word), "{word}");
            for which in 0..3 {
                let mut spec = ServerSpec::new("127.0.0.1:1", Vec::new());
                match which {
                    0 => spec.server = word.into(),
                    1 => spec.route = Some(word.into()),
                    _ => spec.service = Some(word.into()),
                }
                assert!(text(&[spec]).is_err(), "{word}");
            }
        }
        assert!(is_word("unix:/run/a.sock") && is_word("[::1]:80"));
    }

    /// Two configurations have a file at the same time while the older one is given up.
    #[test]
    fn a_file_has_one_writer_at_a_time_whatever_configuration_it_is_of() {
        let kept = |path: &str| Kept::of(path.to_string(), Vec::new());
        let (old, new, other) = (kept("/no/state"), kept("/no/state"), kept("/no/other"));
        assert!(Arc::ptr_eq(&old.turn, &new.turn) && !Arc::ptr_eq(&old.turn, &other.turn));
        drop((old, new));
        let _third = kept("/no/third");
        assert!(Arc::strong_count(&kept("/no/state").turn) == 1, "what is gone is forgotten");
    }

    /// A disk that fails once must not cost the servers.
    #[test]
    fn a_file_that_cannot_be_read_is_not_overwritten() {
        let folder = std::env::temp_dir().join(format!("brisk-state-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let kept = |path: &Path| {
            Kept::of(path.display().to_string(), vec![ServerSpec::new("127.0.0.1:1", Vec::new())])
        };
        let path = folder.join("state");
        let good = kept(&path);
        assert!(good.read().is_empty() && good.complaint().is_none(), "it is not there yet");
        good.write(|| vec![ServerSpec::new("127.0.0.1:2", Vec::new())]).unwrap();
        assert_eq!(good.read().len(), 1);
        std::fs::write(&path, "server 127.0.0.1:2; server 'a").unwrap();
        let bad = kept(&path);
        assert_eq!(&*bad.read()[0].server, "127.0.0.1:1");
        assert!(bad.complaint().is_some() && bad.write(Vec::new).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "server 127.0.0.1:2; server 'a");
        // A folder in its place.
        let bad = kept(&folder);
        assert_eq!(bad.read().len(), 1);
        assert!(bad.complaint().is_some_and(|why| why.contains("failed (21: Is a directory)")));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
