//! Certificates with their keys: read with the configuration, made usable at their first handshake, replaced when the files
//! have changed.

use super::answers::Stapler;
use brisk_net::blocking::{self, QueueFull, Serial};
use brisk_tls::certificate::Certificate;
use brisk_tls::{Certificates, Certified, PrivateKey};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};
use std::{fmt, io};

/// Where a certificate and its key are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    /// `ssl_certificate`: a path, or `data:` and the PEM.
    pub certificate: String,
    /// `ssl_certificate_key`: likewise.
    pub key: String,
}

impl Pair {
    /// What variables have come to; relative paths begin at `prefix`.
    pub fn named(certificate: &[u8], key: &[u8], prefix: &str) -> Pair {
        let text = |text: &[u8]| {
            let text = String::from_utf8_lossy(text).into_owned();
            let path = text.strip_prefix("store:file:").unwrap_or(&text);
            let is_whole = path.starts_with('/') || path.starts_with("data:");
            if is_whole { path.to_string() } else { format!("{prefix}{path}") }
        };
        Pair { certificate: text(certificate), key: text(key) }
    }

    /// Reads it, unless `cache` has it. What a password protects is not kept there.
    pub async fn load(
        &self,
        passwords: &Arc<Vec<Vec<u8>>>,
        cache: Option<&Cache>,
    ) -> Result<Certified, String> {
        if let Some(known) = cache.and_then(|cache| cache.get(self)) {
            return Ok(known);
        }
        let (wanted, words) = (self.clone(), passwords.clone());
        let job = blocking::run(move || load(&wanted, &words, None)).map_err(queue_full)?;
        let loaded = match (job.await, MASTER.get()) {
            // The worker's own rights first: the master is one process for all threads, and is asked only for what needs root.
            (Err(Problem::Forbidden(_)), Some(master)) => {
                let (wanted, words) = (self.clone(), passwords.clone());
                let job = move || load(&wanted, &words, Some(&**master));
                MASTERS.ask(job).map_err(queue_full)?.await
            }
            (loaded, _) => loaded,
        };
        let loaded = loaded.map_err(|(Problem::Forbidden(why) | Problem::Other(why))| why)?;
        // A cache may be one for servers with different passwords (`ssl_certificate_cache` is inherited): a key that one could open must not be had by
        // the other.
        if let Some(cache) = cache.filter(|_| !loaded.is_encrypted) {
            cache.put(self, &loaded.certified);
        }
        Ok(loaded.certified)
    }
}

/// Reads a file that this process may not read.
pub type Reader = dyn Fn(&str) -> io::Result<Vec<u8>> + Send + Sync;

static MASTER: OnceLock<Box<Reader>> = OnceLock::new();
/// One at a time: a master that is busy must not hold up all threads of the pool.
static MASTERS: LazyLock<Serial> = LazyLock::new(Serial::default);

/// Has `reader` asked for files that this process may not read; for the life of the process. It may block.
pub fn read_through(reader: Box<Reader>) {
    // A second one would be the same.
    let _ = MASTER.set(reader);
}

/// Why a pair cannot be had: nginx's line.
enum Problem {
    /// This process may not read a file of it.
    Forbidden(String),
    Other(String),
}

fn queue_full(_: QueueFull) -> String {
    "the queue of the thread pool is full".to_string()
}

/// What was read of a [`Pair`].
struct Loaded {
    certified: Certified,
    /// The key was.
    is_encrypted: bool,
}

/// What files have given.
pub struct Parsed {
    /// DER, the certificate first.
    chain: Vec<Vec<u8>>,
    key: PrivateKey,
    more: Chain,
}

/// Certificates (DER) that are sent behind one whose own file holds no others.
pub type Chain = Arc<[Vec<u8>]>;

impl Parsed {
    /// Reads both texts; nothing is computed yet. The error is nginx's line.
    pub fn new(
        pair: &Pair,
        certificate: &[u8],
        key: &[u8],
        passwords: &[Vec<u8>],
        more: &Chain,
    ) -> Result<Parsed, String> {
        let mut chain = brisk_tls::chain(certificate).map_err(|why| {
            format!(
                "cannot load certificate \"{}\": PEM_read_bio_X509() failed (SSL: error:{why})",
                pair.certificate
            )
        })?;
        let key = PrivateKey::from_pem(key, passwords)
            .map_err(|why| format!("cannot load certificate key \"{}\": {why}", pair.key))?;
        // Checked when it is read, so that a pair that does not fit is an error of the configuration and not of each
        // handshake.
        if key.belongs_to(&chain[0]) == Some(false) {
            return Err(format!(
                "SSL_CTX_use_PrivateKey(\"{}\") failed (SSL: error:05800074:x509 certificate routines::key values mismatch)",
                pair.key
            ));
        }
        if let [leaf] = &*chain {
            // The certificate may stand in the other file once more.
            let more: Vec<_> = more.iter().filter(|one| *one != leaf).cloned().collect();
            chain.extend(more);
        }
        Ok(Parsed { chain, key, more: more.clone() })
    }

    /// When the certificate ends, in Unix seconds; `i64::MAX` where it cannot be read.
    fn not_after(&self) -> i64 {
        let leaf = self.chain.first().and_then(|der| Certificate::parse(der).ok());
        leaf.map_or(i64::MAX, |leaf| leaf.not_after)
    }

    fn certified(self, pair: &Pair, staple: Option<Vec<u8>>) -> Result<Certified, String> {
        Certified::new(self.chain, &self.key, staple)
            .map_err(|why| format!("cannot load certificate key \"{}\": {why}", pair.key))
    }
}

enum State {
    Parsed(Parsed),
    Ready(Certified),
    /// The key cannot be used.
    Broken(String),
}

/// One certificate of a configuration.
pub struct Source {
    /// Where certificate and key are.
    pub pair: Pair,
    passwords: Arc<Vec<Vec<u8>>>,
    /// `ssl_certificate_chain`, which a file that takes the certificate's place gets, too.
    more: Chain,
    /// `ssl_stapling`.
    pub stapler: Option<Stapler>,
    /// The OCSP response that is sent along.
    response: RwLock<Option<Vec<u8>>>,
    not_after: AtomicI64,
    state: RwLock<State>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({})", self.pair.certificate)
    }
}

impl Source {
    /// As read at the start.
    pub fn new(
        pair: Pair,
        parsed: Parsed,
        passwords: Arc<Vec<Vec<u8>>>,
        stapler: Option<Stapler>,
        response: Option<Vec<u8>>,
    ) -> Source {
        let (not_after, more) = (parsed.not_after().into(), parsed.more.clone());
        let (state, response) = (RwLock::new(State::Parsed(parsed)), RwLock::new(response));
        Source { pair, passwords, more, stapler, response, not_after, state }
    }

    /// When the certificate ends, in Unix seconds; `None` where it cannot be read.
    pub fn not_after(&self) -> Option<i64> {
        Some(self.not_after.load(Ordering::Relaxed)).filter(|secs| *secs != i64::MAX)
    }

    fn response(&self) -> Option<Vec<u8>> {
        self.response.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The certificate with a key that signs; made at the first call.
    /// A configuration may name more certificates than are ever asked for.
    pub fn get(&self) -> Result<Certified, String> {
        // The usual way is a shared lock for a clone; the exclusive one is taken once.
        match &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            // A clone is a few counted references: signing needs no lock.
            State::Ready(certified) => return Ok(certified.clone()),
            State::Broken(why) => return Err(why.clone()),
            State::Parsed(_) => {}
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let State::Parsed(_) = &*state
            && let State::Parsed(parsed) = std::mem::replace(&mut *state, State::Broken(String::new()))
        {
            *state = match parsed.certified(&self.pair, self.response()) {
                Ok(certified) => State::Ready(certified),
                Err(why) => State::Broken(why),
            };
        }
        match &*state {
            State::Ready(certified) => Ok(certified.clone()),
            State::Broken(why) => Err(why.clone()),
            State::Parsed(_) => Err(String::new()),
        }
    }

    /// Takes what the files hold now. With an error everything stays as it is.
    pub fn replace(&self, certificate: &[u8], key: &[u8]) -> Result<(), String> {
        // Parsed before anything is changed: a file that is being written leaves the old certificate in force.
        let parsed = Parsed::new(&self.pair, certificate, key, &self.passwords, &self.more)?;
        // A response that was fetched is of the certificate before; it is given up only with that.
        let response = if self.stapler.is_some() { None } else { self.response() };
        let not_after = parsed.not_after();
        let certified = parsed.certified(&self.pair, response)?;
        self.not_after.store(not_after, Ordering::Relaxed);
        if let Some(stapler) = &self.stapler {
            stapler.forget();
            *self.response.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = State::Ready(certified);
        Ok(())
    }

    /// Sends this OCSP response with the certificate from now on.
    pub fn staple(&self, response: Option<Vec<u8>>) -> Result<(), String> {
        let certified = self.get()?.stapled(response.clone());
        *self.response.write().unwrap_or_else(PoisonError::into_inner) = response;
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = State::Ready(certified);
        Ok(())
    }
}

/// The certificates of one server.
#[derive(Debug)]
pub struct Sources {
    /// Those of all servers.
    pub list: Vec<Arc<Source>>,
    /// Some of them want OCSP responses.
    pub is_stapled: bool,
}

impl Certificates for Sources {
    fn get(&self) -> Arc<[Certified]> {
        // A certificate that cannot be used is left out; the others are offered.
        self.list.iter().filter_map(|source| source.get().ok()).collect()
    }
}

/// `ssl_certificate_cache`: certificates whose paths have variables in them.
#[derive(Debug)]
pub struct Cache {
    /// `max=`: so many pairs.
    pub max: usize,
    /// `inactive=`: a pair that was not used for so long goes.
    pub inactive: Duration,
    /// `valid=`: so long a pair is not read again.
    pub valid: Duration,
    entries: Mutex<HashMap<Pair, Entry>>,
}

#[derive(Debug)]
struct Entry {
    certified: Certified,
    loaded: Instant,
    used: Instant,
}

impl Cache {
    /// Empty.
    pub fn new(max: usize, inactive: Duration, valid: Duration) -> Cache {
        Cache { max, inactive, valid, entries: Mutex::default() }
    }

    pub(super) fn get(&self, pair: &Pair) -> Option<Certified> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let entry = entries.get_mut(pair)?;
        // Both on use: `valid` bounds how old a certificate may be, `inactive` what is kept for names that are not asked for.
        if now - entry.loaded > self.valid || now - entry.used > self.inactive {
            entries.remove(pair);
            return None;
        }
        entry.used = now;
        Some(entry.certified.clone())
    }

    fn put(&self, pair: &Pair, certified: &Certified) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        entries.retain(|_, entry| now - entry.used <= self.inactive);
        while entries.len() >= self.max {
            // A walk over all entries: it happens only when the cache is full, beside a read from the disk.
            let Some(oldest) =
                entries.iter().min_by_key(|(_, entry)| entry.used).map(|(pair, _)| pair.clone())
            else {
                break;
            };
            entries.remove(&oldest);
        }
        entries.insert(pair.clone(), Entry { certified: certified.clone(), loaded: now, used: now });
    }
}

/// Reads a pair from the disk, through `master` if there is one. `data:` in front of a text is the text itself, as in nginx.
fn load(pair: &Pair, passwords: &[Vec<u8>], master: Option<&Reader>) -> Result<Loaded, Problem> {
    let certificate = read("certificate", &pair.certificate, master)?;
    let key = read("certificate key", &pair.key, master)?;
    // Both forms say so: `BEGIN ENCRYPTED PRIVATE KEY` (RFC 5958) and `Proc-Type: 4,ENCRYPTED` (RFC 1421).
    let is_encrypted = memchr::memmem::find(&key, b"ENCRYPTED").is_some();
    let parsed = Parsed::new(pair, &certificate, &key, passwords, &Chain::default());
    let certified = parsed.and_then(|parsed| parsed.certified(pair, None)).map_err(Problem::Other)?;
    Ok(Loaded { certified, is_encrypted })
}

fn read(what: &str, name: &str, master: Option<&Reader>) -> Result<Vec<u8>, Problem> {
    if let Some(text) = name.strip_prefix("data:") {
        return Ok(text.as_bytes().to_vec());
    }
    let path = name;
    let text = match master {
        Some(master) => master(path),
        None => std::fs::read(Path::new(path)),
    };
    text.map_err(|error| {
        let why = brisk_conf::os_text(&error);
        let why = format!(
            "cannot load {what} \"{path}\": BIO_new_file() failed (SSL: error:80000002:system library::{why})"
        );
        match error.kind() {
            io::ErrorKind::PermissionDenied => Problem::Forbidden(why),
            _ => Problem::Other(why),
        }
    })
}
