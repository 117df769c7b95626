//! What clients send and rules pass on: into fields of the answer, into requests for back ends, into paths and logs.

use super::super::{ask, httpd, site};
use brisk_testkit::application::Speaks;
use brisk_testkit::{Application, Backend, Builder};
use std::sync::{Arc, Mutex};

/// Line ends as clients can send them.
const ENDS: &[&str] = &[
    "%0d%0aInjected:%20yes",
    "%0aInjected:%20yes",
    "%0dInjected:%20yes",
    "x%0d%0a%0d%0a<b>Injected</b>",
    "%E5%98%8A%E5%98%8DInjected:%20yes",
    "%00%0d%0aInjected:%20yes",
];

#[test]
fn a_line_end_makes_no_field() {
    let rules = "RewriteEngine on
RewriteRule ^env/(.*)$ - [E=V:$1,CO=c:$1:a.example]
RewriteCond %{QUERY_STRING} ^(.*)$
RewriteRule ^query$ - [E=V:%1,CO=c:%1:a.example]
RewriteRule ^to/(.*)$ http://b.example/$1 [R]
RewriteRule ^raw/(.*)$ http://b.example/$1 [R,NE]
RewriteRule ^host/(.*)$ http://%{HTTP:X-V}/ [R,NE]
RewriteRule ^back/(.*)$ /a.txt/$1?v=$1 [R,B]
RewriteRule ^cookie/(.*)$ - [CO=;c;$1;a.example]
RewriteRule ^type/(.*)$ /a.txt [T=$1]
SetEnvIf Request_URI \"^(.*)$\" U=$1
SetEnvIf X-V \"^(.*)$\" W=$1
Header set X-V \"%{V}e\" env=V
Header set X-U \"%{U}e\"
Header always set X-W \"expr=%{HTTP:X-V}\"
Header append X-W \"%{W}e\"
Header edit X-U \"^(.*)$\" \"$1 %{REQUEST_URI}e\"
Header echo ^X-V$
Header add X-Q \"expr=q%{unescape:%{QUERY_STRING}}\"
Header merge X-Q \"expr=%{REQUEST_URI}\"
RedirectMatch ^/moved/(.*)$ http://b.example/$1
RedirectMatch 410 ^/gone/(.*)$
ErrorDocument 404 \"nothing\"
";
    let server = site().file("html/.htaccess", rules).start();
    for end in ENDS {
        for target in [
            format!("/env/{end}"),
            format!("/query?{end}"),
            format!("/to/{end}"),
            format!("/raw/{end}"),
            format!("/host/{end}"),
            format!("/back/{end}"),
            format!("/cookie/{end}"),
            format!("/type/{end}"),
            format!("/moved/{end}"),
            format!("/gone/{end}"),
            format!("/none/{end}?{end}"),
            format!("/a.txt?{end}"),
        ] {
            for fields in ["", "X-V: a%0d%0aInjected: yes\r\n", "X-V: a\tb\r\n"] {
                // The client is strict: a field with a bare line end would be no answer at all.
                let answer = ask(&mut server.client(), &target, fields);
                let injected = answer.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("injected"));
                assert!(injected.is_none(), "{target}: {:?}", answer.headers);
                assert!(!answer.text().starts_with("<b>"), "{target}");
                for (name, value) in &answer.headers {
                    let is_bare = |byte: u8| matches!(byte, b'\r' | b'\n' | 0);
                    assert!(!value.bytes().any(is_bare), "{target}: {name}: {value:?}");
                }
            }
        }
    }
    // A line of the log is one line, whatever stood in the path.
    let log = server.error_log();
    assert!(!log.lines().any(|line| line.starts_with("Injected")), "{log}");
}

/// Line ends, further fields and further requests for a back end by the flag P and by `ProxyPass`.
#[test]
fn a_line_end_makes_no_request_for_a_back_end() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = seen.clone();
    let backend = Backend::start(move |mut peer| {
        while let Some(head) = peer.head() {
            kept.lock().unwrap().push(head);
            if !peer.answer("back") {
                break;
            }
        }
    });
    let to = format!("http://127.0.0.1:{}", backend.port());
    let conf = format!(
        "DocumentRoot {{{{DIR}}}}/html\nRewriteEngine on\nRewriteRule ^/p/(.*)$ {to}/$1 [P]\nRewriteRule ^/n/(.*)$ {to}/$1 [P,NE]\nRewriteCond %{{QUERY_STRING}} ^(.*)$\nRewriteRule ^/q$ {to}/?%1 [P,NE]\nProxyPass /pass {to}/in\nProxyPassMatch ^/match/(.*)$ {to}/$1\nSetEnvIf Request_URI \"^(.*)$\" U=$1\nRequestHeader set X-U \"%{{U}}e\"\nRequestHeader set X-V \"expr=%{{unescape:%{{QUERY_STRING}}}}\"\n"
    );
    let modules = ["rewrite", "headers", "setenvif", "proxy", "proxy_http"];
    let server = httpd(Builder::new(super::super::BIN).file("html/a.txt", "a"), &modules, &conf);
    for end in ENDS {
        for start in ["/p/", "/n/", "/q?", "/pass/", "/match/", "/p/x%20HTTP/1.1", "/n/x%20HTTP/1.1"] {
            let answer = ask(&mut server.client(), &format!("{start}{end}"), "");
            assert!(answer.status < 600);
        }
    }
    let seen = seen.lock().unwrap();
    assert!(!seen.is_empty(), "{}", server.error_log());
    for head in seen.iter() {
        let mut lines = head.lines();
        assert_eq!(lines.next().unwrap_or_default().split(' ').count(), 3, "{head:?}");
        assert!(!lines.any(|line| line.starts_with("Injected")), "{head:?}");
        assert!(!head.replace("\r\n", "").contains(['\r', '\n', '\0']), "{head:?}");
    }
}

/// PHP takes settings from a parameter with lines, and trusts names that begin with `HTTP_`, `PHP_` and `SCRIPT_`.
#[test]
fn what_is_sent_sets_no_parameter_of_php() {
    let application = Application::start(Speaks::FastCgi, 4, |exchange| {
        let told: Vec<String> =
            exchange.asked.params.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
        exchange.stdout(format!("Content-Type: text/plain\r\n\r\n{}", told.join("\n")));
    });
    let http = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; root {{{{DIR}}}}/html; directory_overrides on; location / {{ }}
          location ~ \\.php$ {{ fastcgi_pass {}; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_param QUERY_STRING $query_string; }} }}",
        application.address()
    );
    let rules = "RewriteEngine on
RewriteCond %{QUERY_STRING} ^n=([^&]*)&v=(.*)$
RewriteRule ^ - [E=%1:%2]
RewriteCond %{HTTP:X-V} ^(.+)$
RewriteRule ^ - [E=PHP_VALUE:%1,E=php_admin_value:%1,E=SCRIPT_FILENAME:%1,E=DOCUMENT_ROOT:%1]
SetEnvIf X-V \"^(.+)$\" PHP_ADMIN_VALUE=$1 PHP_VALUE=$1 SCRIPT_FILENAME=$1
php_value memory_limit 64M
";
    let server = Builder::new(super::super::BIN)
        .http(&http)
        .file("html/a.php", "<?php")
        .file("html/other.php", "<?php")
        .file("html/.htaccess", rules)
        .start();
    let evil = "X-V: auto_prepend_file=/etc/passwd\r\n";
    for target in [
        "/a.php",
        "/a.php?n=PHP_VALUE&v=auto_prepend_file=/etc/passwd",
        "/a.php?n=PHP_ADMIN_VALUE&v=auto_prepend_file=/etc/passwd",
        "/a.php?n=SCRIPT_FILENAME&v=/etc/passwd",
        "/a.php?n=script_filename&v=/etc/passwd",
    ] {
        for fields in ["", evil] {
            let answer = ask(&mut server.client(), target, fields);
            assert_eq!(answer.status, 200, "{target}: {}", server.error_log());
            let text = answer.text();
            let of = |name: &str| -> Vec<String> {
                let wanted = |line: &&str| {
                    line.split('=').next().is_some_and(|found| found.eq_ignore_ascii_case(name))
                };
                text.lines().filter(wanted).map(str::to_string).collect()
            };
            assert!(of("PHP_VALUE").iter().all(|line| line == "PHP_VALUE=\"memory_limit='64M'\""), "{text}");
            assert!(of("PHP_ADMIN_VALUE").is_empty(), "{text}");
            let scripts = of("SCRIPT_FILENAME");
            assert!(scripts.len() == 1 && scripts[0].ends_with("/html/a.php\""), "{text}");
        }
    }
}

/// Paths that rules make of what was sent: none leads where no request could.
#[test]
fn what_is_sent_leads_to_no_other_file() {
    let rules = "RewriteEngine on
SetEnvIf X-V \"^(.*)$\" V=$1
RewriteRule ^env$ %{ENV:V} [L]
RewriteRule ^below$ /closed%{ENV:V} [L]
RewriteRule ^in/(.*)$ $1/a.txt [L]
RewriteRule ^end/(.*)$ /$1 [END]
RewriteCond %{HTTP:X-V} ^(.+)$
RewriteRule ^field$ %1 [L]
RewriteCond %{DOCUMENT_ROOT}%{HTTP:X-V} -f
RewriteRule ^tested$ %{DOCUMENT_ROOT}%{HTTP:X-V} [L]
RewriteRule ^trusted$ %{DOCUMENT_ROOT}%{HTTP:X-V} [L,UnsafePrefixStat]
";
    let server = site()
        .file("outside.txt", "secret")
        .file("html/.htaccess", rules)
        .file("html/.htpasswd", "secret")
        .file("html/closed/.htaccess", "Require all denied\n")
        .start();
    let dir = server.dir().display().to_string();
    let values = [
        "/etc/passwd".to_string(),
        "//etc/passwd".into(),
        format!("{dir}/outside.txt"),
        format!("{dir}/html/closed/a.txt"),
        "/../outside.txt".into(),
        "/..//outside.txt".into(),
        "/closed/a.txt".into(),
        "//closed//a.txt".into(),
        "/./closed/./a.txt".into(),
        "/x/../closed/a.txt".into(),
        "/.htaccess".into(),
        "/.htpasswd".into(),
        "/closed/%61.txt".into(),
        "/a.txt".into(),
    ];
    for value in &values {
        for target in ["/env", "/below", "/field", "/tested", "/trusted"] {
            let answer = ask(&mut server.client(), target, &format!("X-V: {value}\r\n"));
            let text = answer.text();
            let is_open = text.contains("secret") || text.contains("root:") || text.contains("RewriteRule");
            assert!(!is_open, "{target} {value}: {} {text}", answer.status);
        }
        for start in ["/in/", "/end/"] {
            let target = format!("{start}{}", value.replace("..", "%2e%2e").replace("/%2e", "%2f%2e"));
            let text = ask(&mut server.client(), &target, "").text();
            assert!(!text.contains("secret") && !text.contains("root:"), "{target}: {text}");
        }
    }
    assert_eq!(ask(&mut server.client(), "/field", "X-V: /a.txt\r\n").text(), "a");
}
