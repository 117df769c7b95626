//! What a newcomer is told: configurations as they are posted with the question what is wrong with them.
//!
//! Each has one message per cause: nginx's first line, the place that the excerpt shows, the remedy.

use crate::check::shown;

/// `text` stands in `http`, whose brace is in line 1; each message is `[level] text`, `LINE:COLUMN`, a part of the help.
#[track_caller]
fn check(text: &str, want: &[(&str, &str, &str)]) {
    check_whole(&format!("events {{}} http {{\n{text}\n}}"), want);
}

#[track_caller]
fn check_whole(text: &str, want: &[(&str, &str, &str)]) {
    let found = shown(text);
    let all = found.join("\n");
    assert_eq!(found.len(), want.len(), "{text}\n{all}");
    for (message, (headline, place, help)) in found.iter().zip(want) {
        let first = message.lines().next().unwrap();
        let is_it =
            first == *headline || first.strip_prefix(headline).is_some_and(|rest| rest.starts_with(" in "));
        assert!(is_it, "{headline}\n{all}");
        let at = format!("--> test.conf:{place}\n");
        assert!(message.contains(&at), "{at}{all}");
        let told = message.split_once("= help: ").map_or("", |(_, told)| told);
        assert!(told.contains(help) && told.is_empty() == help.is_empty(), "{help}\n{all}");
    }
}

#[test]
fn a_missing_semicolon_is_shown_where_it_is_missing() {
    let missing = |line: u32| format!("a \";\" is missing here, at the end of line {line}");
    check(
        "server {\n  root /var/www/html\n  index index.html;\n}",
        &[("[emerg] invalid number of arguments in \"root\" directive", "3:21", &missing(3))],
    );
    check(
        "server {\n  server_name example.com\n  location / { return 200; }\n}",
        &[("[emerg] directive \"server_name\" is not terminated by \";\"", "3:26", &missing(3))],
    );
    check(
        "server {\n  server_name a.com b.com # names\n  root /var/www;\n}",
        &[("[warn] \"root\" is read as a parameter of \"server_name\"", "3:26", &missing(3))],
    );
    check(
        "server { location / {\n  proxy_pass http://127.0.0.1:3000\n} }",
        &[("[emerg] unexpected \"}\"", "3:35", "is missing here, at the end of \"proxy_pass\"")],
    );
    check(
        "server {\n  error_page 404 = /404.html\n  location = /404.html { internal; }\n}",
        &[("[emerg] directive \"error_page\" is not terminated by \";\"", "3:29", &missing(3))],
    );
    check_whole(
        "worker_processes 4\nevents {}\nhttp {}",
        &[("[emerg] directive \"worker_processes\" is not terminated by \";\"", "1:19", &missing(1))],
    );
    check_whole(
        "events {}\nhttp {}\nworker_processes 4\n",
        &[(
            "[emerg] unexpected end of file, expecting \";\" or \"}\"",
            "3:19",
            "\"worker_processes\" lacks its \";\"",
        )],
    );
    check(
        "server { location = /robots.txt { access_log off log_not_found off; } }",
        &[(
            "[emerg] invalid parameter \"log_not_found\"",
            "2:49",
            "is a \";\" missing here, before \"log_not_found\"?",
        )],
    );
}

#[test]
fn braces_are_counted_by_their_indentation() {
    check(
        "  server {\n    location / {\n      root /a;\n\n  }\n  server {\n    location /x { return 200; }\n  }",
        &[(
            "[emerg] unexpected end of file, expecting \"}\"",
            "3:5",
            "the \"}\" in line 6 is an outer block's",
        )],
    );
    check(
        "  server {\n    location / {\n      root /a;\n    }\n    }\n    location /b {\n      root /b;\n    }\n  }",
        &[("[emerg] unexpected \"}\"", "6:5", "closes the block of line 2")],
    );
    check_whole(
        "events {}\nhttp {\nserver {\n}\n",
        &[("[emerg] unexpected end of file, expecting \"}\"", "2:1", "is never closed")],
    );
    check_whole("events {}\n}\nhttp {}\n", &[("[emerg] unexpected \"}\"", "2:1", "no block is open here")]);
}

#[test]
fn a_quote_that_stays_open_is_one_error() {
    check(
        "server {\n  add_header X \"a;\n  location / { return 200 \"ok\"; }\n}",
        &[("[emerg] unexpected \"o\"", "3:16", "is its closing \" missing?")],
    );
    check(
        "server {\n  add_header X 'a;\n}",
        &[("[emerg] unexpected end of file, expecting \";\" or \"}\"", "3:16", "has no closing '")],
    );
}

#[test]
fn one_cause_is_one_error() {
    check(
        "server { listen 8443 ssl; ssl_certificate no.pem; ssl_certificate_key no.key; }",
        &[(
            "[emerg] cannot load certificate \"no.pem\": BIO_new_file() failed (SSL: error:80000002:system library::2: \
             No such file or directory)",
            "2:43",
            "make the file",
        )],
    );
    check(
        "server { limit_req zone=a;\nlocation / { limit_req zone=a; }\nlocation /x { proxy_cache b; proxy_pass http://[::1]; }\n\
         location /y { proxy_cache b; proxy_pass http://[::1]; } }",
        &[
            ("[emerg] zero size shared memory zone \"a\"", "2:20", "limit_req_zone KEY zone=a:10m"),
            ("[emerg] \"proxy_cache\" zone \"b\" is unknown", "4:27", "keys_zone=b:10m"),
        ],
    );
    check(
        "server { set foo bar; return 200 $foo; }",
        &[("[emerg] invalid variable name \"foo\"", "2:14", "begins with \"$\"")],
    );
}

#[test]
fn whoever_does_not_know_how_a_directive_is_written_is_told() {
    check(
        "server { error_page 404 =1000 /a; }",
        &[("[emerg] invalid value \"=1000\"", "2:25", "such as =200")],
    );
    check("server { error_page 404 =+5 /a; }", &[("[emerg] invalid value \"=+5\"", "2:25", "such as =200")]);
    check(
        "server { error_page 600 /a; }",
        &[("[emerg] value \"600\" must be between 300 and 599", "2:21", "gives a page another status")],
    );
    check(
        "userid_mark long;",
        &[(
            "[emerg] \"userid_mark\" directive value must be \"off\" or a single letter, digit or \"=\"",
            "2:13",
            ", such as: userid_mark ",
        )],
    );
    // The long ones are looked up.
    check(
        "server { listen 127.0.0.1:80 bogus; }",
        &[(
            "[emerg] invalid parameter \"bogus\"",
            "2:30",
            "`brisk directives listen` tells how it is written",
        )],
    );
}

#[test]
fn typing_of_other_places_is_recognised() {
    check(
        "server { server_name a.com, b.com; }",
        &[(
            "[warn] the comma is part of \"a.com,\" in \"server_name\" directive",
            "2:22",
            "server_name a.com b.com;",
        )],
    );
    check(
        "server { server_name ~^(a|b){1,2}x$ a; }",
        &[(
            "[emerg] directive \"server_name\" is not terminated by \";\"",
            "2:29",
            "must be quoted: \"~^(a|b){1,2}x$\"",
        )],
    );
    check("server { server_name \"~^a{1,2}$\"; }", &[]);
    check(
        "server { ssl_protocols TLSv1.2, TLSv1.3; }",
        &[("[emerg] invalid value \"TLSv1.2,\"", "2:24", "ssl_protocols TLSv1.2 TLSv1.3;")],
    );
    check(
        "server { allow 10.0.0.1, 10.0.0.2; }",
        &[(
            "[emerg] invalid number of arguments in \"allow\" directive",
            "2:16",
            "allow 10.0.0.1; allow 10.0.0.2;",
        )],
    );
    check(
        "server { add_header X-Frame-Options “SAMEORIGIN”; }",
        &[("[warn] “ in \"add_header\" directive is read as a letter", "2:37", "write \" or '")],
    );
    check(
        "server { return 200 ‘hello world’; }",
        &[("[emerg] invalid number of arguments in \"return\" directive", "2:21", "write \" or '")],
    );
}

#[test]
fn regular_expressions_with_braces_are_quoted() {
    check(
        "server { location ~ ^/[a-z]{2}/(.*)$ { return 200; } }",
        &[("[emerg] unknown directive \"2}/(.*)$\"", "2:28", "must be quoted: \"^/[a-z]{2}/(.*)$\"")],
    );
    check(
        "map $uri $x { ~^/[0-9]{4}$ 1; }",
        &[("[emerg] unexpected \"{\"", "2:23", "must be quoted: \"~^/[0-9]{4}$\"")],
    );
}

#[test]
fn values_and_names_are_written_as_nginx_has_them() {
    check(
        "server { root\u{a0}/var/www; }",
        &[("[emerg] unknown directive \"root\\u{a0}/var/www\"", "2:10", "U+00A0")],
    );
    check(
        "server { add_header S max-age=1; includeSubDomains; }",
        &[("[emerg] unknown directive \"includeSubDomains\"", "2:34", "\"max-age=1; includeSubDomains\"")],
    );
    check("server { listen: 80; }", &[("[emerg] unknown directive \"listen:\"", "2:10", "write \"listen\"")]);
    check(
        "upstream u { server http://127.0.0.1:3000; }",
        &[(
            "[emerg] invalid port in upstream \"http://127.0.0.1:3000\"",
            "2:21",
            "without a scheme: 127.0.0.1:3000",
        )],
    );
    check("server { listen 80 443; }", &[("[emerg] invalid parameter \"443\"", "2:20", "\"listen 443;\"")]);
    check(
        "client_max_body_size 10MB; keepalive_timeout 65 s;",
        &[
            ("[emerg] \"client_max_body_size\" directive invalid value", "2:22", "single letters: 10m"),
            ("[emerg] \"keepalive_timeout\" directive invalid value", "2:46", "65s"),
        ],
    );
    check(
        "server { location / { proxy_pass 127.0.0.1:3000; } }",
        &[("[emerg] invalid URL prefix", "2:34", "http://127.0.0.1:3000")],
    );
}

#[test]
fn conditions_have_one_test() {
    check(
        "server { if ($uri == /a) { return 403; } }",
        &[("[emerg] unexpected \"==\" in condition", "2:19", "the operators are")],
    );
    check(
        "server { if ($uri = /a && $args) { return 403; } }",
        &[("[emerg] invalid condition \"$uri\"", "2:24", "one condition")],
    );
    check(
        "server { if($uri) { return 403; } }",
        &[("[emerg] unknown directive \"if($uri)\"", "2:10", "a space is missing")],
    );
    check(
        "server { if ($args) { return 403; } else { return 200; } }",
        &[("[emerg] unknown directive \"else\"", "2:37", "there is no \"else\"")],
    );
}

#[test]
fn names_of_other_times_and_servers() {
    check("server { ssl on; }", &[("[emerg] unknown directive \"ssl\"", "2:10", "listen 443 ssl;")]);
    check(
        "cache_errors off;",
        &[("[emerg] unknown directive \"cache_errors\"", "2:1", "\"open_file_cache_errors\"?")],
    );
    check(
        "max_body_size 1m;",
        &[("[emerg] unknown directive \"max_body_size\"", "2:1", "\"client_max_body_size\"?")],
    );
    check(
        "server { RewriteEngine On; }",
        &[("[emerg] unknown directive \"RewriteEngine\"", "2:10", "is Apache's")],
    );
    check(
        "Gzip-Types a;",
        &[("[emerg] unknown directive \"Gzip-Types\"", "2:1", "did you mean \"gzip_types\"?")],
    );
    check_whole(
        "<VirtualHost *:80>\n  ServerName a\n  DocumentRoot /var/www\n</VirtualHost>\n",
        &[("[emerg] unexpected end of file, expecting \";\" or \"}\"", "1:1", "configuration of Apache")],
    );
    check_whole(
        "# rules\nRewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^(.*)$ index.php?/$1 [L]\n",
        &[("[emerg] unexpected end of file, expecting \";\" or \"}\"", "2:1", "configuration of Apache")],
    );
    check_whole(
        "example.com {\n  root * /var/www\n  file_server\n}\n",
        &[("[emerg] unexpected \"}\"", "1:1", "Caddyfile")],
    );
    check_whole(
        "server { listen 80; }\n",
        &[("[emerg] \"server\" directive is not allowed here", "1:1", "included in the http block")],
    );
}

#[test]
fn what_web_pages_do_to_configurations() {
    let left_out = "lines that were left out";
    check("server {\n[...]\nlisten 80;\n}", &[("[emerg] unknown directive \"[...]\"", "3:1", left_out)]);
    check(
        "server { ...; location / { … } }",
        &[
            ("[emerg] unknown directive \"...\"", "2:10", left_out),
            ("[emerg] unknown directive \"…\"", "2:28", left_out),
        ],
    );
    let flat = "server { listen 80; # POST requests go to PHP if ($request_method = POST) { set $x 1; } location / { } }";
    check(flat, &[("[emerg] unexpected end of file, expecting \"}\"", "2:21", "is a line break missing?")]);
    // A block that is commented out has its own braces.
    check("#server { listen 80; }\nserver { # { listen 80; }\n}", &[]);
}

#[test]
fn what_does_nothing_is_told() {
    check(
        "aio on;",
        &[(
            "[notice] the \"aio\" directive has no effect here: files that are not in memory are always read by a pool of threads",
            "2:1",
            "",
        )],
    );
    let first =
        |name: &str| format!("[warn] \"{name}\" does nothing beside \"return\": the answer comes first");
    let beside = |text: &str, want: &[(&str, &str, &str)]| {
        check(&format!("server {{ location / {{\n{text}\n}} }}"), want);
    };
    let help = "\"return\" belongs to the rewrite phase";
    beside("allow 10.0.0.1; deny all; return 200 x;", &[(&first("deny"), "3:17", help)]);
    beside("return 301 /x; auth_basic x;", &[(&first("auth_basic"), "3:16", help)]);
    beside(
        "limit_except GET { deny all; } auth_request /x; return 200;",
        &[(&first("auth_request"), "3:32", help)],
    );
    beside("auth_jwt x; return 200;", &[(&first("auth_jwt"), "3:1", help)]);
    // A refusal needs no guard, and a condition leaves something to guard.
    beside("deny all; return 404;", &[]);
    beside("deny all; if ($args) { return 200; }", &[]);
    beside("auth_basic off; return 200;", &[]);
}

/// The rules of a well-known article: what a visitor with a cookie gets is stored for everybody.
#[test]
fn rules_that_leak_pages_are_told_once_and_corrected() {
    let text = "events {} http { fastcgi_cache_path /c keys_zone=m:1m; server { location / {\n\
                set $skip 1; if ($uri = /x) { set $skip 0; }\n\
                fastcgi_cache m; fastcgi_cache_key $uri; fastcgi_pass 127.0.0.1:9;\n\
                fastcgi_cache_bypass $skip; fastcgi_cache_bypass $http_pragma;\n} } }";
    let found = shown(text);
    assert_eq!(found.len(), 1, "{}", found.join("\n"));
    let corrected = "Corrected:\n           fastcgi_cache m;\n           fastcgi_cache_bypass $skip $http_pragma;\n           \
                     fastcgi_no_cache $skip $http_pragma;";
    assert!(found[0].ends_with(corrected), "{}", found[0]);
}

#[test]
fn nothing_in_a_configuration_reaches_the_terminal_as_a_command() {
    let all = shown(
        "events {} http { ro\x1b[2Jot /x; server { server_name \"a\x07\x1b]0;b\"; li\u{202e}sten 80; return 200 $x\u{9b}; } }",
    );
    let text = all.join("\n");
    assert!(all.len() >= 2 && !text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    assert!(text.contains("ro\\x1b[2Jot") && !text.contains('\u{202e}'), "{text}");
}
