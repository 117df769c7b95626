//! `brisk httpd`: Apache's own files as they are, beside Debian's Apache where answers are compared.

use brisk_testkit::apache::open_to_all;
use brisk_testkit::{Apache, Builder, Client, Response, Server};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// Starts a server of `httpd.conf` in the builder's folder.
fn start(mut builder: Builder, conf: &str) -> Server {
    let conf = builder.fill(conf);
    let prepared = builder.conf("").prepare();
    prepared.write("httpd.conf", conf);
    let mut command = Command::new(BIN);
    command.args(["httpd", "-DFOREGROUND", "-f"]).arg(prepared.dir().join("httpd.conf"));
    prepared.start_with(command)
}

/// What Apache has from its test kit, for Brisk.
const HEAD: &str = "ServerRoot {{DIR}}\nPidFile {{DIR}}/brisk.pid\nErrorLog {{DIR}}/error.log\nLogLevel info\nListen 127.0.0.1:{{PORT}}\n";

const MODULES: &[&str] = &[
    "mpm_event",
    "authn_core",
    "authn_file",
    "authz_core",
    "authz_host",
    "authz_user",
    "access_compat",
    "auth_basic",
    "alias",
    "dir",
    "env",
    "expires",
    "headers",
    "mime",
    "rewrite",
    "setenvif",
    "autoindex",
    "macro",
];

/// `ROOT` is the folder of all sites.
const SITES: &str = r#"
TypesConfig ROOT/mime.types
ServerName main.example
DirectoryIndex index.html
<Directory />
  Options FollowSymLinks
  AllowOverride None
  Require all denied
</Directory>
<Directory ROOT>
  Require all granted
</Directory>
<FilesMatch "^\.ht">
  Require all denied
</FilesMatch>
<Files *.bak>
  Require all denied
</Files>
<IfModule mod_lua.c>
  LuaScope thread
</IfModule>
Header set X-Main main
Define SITES ROOT
<Macro Host $name $folder>
  <VirtualHost *:PORT>
    ServerName $name
    DocumentRoot ${SITES}/$folder
    Header set X-Host $name
  </VirtualHost>
</Macro>
Use Host first.example one
Use Host macro.example two
<VirtualHost *:PORT>
  ServerName two.example
  ServerAlias *.two.example
  DocumentRoot ROOT/two
  Alias /shared/ ROOT/shared/
  Alias /plain ROOT/shared
  Redirect permanent /old http://new.example/
  Redirect gone /gone
  RewriteEngine On
  RewriteRule ^/nice/(.*)$ /real/$1 [E=RULED:yes]
  RewriteRule ^/away$ http://away.example/x [R=303,L]
  RewriteRule ^/forbidden - [F]
  <Directory ROOT/two/closed>
    Require all denied
  </Directory>
  <Directory ROOT/two/over>
    AllowOverride FileInfo AuthConfig
  </Directory>
  <Directory ROOT/two/rules>
    RewriteEngine On
    RewriteRule ^short$ a.txt
  </Directory>
  <DirectoryMatch "/matched$">
    Header set X-Matched yes
  </DirectoryMatch>
  <Location /closed/open>
    Require all granted
  </Location>
  <Location /users>
    AuthType Basic
    AuthName "users"
    AuthUserFile ROOT/users
    Require valid-user
  </Location>
  <LocationMatch "^/real/.*\.txt$">
    Header set X-Located yes
    <If "%{QUERY_STRING} == 'if'">
      Header set X-If inside
    </If>
  </LocationMatch>
  <If "%{QUERY_STRING} == 'no'">
    Require all denied
  </If>
  <Files a.txt>
    Header set X-File a
  </Files>
  ErrorDocument 404 /errors/404.html
  <Location /env>
    SetEnvIf Request_URI "x$" IS_X
    Header set X-Env x env=IS_X
  </Location>
</VirtualHost>
"#;

const FILES: &[(&str, &str)] = &[
    ("one/index.html", "first"),
    ("one/a.bak", "backup"),
    ("two/index.html", "second"),
    ("two/a.txt", "a of two"),
    ("two/.htpasswd", "secret"),
    ("two/closed/a.txt", "closed"),
    ("two/closed/open/a.txt", "opened by its location"),
    ("two/real/a.txt", "real"),
    ("two/real/b.txt", "b"),
    ("two/rules/a.txt", "by a rule of its folder"),
    ("two/over/a.txt", "over"),
    ("two/over/.htaccess", "Header set X-Htaccess yes\nRewriteEngine On\nRewriteRule ^r$ a.txt\n"),
    ("two/over/closed/.htaccess", "Require all denied\n"),
    ("two/over/closed/a.txt", "closed by its file"),
    ("two/ignored/.htaccess", "Require all denied\nNonsense\n"),
    ("two/ignored/a.txt", "files are not read here"),
    ("two/users/a.txt", "for users"),
    ("two/env/x", "x"),
    ("two/env/y", "y"),
    ("two/matched/a.txt", "matched"),
    ("two/errors/404.html", "not here"),
    ("shared/s.txt", "shared"),
    ("shared/deep/s.txt", "deep"),
    ("outside/a.txt", "outside"),
    ("mime.types", "text/html html\ntext/plain txt\n"),
    ("users", "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n"),
];

/// Host, target, fields.
const REQUESTS: &[(&str, &str, &str)] = &[
    ("first.example", "/", ""),
    ("unknown.example", "/", ""),
    ("macro.example", "/a.txt", ""),
    ("first.example", "/a.bak", ""),
    ("two.example", "/", ""),
    ("x.two.example", "/a.txt", ""),
    ("two.example", "/a.txt?no", ""),
    ("two.example", "/.htpasswd", ""),
    ("two.example", "/closed/a.txt", ""),
    ("two.example", "/closed/open/a.txt", ""),
    ("two.example", "/nice/a.txt", ""),
    ("two.example", "/real/a.txt?if", ""),
    ("two.example", "/real/b.txt", ""),
    ("two.example", "/away", ""),
    ("two.example", "/forbidden", ""),
    ("two.example", "/old/x?y=1", ""),
    ("two.example", "/gone", ""),
    ("two.example", "/rules/short", ""),
    ("two.example", "/over/a.txt", ""),
    ("two.example", "/over/r", ""),
    ("two.example", "/over/closed/a.txt", ""),
    ("two.example", "/ignored/a.txt", ""),
    ("two.example", "/users/a.txt", ""),
    ("two.example", "/users/a.txt", "Authorization: Basic YW5uOnNlY3JldA==\r\n"),
    ("two.example", "/users/a.txt", "Authorization: Basic YW5uOndyb25n\r\n"),
    ("two.example", "/env/x", ""),
    ("two.example", "/env/y", ""),
    ("two.example", "/matched/a.txt", ""),
    ("two.example", "/shared/s.txt", ""),
    ("two.example", "/shared/deep/s.txt", ""),
    ("two.example", "/shared/deep", ""),
    ("two.example", "/plain/s.txt", ""),
    ("two.example", "/plainx", ""),
    ("two.example", "/closed", ""),
    ("two.example", "/none", ""),
    ("two.example", "/over", ""),
];

fn shown(response: &Response) -> String {
    let mut lines = Vec::new();
    for (name, value) in &response.headers {
        let lower = name.to_ascii_lowercase();
        if lower.starts_with("x-") || ["location", "www-authenticate"].contains(&lower.as_str()) {
            // The servers have a port each.
            let value = if lower == "location" {
                value.split(':').next().unwrap_or_default().to_string()
                    + value.rsplit('/').next().unwrap_or_default()
            } else {
                value.clone()
            };
            lines.push(format!("  {lower}: {value}"));
        }
    }
    lines.sort();
    let body = if response.status == 200 || response.text().starts_with("not here") {
        response.text()
    } else {
        String::new()
    };
    format!("{}\n{}\n  {body}", response.status, lines.join("\n"))
}

fn ask(client: &mut Client, (host, target, fields): (&str, &str, &str)) -> Response {
    client.request(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}\r\n"))
}

#[test]
fn sites_answer_as_with_apache() {
    let mut builder = Builder::new(BIN);
    for (name, text) in FILES {
        builder = builder.file(&format!("sites/{name}"), text);
    }
    let root = builder.dir().join("sites");
    open_to_all(builder.dir());
    let sites = SITES.replace("ROOT", &root.display().to_string()).replace("PORT", "{{PORT}}");
    let modules: Vec<String> =
        MODULES.iter().map(|m| format!("LoadModule {m}_module x/mod_{m}.so\n")).collect();
    let modules = modules.concat();
    let brisk = start(builder, &format!("{HEAD}{modules}{sites}"));
    let apache = Apache::start(MODULES, &sites);
    let mut differences = String::new();
    for request in REQUESTS {
        let theirs = shown(&ask(&mut apache.client(), *request));
        for _ in 0..3 {
            let ours = shown(&ask(&mut brisk.client(), *request));
            if theirs != ours {
                let _ = writeln!(differences, "== {request:?}\n- {theirs}\n+ {ours}");
                break;
            }
        }
    }
    assert!(differences.is_empty(), "{differences}\n{}\n{}", brisk.error_log(), apache.log());
}

/// The output of the program with these arguments: exit code, standard output, standard error.
fn run(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let done = Command::new(BIN).arg("httpd").args(args).current_dir(folder).output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.code().unwrap_or(-1), text(&done.stdout), text(&done.stderr))
}

#[test]
fn the_command_line_is_apaches() {
    let mut builder = Builder::new(BIN);
    let text = builder.fill(&format!(
        "{HEAD}LoadModule lua_module x.so\n<VirtualHost *:*>\nServerName a\nServerAlias b\nDocumentRoot {{{{DIR}}}}\n</VirtualHost>\n"
    ));
    let dir = builder.dir().to_path_buf();
    fs::write(dir.join("httpd.conf"), &text).expect("our own file");
    let conf = dir.join("httpd.conf").display().to_string();
    let (code, out, _) = run(&dir, &["-v"]);
    assert!(code == 0 && out.starts_with("Server version: Apache/2.4."), "{out}");
    assert!(run(&dir, &["-l"]).1.starts_with("Compiled in modules:"));
    assert!(run(&dir, &["-V"]).1.contains("SERVER_CONFIG_FILE"));
    let (code, _, err) = run(&dir, &["-f", &conf, "-t"]);
    assert!(
        code == 0 && err.ends_with("Syntax OK\n") && err.contains("does not have the module lua"),
        "{err}"
    );
    let (code, out, _) = run(&dir, &["-f", &conf, "-S"]);
    assert!(code == 0 && out.contains("default server a (") && out.contains("alias b"), "{out}");
    // A mistake is told with its line, and the server does not start.
    for (line, wanted) in [
        ("Nonsense on", "Invalid command 'Nonsense'"),
        ("<Location /x>\nRequire nothing\n</Location>", "Require"),
        ("<Directory /x>\nDocumentRoot /y\n</Directory>", "DocumentRoot not allowed here"),
        ("ScriptAlias /cgi /x", "runs no CGI"),
        ("<VirtualHost *>\nRewriteRule ( x\n</VirtualHost>", "RewriteRule"),
        ("Header set X", "Header"),
    ] {
        fs::write(dir.join("bad.conf"), format!("{text}{line}\n")).expect("our own file");
        let (code, _, err) = run(&dir, &["-f", "bad.conf", "-DFOREGROUND"]);
        assert!(code == 1 && err.contains(wanted) && err.contains("bad.conf:"), "{line}: {err}");
    }
    let (code, _, err) = run(&dir, &["-f", "none.conf", "-t"]);
    assert!(code == 1 && err.contains("none.conf"), "{err}");
}

#[test]
fn back_ends_are_asked_behind_the_same_rules() {
    let back_end = Builder::new(BIN)
        .http("server { listen 127.0.0.1:{{PORT}}; location / { return 200 \"$request_uri $http_host\"; } }")
        .start();
    let to = format!("http://127.0.0.1:{}", back_end.port());
    let conf = format!(
        "{HEAD}LoadModule proxy_module x\nProxyPreserveHost On\nProxyPass /app/own !\nProxyPass /app {to}/inner\nProxyPassReverse /app {to}/inner\nDocumentRoot {{{{DIR}}}}/html\n<Location /app/closed>\nRequire all denied\n</Location>\n<Location /app>\nHeader set X-App yes\n</Location>\n<If \"%{{QUERY_STRING}} == 'no'\">\nRequire all denied\n</If>\n"
    );
    let server = start(Builder::new(BIN).file("html/app/own/a.txt", "own"), &conf);
    for _ in 0..3 {
        let check = |target: &str, status: u16, body: &str| {
            let response = server.get(target);
            assert_eq!(response.status, status, "{target}");
            assert!(status != 200 || response.text().starts_with(body), "{target}: {}", response.text());
            response
        };
        let response = check("/app/x?y", 200, "/inner/x?y ");
        assert!(
            response.headers.iter().any(|(name, value)| name.eq_ignore_ascii_case("x-app") && value == "yes")
        );
        check("/app", 200, "/inner ");
        check("/app/own/a.txt", 200, "own");
        check("/app/closed", 403, "");
        check("/app/closed/x", 403, "");
        check("/app/x?no", 403, "");
        check("/apple", 404, "");
    }
}

#[test]
fn hosts_of_apache_stand_beside_servers() {
    let mut builder = Builder::new(BIN)
        .file("apache/sites-enabled/a.conf", "")
        .file("apache/envvars", "export LOGS=logs\n")
        .file("site/index.html", "of apache")
        .file("site/closed/index.html", "closed");
    let site = builder.fill(
        "LogFormat \"%h %>s\" short\n<VirtualHost 127.0.0.1:{{PORT}}>\nServerName a.example\nDocumentRoot {{DIR}}/site\n<IfDefine LIVE>\nCustomLog ${LOGS}.txt short\n</IfDefine>\n<Location /closed>\nRequire all denied\n</Location>\n</VirtualHost>\n",
    );
    fs::write(builder.dir().join("apache/sites-enabled/a.conf"), site).expect("our own file");
    let server = builder
        .http("server { listen 127.0.0.1:{{PORT}}; server_name b.example; return 200 own; } include_apache {{DIR}}/apache/sites-enabled/*.conf define=LIVE;")
        .start();
    let get = |host: &str, target: &str| {
        let response = ask(&mut server.client(), (host, target, ""));
        (response.status, response.text())
    };
    assert_eq!(get("a.example", "/"), (200, "of apache".into()));
    assert_eq!(get("a.example", "/closed/").0, 403);
    assert_eq!(get("b.example", "/closed/"), (200, "own".into()));
    assert_eq!(get("c.example", "/closed/").1, "own");
    server.wait_for_line("apache/logs.txt", "127.0.0.1 200");
}
