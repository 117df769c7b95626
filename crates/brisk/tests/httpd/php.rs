//! `php_flag engine off`: what Apache's own files and `.htaccess` keep from PHP is not run, whichever handler leads to it.

use crate::{HEAD, start, telling};
use brisk_testkit::{Builder, Server};

const OFF: &str = "php_flag engine off\n";

#[track_caller]
fn check(server: &Server, wanted: &[(&str, u16)]) {
    for _ in 0..2 {
        for &(target, status) in wanted {
            let answer = server.get(target);
            assert_eq!(answer.status, status, "{target}: {}", server.error_log());
            assert!(!answer.text().contains("<?php"), "{target}");
        }
    }
}

/// Applications behind FastCGI, where Debian's Apache has `proxy_fcgi`.
#[test]
fn a_handler_runs_nothing_where_the_engine_is_off() {
    let application = telling();
    let to = application.address();
    let conf = format!(
        "{HEAD}LoadModule proxy_module x\nLoadModule proxy_fcgi_module x\nLoadModule ssl_module x\nDocumentRoot {{{{DIR}}}}/html\n<Directory {{{{DIR}}}}/html>\nAllowOverride All\nRequire all granted\n</Directory>\n<Directory {{{{DIR}}}}/html/section>\nphp_flag engine off\n</Directory>\n<FilesMatch \\.php$>\nSetHandler \"proxy:fcgi://{to}\"\n</FilesMatch>\n"
    );
    let server = start(
        Builder::new(crate::BIN)
            .file("html/a.php", "<?php")
            .file("html/uploads/.htaccess", OFF)
            .file("html/uploads/evil.php", "<?php")
            .file("html/uploads/a.txt", "text")
            .file("html/value/.htaccess", "php_value engine OFF\n")
            .file("html/value/evil.php", "<?php")
            .file("html/on/.htaccess", "php_value engine Yes\n")
            .file("html/on/a.php", "<?php")
            .file("html/named/.htaccess", format!("{OFF}SetHandler \"proxy:fcgi://{to}\"\n"))
            .file("html/named/evil.txt", "<?php")
            .file("html/section/evil.php", "<?php")
            // Lines for a module that is loaded count, those for another one do not.
            .file("html/tls/.htaccess", "<IfModule mod_ssl.c>\nSSLRequireSSL\n</IfModule>\n")
            .file("html/tls/a.txt", "text")
            .file("html/none/.htaccess", "<IfModule mod_php.c>\nphp_flag engine off\n</IfModule>\n")
            .file("html/none/a.php", "<?php"),
        &conf,
    );
    check(
        &server,
        &[
            ("/a.php", 200),
            ("/uploads/evil.php", 403),
            ("/uploads/evil.php/more", 403),
            ("/uploads/a.txt", 200),
            ("/value/evil.php", 403),
            ("/on/a.php", 200),
            ("/named/evil.txt", 403),
            ("/section/evil.php", 403),
            ("/tls/a.txt", 403),
            ("/none/a.php", 200),
        ],
    );
}

/// `LoadModule php_module`: the pool in the place of mod_php.
#[test]
fn lines_for_php_count_where_apache_has_php() {
    let conf = format!(
        "{HEAD}LoadModule php_module x\nDocumentRoot {{{{DIR}}}}/html\n<Directory {{{{DIR}}}}/html>\nAllowOverride All\nRequire all granted\n</Directory>\n<FilesMatch \\.php$>\nSetHandler application/x-httpd-php\n</FilesMatch>\n"
    );
    let module = |name: &str| format!("<IfModule {name}>\n{OFF}</IfModule>\n");
    let mut builder = Builder::new(crate::BIN);
    for (folder, name) in [("file", "mod_php.c"), ("name", "php_module"), ("other", "!mod_php7.c")] {
        builder = builder
            .file(&format!("html/{folder}/.htaccess"), module(name))
            .file(&format!("html/{folder}/evil.php"), "<?php");
    }
    let server = start(builder.file("html/off/.htaccess", OFF).file("html/off/evil.php", "<?php"), &conf);
    check(
        &server,
        &[("/file/evil.php", 403), ("/name/evil.php", 403), ("/other/evil.php", 403), ("/off/evil.php", 403)],
    );
}
