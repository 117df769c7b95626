//! `AuthType Basic` with `AuthUserFile` (RFC 7617).

use super::carried::Carried;
use crate::auth_basic::{password, users};
use brisk_apache::overrides::Auth;
use brisk_net::blocking;
use brisk_net::file::Symlinks;
use brisk_server::files::Found;
use brisk_server::flow::Flow;
use brisk_server::request::Request;
use brisk_server::rlog;
use brisk_server::vars::builtin::basic_credentials;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The user who has logged in, or what answers a request without one.
pub fn user(r: &mut Request, auth: &Auth) -> Result<Vec<u8>, Flow> {
    let (Some(file), Some(_)) = (&auth.user_file, &auth.realm) else {
        rlog!(r, Error, ".htaccess requires a user, which needs AuthName and AuthUserFile");
        return Err(Flow::Status(500));
    };
    let Some((user, password)) = basic_credentials(r) else { return Err(challenge(r, auth)) };
    let login = (file.clone(), user, password);
    if Carried::of(r).borrow().checked.as_ref() == Some(&login) {
        return Ok(login.1);
    }
    let path = Path::new(OsStr::from_bytes(file));
    let text = match r.read_text(path, Symlinks::Follow)? {
        Found::File(file) if file.content.is_some() => file.content.clone().unwrap_or_default(),
        Found::File(_) => return Err(unusable(r, path, "it is too large to be kept in memory")),
        Found::Other(_) => return Err(unusable(r, path, "it is no file")),
        Found::Missing(error) => return Err(unusable(r, path, &error.to_string())),
    };
    let Ok(Some(kept)) = users::find(&text[..], &login.1) else {
        rlog!(r, Error, "user \"{}\" was not found in \"{}\"", shown(&login.1), path.display());
        return Err(challenge(r, auth));
    };
    if password::is_slow(&kept) {
        return Err(on_pool(login, kept, auth.clone()));
    }
    let is_right = password::verify(&login.2, &kept);
    finish(r, login, is_right, auth)
}

fn finish(
    r: &mut Request,
    login: (Vec<u8>, Vec<u8>, Vec<u8>),
    is_right: bool,
    auth: &Auth,
) -> Result<Vec<u8>, Flow> {
    if !is_right {
        rlog!(r, Error, "user \"{}\": password mismatch", shown(&login.1));
        return Err(challenge(r, auth));
    }
    let user = login.1.clone();
    Carried::of(r).borrow_mut().checked = Some(login);
    Ok(user)
}

/// Checks on the pool, as these hashes take long on purpose, and begins the phase once more with what came of it.
fn on_pool(login: (Vec<u8>, Vec<u8>, Vec<u8>), kept: Vec<u8>, auth: Auth) -> Flow {
    Flow::Wait(Box::new(move |r| {
        Box::pin(async move {
            let password = login.2.clone();
            let Ok(job) = blocking::run(move || password::verify(&password, &kept)) else {
                rlog!(r, Crit, "the queue of the thread pool is full");
                return Flow::Status(503);
            };
            let is_right = job.await;
            match finish(r, login, is_right, &auth) {
                Ok(_) => again(r),
                Err(flow) => flow,
            }
        })
    }))
}

/// The same handler is asked again: it finds the password checked.
fn again(r: &mut Request) -> Flow {
    let live = r.live.clone();
    let plan = &live.snap.location(r.route.loc).plan;
    let handler = plan.preaccess.get(usize::from(r.route.cursor.handler));
    handler.map_or(Flow::Status(500), |handler| handler.handle(r))
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
    let realm = auth.realm.as_deref().unwrap_or_default();
    let mut value = b"Basic realm=\"".to_vec();
    for &byte in realm {
        if matches!(byte, b'"' | b'\\') {
            value.push(b'\\');
        }
        value.push(byte);
    }
    value.push(b'"');
    r.resp.add("WWW-Authenticate", value);
    Flow::Status(401)
}
