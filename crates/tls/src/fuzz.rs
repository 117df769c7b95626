//! For fuzzers: what strangers send, as functions over arbitrary bytes that panic if an invariant breaks.

use crate::certificate::{self, Certificate};
use crate::hello::{Hello, Parsed};
use crate::pem;
use crate::trust::Trust;
use brisk_x509::{Purpose, is_for_host, ocsp};

/// A ClientHello is read alike whole and in pieces.
pub fn fuzz_hello(bytes: &[u8]) {
    let whole = Hello::parse(bytes);
    if let Ok(Parsed::Complete(_)) = &whole {
        // What comes behind it changes nothing.
        assert_eq!(Hello::parse(&[bytes, &[23, 3, 3, 0, 1, 0]].concat()), whole);
    }
    if whole == Ok(Parsed::Partial) {
        for cut in 0..bytes.len().min(64) {
            assert!(Hello::parse(&bytes[..cut]) == Ok(Parsed::Partial), "refused before it was wrong");
        }
    }
}

/// Certificates, lists and answers; a certificate that is read is verified against itself.
pub fn fuzz_certificate(bytes: &[u8]) {
    if let Ok(cert) = Certificate::parse(bytes) {
        let names = [certificate::rfc2253(cert.subject), certificate::oneline(cert.issuer)];
        assert!(names.iter().all(|name| name.is_ascii()));
        let _ = (cert.serial_text(), certificate::time_text(cert.not_after), cert.ocsp_url());
        let trust = Trust::of(&[bytes]);
        let _ = trust.verify(bytes, &[bytes], Purpose::Client, 2, cert.not_before);
        let _ = is_for_host(bytes, "www.example.com");
    }
    let _ = brisk_x509::Trust::default().add_crl(bytes);
    let _ = ocsp::check(bytes, bytes, bytes, true, 0);
    let _ = pem::blocks(bytes);
}
