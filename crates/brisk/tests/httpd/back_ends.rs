//! What lines of Apache's lead to elsewhere: scripts behind FastCGI, and clients to chains of certificates.

use crate::{BIN, HEAD, start, telling};
use brisk_testkit::tls::{issue, stranger};
use brisk_testkit::{Builder, TlsClient};

/// As in Apache, the script is the back end's: sections of paths hold for it, files of folders do not.
#[test]
fn patterns_lead_to_scripts() {
    let application = telling();
    let to = application.address();
    let conf = format!(
        "{HEAD}LoadModule proxy_module x\nLoadModule proxy_fcgi_module x\nLoadModule rewrite_module x\nDocumentRoot {{{{DIR}}}}/html\nProxyPassMatch ^/own/ !\nProxyPassMatch ^/whole/ fcgi://{to}/srv/\nProxyPassMatch ^/(.*\\.php(/.*)?)$ fcgi://{to}/srv/app/$1 timeout=20\n<Directory {{{{DIR}}}}/html>\nAllowOverride All\n</Directory>\n<Location /closed>\nRequire all denied\n</Location>\n<LocationMatch ^/admin\\.php$>\nRequire all denied\n</LocationMatch>\n<If \"%{{QUERY_STRING}} == 'no'\">\nRequire all denied\n</If>\n"
    );
    let server = start(
        Builder::new(BIN)
            .file("html/.htaccess", "RewriteEngine On\nRewriteRule ^ - [F]\n")
            .file("html/a.php", "<?php source")
            .file("html/own/a.txt", "own")
            .file("html/own/.htaccess", "RewriteEngine Off\n"),
        &conf,
    );
    for _ in 0..2 {
        for (target, status, text) in [
            ("/a.php", 200, "/srv/app/a.php|/a.php||"),
            ("/none/at%20all.php?x", 200, "/srv/app/none/at all.php|/none/at all.php||"),
            ("/a.php/more", 200, "/srv/app/a.php/more|/a.php|/more|"),
            ("/whole/x", 200, "/srv/whole/x|/whole/x||"),
            ("/closed/a.php", 403, ""),
            ("/admin.php", 403, ""),
            // The script has this very name: no part of it is a query.
            ("/admin.php%3F.php", 200, "/srv/app/admin.php?.php|/admin.php?.php||"),
            ("/a.php?no", 403, ""),
            ("/own/a.txt", 200, "own"),
            ("/a.txt", 403, ""),
        ] {
            let response = server.get(target);
            assert_eq!(response.status, status, "{target}: {}", server.error_log());
            assert!(status != 200 || response.text() == text, "{target}: {}", response.text());
        }
    }
}

#[test]
fn a_chain_in_a_file_of_its_own_is_sent_behind_the_certificate() {
    let authority = issue("authority", true, None);
    let leaf = issue("a.example", false, Some(&authority));
    let whole = leaf.certificate_pem() + &authority.certificate_pem();
    for certificate in [leaf.certificate_pem(), whole] {
        let builder = Builder::new(BIN)
            .file("html/a.txt", "text")
            .file("a.crt", certificate)
            .file("a.key", leaf.key_pem())
            .file("chain.pem", authority.certificate_pem());
        let server = start(
            builder,
            &format!(
                "{HEAD}LoadModule ssl_module x\nDocumentRoot {{{{DIR}}}}/html\n<VirtualHost *:*>\nServerName a.example\nSSLEngine on\nSSLCertificateFile {{{{DIR}}}}/a.crt\nSSLCertificateKeyFile {{{{DIR}}}}/a.key\nSSLCertificateChainFile {{{{DIR}}}}/chain.pem\n<Location />\nRequire all granted\n</Location>\n</VirtualHost>\n"
            ),
        );
        let client = TlsClient::connect(server.port(), &stranger(), "a.example").unwrap();
        assert_eq!(client.session().peer_certificates().len(), 2);
    }
}
