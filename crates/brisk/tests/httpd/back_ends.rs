//! What lines of Apache's lead to elsewhere: scripts behind FastCGI, and clients to chains of certificates.

use crate::{BIN, HEAD, start, telling};
use brisk_testkit::application::Speaks;
use brisk_testkit::tls::{issue, stranger};
use brisk_testkit::{Application, Builder, TlsClient};

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

/// As mod_proxy_fcgi documents it; and patterns of sections, which `ProxyPassMatch` takes.
#[test]
fn groups_lead_to_scripts() {
    let applications = [telling(), telling()];
    let [one, two] = applications.each_ref().map(Application::address);
    let conf = format!(
        "{HEAD}LoadModule proxy_module x\nLoadModule proxy_fcgi_module x\nLoadModule proxy_balancer_module x\nDocumentRoot {{{{DIR}}}}/html\nProxyPass /app/ balancer://cluster/srv/\n<Proxy balancer://cluster>\nBalancerMember fcgi://{one}\nBalancerMember fcgi://{two}\n</Proxy>\n<LocationMatch ^/in/(.*\\.php)$>\nProxyPassMatch balancer://cluster/other/$1\n<If \"%{{QUERY_STRING}} == 'no'\">\nRequire all denied\n</If>\n</LocationMatch>\n<LocationMatch ^/none>\nProxyPass fcgi://{one}/\n</LocationMatch>\n"
    );
    let server = start(Builder::new(BIN).file("html/none/a.txt", "file"), &conf);
    for _ in 0..4 {
        for (target, status, text) in [
            ("/app/a.php", 200, "/srv/a.php|/app/a.php||"),
            ("/in/a/b.php", 200, "/other/a/b.php|/in/a/b.php||"),
            ("/in/a.php?no", 403, ""),
            ("/in/a.txt", 404, ""),
            ("/none/a.txt", 200, "file"),
        ] {
            let response = server.get(target);
            assert_eq!(response.status, status, "{target}: {}", server.error_log());
            assert!(status != 200 || response.text() == text, "{target}: {}", response.text());
        }
    }
}

/// `$apache_document_root`, which scripts get: as in Apache, no `Alias` changes it, nor for the patterns above an alias, which are inside of its
/// location.
#[test]
fn an_alias_changes_no_document_root() {
    let application = Application::start(Speaks::FastCgi, 1, |exchange| {
        let text =
            format!("{}|{}", exchange.asked.param("DOCUMENT_ROOT"), exchange.asked.param("SCRIPT_NAME"));
        exchange.stdout(format!("Content-Type: text/plain\r\n\r\n{text}"));
    });
    let to = application.address();
    let conf = format!(
        "{HEAD}LoadModule proxy_module x\nLoadModule proxy_fcgi_module x\nLoadModule alias_module x\nDocumentRoot {{{{DIR}}}}/html\nProxyPassMatch ^/(.*\\.php)$ fcgi://{to}/srv/$1\nAlias /app/ {{{{DIR}}}}/elsewhere/\nAliasMatch ^/below/(.*)$ {{{{DIR}}}}/elsewhere/$1\n<Directory {{{{DIR}}}}>\nRequire all granted\n</Directory>\n<FilesMatch \\.phtml$>\nSetHandler \"proxy:fcgi://{to}\"\n</FilesMatch>\n"
    );
    let server =
        start(Builder::new(BIN).file("elsewhere/a.phtml", "<?php").file("elsewhere/a.txt", "file"), &conf);
    let root = server.dir().display().to_string();
    for target in ["/a.php", "/app/a.php", "/below/a.php", "/app/a.phtml", "/below/a.phtml"] {
        assert_eq!(server.get(target).text(), format!("{root}/html|{target}"), "{}", server.error_log());
    }
    assert_eq!(server.get("/app/a.txt").text(), "file");
}

/// In Apache a name of `DirectoryIndex` that a back end is asked for is there, whether the back end has it or not.
#[test]
fn an_index_file_may_be_a_back_ends() {
    let application = telling();
    let to = application.address();
    let conf = format!(
        "{HEAD}LoadModule proxy_module x\nLoadModule proxy_fcgi_module x\nLoadModule dir_module x\nLoadModule alias_module x\nDocumentRoot {{{{DIR}}}}/html\nDirectoryIndex index.php index.html\nProxyPassMatch ^/a/(.*\\.php)$ fcgi://{to}/srv/$1\nAliasMatch ^/b(.*)$ {{{{DIR}}}}/html/c$1\n<Directory {{{{DIR}}}}/html>\nRequire all granted\n</Directory>\n"
    );
    let builder = Builder::new(BIN).file("html/a/index.html", "file").file("html/c/index.html", "another");
    let server = start(builder, &conf);
    for _ in 0..2 {
        for (target, text) in
            [("/a/", "/srv/index.php|/a/index.php||"), ("/b/", "another"), ("/c/", "another")]
        {
            let answer = server.get(target);
            assert_eq!(
                (answer.status, answer.text().as_str()),
                (200, text),
                "{target}: {}",
                server.error_log()
            );
        }
    }
}

/// A script's fields are those that lines with `always` are about, as in Apache: there is one `X-Frame-Options`, and not two.
#[test]
fn header_always_is_about_fields_of_scripts() {
    let application = Application::start(Speaks::FastCgi, 2, |exchange| {
        exchange.stdout("Content-Type: text/plain\r\nETag: \"a\"\r\nX-Frame-Options: SAMEORIGIN\r\nX-Powered-By: app\r\nX-Own: app\r\nCache-Control: private\r\nSet-Cookie: a=1\r\n\r\ntext");
    });
    let lines = "Header always set X-Frame-Options DENY\nHeader always unset X-Powered-By\nHeader unset X-Own\nHeader unset ETag\nHeader always append Cache-Control no-transform\nHeader set X-Added yes\n";
    let conf = format!(
        "{HEAD}LoadModule proxy_module x\nLoadModule proxy_fcgi_module x\nLoadModule headers_module x\nDocumentRoot {{{{DIR}}}}/html\n<Directory {{{{DIR}}}}/html>\nAllowOverride All\nRequire all granted\n</Directory>\n<FilesMatch \\.php$>\nSetHandler \"proxy:fcgi://{}\"\n</FilesMatch>\n",
        application.address()
    );
    let server = start(Builder::new(BIN).file("html/a.php", "<?php").file("html/.htaccess", lines), &conf);
    let answer = server.get("/a.php");
    let got = |name: &str| answer.header(name).map(str::to_string);
    assert_eq!((answer.status, answer.text()), (200, "text".into()), "{}", server.error_log());
    for (name, wanted) in [
        ("X-Frame-Options", Some("DENY")),
        ("X-Powered-By", None),
        ("X-Own", Some("app")),
        ("ETag", None),
        ("Cache-Control", Some("private, no-transform")),
        ("Set-Cookie", Some("a=1")),
        ("X-Added", Some("yes")),
    ] {
        assert_eq!(got(name).as_deref(), wanted, "{name}");
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
