//! HTTPS: handshakes by virtual host, sessions, clients' certificates, variables.

use brisk_testkit::server::text;
use brisk_testkit::tls::{issue, returning, stranger};
use brisk_testkit::unreported::{AIO, Writer};
use brisk_testkit::{Builder, Server, TlsClient, wait};
use brisk_tls::issue::Issued;
use brisk_tls::{Certified, ClientContext, ClientOptions, PrivateKey, Versions};
use rustix::process::Signal;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

#[path = "tls/alerts.rs"]
mod alerts;
#[path = "tls/early.rs"]
mod early;
#[path = "tls/hostile.rs"]
mod hostile;
#[path = "tls/hosts.rs"]
mod hosts;
#[path = "tls/kernel.rs"]
mod kernel;
#[path = "tls/many.rs"]
mod many;
#[path = "tls/named.rs"]
mod named;
#[path = "tls/revocation.rs"]
mod revocation;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// With its certificate in `NAME.crt` and `NAME.key`.
fn with(builder: Builder, name: &str, issued: &Issued) -> Builder {
    builder
        .file(&format!("{name}.crt"), issued.certificate_pem())
        .file(&format!("{name}.key"), issued.key_pem())
}

fn client_with(issued: &Issued, versions: Versions) -> ClientContext {
    let key = PrivateKey::from_pem(issued.key_pem().as_bytes(), &[]).unwrap();
    let chain = brisk_tls::chain(issued.certificate_pem().as_bytes()).unwrap();
    let certificate = Some(Certified::new(chain, &key, None).unwrap());
    ClientContext::new(&ClientOptions { certificate, versions, ..ClientOptions::unverified() }).unwrap()
}

fn body(response: &str) -> &str {
    response.split_once("\r\n\r\n").map_or(response, |(_, body)| body)
}

fn tool(name: &str, args: &[&str], input: &str) -> String {
    let mut child = Command::new(name)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut stdin = child.stdin.take().unwrap();
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    text(&output.stdout) + &text(&output.stderr)
}

const SITE: &str = r#"
    ssl_certificate a.crt;
    ssl_certificate_key a.key;
    server {
        listen 127.0.0.1:{{PORT}} ssl;
        server_name a.test;
        root {{DIR}}/html;
        location /who { return 200 "a $scheme $https $ssl_server_name"; }
        location /moved { return 301 /who; }
        location /facts { return 200 "$ssl_protocol|$ssl_cipher|$ssl_curve|$ssl_session_reused|$ssl_alpn_protocol|$ssl_client_verify|$ssl_early_data|$ssl_session_id|$ssl_sigalg|$ssl_ech_status|$ssl_ech_outer_server_name"; }
        location /lists { return 200 "$ssl_ciphers $ssl_curves $ssl_sigalgs"; }
    }
    server {
        listen 127.0.0.1:{{PORT}} ssl;
        server_name b.test *.b.test ~^c\d\.test$;
        ssl_certificate b.crt;
        ssl_certificate_key b.key;
        error_page 497 https://$host/secure;
        location /who { return 200 "b $ssl_server_name"; }
    }
    server { listen 127.0.0.1:{{PORT2}}; location / { return 200 "[$https$ssl_protocol$ssl_cipher$ssl_client_verify]"; } }
"#;

fn site() -> Server {
    let builder = Builder::new(BIN).http(SITE).file("html/large", vec![b'x'; 3 << 20]);
    let builder = with(builder, "a", &issue("a.test", false, None));
    with(builder, "b", &issue("b.test", false, None)).start()
}

#[test]
fn the_name_leads_to_its_server_and_certificate() {
    let server = site();
    let cases = [
        ("a.test", "a https on a.test", "CN=a.test"),
        ("b.test", "b b.test", "CN=b.test"),
        ("x.b.test", "b x.b.test", "CN=b.test"),
        ("c7.test", "b c7.test", "CN=b.test"),
        ("unknown.test", "a https on unknown.test", "CN=a.test"),
    ];
    for (name, answer, subject) in cases {
        let mut client = TlsClient::connect(server.port(), &stranger(), name).unwrap();
        let cert = client.certificate();
        let cert = brisk_tls::Certificate::parse(&cert).unwrap();
        assert_eq!(brisk_tls::certificate::rfc2253(cert.subject), subject, "{name}");
        client.send(format!("GET /who HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n")).unwrap();
        assert_eq!(body(&client.rest().unwrap()), answer, "{name}");
    }
}

/// As in nginx: a request without a host is not for the name of the handshake. Its rules for clients' certificates hold.
#[test]
fn a_request_without_host_is_for_the_default_server() {
    let root = issue("root", true, None);
    let conf = r#"
        ssl_certificate a.crt; ssl_certificate_key a.key; ssl_client_certificate a.crt;
        server { listen 127.0.0.1:{{PORT}} ssl; server_name a.test; return 200 "default"; }
        server { listen 127.0.0.1:{{PORT}} ssl; server_name b.test; return 200 "b"; }
        server { listen 127.0.0.1:{{PORT2}} ssl; server_name a.test; return 200 "default"; }
        server { listen 127.0.0.1:{{PORT2}} ssl; server_name b.test; return 200 "b"; }
        server { listen 127.0.0.1:{{PORT2}} ssl; server_name ""; return 200 "no name"; }
        server { listen 127.0.0.1:{{PORT3}} ssl; server_name a.test; ssl_verify_client optional; return 200 "default"; }
        server { listen 127.0.0.1:{{PORT3}} ssl; server_name b.test; return 200 "b"; }
    "#;
    let server = with(Builder::new(BIN).http(conf), "a", &root).start();
    let ask = |place: usize, name: &str, request: &str| {
        let mut client = TlsClient::connect(server.port_of(place), &stranger(), name).unwrap();
        client.send(request).unwrap();
        client.rest().unwrap()
    };
    let bare = "GET / HTTP/1.0\r\n\r\n";
    assert_eq!(body(&ask(1, "b.test", bare)), "default");
    assert_eq!(body(&ask(1, "unknown.test", bare)), "default");
    assert_eq!(body(&ask(1, "b.test", "GET / HTTP/1.0\r\nHost: b.test\r\n\r\n")), "b");
    assert_eq!(body(&ask(2, "b.test", bare)), "no name");
    assert!(ask(3, "b.test", bare).starts_with("HTTP/1.1 421 "));
    assert_eq!(body(&ask(3, "unknown.test", bare)), "default");
    assert!(ask(1, "b.test", "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400 "));
}

#[test]
fn curl_and_openssl_are_served() {
    let server = site();
    let url = |target: &str| format!("https://a.test:{}{target}", server.port());
    let resolve = format!("a.test:{}:127.0.0.1", server.port());
    let ca = server.dir().join("a.crt").display().to_string();
    let curl = |args: &[&str]| {
        let common = ["-sS", "--max-time", "20", "--cacert", &ca, "--resolve", &resolve];
        tool("curl", &[&common, args].concat(), "")
    };
    assert_eq!(curl(&[&url("/who")]), "a https on a.test");
    assert_eq!(
        curl(&["--tlsv1.2", "--tls-max", "1.2", &url("/who"), &url("/who")]),
        "a https on a.test".repeat(2)
    );
    assert_eq!(curl(&[&url("/large")]).len(), 3 << 20);
    assert!(curl(&["--http2", "-w", "%{http_version}", &url("/who")]).ends_with("1.1"));
    let moved = curl(&["-o", "/dev/null", "-w", "%{redirect_url}", &url("/moved")]);
    assert_eq!(moved, url("/who"));
    let connect = format!("127.0.0.1:{}", server.port());
    let shown = tool("openssl", &["s_client", "-connect", &connect, "-servername", "b.test"], "Q\n");
    assert!(shown.contains("CN = b.test") && shown.contains("TLSv1.3"), "{shown}");
    let refused = tool("openssl", &["s_client", "-connect", &connect, "-tls1_1"], "Q\n");
    assert!(refused.contains("alert"), "{refused}");
}

#[test]
fn plain_http_on_a_tls_port_is_told_so() {
    let server = site();
    let response = server.request("GET /who HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(response.status, 400);
    assert!(response.text().contains("The plain HTTP request was sent to HTTPS port"));
    server.wait_for_log("client sent plain HTTP request to HTTPS port");
    assert_eq!(server.request("GET /who HTTP/1.1\r\nHost: b.test\r\n\r\n").status, 302, "error_page 497");
    // Also where the same answer has been given over TLS before, and is kept.
    let context = stranger();
    for _ in 0..3 {
        TlsClient::get(server.port(), &context, "a.test", "/who").unwrap();
    }
    assert_eq!(server.request("GET /who HTTP/1.1\r\nHost: a.test\r\n\r\n").status, 400);
}

/// The answer is kept on the thread of the connection that asked for it: there is one.
#[test]
fn what_is_prepared_for_tls_is_not_given_in_the_clear() {
    let http = "server { listen 127.0.0.1:{{PORT}} ssl; server_name a.test; ssl_certificate a.crt; ssl_certificate_key a.key;
                    location / { return 200 secret; } }";
    let builder = Builder::new(BIN).main("worker_processes 1;").http(http);
    let server = with(builder, "a", &issue("a.test", false, None)).start();
    let mut client = TlsClient::connect(server.port(), &stranger(), "a.test").unwrap();
    const ASK: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
    for _ in 0..3 {
        client.send(ASK).unwrap();
        client.until("secret").unwrap();
    }
    let response = server.request(ASK);
    assert_eq!((response.status, response.text().contains("secret")), (400, false));
}

#[test]
fn variables_tell_of_the_session() {
    let server = site();
    let facts = |context: &ClientContext, target: &str| {
        body(&TlsClient::get(server.port(), context, "a.test", target).unwrap()).to_string()
    };
    let with_versions = |tls12, tls13| {
        ClientContext::new(&ClientOptions {
            versions: Versions { tls12, tls13 },
            ..ClientOptions::unverified()
        })
        .unwrap()
    };
    let tls13 = with_versions(false, true);
    assert_eq!(
        facts(&tls13, "/facts"),
        "TLSv1.3|TLS_AES_256_GCM_SHA384|X25519MLKEM768|.||NONE||||NOT_TRIED|"
    );
    assert!(facts(&tls13, "/facts").contains("|r||NONE|"), "resumed by a ticket");
    let tls12 = facts(&with_versions(true, false), "/facts");
    assert!(tls12.starts_with("TLSv1.2|ECDHE-ECDSA-AES256-GCM-SHA384|"), "{tls12}");
    let lists = facts(&tls13, "/lists");
    assert!(lists.contains("TLS_AES_128_GCM_SHA256") && lists.contains("X25519MLKEM768:"), "{lists}");
    assert!(lists.contains("ecdsa_secp256r1_sha256"), "{lists}");
    let plain = brisk_testkit::Client::connect(server.port_of(2)).get("/");
    assert_eq!(plain.text(), "[]");
}

#[test]
fn pipelined_requests_and_bodies_go_through_records() {
    let server = site();
    let mut client = TlsClient::connect(server.port(), &stranger(), "a.test").unwrap();
    client.send("GET /who HTTP/1.1\r\nHost: a.test\r\n\r\n".repeat(500)).unwrap();
    client.send("GET /who HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").unwrap();
    let answers = client.rest().unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 501);
    // A head in a record per byte.
    let mut client = TlsClient::connect(server.port(), &stranger(), "a.test").unwrap();
    for byte in b"GET /who HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n" {
        client.send([*byte]).unwrap();
    }
    assert_eq!(body(&client.rest().unwrap()), "a https on a.test");
}

const CLIENTS: &str = r#"
    ssl_certificate a.crt;
    ssl_certificate_key a.key;
    ssl_verify_client on;
    ssl_client_certificate root.crt;
    ssl_verify_depth 1;
    add_header X-Verify $ssl_client_verify always;
    server { listen 127.0.0.1:{{PORT}} ssl; server_name on.test;
        location /names { return 200 "$ssl_client_s_dn|$ssl_client_i_dn|$ssl_client_s_dn_legacy|$ssl_client_i_dn_legacy|$ssl_client_v_remain|$ssl_client_sigalg"; }
        location /cert { return 200 "$ssl_client_serial $ssl_client_fingerprint $ssl_client_v_start $ssl_client_v_end"; }
        location /raw { return 200 "$ssl_client_raw_cert"; }
        location /cooked { return 200 "$ssl_client_escaped_cert"; }
        location /tabbed { return 200 "$ssl_client_cert"; }
        location / { return 200 ok; } }
    server { listen 127.0.0.1:{{PORT}} ssl; server_name optional.test; ssl_verify_client optional; location / { return 200 ok; } }
    server { listen 127.0.0.1:{{PORT}} ssl; server_name any.test; ssl_verify_client optional_no_ca; location / { return 200 ok; } }
    server { listen 127.0.0.1:{{PORT}} ssl; server_name off.test; ssl_verify_client off; location / { return 200 ok; } }
    server { listen 127.0.0.1:{{PORT}} ssl; server_name more.test; ssl_client_certificate other.crt; ssl_trusted_certificate root.crt; location / { return 200 ok; } }
"#;

#[test]
fn clients_show_their_certificates() {
    let root = issue("root", true, None);
    let other = issue("other", true, None);
    let mine = issue("me", false, Some(&root));
    let foreign = issue("foreign", false, Some(&other));
    let mut builder = Builder::new(BIN).http(CLIENTS);
    for (name, issued) in [("a", &issue("a.test", false, None)), ("root", &root), ("other", &other)] {
        builder = with(builder, name, issued);
    }
    let server = builder.start();
    for versions in [Versions { tls12: true, tls13: false }, Versions { tls12: false, tls13: true }] {
        let none = ClientContext::new(&ClientOptions { versions, ..ClientOptions::unverified() }).unwrap();
        let (mine, foreign) = (client_with(&mine, versions), client_with(&foreign, versions));
        let check = |context: &ClientContext, name: &str, status: &str, verify: &str| {
            // Twice: a resumed session is judged as the first one was.
            for _ in 0..2 {
                let response = TlsClient::get(server.port(), context, name, "/").unwrap();
                assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{name}: {response}");
                assert!(response.contains(&format!("X-Verify: {verify}\r\n")), "{name}: {response}");
            }
        };
        check(&none, "on.test", "400", "NONE");
        check(&mine, "on.test", "200", "SUCCESS");
        check(&foreign, "on.test", "400", "FAILED:unable to verify the first certificate");
        check(&none, "optional.test", "200", "NONE");
        check(&mine, "optional.test", "200", "SUCCESS");
        check(&foreign, "optional.test", "400", "FAILED:unable to verify the first certificate");
        check(&foreign, "any.test", "200", "FAILED:unable to verify the first certificate");
        check(&mine, "off.test", "200", "NONE");
        check(&mine, "more.test", "200", "SUCCESS");
        check(&foreign, "more.test", "200", "SUCCESS");
    }
    certificates_in_variables(&server, &mine);
}

fn certificates_in_variables(server: &Server, mine: &Issued) {
    let context = client_with(mine, Versions::default());
    let get =
        |target: &str| body(&TlsClient::get(server.port(), &context, "on.test", target).unwrap()).to_string();
    assert_eq!(get("/names"), "CN=me|CN=root|/CN=me|/CN=root|3|ecdsa-with-SHA256");
    let pem = mine.certificate_pem();
    assert_eq!(get("/raw"), pem.trim_end());
    assert_eq!(get("/tabbed"), pem.trim_end().replace('\n', "\n\t"));
    assert!(get("/cooked").starts_with("-----BEGIN%20CERTIFICATE-----%0A"));
    let cert = brisk_tls::Certificate::parse(&mine.certificate).unwrap();
    assert!(
        get("/cert").starts_with(&format!("{} {} ", cert.serial_text(), cert.fingerprint())),
        "{}",
        get("/cert")
    );
    assert!(get("/cert").ends_with(" GMT"));
}

/// Whoever has shown nothing to one host must not reach another, nor with a session of that one.
#[test]
fn hosts_with_rules_for_clients_are_reached_by_their_own_handshake_only() {
    let root = issue("root", true, None);
    let mut builder = Builder::new(BIN).http(CLIENTS);
    for (name, issued) in [("a", &issue("a.test", false, None)), ("root", &root), ("other", &root)] {
        builder = with(builder, name, issued);
    }
    let server = builder.start();
    let context = returning();
    for _ in 0..2 {
        let mut client = TlsClient::connect(server.port(), &context, "off.test").unwrap();
        client.send("GET / HTTP/1.1\r\nHost: on.test\r\n\r\n").unwrap();
        assert!(client.wait_for("</html>").unwrap().starts_with("HTTP/1.1 421 "));
    }
    server.wait_for_log("different from the one that was negotiated");
    // The same names, so that a client would offer its session: the first connection has no certificate to show.
    let response = TlsClient::get(server.port(), &context, "on.test", "/").unwrap();
    assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
}

const SESSIONS: &str = r"
    ssl_certificate a.crt;
    ssl_certificate_key a.key;
    add_header X-Reused $ssl_session_reused;
    ssl_session_timeout 1m;
    server { listen 127.0.0.1:{{PORT}} ssl; location / { return 200 ok; } }
    server { listen 127.0.0.1:{{PORT2}} ssl; ssl_session_tickets off; ssl_session_cache shared:s:1m; location / { return 200 ok; } }
    server { listen 127.0.0.1:{{PORT3}} ssl; ssl_session_tickets off; ssl_session_cache builtin:100; location / { return 200 ok; } }
    server { listen 127.0.0.1:{{PORT4}} ssl; ssl_session_tickets off; ssl_session_cache off; location / { return 200 ok; } }
    server { listen 127.0.0.1:{{PORT5}} ssl; ssl_session_ticket_key new.key; ssl_session_ticket_key old.key; location / { return 200 ok; } }
";

#[test]
fn sessions_are_resumed_on_any_thread_and_after_a_reload() {
    let builder = Builder::new(BIN).http(SESSIONS).file("new.key", [1; 48]).file("old.key", [2; 80]);
    let mut server = with(builder, "a", &issue("a.test", false, None)).start();
    let is_reused = |port: u16, context: &ClientContext| {
        TlsClient::get(port, context, "a.test", "/").unwrap().contains("X-Reused: r\r\n")
    };
    for tls13 in [false, true] {
        let versions = Versions { tls12: !tls13, tls13 };
        for (place, resumes) in [(1, true), (2, true), (3, true), (4, false), (5, true)] {
            let port = server.port_of(place);
            let context =
                ClientContext::new(&ClientOptions { versions, ..ClientOptions::unverified() }).unwrap();
            assert!(!is_reused(port, &context), "{place}");
            // Connections go to both threads in turn.
            for _ in 0..4 {
                assert_eq!(is_reused(port, &context), resumes, "{place} {versions:?}");
            }
            if place == 1 || place == 2 {
                server.configure_http("", SESSIONS);
                server.reload();
                assert_eq!(is_reused(server.port_of(place), &context), resumes, "{place} after a reload");
            }
        }
    }
}

#[test]
fn certificates_are_replaced_under_load_without_a_reload() {
    let conf = "server { listen 127.0.0.1:{{PORT}} ssl; ssl_certificate a.crt; ssl_certificate_key a.key; location / { return 200 ok; } }";
    let old = issue("old.test", false, None);
    let server = with(Builder::new(BIN).http(conf), "a", &old).start();
    let port = server.port();
    let shown = |context: &ClientContext| TlsClient::connect(port, context, "a.test").unwrap().certificate();
    assert_eq!(shown(&stranger()), old.certificate);
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_over = stop.clone();
    let load = std::thread::spawn(move || {
        let context = stranger();
        let mut count = 0;
        while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
            assert!(TlsClient::get(port, &context, "a.test", "/").unwrap().ends_with("ok"));
            count += 1;
        }
        count
    });
    let replace = |issued: &Issued| {
        for (name, text) in [("a.crt", issued.certificate_pem()), ("a.key", issued.key_pem())] {
            let fresh = server.write(&format!("{name}.new"), text);
            std::fs::rename(fresh, server.dir().join(name)).unwrap();
        }
    };
    for round in 0..3 {
        let new = issue(&format!("new{round}.test"), false, None);
        replace(&new);
        wait::holds("the new certificate", || shown(&stranger()) == new.certificate);
    }
    let last = shown(&stranger());
    // A certificate without its key is not taken.
    server.write("a.crt", issue("broken.test", false, None).certificate_pem());
    server.wait_for_log("key values mismatch.*the certificate in use stays");
    assert_eq!(shown(&stranger()), last);
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(load.join().unwrap() > 0);
}

/// In the file's place, with nothing that the kernel would report.
#[test]
fn a_certificate_that_is_written_unreported_is_found() {
    let conf = "server { listen 127.0.0.1:{{PORT}} ssl; ssl_certificate a.pem; ssl_certificate_key a.pem; location / { return 200 ok; } }";
    let padded = |issued: &Issued| {
        let mut text = [issued.certificate_pem(), issued.key_pem()].concat().into_bytes();
        text.resize(8000, b'\n');
        text
    };
    let (old, new) = (issue("old.test", false, None), issue("new.test", false, None));
    let server = Builder::new(BIN).http(conf).file("a.pem", padded(&old)).start();
    let shown = || TlsClient::connect(server.port(), &stranger(), "a.test").unwrap().certificate();
    assert_eq!(shown(), old.certificate);
    Writer::start(AIO, &server.dir().join("a.pem")).write(&padded(&new));
    wait::holds("the new certificate", || shown() == new.certificate);
}

/// The worker is nobody; the key is root's alone — at the start, after a replacement, and after the worker's death.
#[test]
fn keys_that_only_root_may_read_work_whatever_happens_to_the_worker() {
    let conf = "server { listen 127.0.0.1:{{PORT}} ssl; ssl_certificate a.crt; ssl_certificate_key secret/a.key; location / { return 200 ok; } }";
    let old = issue("old.test", false, None);
    let builder = Builder::new(BIN).main("user nobody;").http(conf).file("a.crt", old.certificate_pem());
    let builder = builder.file("secret/a.key", old.key_pem()).allow_alerts("exited on signal 9");
    let folder = builder.dir().join("secret");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::set_permissions(folder.join("a.key"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let server = builder.start();
    let shown =
        || TlsClient::connect(server.port(), &stranger(), "a.test").map(|client| client.certificate());
    assert_eq!(shown().unwrap(), old.certificate);
    let new = issue("new.test", false, None);
    server.write("secret/a.key", new.key_pem());
    server.write("a.crt", new.certificate_pem());
    wait::holds("the new certificate", || shown().unwrap() == new.certificate);
    let worker = server.worker();
    brisk_testkit::process::signal(worker, Signal::KILL);
    wait::holds("another worker", || server.workers().iter().any(|&pid| pid != worker));
    assert_eq!(shown().unwrap(), new.certificate);
}

#[test]
fn certificates_whose_paths_have_variables() {
    let conf = "ssl_certificate $ssl_server_name.crt; ssl_certificate_key $ssl_server_name.key; ssl_password_file words;
        ssl_certificate_cache max=100 valid=1m inactive=10s;
        server { listen 127.0.0.1:{{PORT}} ssl; location / { return 200 $ssl_server_name; } }
        server { listen 127.0.0.1:{{PORT}} ssl; server_name ~^(?<who>\\w+)\\.named$; ssl_certificate $who.test.crt; ssl_certificate_key $who.test.key; location / { return 200 $who; } }";
    let builder = Builder::new(BIN).http(conf).file("words", "wrong\nsecret\n");
    let server = with(builder, "a.test", &issue("a.test", false, None)).start();
    assert_eq!(body(&TlsClient::get(server.port(), &stranger(), "a.test", "/").unwrap()), "a.test");
    assert_eq!(body(&TlsClient::get(server.port(), &stranger(), "a.named", "/").unwrap()), "a");
    assert!(TlsClient::get(server.port(), &stranger(), "b.test", "/").is_err());
    server.wait_for_log("cannot load certificate \".*b\\.test\\.crt\"");
    // An encrypted key, in the new and in the old way.
    let key = server.dir().join("a.test.key").display().to_string();
    for (name, args) in
        [("c.test", vec!["pkcs8", "-topk8", "-v2", "aes256"]), ("d.test", vec!["ec", "-aes128"])]
    {
        let out = server.dir().join(format!("{name}.key")).display().to_string();
        let made = tool(
            "openssl",
            &[&args[..], &["-in", &key, "-out", &out, "-passout", "pass:secret"]].concat(),
            "",
        );
        server.write(&format!("{name}.crt"), server.read("a.test.crt"));
        assert_eq!(body(&TlsClient::get(server.port(), &stranger(), name, "/").unwrap()), name, "{made}");
    }
}

fn hello() -> Vec<u8> {
    hello_of("a.test")
}

/// A client's first message with any bytes for a name.
fn hello_of(name: &str) -> Vec<u8> {
    let stand_in: String = (1..=name.len()).map(|at| if at % 40 == 0 { '.' } else { 'x' }).collect();
    let mut hello = Vec::new();
    stranger().session(&stand_in, true).unwrap().receive(&mut [], &mut |_| (), &mut hello).unwrap();
    let framed = |name: &str| [&[0][..], &(name.len() as u16).to_be_bytes(), name.as_bytes()].concat();
    let sent = framed(&stand_in);
    let at = hello.windows(sent.len()).position(|part| part == sent).expect("the name is sent");
    hello[at..at + sent.len()].copy_from_slice(&framed(name));
    hello
}

#[test]
fn refused_handshakes_and_key_logs() {
    let conf = "ssl_key_log keys.log; ssl_buffer_size 4k; ssl_prefer_server_ciphers on; ssl_certificate_compression on; ssl_ecdh_curve X25519:prime256v1;
        server { listen 127.0.0.1:{{PORT}} ssl; server_name none; ssl_reject_handshake on; }
        server { listen 127.0.0.1:{{PORT}} ssl; server_name a.test; ssl_certificate a.crt; ssl_certificate_key a.key; root {{DIR}}/html;
            ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites TLS_CHACHA20_POLY1305_SHA256; location /facts { return 200 \"$ssl_cipher $ssl_curve\"; } }";
    let server = with(
        Builder::new(BIN).http(conf).file("html/f", vec![b'y'; 100_000]),
        "a",
        &issue("a.test", false, None),
    )
    .start();
    let refused = TlsClient::connect(server.port(), &stranger(), "b.test").err().unwrap();
    assert!(refused.contains("unrecognized name"), "{refused}");
    assert!(
        TlsClient::get(server.port(), &stranger(), "a.test", "/facts")
            .unwrap()
            .ends_with("TLS_CHACHA20_POLY1305_SHA256 X25519")
    );
    let file = TlsClient::get(server.port(), &stranger(), "a.test", "/f").unwrap();
    assert_eq!(body(&file).len(), 100_000);
    wait::holds("keys in the log", || server.read("keys.log").contains("CLIENT_HANDSHAKE_TRAFFIC_SECRET "));
}

/// `brisk serve`, ended when dropped.
struct Serve(std::process::Child);

impl Drop for Serve {
    fn drop(&mut self) {
        brisk_testkit::process::signal(self.0.id(), Signal::INT);
        let ended = wait::within(wait::DEADLINE, || self.0.try_wait().ok().flatten());
        assert!(ended.is_some_and(|status| status.success()) || std::thread::panicking(), "{ended:?}");
    }
}

#[test]
fn serve_makes_a_certificate_and_keeps_it() {
    let dir = brisk_testkit::TempDir::new();
    dir.write("site/index.html", "hello");
    let serve = || {
        let port = brisk_testkit::ports::claim();
        let child = Command::new(BIN)
            .args(["serve", "site", "--tls", "--listen", &format!("127.0.0.1:{}", port.number)])
            .env("XDG_STATE_HOME", dir.path().join("state"))
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let serve = Serve(child);
        let client = wait::until("brisk serve --tls", || {
            TlsClient::connect(port.number, &stranger(), "localhost").ok()
        });
        let answer = TlsClient::get(port.number, &stranger(), "localhost", "/").unwrap();
        assert!(answer.ends_with("hello"), "{answer}");
        drop(serve);
        client.certificate()
    };
    let first = serve();
    assert!(brisk_tls::is_for_host(&first, "127.0.0.1") && brisk_tls::is_for_host(&first, "localhost"));
    assert_eq!(serve(), first);
    let key = dir.path().join("state/brisk/localhost.key");
    assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}
