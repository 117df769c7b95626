//! `.htaccess`: what rules make of what clients send leads nowhere that a request could not ask for, and a newline goes round nothing.

use brisk_testkit::server::text;
use brisk_testkit::{Builder, Server};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const HTTP: &str = r"
    types { text/html html; text/plain txt; }
    server {
        listen 127.0.0.1:{{PORT}};
        root {{DIR}}/html;
        directory_overrides on;
        location / { }
        location /private/ { deny all; }
    }
";

fn status(server: &Server, target: &str, fields: &str) -> u16 {
    let mut client = server.client();
    client.request(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")).status
}

#[test]
fn rules_lead_nowhere_above_the_root() {
    let rules = "RewriteEngine on
RewriteCond %{QUERY_STRING} ^p=(.*)
RewriteRule ^by-query$ /rules/%1? [L]
RewriteCond %{QUERY_STRING} ^p=(.*)
RewriteRule ^as-it-is$ %1? [L]
RewriteCond %{HTTP_COOKIE} lang=([^;]+)
RewriteRule ^by-cookie$ /rules/%1/outside.txt [L]
RewriteRule ^by-header$ - [E=L:%{HTTP:X-L}]
RewriteRule ^by-header$ /rules/%{ENV:L}/outside.txt [L]
RewriteRule ^fixed$ ../../outside.txt [L]
RewriteRule ^within$ /rules/deep/../in.txt [L]
";
    let server = Builder::new(BIN)
        .http(HTTP)
        .file("outside.txt", "outside")
        .file("html/private/x.txt", "private")
        .file("html/rules/in.txt", "within")
        .file("html/rules/.htaccess", rules)
        .file("html/index/.htaccess", "DirectoryIndex ../../outside.txt\nOptions +Indexes")
        .file("html/root/.htaccess", "DirectoryIndex /../outside.txt")
        .file("html/fallback/.htaccess", "FallbackResource /../outside.txt")
        .file("html/page/.htaccess", "ErrorDocument 404 /../outside.txt")
        .file("html/page/good/.htaccess", "ErrorDocument 404 /rules/./in.txt")
        .start();
    let up = "../".repeat(12);
    for (target, fields) in [
        (format!("/rules/by-query?p={up}etc/passwd"), String::new()),
        ("/rules/by-query?p=../../outside.txt".into(), String::new()),
        ("/rules/as-it-is?p=../../outside.txt".into(), String::new()),
        ("/rules/as-it-is?p=/../outside.txt".into(), String::new()),
        ("/rules/by-cookie".into(), "Cookie: lang=../..\r\n".into()),
        ("/rules/by-header".into(), "X-L: ../..\r\n".into()),
        ("/rules/fixed".into(), String::new()),
        ("/index/".into(), String::new()),
        ("/root/".into(), String::new()),
        ("/fallback/none".into(), String::new()),
    ] {
        let mut client = server.client();
        let answer = client.request(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
        assert!(answer.status >= 400 && !answer.text().contains("outside"), "{target}: {}", answer.text());
        assert!(!answer.text().contains("root:"), "{target}");
    }
    // Whatever leads to another location is judged there.
    assert_eq!(status(&server, "/rules/by-query?p=../private/x.txt", ""), 403);
    assert_eq!(server.get("/rules/within").text(), "within");
    let missing = server.get("/page/none");
    assert!(missing.status == 404 && !missing.text().contains("outside"), "{}", missing.text());
    assert_eq!(server.get("/page/good/none").text(), "within");
}

/// An `internal` location is the configuration's own, which need not trust the writers of files.
#[test]
fn rules_lead_to_no_internal_location() {
    const HTTP: &str = r"
        types { text/html html; text/plain txt; }
        server {
            listen 127.0.0.1:{{PORT}};
            root {{DIR}}/html;
            index start.html;
            directory_overrides on;
            location / { }
            location /inner/ { internal; }
            location = /by-configuration { error_page 418 /inner/x.txt; return 418; }
            location = /by-rewrite { rewrite ^ /inner/x.txt; }
            location = /by-try { try_files /none /inner/x.txt; }
        }
    ";
    let rules = "RewriteEngine on
RewriteRule ^to-inner$ /inner/x.txt [L]
RewriteCond %{QUERY_STRING} ^p=(.*)
RewriteRule ^by-query$ %1? [L]
RewriteRule ^by-end$ /inner/x.txt [END]
";
    let server = Builder::new(BIN)
        .http(HTTP)
        .file("html/inner/x.txt", "inner")
        .file("html/rules/.htaccess", rules)
        .file("html/page/.htaccess", "ErrorDocument 404 /inner/x.txt")
        .file("html/fallback/.htaccess", "FallbackResource /inner/x.txt")
        .file("html/index/.htaccess", "DirectoryIndex /inner/x.txt")
        .file("html/led/.htaccess", "RewriteEngine on\nRewriteRule ^start\\.html$ /inner/x.txt")
        .file("html/led/start.html", "start")
        .start();
    for target in [
        "/inner/x.txt",
        "/rules/to-inner",
        "/rules/by-query?p=/inner/x.txt",
        "/rules/by-query?p=/inner/./x.txt",
        "/rules/by-end",
        "/page/none",
        "/fallback/none",
        "/index/",
        "/led/",
        "/led/start.html",
    ] {
        let answer = server.client().get(target);
        assert_eq!(answer.status, 404, "{target}");
        assert!(!answer.text().contains("inner"), "{target}: {}", answer.text());
    }
    for target in ["/by-configuration", "/by-rewrite", "/by-try"] {
        assert_eq!(server.client().get(target).text(), "inner", "{target}");
    }
}

#[test]
fn a_newline_goes_round_no_rule() {
    let server = Builder::new(BIN)
        .http(HTTP)
        .file("html/a/x\ny.txt", "text")
        .file(
            "html/a/.htaccess",
            "RewriteEngine on\nRewriteRule ^admin\\.php.*$ - [F]\nRewriteCond %{REQUEST_URI} ^/a/b.*$\nRewriteRule ^.*$ - [F]",
        )
        .file("html/f/x\ny.txt", "text")
        .file("html/f/.htaccess", "<FilesMatch \"^x.*\\.txt$\">\nRequire all denied\n</FilesMatch>")
        .file("html/i/x\ny.txt", "text")
        .file("html/i/.htaccess", "<If \"%{REQUEST_URI} =~ m#^/i/.*\\.txt$#\">\nRequire all denied\n</If>")
        .file("html/r/x\ny.txt", "text")
        .file("html/r/.htaccess", "RedirectMatch 403 ^/r/x.*\\.txt$")
        .file("html/end/a.txt", "text")
        .file("html/end/.htaccess", "RewriteEngine on\nRewriteRule !^a\\.txt$ - [F]")
        .start();
    for target in
        ["/a/admin.php/%0ax", "/a/b%0a", "/f/x%0ay.txt", "/i/x%0ay.txt", "/r/x%0ay.txt", "/end/a.txt%0a"]
    {
        assert_eq!(status(&server, target, ""), 403, "{target}");
    }
    assert_eq!(server.get("/end/a.txt").text(), "text");
}

#[test]
fn methods_that_write_elsewhere_are_refused_at_the_start() {
    let conf = "events { } http { access_log off; server { listen 127.0.0.1:1; directory_overrides on; dav_methods PUT COPY; } }";
    let dir = brisk_testkit::TempDir::new();
    let file = dir.write("brisk.conf", conf);
    let out = std::process::Command::new(BIN).args(["-t", "-e", "stderr", "-c"]).arg(&file).output().unwrap();
    let said = text(&out.stderr);
    assert!(!out.status.success() && said.contains("would go round the rules of .htaccess files"), "{said}");
    dir.write("brisk.conf", conf.replace(" COPY", " MKCOL").as_str());
    let out = std::process::Command::new(BIN).args(["-t", "-e", "stderr", "-c"]).arg(&file).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
}
