//! What rules are told of TLS, beside Debian's Apache.

use crate::{BIN, HEAD, start};
use brisk_testkit::apache::open_to_all;
use brisk_testkit::{Apache, Builder, TempDir, children, wait};
use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// `Header` of each of them.
const SHOWN: &[&str] = &[
    "SSL_PROTOCOL",
    "SSL_CIPHER",
    "SSL_CIPHER_USEKEYSIZE",
    "SSL_CIPHER_ALGKEYSIZE",
    "SSL_CIPHER_EXPORT",
    "SSL_COMPRESS_METHOD",
    "SSL_SESSION_RESUMED",
    "SSL_TLS_SNI",
    "SSL_CLIENT_VERIFY",
    "SSL_CLIENT_S_DN",
    "SSL_CLIENT_S_DN_CN",
    "ssl_client_s_dn_o",
    "SSL_CLIENT_S_DN_OU",
    "SSL_CLIENT_S_DN_OU_1",
    "SSL_CLIENT_S_DN_OU_2",
    "SSL_CLIENT_S_DN_Email",
    "SSL_CLIENT_S_DN_ST",
    "SSL_CLIENT_I_DN",
    "SSL_CLIENT_I_DN_CN",
    "SSL_CLIENT_M_SERIAL",
    "SSL_CLIENT_V_START",
    "SSL_CLIENT_V_END",
    "SSL_CLIENT_V_REMAIN",
    "SSL_CLIENT_A_SIG",
    "SSL_CLIENT_CERT",
    "REMOTE_ADDR",
    "REQUEST_METHOD",
    "HTTPS",
    "HTTP_USER_AGENT",
    "ENV:OWN",
    "NOTHING",
];

/// An authority, the server's certificate, and one of a client.
fn certificates(dir: &TempDir) {
    let openssl = |line: &str| {
        let mut command = Command::new("openssl");
        command.args(line.split('|')).current_dir(dir.path());
        let output =
            children::output(&mut command).expect("openssl is not installed: scripts/setup.sh does that");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let own = |name: &str, subject: &str| {
        openssl(&format!(
            "req|-x509|-newkey|ec|-pkeyopt|ec_paramgen_curve:P-256|-nodes|-utf8|-days|90|-keyout|{name}.key|-out|{name}.crt|-subj|{subject}"
        ));
    };
    own("ca", "/C=DE/O=Own, Inc/CN=An \u{e4}uthority");
    own("server", "/CN=a.example");
    openssl(
        "req|-newkey|ec|-pkeyopt|ec_paramgen_curve:P-256|-nodes|-utf8|-keyout|client.key|-out|client.csr|-subj|/C=DE/ST=Hessen/O=Own, Inc/OU=first/OU=sec\\+ond/CN=J\u{fc}rgen/emailAddress=j@a.example",
    );
    openssl("x509|-req|-in|client.csr|-CA|ca.crt|-CAkey|ca.key|-set_serial|4711|-days|60|-out|client.crt");
    // `SSL_CLIENT_V_REMAIN` counts whole days: 60 in the second of the signature, 59 from the next one on.
    let signed = SystemTime::now();
    wait::holds("the certificate is older than a second", || {
        signed.elapsed().is_ok_and(|age| age > Duration::from_secs(1))
    });
}

fn site(at: &str) -> String {
    let mut text = format!(
        "DocumentRoot {at}/html\nSetEnv OWN mine\n<Directory {at}/html>\nAllowOverride All\nRequire all granted\n</Directory>\n<Location /env>\nRequire env HTTPS\n</Location>\n<Location /unset>\nUnsetEnv HTTPS\n</Location>\nHeader always set X-On \"%{{HTTPS}}e\" env=HTTPS\nHeader always set X-Off yes env=!HTTPS\nHeader always set X-Name \"%{{SSL_TLS_SNI}}e\" env=SSL_TLS_SNI\n<Location /ours>\nRequire expr \"%{{SSL_CLIENT_S_DN_O}} == 'Own, Inc' && %{{SSL_CLIENT_VERIFY}} == 'SUCCESS'\"\n</Location>\nRewriteEngine on\nRewriteCond %{{SSL:SSL_CLIENT_VERIFY}} =SUCCESS\nRewriteRule ^/who$ /welcome-%{{SSL:SSL_CLIENT_S_DN_OU}} [R]\nRewriteCond %{{SSL:SSL_PROTOCOL}} ^$\nRewriteRule ^/who$ /plain [R]\nRewriteCond %{{ENV:HTTPS}} =on\nRewriteRule ^/asked$ /seen [R]\n"
    );
    for (number, name) in SHOWN.iter().enumerate() {
        let _ = writeln!(text, "Header always set X-{number} \"%{{{name}}}s\"");
    }
    text
}

fn tls(at: &str) -> String {
    format!(
        "SSLEngine on\nSSLCertificateFile {at}/server.crt\nSSLCertificateKeyFile {at}/server.key\nSSLCACertificateFile {at}/ca.crt\nSSLVerifyClient optional\n"
    )
}

/// Status, and all that is told: by curl, which has certificates and names of servers.
fn ask(port: u16, scheme: &str, target: &str, more: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args(["-sk", "--http1.1", "-o", "/dev/null", "-D", "-", "-A", "me", "--max-time", "30"]);
    command.args(["--resolve", &format!("a.example:{port}:127.0.0.1")]).args(more);
    command.arg(format!("{scheme}://a.example:{port}{target}"));
    let output = children::output(&mut command).expect("curl is not installed: scripts/setup.sh does that");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines: Vec<&str> = text
        .lines()
        .filter(|line| {
            ["http/", "x-", "location"].iter().any(|start| line.to_ascii_lowercase().starts_with(start))
        })
        .collect();
    // Not the reason.
    lines
        .iter_mut()
        .filter(|line| line.starts_with("HTTP/"))
        .for_each(|line| *line = &line[.."HTTP/1.1 200".len()]);
    lines.sort_unstable();
    let told = lines.join("\n").replace(&format!(":{port}"), "");
    format!("{:?} {told}", output.status.code())
}

#[test]
fn rules_are_told_of_tls_what_apache_tells() {
    const MODULES: &[&str] =
        &["mpm_event", "authn_core", "authz_core", "alias", "env", "headers", "rewrite", "ssl"];
    let dir = TempDir::new();
    certificates(&dir);
    for name in ["a.txt", "ours", "welcome", "env", "unset", "asked"] {
        dir.write(&format!("html/{name}"), name);
    }
    dir.write(
        "html/h/.htaccess",
        "RewriteEngine on\nRewriteCond %{SSL:SSL_CLIENT_S_DN_CN} =J\u{fc}rgen\nRewriteRule ^a$ - [F]\nRewriteCond %{ENV:HTTPS} =on\nRewriteRule ^b$ - [G]\nHeader set X-Here yes env=HTTPS\n",
    );
    dir.write("html/h/a", "a");
    dir.write("html/h/b", "b");
    open_to_all(dir.path());
    let at = dir.path().display().to_string();
    let file = |name: &str| format!("{at}/{name}");
    let (certificate, key) = (file("client.crt"), file("client.key"));
    let client = ["--cert", &certificate, "--key", &key];
    for is_secure in [true, false] {
        let block = if is_secure { tls(&at) } else { String::new() } + &site(&at);
        let host = format!("<VirtualHost *:*>\nServerName a.example\n{block}</VirtualHost>\n");
        let apache = Apache::start(MODULES, &host);
        let loaded: Vec<String> =
            MODULES[1..].iter().map(|name| format!("LoadModule {name}_module x\n")).collect();
        let loaded = loaded.concat();
        let brisk = start(Builder::new(BIN), &format!("{HEAD}{loaded}{host}"));
        let scheme = if is_secure { "https" } else { "http" };
        for versions in [
            &["--tlsv1.3", "--tls13-ciphers", "TLS_AES_256_GCM_SHA384"][..],
            &["--tls-max", "1.2", "--ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256"],
        ] {
            for who in [&[][..], &client] {
                for target in ["/a.txt", "/ours", "/who", "/h/a", "/h/b", "/env", "/unset", "/asked", "/none"]
                {
                    let more = [versions, who].concat();
                    let wanted = ask(apache.port(), scheme, target, &more);
                    assert!(wanted.contains("HTTP/1.1"), "{wanted} {}", apache.log());
                    let told = ask(brisk.port(), scheme, target, &more);
                    assert_eq!(told, wanted, "{target} {more:?} {}", brisk.error_log());
                }
            }
        }
    }
}
