//! What is offered in handshakes: versions, cipher suites, groups; and how OpenSSL's lists name them.
//!
//! The library has the suites with forward secrecy and authenticated encryption of TLS 1.2, and those of TLS 1.3. What a
//! list asks for besides is reported, not offered.

use crate::names;
use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::{ALL_CIPHER_SUITES, ALL_KX_GROUPS, DEFAULT_CIPHER_SUITES, DEFAULT_KX_GROUPS};
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

/// Protocol versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    pub tls12: bool,
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
        let mut chosen: Vec<u16> = Vec::new();
        let mut killed: Vec<u16> = Vec::new();
        let mut missing = Vec::new();
        for word in list.split([':', ',', ' ', ';']).filter(|word| !word.is_empty()) {
            if word.starts_with('@') {
                continue;
            }
            let (sign, word) = match word.as_bytes()[0] {
                sign @ (b'!' | b'-' | b'+') => (sign, &word[1..]),
                _ => (0, word),
            };
            let found = match alias(word) {
                Some(found) => found,
                None => match names::cipher_number(word) {
                    Some(number) => {
                        // Suites of TLS 1.3 are not for this list.
                        if sign == 0 && find(number).is_none() && number >> 8 != 0x13 {
                            missing.push(word.to_string());
                        }
                        vec![number]
                    }
                    // OpenSSL passes over words that it does not know, as long as something is left.
                    None => Vec::new(),
                },
            };
            match sign {
                b'!' => killed.extend(&found),
                b'-' => chosen.retain(|have| !found.contains(have)),
                b'+' => {
                    let (moved, kept) = chosen.iter().partition(|have| found.contains(have));
                    chosen = [Vec::<u16>::clone(&kept), moved].concat();
                }
                _ => {
                    let fresh: Vec<u16> = found.into_iter().filter(|n| !chosen.contains(n)).collect();
                    chosen.extend(fresh);
                }
            }
            chosen.retain(|have| !killed.contains(have));
        }
        let suites: Vec<_> =
            chosen.into_iter().filter_map(find).filter(|suite| suite.tls13().is_none()).collect();
        if suites.is_empty() {
            return Err(ListError::Empty);
        }
        self.tls12 = suites;
        Ok(missing)
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

fn find(number: u16) -> Option<SupportedCipherSuite> {
    ALL_CIPHER_SUITES.iter().copied().find(|suite| u16::from(suite.suite()) == number)
}

const ECDSA: [u16; 3] = [0xc02c, 0xcca9, 0xc02b];
const RSA: [u16; 3] = [0xc030, 0xcca8, 0xc02f];

/// The suites that a word of a list stands for, in OpenSSL's order, among those that can be offered. Words joined by `+`
/// all have to hold.
fn alias(word: &str) -> Option<Vec<u16>> {
    // By strength, then by the key's kind: what OpenSSL makes of HIGH.
    let all: [u16; 6] = [0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc02b, 0xc02f];
    let mut found: Vec<u16> = all.to_vec();
    for part in word.split('+') {
        let keep: &dyn Fn(u16) -> bool = match part.to_ascii_uppercase().as_str() {
            "DEFAULT" | "COMPLEMENTOFDEFAULT" if part.starts_with(['C', 'c']) => &|_| false,
            "DEFAULT" | "ALL" | "HIGH" | "TLSV1.2" | "ECDHE" | "EECDH" | "KECDHE" | "KEECDH" | "ECCDRAFT"
            | "FIPS" | "PROFILE=SYSTEM" | "SUITEB128" | "SUITEB128ONLY" | "SUITEB192" | "ECDH" | "KECDH" => {
                &|_| true
            }
            "ARSA" => &|n| RSA.contains(&n),
            "AECDSA" | "ECDSA" => &|n| ECDSA.contains(&n),
            "AES" | "AESGCM" => &|n| !matches!(n, 0xcca8 | 0xcca9),
            "AES128" => &|n| matches!(n, 0xc02b | 0xc02f),
            "AES256" | "SHA384" => &|n| matches!(n, 0xc02c | 0xc030),
            "SHA256" => &|n| matches!(n, 0xc02b | 0xc02f | 0xcca8 | 0xcca9),
            "CHACHA20" => &|n| matches!(n, 0xcca8 | 0xcca9),
            // Known words for suites of which none can be offered.
            "NULL" | "ENULL" | "ANULL" | "LOW" | "MEDIUM" | "EXP" | "EXPORT" | "EXPORT40" | "EXPORT56"
            | "MD5" | "SHA1" | "SHA" | "RC4" | "RC2" | "DES" | "3DES" | "IDEA" | "SEED" | "CAMELLIA"
            | "CAMELLIA128" | "CAMELLIA256" | "ARIA" | "ARIA128" | "ARIA256" | "ARIAGCM" | "AESCCM"
            | "AESCCM8" | "PSK" | "KPSK" | "APSK" | "SRP" | "KSRP" | "ASRP" | "KRSA" | "RSA" | "DH"
            | "DHE" | "EDH" | "KDHE" | "KEDH" | "ADH" | "AECDH" | "DSS" | "ADSS" | "ADH-" | "ECDHEPSK"
            | "KECDHEPSK" | "DHEPSK" | "KDHEPSK" | "RSAPSK" | "KRSAPSK" | "TLSV1" | "TLSV1.0" | "SSLV3"
            | "SSLV2" | "GOST" | "KGOST" | "AGOST" | "GOST94" | "GOST89MAC" | "AGOST01" | "AGOST12"
            | "STREEBOG256" | "STREEBOG512" | "CBC" | "COMPLEMENTOFALL" | "KDHR" | "KDHD" | "KDH"
            | "KECDHR" | "AECDHE" | "KECDHE-" | "ADH+" => &|_| false,
            _ => return None,
        };
        found.retain(|&number| keep(number));
    }
    Some(found)
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
    /// cannot be offered.
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
            let number = names::group_number(word).ok_or_else(|| ListError::Unknown(word.to_string()))?;
            match ALL_KX_GROUPS.iter().find(|group| u16::from(group.name()) == number) {
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

    fn chosen(list: &str) -> Result<(Vec<&'static str>, Vec<String>), ListError> {
        let mut suites = Suites::default();
        let missing = suites.set_list(list)?;
        let names = suites.tls12.iter().map(|s| names::cipher(u16::from(s.suite())).unwrap_or("?"));
        Ok((names.collect(), missing))
    }

    #[test]
    fn cipher_lists_of_openssl() {
        let all = [
            "ECDHE-ECDSA-AES256-GCM-SHA384",
            "ECDHE-RSA-AES256-GCM-SHA384",
            "ECDHE-ECDSA-CHACHA20-POLY1305",
            "ECDHE-RSA-CHACHA20-POLY1305",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
            "ECDHE-RSA-AES128-GCM-SHA256",
        ];
        for list in ["HIGH:!aNULL:!MD5", "DEFAULT", "ALL:!RC4", "EECDH+AESGCM:HIGH:+ECDSA:@STRENGTH"] {
            let (mut names, missing) = chosen(list).unwrap();
            let mut sorted = all.to_vec();
            names.sort_unstable();
            sorted.sort_unstable();
            assert_eq!((names, missing.len()), (sorted, 0), "{list}");
        }
        assert_eq!(chosen("HIGH:!aNULL:!MD5").unwrap().0, all);
        assert_eq!(chosen("ECDHE+aRSA+AES128").unwrap().0, ["ECDHE-RSA-AES128-GCM-SHA256"]);
        let list =
            "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384:DHE-RSA-AES128-GCM-SHA256:AES128-SHA";
        let (names, missing) = chosen(list).unwrap();
        assert_eq!(names, ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384"]);
        assert_eq!(missing, ["DHE-RSA-AES128-GCM-SHA256", "AES128-SHA"]);
        assert_eq!(chosen("ALL:-CHACHA20:!AES128:!ECDSA").unwrap().0, ["ECDHE-RSA-AES256-GCM-SHA384"]);
        for list in ["AES128-SHA", "RC4:MD5", "nonsense", "", "HIGH:!ALL"] {
            assert_eq!(chosen(list), Err(ListError::Empty), "{list}");
        }
    }

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
        assert_eq!(names("nonsense"), Err(ListError::Unknown("nonsense".into())));
    }
}
