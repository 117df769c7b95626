//! `brisk why`: which line decided, without a server.

use brisk_testkit::server::Prepared;
use brisk_testkit::server::{check, text};
use brisk_testkit::{Backend, Builder};
use serde_json::Value;
use std::fs;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// Lines are counted from the one with `server {`.
const SITE: &str = r#"server { listen 127.0.0.1:{{PORT}}; server_name other.test; return 444; }
    server {
        listen 127.0.0.1:{{PORT}};
        server_name www.test;
        root {{DIR}}/html;
        error_page 404 /404.html;
        add_header X-Kind "site" always;
        rewrite ^/old/(.*)$ /new/$1 permanent;
        location / { }
        location /private/ {
            allow 192.0.2.0/24;
            deny  all;
        }
        location ~ \.secret$ { return 403; }
        location ^~ /plain/ { }
        location /app/ { proxy_set_header Authorization "Basic aGVsbG8="; proxy_pass http://127.0.0.1:{{PORT2}}; }
        location /copy/ { set $copy $http_authorization; add_header X-Copy $copy; return 200 $copy; }
        location /in/ { internal; }
        location /log/ { auth_basic "closed"; auth_basic_user_file {{DIR}}/users; }
        location /twice/ { rewrite ^/twice/(.*)$ /hop/$1 last; }
        location /hop/ { rewrite ^/hop/(.*)$ /twice/$1 last; }
        location /apache/ { directory_overrides on; }
    }"#;

fn site() -> Prepared {
    Builder::new(BIN)
        .http(SITE)
        .file("users", "a:{PLAIN}b\n")
        .file("html/index.html", "front")
        .file("html/404.html", "nothing")
        .file("html/a.txt", "text")
        .file("html/private/a.txt", "private")
        .file("html/empty/x.txt", "x")
        .file("html/apache/a.txt", "a")
        .file("html/apache/.htaccess", "RewriteEngine On\nRewriteCond %{QUERY_STRING} x\nRewriteRule ^b\\.txt$ a.txt [L]\nRewriteRule ^gone - [G]\nRedirect 302 /apache/there /apache/here\n<Files \"c.txt\">\nRequire ip 192.0.2.0/24\n</Files>\n")
        .file("html/apache/broken/.htaccess", "Options -Indexes\nNoSuchThing on\n")
        .file("html/apache/broken/a.txt", "a")
        .prepare()
}

fn ask(site: &Prepared, url: &str, args: &[&str]) -> Value {
    let url = url.replace("www.test", &format!("www.test:{}", site.port()));
    let out = site.command(&[]);
    let options: Vec<_> = out.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let out = std::process::Command::new(BIN)
        .args(["why", &url, "--json"])
        .args(&options)
        .args(args)
        .output()
        .unwrap();
    assert!(out.status.success(), "{url}: {}", text(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&out.stdout)))
}

/// The status, and the line that decided as it is written.
#[track_caller]
fn decided(site: &Prepared, url: &str, args: &[&str], status: u64, line: &str) -> Value {
    let told = ask(site, url, args);
    let place = &told["because"]["places"][0];
    assert_eq!(told["status"].as_u64(), Some(status), "{url}: {told:#}");
    assert!(place["text"].as_str().unwrap_or_default().starts_with(line), "{url}: {:#}", told["because"]);
    let file = fs::read_to_string(place["file"].as_str().unwrap()).unwrap();
    let at = place["line"].as_u64().unwrap() as usize - 1;
    assert_eq!(file.lines().nth(at).unwrap().trim(), place["text"].as_str().unwrap(), "{url}");
    told
}

#[test]
fn the_line_that_decided_is_named() {
    let site = site();
    let told = decided(&site, "http://www.test/private/a.txt", &[], 403, "deny  all;");
    assert_eq!(told["because"]["module"], "access");
    assert_eq!(told["because"]["location"], "location /private/");
    assert_eq!(told["messages"][0], "access forbidden by rule");
    let told = ask(&site, "http://www.test/private/a.txt", &["--from", "192.0.2.7"]);
    assert_eq!(told["status"], 200, "{told:#}");
    decided(&site, "http://www.test/x.secret", &[], 403, "location ~ \\.secret$ { return 403; }");
    decided(&site, "http://www.test/old/x", &[], 301, "rewrite ^/old/");
    decided(&site, "http://www.test/log/", &[], 401, "location /log/");
    // The core's own reasons are in its messages.
    let told = ask(&site, "http://www.test/none.txt", &[]);
    assert_eq!(told["status"], 404);
    assert!(told["messages"][0].as_str().unwrap().contains("none.txt\" failed (2: No such file"), "{told:#}");
    assert!(told["steps"].as_array().unwrap().iter().any(|step| step["what"] == "error page"), "{told:#}");
    let told = ask(&site, "http://www.test/empty/", &[]);
    assert!(told["messages"].to_string().contains("directory index of"), "{told:#}");
    let told = ask(&site, "http://www.test/in/x", &[]);
    assert!(told["status"] == 404 && told.to_string().contains("the location is internal"), "{told:#}");
    let told = ask(&site, "http://www.test/twice/x", &[]);
    assert!(told["status"] == 500 && told["messages"].to_string().contains("redirection cycle"), "{told:#}");
}

#[test]
fn servers_and_locations_say_why_they_were_chosen() {
    let site = site();
    let told = ask(&site, "http://www.test/plain/x.secret", &[]);
    let steps = told["steps"].as_array().unwrap();
    let of = |what: &str| {
        let found = steps.iter().filter(|step| step["what"] == what);
        found.map(|step| step["text"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert!(of("server")[0].starts_with("its server_name has \"www.test\""), "{:?}", of("server"));
    // The second one is that of the error page.
    let plain = "^~ /plain/ is the longest that matches, and ^~ keeps regular expressions out";
    assert_eq!(of("location"), [plain, "/ is the longest that matches"]);
    let others = of("other location");
    for wanted in [
        "/ matches, but a longer one does, too",
        "/private/ does not match",
        "~ \\.secret$ matches, but ^~ of the longest prefix keeps regular expressions out",
    ] {
        assert!(others.iter().any(|other| other == wanted), "{wanted} is not in {others:?}");
    }
    let told = ask(&site, "http://www.test/a.txt", &["-H", "Host: unknown.test"]);
    assert!(
        told["status"].is_null() && told["end"] == "the connection was closed without an answer",
        "{told:#}"
    );
    assert!(told.to_string().contains("no server_name has \\\"unknown.test\\\""), "{told:#}");
    // Fields of the answer know their lines.
    let told = ask(&site, "http://www.test/a.txt", &[]);
    let kind = told["fields"].as_array().unwrap().iter().find(|field| field["name"] == "X-Kind").unwrap();
    assert!(
        kind["places"][0]["text"] == "add_header X-Kind \"site\" always;" && kind["by"] == "headers",
        "{kind:#}"
    );
}

#[test]
fn files_of_folders_name_their_lines() {
    let site = site();
    let of = |url: &str, status: u64, line: &str| {
        let told = decided(&site, url, &[], status, line);
        assert!(
            told["because"]["places"][0]["file"].as_str().unwrap().ends_with("/apache/.htaccess"),
            "{told:#}"
        );
        told
    };
    of("http://www.test/apache/gone.html", 410, "RewriteRule ^gone");
    of("http://www.test/apache/there", 302, "Redirect 302");
    of("http://www.test/apache/c.txt", 403, "Require ip");
    let told = ask(&site, "http://www.test/apache/b.txt", &[]);
    let steps = told["steps"].as_array().unwrap();
    let rule = steps.iter().find(|step| step["text"].as_str().unwrap().contains("a condition before it"));
    assert_eq!(rule.unwrap_or_else(|| panic!("{told:#}"))["places"][0]["line"], 3);
    let told = ask(&site, "http://www.test/apache/broken/a.txt", &[]);
    assert_eq!(told["status"], 500);
    assert!(told["messages"].to_string().contains("/broken/.htaccess:2"), "{told:#}");
}

/// What a folder's file says in each of these ways.
const MORE: &str = "# Lines are counted from this one.
ErrorDocument 404 \"nothing here\"
Header always set X-Line one
Header set X-Line two
Header append X-Line three
Order allow,deny
Allow from all
Deny from 192.0.2.0/24
<Files d.txt>
Order allow,deny
</Files>
RewriteEngine On
RewriteCond %{QUERY_STRING} ^x
RewriteCond %{REQUEST_METHOD} !=POST
RewriteRule ^e\\.txt$ - [F]
";

#[test]
fn lines_of_all_kinds_are_named() {
    let site = Builder::new(BIN)
        .http("server { listen 127.0.0.1:{{PORT}}; server_name www.test; root {{DIR}}/html; location / { directory_overrides on; } }")
        .file("html/.htaccess", MORE)
        .file("html/a.txt", "a")
        .file("html/d.txt", "d")
        .file("html/e.txt", "e")
        .prepare();
    let of_line = |told: &Value, line: u64| -> Value {
        let steps = told["steps"].as_array().unwrap();
        let found = steps.iter().find(|step| step["places"][0]["line"] == line);
        found.unwrap_or_else(|| panic!("nothing of line {line}: {told:#}"))["text"].clone()
    };
    // Order, Allow and Deny.
    let told =
        decided(&site, "http://www.test/a.txt", &["--from", "192.0.2.7"], 403, "Deny from 192.0.2.0/24");
    assert_eq!(of_line(&told, 7), "allows the client, which does not count");
    let told = decided(&site, "http://www.test/d.txt", &[], 403, "Order allow,deny");
    assert_eq!(told["because"]["places"][0]["line"], 10);
    // Conditions.
    let told = decided(&site, "http://www.test/e.txt?x", &[], 403, "RewriteRule ^e");
    assert_eq!(of_line(&told, 13), "holds for \"x\"");
    let told = ask(&site, "http://www.test/e.txt?y", &[]);
    assert_eq!(told["status"], 200, "{told:#}");
    assert_eq!(of_line(&told, 13), "does not hold for \"y\"");
    // Fields.
    let field = |told: &Value| {
        let all = told["fields"].as_array().unwrap();
        let lines = all.iter().filter(|field| field["name"] == "X-Line");
        lines.map(|field| field["places"][0]["line"].clone()).collect::<Vec<_>>()
    };
    assert!(field(&told).contains(&Value::from(5)), "{told:#}");
    // Pages of errors.
    let told = ask(&site, "http://www.test/none", &[]);
    assert_eq!((told["status"].as_u64(), of_line(&told, 2)), (Some(404), "has the page for 404".into()));
    assert_eq!(field(&told), [3], "{told:#}");
}

#[test]
fn pools_of_php_are_named() {
    let site = Builder::new(BIN)
        .http(
            "php_pool one { pm static; max_children 2; }
            php_pool two { pm static; max_children 1; }
            server { listen 127.0.0.1:{{PORT}}; server_name www.test; root {{DIR}}/html;
              location ~ \\.php$ {
                php_pass one;
              }
            }",
        )
        .file("html/a.php", "<?php")
        .prepare();
    let told = ask(&site, "http://www.test/a.php", &[]);
    assert!(told["status"].is_null() && !told["end"].is_null(), "{told:#}");
    let places = told["because"]["places"].to_string();
    assert!(places.contains("php_pass one;") && places.contains("php_pool one {"), "{told:#}");
    assert!(!places.contains("php_pool two"), "{told:#}");
}

#[test]
fn nothing_is_done_but_answering() {
    let mut builder = Builder::new(BIN);
    let application = Backend::answering("hello");
    let http = SITE.replace("127.0.0.1:{{PORT2}}", &format!("127.0.0.1:{}", application.port()));
    builder = builder.http(&http).file("html/a.txt", "text");
    let site = builder.prepare();
    let told = ask(&site, "http://www.test/app/x", &["-X", "POST", "-H", "Authorization: Basic c2VjcmV0"]);
    assert!(told["status"].is_null(), "{told:#}");
    assert!(told["end"].as_str().unwrap().starts_with("proxy would make the answer"), "{told:#}");
    assert_eq!(application.connections(), 0);
    let all = told.to_string();
    assert!(!all.contains("c2VjcmV0") && !all.contains("aGVsbG8="), "{told:#}");
    let told = ask(&site, "http://www.test/copy/", &["-H", "Authorization: Basic c2VjcmV0"]).to_string();
    assert!(told.contains("X-Copy") && !told.contains("c2VjcmV0"), "{told}");
    // Nothing was written, and nothing listens.
    for name in ["access.log", "error.log", "brisk.pid"] {
        assert!(!site.dir().join(name).exists(), "{name}");
    }
    let told = ask(&site, "http://www.test/app/x", &["--run"]);
    assert_eq!(told["status"], 200, "{told:#}");
    assert_eq!(application.connections(), 1);
}

#[test]
fn tls_and_proxies_in_front_are_spoken_to() {
    let site = Builder::new(BIN)
        .http("server { listen 127.0.0.1:{{PORT}} ssl; listen 127.0.0.1:{{PORT}} quic; server_name www.test; ssl_certificate {{DIR}}/a.crt; ssl_certificate_key {{DIR}}/a.key;
                location / { return 200 $scheme; } location /told/ { add_header Alt-Svc 'h3=\":443\"'; return 200 x; } }
            server { listen 127.0.0.1:{{PORT2}} proxy_protocol; set_real_ip_from 192.0.2.0/24; real_ip_header proxy_protocol; deny 192.0.2.7; root {{DIR}}/html; }")
        .certificate("www.test")
        .file("html/a.txt", "a")
        .prepare();
    let told = ask(&site, "https://www.test/", &[]);
    assert_eq!(told["status"], 200, "{told:#}");
    assert!(told["hints"].to_string().contains("has no Alt-Svc"), "{told:#}");
    let told = ask(&site, "https://www.test/told/", &[]);
    assert!(told["status"] == 200 && told["hints"].as_array().unwrap().is_empty(), "{told:#}");
    // What a browser gets that does not speak TLS there.
    let told = ask(&site, "http://www.test/", &[]);
    assert_eq!(told["status"], 400, "{told:#}");
    let conf = fs::read_to_string(site.dir().join("brisk.conf")).unwrap();
    let port = conf.split(" proxy_protocol;").next().unwrap().rsplit(':').next().unwrap();
    let url = format!("http://127.0.0.1:{port}/a.txt");
    decided(&site, &url, &["--from", "192.0.2.7"], 403, "server { listen 127.0.0.1");
    assert_eq!(ask(&site, &url, &["--from", "192.0.2.8"])["status"], 200);
}

#[test]
fn people_are_told_in_sentences() {
    let site = site();
    let url = format!("http://www.test:{}/private/a.txt", site.port());
    let conf = site.dir().join("brisk.conf").display().to_string();
    let why = |args: &[&str]| std::process::Command::new(BIN).arg("why").args(args).output().unwrap();
    check(
        &why(&[&url, "-c", &conf]),
        0,
        &[
            "^GET .*/private/a.txt → 403 Forbidden$",
            "^Decided by access \\(access\\): the first rule for 127.0.0.1, in location /private/$",
            "brisk.conf:[0-9]+: deny  all;$",
            "^    access forbidden by rule$",
        ],
    );
    check(
        &why(&["http://www.test:1/", "-c", &conf]),
        1,
        &["nothing listens there: the servers have 127.0.0.1:"],
    );
    let tls = url.replace("http:", "https:");
    check(&why(&[&tls, "-c", &conf]), 1, &["speaks plain HTTP"]);
    site.write("brisk.conf", "http {\n  server { listen 80; nothing on; }\n}\n");
    check(
        &why(&[&url, "-c", &conf]),
        1,
        &["is refused, so no server has it", "unknown directive \"nothing\""],
    );
}

#[test]
fn apaches_files_are_asked_likewise() {
    let mut builder =
        Builder::new(BIN).file("html/a.txt", "a").file("html/sub/.htaccess", "Require all denied\n");
    let conf = builder.fill(
        "ServerRoot {{DIR}}\nPidFile {{DIR}}/brisk.pid\nErrorLog {{DIR}}/error.log\nListen 127.0.0.1:{{PORT}}\n\
         LoadModule authz_core_module x\nLoadModule alias_module x\nLoadModule authz_host_module x\nLoadModule dir_module x\n\
         ServerName www.test\nDocumentRoot {{DIR}}/html\n<Directory {{DIR}}/html>\nAllowOverride All\nRequire all granted\n</Directory>\n\
         <Location /closed>\nRequire ip 192.0.2.1\n</Location>\nRedirect 301 /old http://www.test/new\n",
    );
    let site = builder.conf("").prepare();
    let file = site.write("httpd.conf", conf);
    let port = site.port();
    let ask = |path: &str| -> Value {
        let url = format!("http://www.test:{port}{path}");
        let out =
            std::process::Command::new(BIN).args(["why", &url, "--json", "-f"]).arg(&file).output().unwrap();
        assert!(out.status.success(), "{}", text(&out.stderr));
        serde_json::from_slice(&out.stdout).unwrap()
    };
    for (path, status, line) in [
        ("/closed/x", 403, "Require ip 192.0.2.1"),
        ("/old/x", 301, "Redirect 301 /old"),
        ("/sub/x", 403, "Require all denied"),
    ] {
        let told = ask(path);
        assert_eq!(told["status"], status, "{path}: {told:#}");
        assert_eq!(
            told["because"]["places"][0]["text"].as_str().unwrap().split(" http").next(),
            Some(line),
            "{told:#}"
        );
    }
}
