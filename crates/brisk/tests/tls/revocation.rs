//! Certificates that their authority has taken back: lists, and OCSP in both directions.

use super::{BIN, tool, with};
use brisk_testkit::tls::issue;
use brisk_testkit::{Builder, TlsClient, wait};
use brisk_tls::{Certified, ClientContext, ClientOptions, PrivateKey};

/// An authority of `openssl ca` in the server's folder: root, a client's certificate, its revocation list and an OCSP
/// responder's answers.
struct Authority<'s>(&'s std::path::Path);

impl Authority<'_> {
    fn run(&self, args: &str) -> String {
        let dir = self.0.display().to_string();
        let args: Vec<String> =
            args.split_ascii_whitespace().map(|arg| arg.replace('@', &format!("{dir}/"))).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        tool("openssl", &args, "")
    }

    fn new(dir: &std::path::Path) -> Authority<'_> {
        let authority = Authority(dir);
        let conf = format!(
            "[ req ]\ndistinguished_name = dn\nx509_extensions = ext\n[ dn ]\n[ ext ]\nbasicConstraints = critical,CA:TRUE\n\
             [ ca ]\ndefault_ca = my\n[ my ]\nnew_certs_dir = {0}\ndatabase = {0}/index\nserial = {0}/serial\n\
             default_md = sha256\npolicy = policy\ndefault_days = 3\n[ policy ]\ncommonName = supplied\n",
            dir.display()
        );
        std::fs::write(dir.join("ca.conf"), conf).unwrap();
        std::fs::write(dir.join("index"), "").unwrap();
        std::fs::write(dir.join("serial"), "1000").unwrap();
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -config @ca.conf";
        authority.run(&format!("req -x509 -subj /CN=root {key} -keyout @root.key -out @root.crt"));
        for name in ["leaf", "good"] {
            authority.run(&format!("req -new -subj /CN={name} {key} -keyout @{name}.key -out @{name}.csr"));
            let ca = "ca -batch -config @ca.conf -keyfile @root.key -cert @root.crt";
            authority.run(&format!("{ca} -in @{name}.csr -out @{name}.crt -notext"));
        }
        authority
    }

    /// Has an answer about a certificate, in the file that the responders here send.
    fn answer_by(&self, signer: &str, name: &str) -> String {
        self.run(&format!("ocsp -issuer @root.crt -cert @{name}.crt -reqout @request.der"));
        self.run(&format!(
            "ocsp -index @index -CA @root.crt -rsigner @{signer}.crt -rkey @{signer}.key -reqin @request.der -respout @answer.der -ndays 1"
        ))
    }

    fn revoke(&self, name: &str) {
        self.run(&format!("ca -config @ca.conf -keyfile @root.key -cert @root.crt -revoke @{name}.crt"));
    }

    fn list(&self, out: &str) -> String {
        self.run(&format!(
            "ca -gencrl -config @ca.conf -keyfile @root.key -cert @root.crt -crldays 1 -out @{out}"
        ))
    }

    fn client(&self, name: &str) -> ClientContext {
        let read = |end: &str| std::fs::read(self.0.join(format!("{name}.{end}"))).unwrap();
        let key = PrivateKey::from_pem(&read("key"), &[]).unwrap();
        let certificate = Some(Certified::new(brisk_tls::chain(&read("crt")).unwrap(), &key, None).unwrap());
        ClientContext::new(&ClientOptions { certificate, ..ClientOptions::unverified() }).unwrap()
    }
}

#[test]
fn revoked_certificates_are_refused() {
    let conf = "ssl_certificate a.crt; ssl_certificate_key a.key; ssl_verify_client on; ssl_client_certificate root.crt;
        add_header X-Verify $ssl_client_verify always;
        server { listen 127.0.0.1:{{PORT}} ssl; ssl_crl root.crl; location / { return 200 ok; } }
        server { listen 127.0.0.1:{{PORT2}} ssl; ssl_ocsp leaf; ssl_ocsp_responder http://127.0.0.1:{{PORT3}}/; ssl_ocsp_cache shared:ocsp:1m;
            location / { return 200 ok; } }
        server { listen 127.0.0.1:{{PORT3}}; location / { default_type application/ocsp-response; root {{DIR}}; try_files /answer.der =404; } }";
    let builder = Builder::new(BIN).main("user root; ssl_object_cache_inheritable on;").http(conf);
    let dir = builder.dir().to_owned();
    let authority = Authority::new(&dir);
    authority.revoke("leaf");
    let made = authority.list("root.crl");
    let builder = with(builder, "a", &issue("a.test", false, None));
    let server = builder.start();
    let verify = |place: usize, name: &str| {
        let response = TlsClient::get(server.port_of(place), &authority.client(name), "a.test", "/").unwrap();
        let line = response.lines().find_map(|line| line.strip_prefix("X-Verify: ").map(str::to_string));
        (response[9..12].to_string(), line.unwrap_or_default())
    };
    assert_eq!(verify(1, "leaf"), ("400".into(), "FAILED:certificate revoked".into()), "{made}");
    assert_eq!(verify(1, "good"), ("200".into(), "SUCCESS".into()));
    // Nobody answers, then somebody does; the answer is kept.
    let unanswered = ("400".to_string(), "FAILED:certificate status request failed".to_string());
    assert_eq!(verify(2, "leaf"), unanswered);
    let answer = |name: &str| authority.answer_by("root", name);
    // RFC 6960 §4.2.2.2: a certificate of the authority that is not for answers does not answer.
    let made = authority.answer_by("good", "good");
    assert_eq!(verify(2, "good"), unanswered, "{made}");
    let made = answer("leaf");
    assert_eq!(verify(2, "leaf"), ("400".into(), "FAILED:certificate revoked".into()), "{made}");
    assert_eq!(verify(2, "good"), unanswered, "an answer about another certificate is none");
    answer("good");
    assert_eq!(verify(2, "good"), ("200".into(), "SUCCESS".into()));
    std::fs::remove_file(dir.join("answer.der")).unwrap();
    assert_eq!(verify(2, "good"), ("200".into(), "SUCCESS".into()));
    assert_eq!(verify(2, "leaf").0, "400");
}

/// In `stream` a client that its authority does not vouch for is not served at all.
#[test]
fn sessions_of_revoked_clients_end() {
    let http = "server { listen 127.0.0.1:{{PORT3}}; location / { default_type application/ocsp-response; root {{DIR}}; try_files /answer.der =404; } }";
    let stream = "user root; stream { log_format s '$status $ssl_client_verify'; access_log {{DIR}}/s.log s;
        server { listen 127.0.0.1:{{PORT}} ssl; ssl_certificate a.crt; ssl_certificate_key a.key; ssl_verify_client on;
                 ssl_client_certificate root.crt; ssl_ocsp leaf; ssl_ocsp_responder http://127.0.0.1:{{PORT3}}/; return $ssl_client_verify; } }";
    let builder = Builder::new(BIN).main(stream).http(http);
    let dir = builder.dir().to_owned();
    let authority = Authority::new(&dir);
    authority.revoke("leaf");
    let server = with(builder, "a", &issue("a.test", false, None)).start();
    let told = |name: &str| {
        let client = TlsClient::connect(server.port(), &authority.client(name), "a.test");
        client.and_then(|mut client| client.rest()).unwrap_or_default()
    };
    let is_logged = |line: &str| wait::holds("a session is logged", || server.read("s.log").contains(line));
    assert_eq!(told("good"), "");
    is_logged("500 FAILED:certificate status request failed\n");
    authority.answer_by("root", "good");
    assert_eq!(told("good"), "SUCCESS");
    authority.answer_by("root", "leaf");
    assert_eq!(told("leaf"), "");
    is_logged("500 FAILED:certificate revoked\n");
}

#[test]
fn ocsp_responses_are_stapled() {
    let stream = "user root; stream { server { listen 127.0.0.1:{{PORT4}} ssl; ssl_stapling on; ssl_certificate good.crt;
        ssl_certificate_key good.key; ssl_trusted_certificate root.crt; ssl_stapling_responder http://127.0.0.1:{{PORT3}}; return x; } }";
    let conf = "ssl_stapling on; ssl_certificate good.crt; ssl_certificate_key good.key; ssl_trusted_certificate root.crt;
        server { listen 127.0.0.1:{{PORT}} ssl; ssl_stapling_responder http://127.0.0.1:{{PORT3}}; ssl_stapling_verify on; }
        server { listen 127.0.0.1:{{PORT2}} ssl; ssl_stapling_file answer.der; }
        server { listen 127.0.0.1:{{PORT3}}; location / { default_type application/ocsp-response; root {{DIR}}; try_files /answer.der =404; } }";
    let builder = Builder::new(BIN).main(stream).http(conf);
    let dir = builder.dir().to_owned();
    let authority = Authority::new(&dir);
    authority.answer_by("root", "good");
    let server = builder.start();
    for place in [1, 2, 4] {
        let connect = format!("127.0.0.1:{}", server.port_of(place));
        wait::holds("a stapled response", || {
            tool("openssl", &["s_client", "-connect", &connect, "-status"], "Q\n")
                .contains("Cert Status: good")
        });
    }
}

/// Found by reading: servers with one certificate shared a stapler, though only one of them knew the issuer.
#[test]
fn each_server_finds_the_issuer_by_its_own_files() {
    let conf = "ssl_stapling on; ssl_certificate good.crt; ssl_certificate_key good.key; ssl_stapling_responder http://127.0.0.1:{{PORT3}};
        server { listen 127.0.0.1:{{PORT2}} ssl; ssl_client_certificate a.crt; }
        server { listen 127.0.0.1:{{PORT}} ssl; ssl_client_certificate root.crt; }
        server { listen 127.0.0.1:{{PORT3}}; location / { default_type application/ocsp-response; root {{DIR}}; try_files /answer.der =404; } }";
    let builder = Builder::new(BIN).main("user root;").http(conf);
    let dir = builder.dir().to_owned();
    let authority = Authority::new(&dir);
    authority.answer_by("root", "good");
    let server = with(builder, "a", &issue("a.test", false, None)).start();
    let connect = format!("127.0.0.1:{}", server.port());
    wait::holds("a stapled response", || {
        tool("openssl", &["s_client", "-connect", &connect, "-status"], "Q\n").contains("Cert Status: good")
    });
}
