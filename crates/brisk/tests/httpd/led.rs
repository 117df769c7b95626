//! Rules of the server that lead to a file: as in Apache, `ProxyPass`, `Alias` and `Redirect` are not asked behind them, so the sections that
//! guard those paths are no less met.

use crate::{BIN, HEAD, ask, difference, start, telling};
use brisk_testkit::apache::open_to_all;
use brisk_testkit::{Apache, Builder, Client, Server};

const MODULES: [&str; 9] =
    ["mpm_event", "authz_core", "authz_host", "alias", "mime", "rewrite", "proxy", "proxy_http", "userdir"];

/// `ROOT` is the folder of all sites, `BACK` the back end's port.
const SITE: &str = r"
TypesConfig ROOT/mime.types
ServerName a.example
DocumentRoot ROOT/www
<Directory ROOT>
  Require all granted
</Directory>
RewriteEngine On
RewriteRule ^/v[0-9]+/(.*)$ /$1 [L]
RewriteRule ^/p/(.*)$ /$1 [PT,L]
ProxyPass /admin/ http://127.0.0.1:BACK/
ProxyPassMatch ^/match/(.*)$ http://127.0.0.1:BACK/$1
Alias /files/ ROOT/elsewhere/
AliasMatch ^/some/(.*)$ ROOT/elsewhere/$1
Redirect /old http://new.example/
UserDir ROOT/people/*/www
<Location /admin/>
  Require ip 10.0.0.0/8
</Location>
<Location /match/>
  Require all denied
</Location>
<Location /files/>
  Require all denied
</Location>
<LocationMatch ^/(some|~ann)/>
  Require all denied
</LocationMatch>
<Location /v2/closed>
  Require all denied
</Location>
";

const FILES: [(&str, &str); 9] = [
    ("mime.types", "text/plain txt\n"),
    ("www/a.txt", "a"),
    ("www/closed/a.txt", "closed"),
    ("www/admin/own.txt", "own of admin"),
    ("www/files/own.txt", "own of files"),
    ("www/old/a.txt", "old"),
    ("elsewhere/a.txt", "secret"),
    ("people/ann/www/a.txt", "secret"),
    ("www/~ann/own.txt", "own of ann"),
];

#[test]
fn rules_lead_past_no_section() {
    let back_end = Builder::new(BIN)
        .http("server { listen 127.0.0.1:{{PORT}}; location / { return 200 secret; } }")
        .start();
    let mut builder = Builder::new(BIN);
    for (name, text) in FILES {
        builder = builder.file(&format!("sites/{name}"), text);
    }
    let root = builder.dir().join("sites");
    open_to_all(builder.dir());
    let site =
        SITE.replace("ROOT", &root.display().to_string()).replace("BACK", &back_end.port().to_string());
    let loads: Vec<String> = MODULES.map(|m| format!("LoadModule {m}_module x/mod_{m}.so\n")).into();
    let brisk = start(builder, &format!("{HEAD}{}{site}", loads.concat()));
    let apache = Apache::start(&MODULES, &site);
    let mut differences = String::new();
    for path in [
        "admin/users",
        "admin/own.txt",
        "match/users",
        "files/a.txt",
        "files/own.txt",
        "some/a.txt",
        "~ann/a.txt",
        "~ann/own.txt",
        "old/a.txt",
        "old/none",
        "closed/a.txt",
        "a.txt",
        "none.txt",
    ] {
        for prefix in ["/", "/v1/", "/v2/", "/p/", "/v1/v2/", "//v1/"] {
            let target = format!("{prefix}{path}");
            let request = ("a.example", target.as_str(), "");
            for _ in 0..2 {
                assert!(!ask(&mut brisk.client(), request).text().contains("secret"), "{target}");
            }
            differences += &difference(&brisk, &apache, request, 2);
        }
    }
    assert!(differences.is_empty(), "{differences}\n{}\n{}", brisk.error_log(), apache.log());
}

/// In Apache the source of the script would be served.
#[test]
fn rules_lead_to_no_script_of_a_back_end() {
    let application = telling();
    let to = application.address();
    let conf = format!(
        "{HEAD}LoadModule proxy_module x\nLoadModule proxy_fcgi_module x\nLoadModule rewrite_module x\nDocumentRoot {{{{DIR}}}}/html\n<Location />\nRequire all granted\n</Location>\n<Location /admin/>\nRequire all denied\n</Location>\nRewriteEngine On\nRewriteRule ^/v1/(.*)$ /$1 [L]\nProxyPassMatch ^/(.*\\.php)$ fcgi://{to}/srv/$1\n"
    );
    let server = start(Builder::new(BIN).file("html/admin/a.php", "<?php source"), &conf);
    for _ in 0..2 {
        for (target, status) in
            [("/a.php", 200), ("/admin/a.php", 403), ("/v1/admin/a.php", 500), ("/v1/admin/none.php", 404)]
        {
            let answer = server.get(target);
            assert_eq!(answer.status, status, "{target}: {}", server.error_log());
            assert!(!answer.text().contains("source"), "{target}");
        }
    }
}

/// `ROOT` is the folder of all sites, `BACK` the back end's port, `PORT` the server's own.
const ASKED: &str = r"
TypesConfig ROOT/mime.types
ServerName main.example
DocumentRoot ROOT/www
<Directory ROOT>
  Require all granted
</Directory>
<Directory ROOT/www/views>
  Options +MultiViews
  AddHandler type-map .var
</Directory>
<Directory ROOT/www/names>
  CheckSpelling On
</Directory>
<Directory ROOT/www/fall>
  FallbackResource /v2/fall/front.txt
</Directory>
<Directory ROOT/www/moved>
  Redirect /v2/moved/away http://new.example/asked
  Redirect /moved/away http://new.example/led
</Directory>
<VirtualHost *:PORT>
  ServerName a.example
  DocumentRoot ROOT/www
  RewriteEngine On
  RewriteRule ^/v[0-9]+/(.*)$ /$1 [L]
  RewriteRule ^/bare$ /sub/ [L]
  RewriteRule ^/slash/$ /sub [L]
  RewriteRule ^/one$ /views/page [L]
  RewriteRule ^/p/(.*)$ /$1 [PT,L]
  <Location /v2/closed/index.html>
    Require all denied
  </Location>
  <Location /open/index.html>
    Require all denied
  </Location>
  <Location /v2/views/page.txt>
    Header set X-Located asked
  </Location>
  <Location /views/page.txt>
    Header set X-Located led
  </Location>
  <Location /page.txt>
    Header set X-Located beside
  </Location>
</VirtualHost>
<VirtualHost *:PORT>
  ServerName b.example
  DocumentRoot ROOT/www
  RewriteEngine On
  RewriteRule ^/(.*)$ /deep/$1
</VirtualHost>
<VirtualHost *:PORT>
  ServerName c.example
  DocumentRoot ROOT/www
  ProxyPass /.well-known/acme-challenge/own !
  ProxyPass /.well-known/acme-challenge/ http://127.0.0.1:BACK/
  ProxyPassMatch ^/match/(.*)$ http://127.0.0.1:BACK/$1
  Redirect permanent / https://c.example/
</VirtualHost>
";

const ASKED_FILES: [(&str, &str); 12] = [
    ("mime.types", "text/plain txt\ntext/html html\n"),
    ("www/sub/index.html", "index of sub"),
    ("www/sub/in/a.txt", "a"),
    ("www/closed/index.html", "index of closed"),
    ("www/open/index.html", "index of open"),
    ("www/views/page.txt", "page"),
    ("www/views/map.var", "URI: page.txt\nContent-Type: text/plain\n"),
    ("www/names/good.txt", "good"),
    ("www/fall/front.txt", "front"),
    ("www/moved/a.txt", "a"),
    ("www/deep/index.html", "deep index"),
    ("www/deep/in/index.html", "index in the deep"),
];

/// Where else Brisk's answer leads the client than Apache's: the whole URL.
fn other_target(brisk: &Server, apache: &Apache, host: &str, target: &str) -> String {
    let to = |mut client: Client, port: u16| {
        let answer = ask(&mut client, (host, target, ""));
        let location = answer.header("Location").unwrap_or_default().replace(&format!(":{port}"), "");
        location.strip_prefix(&format!("http://{host}")).unwrap_or(&location).to_string()
    };
    let (ours, theirs) = (to(brisk.client(), brisk.port()), to(apache.client(), apache.port()));
    if ours == theirs { String::new() } else { format!("== {host}{target}\n- {theirs}\n+ {ours}\n") }
}

/// Behind rules of the server that lead to a file, the path that was asked for counts: for index files, redirects and sections. And
/// back ends are asked before `Redirect` is.
#[test]
fn the_path_that_was_asked_for_counts_behind_rules() {
    let back_end = Builder::new(BIN)
        .http("server { listen 127.0.0.1:{{PORT}}; location / { return 200 \"back end $uri\"; } }")
        .start();
    let mut builder = Builder::new(BIN);
    for (name, text) in ASKED_FILES {
        builder = builder.file(&format!("sites/{name}"), text);
    }
    let root = builder.dir().join("sites");
    open_to_all(builder.dir());
    let site = ASKED
        .replace("ROOT", &root.display().to_string())
        .replace("BACK", &back_end.port().to_string())
        .replace(":PORT", ":{{PORT}}");
    let modules: Vec<&str> =
        MODULES.iter().copied().chain(["autoindex", "dir", "headers", "negotiation", "speling"]).collect();
    let loads: Vec<String> =
        modules.iter().map(|m| format!("LoadModule {m}_module x/mod_{m}.so\n")).collect();
    let brisk = start(builder, &format!("{HEAD}{}{site}", loads.concat()));
    let apache = Apache::start(&modules, &site);
    let mut differences = String::new();
    let mut compare = |host: &str, target: &str| {
        differences += &difference(&brisk, &apache, (host, target, ""), 2);
        differences += &other_target(&brisk, &apache, host, target);
    };
    for path in [
        "sub",
        "sub/",
        "sub?a=b",
        "sub/in",
        "sub/in/a.txt",
        "sub/none",
        "closed/",
        "closed",
        "open/",
        "views/page",
        "views/map.var",
        "views/none",
        "names/god.txt",
        "names/GOOD.txt?x",
        "fall/none",
        "moved/away",
        "moved/away/x",
    ] {
        for prefix in ["/", "/v1/", "/v2/", "/p/"] {
            compare("a.example", &format!("{prefix}{path}"));
        }
    }
    for target in ["/bare", "/slash/", "/one", "/bare/", "/slash"] {
        compare("a.example", target);
    }
    for target in ["/", "/in", "/in/", "/in/index.html", "/none", "/deep/"] {
        compare("b.example", target);
    }
    for target in [
        "/",
        "/x?y",
        "/.well-known/acme-challenge/token",
        "/.well-known/acme-challenge/own/x",
        "/.well-known/acme-challenge",
        "/match/x",
    ] {
        compare("c.example", target);
    }
    assert!(differences.is_empty(), "{differences}\n{}\n{}", brisk.error_log(), apache.log());
}
