//! `.htaccess` files beside Debian's Apache: the same files, the same requests, the same answers.

mod htaccess_beside {
    pub mod sites;
    pub mod subrequests;
}

use brisk_testkit::apache::open_to_all;
use brisk_testkit::application::Speaks;
use brisk_testkit::{Apache, Application, Builder, Client, Response, Server};
use htaccess_beside::sites::{SITES, Site, TARGETS, TREE, VARIANTS};
use htaccess_beside::subrequests;
use std::fmt::Write as _;
use std::path::Path;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const MODULES: &[&str] = &[
    "mpm_event",
    "authn_core",
    "authn_file",
    "authz_core",
    "authz_host",
    "authz_user",
    "authz_groupfile",
    "access_compat",
    "auth_basic",
    "alias",
    "dir",
    "env",
    "expires",
    "headers",
    "mime",
    // Debian loads modules in the order of their names, and hooks of one rank run in this order.
    "negotiation",
    "rewrite",
    "setenvif",
    "autoindex",
    "filter",
    "deflate",
    "proxy",
    "proxy_fcgi",
];

fn sites() -> impl Iterator<Item = &'static Site> {
    SITES.iter().chain(subrequests::SITES)
}

/// What PHP would see of a request, as far as both servers must agree.
fn application() -> Application {
    Application::start(Speaks::FastCgi, 8, |exchange| {
        let asked = &exchange.asked;
        let names = [
            "REQUEST_METHOD",
            "QUERY_STRING",
            "REQUEST_URI",
            "HTTP_AUTHORIZATION",
            "REDIRECT_URL",
            "REDIRECT_STATUS",
            "REDIRECT_QUERY_STRING",
            "REDIRECT_HTTP_AUTHORIZATION",
            "HTTP_MOD_REWRITE",
            "REDIRECT_HTTP_MOD_REWRITE",
            "REDIRECT_protossl",
            "APPLICATION_ENV",
            "HTTP_X_ADDED",
        ];
        let script = asked.param("SCRIPT_FILENAME").rsplit('/').next().unwrap_or_default().to_string();
        let mut text = String::new();
        if let Some((_, status)) = asked.param("QUERY_STRING").split_once("status=") {
            let _ = write!(text, "Status: {status}\r\n");
            if status == "302" {
                text.push_str("Location: https://o.example/script\r\n");
            }
        }
        let _ = write!(text, "Content-Type: text/html\r\n\r\nscript={script}\n");
        for name in names {
            let value = asked.param(name);
            // PHP-FPM needs the status, so nginx's configuration always sends it.
            if !value.is_empty() && name != "REDIRECT_STATUS" {
                let _ = writeln!(text, "{name}={value}");
            }
        }
        exchange.stdout(text);
    })
}

fn configuration(root: &Path, application: &str) -> String {
    let mut text = format!(
        "TypesConfig {0}/../mime.types\nDirectoryIndex index.php index.html\nProxyFCGIBackendType FPM\n<Directory />\nRequire all denied\n</Directory>\n<FilesMatch \"^\\.ht\">\nRequire all denied\n</FilesMatch>
<FilesMatch \"\\.php$\">\nSetHandler \"proxy:fcgi://{application}\"\n</FilesMatch>\n<Directory {0}>\nOptions FollowSymLinks\nAllowOverride All\nCGIPassAuth On\nRequire all granted\n</Directory>\n",
        root.display()
    );
    for site in sites() {
        let name = site.name;
        let _ = writeln!(
            text,
            "<VirtualHost *:{{{{PORT}}}}>\nServerName {name}\nDocumentRoot {}/{name}\n</VirtualHost>",
            root.display()
        );
    }
    text
}

fn brisk(application: &str) -> Builder {
    let types = TYPES.replace('\n', "; ") + ";";
    let mut http = format!("types {{ {types} }} default_type ''; index index.php index.html;");
    for site in sites() {
        let name = site.name;
        let _ = writeln!(
            http,
            "server {{ listen 127.0.0.1:{{{{PORT}}}}; server_name {name}; root {{{{DIR}}}}/sites/{name}; directory_overrides on;
               location / {{ }}
               location ~ \\.php(/|$) {{ fastcgi_split_path_info ^(.+?\\.php)(/.*)$; fastcgi_pass {application}; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
                 fastcgi_param QUERY_STRING $query_string; fastcgi_param REQUEST_METHOD $request_method; fastcgi_param REQUEST_URI $request_uri; }} }}"
        );
    }
    let mut builder = Builder::new(BIN).http(&http);
    for site in sites() {
        for (file, text) in TREE {
            builder = builder.file(&format!("sites/{}/{file}", site.name), text);
        }
        for (file, text) in site.files {
            let text = builder.fill(text);
            builder = builder.file(&format!("sites/{}/{file}", site.name), text);
        }
    }
    let user = |name: &str| format!("{name}:{{SHA}}0nofEXcSAJSXFLGvmfBIpBb11vQ=\n");
    builder.file("mime.types", TYPES).file("users", user("ann")).file("admins", user("eve"))
}

/// A line of Apache's `TypesConfig`, and of nginx's `types`.
const TYPES: &str = "text/html html htm
text/css css
text/javascript js
text/plain txt log
image/png png
image/svg+xml svg
application/json json
application/sql sql
font/woff2 woff2
application/gzip gz";

/// A request of a site's host.
fn ask(client: &mut Client, site: &Site, target: &str, fields: &str) -> Response {
    client.request(format!("GET {target} HTTP/1.1\r\nHost: {}\r\n{fields}\r\n", site.name))
}

/// What both must agree on.
fn shown(response: &Response) -> String {
    // Both list with a page of their own.
    let is_listing = response.status == 200 && response.text().contains("Index of");
    let mut out = response.status.to_string();
    for (name, value) in &response.headers {
        let lower = name.to_ascii_lowercase();
        let is_compared = lower.starts_with("x-")
            || lower.starts_with("access-control-")
            || [
                "location",
                "cache-control",
                "content-encoding",
                "content-language",
                "set-cookie",
                "strict-transport-security",
                "referrer-policy",
                "content-security-policy",
                "www-authenticate",
                "permissions-policy",
            ]
            .contains(&lower.as_str())
            || (lower == "content-type" && response.status == 200 && !is_listing);
        if is_compared {
            let value = if lower == "location" { without_port(value) } else { value.clone() };
            let _ = write!(out, "\n  {lower}: {value}");
        }
        if lower == "expires" {
            out.push_str("\n  expires");
        }
    }
    let mut lines: Vec<&str> = out.lines().collect();
    lines[1..].sort_unstable();
    let mut out = lines.join("\n");
    // Encoders differ.
    let is_coded = response.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-encoding"));
    let is_own_page = response.text().starts_with("the page");
    if (response.status == 200 || is_own_page) && !is_listing && !is_coded {
        let _ = write!(out, "\n  {}", response.text().trim_end().replace('\n', "\n  "));
    }
    out
}

/// The servers have a port each.
fn without_port(location: &str) -> String {
    let Some((scheme, rest)) = location.split_once("://") else { return location.to_string() };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    format!("{scheme}://{}{path}", host.split(':').next().unwrap_or_default())
}

/// Differences that are meant: nothing is readable by one.
fn is_explained(site: &Site, target: &str) -> bool {
    site.explained.iter().any(|(wanted, _)| *wanted == target)
}

fn compare(site: &Site, apache: &Apache, brisk: &Server, out: &mut String) -> usize {
    let mut count = 0;
    let (mut of_apache, mut of_brisk) = (apache.client(), brisk.client());
    for target in TARGETS.iter().chain(site.targets) {
        for fields in VARIANTS.iter().chain(site.variants) {
            let theirs = ask(&mut of_apache, site, target, fields);
            let ours = ask(&mut of_brisk, site, target, fields);
            count += 1;
            if theirs.headers.iter().any(|(n, v)| n.eq_ignore_ascii_case("connection") && v == "close") {
                of_apache = apache.client();
            }
            if ours.headers.iter().any(|(n, v)| n.eq_ignore_ascii_case("connection") && v == "close") {
                of_brisk = brisk.client();
            }
            assert!(
                !(theirs.status >= 400 && ours.status == 200),
                "{}{target} is readable, but not with Apache: {} {}",
                site.name,
                theirs.status,
                ours.text()
            );
            let (theirs_shown, ours_shown) = (shown(&theirs), shown(&ours));
            if theirs_shown != ours_shown && !is_explained(site, target) {
                let fields = fields.trim_end();
                let _ =
                    writeln!(out, "== {} {target} [{fields}]\n- {theirs_shown}\n+ {ours_shown}", site.name);
            }
        }
    }
    count
}

#[test]
fn answers_are_apaches() {
    let application = application();
    let server = brisk(&application.address()).start();
    let root = server.dir().join("sites");
    open_to_all(&root);
    let apache = Apache::start(MODULES, &configuration(&root, &application.address()));
    let (mut differences, mut count) = (String::new(), 0);
    for site in sites() {
        count += compare(site, &apache, &server, &mut differences);
    }
    assert!(
        differences.is_empty(),
        "of {count} requests:\n{differences}\n--- error logs\n{}\n{}",
        server.error_log(),
        apache.log()
    );
}
