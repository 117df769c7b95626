//! The certificate of `brisk serve --tls`: made once, kept for this user, so that a browser that has been told to accept
//! it goes on doing so.

use crate::limits::LOCAL_CERTIFICATE_LEFT_DAYS_MIN;
use brisk_net::sys;
use brisk_tls::Certificate;
use brisk_tls::issue::{Issued, Wish};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

const VALID_DAYS: i64 = 397;

/// Certificate and key as PEM texts.
pub struct Local {
    pub certificate: String,
    pub key: String,
    /// Where they are kept; `None`: nowhere, they are for this run only.
    pub place: Option<PathBuf>,
}

/// The user's certificate, made if there is none. `None`: there is no randomness.
pub fn local() -> Option<Local> {
    let folder = folder();
    if let Some(local) = folder.as_deref().and_then(kept) {
        return Some(local);
    }
    let now = brisk_net::clock::refresh().unix_secs;
    let hostname = sys::hostname();
    let wish = Wish {
        common_name: "localhost",
        names: &["localhost", "127.0.0.1", "::1", &hostname],
        authority: false,
        not_before: now - 3600,
        not_after: now + VALID_DAYS * 86_400,
    };
    let issued = Issued::new(&wish, None)?;
    let (certificate, key) = (issued.certificate_pem(), issued.key_pem());
    let place = folder.and_then(|folder| keep(&folder, &certificate, &key).ok());
    Some(Local { certificate, key, place })
}

fn folder() -> Option<PathBuf> {
    let path = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = path("XDG_STATE_HOME").or_else(|| Some(path("HOME")?.join(".local/state")))?;
    state.is_absolute().then(|| state.join("brisk"))
}

/// What was made before, if it is sound and will be for a while.
fn kept(folder: &Path) -> Option<Local> {
    let place = folder.join("localhost.crt");
    let certificate = std::fs::read_to_string(&place).ok()?;
    let key = std::fs::read_to_string(folder.join("localhost.key")).ok()?;
    let chain = brisk_tls::chain(certificate.as_bytes()).ok()?;
    let parsed = Certificate::parse(&chain[0]).ok()?;
    let now = brisk_net::clock::refresh().unix_secs;
    let is_sound = parsed.not_after > now + LOCAL_CERTIFICATE_LEFT_DAYS_MIN * 86_400
        && brisk_tls::PrivateKey::from_pem(key.as_bytes(), &[]).ok()?.belongs_to(&chain[0]) == Some(true);
    is_sound.then_some(Local { certificate, key, place: Some(place) })
}

fn keep(folder: &Path, certificate: &str, key: &str) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let place = folder.join("localhost.crt");
    for (name, text, mode) in [("localhost.key", key, 0o600), ("localhost.crt", certificate, 0o644)] {
        let path = folder.join(name);
        let _ = std::fs::remove_file(&path);
        let mut file = std::fs::File::options().write(true).create_new(true).mode(mode).open(path)?;
        file.write_all(text.as_bytes())?;
    }
    Ok(place)
}
