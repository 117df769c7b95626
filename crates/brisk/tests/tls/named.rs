//! Certificates whose paths have variables in them, where the worker may not read the keys: the master does, for the paths
//! that the configuration means.

use super::{BIN, body, hello_of, tool, with};
use brisk_testkit::server::text;
use brisk_testkit::tls::{issue, stranger};
use brisk_testkit::{Builder, TlsClient, wait};
use brisk_tls::issue::Issued;
use rustix::process::Signal;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

/// From now on it is root's alone, with all that is in it.
fn close(folder: &Path) {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).unwrap();
}

fn keys(builder: Builder, names: &[(&str, &Issued)]) -> Builder {
    let mut builder = builder;
    for (name, issued) in names {
        builder = with(builder, &format!("secret/{name}"), issued);
    }
    close(&builder.dir().join("secret"));
    builder
}

const CONF: &str = "
    map $ssl_server_name $pair { ~^(?<who>\\w+)\\.mapped$ {{DIR}}/secret/$who.test; default {{DIR}}/secret/a.test; }
    server { listen 127.0.0.1:{{PORT}} ssl; ssl_certificate secret/$ssl_server_name.crt; ssl_certificate_key secret/$ssl_server_name.key; location / { return 200 $ssl_server_name; } }
    server { listen 127.0.0.1:{{PORT2}} ssl; ssl_certificate $pair.crt; ssl_certificate_key $pair.key; ssl_certificate_cache max=10 valid=1m; location / { return 200 mapped; } }
";

#[test]
fn keys_with_variables_in_their_paths_that_only_root_may_read() {
    let (a, b) = (issue("a.test", false, None), issue("b.test", false, None));
    let builder = Builder::new(BIN).main("user nobody;").http(CONF).allow_alerts("exited on signal 9");
    let mut server = keys(builder, &[("a.test", &a), ("b.test", &b)]).start();
    let shown = |port: u16, name: &str| {
        TlsClient::connect(port, &stranger(), name).map(|client| client.certificate())
    };
    let (port, mapped) = (server.port(), server.port_of(2));
    assert_eq!(shown(port, "a.test").unwrap(), a.certificate);
    assert_eq!(shown(port, "b.test").unwrap(), b.certificate);
    assert_eq!(shown(mapped, "b.mapped").unwrap(), b.certificate);
    assert_eq!(shown(mapped, "whoever").unwrap(), a.certificate);
    assert!(shown(port, "c.test").is_err());
    server.wait_for_log("cannot load certificate \".*c\\.test\\.crt\": .*No such file");
    // Replaced on disk: without a cache the next handshake has it.
    let new = issue("a.test", false, None);
    server.write("secret/a.test.key", new.key_pem());
    server.write("secret/a.test.crt", new.certificate_pem());
    assert_eq!(shown(port, "a.test").unwrap(), new.certificate);
    // A new worker is as well off as the last one.
    let worker = server.worker();
    brisk_testkit::process::signal(worker, Signal::KILL);
    wait::holds("another worker", || server.workers().iter().any(|&pid| pid != worker));
    assert_eq!(shown(port, "a.test").unwrap(), new.certificate);
    // Another configuration has other paths.
    let again = CONF.replace("secret/$ssl_server_name", "secret/$ssl_server_name/pair");
    for (name, text) in [("crt", b.certificate_pem()), ("key", b.key_pem())] {
        server.write(&format!("secret/a.test/pair.{name}"), text);
    }
    server.configure_http("user nobody;", &again);
    server.reload();
    assert_eq!(shown(port, "a.test").unwrap(), b.certificate);
    // Many at once, on both threads.
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let want = b.certificate.clone();
            std::thread::spawn(move || {
                for _ in 0..20 {
                    let client = TlsClient::connect(port, &stranger(), "a.test").unwrap();
                    assert_eq!(client.certificate(), want);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// What a client calls itself leads to no other folder, even where a certificate and its key lie there.
#[test]
fn a_clients_name_leads_to_no_other_folder() {
    let conf = "server { listen 127.0.0.1:{{PORT}} ssl; ssl_certificate keys/$ssl_server_name.crt; ssl_certificate_key keys/$ssl_server_name.key; }
        server { listen 127.0.0.1:{{PORT2}} ssl; ssl_certificate $ssl_server_name.crt; ssl_certificate_key $ssl_server_name.key; }
        server { listen 127.0.0.1:{{PORT3}} ssl; ssl_certificate keys/$ssl_server_name/crt; ssl_certificate_key keys/$ssl_server_name/key; }";
    for user in ["root", "nobody"] {
        let issued = issue("a", false, None);
        let mut builder = Builder::new(BIN).main(&format!("user {user};")).http(conf);
        for name in ["keys/ok", "keys/in/a", "a", "keys/", "keys/ok/"] {
            let (crt, key) = if name.ends_with("ok/") { ("crt", "key") } else { (".crt", ".key") };
            builder = builder.file(&format!("{name}{crt}"), issued.certificate_pem());
            builder = builder.file(&format!("{name}{key}"), issued.key_pem());
        }
        builder = builder.file("crt", issued.certificate_pem()).file("key", issued.key_pem());
        if user == "nobody" {
            close(&builder.dir().join("keys"));
        }
        let server = builder.start();
        let whole = server.dir().join("a").display().to_string();
        let answer = |place: usize, name: &str| {
            let mut stream = TcpStream::connect(("127.0.0.1", server.port_of(place))).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            stream.write_all(&hello_of(name)).unwrap();
            let mut first = [0];
            stream.read_exact(&mut first).unwrap();
            first[0]
        };
        let (alert, handshake) = (21, 22);
        assert_eq!((answer(1, "ok"), answer(3, "ok")), (handshake, handshake));
        for name in ["../a", "in/a", "./ok", "in/../ok", "/../a", "ok\0", &whole, ".."] {
            assert_eq!(answer(1, name), alert, "{name:?}");
        }
        assert_eq!(answer(2, &whole), alert);
        assert_eq!(answer(2, "keys/ok"), alert);
        for name in ["..", ".", "../keys/ok", "ok/", "ok/../ok"] {
            assert_eq!(answer(3, name), alert, "{name:?}");
        }
        server.wait_for_log("leads out of its folder");
    }
}

/// The same for what is shown to back ends.
#[test]
fn keys_for_back_ends_that_only_root_may_read() {
    let conf = "
        server { listen 127.0.0.1:{{PORT2}} ssl; ssl_certificate a.crt; ssl_certificate_key a.key; ssl_verify_client on; ssl_client_certificate root.crt;
            location / { return 200 $ssl_client_s_dn; } }
        server { listen 127.0.0.1:{{PORT}}; location / { proxy_pass https://127.0.0.1:{{PORT2}};
            proxy_ssl_certificate secret/$arg_who.crt; proxy_ssl_certificate_key secret/$arg_who.key; } }";
    let root = issue("root", true, None);
    let mine = issue("me", false, Some(&root));
    let builder = Builder::new(BIN).main("user nobody;").http(conf).file("root.crt", root.certificate_pem());
    let builder = with(builder, "a", &issue("a.test", false, None));
    let builder = builder.file("me.crt", mine.certificate_pem()).file("me.key", mine.key_pem());
    let server = keys(builder, &[("me", &mine)]).start();
    assert_eq!(server.get("/?who=me").text(), "CN=me");
    assert_eq!(server.get("/?who=you").status, 500);
    assert_eq!(server.get("/?who=x/../me").status, 500);
}

/// What a client says leads to no other folder, where the worker itself may read all of them. What the configuration spells out may.
#[test]
fn a_clients_value_has_no_other_certificate_shown_to_a_back_end() {
    let conf = "
        map $arg_who $mapped { default {{DIR}}/keys/$arg_who; other {{DIR}}/other; none ''; }
        server { listen 127.0.0.1:{{PORT2}} ssl; ssl_certificate a.crt; ssl_certificate_key a.key; ssl_verify_client on; ssl_client_certificate root.crt;
            location / { return 200 $ssl_client_s_dn; } }
        server { listen 127.0.0.1:{{PORT}};
            location /named { proxy_pass https://127.0.0.1:{{PORT2}}; proxy_ssl_certificate keys/$arg_who.crt; proxy_ssl_certificate_key keys/$arg_who.key; }
            location /key { proxy_pass https://127.0.0.1:{{PORT2}}; proxy_ssl_certificate other.crt; proxy_ssl_certificate_key keys/$arg_who.key; }
            location /mapped { proxy_pass https://127.0.0.1:{{PORT2}}; proxy_ssl_certificate $mapped.crt; proxy_ssl_certificate_key $mapped.key; }
            location /whole { proxy_pass https://127.0.0.1:{{PORT2}}; proxy_ssl_certificate $mapped; proxy_ssl_certificate_key $mapped; }
            location /set { set $pair {{DIR}}/other; if ($arg_who) { set $pair {{DIR}}/keys/$arg_who; }
                proxy_pass https://127.0.0.1:{{PORT2}}; proxy_ssl_certificate $pair.crt; proxy_ssl_certificate_key $pair.key; } }";
    let root = issue("root", true, None);
    let builder = Builder::new(BIN).main("user root;").http(conf).file("root.crt", root.certificate_pem());
    let mut builder = with(builder, "a", &issue("a.test", false, None));
    for name in ["keys/me", "other", "keys/in/deep"] {
        builder = with(builder, name, &issue(name.rsplit('/').next().unwrap(), false, Some(&root)));
    }
    let server = builder.start();
    let shown = |target: &str| {
        let response = server.get(target);
        if response.status == 200 { response.text() } else { response.status.to_string() }
    };
    for place in ["/named", "/mapped", "/set"] {
        assert_eq!(shown(&format!("{place}?who=me")), "CN=me", "{place}");
        for name in ["../other", "in/deep", "./me", "../keys/me", "..", "x/../../other"] {
            assert_eq!(shown(&format!("{place}?who={name}")), "500", "{place} {name}");
        }
    }
    assert_eq!((shown("/mapped?who=other"), shown("/set")), ("CN=other".to_string(), "CN=other".to_string()));
    assert_eq!(shown("/key?who=../other"), "500");
    // An empty name shows none, as in nginx.
    assert_eq!(shown("/whole?who=none"), "400");
    server.wait_for_log("keys/../other.crt\": the value of a variable is empty or leads out of its folder");
}

/// A key that needs a password comes through the master as any other.
#[test]
fn an_encrypted_key_that_only_root_may_read() {
    let conf = "ssl_password_file words; server { listen 127.0.0.1:{{PORT}} ssl; ssl_certificate secret/$ssl_server_name.crt; ssl_certificate_key secret/$ssl_server_name.key; location / { return 200 ok; } }";
    let issued = issue("a", false, None);
    let builder = Builder::new(BIN).main("user nobody;").http(conf).file("words", "secret\n");
    let builder = keys(builder, &[("a", &issued)]);
    let path = |name: &str| builder.dir().join("secret").join(name).display().to_string();
    let args = ["ec", "-aes128", "-in", &path("a.key"), "-out", &path("b.key"), "-passout", "pass:secret"];
    let made = tool("openssl", &args, "");
    std::fs::copy(path("a.crt"), path("b.crt")).unwrap();
    let server = builder.start();
    assert_eq!(body(&TlsClient::get(server.port(), &stranger(), "b", "/").unwrap()), "ok", "{made}");
}

/// Found by reading: a key that one server had decrypted was given to all servers that named its file.
#[test]
fn a_password_opens_a_key_for_its_own_server_only() {
    let sealed = |builder: Builder| {
        let builder = with(builder, "a", &issue("a.test", false, None));
        let [plain, closed] = ["a.key", "b.key"].map(|name| builder.dir().join(name).display().to_string());
        tool("openssl", &["ec", "-aes128", "-in", &plain, "-out", &closed, "-passout", "pass:secret"], "");
        builder.file("good", "secret\n").file("bad", "wrong\n")
    };
    let server = |words: &str| {
        format!(
            "server {{ listen 127.0.0.1:{{{{PORT}}}} ssl; server_name {words}; ssl_certificate a.crt; ssl_certificate_key b.key; ssl_password_file {words}; }}"
        )
    };
    let test = |conf: &str| {
        let output = sealed(Builder::new(BIN).http(conf)).prepare().run(&["-t"]);
        (output.status.success(), text(&output.stderr))
    };
    let (is_good, said) = test(&(server("good") + &server("good")));
    assert!(is_good, "{said}");
    for conf in [server("bad"), server("good") + &server("bad"), server("bad") + &server("good")] {
        let (is_good, said) = test(&conf);
        assert!(!is_good && said.contains("cannot load certificate key"), "{conf}: {said}");
    }
}
