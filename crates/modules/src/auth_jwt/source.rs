//! Where keys come from: files, which are read again when they change, and subrequests.
//!
//! Parsed keys are kept per thread. A file that has become unreadable or is no key set any more is complained about
//! once, and the keys that it had stay in force.

use super::keys::KeySet;
use crate::limits::KEPT_TOKENS_MAX;
pub use crate::limits::KEY_SET_BYTES_MAX;
use brisk_conf::os_text;
use brisk_http::Method;
use brisk_net::file::{Info, Symlinks};
use brisk_net::{blocking, clock};
use brisk_server::conf::ServerId;
use brisk_server::files::{Found, OpenFile};
use brisk_server::flow::Flow;
use brisk_server::in_memory::InMemory;
use brisk_server::request::Request;
use brisk_server::response::{Body, BodyStream as _, Chunk};
use brisk_server::subrequest::Parent;
use brisk_server::vars::Template;
use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A file of keys.
pub struct KeyFile {
    pub path: Template,
    /// Relative paths start here.
    pub prefix: Box<str>,
    /// What was in it when the configuration was read.
    pub initial: Option<Arc<KeySet>>,
}

/// Keys of one file, as this thread has them.
struct Kept {
    /// The file they were read from, or that could not be read.
    info: Option<Info>,
    keys: Option<Arc<KeySet>>,
}

/// Keys of one answer.
struct Answer {
    until_ms: u64,
    keys: Arc<KeySet>,
}

// By thread, and over reloads: a file's keys are found by its path, an answer's by all that [`Asked`] has.
thread_local! {
    static FILES: RefCell<HashMap<PathBuf, Kept>> = RefCell::default();
    static ANSWERS: RefCell<HashMap<Asked, Answer>> = RefCell::default();
}

/// What keys were asked for. A URI alone means nothing: the same path leads to another issuer in another server, under another name of a
/// server whose back end depends on it, and after a reload. Keys of one issuer must never open what another one guards.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Asked {
    generation: u64,
    server: ServerId,
    host: Vec<u8>,
    uri: Vec<u8>,
}

impl Asked {
    /// `uri` as the request's own server serves it.
    pub fn by(r: &Request, uri: Vec<u8>) -> Asked {
        Asked { generation: r.live.generation, server: r.route.server, host: r.head.host.clone(), uri }
    }
}

/// Why there are no keys yet.
pub enum Missing {
    /// What the handler must return.
    Flow(Flow),
    /// They must be waited for.
    Wait,
}

/// Makes room in a table whose keys may be a stranger's choice.
fn bounded<K, V>(table: &mut HashMap<K, V>) -> &mut HashMap<K, V> {
    // Forgetting all is simple, and costs one look or question for each that is still in use.
    if table.len() >= KEPT_TOKENS_MAX {
        table.clear();
    }
    table
}

impl KeyFile {
    fn path(&self, r: &Request) -> PathBuf {
        // Beside the main file, as for `auth_basic_user_file`.
        let mut path = self.path.eval(r);
        if !path.starts_with(b"/") {
            path = [self.prefix.as_bytes(), &path].concat();
        }
        std::ffi::OsString::from_vec(path).into()
    }

    /// The file's keys, if they are at hand.
    pub fn keys(&self, r: &mut Request) -> Result<Arc<KeySet>, Missing> {
        let path = self.path(r);
        let file = match r.open_file(&path, Symlinks::Follow) {
            Ok(Found::File(file)) => file,
            // Missing or unreadable: what was read before counts, until the file is there again.
            Ok(Found::Missing(error)) => return self.unreadable(r, path, None, &os_text(&error)),
            Ok(Found::Other(info)) => return self.unreadable(r, path, Some(info), "not a regular file"),
            Err(flow) => return Err(Missing::Flow(flow)),
        };
        // By what `fstat` said: a file that was replaced has another inode, time or size, and is parsed anew.
        if let Some(keys) = self.kept(&path, Some(file.info)) {
            return keys.map_err(Missing::Flow);
        }
        match file.content.as_deref() {
            Some(text) => self.read(r, path, file.info, text),
            None => Err(Missing::Wait),
        }
    }

    /// As [`KeyFile::keys`], for a file that is too large for the file cache.
    pub async fn fetch(&self, r: &mut Request) -> Result<Arc<KeySet>, Flow> {
        let path = self.path(r);
        let fail = |missing| if let Missing::Flow(flow) = missing { flow } else { Flow::Status(500) };
        let Ok(Found::File(file)) = r.open_file(&path, Symlinks::Follow) else {
            return self.keys(r).map_err(fail);
        };
        match self.kept(&path, Some(file.info)) {
            Some(keys) => keys,
            None => match large(&file).await {
                Some(text) => self.read(r, path, file.info, &text).map_err(fail),
                None => self.unreadable(r, path, Some(file.info), "it cannot be read").map_err(fail),
            },
        }
    }

    /// What was made of the file as it is, if it was looked at.
    fn kept(&self, path: &Path, info: Option<Info>) -> Option<Result<Arc<KeySet>, Flow>> {
        FILES.with_borrow(|files| {
            let kept = files.get(path).filter(|kept| kept.info == info)?;
            Some(kept.keys.clone().ok_or(Flow::Status(500)))
        })
    }

    fn read(&self, r: &Request, path: PathBuf, info: Info, text: &[u8]) -> Result<Arc<KeySet>, Missing> {
        match KeySet::parse(text) {
            Ok(keys) => {
                let keys = Arc::new(keys);
                let kept = Kept { info: Some(info), keys: Some(keys.clone()) };
                FILES.with_borrow_mut(|files| bounded(files).insert(path, kept));
                Ok(keys)
            }
            Err(error) => self.unreadable(r, path, Some(info), &error.to_string()),
        }
    }

    /// The keys of before, if there were any.
    fn unreadable(
        &self,
        r: &Request,
        path: PathBuf,
        info: Option<Info>,
        why: &str,
    ) -> Result<Arc<KeySet>, Missing> {
        if let Some(keys) = self.kept(&path, info) {
            // It was complained about in this very state already.
            return keys.map_err(Missing::Flow);
        }
        let before = FILES.with_borrow(|files| files.get(&path).and_then(|kept| kept.keys.clone()));
        let keys = before.or_else(|| self.initial.clone());
        let note = if keys.is_some() { ", the keys that were read before stay in force" } else { "" };
        brisk_server::rlog!(r, Error, "JWT key file \"{}\" cannot be used: {why}{note}", path.display());
        let kept = Kept { info, keys: keys.clone() };
        FILES.with_borrow_mut(|files| bounded(files).insert(path, kept));
        keys.ok_or(Missing::Flow(Flow::Status(500)))
    }
}

/// Reads a large file on the pool.
async fn large(file: &OpenFile) -> Option<Vec<u8>> {
    let size = usize::try_from(file.info.size).ok().filter(|&size| size <= KEY_SET_BYTES_MAX)?;
    let fd = file.fd.as_ref()?.try_clone().ok()?;
    let job = blocking::run(move || {
        let mut text = vec![0; size];
        std::fs::File::from(fd).read_exact_at(&mut text, 0).ok().map(|()| text)
    });
    job.ok()?.await
}

/// Keys that an earlier subrequest has brought, if they may still be used.
pub fn answered(asked: &Asked) -> Option<Arc<KeySet>> {
    let now_ms = clock::mono_ms();
    ANSWERS
        .with_borrow(|all| all.get(asked).filter(|a| now_ms < a.until_ms).map(|answer| answer.keys.clone()))
}

/// Makes the subrequest; its keys may be used again for the time `cache`.
pub async fn ask(r: &mut Request, asked: Asked, cache: Duration) -> Result<Arc<KeySet>, Flow> {
    // The arguments belong to the issuer's URI.
    let uri = &asked.uri[..];
    let (path, args) = match memchr::memchr(b'?', uri) {
        Some(at) => (&uri[..at], &uri[at + 1..]),
        None => (uri, &b""[..]),
    };
    // Without the client's body: it is not the issuer's business, and was perhaps not even read.
    let answer = Parent::without_body(r).run(Method::Get, path, args).await;
    let fail = |why: &str| {
        let uri = String::from_utf8_lossy(uri);
        brisk_server::rlog!(r, Error, "JWT key request \"{uri}\" failed: {why}");
        Flow::Status(500)
    };
    let mut answer = answer.ok_or_else(|| fail("no response"))?;
    if answer.resp.status != 200 {
        return Err(fail(&format!("status {}", answer.resp.status)));
    }
    // Keys are not unpacked: a small body could come to gigabytes.
    if answer.resp.content_encoding.is_some() {
        return Err(fail("the response is compressed"));
    }
    let body = std::mem::take(&mut answer.resp.body);
    let text = gather(body).await.map_err(fail)?;
    let keys = Arc::new(KeySet::parse(&text).map_err(|error| fail(&error.to_string()))?);
    // Only a set that could be parsed is kept, so a failure is asked about again by the next request.
    if !cache.is_zero() {
        let until_ms = clock::mono_ms() + cache.as_millis() as u64;
        let entry = Answer { until_ms, keys: keys.clone() };
        ANSWERS.with_borrow_mut(|all| bounded(all).insert(asked, entry));
    }
    Ok(keys)
}

async fn gather(body: Body) -> Result<Vec<u8>, &'static str> {
    let mut stream = InMemory::new(body);
    let mut text = Vec::new();
    loop {
        match poll_fn(|cx| stream.poll_chunk(cx)).await {
            None => return Ok(text),
            // Half a set may lack the key that is asked for, or have half of one.
            Some(Err(_)) => return Err("the response is cut off"),
            Some(Ok(Chunk::Flush)) => {}
            Some(Ok(Chunk::Piece(piece))) => {
                text.extend_from_slice(piece.in_memory().unwrap_or_default());
                if text.len() > KEY_SET_BYTES_MAX {
                    return Err("the response is too large");
                }
            }
        }
    }
}
