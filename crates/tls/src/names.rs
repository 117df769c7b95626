//! Numbers of the TLS registries, by the names that OpenSSL gives them.

/// Cipher suites: number, name.
const CIPHERS: &[(u16, &str)] = &[
    (0x1301, "TLS_AES_128_GCM_SHA256"),
    (0x1302, "TLS_AES_256_GCM_SHA384"),
    (0x1303, "TLS_CHACHA20_POLY1305_SHA256"),
    (0x1304, "TLS_AES_128_CCM_SHA256"),
    (0x1305, "TLS_AES_128_CCM_8_SHA256"),
    (0xc02b, "ECDHE-ECDSA-AES128-GCM-SHA256"),
    (0xc02c, "ECDHE-ECDSA-AES256-GCM-SHA384"),
    (0xc02f, "ECDHE-RSA-AES128-GCM-SHA256"),
    (0xc030, "ECDHE-RSA-AES256-GCM-SHA384"),
    (0xcca8, "ECDHE-RSA-CHACHA20-POLY1305"),
    (0xcca9, "ECDHE-ECDSA-CHACHA20-POLY1305"),
    (0xccaa, "DHE-RSA-CHACHA20-POLY1305"),
    (0x009e, "DHE-RSA-AES128-GCM-SHA256"),
    (0x009f, "DHE-RSA-AES256-GCM-SHA384"),
    (0xc023, "ECDHE-ECDSA-AES128-SHA256"),
    (0xc024, "ECDHE-ECDSA-AES256-SHA384"),
    (0xc027, "ECDHE-RSA-AES128-SHA256"),
    (0xc028, "ECDHE-RSA-AES256-SHA384"),
    (0x0067, "DHE-RSA-AES128-SHA256"),
    (0x006b, "DHE-RSA-AES256-SHA256"),
    (0xc009, "ECDHE-ECDSA-AES128-SHA"),
    (0xc00a, "ECDHE-ECDSA-AES256-SHA"),
    (0xc013, "ECDHE-RSA-AES128-SHA"),
    (0xc014, "ECDHE-RSA-AES256-SHA"),
    (0x0033, "DHE-RSA-AES128-SHA"),
    (0x0039, "DHE-RSA-AES256-SHA"),
    (0x009c, "AES128-GCM-SHA256"),
    (0x009d, "AES256-GCM-SHA384"),
    (0x003c, "AES128-SHA256"),
    (0x003d, "AES256-SHA256"),
    (0x002f, "AES128-SHA"),
    (0x0035, "AES256-SHA"),
    (0x000a, "DES-CBC3-SHA"),
    (0x0016, "DHE-RSA-DES-CBC3-SHA"),
    (0xc012, "ECDHE-RSA-DES-CBC3-SHA"),
    (0xc008, "ECDHE-ECDSA-DES-CBC3-SHA"),
    (0x0005, "RC4-SHA"),
    (0x0004, "RC4-MD5"),
    (0xc0ac, "ECDHE-ECDSA-AES128-CCM"),
    (0xc0ad, "ECDHE-ECDSA-AES256-CCM"),
    (0xc0ae, "ECDHE-ECDSA-AES128-CCM8"),
    (0xc0af, "ECDHE-ECDSA-AES256-CCM8"),
    (0xc09c, "AES128-CCM"),
    (0xc09d, "AES256-CCM"),
    (0xc09e, "DHE-RSA-AES128-CCM"),
    (0xc09f, "DHE-RSA-AES256-CCM"),
    (0xc072, "ECDHE-ECDSA-CAMELLIA128-SHA256"),
    (0xc073, "ECDHE-ECDSA-CAMELLIA256-SHA384"),
    (0xc076, "ECDHE-RSA-CAMELLIA128-SHA256"),
    (0xc077, "ECDHE-RSA-CAMELLIA256-SHA384"),
    (0xc05c, "ECDHE-ECDSA-ARIA128-GCM-SHA256"),
    (0xc05d, "ECDHE-ECDSA-ARIA256-GCM-SHA384"),
    (0xc060, "ECDHE-ARIA128-GCM-SHA256"),
    (0xc061, "ECDHE-ARIA256-GCM-SHA384"),
];

/// Groups: number, name as `$ssl_curve` shows it, other names that configurations use.
const GROUPS: &[(u16, &str, &[&str])] = &[
    (0x0017, "prime256v1", &["secp256r1", "P-256"]),
    (0x0018, "secp384r1", &["P-384"]),
    (0x0019, "secp521r1", &["P-521"]),
    (0x001d, "X25519", &[]),
    (0x001e, "X448", &[]),
    (0x001a, "brainpoolP256r1", &[]),
    (0x001b, "brainpoolP384r1", &[]),
    (0x001c, "brainpoolP512r1", &[]),
    (0x0100, "ffdhe2048", &[]),
    (0x0101, "ffdhe3072", &[]),
    (0x0102, "ffdhe4096", &[]),
    (0x0103, "ffdhe6144", &[]),
    (0x0104, "ffdhe8192", &[]),
    (0x0200, "MLKEM512", &[]),
    (0x0201, "MLKEM768", &[]),
    (0x0202, "MLKEM1024", &[]),
    (0x11eb, "SecP256r1MLKEM768", &[]),
    (0x11ec, "X25519MLKEM768", &[]),
    (0x11ed, "SecP384r1MLKEM1024", &[]),
    (0x6399, "X25519Kyber768Draft00", &[]),
];

/// Signature schemes: number, the registry's name, OpenSSL's old way to write it in lists.
const SCHEMES: &[(u16, &str, &str)] = &[
    (0x0401, "rsa_pkcs1_sha256", "RSA+SHA256"),
    (0x0501, "rsa_pkcs1_sha384", "RSA+SHA384"),
    (0x0601, "rsa_pkcs1_sha512", "RSA+SHA512"),
    (0x0403, "ecdsa_secp256r1_sha256", "ECDSA+SHA256"),
    (0x0503, "ecdsa_secp384r1_sha384", "ECDSA+SHA384"),
    (0x0603, "ecdsa_secp521r1_sha512", "ECDSA+SHA512"),
    (0x0804, "rsa_pss_rsae_sha256", "RSA-PSS+SHA256"),
    (0x0805, "rsa_pss_rsae_sha384", "RSA-PSS+SHA384"),
    (0x0806, "rsa_pss_rsae_sha512", "RSA-PSS+SHA512"),
    (0x0807, "ed25519", "ed25519"),
    (0x0808, "ed448", "ed448"),
    (0x0809, "rsa_pss_pss_sha256", "PSS+SHA256"),
    (0x080a, "rsa_pss_pss_sha384", "PSS+SHA384"),
    (0x080b, "rsa_pss_pss_sha512", "PSS+SHA512"),
    (0x0201, "rsa_pkcs1_sha1", "RSA+SHA1"),
    (0x0203, "ecdsa_sha1", "ECDSA+SHA1"),
    (0x0202, "dsa_sha1", "DSA+SHA1"),
    (0x0301, "rsa_pkcs1_sha224", "RSA+SHA224"),
    (0x0303, "ecdsa_sha224", "ECDSA+SHA224"),
    (0x0302, "dsa_sha224", "DSA+SHA224"),
    (0x0402, "dsa_sha256", "DSA+SHA256"),
    (0x0502, "dsa_sha384", "DSA+SHA384"),
    (0x0602, "dsa_sha512", "DSA+SHA512"),
    (0x0904, "mldsa44", "mldsa44"),
    (0x0905, "mldsa65", "mldsa65"),
    (0x0906, "mldsa87", "mldsa87"),
    (0x081a, "ecdsa_brainpoolP256r1tls13_sha256", "ECDSA+SHA256"),
    (0x081b, "ecdsa_brainpoolP384r1tls13_sha384", "ECDSA+SHA384"),
    (0x081c, "ecdsa_brainpoolP512r1tls13_sha512", "ECDSA+SHA512"),
];

/// A cipher suite's name.
pub fn cipher(number: u16) -> Option<&'static str> {
    CIPHERS.iter().find(|(have, _)| *have == number).map(|(_, name)| *name)
}

/// A cipher suite's number, by any of the names that OpenSSL or the registry give it.
pub fn cipher_number(name: &str) -> Option<u16> {
    CIPHERS.iter().find(|(_, have)| have.eq_ignore_ascii_case(name)).map(|(number, _)| *number)
}

/// A group's name.
pub fn group(number: u16) -> Option<&'static str> {
    GROUPS.iter().find(|(have, ..)| *have == number).map(|(_, name, _)| *name)
}

/// A group's number, by any of its names.
pub fn group_number(name: &str) -> Option<u16> {
    let is_it = |have: &str| have.eq_ignore_ascii_case(name);
    let found =
        GROUPS.iter().find(|(_, have, others)| is_it(have) || others.iter().any(|other| is_it(other)));
    found.map(|(number, ..)| *number)
}

/// A signature scheme's name.
pub fn scheme(number: u16) -> Option<&'static str> {
    SCHEMES.iter().find(|(have, ..)| *have == number).map(|(_, name, _)| *name)
}

/// A signature scheme's number, by either of its names.
pub fn scheme_number(name: &str) -> Option<u16> {
    let is_it = |have: &str| have.eq_ignore_ascii_case(name);
    SCHEMES.iter().find(|(_, have, other)| is_it(have) || is_it(other)).map(|(number, ..)| *number)
}

/// Values that clients sprinkle into their lists so that servers learn to ignore what they do not know (RFC 8701).
pub fn is_grease(number: u16) -> bool {
    number & 0x0f0f == 0x0a0a && number >> 8 == number & 0xff
}

/// A list as `$ssl_ciphers`, `$ssl_curves` and `$ssl_sigalgs` show it: names, numbers in hexadecimal for what has none,
/// separated by colons.
pub fn list(numbers: &[u16], name: fn(u16) -> Option<&'static str>) -> String {
    let mut out = String::new();
    for &number in numbers.iter().filter(|&&number| !is_grease(number)) {
        if !out.is_empty() {
            out.push(':');
        }
        match name(number) {
            Some(name) => out.push_str(name),
            None => out.push_str(&hex(number)),
        }
    }
    out
}

fn hex(number: u16) -> String {
    format!("0x{number:04x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_numbers() {
        for (number, name) in CIPHERS {
            assert_eq!((cipher(*number), cipher_number(name)), (Some(*name), Some(*number)));
        }
        for (number, name, others) in GROUPS {
            assert_eq!((group(*number), group_number(name)), (Some(*name), Some(*number)));
            assert!(others.iter().all(|other| group_number(other) == Some(*number)));
        }
        assert_eq!(list(&[0x1301, 0x2a2a, 0xfe01], cipher), "TLS_AES_128_GCM_SHA256:0xfe01");
    }
}
