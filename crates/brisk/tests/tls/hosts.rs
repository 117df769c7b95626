//! Several hosts with rules of their own for clients' certificates behind one address.

use super::{BIN, client_with, tool, with};
use brisk_testkit::tls::{issue, stranger};
use brisk_testkit::{Builder, Server, TlsClient};
use brisk_tls::issue::Issued;
use brisk_tls::{ClientContext, Versions};

const CONF: &str = r#"
    ssl_certificate a.crt;
    ssl_certificate_key a.key;
    ssl_client_certificate alpha.crt;
    http2 on;
    add_header X-Verify "$ssl_client_verify,$ssl_client_s_dn" always;
    server { listen 127.0.0.1:{{PORT}} ssl; server_name first.test; ssl_verify_client on; location / { return 200 first; } }
    server { listen 127.0.0.1:{{PORT}} ssl; server_name same.test; ssl_verify_client on; ssl_client_certificate {{DIR}}/copy.crt; location / { return 200 same; } }
    server { listen 127.0.0.1:{{PORT}} ssl; server_name beta.test; ssl_verify_client on; ssl_client_certificate beta.crt; location / { return 200 beta; } }
    server { listen 127.0.0.1:{{PORT}} ssl; server_name both.test; ssl_verify_client on; ssl_trusted_certificate beta.crt; location / { return 200 both; } }
    server { listen 127.0.0.1:{{PORT}} ssl; server_name deep.test; ssl_verify_client on; ssl_verify_depth 2; location / { return 200 deep; } }
    server { listen 127.0.0.1:{{PORT}} ssl; server_name optional.test; ssl_verify_client optional; location / { return 200 optional; } }
    server { listen 127.0.0.1:{{PORT}} ssl; server_name any.test; ssl_verify_client optional_no_ca; location / { return 200 any; } }
    server { listen 127.0.0.1:{{PORT}} ssl; server_name asking.test; ssl_verify_client on; ssl_ocsp leaf; ssl_ocsp_responder http://127.0.0.1:1/; location / { return 200 asking; } }
    server { listen 127.0.0.1:{{PORT}} ssl; server_name off.test; ssl_verify_client off;
        location / { if ($ssl_client_verify = SUCCESS) { return 200 in; } return 200 off; } }
"#;

fn server(alpha: &Issued, mine: &Issued) -> Server {
    let mut builder = Builder::new(BIN).http(CONF).file("copy.crt", alpha.certificate_pem());
    let beta = issue("beta", true, None);
    for (name, issued) in
        [("a", &issue("a.test", false, None)), ("alpha", alpha), ("beta", &beta), ("me", mine)]
    {
        builder = with(builder, name, issued);
    }
    builder.start()
}

/// A connection without a name, or with one that nobody has, follows the default server's rules: its authority does not
/// vouch for clients of other hosts. (nginx lets them in.)
#[test]
fn no_authority_vouches_for_another_host() {
    let alpha = issue("alpha", true, None);
    let mine = issue("me", false, Some(&alpha));
    let server = server(&alpha, &mine);
    let context = client_with(&mine, Versions::default());
    let cases = [
        ("first.test", "200", "SUCCESS,CN=me"),
        ("unknown.test", "200", "SUCCESS,CN=me"),
        ("same.test", "200", "SUCCESS,CN=me"),
        ("beta.test", "421", ","),
        ("both.test", "421", ","),
        ("deep.test", "421", ","),
        ("optional.test", "421", ","),
        ("any.test", "421", ","),
        ("asking.test", "421", ","),
        ("off.test", "200", "NONE,"),
    ];
    for (host, status, verify) in cases {
        // An address is not sent as a name.
        for name in ["127.0.0.1", "unknown.test"] {
            let mut client = TlsClient::connect(server.port(), &context, name).unwrap();
            client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).unwrap();
            let answer = client.rest().unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{name} {host}: {answer}");
            if status == "200" {
                assert!(answer.contains(&format!("X-Verify: {verify}\r\n")), "{name} {host}: {answer}");
            }
        }
        let url = format!("https://127.0.0.1:{}/", server.port());
        let (crt, key) = (server.dir().join("me.crt"), server.dir().join("me.key"));
        let (crt, key, host) =
            (crt.display().to_string(), key.display().to_string(), format!("Host: {host}"));
        let shown = ["-sk", "-o", "/dev/null", "-w", "%{http_version} %{http_code}"];
        let with = ["--http2", "--cert", &crt, "--key", &key, "-H", &host, &url];
        assert_eq!(tool("curl", &[&shown[..], &with].concat(), ""), format!("2 {status}"), "{host}");
    }
    server.wait_for_log("client attempted to request a server with other rules for client certificates");
    assert!(!TlsClient::get(server.port(), &context, "off.test", "/").unwrap().ends_with("in"));
}

/// A session of one host is none of another with other rules.
#[test]
fn no_session_vouches_for_another_host() {
    let alpha = issue("alpha", true, None);
    let mine = issue("me", false, Some(&alpha));
    let server = server(&alpha, &mine);
    let connect = format!("127.0.0.1:{}", server.port());
    let path = |name: &str| server.dir().join(name).display().to_string();
    for version in ["-tls1_2", "-tls1_3"] {
        let show = |host: &str, session: &[&str]| {
            let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            let (crt, key) = (path("me.crt"), path("me.key"));
            let args = ["s_client", "-connect", &connect, "-servername", host, "-cert", &crt, "-key", &key];
            tool("openssl", &[&args[..], &[version, "-ign_eof"], session].concat(), &request)
        };
        let session = path("session");
        assert!(show("first.test", &["-sess_out", &session]).contains("200 OK"));
        let again = show("first.test", &["-sess_in", &session]);
        assert!(again.contains("Reused, TLS") && again.contains("200 OK"), "{version}: {again}");
        for (host, status) in [
            ("beta.test", "400 Bad Request"),
            ("deep.test", "200 OK"),
            ("off.test", "200 OK"),
            ("asking.test", "400 Bad Request"),
        ] {
            assert!(show("first.test", &["-sess_out", &session]).contains("200 OK"));
            let shown = show(host, &["-sess_in", &session]);
            assert!(shown.contains("New, TLS") && shown.contains(status), "{version} {host}: {shown}");
        }
    }
}

/// As in nginx: the name of the handshake does not stand in for the host of a request.
#[test]
fn a_request_without_a_host_is_for_the_default_server() {
    let conf = "ssl_certificate a.crt; ssl_certificate_key a.key;
        server { listen 127.0.0.1:{{PORT}} ssl; server_name first.test; return 200 first; }
        server { listen 127.0.0.1:{{PORT}} ssl; server_name other.test; return 200 other; }
        server { listen 127.0.0.1:{{PORT2}} ssl; server_name first.test; ssl_verify_client optional_no_ca; return 200 first; }
        server { listen 127.0.0.1:{{PORT2}} ssl; server_name other.test; return 200 other; }";
    let server = with(Builder::new(BIN).http(conf), "a", &issue("a.test", false, None)).start();
    let get = |port: u16, request: &str| {
        let mut client = TlsClient::connect(port, &stranger(), "other.test").unwrap();
        client.send(request).unwrap();
        client.rest().unwrap()
    };
    assert!(get(server.port(), "GET / HTTP/1.0\r\n\r\n").ends_with("first"));
    assert!(get(server.port(), "GET / HTTP/1.0\r\nHost: other.test\r\n\r\n").ends_with("other"));
    assert!(get(server.port_of(2), "GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 421 "));
}

/// Its handshake is the default server's, whose authority still does not vouch for its clients.
#[test]
fn a_host_without_a_certificate_of_its_own() {
    let alpha = issue("alpha", true, None);
    let mine = issue("me", false, Some(&alpha));
    let conf = "server { listen 127.0.0.1:{{PORT}} ssl; server_name first.test; ssl_certificate a.crt; ssl_certificate_key a.key;
            ssl_verify_client on; ssl_client_certificate alpha.crt; return 200 first; }
        server { listen 127.0.0.1:{{PORT}} ssl; server_name bare.test; ssl_verify_client on; location / { return 200 bare; } }";
    let builder = with(Builder::new(BIN).http(conf), "a", &issue("a.test", false, None));
    let server = with(builder, "alpha", &alpha).start();
    let answer = |context: &ClientContext| TlsClient::get(server.port(), context, "bare.test", "/").unwrap();
    assert!(answer(&stranger()).starts_with("HTTP/1.1 400 "));
    assert!(answer(&client_with(&mine, Versions::default())).starts_with("HTTP/1.1 421 "));
}
