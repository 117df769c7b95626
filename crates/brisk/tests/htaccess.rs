//! `directory_overrides on`: `.htaccess` files, and what becomes of requests for what they are about.

use brisk_testkit::application::Speaks;
use brisk_testkit::calls::Calls;
use brisk_testkit::{Application, Builder, Client, Server, children, scenario};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const HTTP: &str = r#"
    types { text/html html; text/css css; text/plain txt; image/png png; }
    default_type application/octet-stream;
    server {
        listen 127.0.0.1:{{PORT}};
        root {{DIR}}/html;
        directory_overrides on;
        location / { }
        location /off/ { directory_overrides off; }
        location /few/ { directory_overrides on Indexes; }
        location /api/ { return 200 "api"; }
        location ~ ^/expression/(.*)$ { alias {{DIR}}/html/list/$1; }
        location /try/ { try_files $uri $uri.txt $uri.html =404; }
        location /alias/ { alias {{DIR}}/html/list/; }
        location /closed/ { satisfy any; allow 127.0.0.1; deny all; }
    }
"#;

const WORDPRESS: &str = "# BEGIN WordPress
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase /
RewriteRule ^index\\.php$ - [L]
RewriteRule ^index\\.html$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . /index.html [L]
</IfModule>
# END WordPress";

fn site() -> Builder {
    Builder::new(BIN)
        .http(HTTP)
        .file("html/index.html", "front")
        .file("html/a.txt", "text")
        .file("html/dir/a.txt", "in dir")
        .file("html/dir/deep/b.txt", "deep")
        .file("html/list/a.txt", "a")
        .file("html/off/a.txt", "off")
        .file("html/closed/a.txt", "closed")
        .file("html/few/a.txt", "few")
}

#[test]
fn variables_tell_what_was_judged() {
    let server = Builder::new(BIN)
        .http("server { listen 127.0.0.1:{{PORT}}; root {{DIR}}/html; directory_overrides on; add_header X-Judged \"$apache_script_name|$apache_path_info|$apache_proxy_url\" always; add_header X-File $apache_script_filename always; location / { } }")
        .file("html/.htaccess", "AcceptPathInfo On\nFileETag None\nSetOutputFilter DEFLATE\n")
        .file("html/a.txt", "text")
        .start();
    let of = |response: &brisk_testkit::Response, name: &str| {
        let found = response.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or_else(String::new, |(_, value)| value.clone())
    };
    for _ in 0..3 {
        let response = server.client().get("/a.txt/more");
        assert_eq!((response.status, response.text().as_str()), (200, "text"));
        assert_eq!(of(&response, "x-judged"), "/a.txt|/more|");
        assert!(of(&response, "x-file").ends_with("/html/a.txt"), "{}", of(&response, "x-file"));
        assert_eq!(
            (of(&response, "etag"), of(&response, "vary").as_str()),
            (String::new(), "Accept-Encoding")
        );
    }
    // An encoded slash is none where such files hold.
    assert_eq!(server.client().get("/a.txt%2fmore").status, 404);
    assert_eq!(server.client().get("/x/..%2fa.txt").status, 404);
    assert_eq!(server.client().get("/a.txt?%2f").status, 200);
}

/// Puts a file in its place as a whole.
fn put(server: &Server, name: &str, text: &str) {
    let to = server.dir().join(name);
    let beside = PathBuf::from(format!("{}.new", to.display()));
    children::write(&beside, text);
    fs::rename(&beside, &to).expect("our own file");
}

#[test]
fn a_front_controller_gets_what_is_not_there() {
    let server = site().file("html/.htaccess", WORDPRESS).start();
    for _ in 0..4 {
        scenario::run(
            &server,
            r"
== what is there is served
>> GET /a.txt HTTP/1.1
>> Host: a
>>
<< 200
<< = text
== so is what is in folders
>> GET /dir/deep/b.txt HTTP/1.1
>> Host: a
>>
<< 200
<< = deep
== what is not there is the front controller's
>> GET /2024/01/hello-world/?p=1 HTTP/1.1
>> Host: a
>>
<< 200
<< = front
== likewise in a folder that is there
>> GET /dir/none HTTP/1.1
>> Host: a
>>
<< 200
<< = front
== a folder without its slash
>> GET /dir HTTP/1.1
>> Host: a
>>
<< 301
<< Location: http://a.*/dir/
== the file itself is not served
>> GET /.htaccess HTTP/1.1
>> Host: a
>>
<< 403
== nor by a path behind it
>> GET /.htaccess/x HTTP/1.1
>> Host: a
>>
<< 403
== locations without files are left alone
>> GET /api/x HTTP/1.1
>> Host: a
>>
<< 200
<< = api
",
        );
    }
}

/// A front controller's file, and one in each of six folders below, of which the last has `a.txt`.
fn on_seven_levels(site: Builder) -> Builder {
    let mut site = site.file("html/.htaccess", WORDPRESS);
    let mut folder = "html".to_string();
    for level in 1..=6 {
        let _ = write!(folder, "/l{level}");
        site = site.file(&format!("{folder}/.htaccess"), "Options -Indexes\n");
    }
    site.file(&format!("{folder}/a.txt"), "deep")
}

/// What the server asks of the kernel for most of many requests in a row: once in each second it looks at the files besides.
#[test]
fn files_on_seven_levels_add_no_system_call_to_a_hit() {
    const HITS: usize = 200;
    let usual = |overrides: &str| {
        // A line of a log is written before or after the wait for the next request, as it happens.
        let http = format!(
            "server {{ access_log off; listen 127.0.0.1:{{{{PORT}}}}; root {{{{DIR}}}}/html; {overrides} location / {{ }} }}"
        );
        let server = on_seven_levels(Builder::new(BIN).http(&http)).start();
        let mut client = server.client();
        let mut ask = |count: usize| {
            for _ in 0..count {
                assert_eq!(client.get("/l1/l2/l3/l4/l5/l6/a.txt").text(), "deep");
            }
        };
        // Each file is watched from its second look on.
        ask(4);
        let calls = Calls::of(server.worker());
        ask(HITS);
        let turns = calls.turns();
        assert!(turns.first().is_some_and(|(_, count)| *count >= HITS / 2), "{turns:?}");
        turns.into_iter().next()
    };
    let (with, without) = (usual("directory_overrides on;"), usual(""));
    assert_eq!(with.map(|(calls, _)| calls), without.map(|(calls, _)| calls));
}

/// What a front controller's rules read of every request keeps no answer from being prepared.
#[test]
fn files_on_seven_levels_cost_no_prepared_answer() {
    let metrics = "server { listen 127.0.0.1:{{PORT2}}; location / { metrics; } }";
    let server = on_seven_levels(site().http(&format!("{HTTP}{metrics}"))).start();
    let prepared = || {
        let text = Client::connect(server.port_of(2)).get("/").text();
        let line = text.lines().find_map(|line| line.strip_prefix("brisk_prepared_answers_total "));
        line.and_then(|count| count.parse::<u64>().ok()).unwrap_or_else(|| panic!("no count in\n{text}"))
    };
    let mut client = server.client();
    // Each file is watched from its second look on.
    for _ in 0..4 {
        assert_eq!(client.get("/l1/l2/l3/l4/l5/l6/a.txt").text(), "deep");
    }
    let before = prepared();
    for _ in 0..20 {
        assert_eq!(client.get("/l1/l2/l3/l4/l5/l6/a.txt").text(), "deep");
    }
    assert!(prepared() >= before + 18, "{before}, then {}", prepared());
}

#[test]
fn access_is_refused_by_what_files_say() {
    let server = site()
        .file("html/dir/.htaccess", "<Files b.txt>\nRequire all denied\n</Files>\n<FilesMatch \"\\.(ini|log)$\">\nOrder allow,deny\nDeny from all\n</FilesMatch>")
        .file("html/dir/x.ini", "secret")
        .file("html/try/.htaccess", "<Files b.html>\nRequire all denied\n</Files>")
        .file("html/try/a.txt", "a")
        .file("html/try/b.html", "b")
        .file("html/list/.htaccess", "Require all denied")
        .file("html/list/in/a.txt", "in")
        .file("html/off/.htaccess", "Require all denied")
        .file("html/closed/.htaccess", "Require all denied")
        .file("html/few/.htaccess", "Require all denied")
        .start();
    let check = |target: &str, status: u16| {
        for _ in 0..3 {
            assert_eq!(server.client().get(target).status, status, "{target}: {}", server.error_log());
        }
    };
    check("/dir/a.txt", 200);
    check("/dir/deep/b.txt", 403);
    check("/dir/x.ini", 403);
    check("/dir/x.ini/path", 403);
    check("/dir/none.log", 403);
    check("/list/a.txt", 403);
    check("/list", 403);
    check("/list/none/at/all", 403);
    for target in ["/alias/a.txt", "/alias/in/a.txt", "/expression/a.txt", "/expression/in/a.txt"] {
        check(target, 403);
    }
    check("/try/a", 200);
    check("/try/b", 403);
    check("/off/a.txt", 200);
    // What the location allows does not overrule a folder's file.
    check("/closed/a.txt", 403);
    // A line of a class that is not given closes the folder.
    check("/few/a.txt", 500);
    assert!(server.error_log().contains("Require not allowed here in "), "{}", server.error_log());
}

#[test]
fn what_is_not_understood_closes_its_folder() {
    let server = site().start();
    let check = |text: &str, status: u16, log: &str| {
        put(&server, "html/dir/.htaccess", text);
        for target in ["/dir/a.txt", "/dir/deep/b.txt", "/dir/a.txt"] {
            assert_eq!(server.client().get(target).status, status, "{text}: {}", server.error_log());
        }
        assert_eq!(server.client().get("/a.txt").status, 200);
        assert!(server.error_log().contains(log), "{text}: {}", server.error_log());
    };
    check("Header set A b", 200, "");
    check("Require all denied\nNonsense on", 500, "Invalid command 'Nonsense'");
    check("<Files a.txt>\nRequire all denied", 500, "/dir/.htaccess:");
    check("SetInputFilter DEFLATE", 500, "Brisk does not support this directive here (yet)");
    check("RewriteEngine On\nRewriteRule ^ http://b/ [P]", 500, "the flag P asks a back end");
    check("AuthType Form", 500, "Brisk has no \"Form\"");
    check("SecRuleEngine On", 500, "Invalid command 'SecRuleEngine'");
    check("<IfModule mod_security2.c>\nSecRuleEngine On\n</IfModule>", 200, "");
    check("SetOutputFilter SUBSTITUTE", 500, "Brisk has no filter 'substitute'");
    check("<IfFile /etc/passwd>\n</IfFile>", 500, "<IfFile>: Brisk does not support it");
    check("SSLRequireSSL", 403, "is for TLS only");
    // The name of a client that /etc/hosts knows is known.
    check("Require host example.org", 403, "");
    check("RewriteEngine On\nRewriteRule ^(.*)$ x$1", 500, "redirection cycle");
    check("", 200, "");
    let file = server.dir().join("html/dir/.htaccess");
    fs::remove_file(&file).expect("our own file");
    fs::create_dir(&file).expect("our own folder");
    assert_eq!(server.client().get("/dir/a.txt").status, 500);
}

#[test]
fn a_file_of_half_a_megabyte_is_read() {
    let server = site().start();
    let comments = |bytes: usize| "# a line of a comment that says nothing at all\n".repeat(bytes / 47);
    put(&server, "html/dir/.htaccess", &format!("{}Require all denied\n", comments(500 * 1024)));
    for _ in 0..3 {
        assert_eq!(server.client().get("/dir/a.txt").status, 403);
    }
    put(&server, "html/dir/.htaccess", &comments(500 * 1024));
    for _ in 0..3 {
        assert_eq!(server.client().get("/dir/a.txt").status, 200);
    }
    put(&server, "html/dir/.htaccess", &comments(530 * 1024));
    for _ in 0..3 {
        assert_eq!(server.client().get("/dir/a.txt").status, 500);
    }
    assert!(server.error_log().contains("is longer than 524288 bytes"), "{}", server.error_log());
}

const ANSWERS: &str = r"
== fields
>> GET /dir/a.txt HTTP/1.1
>> Host: a
>>
<< 200
<< X-Set: one
<< X-Always: two
<< !ETag
<< !X-If
<< Cache-Control: max-age=3600
<< Content-Type: text/plain; charset=utf-8
== a condition
>> GET /dir/a.txt?x HTTP/1.1
>> Host: a
>>
<< 200
<< X-If: yes
== types
>> GET /dir/b.txt2 HTTP/1.1
>> Host: a
>>
<< 200
<< Content-Type: text/x-own
<< !Expires
== an error has the fields of all answers
>> GET /dir/none HTTP/1.1
>> Host: a
>>
<< 404
<< X-Always: two
<< !X-Set
<< = Not here
== a page of this server
>> GET /dir/a.txt HTTP/1.1
>> Host: a
>> User-Agent: bad bot
>>
<< 403
<< = front
== redirects
>> GET /dir/old/x?y=z HTTP/1.1
>> Host: a
>>
<< 301
<< Location: http://a.*/dir/a.txt/x\?y=z
== gone
>> GET /dir/gone/x HTTP/1.1
>> Host: a
>>
<< 410
== a listing
>> GET /list/ HTTP/1.1
>> Host: a
>>
<< 200
<< ~ a.txt
== the second index file
>> GET /nolist/ HTTP/1.1
>> Host: a
>>
<< 200
<< = second
== no listing
>> GET /dir/deep/ HTTP/1.1
>> Host: a
>>
<< 403
";

#[test]
fn answers_are_changed_by_what_files_say() {
    let server = site()
        .file(
            "html/dir/.htaccess",
            "Header set X-Set one\nHeader always set X-Always two\nHeader unset ETag\nExpiresActive On\nExpiresByType text/plain \"access plus 1 hour\"
AddType text/x-own .txt2\nErrorDocument 404 \"Not here\"\nErrorDocument 403 /index.html\nRedirect 301 /dir/old /dir/a.txt\nRedirectMatch gone ^/dir/gone
SetEnvIf User-Agent bad is_bad\n<RequireAll>\nRequire all granted\nRequire not env is_bad\n</RequireAll>\nAddDefaultCharset utf-8
<If \"%{QUERY_STRING} == 'x'\">\nHeader set X-If yes\n</If>",
        )
        .file("html/dir/b.txt2", "own")
        .file("html/list/.htaccess", "Options +Indexes\nDirectoryIndex none.html\nIndexIgnore *.bak")
        .file("html/list/b.bak", "b")
        .file("html/nolist/.htaccess", "DirectoryIndex first.txt second.txt\nOptions -Indexes")
        .file("html/nolist/second.txt", "second")
        .start();
    scenario::run(&server, ANSWERS);
    assert!(!server.get("/list/").text().contains("b.bak"), "IndexIgnore");
}

#[test]
fn the_source_of_a_script_is_not_served() {
    let server = site()
        .file("html/a.php", "<?php secret")
        .file("html/dir/a.html", "<?php secret")
        .file(
            "html/dir/.htaccess",
            "AddHandler application/x-httpd-php .html\n<Files a.txt>\nSetHandler cgi-script\n</Files>",
        )
        .file("html/list/a.php.png", "<?php secret")
        .file("html/list/b.php", "<?php secret")
        .file("html/list/.htaccess", "AddHandler application/x-httpd-php .php\nAddType text/plain .php")
        .start();
    for target in ["/a.php", "/dir/a.html", "/dir/a.txt", "/list/a.php.png", "/list/b.php"] {
        for _ in 0..2 {
            let response = server.client().get(target);
            assert_eq!(response.status, 500, "{target}: {}", server.error_log());
            assert!(!response.text().contains("secret"), "{target}");
        }
    }
    assert!(server.error_log().contains("its source is not served"), "{}", server.error_log());
}

#[test]
fn nothing_is_listed_that_neither_location_nor_file_lists() {
    let server =
        site().file("html/list/in/a.txt", "a").file("html/list/in/.htaccess", "Header set A b").start();
    for target in ["/dir/", "/dir/deep/", "/list/", "/list/in/"] {
        for _ in 0..2 {
            assert_eq!(server.client().get(target).status, 403, "{target}");
        }
    }
}

#[test]
fn users_log_in() {
    let server = site()
        .file("users", "ann:{PLAIN}right\nbob:$apr1$Zx0Pb/kj$gV2T0hIWJJxFNqbMHpGZD1\n")
        .file("groups", "staff: ann other\n")
        .file("html/dir/.htaccess", "AuthType Basic\nAuthName \"Staff \\\"only\\\"\"\nAuthUserFile {{DIR}}/users\nAuthGroupFile {{DIR}}/groups\nRequire group staff")
        .start();
    let file = server.dir().join("html/dir/.htaccess");
    let text = fs::read_to_string(&file).expect("our own file");
    put(&server, "html/dir/.htaccess", &text.replace("{{DIR}}", &server.dir().display().to_string()));
    scenario::run(
        &server,
        r#"
== nobody
>> GET /dir/a.txt HTTP/1.1
>> Host: a
>>
<< 401
<< WWW-Authenticate: Basic realm="Staff .*
== ann:right
>> GET /dir/a.txt HTTP/1.1
>> Host: a
>> Authorization: Basic YW5uOnJpZ2h0
>>
<< 200
== ann:wrong
>> GET /dir/a.txt HTTP/1.1
>> Host: a
>> Authorization: Basic YW5uOndyb25n
>>
<< 401
== who is not in the file
>> GET /dir/deep/b.txt HTTP/1.1
>> Host: a
>> Authorization: Basic ZXZlOnJpZ2h0
>>
<< 401
"#,
    );
}

/// Edits a file between answers that are prepared and the next request.
fn edited(server: &Server, edit: impl FnOnce(), before: u16, after: u16) {
    // Often enough to be prepared.
    for _ in 0..3 {
        assert_eq!(server.client().get("/dir/deep/b.txt").status, before, "{}", server.error_log());
    }
    edit();
    let status = server.client().get("/dir/deep/b.txt").status;
    assert_eq!(status, after, "the next request: {}", server.error_log());
}

#[test]
fn edits_count_at_the_next_request() {
    let server = site().start();
    let file = server.dir().join("html/dir/.htaccess");
    let real = server.dir().join("html/real");
    fs::create_dir(&real).expect("our own folder");
    let deny = "Require all denied\n";
    for round in 0..8 {
        // Renamed to its place, and deleted.
        edited(&server, || put(&server, "html/dir/.htaccess", deny), 200, 403);
        edited(&server, || fs::remove_file(&file).expect("our own file"), 403, 200);
        // Written in place, truncated, written anew.
        edited(&server, || children::write(&file, deny), 200, 403);
        edited(&server, || children::write(&file, ""), 403, 200);
        edited(&server, || children::write(&file, format!("# {round}\n{deny}")), 200, 403);
        fs::remove_file(&file).expect("our own file");
        // A folder on the way, and one in the place of the file.
        edited(&server, || fs::create_dir(&file).expect("our own folder"), 200, 500);
        edited(&server, || fs::remove_dir(&file).expect("our own folder"), 500, 200);
        // A link that leads elsewhere.
        let (one, two) = (real.join("one"), real.join("two"));
        children::write(&one, deny);
        children::write(&two, "# nothing\n");
        let link = |to: &PathBuf| {
            let beside = server.dir().join("html/dir/link.new");
            std::os::unix::fs::symlink(to, &beside).expect("our own link");
            fs::rename(&beside, &file).expect("our own link");
        };
        edited(&server, || link(&one), 200, 403);
        edited(&server, || link(&two), 403, 200);
        fs::remove_file(&file).expect("our own link");
        assert_eq!(server.client().get("/dir/deep/b.txt").status, 200);
    }
}

#[test]
fn a_file_that_cannot_be_read_refuses() {
    use std::os::unix::fs::PermissionsExt as _;
    let server = site().file("html/dir/.htaccess", "Header set A b\n").start();
    let file = server.dir().join("html/dir/.htaccess");
    let mode = |mode| {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("our own file");
    };
    // Root may read everything; its workers are somebody else.
    let is_root = brisk_testkit::process::is_root();
    for _ in 0..10 {
        edited(&server, || mode(0), 200, 403);
        edited(&server, || mode(0o644), 403, 200);
    }
    assert!(is_root || server.error_log().contains("Permission denied"), "{}", server.error_log());
}

/// An application that answers with the parameters that a site can change.
fn telling() -> Application {
    Application::start(Speaks::FastCgi, 4, |exchange| {
        let names = [
            "SCRIPT_FILENAME",
            "PHP_VALUE",
            "PHP_ADMIN_VALUE",
            "HTTP_COOKIE",
            "HTTP_X_ADDED",
            "HTTP_AUTHORIZATION",
            "APP",
            "OWN",
        ];
        let mut text = "Content-Type: text/plain\r\n\r\n".to_string();
        for name in names {
            for (_, value) in exchange.asked.params.iter().filter(|(known, _)| known == name) {
                let value = value.rsplit('/').next().unwrap_or_default().replace('\n', ",");
                let _ = write!(text, "{name}={value};");
            }
        }
        exchange.stdout(text);
    })
}

#[test]
fn applications_are_told() {
    let application = telling();
    let http = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; root {{{{DIR}}}}/html; directory_overrides on php=@php; fastcgi_param SCRIPT_FILENAME $document_root$uri;
           fastcgi_param PHP_ADMIN_VALUE admin; fastcgi_param OWN configuration;
           location / {{ }} location ~ \\.php$ {{ fastcgi_pass {0}; }} location @php {{ fastcgi_pass {0}; }} }}",
        application.address()
    );
    let lines = "php_value error_log {root}/a.log\nphp_value memory_limit 64M\nphp_flag display_errors off\nphp_value session.save_path /tmp\nphp_value mail.log {root}/../a.log\nSetEnv APP one\nSetEnv OWN two\nSetEnv PHP_ADMIN_VALUE evil\nSetEnv SCRIPT_FILENAME /etc/passwd
AddHandler application/x-httpd-php .html\nRequestHeader unset Cookie\nRequestHeader set X-Added yes\n";
    let builder = Builder::new(BIN).http(&http);
    let root = builder.dir().join("html").display().to_string();
    // PHP-FPM asks no open_basedir about paths outside of the site.
    let server = builder
        .file("html/.htaccess", lines.replace("{root}", &root))
        .file("html/a.php", "<?php")
        .file("html/b.html", "<?php secret")
        .file("html/off/a.php", "<?php secret")
        .file("html/off/.htaccess", "php_flag engine off\n")
        .file("html/auth/.htaccess", "CGIPassAuth Off\n")
        .file("html/auth/a.php", "<?php")
        .file("html/auth/on/.htaccess", "CGIPassAuth On\n")
        .file("html/auth/on/a.php", "<?php")
        .file("html/gone/a.php", "<?php secret")
        .file("html/gone/.htaccess", "RemoveHandler .php\n<Files x>\nSetHandler none\n</Files>\n")
        .file("html/bad/a.php", "<?php secret")
        .file("html/bad/.htaccess", "php_admin_value open_basedir none\n")
        .start();
    let rest = "PHP_ADMIN_VALUE=admin;OWN=configuration;";
    for (target, script) in [("/a.php", "a.php"), ("/b.html", "b.html")] {
        let response =
            server.request(format!("GET {target} HTTP/1.1\r\nHost: a\r\nCookie: a=b\r\nX-Added: no\r\n\r\n"));
        let text = response.text();
        let parts: Vec<&str> = text.split_inclusive(';').collect();
        let has = |part: &str| parts.iter().filter(|have| **have == part).count() == 1;
        assert!(has(&format!("SCRIPT_FILENAME={script};")), "{text}");
        // (It tells of paths what stands behind their last slash.)
        assert!(has("PHP_VALUE=a.log',memory_limit='64M',display_errors='0';"), "{text}");
        assert!(has("HTTP_X_ADDED=yes;") && has("APP=one;") && !text.contains("HTTP_COOKIE"), "{text}");
        assert!(rest.split_inclusive(';').all(has) && !text.contains("evil"), "{text}");
    }
    server.wait_for_log("\"php_value session.save_path\" of a site's file is left out");
    for (target, is_passed) in [("/a.php", true), ("/auth/a.php", false), ("/auth/on/a.php", true)] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YTpi\r\n\r\n");
        let response = server.request(request);
        let text = response.text();
        assert_eq!(text.contains("HTTP_AUTHORIZATION=Basic YTpi;"), is_passed, "{target}: {text}");
    }
    for (target, status) in [("/off/a.php", 403), ("/gone/a.php", 403), ("/bad/a.php", 500)] {
        let response = server.get(target);
        assert_eq!(response.status, status, "{target}");
        assert!(!response.text().contains("secret"), "{target}");
    }
}

#[test]
fn what_rules_make_of_a_request_is_bounded() {
    let double = "RewriteEngine on\n".to_string() + &"RewriteRule ^ - [E=A:x%{ENV:A}%{ENV:A}]\n".repeat(40);
    let set = format!("SetEnvIf Host (.) A=$1\n{}", "SetEnvIf A (.*) A=$1$1$1$1$1$1$1$1$1\n".repeat(40));
    let edit = "Header set X-A x\n".to_string() + &"Header edit* X-A \"x\" \"xx\"\n".repeat(40);
    let request = "RequestHeader set X-A x\n".to_string() + &"RequestHeader edit* X-A x xx\n".repeat(40);
    let files = [
        ("rounds", "RewriteEngine on\nRewriteRule ^ - [N,E=A:%{ENV:A}xxxxxxxxxxxxxxxxxxxx]\n"),
        ("path", "RewriteEngine on\nRewriteRule ^(.*)$ $1x [N]\n"),
        ("cookies", "RewriteEngine on\nRewriteRule ^ - [N=30000,E=A:x%{ENV:A},CO=c%{ENV:A}:v:a.org]\n"),
        (
            "asking",
            "RewriteEngine on\nRewriteCond %{REQUEST_URI}x -U\nRewriteCond %{REQUEST_URI}y -U\nRewriteRule ^ - [E=A:1]\n",
        ),
        ("double", &double),
        ("set", &set),
        ("edit", &edit),
        ("request", &request),
    ];
    let mut site = site().file("html/page/.htaccess", format!("ErrorDocument 500 sorry\n{double}"));
    for (name, text) in files {
        site = site.file(&format!("html/{name}/.htaccess"), text).file(&format!("html/{name}/a.txt"), "text");
    }
    let server = site.file("html/page/a.txt", "text").start();
    for (name, _) in files {
        assert_eq!(server.get(&format!("/{name}/a.txt")).status, 500, "{name}");
    }
    // The page of the error has work of its own.
    let page = server.get("/page/a.txt");
    assert_eq!((page.status, page.text().as_ref()), (500, "sorry"));
    assert_eq!(server.get("/a.txt").status, 200);
}
