//! What is offered in handshakes: versions, cipher suites, groups; and how OpenSSL's lists name them.
//!
//! The library has the suites with forward secrecy and authenticated encryption of TLS 1.2, and those of TLS 1.3. What a
//! list asks for besides is reported, not offered.

use crate::{ciphers, names};
use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::{ALL_CIPHER_SUITES, ALL_KX_GROUPS, DEFAULT_CIPHER_SUITES, DEFAULT_KX_GROUPS};
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

/// Protocol versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// TLS 1.2.
    pub tls12: bool,
    /// TLS 1.3.
    pub tls13: bool,
}

impl Default for Versions {
    fn default() -> Versions {
        Versions { tls12: true, tls13: true }
    }
}

impl Versions {
    pub(crate) fn list(self) -> Vec<&'static SupportedProtocolVersion> {
        let all = [(self.tls13, &TLS13), (self.tls12, &TLS12)];
        all.into_iter().filter(|(on, _)| *on).map(|(_, version)| version).collect()
    }
}

/// Cipher suites in the order of preference.
#[derive(Clone, Debug, PartialEq)]
pub struct Suites {
    tls13: Vec<SupportedCipherSuite>,
    tls12: Vec<SupportedCipherSuite>,
}

impl Default for Suites {
    fn default() -> Suites {
        let of = |is_13: bool| {
            DEFAULT_CIPHER_SUITES.iter().copied().filter(|s| s.tls13().is_some() == is_13).collect()
        };
        Suites { tls13: of(true), tls12: of(false) }
    }
}

/// A list asked for what cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListError {
    /// No suite is left.
    Empty,
    /// A sign without a word, or a command that is none.
    Command,
    /// A word that OpenSSL would not know either.
    Unknown(String),
}

impl Suites {
    /// Suites for these versions.
    pub(crate) fn of(&self, versions: Versions) -> Vec<SupportedCipherSuite> {
        let (tls13, tls12) = (versions.tls13.then_some(&self.tls13), versions.tls12.then_some(&self.tls12));
        tls13.into_iter().chain(tls12).flatten().copied().collect()
    }

    /// Takes the suites of TLS 1.2 from an OpenSSL cipher list (`ssl_ciphers`). Gives the suites it names one by one that
    /// cannot be offered.
    pub fn set_list(&mut self, list: &str) -> Result<Vec<String>, ListError> {
        let chosen = ciphers::parse(list)?;
        self.tls12 = chosen.suites.into_iter().filter_map(find).collect();
        Ok(chosen.missing)
    }

    /// Takes the suites of TLS 1.3 from a list (`ssl_conf_command Ciphersuites`).
    pub fn set_tls13_list(&mut self, list: &str) -> Result<Vec<String>, ListError> {
        let mut suites = Vec::new();
        let mut missing = Vec::new();
        for word in list.split(':').filter(|word| !word.is_empty()) {
            let number = names::cipher_number(word).ok_or_else(|| ListError::Unknown(word.to_string()))?;
            match find(number).filter(|suite| suite.tls13().is_some()) {
                Some(suite) => suites.push(suite),
                None => missing.push(word.to_string()),
            }
        }
        if suites.is_empty() {
            return Err(ListError::Empty);
        }
        self.tls13 = suites;
        Ok(missing)
    }
}

pub(crate) fn find(number: u16) -> Option<SupportedCipherSuite> {
    ALL_CIPHER_SUITES.iter().copied().find(|suite| u16::from(suite.suite()) == number)
}

/// Groups for the exchange of keys, in the order of preference.
#[derive(Clone, Debug)]
pub struct Groups(pub(crate) Vec<&'static dyn SupportedKxGroup>);

impl Default for Groups {
    fn default() -> Groups {
        Groups(DEFAULT_KX_GROUPS.to_vec())
    }
}

impl Groups {
    /// Reads a list such as `X25519MLKEM768:X25519:prime256v1` (`ssl_ecdh_curve`); `auto` is the default. Gives those that
    /// cannot be offered or are not known.
    pub fn from_list(list: &str) -> Result<(Groups, Vec<String>), ListError> {
        if list == "auto" {
            return Ok((Groups::default(), Vec::new()));
        }
        let mut groups = Groups(Vec::new());
        let mut missing = Vec::new();
        // OpenSSL 3.5 separates equally good ones by slashes and marks key shares by stars; `?` means "if known".
        for word in list.split([':', '/']).map(|word| word.trim_start_matches(['?', '*'])) {
            if word.eq_ignore_ascii_case("DEFAULT") {
                groups.0.extend(DEFAULT_KX_GROUPS);
                continue;
            }
            let number = names::group_number(word);
            match ALL_KX_GROUPS.iter().find(|group| Some(u16::from(group.name())) == number) {
                Some(group) => groups.0.push(*group),
                None => missing.push(word.to_string()),
            }
        }
        if groups.0.is_empty() {
            return Err(ListError::Empty);
        }
        Ok((groups, missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_lists() {
        let names = |list| {
            let (groups, missing) = Groups::from_list(list)?;
            let names: Vec<_> = groups.0.iter().filter_map(|g| names::group(u16::from(g.name()))).collect();
            Ok::<_, ListError>((names, missing))
        };
        assert_eq!(names("auto").unwrap().0[0], "X25519MLKEM768");
        assert_eq!(names("secp384r1:P-256").unwrap(), (vec!["secp384r1", "prime256v1"], vec![]));
        assert_eq!(names("X448:X25519").unwrap(), (vec!["X25519"], vec!["X448".to_string()]));
        assert_eq!(names("X448"), Err(ListError::Empty));
        assert_eq!(names("nonsense"), Err(ListError::Empty));
        assert_eq!(names("nonsense:X25519").unwrap(), (vec!["X25519"], vec!["nonsense".to_string()]));
    }
}
