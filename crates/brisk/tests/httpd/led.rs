//! Rules of the server that lead to a file: as in Apache, `ProxyPass`, `Alias` and `Redirect` are not asked behind them, so the sections that
//! guard those paths are no less met.

use crate::{BIN, HEAD, ask, difference, start, telling};
use brisk_testkit::apache::open_to_all;
use brisk_testkit::{Apache, Builder};

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
