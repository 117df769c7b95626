//! Certificates whose paths have variables in them: which they are is known in a handshake only.

use super::allowed::Allowed;
use super::source::{Cache, Pair};
use crate::vars::{Context, Template};
use brisk_tls::Certified;
use std::sync::Arc;

/// See the module's head.
pub struct Named {
    /// Certificates and keys: paths, `data:` and the PEM, or variables that hold one of them.
    pub pairs: Vec<(Template, Template)>,
    /// The main file's folder, where relative paths begin.
    pub prefix: String,
    /// `ssl_password_file`.
    pub passwords: Arc<Vec<Vec<u8>>>,
    /// `ssl_certificate_cache`.
    pub cache: Option<Arc<Cache>>,
}

/// Where the certificates of one handshake come from.
pub enum Wanted {
    /// What sessions are made with has them.
    Own,
    /// They were read before.
    Read(Arc<[Certified]>),
    /// They must be read.
    Load(Vec<Pair>),
}

impl Named {
    /// What is wanted in one handshake. The error is for the log: a client's value would lead to files that the configuration does
    /// not mean.
    pub fn wanted(&self, of: &impl Context, allowed: &Allowed) -> Result<Wanted, String> {
        let pairs = self.pairs.iter().map(|pair| self.pair(pair, of, allowed));
        let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
        // All or none: a session is made with all certificates at once.
        let cached = pairs.iter().map(|pair| self.cache.as_ref()?.get(pair)).collect::<Option<Arc<[_]>>>();
        Ok(cached.map_or(Wanted::Load(pairs), Wanted::Read))
    }

    fn pair(
        &self,
        (certificate, key): &(Template, Template),
        of: &impl Context,
        allowed: &Allowed,
    ) -> Result<Pair, String> {
        let pair = Pair::named(&certificate.eval(of), &key.eval(of), &self.prefix);
        allowed.rule(certificate).check(&pair.certificate)?;
        allowed.rule(key).check(&pair.key)?;
        Ok(pair)
    }

    /// Reads certificates from the disk. The error is for the log.
    pub async fn load(&self, pairs: Vec<Pair>) -> Result<Arc<[Certified]>, String> {
        let mut certified = Vec::new();
        for pair in pairs {
            certified.push(pair.load(&self.passwords, self.cache.as_deref()).await?);
        }
        Ok(certified.into())
    }
}
