//! Answers of applications that are stored.

use super::{BIN, prefix};
use brisk_testkit::application::Speaks;
use brisk_testkit::{Application, Builder, wait};

#[test]
fn answers_of_all_protocols_are_stored_and_purged() {
    for speaks in [Speaks::FastCgi, Speaks::Scgi, Speaks::Uwsgi] {
        let app = Application::start(speaks, 4, |exchange| {
            let number = exchange.asked.request;
            let method = exchange.asked.param("REQUEST_METHOD").to_string();
            exchange.stdout(format!("Cache-Control: max-age=600\r\nCache-Tag: all\r\n\r\n{number} {method}"));
        });
        let name = prefix(speaks);
        let http = format!(
            "NAME_cache_path {{{{DIR}}}}/cache levels=1:2 keys_zone=one:1m;
             map $request_method $purges {{ PURGE 1; default 0; }}
             server {{ listen 127.0.0.1:{{{{PORT}}}};
                 location / {{ NAME_pass {}; NAME_param REQUEST_METHOD $request_method;
                     NAME_cache one; NAME_cache_key $uri; NAME_cache_purge $purges; NAME_cache_bypass $arg_new;
                     NAME_no_cache $arg_new $cookie_user;
                     add_header X-Cache $upstream_cache_status; }} }}",
            app.address()
        );
        let server = Builder::new(BIN).main("user root;").http(&http.replace("NAME", name)).start();
        let ask = |method: &str, target: &str| {
            let answer =
                server.request(format!("{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
            let said = answer.header("X-Cache").unwrap_or_default().to_string();
            // An application's answers are the server's own.
            assert!(answer.header("Date").is_some() && answer.header("Server").is_some(), "{name} {method}");
            (answer.status, answer.text(), said)
        };
        let page = |text: &str, said: &str| (200, text.to_string(), said.to_string());
        assert_eq!(ask("GET", "/a"), page("1 GET", "MISS"), "{name}");
        assert_eq!(ask("GET", "/a"), page("1 GET", "HIT"), "{name}");
        assert_eq!(ask("GET", "/a?new=1"), page("2 GET", "BYPASS"), "{name}");
        assert_eq!(ask("GET", "/a"), page("1 GET", "HIT"), "{name}");
        assert_eq!((ask("PURGE", "/a").0, ask("PURGE", "/a").0), (204, 404), "{name}");
        assert_eq!(ask("GET", "/a"), page("3 GET", "MISS"), "{name}");
    }
}

/// A page that is renewed in the background is asked for as the client's request is: without what a folder's file has taken from it.
#[test]
fn a_page_is_renewed_under_the_rules_of_its_folder() {
    let app = Application::start(Speaks::FastCgi, 4, |exchange| {
        let told = ["APP", "HTTP_COOKIE", "SCRIPT"].map(|name| exchange.asked.param(name).to_string());
        let number = exchange.asked.request;
        exchange.stdout(format!("Content-Type: text/plain\r\n\r\n{number} {}", told.join("|")));
    });
    let http = format!(
        "fastcgi_cache_path {{{{DIR}}}}/cache keys_zone=one:1m;
         server {{ listen 127.0.0.1:{{{{PORT}}}}; root {{{{DIR}}}}/html; directory_overrides on;
             location ~ \\.php$ {{ fastcgi_pass {}; fastcgi_param SCRIPT $apache_script_filename; fastcgi_cache one;
                 fastcgi_cache_key $uri; fastcgi_cache_valid 200 1s; fastcgi_cache_use_stale updating;
                 fastcgi_cache_background_update on; }} }}",
        app.address()
    );
    let server = Builder::new(BIN)
        .main("user root;")
        .http(&http)
        .file("html/a.php", "<?php")
        .file("html/.htaccess", "RequestHeader unset Cookie\nSetEnv APP staging\n")
        .start();
    let script = server.dir().join("html/a.php").display().to_string();
    wait::holds("the page to be renewed twice", || {
        let answer = server.request("GET /a.php HTTP/1.1\r\nHost: a\r\nCookie: user=alice\r\n\r\n");
        let text = answer.text();
        let (number, told) = text.split_once(' ').unwrap();
        assert_eq!((answer.status, told), (200, format!("staging||{script}").as_str()));
        number.parse::<u32>().unwrap() >= 3
    });
}
