//! `directory_overrides`: directives that stand in a file of the folder whose files they are about.
//!
//! Owns which files are looked at and what may stand in them. How their directives are compiled, kept and swapped is
//! [`brisk_server::late`]'s; that a file has changed is told by the cache of files, as of any other that is served.

use crate::limits::{OVERRIDES_BYTES_MAX, OVERRIDES_DEPTH_MAX, OVERRIDES_QUIET_MS_MIN, OVERRIDES_WAITS_MAX};
use brisk_conf::{Arity, Context, Diag, Directive, Risk, value};
use brisk_net::clock;
use brisk_net::file::Info;
use brisk_server::conf::{Cx, Text};
use brisk_server::directive::directive;
use brisk_server::files::{Found, reason};
use brisk_server::flow::Flow;
use brisk_server::late::{self, Allows, OnFailure, Wanted};
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::path::{self, Mapped};
use brisk_server::plan::{Declared, Handler, Plan};
use brisk_server::request::Request;
use brisk_server::rlog;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub static MODULE: Module = Module {
    name: "directory_overrides",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    ..Module::EMPTY
};

static ROWS: &[Row] = &[directive("directory_overrides")
    .doc("Files of this name hold directives for their folder and those below, as if they stood in the location: of inner folders those of the inner file. They take effect when they are saved, and cost prepared answers nothing. What may stand there: headers (add_header, add_trailer, expires, default_type), index (index, autoindex and its format), access (allow, deny, satisfy, auth_basic), errors (error_page), rewrite (rewrite but with the flag break, return, if, set). A file with a mistake answers 500 for its folder, one that cannot be read 403.")
    .in_(Context::HSL)
    .arity(Arity::SOME)
    .takes("off | FILE CLASS ...")
    .default("off")
    .risk(Risk::Security)
    .example("directory_overrides .brisk headers index;")
    .set(set)];

/// The directives of each class, by the bits of [`WORDS`].
const CLASSES: [&[&str]; 5] = [
    &["add_header", "add_trailer", "expires", "default_type"],
    &["index", "autoindex", "autoindex_exact_size", "autoindex_format", "autoindex_localtime"],
    &["allow", "deny", "satisfy", "auth_basic"],
    &["error_page"],
    &["rewrite", "return", "if", "set"],
];

const WORDS: &[(&str, u32)] =
    &[("headers", 1), ("index", 1 << 1), ("access", 1 << 2), ("errors", 1 << 3), ("rewrite", 1 << 4)];

#[derive(Clone, Default)]
struct Conf {
    overrides: Option<Overrides>,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }

    fn must_enter(&self, into: Context) -> bool {
        into == Context::LATE
    }

    /// What stands in the files is not extended again.
    fn enter(&mut self, _: Context) -> bool {
        self.overrides = None;
        true
    }
}

fn set(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let (name, classes) = (d.arg(0), &d.args[1..]);
    if name.bytes() == b"off" && classes.is_empty() {
        cx.conf::<Conf>().overrides = None;
        return Ok(());
    }
    let is_name =
        !matches!(name.bytes(), b"" | b"." | b"..") && !name.bytes().iter().any(|b| b"/$\0".contains(b));
    if !is_name {
        return Err(Diag::emerg(name.span, format!("invalid file name \"{}\"", name.text()))
            .help("name a file without a folder and without variables, such as .brisk"));
    }
    if classes.is_empty() {
        return Err(Diag::emerg(d.span, "\"directory_overrides\" must say what the files may change")
            .help("name one or several of headers, index, access, errors, rewrite"));
    }
    let mut allowed = 0;
    for class in classes {
        allowed |= value::choice(class, WORDS)?;
    }
    let names = CLASSES.iter().zip(WORDS).filter(|(_, (_, bit))| allowed & bit != 0);
    let names: Vec<&'static str> = names.flat_map(|(names, _)| names.iter().copied()).collect();
    let help =
        format!("files of this name may have: {}; rewrite may not have the flag break", names.join(", "));
    cx.conf::<Conf>().overrides = Some(Overrides {
        file: name.bytes().into(),
        allows: Arc::new(move |row: &Row, d: &Directive| names.contains(&row.name) && !stays(d)),
        help: help.into(),
    });
    Ok(())
}

/// Whether a `rewrite` changes the URI without the location being looked for again: what the files of the folder that it then
/// leads to say of it would be left out.
fn stays(d: &Directive) -> bool {
    d.name() == "rewrite" && d.args.get(2).is_some_and(|flag| flag.bytes() == b"break")
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    if let Some(overrides) = &cx.conf_of::<Conf>().overrides {
        plan.is_extended_later = true;
        plan.preaccess.push(Arc::new(overrides.clone()));
    }
}

/// How often a request has waited for files that were being written.
#[derive(Default)]
struct Waits(u8);

/// One `directory_overrides`.
#[derive(Clone)]
struct Overrides {
    file: Box<[u8]>,
    allows: Arc<Allows>,
    help: Arc<str>,
}

impl Handler for Overrides {
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn handle(&self, r: &mut Request) -> Flow {
        let Some(mapped) = path::map(r, 0) else { return Flow::Status(404) };
        if mapped.bytes.ends_with(&self.file)
            && mapped.bytes[..mapped.bytes.len() - self.file.len()].ends_with(b"/")
        {
            return Flow::Status(404);
        }
        let folders = folders(&mapped);
        if folders.len() > OVERRIDES_DEPTH_MAX {
            rlog!(r, Error, "more than {OVERRIDES_DEPTH_MAX} folders lead to \"{}\"", shown(&mapped.bytes));
            return Flow::Status(404);
        }
        let (mut texts, mut last) = (Vec::new(), Box::default());
        for end in folders {
            let mut file = mapped.bytes[..end].to_vec();
            file.extend_from_slice(&self.file);
            match self.read(r, &mapped, &file) {
                Ok(Some(text)) => {
                    texts.push(Text { name: shown(&file).into(), text });
                    last = file.into();
                }
                Ok(None) => {}
                Err(flow) => return flow,
            }
        }
        if texts.is_empty() {
            return Flow::Next;
        }
        let (allows, help) = (self.allows.clone(), self.help.clone());
        let on_failure = OnFailure::Close;
        late::enter(r, Wanted { into: r.route.loc, name: last, texts, allows, help, on_failure })
    }
}

impl Overrides {
    /// The directives of one file; `None` if there is no such file.
    fn read(&self, r: &mut Request, mapped: &Mapped, file: &[u8]) -> Result<Option<Arc<[u8]>>, Flow> {
        let symlinks = path::symlinks(r, mapped);
        let found = match r.open_file(Path::new(OsStr::from_bytes(file)), symlinks)? {
            Found::File(found) => found,
            Found::Other(_) => return Err(refuse(r, file, "is no file", 500)),
            // ENOENT, ENOTDIR, ENAMETOOLONG: there is none, nor a file of the folder.
            Found::Missing(error) => match error.raw_os_error() {
                Some(2 | 20 | 36) => return Ok(None),
                Some(13 | 40) => return Err(refuse(r, file, &reason(&error), 403)),
                _ => return Err(refuse(r, file, &reason(&error), 500)),
            },
        };
        let Some(text) = found.content.clone().filter(|text| text.len() <= OVERRIDES_BYTES_MAX) else {
            return Err(refuse(r, file, &format!("is longer than {OVERRIDES_BYTES_MAX} bytes"), 500));
        };
        // A write between the look at the file's times and the reading of its text shows in its times now.
        let now = r.stat_file(Path::new(OsStr::from_bytes(file)), symlinks)?;
        let is_same = |now: &Info| {
            let of = |info: &Info| (info.device, info.inode, info.size, info.mtime, info.mtime_nsec);
            of(now) == of(&found.info)
        };
        let settles_in = match now.info() {
            Some(now) if is_same(now) => unsettled(now),
            _ => Some(Duration::from_millis(OVERRIDES_QUIET_MS_MIN as u64)),
        };
        if let Some(rest) = settles_in {
            let waits = r.state.visit.get_mut::<Waits>();
            waits.0 += 1;
            if waits.0 > OVERRIDES_WAITS_MAX {
                return Err(refuse(r, file, "is being written all the time", 500));
            }
            return Err(self.again(rest));
        }
        // Whoever truncates a file and then writes it shows less than he means in between.
        if !text.ends_with(b"\n") {
            return Err(refuse(r, file, "does not end with a line end and may be half-written", 500));
        }
        Ok(Some(text))
    }

    /// Asks once more after `rest`, when what was fetched for the request may be old.
    fn again(&self, rest: Duration) -> Flow {
        let overrides = self.clone();
        Flow::Wait(Box::new(move |r| {
            Box::pin(async move {
                brisk_net::sleep(rest).await;
                r.evidence.fetched.clear();
                r.thread.files.must_confirm();
                overrides.handle(r)
            })
        }))
    }
}

/// The ends of the folders that lead to a mapped path, from its root on, each behind its slash.
fn folders(mapped: &Mapped) -> Vec<usize> {
    let Some(last) = memchr::memrchr(b'/', &mapped.bytes) else { return Vec::new() };
    let has_slash = mapped.root_len > 0 && mapped.bytes[mapped.root_len - 1] == b'/';
    let first = (mapped.root_len - usize::from(has_slash)).min(last);
    let slashes = memchr::memchr_iter(b'/', &mapped.bytes[first..]).map(|at| first + at + 1);
    slashes.filter(|&end| mapped.bytes.get(end) != Some(&b'/')).collect()
}

/// How long a file is to be left alone yet: it was written just now, perhaps not to its end.
fn unsettled(info: &Info) -> Option<Duration> {
    let now = clock::now();
    let now_ms = now.unix_secs * 1000 + i64::from(now.unix_millis);
    let age_ms = now_ms - (info.mtime * 1000 + i64::from(info.mtime_nsec / 1_000_000));
    // A time that lies ahead tells nothing.
    let rest_ms = OVERRIDES_QUIET_MS_MIN - age_ms;
    (1..=2 * OVERRIDES_QUIET_MS_MIN).contains(&rest_ms).then(|| Duration::from_millis(rest_ms as u64))
}

fn refuse(r: &Request, file: &[u8], why: &str, status: u16) -> Flow {
    rlog!(r, Error, "\"{}\" {why}", shown(file));
    Flow::Status(status)
}

fn shown(path: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{http, messages_in_location};
    use brisk_server::conf::{LocationId, Rule, Snapshot, compile};

    #[test]
    fn folders_lead_from_the_root_to_the_file() {
        let check = |root: &str, tail: &str, want: &[&str]| {
            let bytes = format!("{root}{tail}").into_bytes();
            let mapped = Mapped { root_len: root.len(), bytes: bytes.clone() };
            let got: Vec<_> =
                folders(&mapped).into_iter().map(|end| shown(&bytes[..end]).into_owned()).collect();
            assert_eq!(got, want, "{root} {tail}");
        };
        check("/srv", "/", &["/srv/"]);
        check("/srv", "/a/b.txt", &["/srv/", "/srv/a/"]);
        check("/srv", "/a/b/", &["/srv/", "/srv/a/", "/srv/a/b/"]);
        check("/srv/", "a/b.txt", &["/srv/", "/srv/a/"]);
        check("/srv/file", "", &["/srv/"]);
        check("/srv", "/a//b", &["/srv/", "/srv/a//"]);
        check("", "/a", &["/"]);
        check("", "", &[]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        messages_in_location("directory_overrides off;", &[]);
        messages_in_location("directory_overrides .brisk headers access;", &[]);
        messages_in_location(
            "directory_overrides .brisk;",
            &["\"directory_overrides\" must say what the files may change"],
        );
        for name in ["a/b", "$uri", "..", "\"\""] {
            let text = format!("server {{ directory_overrides {name} headers; }}");
            let message = http(&text).err().expect("it is refused");
            assert!(message.starts_with("invalid file name"), "{message}");
        }
        messages_in_location("directory_overrides .brisk headers proxies;", &["invalid value \"proxies\""]);
    }

    fn location(snap: &Snapshot, name: &str) -> LocationId {
        let at = snap.locations.iter().position(|location| *location.name == *name.as_bytes());
        LocationId(at.expect("the location is in the configuration") as u32)
    }

    /// What becomes of a file's directives where everything may stand: the first lines of the errors.
    fn compiled(
        snap: &Snapshot,
        into: &str,
        texts: &[&str],
    ) -> Result<brisk_server::conf::Compiled, Vec<String>> {
        let texts: Vec<_> = texts
            .iter()
            .zip(1..)
            .map(|(text, at)| Text { name: format!("/srv/{at}/.brisk").into(), text: text.as_bytes().into() })
            .collect();
        compile(snap, location(snap, into), &texts, Rule { allows: &|_, _| true, help: "" })
    }

    const SITE: &str = "log_format short $uri; limit_req_zone $arg_a zone=one:1m rate=1r/s;
        upstream named { server 127.0.0.1:81; }
        server { listen 127.0.0.1:80; access_log /logs/a.log short;
            location / { directory_overrides .x headers; deny 192.0.2.1; add_header A a; try_files $uri =404; }
            location /pass { directory_overrides .x headers; proxy_pass http://named; }
            location /plain { } }";

    #[test]
    fn what_is_said_late_is_added_to_the_location() {
        let snap = http(SITE).unwrap();
        let late = compiled(&snap, "/", &["deny 192.0.2.2;\n", "set $late a; if ($arg_a) { return 204; }\n"]);
        let late = late.map_err(|errors| panic!("{errors:?}")).unwrap().snap;
        let made = late.late.as_ref().unwrap();
        assert_eq!((made.locations.len(), made.first.0 as usize), (2, snap.locations.len()));
        let plan = &late.location(made.first).plan;
        // try_files and the log are the location's, the rewrite script is the file's.
        assert_eq!((plan.precontent.len(), plan.access.len(), plan.log.len()), (1, 1, 1));
        assert!(plan.rewrite.is_some() && plan.preaccess.is_empty() && !plan.is_extended_later);
        let pass = compiled(&snap, "/pass", &["expires 1d;\n"]).ok().unwrap().snap;
        let pass = pass.location(pass.late.as_ref().unwrap().first);
        assert!(pass.plan.content.is_some(), "the location still passes requests on");
        // What stands at the start stays as it is.
        assert!(Arc::ptr_eq(&snap.locations, &late.locations) && snap.late.is_none());
    }

    #[test]
    fn what_needs_a_start_is_refused_by_name() {
        let snap = http(SITE).unwrap();
        let check = |text: &str, want: &str| {
            let errors = compiled(&snap, "/", &[text]).err().unwrap_or_else(|| panic!("accepted: {text}"));
            assert!(errors[0].contains(want), "{text}: {errors:?}");
        };
        check("access_log /logs/b.log;", "\"access_log\" needs a log that no other directive names");
        check("error_log /logs/b.log;", "\"error_log\" needs a log that no other directive names");
        check("proxy_pass http://127.0.0.1:82;", "\"http://127.0.0.1:82\" needs a group of back ends");
        check("listen 81;", "\"listen\" directive is not allowed here");
        check("limit_req_zone $arg_b zone=two:1m rate=1r/s;", "directive is not allowed here");
        check("location /in { }", "locations inside of a location");
        check("auth_jwt_key_file keys.json; auth_jwt x;", "files are read at a start only");
        check("include other;", "files are read at a start only");
        check("set $a $nosuch;", "unknown \"nosuch\" variable");
        check("add_header A", "unexpected end of file");
        for good in ["access_log /logs/a.log short;", "proxy_pass http://named;", "limit_req zone=one;"] {
            assert!(compiled(&snap, "/pass", &[good]).is_ok(), "{good}");
        }
        assert!(compiled(&snap, "/plain", &["expires 1d;"]).is_err(), "nobody has asked for it there");
    }

    /// A value that a request brings from one file's directives to another's keeps its name.
    #[test]
    fn variables_have_one_number_in_all_that_is_compiled_late() {
        let snap = http(SITE).unwrap();
        let number = |text: &str, name: &str| {
            let late = compiled(&snap, "/", &[text]).map_err(|errors| panic!("{errors:?}")).unwrap().snap;
            late.vars.number(name)
        };
        let one = number("set $one 1; set $two $one;\n", "one");
        assert!(one.is_some());
        assert_eq!(number("set $two 2; set $three 3; set $one $two;\n", "one"), one);
        assert_ne!(number("set $two 2;\n", "two"), one);
        assert_eq!(number("set $two 2;\n", "one"), None, "what one file defines is not known to others");
        assert_eq!(number("add_header A $uri;\n", "uri"), snap.vars.number("uri"));
    }
}
