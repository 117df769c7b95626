//! What leads to itself: rules, index files, pages of errors, parts of pages.

use super::super::{httpd, site};

/// Folders whose files lead in a circle, what is asked, and how that may end.
const CIRCLES: &[(&str, &str, &str, &[u16])] = &[
    ("two", "RewriteEngine on\nRewriteRule ^a$ b\nRewriteRule ^b$ a\n", "a", &[404, 500]),
    ("pair", "RewriteEngine on\nRewriteRule ^a$ b [L]\nRewriteRule ^b$ a [L]\n", "a", &[500]),
    ("longer", "RewriteEngine on\nRewriteRule ^(.*)$ x/$1\n", "a", &[500]),
    ("query", "RewriteEngine on\nRewriteRule ^(.*)$ $1?x=1 [QSA]\n", "a?b", &[404, 500]),
    ("again", "RewriteEngine on\nRewriteRule ^(.*)a(.*)$ $1aa$2 [N]\n", "a", &[500]),
    ("skip", "RewriteEngine on\nRewriteRule ^ - [N]\nRewriteRule ^ - [S=1]\n", "a", &[500]),
    ("base", "RewriteEngine on\nRewriteBase /base/in\nRewriteRule ^(.*)$ in/$1\n", "a", &[404, 500]),
    ("index", "DirectoryIndex ../index/\n", "", &[403, 404, 500]),
    (
        "indices",
        "RewriteEngine on\nRewriteRule ^index\\.html$ /indices/ [L]\nDirectoryIndex index.html\n",
        "",
        &[403, 404, 500],
    ),
    ("fallback", "FallbackResource /fallback/none\n", "x", &[404, 500]),
    ("page", "ErrorDocument 404 /page/none\n", "x", &[404]),
    ("refused", "ErrorDocument 403 /refused/page.html\nRequire all denied\n", "x", &[403]),
    (
        "rules",
        "ErrorDocument 404 /rules/y\nRewriteEngine on\nRewriteRule ^y$ /rules/z [L]\n",
        "x",
        &[404, 500],
    ),
    ("mistake", "ErrorDocument 500 /mistake/page.html\nNonsense on\n", "x", &[500]),
    ("later", "ErrorDocument 500 /later/page.html\nRewriteEngine on\nRewriteRule ^(.*)$ z$1\n", "x", &[500]),
    (
        "slash",
        "RewriteEngine on\nRewriteRule ^(.*[^/])$ $1/ [PT]\nRewriteRule ^(.*)/$ $1 [PT]\n",
        "a",
        &[404, 500],
    ),
];

#[test]
fn what_leads_in_a_circle_ends() {
    let mut builder = site();
    for (folder, text, _, _) in CIRCLES {
        // As in Apache, a folder that refuses everybody still has its own page for that.
        let page = if *folder == "refused" { "refused" } else { "secret" };
        builder = builder
            .file(&format!("html/{folder}/.htaccess"), text)
            .file(&format!("html/{folder}/page.html"), page)
            .file(&format!("html/{folder}/in/x"), "secret");
    }
    // From folder to folder, and back.
    let server = builder
        .file("html/there/.htaccess", "RewriteEngine on\nRewriteRule ^(.*)$ /back/$1 [L]\n")
        .file("html/back/.htaccess", "RewriteEngine on\nRewriteRule ^(.*)$ /there/$1 [L]\n")
        .start();
    let others = [("there", "", "a", &[500][..])];
    for (folder, _, target, statuses) in CIRCLES.iter().copied().chain(others) {
        for _ in 0..2 {
            let target = format!("/{folder}/{target}");
            let answer = server.client().get(&target);
            assert!(statuses.contains(&answer.status), "{target}: {} {}", answer.status, server.error_log());
            assert!(!answer.text().contains("secret"), "{target}");
        }
    }
    assert_eq!(server.client().get("/a.txt").text(), "a");
}

/// A part of a page is judged and bounded as a request is.
#[test]
fn pages_that_include_themselves_end() {
    let page = |parts: &[&str]| {
        let part = |part: &&str| format!("[<!--#include {part} -->]");
        parts.iter().map(part).collect::<String>()
    };
    let server = site()
        .file("html/.htaccess", "Options +Includes\nAddOutputFilter INCLUDES .shtml\n")
        .file("html/closed/.htaccess", "Require all denied\n")
        .file("html/self.shtml", page(&["virtual=\"/self.shtml\""]))
        .file("html/file.shtml", page(&["file=\"file.shtml\""]))
        .file("html/one.shtml", page(&["virtual=\"/two.shtml\""]))
        .file("html/two.shtml", page(&["virtual=\"/one.shtml\"", "virtual=\"/one.shtml\""]))
        .file("html/wide.shtml", page(&["virtual=\"/wide.shtml?1\""; 12]))
        .file(
            "html/reach.shtml",
            page(&[
                "virtual=\"/closed/a.txt\"",
                "virtual=\"closed/./a.txt\"",
                "virtual=\"/x/../closed/a.txt\"",
                "file=\"closed/a.txt\"",
                "file=\"../outside.txt\"",
                "file=\"/etc/passwd\"",
                "virtual=\"/../outside.txt\"",
                "virtual=\"/.htaccess\"",
                "file=\".htaccess\"",
                "virtual=\"/%63losed/a.txt\"",
            ]) + "<!--#exec cmd=\"cat html/closed/a.txt\" --><!--#exec cgi=\"/closed/a.txt\" -->end",
        )
        .file("html/missing/.htaccess", "ErrorDocument 404 /missing/page.shtml\n")
        .file("html/missing/page.shtml", page(&["virtual=\"/missing/none\""]))
        .file("outside.txt", "secret")
        .start();
    for target in ["/self.shtml", "/file.shtml", "/one.shtml", "/two.shtml", "/wide.shtml", "/missing/none"] {
        for _ in 0..2 {
            let answer = server.client().get(target);
            assert!(matches!(answer.status, 200 | 404 | 500), "{target}: {}", answer.status);
            assert!(answer.text().len() < 8 << 20, "{target}: {} bytes", answer.text().len());
        }
    }
    let reach = server.client().get("/reach.shtml");
    let text = reach.text();
    assert!(reach.status == 200 && text.ends_with("end"), "{} {text}", reach.status);
    for wrong in ["secret", "root:", "Options"] {
        assert!(!text.contains(wrong), "{text}");
    }
    assert_eq!(server.client().get("/a.txt").text(), "a");
}

/// The same in Apache's own files, for all hosts.
#[test]
fn a_server_that_leads_to_itself_ends() {
    let conf = "DocumentRoot {{DIR}}/html\n<Directory {{DIR}}/html>\nRequire all granted\n</Directory>\nErrorDocument 404 /none\nErrorDocument 403 /closed/x\nErrorDocument 500 /again/x\n<Location /closed>\nRequire all denied\n</Location>\nRewriteEngine on\nRewriteRule ^/round/(.*)$ /round/a$1 [N]\n<Directory {{DIR}}/html/again>\nRewriteEngine on\nRewriteRule ^(.*)$ b$1\n</Directory>\n<Location /both>\nErrorDocument 404 /both/none\nFallbackResource /both/x\n</Location>\n";
    let modules = ["rewrite", "dir", "authz_core", "alias"];
    let server = httpd(site().file("html/again/a.txt", "secret"), &modules, conf);
    for (target, statuses) in [
        ("/none", &[404][..]),
        ("/closed/a.txt", &[403]),
        ("/round/a", &[404, 500]),
        ("/again/a.txt", &[500]),
        ("/both/y", &[404, 500]),
    ] {
        for _ in 0..2 {
            let answer = server.client().get(target);
            assert!(statuses.contains(&answer.status), "{target}: {} {}", answer.status, server.error_log());
            assert!(!answer.text().contains("secret"), "{target}");
        }
    }
    assert_eq!(server.client().get("/a.txt").text(), "a");
}
