//! OpenSSL's cipher lists (`ssl_ciphers`), as far as they speak of the suites that can be offered.
//!
//! A list is a program over an ordered list of all suites, each active or not: words add, remove, kill or move what they
//! match. What is active in the end is offered, in that order (`openssl-ciphers(1)`). Suites that cannot be offered leave no
//! trace in it, so only the others are kept here.

use crate::names;
use crate::suites::{ListError, find};

/// A suite of TLS 1.2 that can be offered. All have ephemeral ECDH and authenticated encryption: no word for other exchanges
/// of keys, or for a MAC (`SHA256` and `SHA384` are those of CBC suites), matches any.
#[derive(Clone, Copy, Debug)]
struct Suite {
    number: u16,
    name: &'static str,
    /// In the registry; OpenSSL takes these too since 3.2.
    standard: &'static str,
    is_ecdsa: bool,
    encryption: Encryption,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encryption {
    Aes128,
    Aes256,
    ChaCha20,
}

impl Suite {
    /// Bits, as `@STRENGTH` and security levels count them.
    fn strength(self) -> u16 {
        match self.encryption {
            Encryption::Aes128 => 128,
            Encryption::Aes256 | Encryption::ChaCha20 => 256,
        }
    }

    /// Whether one word, in OpenSSL's spelling, stands for the suite. Words that OpenSSL does not know stand for none.
    fn is(self, word: &str) -> bool {
        match word {
            "ALL" | "HIGH" | "TLSv1.2" | "ECDHE" | "EECDH" | "kECDHE" | "kEECDH" | "ECDH" => true,
            "aRSA" => !self.is_ecdsa,
            "aECDSA" | "ECDSA" => self.is_ecdsa,
            "AES" | "AESGCM" | "FIPS" => self.encryption != Encryption::ChaCha20,
            "AES128" => self.encryption == Encryption::Aes128,
            "AES256" => self.encryption == Encryption::Aes256,
            "CHACHA20" => self.encryption == Encryption::ChaCha20,
            word => word == self.name || word == self.standard,
        }
    }
}

macro_rules! suite {
    ($number:literal, $name:literal, $standard:literal, $is_ecdsa:literal, $encryption:ident) => {
        Suite {
            number: $number,
            name: $name,
            standard: $standard,
            is_ecdsa: $is_ecdsa,
            encryption: Encryption::$encryption,
        }
    };
}

/// In the order in which OpenSSL arranges them before it reads a list.
const OFFERED: [Suite; 6] = [
    suite!(0xc02c, "ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", true, Aes256),
    suite!(0xc030, "ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", false, Aes256),
    suite!(
        0xcca9,
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        true,
        ChaCha20
    ),
    suite!(
        0xcca8,
        "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        false,
        ChaCha20
    ),
    suite!(0xc02b, "ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", true, Aes128),
    suite!(0xc02f, "ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", false, Aes128),
];

/// Words for suites of which none can be offered. They have no effect, but end where they end: what follows an unknown word,
/// up to the next separator, is passed over.
const OTHERS: &[&str] = &[
    "COMPLEMENTOFALL",
    "COMPLEMENTOFDEFAULT",
    "kRSA",
    "kEDH",
    "kDHE",
    "DH",
    "kPSK",
    "kRSAPSK",
    "kECDHEPSK",
    "kDHEPSK",
    "kSRP",
    "kGOST",
    "kGOST18",
    "aDSS",
    "DSS",
    "aNULL",
    "aPSK",
    "aGOST01",
    "aGOST12",
    "aGOST",
    "aSRP",
    "EDH",
    "DHE",
    "NULL",
    "RSA",
    "ADH",
    "AECDH",
    "PSK",
    "SRP",
    "3DES",
    "RC4",
    "RC2",
    "IDEA",
    "SEED",
    "eNULL",
    "GOST89",
    "AESCCM",
    "AESCCM8",
    "CAMELLIA128",
    "CAMELLIA256",
    "CAMELLIA",
    "GOST2012MAGMA",
    "GOST2012KUZNYECHIK",
    "ARIA",
    "ARIAGCM",
    "ARIA128",
    "ARIA256",
    "CBC",
    "MD5",
    "SHA1",
    "SHA",
    "GOST94",
    "GOST89MAC",
    "SHA256",
    "SHA384",
    "GOST12",
    "SSLv3",
    "TLSv1",
    "TLSv1.0",
    "LOW",
    "MEDIUM",
];

/// What a list comes to.
pub(crate) struct Chosen {
    pub suites: Vec<u16>,
    /// Suites that the list names one by one and that cannot be offered.
    pub missing: Vec<String>,
}

/// Suites in order, each with whether it is active.
type Ranked = Vec<(Suite, bool)>;

/// All suites, in an order that the words of a list change.
struct Order {
    list: Ranked,
    /// `@SECLEVEL`
    level: u8,
    missing: Vec<String>,
}

/// Reads a list.
pub(crate) fn parse(list: &str) -> Result<Chosen, ListError> {
    let list_of_all = OFFERED.map(|suite| (suite, false)).to_vec();
    let mut order = Order { list: list_of_all, level: 0, missing: Vec::new() };
    let mut rest = order.begin(list);
    while let Some(first) = rest.chars().next() {
        if is_separator(first) {
            rest = &rest[1..];
            continue;
        }
        rest = order.rule(rest)?;
    }
    let least = [0, 80, 112, 128, 192, 256][usize::from(order.level)];
    let active = order.list.iter().filter(|(suite, active)| *active && suite.strength() >= least);
    let suites: Vec<u16> = active.map(|(suite, _)| suite.number).collect();
    if suites.is_empty() { Err(ListError::Empty) } else { Ok(Chosen { suites, missing: order.missing }) }
}

fn is_separator(c: char) -> bool {
    matches!(c, ':' | ',' | ' ' | ';')
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '=')
}

fn is_known(word: &str) -> bool {
    OFFERED.iter().any(|suite| suite.is(word))
        || OTHERS.contains(&word)
        || names::cipher_number(word).is_some()
}

impl Order {
    /// What may only stand at the beginning, without a separator behind it. Gives the rest of the list.
    fn begin<'l>(&mut self, list: &'l str) -> &'l str {
        // Lists for Suite B (RFC 6460) are the whole list.
        let suite_b = [
            ("SUITEB128ONLY", "ECDHE-ECDSA-AES128-GCM-SHA256"),
            ("SUITEB128C2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
            ("SUITEB128", "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384"),
            ("SUITEB192", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ];
        if let Some((_, stands_for)) = suite_b.into_iter().find(|(word, _)| list.starts_with(word)) {
            return stands_for;
        }
        // Fedora's OpenSSL has the latter, for the list of the system.
        let Some(rest) = ["DEFAULT", "PROFILE=SYSTEM"].into_iter().find_map(|word| list.strip_prefix(word))
        else {
            return list;
        };
        self.list.iter_mut().for_each(|(_, active)| *active = true);
        rest
    }

    /// Carries out one rule and gives what stands behind it.
    fn rule<'l>(&mut self, text: &'l str) -> Result<&'l str, ListError> {
        let (sign, mut rest) = match text.as_bytes()[0] {
            sign @ (b'!' | b'-' | b'+' | b'@') => (sign, &text[1..]),
            _ => (0, text),
        };
        let to_separator = |rest: &'l str| &rest[rest.find(is_separator).unwrap_or(rest.len())..];
        let mut words = Vec::new();
        loop {
            let (word, behind) = rest.split_at(rest.find(|c| !is_of_word(c)).unwrap_or(rest.len()));
            if word.is_empty() {
                return Err(ListError::Command);
            }
            rest = behind;
            if sign == b'@' {
                self.special(word)?;
                return Ok(to_separator(rest));
            }
            if !is_known(word) {
                return Ok(to_separator(rest));
            }
            words.push(word);
            match rest.strip_prefix('+') {
                Some(further) => rest = further,
                None => break,
            }
        }
        if let [word] = words[..]
            && sign == 0
            && names::cipher_number(word).is_some_and(|number| find(number).is_none())
        {
            self.missing.push(word.to_string());
        }
        self.apply(sign, &words);
        Ok(rest)
    }

    /// Words joined by `+` must all hold.
    fn apply(&mut self, sign: u8, words: &[&str]) {
        let matches = |suite: Suite| words.iter().all(|word| suite.is(word));
        match sign {
            b'!' => self.list.retain(|(suite, _)| !matches(*suite)),
            // What is taken out comes first if it is added again.
            b'-' => {
                let (mut moved, kept) = self.take(|suite, active| active && matches(suite));
                moved.iter_mut().for_each(|(_, active)| *active = false);
                self.list = [moved, kept].concat();
            }
            b'+' => {
                let (moved, kept) = self.take(|suite, active| active && matches(suite));
                self.list = [kept, moved].concat();
            }
            _ => {
                let (mut moved, kept) = self.take(|suite, active| !active && matches(suite));
                moved.iter_mut().for_each(|(_, active)| *active = true);
                self.list = [kept, moved].concat();
            }
        }
    }

    fn take(&self, which: impl Fn(Suite, bool) -> bool) -> (Ranked, Ranked) {
        self.list.iter().copied().partition(|&(suite, active)| which(suite, active))
    }

    /// `@STRENGTH` and `@SECLEVEL=0` to `5`.
    fn special(&mut self, word: &str) -> Result<(), ListError> {
        if word == "STRENGTH" {
            // Stable: the strongest first.
            self.list
                .sort_by_key(|(suite, active)| (*active, u16::MAX - suite.strength() * u16::from(*active)));
            return Ok(());
        }
        self.level = match word.strip_prefix("SECLEVEL=").map(str::as_bytes) {
            Some(&[digit @ b'0'..=b'5']) => digit - b'0',
            _ => return Err(ListError::Command),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn chosen(list: &str) -> Result<Vec<&'static str>, ListError> {
        let name = |number: &u16| {
            OFFERED.iter().find(|suite| suite.number == *number).map_or("?", |suite| suite.name)
        };
        Ok(parse(list)?.suites.iter().map(name).collect())
    }

    /// What OpenSSL makes of a list, of the suites that can be offered.
    fn by_openssl(list: &str) -> Vec<String> {
        let output = Command::new("openssl").args(["ciphers", list]).output().expect("openssl");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_offered = |name: &&str| OFFERED.iter().any(|suite| suite.name == *name);
        text.trim().split(':').filter(is_offered).map(str::to_string).collect()
    }

    /// Lists as they stand in public configurations, and odd ones.
    #[test]
    fn lists_mean_what_they_mean_to_openssl() {
        let lists = include_str!("../tests/ciphers.txt")
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut wrong = Vec::new();
        let mut count = 0;
        for list in lists {
            count += 1;
            let (ours, theirs) = (chosen(list).unwrap_or_default(), by_openssl(list));
            if ours != theirs {
                wrong.push(format!("{list}\n  ours {ours:?}\n  theirs {theirs:?}"));
            }
        }
        assert!(count >= 60, "{count}");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn what_only_other_versions_of_openssl_know() {
        assert_eq!(chosen("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256").unwrap(), ["ECDHE-RSA-AES128-GCM-SHA256"]);
        assert_eq!(chosen("PROFILE=SYSTEM").unwrap().len(), 6);
        // Security levels are applied in handshakes, which `openssl ciphers` does not show.
        assert_eq!(chosen("HIGH:@SECLEVEL=3").unwrap().len(), 6);
        assert_eq!(chosen("HIGH:@SECLEVEL=5").unwrap().len(), 4);
        assert_eq!(chosen("-ALL:AES128:HIGH").unwrap()[..2], chosen("AES128").unwrap()[..]);
    }

    #[test]
    fn broken_lists_are_refused() {
        for list in ["HIGH:@FOO", "HIGH:#", "!", "HIGH:!", "HIGH+", "@SECLEVEL=9:HIGH", "HIGH/AES"] {
            assert_eq!(chosen(list), Err(ListError::Command), "{list}");
        }
        for list in [
            "",
            "kECDH",
            "SHA256",
            "SHA384",
            "high",
            "AES128-SHA",
            "RC4:MD5",
            "nonsense",
            "HIGH:!ALL",
            "@STRENGTH",
        ] {
            assert_eq!(chosen(list), Err(ListError::Empty), "{list}");
        }
    }

    #[test]
    fn what_is_named_and_cannot_be_offered_is_told() {
        let list = "ECDHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES128-GCM-SHA256:AES128-SHA:!DES-CBC3-SHA:HIGH:kRSA";
        assert_eq!(parse(list).unwrap().missing, ["DHE-RSA-AES128-GCM-SHA256", "AES128-SHA"]);
    }
}
