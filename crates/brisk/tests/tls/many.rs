//! Many certificates, and several of one server.

use super::{BIN, body, tool, with};
use brisk_testkit::tls::{issue, stranger};
use brisk_testkit::{Builder, TlsClient, process};
use std::fmt::Write as _;

/// Certificates are read with the configuration and made usable when somebody asks for them.
#[test]
fn ten_thousand_certificates_start_at_once() {
    const COUNT: usize = 10_000;
    // Seconds of a processor. Without optimisation everything takes some times as long.
    let limit = if cfg!(debug_assertions) { 10.0 } else { 2.0 };
    let issued: Vec<_> = (0..20).map(|n| issue(&format!("kind{n}.test"), false, None)).collect();
    let mut conf = String::new();
    let mut builder = Builder::new(BIN);
    for at in 0..COUNT {
        let _ = writeln!(
            conf,
            "server {{ listen 127.0.0.1:{{{{PORT}}}} ssl; server_name s{at}.test; ssl_certificate c/{at}.crt; ssl_certificate_key c/{at}.key; return 200 s{at}; }}"
        );
        builder = with(builder, &format!("c/{at}"), &issued[at % issued.len()]);
    }
    let server = builder.http(&conf).start();
    let threads = [server.pid(), server.worker()].into_iter().flat_map(process::threads);
    let took = threads.map(|thread| thread.cpu_ns).sum::<u64>() as f64 / 1e9;
    assert!(took < limit, "{took} s");
    for at in [0, 77, COUNT / 2, COUNT - 1] {
        let name = format!("s{at}.test");
        let client = TlsClient::connect(server.port(), &stranger(), &name).unwrap();
        assert_eq!(client.certificate(), issued[at % issued.len()].certificate);
        assert_eq!(body(&TlsClient::get(server.port(), &stranger(), &name, "/").unwrap()), format!("s{at}"));
    }
}

/// Who can only check RSA gets the certificate with an RSA key, and the other way round.
#[test]
fn rsa_and_ecdsa_beside_each_other() {
    let conf = "server { listen 127.0.0.1:{{PORT}} ssl; ssl_certificate rsa.crt; ssl_certificate_key rsa.key;
        ssl_certificate ec.crt; ssl_certificate_key ec.key; location / { return 200 ok; } }";
    let builder = Builder::new(BIN).http(conf);
    let path = |name: &str| builder.dir().join(name).display().to_string();
    let request = ["req", "-x509", "-subj", "/CN=rsa.test", "-days", "2", "-nodes", "-newkey", "rsa:2048"];
    let made = tool(
        "openssl",
        &[&request[..], &["-keyout", &path("rsa.key"), "-out", &path("rsa.crt")]].concat(),
        "",
    );
    let server = with(builder, "ec", &issue("ec.test", false, None)).start();
    let connect = format!("127.0.0.1:{}", server.port());
    let shown =
        |more: &[&str]| tool("openssl", &[&["s_client", "-connect", &connect][..], more].concat(), "Q\n");
    for version in ["-tls1_3", "-tls1_2"] {
        let rsa = shown(&[version, "-sigalgs", "RSA-PSS+SHA256:RSA+SHA256"]);
        assert!(rsa.contains("CN = rsa.test"), "{made}{rsa}");
        let ecdsa = shown(&[version, "-sigalgs", "ECDSA+SHA256"]);
        assert!(ecdsa.contains("CN = ec.test"), "{ecdsa}");
    }
    let neither = shown(&["-sigalgs", "ed25519"]);
    assert!(neither.contains("handshake failure"), "{neither}");
}
