//! `brisk httpd`: Apache's own files as they are, beside Debian's Apache where answers are compared.

mod httpd {
    mod back_ends;
    mod led;
    mod look_ups;
    mod merged;
    mod php;
    mod remote;
    mod secure;
}

use brisk_testkit::apache::open_to_all;
use brisk_testkit::application::Speaks;
use brisk_testkit::{Apache, Application, Builder, Client, Response, Server};
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
<VirtualHost *:PORT>
  ServerName early.example
  DocumentRoot ROOT/two
  Header always set X-Always host
  ErrorDocument 403 "not here, says the host"
  ErrorDocument 404 "not here either"
  SetEnvIf User-Agent blocked BLOCKED=1
  SetEnvIf User-Agent hidden HIDDEN=1
  SetEnvIf Request_URI "^/moved" MOVED
  RewriteEngine On
  RewriteCond %{ENV:BLOCKED} =1
  RewriteRule ^ - [F]
  RewriteRule ^/away$ http://away.example/x [R=303,L]
  RewriteRule ^/forbidden - [F]
  RewriteRule ^/moved/(.*)$ /real/$1
  RewriteRule ^/unset - [E=!MOVED]
  Redirect permanent /old http://new.example/
  Redirect gone /gone
  Header set X-Moved yes env=MOVED
  <If "reqenv('HIDDEN') == '1'">
    Require all denied
  </If>
  <Location /away>
    Header always set X-Located away
  </Location>
  <Files away>
    Header always set X-File away
  </Files>
  <Directory ROOT/two/real>
    Header always set X-Folder real
  </Directory>
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
    ("early.example", "/away", ""),
    ("early.example", "/forbidden", ""),
    ("early.example", "/old/x", ""),
    ("early.example", "/gone", ""),
    ("early.example", "/none", ""),
    ("early.example", "/real%2fa.txt", ""),
    ("early.example", "/real/a.txt", ""),
    ("early.example", "/moved/a.txt", ""),
    ("early.example", "/closed/a.txt", ""),
    ("early.example", "/real/a.txt", "User-Agent: blocked\r\n"),
    ("early.example", "/real/a.txt", "User-Agent: hidden\r\n"),
    ("early.example", "/away", "User-Agent: hidden\r\n"),
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

/// What differs of Brisk's answer, which is asked for so many times: a prepared one must be the same.
fn difference(brisk: &Server, apache: &Apache, request: (&str, &str, &str), times: usize) -> String {
    let theirs = shown(&ask(&mut apache.client(), request));
    let mut ours = (0..times).map(|_| shown(&ask(&mut brisk.client(), request)));
    let other = ours.find(|ours| *ours != theirs);
    other.map_or(String::new(), |ours| format!("== {request:?}\n- {theirs}\n+ {ours}\n"))
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
    let differences: String =
        REQUESTS.iter().map(|request| difference(&brisk, &apache, *request, 3)).collect();
    assert!(differences.is_empty(), "{differences}\n{}\n{}", brisk.error_log(), apache.log());
}

/// Sections, maps, pages, negotiation and names, beside Apache. `ROOT` is the folder, `PORT` the server's own port.
const MORE: &str = r#"
TypesConfig ROOT/mime.types
ServerName main.example
DocumentRoot ROOT/site
<Directory />
  Options FollowSymLinks
  AllowOverride None
</Directory>
<Directory ROOT/site>
  Require all granted
  AddType text/html .shtml
  AddOutputFilter INCLUDES .shtml
</Directory>
<Directory ROOT/site/pages>
  Options +Includes
  SetEnv GIVEN "<given>"
  AcceptPathInfo On
</Directory>
<Directory ROOT/site/maps>
  RewriteEngine On
  RewriteRule ^n/(.*)$ ${numbers:$1|none}.txt
  RewriteRule ^l/(.*)$ ${lower:$1}.txt
  RewriteRule ^u/(.*)$ ${unknown:$1|none}.txt
</Directory>
<Directory ROOT/site/views>
  Options +MultiViews
  AddLanguage de .de
  AddLanguage en .en
  LanguagePriority en de
  DirectoryIndex index.html
</Directory>
<Directory ROOT/site/names>
  CheckSpelling On
</Directory>
<Directory ROOT/site/posts>
  AllowMethods GET
</Directory>
<Location /located>
  RewriteEngine On
  RewriteCond %{QUERY_STRING} =away
  RewriteRule ^ http://away.example/ [R,L]
</Location>
AliasMatch "^/x(.*)$" "ROOT/site/$1"
UserDir ROOT/people/*/www
UserDir disabled root
<Directory ROOT/people/*/www>
  Require all granted
</Directory>
<Directory ROOT/people/ann/www/closed>
  Require all denied
</Directory>
<Directory ROOT/site/closed>
  Require all denied
</Directory>
<Directory ROOT/site/posts/../guarded>
  Require all denied
</Directory>
<DirectoryMatch "^ROOT/site/shut">
  Require all denied
</DirectoryMatch>
<LocationMatch "^/letter/(?<letter>[a-z])$">
  Alias ROOT/site/letters/%{env:MATCH_LETTER}.txt
  Header set X-Letter "expr=%{env:MATCH_LETTER}"
</LocationMatch>
<Location /ranges>
  MaxRanges 1
</Location>
<VirtualHost *:PORT>
  ServerName other.example
  RewriteMap numbers txt:ROOT/numbers.txt
  RewriteMap lower int:tolower
  RewriteEngine On
  RewriteRule ^/asked/(.*)$ http://127.0.0.1:PORT/letters/$1 [P]
  <Location /asked/none>
    RewriteRule ^ - [F]
  </Location>
</VirtualHost>
"#;

const MORE_FILES: &[(&str, &str)] = &[
    ("mime.types", "text/html html\ntext/plain txt\n"),
    ("numbers.txt", "# numbers\n1 one\n2  two ignored\n"),
    (
        "site/pages/a.shtml",
        "<!--#echo var=\"GIVEN\" -->|<!--#echo var=\"NONE\" -->|<!--#echo var=\"PATH_INFO\" -->|<!--#echo var=\"QUERY_STRING\" -->|<!--#exec cmd=\"id\" -->|<!--#if expr='reqenv(\"GIVEN\") =~ /giv/' -->yes<!--#else -->no<!--#endif -->|<!--#set var=\"x\" value=\"${QUERY_STRING}!\" --><!--#echo var=\"x\" -->",
    ),
    ("site/plain/a.shtml", "<!--#echo var=\"GIVEN\" -->"),
    ("site/maps/one.txt", "1"),
    ("site/maps/two.txt", "2"),
    ("site/maps/none.txt", "none"),
    ("site/maps/low.txt", "low"),
    ("site/views/index.html.de", "deutsch"),
    ("site/views/index.html.en", "english"),
    ("site/views/a.txt", "a"),
    ("site/names/good.txt", "good"),
    ("site/names/other.txt", "other"),
    ("site/posts/a.txt", "a"),
    ("site/letters/b.txt", "letter b"),
    ("site/located/a.txt", "located"),
    ("site/ranges/a.txt", "0123456789"),
    ("site/sub/a.txt", "sub"),
    ("people/ann/www/a.txt", "a of ann"),
    ("people/ann/www/closed/a.txt", "closed"),
    ("people/root/www/a.txt", "a of root"),
    ("site/closed/a.txt", "closed"),
    ("site/guarded/a.txt", "guarded"),
    ("site/shut/a.txt", "shut"),
];

const MORE_REQUESTS: &[(&str, &str, &str)] = &[
    ("main.example", "/pages/a.shtml", ""),
    ("main.example", "/pages/a.shtml?q=1", ""),
    ("main.example", "/pages/a.shtml/more/path", ""),
    ("main.example", "/plain/a.shtml", ""),
    ("main.example", "/maps/n/1", ""),
    ("main.example", "/maps/n/2", ""),
    ("main.example", "/maps/n/3", ""),
    ("main.example", "/maps/l/LOW", ""),
    ("main.example", "/maps/u/1", ""),
    ("main.example", "/views/", ""),
    ("main.example", "/views/", "Accept-Language: de\r\n"),
    ("main.example", "/views/index", "Accept-Language: de;q=0.2, en;q=0.1\r\n"),
    ("main.example", "/views/index.html.de", ""),
    ("main.example", "/views/a", ""),
    ("main.example", "/views/none", ""),
    ("main.example", "/names/god.txt", ""),
    ("main.example", "/names/GOOD.txt?x", ""),
    ("main.example", "/names/nothing.txt", ""),
    ("main.example", "/posts/a.txt", ""),
    ("main.example", "/located/a.txt", ""),
    ("main.example", "/located/a.txt?away", ""),
    ("main.example", "/letter/b", ""),
    ("main.example", "/letter/c", ""),
    ("main.example", "/ranges/a.txt", "Range: bytes=0-1\r\n"),
    ("main.example", "/ranges/a.txt", "Range: bytes=0-1,4-5\r\n"),
    ("main.example", "/sub/a.txt", ""),
    ("main.example", "/sub%2fa.txt", ""),
    ("main.example", "/sub/..%2Fsub/a.txt", ""),
    ("main.example", "/sub/a.txt?x=%2f", ""),
    // Groups of patterns give paths that sections are not written as.
    ("main.example", "/x/sub/a.txt", ""),
    ("main.example", "/x/closed/a.txt", ""),
    ("main.example", "/x./closed/a.txt", ""),
    ("main.example", "/x../site/closed/a.txt", ""),
    ("main.example", "/~ann/a.txt", ""),
    ("main.example", "/~ann", ""),
    ("main.example", "/~ann/closed/a.txt", ""),
    ("main.example", "/~ann/none", ""),
    ("main.example", "/~ann//a.txt", ""),
    ("main.example", "/~root/a.txt", ""),
    ("main.example", "/~bob/a.txt", ""),
    ("main.example", "/~/a.txt", ""),
    ("other.example", "/~ann/a.txt", ""),
    ("main.example", "/guarded/a.txt", ""),
    ("main.example", "/x/shut/a.txt", ""),
    ("main.example", "/x./shut/a.txt", ""),
    ("other.example", "/asked/b.txt", ""),
    ("other.example", "/asked/b.txt?q=%20", ""),
    ("other.example", "/asked/b%0d%0aX: y", ""),
];

#[test]
fn maps_pages_and_names_are_as_with_apache() {
    let modules: Vec<&str> = MODULES
        .iter()
        .copied()
        .chain(["include", "negotiation", "speling", "allowmethods", "proxy", "proxy_http", "userdir"])
        .collect();
    let mut builder = Builder::new(BIN);
    for (name, text) in MORE_FILES {
        builder = builder.file(&format!("sites/{name}"), text);
    }
    let root = builder.dir().join("sites");
    open_to_all(builder.dir());
    let sites = MORE.replace("ROOT", &root.display().to_string()).replace("PORT", "{{PORT}}");
    let loads: Vec<String> =
        modules.iter().map(|m| format!("LoadModule {m}_module x/mod_{m}.so\n")).collect();
    let brisk = start(builder, &format!("{HEAD}{}{sites}", loads.concat()));
    let apache = Apache::start(&modules, &sites);
    let differences: String =
        MORE_REQUESTS.iter().map(|request| difference(&brisk, &apache, *request, 2)).collect();
    assert!(differences.is_empty(), "{differences}\n{}\n{}", brisk.error_log(), apache.log());
}

#[test]
fn what_a_client_sends_names_no_socket_for_the_flag_p() {
    let builder = Builder::new(BIN);
    let socket = builder.dir().join("inner.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(&socket, all).unwrap();
    open_to_all(builder.dir());
    let loads = ["rewrite", "proxy", "proxy_http"].map(|m| format!("LoadModule {m}_module x/mod_{m}.so\n"));
    let rule = "RewriteEngine On\nRewriteRule ^/to/(.*)$ http://$1 [P]\n";
    let brisk = start(builder, &format!("{HEAD}{}ServerName a.example\n{rule}", loads.concat()));
    for start in ["unix", "Unix"] {
        let path = format!("/to/{start}:{}:/x", socket.display());
        let status = ask(&mut brisk.client(), ("a.example", &path, "")).status;
        assert!(matches!(status, 403 | 500 | 502), "{path}: {status}");
    }
    assert!(listener.accept().is_err(), "{}", brisk.error_log());
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
    let php = "LoadModule php_module x.so\n<FilesMatch \\.php$>\nSetHandler application/x-httpd-php\n</FilesMatch>\n";
    fs::write(dir.join("php.conf"), format!("{text}{php}")).expect("our own file");
    let (code, _, err) = run(&dir, &["-f", "php.conf", "-t"]);
    assert!(code == 0 && err.ends_with("Syntax OK\n"), "{err}");
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
        "{HEAD}LoadModule proxy_module x\nProxyPreserveHost On\nProxyPass /app/own !\nProxyPass /app {to}/inner\nProxyPassReverse /app {to}/inner\nProxyPassMatch ^/match/(.*)$ {to}/matched/$1\nDocumentRoot {{{{DIR}}}}/html\n<Location /app/closed>\nRequire all denied\n</Location>\n<Location /app>\nHeader set X-App yes\n</Location>\n<If \"%{{QUERY_STRING}} == 'no'\">\nRequire all denied\n</If>\n"
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
        check("/match/a%20b?c", 200, "/matched/a%20b?c ");
    }
}

#[test]
fn hosts_of_apache_stand_beside_servers() {
    let mut builder = Builder::new(BIN)
        .file("apache/sites-enabled/a.conf", "")
        .file("apache/envvars", "export LOGS=logs\n")
        .file("site/index.html", "of apache")
        .file("site/closed/index.html", "closed")
        .file(
            "site/told/.htaccess",
            "Header set X-Logs \"${LOGS}\"\n<IfDefine LIVE>\nHeader set X-Live yes\n</IfDefine>\n",
        )
        .file("site/told/index.html", "told");
    let site = builder.fill(
        "LogFormat \"%h %>s\" short\n<VirtualHost 127.0.0.1:{{PORT}}>\nServerName a.example\nDocumentRoot {{DIR}}/site\n<IfDefine LIVE>\nCustomLog ${LOGS}.txt short\n</IfDefine>\n<Directory {{DIR}}/site>\nAllowOverride FileInfo\n</Directory>\n<Location /closed>\nRequire all denied\n</Location>\n</VirtualHost>\n",
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
    let told = ask(&mut server.client(), ("a.example", "/told/", ""));
    assert_eq!((told.header("X-Logs"), told.header("X-Live")), (Some("logs"), Some("yes")));
    assert_eq!(get("b.example", "/closed/"), (200, "own".into()));
    assert_eq!(get("c.example", "/closed/").1, "own");
    server.wait_for_line("apache/logs.txt", "127.0.0.1 200");
}

/// An application that tells which script it was to run, and by what name.
fn telling() -> Application {
    Application::start(Speaks::FastCgi, 2, |exchange| {
        let names = ["SCRIPT_FILENAME", "SCRIPT_NAME", "PATH_INFO", "HTTPS"];
        let values: Vec<String> = names.iter().map(|name| exchange.asked.param(name).to_string()).collect();
        exchange.stdout(format!("Content-Type: text/plain\r\n\r\n{}", values.join("|")));
    })
}

#[test]
fn scripts_below_an_alias_are_those_that_were_judged() {
    let application = telling();
    let conf = format!(
        "{HEAD}LoadModule proxy_module x\nLoadModule proxy_fcgi_module x\nLoadModule alias_module x\nDocumentRoot {{{{DIR}}}}/html\n<Directory {{{{DIR}}}}>\nAllowOverride All\nRequire all granted\n</Directory>\nAlias /app {{{{DIR}}}}/elsewhere\n<FilesMatch \\.php$>\nSetHandler \"proxy:fcgi://{}\"\n</FilesMatch>\n",
        application.address()
    );
    let server = start(
        Builder::new(BIN)
            .file("html/a.php", "<?php root")
            .file("html/app/closed/a.php", "<?php open below the root")
            .file("elsewhere/a.php", "<?php elsewhere")
            .file("elsewhere/closed/a.php", "<?php secret")
            .file("elsewhere/closed/.htaccess", "Require all denied\n")
            .file("elsewhere/index.php", "<?php index")
            .file("elsewhere/.htaccess", "DirectoryIndex index.php\n"),
        &conf,
    );
    let root = server.dir().display().to_string();
    for _ in 0..2 {
        for (target, status, text) in [
            ("/a.php", 200, format!("{root}/html/a.php|/a.php||")),
            ("/a.php/more", 200, format!("{root}/html/a.php|/a.php|/more|")),
            ("/app/a.php", 200, format!("{root}/elsewhere/a.php|/app/a.php||")),
            ("/app/a.php/more", 200, format!("{root}/elsewhere/a.php|/app/a.php|/more|")),
            ("/app/", 200, format!("{root}/elsewhere/index.php|/app/index.php||")),
            ("/app/closed/a.php", 403, String::new()),
            ("/app/none.php", 404, String::new()),
        ] {
            let response = server.get(target);
            assert_eq!(response.status, status, "{target}: {}", server.error_log());
            assert!(status != 200 || response.text() == text, "{target}: {} {text}", response.text());
            assert!(!response.text().contains("<?php"), "{target}");
        }
    }
}

#[test]
fn groups_of_back_ends_and_logs_of_some_requests() {
    let back_end = Builder::new(BIN)
        .http("server { listen 127.0.0.1:{{PORT}}; location / { return 200 \"$request_uri $http_host\"; } }")
        .start();
    let to = format!("127.0.0.1:{}", back_end.port());
    let conf = format!(
        "{HEAD}LoadModule proxy_module x\nLoadModule setenvif_module x\nDocumentRoot {{{{DIR}}}}/html\n<Proxy \"*\">\nRequire all granted\n</Proxy>\n<Proxy balancer://Group>\nBalancerMember http://{to} loadfactor=2\nProxySet lbmethod=bybusyness\n</Proxy>\nProxyPass /g balancer://group/in\n<Location /l/>\nProxyPass http://{to}/\nProxyPassReverse http://{to}/\nHeader set X-Located yes\n</Location>\nSetEnvIf Request_URI \"^/g/quiet\" Quiet=1\nCustomLog loud.txt \"%U [%{{Quiet}}e]\" env=!Quiet\nCustomLog quiet.txt \"%U [%{{Quiet}}e] %D\" env=Quiet\n"
    );
    let server = start(Builder::new(BIN), &conf);
    for _ in 0..3 {
        assert!(server.get("/g/x").text().starts_with("/in/x "));
        assert!(server.get("/g/quiet").text().starts_with("/in/quiet "));
        let response = server.get("/l/y?z");
        assert!(response.text().starts_with("/y?z "), "{}", response.text());
        assert!(response.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("x-located")));
    }
    // $apache_request_us
    server.wait_for_line("quiet.txt", r"/g/quiet \[1\] (\d*000|0)$");
    server.wait_for_line("loud.txt", r"/l/y \[-\]");
    assert!(!server.read("loud.txt").contains("quiet") && !server.read("quiet.txt").contains("/g/x"));
}
