//! Where an `access_log` writes, and how long it keeps lines back.

use brisk_conf::{Diag, Token, os_text, value};
use brisk_net::file::{Kind, Symlinks};
use brisk_server::conf::{Cx, LogId, LogTarget};
use brisk_server::files::{Deps, Found};
use brisk_server::log::{
    Buffering, ErrorLogs, LogBuffers, LogLevel, NamedCache, NamedLine, Pack, Syslog, logs_of,
};
use brisk_server::path;
use brisk_server::request::Request;
use brisk_server::vars::{Context, Part, Template};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// nginx's default with `gzip`: members of single lines would be larger than the lines.
const GZIP_BUFFER_BYTES: u64 = 64 << 10;

/// Where lines go.
#[derive(Clone)]
pub enum To {
    Log { log: LogId, buffering: Option<Arc<Buffering>> },
    Named(Arc<NamedLog>),
}

/// `buffer=`, `flush=`, `gzip=`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Keeping {
    bytes: u64,
    flush: Duration,
    level: Option<u32>,
}

impl Keeping {
    /// Takes a parameter; false if it is about something else.
    pub fn read(&mut self, token: &Token) -> Result<bool, Diag> {
        let bad = |what: &str, text: &str| Diag::emerg(token.span, format!("invalid {what} \"{text}\""));
        let part = |text: &str| Token { value: text.as_bytes().into(), span: token.span, quoted: false };
        match token.str().split_once('=') {
            Some(("buffer", text)) => {
                let bytes = value::size(&part(text)).ok().filter(|&bytes| bytes > 0);
                self.bytes = bytes.ok_or_else(|| bad("buffer size", text))?;
            }
            Some(("flush", text)) => {
                // 0 would be a timer that never rests.
                let time = value::msec(&part(text)).ok().filter(|time| !time.is_zero());
                self.flush = time.ok_or_else(|| bad("flush time", text))?;
            }
            Some(("gzip", text)) => {
                let level = value::number(&part(text)).ok().filter(|level| (1..=9).contains(level));
                self.level = Some(level.ok_or_else(|| bad("compression level", text))? as u32);
            }
            None if token.str() == "gzip" => self.level = Some(1),
            _ => return Ok(false),
        }
        if self.level.is_some() && self.bytes == 0 {
            self.bytes = GZIP_BUFFER_BYTES;
        }
        Ok(true)
    }

    fn buffering(&self) -> Buffering {
        let pack = self.level.map(|level| -> Box<Pack> { Box::new(move |lines| gzip(lines, level)) });
        Buffering { bytes: usize::try_from(self.bytes).unwrap_or(usize::MAX), flush: self.flush, pack }
    }
}

/// A gzip member of its own: files of several are files as well (RFC 1952 §2.2).
fn gzip(lines: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(lines.len() / 4), Compression::new(level));
    // Writing to memory does not fail.
    let _ = encoder.write_all(lines);
    encoder.finish().unwrap_or_default()
}

/// Reads the place where an access log is to go.
pub fn parse(cx: &mut Cx<'_, '_>, token: &Token, keeping: &Keeping) -> Result<To, Diag> {
    let text = token.str();
    let bad = |text: &str| Diag::emerg(token.span, text);
    if keeping.bytes == 0 && !keeping.flush.is_zero() {
        return Err(bad(&format!("no buffer is defined for access_log \"{text}\"")).help("add buffer=SIZE"));
    }
    let target = if text == "stderr" {
        LogTarget::Stderr
    } else if let Some(text) = text.strip_prefix("syslog:") {
        if keeping.bytes > 0 {
            // A datagram is one message (RFC 3164): several lines in one would be one line of the log.
            return Err(bad("logs to syslog cannot be buffered"));
        }
        LogTarget::Syslog(Syslog::parse(text, &cx.global.env.hostname, cx.global.loader, token)?)
    } else if text.contains('$') {
        if keeping.bytes > 0 {
            // Any number of files, each with a buffer of its own, would be memory that clients choose.
            return Err(bad("buffered logs cannot have variables in name"));
        }
        let full = cx.full_path(text);
        let path = Template::parse_bytes(cx.names(), full.as_bytes(), token)?;
        // Opened when lines come, by the worker's user.
        return Ok(To::Named(Arc::new(NamedLog { path })));
    } else {
        LogTarget::File(cx.full_path(text))
    };
    let log = cx.global.log(target, Some(token.span));
    Ok(To::Log { log, buffering: buffering(cx, token, log, keeping)? })
}

/// How lines to this log are kept back: wherever it is named, the same.
fn buffering(
    cx: &mut Cx<'_, '_>,
    token: &Token,
    log: LogId,
    keeping: &Keeping,
) -> Result<Option<Arc<Buffering>>, Diag> {
    if keeping.bytes == 0 {
        return Ok(None);
    }
    // Lines of a file are kept back in one place, whichever block has written them: two sizes for it cannot
    // both hold.
    let key = ("log_buffer", log.0.to_string());
    let have = cx.global.named.get(&key).and_then(|have| have.downcast_ref::<(Keeping, Arc<Buffering>)>());
    match have {
        Some((others, _)) if others != keeping => {
            let text = format!("access_log \"{}\" already defined with conflicting parameters", token.text());
            Err(Diag::emerg(token.span, text))
        }
        Some((_, buffering)) => Ok(Some(buffering.clone())),
        None => {
            let buffering = Arc::new(keeping.buffering());
            cx.global.named.insert(key, Arc::new((keeping.clone(), buffering.clone())));
            Ok(Some(buffering))
        }
    }
}

/// A log whose name depends on the request.
pub struct NamedLog {
    path: Template,
}

impl NamedLog {
    /// Whether the name needs what a regular expression found.
    pub fn path(&self) -> &Template {
        &self.path
    }

    /// Writes a line, if the request's root folder exists: names of hosts that there are none of make no files.
    pub fn write(&self, r: &Request, cache: Option<&NamedCache>, line: &[u8]) {
        if let Some(path) = self.name(r)
            // nginx's rule; without it a client that sends any Host could fill the folder with files.
            && let Some(needs) = root_of(r)
        {
            let line = NamedLine { path: &path, text: line, needs: needs.unknown() };
            self.append(r, &r.thread.logs, cache, line, || logs_of(r));
        }
    }

    /// The file's name; none if values of variables lead out of its folder, which is logged.
    pub fn name<C: Context>(&self, of: &C) -> Option<String> {
        let path = self.path.eval(of);
        let text = std::str::from_utf8(&path).ok()?;
        if climbs(&self.path, &path) {
            of.log(LogLevel::Error, format_args!("the name of a log, \"{text}\", leads out of its folder"));
            return None;
        }
        Some(text.to_string())
    }

    /// Writes a line to the file of its name.
    pub fn append<C: Context>(
        &self,
        of: &C,
        logs: &LogBuffers,
        cache: Option<&NamedCache>,
        line: NamedLine<'_>,
        errors: impl FnOnce() -> ErrorLogs,
    ) {
        let name = line.path;
        if !logs.named.write(line, cache, errors) {
            of.log(
                LogLevel::Warn,
                format_args!("a line for the log \"{name}\" is lost: its disk is too slow"),
            );
        }
    }
}

/// Whether values of variables have brought `..` into a path.
fn climbs(template: &Template, path: &[u8]) -> bool {
    // Counted, not searched for: the configuration itself may say `..`.
    let ups = |path: &[u8]| path.split(|&b| b == b'/').filter(|part| *part == b"..").count();
    let text = |part: &Part| if let Part::Text(text) = part { text.to_vec() } else { b"x".to_vec() };
    let own: Vec<u8> = template.parts().iter().flat_map(text).collect();
    // A NUL would end the path for the kernel, and with it the folder or the ending that was configured.
    path.contains(&0) || ups(path) > ups(&own)
}

/// A request's root folder.
enum Root {
    There,
    /// Only the disk can tell.
    Unknown(PathBuf),
}

impl Root {
    fn unknown(self) -> Option<PathBuf> {
        match self {
            Root::There => None,
            Root::Unknown(path) => Some(path),
        }
    }
}

/// Looks for the request's root folder; `None` if it is not there, which is logged.
fn root_of(r: &Request) -> Option<Root> {
    let mut root = Vec::new();
    path::document_root(r, &mut root);
    let path = Path::new(OsStr::from_bytes(&root));
    let mut list = Vec::new();
    // The answer has been given: nothing depends on this look any more.
    let mut deps = Deps { list: &mut list, fetched: &[], asks_again: false, pure: true };
    let why = match r.thread.files.stat(path, Symlinks::Follow, &mut deps) {
        Ok(Found::Missing(error)) => os_text(&error),
        Ok(found) if found.info().is_some_and(|info| info.kind == Kind::Directory) => {
            return Some(Root::There);
        }
        Ok(_) => os_text(&std::io::ErrorKind::NotADirectory.into()),
        // A name that the kernel has not looked up lately, whether it is there or not.
        Err(_) => return Some(Root::Unknown(path.to_path_buf())),
    };
    brisk_server::rlog!(r, Error, "testing \"{}\" existence failed ({why})", path.display());
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_conf::{FileId, Span};
    use brisk_server::vars::Table;
    use std::io::Read as _;

    #[test]
    fn members_of_gzip_make_one_file() {
        let mut file = gzip(b"first\n", 1);
        file.extend(gzip(b"second\n", 9));
        let mut text = String::new();
        flate2::read::MultiGzDecoder::new(&file[..]).read_to_string(&mut text).unwrap();
        assert_eq!(text, "first\nsecond\n");
    }

    #[test]
    fn strangers_do_not_choose_the_folder() {
        let check = |template: &str, path: &str, want| {
            let span = Span { file: FileId(0), start: 0, end: 0 };
            let token = Token { value: template.as_bytes().into(), span, quoted: false };
            let template = Template::parse(&mut Table::default(), &token).unwrap();
            assert_eq!(climbs(&template, path.as_bytes()), want, "{path}");
        };
        check("/l/$host.log", "/l/a.log", false);
        check("/l/../$host.log", "/l/../a.log", false);
        check("/l/$arg_a", "/l/../etc", true);
        check("/l/$arg_a/x", "/l/a/../../x", true);
        check("/l/.$arg_a", "/l/..", true);
        check("/l/$arg_a", "/l/a\0", true);
        check("/l/$arg_a", "/l/a..b", false);
    }
}
