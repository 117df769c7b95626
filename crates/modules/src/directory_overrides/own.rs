//! Overrides in nginx's language: which directives may stand in them, and where requests go on that they are about.

use super::files::{self, Trouble, folders, refuse, shown};
use brisk_conf::{Diag, Directive, value};
use brisk_server::conf::Text;
use brisk_server::flow::Flow;
use brisk_server::late::{self, Allows, OnFailure, Wanted};
use brisk_server::module::Row;
use brisk_server::path;
use brisk_server::plan::{Declared, Handler};
use brisk_server::request::Request;
use std::cell::RefCell;
use std::sync::Arc;

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

/// Whether a `rewrite` changes the URI without the location being looked for again: what the files of the folder that it then
/// leads to say of it would be left out.
fn stays(d: &Directive) -> bool {
    d.name() == "rewrite" && d.args.get(2).is_some_and(|flag| flag.bytes() == b"break")
}

/// `directory_overrides FILE CLASS ...`.
#[derive(Clone)]
pub struct Overrides {
    file: Box<[u8]>,
    allows: Arc<Allows>,
    help: Arc<str>,
}

impl Overrides {
    /// With the arguments of the directive.
    pub fn parse(d: &Directive) -> Result<Overrides, Diag> {
        let (name, classes) = (d.arg(0), &d.args[1..]);
        let is_name =
            // A name with a slash would lead to files of other folders.
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
        Ok(Overrides {
            file: name.bytes().into(),
            allows: Arc::new(move |row: &Row, d: &Directive| names.contains(&row.name) && !stays(d)),
            help: help.into(),
        })
    }
}

/// The folder whose files were read, and the URI that led there. It outlives the entrance into the extended location.
#[derive(Default)]
struct Read {
    uri: Vec<u8>,
    folder: Vec<u8>,
}

fn folder(path: &[u8]) -> &[u8] {
    &path[..memchr::memrchr(b'/', path).map_or(0, |at| at + 1)]
}

/// Stands behind `try_files`: refuses what that has found in another folder, whose files were not read.
pub struct SameFolder;

impl Handler for SameFolder {
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn handle(&self, r: &mut Request) -> Flow {
        // Without an entry the files were never asked: another language, or none.
        let Some(read) = r.state.own.get::<RefCell<Read>>() else { return Flow::Next };
        let read = read.borrow();
        // The same URI leads to the same folder: nothing is mapped twice.
        if read.uri == r.route.uri {
            return Flow::Next;
        }
        let Some(mapped) = path::map(r, 0) else { return Flow::Status(404) };
        if folder(&mapped.bytes) == read.folder {
            return Flow::Next;
        }
        let why = "was found by try_files in another folder, whose files (directory_overrides) do not hold here; lead there by its last parameter";
        refuse(r, &mapped.bytes, why, 403)
    }
}

impl Handler for Overrides {
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn handle(&self, r: &mut Request) -> Flow {
        let Some(mapped) = path::map(r, 0) else { return Flow::Status(404) };
        // The files themselves are no content: they may hold what they guard.
        if mapped.bytes.ends_with(&self.file)
            && mapped.bytes[..mapped.bytes.len() - self.file.len()].ends_with(b"/")
        {
            return Flow::Status(404);
        }
        let read = Read { uri: r.route.uri.clone(), folder: folder(&mapped.bytes).to_vec() };
        r.state.own.get_or(RefCell::<Read>::default).replace(read);
        let folders = match folders(r, &mapped.bytes, files::root_len(r, &mapped)) {
            Ok(folders) => folders,
            Err(flow) => return flow,
        };
        let (mut texts, mut last) = (Vec::new(), Box::default());
        for end in folders {
            let mut file = mapped.bytes[..end].to_vec();
            file.extend_from_slice(&self.file);
            match files::read(r, path::symlinks(r, &mapped), &file) {
                // Whoever truncates a file and then writes it shows less than is meant in between.
                Ok(Some(text)) if !text.ends_with(b"\n") => {
                    return refuse(r, &file, "does not end with a line end and may be half-written", 500);
                }
                Ok(Some(text)) => {
                    texts.push(Text { name: shown(&file).into(), text });
                    last = file.into();
                }
                Ok(None) => {}
                Err(Trouble::Flow(flow)) => return flow,
                Err(Trouble::BeingWritten(rest)) => return files::again(rest),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{http, messages_in_location};
    use brisk_server::conf::{LocationId, Rule, Snapshot, compile};

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
        assert_eq!((plan.precontent.len(), plan.access.len(), plan.log.len()), (2, 1, 1));
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
