//! `AuthType Basic` (RFC 7617) and `Digest` (RFC 7616) with `AuthUserFile`.

use super::carried::{Carried, Checked, Login};
use crate::auth_basic::{password, users};
use crate::limits::{DIGEST_NONCE_SECS_MAX, HTACCESS_PASSWORDS_MAX};
use brisk_apache::digest::{self, Credentials, Nonce};
use brisk_apache::overrides::Auth;
use brisk_http::HeaderId;
use brisk_net::file::Symlinks;
use brisk_server::files::Found;
use brisk_server::flow::Flow;
use brisk_server::request::Request;
use brisk_server::rlog;
use brisk_server::vars::builtin::basic_credentials;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The user who has logged in, or what answers a request without one.
pub fn user(r: &mut Request, auth: &Auth) -> Result<Vec<u8>, Flow> {
    if auth.realm.is_none() {
        rlog!(r, Error, ".htaccess requires a user, which needs AuthName");
        return Err(Flow::Status(500));
    }
    if is_digest(auth) {
        return by_digest(r, auth);
    }
    let Some((user, password)) = basic_credentials(r) else { return Err(challenge(r, auth)) };
    let file = user_file(r, auth)?;
    let path = Path::new(OsStr::from_bytes(file));
    let text = text(r, path)?;
    let Ok(Some(kept)) = users::find(&text[..], &user) else {
        rlog!(r, Error, "user \"{}\" was not found in \"{}\"", shown(&user), path.display());
        return Err(challenge(r, auth));
    };
    let login = Checked { file: file.clone(), user, password, kept };
    let checked = {
        let carried = Carried::of(r);
        let carried = carried.borrow();
        if carried.checked.contains(&login) {
            return Ok(login.user);
        }
        carried.checked.len()
    };
    if checked >= HTACCESS_PASSWORDS_MAX {
        rlog!(r, Error, "the passwords in \"{}\" change all the time", path.display());
        return Err(Flow::Status(503));
    }
    if password::is_slow(&login.kept) {
        return Err(on_pool(login, auth.clone()));
    }
    let is_right = password::verify(&login.password, &login.kept);
    finish(r, login, is_right, auth)
}

/// The file of users. A request without a login of the right kind is not led to it: it gets a challenge.
fn user_file<'a>(r: &Request, auth: &'a Auth) -> Result<&'a Vec<u8>, Flow> {
    auth.user_file.as_ref().ok_or_else(|| {
        rlog!(r, Error, ".htaccess requires a user, which needs AuthUserFile");
        Flow::Status(500)
    })
}

/// What is in a file of users.
fn text(r: &mut Request, path: &Path) -> Result<Arc<[u8]>, Flow> {
    if !path.is_absolute() {
        return Err(unusable(r, path, "the path must begin with a slash"));
    }
    match r.read_text(path, Symlinks::Follow)? {
        Found::File(file) if file.content.is_some() => Ok(file.bytes().cloned().unwrap_or_default()),
        Found::File(_) => Err(unusable(r, path, "it is too large to be kept in memory")),
        Found::Other(_) => Err(unusable(r, path, "it is no file")),
        Found::Missing(error) => Err(unusable(r, path, &error.to_string())),
    }
}

fn is_digest(auth: &Auth) -> bool {
    auth.kind.as_ref().is_some_and(|kind| kind.eq_ignore_ascii_case(b"digest"))
}

/// What nonces of this process are proved by. Those of another one are asked for anew, without the user noticing.
///
/// `None`: the kernel gives no random bytes.
fn key() -> Option<&'static [u8]> {
    static KEY: OnceLock<Option<[u8; 32]>> = OnceLock::new();
    let key = KEY.get_or_init(|| {
        let mut key = [0; 32];
        let length = rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty()).ok()?;
        (length == key.len()).then_some(key)
    });
    key.as_ref().map(<[u8; 32]>::as_slice)
}

/// The user of a `Digest` login.
fn by_digest(r: &mut Request, auth: &Auth) -> Result<Vec<u8>, Flow> {
    let realm = auth.realm.clone().unwrap_or_default();
    let sent = r.header(HeaderId::Authorization).and_then(Credentials::parse);
    let Some(sent) = sent.filter(|sent| sent.realm == realm) else { return Err(challenge(r, auth)) };
    if !is_for_target(r, &sent.uri) {
        rlog!(r, Error, "the login is for \"{}\", not for this request", shown(&sent.uri));
        return Err(Flow::Status(400));
    }
    let path = Path::new(OsStr::from_bytes(user_file(r, auth)?));
    let text = text(r, path)?;
    let Some(secret) = digest::secret(&text, &sent.user, &realm) else {
        rlog!(
            r,
            Error,
            "user \"{}\" of the realm was not found in \"{}\"",
            shown(&sent.user),
            path.display()
        );
        return Err(challenge(r, auth));
    };
    if !sent.is_right(secret, r.sent_method_name()) {
        rlog!(r, Error, "user \"{}\": password mismatch", shown(&sent.user));
        return Err(challenge(r, auth));
    }
    let Some(key) = key() else { return Err(Flow::Status(500)) };
    match digest::judge(&sent.nonce, key, &realm, r.now().unix_secs, DIGEST_NONCE_SECS_MAX) {
        Nonce::Fresh => {}
        Nonce::Stale | Nonce::Foreign => return Err(challenge_again(r, auth, true)),
    }
    Carried::of(r).borrow_mut().say().login = Login::Digest;
    Ok(sent.user)
}

/// Whether a login is for the target of this request. Old versions of the Internet Explorer leave the query out, which Apache lets
/// them where the variable says so.
fn is_for_target(r: &Request, uri: &[u8]) -> bool {
    let target = r.unparsed_uri();
    let bare = |text: &[u8]| -> Vec<u8> {
        let rest = memchr::memmem::find(text, b"://").and_then(|at| {
            let host = &text[at + 3..];
            memchr::memchr(b'/', host).map(|slash| host[slash..].to_vec())
        });
        if text.starts_with(b"/") { text.to_vec() } else { rest.unwrap_or_else(|| text.to_vec()) }
    };
    let (target, uri) = (bare(&target), bare(uri));
    let carried = Carried::of(r);
    let is_lenient =
        carried.borrow().said.env.iter().any(|(name, _)| name == b"AuthDigestEnableQueryStringHack");
    let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
    target == uri || (is_lenient && path == uri)
}

fn finish(r: &mut Request, login: Checked, is_right: bool, auth: &Auth) -> Result<Vec<u8>, Flow> {
    if !is_right {
        rlog!(r, Error, "user \"{}\": password mismatch", shown(&login.user));
        return Err(challenge(r, auth));
    }
    let user = login.user.clone();
    Carried::of(r).borrow_mut().checked.push(login);
    Ok(user)
}

/// Checks on the pool, as these hashes take long on purpose, and has the handler asked again: it finds the password checked.
fn on_pool(login: Checked, auth: Auth) -> Flow {
    Flow::Wait(Box::new(move |r| {
        Box::pin(async move {
            let (password, kept) = (login.password.clone(), login.kept.clone());
            let Ok(is_right) = password::on_pool(move || password::verify(&password, &kept)).await else {
                rlog!(r, Crit, "too many passwords are waiting to be checked");
                return Flow::Status(503);
            };
            match finish(r, login, is_right, &auth) {
                // Whichever handler it is: `try_files` has one of its own behind it.
                Ok(_) => Flow::Again,
                Err(flow) => flow,
            }
        })
    }))
}

fn unusable(r: &Request, path: &Path, why: &str) -> Flow {
    rlog!(r, Crit, "password file \"{}\" cannot be used ({why})", path.display());
    Flow::Status(500)
}

fn shown(user: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(user)
}

/// The 401 (RFC 9110 §15.5.2).
pub fn challenge(r: &mut Request, auth: &Auth) -> Flow {
    challenge_again(r, auth, false)
}

/// The same; `is_stale`: the password was right, and the nonce is too old.
fn challenge_again(r: &mut Request, auth: &Auth, is_stale: bool) -> Flow {
    let realm = auth.realm.as_deref().unwrap_or_default();
    let is_digest = is_digest(auth);
    let scheme = if is_digest { "Digest" } else { "Basic" };
    let mut value = format!("{scheme} realm=\"").into_bytes();
    for &byte in realm {
        if matches!(byte, b'"' | b'\\') {
            value.push(b'\\');
        }
        value.push(byte);
    }
    value.push(b'"');
    if is_digest {
        let Some(key) = key() else { return Flow::Status(500) };
        let nonce = digest::nonce(key, realm, r.now().unix_secs);
        value.extend_from_slice(
            &[b", nonce=\"", nonce.as_slice(), b"\", algorithm=MD5, qop=\"auth\""].concat(),
        );
        if is_stale {
            value.extend_from_slice(b", stale=true");
        }
    }
    r.resp.add("WWW-Authenticate", value);
    Flow::Status(401)
}
