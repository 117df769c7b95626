//! `ngx_http_auth_basic_module`: names and passwords (RFC 7617).

mod des;
mod password;

use brisk_conf::{Arity, Context, Default as D, Diag, Directive, os_text};
use brisk_net::blocking;
use brisk_net::file::Symlinks;
use brisk_server::conf::Cx;
use brisk_server::files::{Found, OpenFile};
use brisk_server::flow::Flow;
use brisk_server::module::{Module, ModuleConf, Row, Set};
use brisk_server::plan::{Handler, Plan, Purity};
use brisk_server::request::Request;
use brisk_server::row;
use brisk_server::vars::Template;
use brisk_server::vars::builtin::basic_credentials;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "auth_basic",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    ..Module::EMPTY
};

const CONTEXTS: Context = Context::HSL.or(Context::LIMIT_EXCEPT);

static ROWS: &[Row] = &[
    row!(
        "auth_basic",
        CONTEXTS,
        Arity::ONE,
        D::Value("off"),
        Replace,
        false,
        "Asks for a name and password of auth_basic_user_file; the text, which may contain variables, is shown to the user. off ends what is inherited.",
        Set::Simple(|cx, d| {
            let realm = Arc::new(cx.template(d.arg(0))?);
            cx.conf::<Conf>().realm = Some(realm);
            Ok(())
        })
    ),
    row!(
        "auth_basic_user_file",
        CONTEXTS,
        Arity::ONE,
        D::Nothing,
        Replace,
        false,
        "The file of names and passwords, relative to the main file's folder; may contain variables. A line is name:password[:comment]; passwords as made by htpasswd or crypt(3) (apr1, bcrypt, $5$, $6$, $1$, DES), {SHA}, {SSHA} or {PLAIN}. A changed file counts at once.",
        Set::Simple(user_file)
    ),
];

#[derive(Clone, Default)]
struct Conf {
    realm: Option<Arc<Template>>,
    file: Option<Arc<UserFile>>,
}

struct UserFile {
    path: Template,
    /// Relative paths start here.
    prefix: Box<str>,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

fn user_file(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let path = cx.template(d.arg(0))?;
    let prefix = cx.global.env.conf_prefix.as_str().into();
    cx.conf::<Conf>().file = Some(Arc::new(UserFile { path, prefix }));
    Ok(())
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf = cx.conf_of::<Conf>();
    if let (Some(realm), Some(file)) = (&conf.realm, &conf.file)
        && realm.as_literal() != Some(b"off")
    {
        plan.note(Purity::Impure);
        plan.access.push(Arc::new(AuthBasic { realm: realm.clone(), file: file.clone() }));
    }
}

struct AuthBasic {
    realm: Arc<Template>,
    file: Arc<UserFile>,
}

impl Handler for AuthBasic {
    fn handle(&self, r: &mut Request) -> Flow {
        let realm = self.realm.eval(r);
        if realm == b"off" {
            return Flow::Next;
        }
        let Some((user, password)) = basic_credentials(r) else {
            brisk_server::rlog!(r, Info, "no user/password was provided for basic authentication");
            return challenge(r, &realm);
        };
        let path = self.path(r);
        let file = match r.open_file(&path, Symlinks::Follow) {
            Ok(Found::File(file)) => file,
            Ok(Found::Missing(error)) => return missing(r, &path, &error),
            Ok(Found::Other(_)) => {
                brisk_server::rlog!(r, Crit, "read() \"{}\" failed (21: Is a directory)", path.display());
                return Flow::Status(500);
            }
            Err(flow) => return flow,
        };
        let login = Login { user, password, realm, path };
        match file.content.as_deref().map(|text| find(text, &login.user)) {
            Some(Ok(Some(kept))) if !password::is_slow(&kept) => {
                let outcome = password::verify(&login.password, &kept);
                login.end(r, if outcome { Outcome::Right } else { Outcome::Mismatch })
            }
            Some(Ok(Some(kept))) => login.on_pool(move |password| Ok(check(password, &kept))),
            Some(Ok(None)) => login.end(r, Outcome::NoUser),
            // Too large to be kept in memory.
            None => in_file(&file, login),
            Some(Err(error)) => login.end(r, Outcome::Failed(error)),
        }
    }
}

impl AuthBasic {
    fn path(&self, r: &Request) -> PathBuf {
        let mut path = self.file.path.eval(r);
        if !path.starts_with(b"/") {
            path = [self.file.prefix.as_bytes(), &path].concat();
        }
        std::ffi::OsString::from_vec(path).into()
    }
}

fn missing(r: &Request, path: &std::path::Path, error: &io::Error) -> Flow {
    let (path, why) = (path.display(), os_text(error));
    if error.kind() == io::ErrorKind::NotFound {
        brisk_server::rlog!(r, Error, "open() \"{path}\" failed ({why})");
        return Flow::Status(403);
    }
    brisk_server::rlog!(r, Crit, "open() \"{path}\" failed ({why})");
    Flow::Status(500)
}

/// The 401 (RFC 9110 §15.5.2).
fn challenge(r: &mut Request, realm: &[u8]) -> Flow {
    r.resp.add("WWW-Authenticate", [b"Basic realm=\"", realm, b"\""].concat());
    Flow::Status(401)
}

enum Outcome {
    Right,
    Mismatch,
    NoUser,
    Failed(io::Error),
}

fn check(password: &[u8], kept: &[u8]) -> Outcome {
    if password::verify(password, kept) { Outcome::Right } else { Outcome::Mismatch }
}

/// What a client says of itself, and what it is to be told.
struct Login {
    user: Vec<u8>,
    password: Vec<u8>,
    realm: Vec<u8>,
    path: PathBuf,
}

impl Login {
    fn end(&self, r: &mut Request, outcome: Outcome) -> Flow {
        let user = String::from_utf8_lossy(&self.user);
        let path = self.path.display();
        match outcome {
            Outcome::Right => return Flow::Allowed,
            Outcome::Mismatch => brisk_server::rlog!(r, Error, "user \"{user}\": password mismatch"),
            Outcome::NoUser => brisk_server::rlog!(r, Error, "user \"{user}\" was not found in \"{path}\""),
            Outcome::Failed(error) => {
                brisk_server::rlog!(r, Crit, "read() \"{path}\" failed ({})", os_text(&error));
                return Flow::Status(500);
            }
        }
        challenge(r, &self.realm)
    }

    /// Checks on the pool: these hashes take long on purpose.
    fn on_pool(mut self, check: impl FnOnce(&[u8]) -> io::Result<Outcome> + Send + 'static) -> Flow {
        Flow::Wait(Box::new(move |r| {
            Box::pin(async move {
                let password = std::mem::take(&mut self.password);
                let Ok(job) = blocking::run(move || check(&password)) else {
                    brisk_server::rlog!(r, Crit, "the queue of the thread pool is full");
                    return Flow::Status(503);
                };
                let outcome = job.await.unwrap_or_else(Outcome::Failed);
                self.end(r, outcome)
            })
        }))
    }
}

/// Looks for the user on the pool.
fn in_file(file: &Rc<OpenFile>, login: Login) -> Flow {
    let Some(fd) = &file.fd else { return Flow::Status(500) };
    let Ok(fd) = fd.try_clone() else { return Flow::Status(500) };
    let user = login.user.clone();
    login.on_pool(move |password| {
        // The descriptor's offset is shared with all who have the file open: it is not used.
        let file = At { file: fd.into(), offset: 0 };
        Ok(find(BufReader::new(file), &user)?.map_or(Outcome::NoUser, |kept| check(password, &kept)))
    })
}

/// Reads a file without its offset.
struct At {
    file: File,
    offset: u64,
}

impl io::Read for At {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = std::os::unix::fs::FileExt::read_at(&self.file, buf, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// What a file keeps of a user's password: the first line that begins with the name counts.
fn find(mut text: impl BufRead, user: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    while text.read_until(b'\n', &mut line)? > 0 {
        if !line.starts_with(b"#")
            && let Some(rest) = line.strip_prefix(user).and_then(|rest| rest.strip_prefix(b":"))
        {
            let end = rest.iter().position(|b| matches!(b, b'\n' | b'\r' | b':')).unwrap_or(rest.len());
            return Ok(Some(rest[..end].to_vec()));
        }
        line.clear();
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::http;

    #[test]
    fn users_are_found() {
        let file = "# comment\n\n#who:{PLAIN}no\nalice:{PLAIN}a\r\nbob:{PLAIN}b:comment\nalice:second\nlast:{PLAIN}x";
        let check = |user: &str, want: Option<&str>| {
            let got = find(file.as_bytes(), user.as_bytes()).unwrap();
            assert_eq!(got.as_deref(), want.map(str::as_bytes), "{user}");
        };
        check("alice", Some("{PLAIN}a"));
        check("bob", Some("{PLAIN}b"));
        check("last", Some("{PLAIN}x"));
        check("ali", None);
        check("#who", None);
        check("", None);
    }

    #[test]
    fn off_ends_what_is_inherited() {
        let text = "auth_basic x; auth_basic_user_file f; server { location /a { } location /b { auth_basic off; } }";
        let counts: Vec<_> = http(text).unwrap().locations.iter().map(|l| l.plan.access.len()).collect();
        assert_eq!(counts, [1, 1, 0]);
        let without_file = http("auth_basic x; server { }").unwrap();
        assert!(without_file.locations[0].plan.access.is_empty());
    }
}
