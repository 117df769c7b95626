//! Making certificates: a local one for a server that has none, and those that tests need.

use crate::der::{self, element, sequence};
use crate::pem;
use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::{SystemRandom, fill};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};

const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// A certificate and its key, on P-256.
pub struct Issued {
    /// DER.
    pub certificate: Vec<u8>,
    key_der: Vec<u8>,
    key: EcdsaKeyPair,
    name: Vec<u8>,
}

/// What a certificate is to say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wish<'a> {
    /// The subject's common name.
    pub common_name: &'a str,
    /// Host names and addresses.
    pub names: &'a [&'a str],
    /// It may issue others.
    pub authority: bool,
    /// Seconds since 1970.
    pub not_before: i64,
    /// Seconds since 1970.
    pub not_after: i64,
}

impl Issued {
    /// Makes one, issued by `by` or by itself. `None`: there is no randomness.
    pub fn new(wish: &Wish<'_>, by: Option<&Issued>) -> Option<Issued> {
        Issued::with(wish, &[], by)
    }

    /// The same with more extensions: what each is (DER), whether it is critical, and its value.
    pub fn with(wish: &Wish<'_>, more: &[(&[u8], bool, &[u8])], by: Option<&Issued>) -> Option<Issued> {
        Issued::named(&name(wish.common_name), wish, more, by)
    }

    /// The same with another subject (DER) than the common name.
    pub fn named(
        subject: &[u8],
        wish: &Wish<'_>,
        more: &[(&[u8], bool, &[u8])],
        by: Option<&Issued>,
    ) -> Option<Issued> {
        let pkcs8 =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new()).ok()?;
        Issued::of_key(subject, wish, more, pkcs8.as_ref(), by)
    }

    /// Another one of the same key, issued by itself.
    pub fn renewed(&self, wish: &Wish<'_>, more: &[(&[u8], bool, &[u8])]) -> Option<Issued> {
        Issued::of_key(&name(wish.common_name), wish, more, &self.key_der, None)
    }

    fn of_key(
        name: &[u8],
        wish: &Wish<'_>,
        more: &[(&[u8], bool, &[u8])],
        pkcs8: &[u8],
        by: Option<&Issued>,
    ) -> Option<Issued> {
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8).ok()?;
        let spki: PublicKeyX509Der<'_> = key.public_key().as_der().ok()?;
        let mut serial = [0; 16];
        fill(&mut serial).ok()?;
        serial[0] &= 0x7f;
        serial[0] |= 1;
        let algorithm = sequence(&[&element(der::OID, ECDSA_SHA256)]);
        let validity = sequence(&[&time(wish.not_before), &time(wish.not_after)]);
        let signed = sequence(&[
            &element(der::context(0), &element(der::INTEGER, &[2])),
            &element(der::INTEGER, &serial),
            &algorithm,
            by.map_or(name, |by| &by.name),
            &validity,
            name,
            spki.as_ref(),
            &extensions(wish, more),
        ]);
        let signer = by.map_or(&key, |by| &by.key);
        let signature = signer.sign(&SystemRandom::new(), &signed).ok()?;
        let bits = element(der::BIT_STRING, &[&[0], signature.as_ref()].concat());
        let certificate = sequence(&[&signed, &algorithm, &bits]);
        Some(Issued { certificate, key_der: pkcs8.to_vec(), key, name: name.to_vec() })
    }

    /// The certificate in PEM.
    pub fn certificate_pem(&self) -> String {
        pem::encode("CERTIFICATE", &self.certificate)
    }

    /// The private key in PEM.
    pub fn key_pem(&self) -> String {
        pem::encode("PRIVATE KEY", &self.key_der)
    }
}

fn name(common_name: &str) -> Vec<u8> {
    let pair = sequence(&[&element(der::OID, COMMON_NAME), &element(0x0c, common_name.as_bytes())]);
    sequence(&[&element(der::SET, &pair)])
}

fn time(unix_secs: i64) -> Vec<u8> {
    let (year, month, day) = der::date(unix_secs.div_euclid(86_400));
    let secs = unix_secs.rem_euclid(86_400);
    let (hour, minute, second) = (secs / 3600, secs / 60 % 60, secs % 60);
    // RFC 5280 §4.1.2.5: two digits of the year until 2049.
    if (1950..2050).contains(&year) {
        let text = format!("{:02}{month:02}{day:02}{hour:02}{minute:02}{second:02}Z", year % 100);
        return element(der::UTC_TIME, text.as_bytes());
    }
    let text = format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}Z");
    element(der::GENERALIZED_TIME, text.as_bytes())
}

fn extensions(wish: &Wish<'_>, more: &[(&[u8], bool, &[u8])]) -> Vec<u8> {
    let extension = |oid: &[u8], critical: bool, value: &[u8]| {
        let flag = if critical { element(der::BOOLEAN, &[0xff]) } else { Vec::new() };
        sequence(&[&element(der::OID, oid), &flag, &element(der::OCTET_STRING, value)])
    };
    let mut list = Vec::new();
    if wish.authority {
        let value = sequence(&[&element(der::BOOLEAN, &[0xff])]);
        list.push(extension(BASIC_CONSTRAINTS, true, &value));
    }
    let names: Vec<Vec<u8>> = wish
        .names
        .iter()
        .map(|name| match name.parse::<std::net::IpAddr>() {
            Ok(std::net::IpAddr::V4(ip)) => element(der::implicit(7), &ip.octets()),
            Ok(std::net::IpAddr::V6(ip)) => element(der::implicit(7), &ip.octets()),
            Err(_) => element(der::implicit(2), name.as_bytes()),
        })
        .collect();
    if !names.is_empty() {
        let value = element(der::SEQUENCE, &names.concat());
        list.push(extension(SUBJECT_ALT_NAME, false, &value));
    }
    list.extend(more.iter().map(|(oid, critical, value)| extension(oid, *critical, value)));
    if list.is_empty() {
        return Vec::new();
    }
    element(der::context(3), &element(der::SEQUENCE, &list.concat()))
}
