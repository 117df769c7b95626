//! `ngx_http_auth_basic_module`: names and passwords (RFC 7617).
//!
//! Hashes that take long on purpose are computed on the pool, never on the event loop. A file that cannot be used
//! lets nobody in who was not in it before.
//!
//! The handler runs in the access phase, behind limits of rates: guesses are slowed down before a hash is
//! computed.

mod des;
pub mod password;
pub mod users;

use brisk_conf::{Context, Diag, Directive, Risk, Token, os_text};
use brisk_net::file::Symlinks;
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::files::{Found, OpenFile};
use brisk_server::flow::Flow;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::{Handler, Plan};
use brisk_server::request::Request;
use brisk_server::vars::Template;
use brisk_server::vars::builtin::basic_credentials;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "auth_basic",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

const CONTEXTS: Context = Context::HSL.or(Context::LIMIT_EXCEPT);

static ROWS: &[Row] = &[
    // The password comes with each request, encoded and not encrypted (RFC 7617 §4): without TLS everybody on the way reads it.
    directive("auth_basic")
        .doc("Asks for a name and password of auth_basic_user_file; the text, which may contain variables, is shown to the user. off ends what is inherited.")
        .in_(CONTEXTS)
        .takes("TEXT | off")
        .default("off")
        .risk(Risk::Security)
        .example("auth_basic \"staff only\";")
        .set(|cx, d| {
            let realm = Arc::new(cx.template(d.arg(0))?);
            cx.conf::<Conf>().realm = Some(realm);
            Ok(())
        }),
    directive("auth_basic_user_file")
        .doc("The file of names and passwords, relative to the main file's folder; may contain variables. A line is name:password[:comment]; passwords as made by htpasswd or crypt(3) (apr1, bcrypt, $5$, $6$, $1$, DES), {SHA}, {SSHA} or {PLAIN}. A changed file counts at once; one that has become unreadable or malformed does not, and what was read before stays in force.")
        .in_(CONTEXTS)
        .takes("FILE")
        .risk(Risk::Security)
        .example("auth_basic_user_file /etc/brisk/htpasswd;")
        .set(user_file),
];

#[derive(Clone, Default)]
/// A template, since one file may serve many hosts with texts of their own.
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
    // A path with variables is known only when somebody comes.
    if path.as_literal().is_some() {
        // A mistake in it is told by `-t`, not by the first visitor.
        check_file(cx, d.arg(0))?;
    }
    // nginx's rule for this file: beside the configuration, not below the prefix.
    let prefix = cx.global.env.conf_prefix.as_str().into();
    cx.conf::<Conf>().file = Some(Arc::new(UserFile { path, prefix }));
    Ok(())
}

/// What can be said of a file before it is needed. As with nginx, it may be made later.
fn check_file(cx: &mut Cx<'_, '_>, token: &Token) -> Result<(), Diag> {
    match cx.try_file(token) {
        Ok(text) => match users::malformed(&text) {
            Some(fault) => Err(Diag::emerg(
                token.span,
                format!("invalid password file \"{}\": {fault}", token.text()),
            )
            .help("a line is name:password, with the password as htpasswd or openssl passwd write it; # begins a comment")),
            None => Ok(()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let Diag { message, .. } = cx.unreadable(token, &error);
            cx.warn(Diag::warn(token.span, message).help("requests get 403 until the file is there"));
            Ok(())
        }
        Err(error) => Err(cx.unreadable(token, &error)),
    }
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf = cx.conf_of::<Conf>();
    if let (Some(realm), Some(file)) = (&conf.realm, &conf.file)
        && realm.as_literal() != Some(b"off")
    {
        plan.access.push(Arc::new(AuthBasic { realm: realm.clone(), file: file.clone() }));
    }
}

struct AuthBasic {
    realm: Arc<Template>,
    file: Arc<UserFile>,
}

impl Handler for AuthBasic {
    fn identifies(&self) -> bool {
        // A realm with variables may be "off" for some requests.
        self.realm.as_literal().is_some()
    }

    fn decides(&self, r: &Request) -> bool {
        self.realm.eval(r) != b"off"
    }

    fn handle(&self, r: &mut Request) -> Flow {
        let realm = self.realm.eval(r);
        // A variable may say `off` for this request.
        if realm == b"off" {
            return Flow::Next;
        }
        // RFC 7617 §2: without credentials the client is told what to show its user.
        let Some((user, password)) = basic_credentials(r) else {
            brisk_server::rlog!(r, Info, "no user/password was provided for basic authentication");
            return challenge(r, &realm);
        };
        let path = self.path(r);
        let text = match self.text(r, &path) {
            Ok(text) => text,
            Err(flow) => return flow,
        };
        // Whatever comes of it, the log has the name and the client does not learn which part was wrong.
        let login = Login { user, password, realm, path };
        let text = match text {
            Text::Whole(text) => text,
            Text::Large(file) => return in_file(&file, login),
        };
        match users::find(&text[..], &login.user) {
            // Only plain hashes are checked here: they take less than handing them over.
            Ok(Some(kept)) if !password::is_slow(&kept) => {
                let outcome = password::verify(&login.password, &kept);
                login.end(r, if outcome { Outcome::Right } else { Outcome::Mismatch })
            }
            // So many may wait: a flood of guesses costs 503 and not the event loop.
            Ok(Some(kept)) => login.on_pool(move |password| Ok(check(password, &kept))),
            Ok(None) => login.end(r, Outcome::NoUser),
            Err(error) => login.end(r, Outcome::Failed(error)),
        }
    }
}

/// Where users are looked up.
enum Text {
    Whole(Arc<[u8]>),
    /// Too large to be kept in memory.
    Large(Rc<OpenFile>),
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

impl AuthBasic {
    /// The file as it is; if it cannot be used, as it was.
    fn text(&self, r: &mut Request, path: &Path) -> Result<Text, Flow> {
        // What a client may choose is not kept: it could be any number of files.
        let is_kept = self.file.path.as_literal().is_some();
        let (info, fault, flow) = match r.open_file(path, Symlinks::Follow)? {
            Found::File(file) => {
                let Some(text) = file.bytes() else { return Ok(Text::Large(file)) };
                // Checked once per state of the file, not per request.
                if !is_kept || users::is_known_good(path, file.info, text) {
                    return Ok(Text::Whole(text.clone()));
                }
                (Some(file.info), String::new(), Ok(Text::Whole(text.clone())))
            }
            // Removed on purpose, it lets nobody in: what was read before does not count then.
            Found::Missing(error) if error.kind() == io::ErrorKind::NotFound => {
                brisk_server::rlog!(r, Error, "open() \"{}\" failed ({})", path.display(), os_text(&error));
                return Err(Flow::Status(403));
            }
            Found::Missing(error) => (None, os_text(&error), Err(Flow::Status(500))),
            Found::Other(info) => (Some(info), "21: Is a directory".into(), Err(Flow::Status(500))),
        };
        // Permissions that were changed, or a disk that fails. What was read before still counts.
        let before = if is_kept { users::before(path) } else { None };
        // Once for each change of the file: a broken one would fill the log with every request.
        if is_kept && users::is_news(path, info) || before.is_none() && flow.is_err() {
            let fault = match &flow {
                Ok(Text::Whole(text)) => users::malformed(text).unwrap_or_default(),
                _ => fault,
            };
            let note = if before.is_some() { ", what was read before stays in force" } else { "" };
            brisk_server::rlog!(
                r,
                Crit,
                "password file \"{}\" cannot be used ({fault}){note}",
                path.display()
            );
        }
        before.map_or(flow, |text| Ok(Text::Whole(text)))
    }
}

/// The 401 (RFC 9110 §15.5.2).
fn challenge(r: &mut Request, realm: &[u8]) -> Flow {
    // Each attempt gets a challenge of its own; what a handler before has asked for is kept beside it
    // (`satisfy any`).
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
            Outcome::Right => {
                brisk_server::dlog!(r, "auth basic: user \"{user}\" has the right password");
                return Flow::Allowed;
            }
            // Whether a name exists is for the log only: the client is told the same as for a wrong password.
            Outcome::Mismatch => brisk_server::rlog!(r, Error, "user \"{user}\": password mismatch"),
            Outcome::NoUser => brisk_server::rlog!(r, Error, "user \"{user}\" was not found in \"{path}\""),
            Outcome::Failed(error) => {
                brisk_server::rlog!(r, Crit, "read() \"{path}\" failed ({})", os_text(&error));
                // Neither right nor wrong: nobody gets in while nothing can be checked.
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
                // Refused: what cannot be checked is not let in.
                let Ok(checked) = password::on_pool(move || check(&password)).await else {
                    brisk_server::rlog!(r, Crit, "too many passwords are waiting to be checked");
                    return Flow::Status(503);
                };
                self.end(r, checked.unwrap_or_else(Outcome::Failed))
            })
        }))
    }
}

/// Looks for the user on the pool.
fn in_file(file: &Rc<OpenFile>, login: Login) -> Flow {
    let Some(fd) = &file.fd else { return Flow::Status(500) };
    // A copy for the job: the thread's cache may close its own meanwhile.
    let Ok(fd) = fd.try_clone() else { return Flow::Status(500) };
    let user = login.user.clone();
    login.on_pool(move |password| {
        // The descriptor's offset is shared with all who have the file open: it is not used.
        Ok(users::find(users::reader(fd.into()), &user)?
            .map_or(Outcome::NoUser, |kept| check(password, &kept)))
    })
}

#[cfg(test)]
mod tests {
    use crate::check::http;

    #[test]
    fn off_ends_what_is_inherited() {
        let text = "auth_basic x; auth_basic_user_file f; server { location /a { } location /b { auth_basic off; } }";
        let counts: Vec<_> = http(text).unwrap().locations.iter().map(|l| l.plan.access.len()).collect();
        assert_eq!(counts, [1, 1, 0]);
        let without_file = http("auth_basic x; server { }").unwrap();
        assert!(without_file.locations[0].plan.access.is_empty());
    }
}
