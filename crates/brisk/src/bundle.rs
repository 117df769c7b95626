//! Where configuration text comes from: the disk, or what the master has read from it.
//!
//! A worker never reads the disk for its configuration: it may not be allowed to, and the files may be half edited.
//! The master keeps every byte of the last accepted configuration as a [`Bundle`] and hands it over.

use brisk_conf::Loader;
use memchr::memmem;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

/// Everything a configuration was read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    pub files: BTreeMap<String, Arc<[u8]>>,
    pub globs: BTreeMap<String, Vec<String>>,
    /// Hosts that directives name. None: it was not found.
    pub hosts: BTreeMap<String, Vec<IpAddr>>,
}

impl Bundle {
    /// Whether a word stands anywhere in the files.
    pub fn says(&self, word: &str) -> bool {
        let finder = memmem::Finder::new(word);
        self.files.values().any(|text| finder.find(text).is_some())
    }
}

/// Reads the disk and remembers what it read.
pub struct DiskLoader {
    conf_prefix: String,
    seen: RefCell<Bundle>,
}

impl DiskLoader {
    pub fn new(conf_prefix: &str) -> DiskLoader {
        DiskLoader { conf_prefix: conf_prefix.to_string(), seen: RefCell::default() }
    }

    pub fn into_bundle(self) -> Bundle {
        self.seen.into_inner()
    }
}

fn resolve(conf_prefix: &str, path: &str) -> String {
    if path.starts_with('/') { path.to_string() } else { format!("{conf_prefix}{path}") }
}

impl Loader for DiskLoader {
    fn resolve(&self, path: &str) -> String {
        resolve(&self.conf_prefix, path)
    }

    fn read(&self, path: &str) -> io::Result<Arc<[u8]>> {
        if let Some(text) = self.seen.borrow().files.get(path) {
            return Ok(text.clone());
        }
        let text: Arc<[u8]> = std::fs::read(path)?.into();
        self.seen.borrow_mut().files.insert(path.to_string(), text.clone());
        Ok(text)
    }

    fn read_secret(&self, path: &str) -> io::Result<Arc<[u8]>> {
        // Checked where the disk is read: a worker is given the bytes by the process that read them.
        let mode = std::fs::metadata(path)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let why = format!("its mode is {mode:04o}, others than its owner may read it");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        self.read(path)
    }

    fn glob(&self, pattern: &str) -> io::Result<Vec<String>> {
        let invalid = |e: glob::PatternError| io::Error::new(io::ErrorKind::InvalidInput, e.to_string());
        // As glob(3): a leading dot must be written, and a slash separates.
        let options = glob::MatchOptions {
            require_literal_leading_dot: true,
            require_literal_separator: true,
            case_sensitive: true,
        };
        let paths = glob::glob_with(pattern, options).map_err(invalid)?;
        let mut found: Vec<String> =
            paths.filter_map(Result::ok).map(|p| p.to_string_lossy().into_owned()).collect();
        found.sort();
        self.seen.borrow_mut().globs.insert(pattern.to_string(), found.clone());
        Ok(found)
    }

    fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        if !self.seen.borrow().hosts.contains_key(host) {
            let mut found: Vec<IpAddr> = match (host, 0).to_socket_addrs() {
                Ok(found) => found.map(|addr| addr.ip()).collect(),
                Err(_) => Vec::new(),
            };
            // The system's order is kept; a name may be listed twice.
            let mut seen = BTreeSet::new();
            found.retain(|ip| seen.insert(*ip));
            self.seen.borrow_mut().hosts.insert(host.to_string(), found);
        }
        known(&self.seen.borrow(), host)
    }
}

fn known(bundle: &Bundle, host: &str) -> io::Result<Vec<IpAddr>> {
    let found = bundle.hosts.get(host).filter(|found| !found.is_empty()).cloned();
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "host not found"))
}

/// Answers from a bundle only.
pub struct BundleLoader<'b> {
    pub conf_prefix: &'b str,
    pub bundle: &'b Bundle,
}

impl Loader for BundleLoader<'_> {
    fn resolve(&self, path: &str) -> String {
        resolve(self.conf_prefix, path)
    }

    fn read(&self, path: &str) -> io::Result<Arc<[u8]>> {
        self.bundle.files.get(path).cloned().ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
    }

    fn glob(&self, pattern: &str) -> io::Result<Vec<String>> {
        Ok(self.bundle.globs.get(pattern).cloned().unwrap_or_default())
    }

    fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        known(self.bundle, host)
    }
}

impl Bundle {
    /// The bytes in which it is handed over.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, &(self.files.len() as u64).to_le_bytes());
        for (name, text) in &self.files {
            put(&mut out, name.as_bytes());
            put(&mut out, text);
        }
        put(&mut out, &(self.globs.len() as u64).to_le_bytes());
        for (pattern, names) in &self.globs {
            put(&mut out, pattern.as_bytes());
            put(&mut out, names.join("\0").as_bytes());
        }
        put(&mut out, &(self.hosts.len() as u64).to_le_bytes());
        for (host, found) in &self.hosts {
            put(&mut out, host.as_bytes());
            let found: Vec<String> = found.iter().map(IpAddr::to_string).collect();
            put(&mut out, found.join(" ").as_bytes());
        }
        out
    }

    /// The reverse of [`Bundle::encode`]; `None` for bytes that are none.
    pub fn decode(bytes: &[u8]) -> Option<Bundle> {
        let mut rest = bytes;
        let mut bundle = Bundle::default();
        let count = |rest: &mut &[u8]| Some(u64::from_le_bytes(take(rest)?.try_into().ok()?));
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        for _ in 0..count(&mut rest)? {
            let name = text(take(&mut rest)?)?;
            bundle.files.insert(name, take(&mut rest)?.into());
        }
        for _ in 0..count(&mut rest)? {
            let pattern = text(take(&mut rest)?)?;
            let names = text(take(&mut rest)?)?;
            let names = names.split('\0').filter(|n| !n.is_empty()).map(str::to_string).collect();
            bundle.globs.insert(pattern, names);
        }
        for _ in 0..count(&mut rest)? {
            let host = text(take(&mut rest)?)?;
            let found = text(take(&mut rest)?)?;
            let found = found.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
            bundle.hosts.insert(host, found);
        }
        rest.is_empty().then_some(bundle)
    }
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, tail) = rest.split_first_chunk::<8>()?;
    let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
    let (bytes, tail) = tail.split_at_checked(len)?;
    *rest = tail;
    Some(bytes)
}

/// The folder of a file, with its slash.
pub fn folder(path: &str) -> String {
    match Path::new(path).parent() {
        Some(parent) if !parent.as_os_str().is_empty() => {
            format!("{}/", parent.display().to_string().trim_end_matches('/'))
        }
        _ => "./".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_survives_its_way() {
        let mut bundle = Bundle::default();
        bundle.files.insert("/etc/a.conf".into(), Arc::from(&b"include x/*;"[..]));
        bundle.globs.insert("/etc/x/*".into(), vec!["/etc/x/1".into(), "/etc/x/2".into()]);
        bundle
            .hosts
            .insert("two.example".into(), vec![[192, 0, 2, 1].into(), "2001:db8::1".parse().unwrap()]);
        bundle.hosts.insert("none.example".into(), Vec::new());
        let bytes = bundle.encode();
        assert_eq!(Bundle::decode(&bytes), Some(bundle));
        for end in 0..bytes.len() {
            assert_eq!(Bundle::decode(&bytes[..end]), None);
        }
    }

    #[test]
    fn names_are_looked_up_once() {
        let disk = DiskLoader::new("/etc/");
        let found = disk.addresses("localhost").unwrap();
        assert!(found.iter().all(IpAddr::is_loopback));
        assert!(disk.addresses("no-such-host.invalid").is_err());
        let bundle = disk.into_bundle();
        let copy = BundleLoader { conf_prefix: "/etc/", bundle: &bundle };
        assert_eq!(copy.addresses("localhost").unwrap(), found);
        assert!(copy.addresses("no-such-host.invalid").is_err());
        assert!(copy.addresses("never-asked.example").is_err());
    }
}
