//! `ngx_http_index_module`: which file stands for a directory.
//!
//! It serves nothing: a file that is there becomes an internal redirect, so that the location of that name decides
//! what is done with it.

use brisk_conf::{Arity, Context, Diag, Directive};
use brisk_http::uri::resolved;
use brisk_net::file::Kind;
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::files::{Found, reason};
use brisk_server::flow::Flow;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::path;
use brisk_server::plan::{Declared, Handler, Plan};
use brisk_server::request::Request;
use brisk_server::vars::Template;
use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "index",
    rows: ROWS,
    conf: || Arc::new(Conf { files: Arc::new([]), is_of_file: false }),
    install: Some(install),
    ..Module::EMPTY
};

// Found, the file is another URI of its own: its location decides (`location ~ \.php$`), not the directory's.
static ROWS: &[Row] = &[directive("index")
    .doc("Files that stand for a directory, in the order in which they are looked for. The last may be an absolute URI.")
    .in_(Context::HSL)
    .arity(Arity::SOME)
    .takes("FILE ...")
    .default("index.html")
    .many()
    .example("index index.html index.php;")
    .set(set)];

#[derive(Clone)]
struct Conf {
    files: Arc<[Template]>,
    /// A file of the folder names them: they lead where clients may go.
    is_of_file: bool,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

fn set(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    // The first `index` of a block replaces what was inherited.
    let mut files = if cx.first { Vec::new() } else { cx.conf::<Conf>().files.to_vec() };
    for (at, token) in d.args.iter().enumerate() {
        if token.bytes().is_empty() {
            return Err(
                Diag::emerg(token.span, "index \"\" in \"index\" directive is invalid").help("name a file")
            );
        }
        if token.bytes().starts_with(b"/") && at + 1 < d.args.len() {
            // A URI is taken without a look, so what stands behind it is never reached.
            cx.warn(Diag::warn(token.span, "only the last index in \"index\" directive should be absolute"));
        }
        files.push(cx.template(token)?);
    }
    let is_of_file = cx.global.is_late();
    let conf = cx.conf::<Conf>();
    (conf.files, conf.is_of_file) = (files.into(), is_of_file);
    Ok(())
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    // Before listings and files: a folder's index stands for it.
    plan.add_content(20, Arc::new(Index(cx.conf_of::<Conf>().clone())));
}

/// Kept in [`State::visit`](brisk_server::request::State::visit): other index files than the location's were looked for already.
#[derive(Default)]
pub struct Replaced;

/// The URI of a file that stands for a folder, or for what is not there. Apache asks for such files by subrequests, which rules of
/// `.htaccess` are to know: where these hold, it is kept in [`State::own`](brisk_server::request::State::own).
#[derive(Default)]
pub struct StandIn(RefCell<Vec<u8>>);

impl StandIn {
    /// The request may go on with such a file.
    pub fn expect(r: &Request) {
        r.state.own.get_or(StandIn::default);
    }

    /// It goes on with this one.
    pub fn is_at(r: &Request, uri: &[u8]) {
        r.state.own.get_or(StandIn::default).0.replace(uri.to_vec());
    }

    /// Whether it is for such a file now; `uri` is what it is for.
    pub fn holds(r: &Request, uri: impl FnOnce() -> Vec<u8>) -> bool {
        r.state.own.get::<StandIn>().is_some_and(|stand_in| *stand_in.0.borrow() == uri())
    }

    /// It begins anew by a rule or for an error's page: whatever it goes on with stands for itself.
    pub fn forget(r: &Request) {
        if let Some(stand_in) = r.state.own.get::<StandIn>() {
            stand_in.0.borrow_mut().clear();
        }
    }

    /// See [`StandIn::is_at`]; nothing where nobody expects it.
    fn tell(r: &Request, uri: &[u8]) {
        if r.state.own.get::<StandIn>().is_some() {
            StandIn::is_at(r, uri);
        }
    }
}

struct Index(Conf);

impl Handler for Index {
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn handle(&self, r: &mut Request) -> Flow {
        use brisk_http::Method;
        if !r.route.uri.ends_with(b"/")
            // POST too: forms are sent to folders whose index is a script.
            || !matches!(r.route.method, Method::Get | Method::Head | Method::Post)
        {
            return Flow::Next;
        }
        if r.state.visit.get::<Replaced>().is_some() {
            return Flow::Next;
        }
        let mut checked_directory = false;
        for template in &*self.0.files {
            let name = template.eval(r);
            // nginx takes the folder for the file and redirects in circles: 500.
            if name.is_empty() && !template.is_literal() {
                continue;
            }
            if name.starts_with(b"/") {
                return self.go_on(r, name);
            }
            if let Some(flow) = self.try_file(r, &name, &mut checked_directory) {
                return flow;
            }
        }
        Flow::Next
    }
}

impl Index {
    /// Goes on with a file that stands for the folder. What a file of the folder names leads nowhere above the root, nor to `internal` locations:
    /// its writer need not be trusted with those.
    fn go_on(&self, r: &Request, uri: Vec<u8>) -> Flow {
        if !self.0.is_of_file {
            StandIn::tell(r, &uri);
            return Flow::Redirect { uri, args: None };
        }
        match resolved(&uri) {
            Ok(uri) => Flow::RedirectAsClient { uri, args: None },
            Err(_) => Flow::Status(403),
        }
    }

    /// Looks for one file; `None`: go on with the next.
    fn try_file(&self, r: &mut Request, name: &[u8], checked_directory: &mut bool) -> Option<Flow> {
        if self.0.is_of_file && resolved(&[r.route.uri.as_slice(), name].concat()).is_err() {
            brisk_server::rlog!(r, Error, "an index file of the folder's own file is above the root");
            return Some(Flow::Status(403));
        }
        // Room for the name, which is appended: one allocation per look.
        let Some(mut mapped) = path::map(r, name.len()) else { return Some(Flow::Status(404)) };
        mapped.bytes.extend_from_slice(name);
        let symlinks = path::symlinks(r, &mapped);
        // Only looked at: the location that answers may have another root, and opens the file itself.
        let found = match r.stat_file(mapped.path(), symlinks) {
            Ok(found) => found,
            Err(flow) => return Some(flow),
        };
        match found {
            Found::Missing(error) => match error.raw_os_error() {
                // EACCES, ELOOP, EMLINK: it may be there, and is not to be read.
                Some(13 | 40 | 31) => Some(Flow::Status(403)),
                // ENOENT, ENOTDIR.
                Some(2 | 20) => {
                    // Once per request, however many names are tried.
                    if !std::mem::replace(checked_directory, true) {
                        return self.directory(r, &mapped.bytes, name.len());
                    }
                    None
                }
                // ENAMETOOLONG
                Some(36) => Some(Flow::Status(404)),
                _ => {
                    brisk_server::rlog!(
                        r,
                        Crit,
                        "open() \"{}\" failed ({})",
                        mapped.path().display(),
                        reason(&error)
                    );
                    Some(Flow::Status(500))
                }
            },
            _ => {
                // The name may belong to another location, such as that of `.php`.
                let mut uri = r.route.uri.clone();
                uri.extend_from_slice(name);
                Some(self.go_on(r, uri))
            }
        }
    }

    /// Without the directory no further file can be there: 404 instead of 403.
    fn directory(&self, r: &mut Request, path: &[u8], name_len: usize) -> Option<Flow> {
        let mut dir = &path[..path.len() - name_len];
        // The root stays a slash.
        while dir.len() > 1 && dir.ends_with(b"/") {
            dir = &dir[..dir.len() - 1];
        }
        let dir = Path::new(OsStr::from_bytes(dir)).to_path_buf();
        let found = match r.stat_file(&dir, brisk_net::file::Symlinks::Follow) {
            Ok(found) => found,
            Err(flow) => return Some(flow),
        };
        match found.info() {
            Some(info) if info.kind == Kind::Directory => None,
            // A file with a slash behind its name.
            Some(_) => Some(Flow::Status(404)),
            None => {
                if let Found::Missing(error) = &found
                    && r.core().log_not_found
                {
                    brisk_server::rlog!(r, Error, "\"{}\" is not found ({})", dir.display(), reason(error));
                }
                Some(Flow::Status(404))
            }
        }
    }
}
