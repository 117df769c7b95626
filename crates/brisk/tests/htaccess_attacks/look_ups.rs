//! Whoever writes a `.htaccess` may ask how other requests would be answered (`-U`, `-F`, `LA-U`). The answer is all that the request that
//! asks gets of them.

use crate::{BIN, ask};
use brisk_testkit::{Builder, Server};

const HTTP: &str = r#"
    types { text/plain txt; }
    map $uri $realm { ~^/private/ closed; default off; }
    limit_req_zone $server_port zone=one:32k rate=1r/m;
    limit_req_zone $server_port zone=other:32k rate=1r/m;
    limit_req_zone $server_port zone=many:32k rate=1000r/s;
    limit_conn_zone $server_port zone=places:32k;
    server {
        listen 127.0.0.1:{{PORT}};
        root {{DIR}}/html;
        directory_overrides on;
        auth_basic_user_file {{DIR}}/users;
        add_header X-Known "$set|$told|$remote_addr|$limit_req_status|$limit_conn_status" always;
        location /private/ { auth_basic $realm; }
        location /plain/ { }
        location /counting/ { }
        location /counted/ { limit_req zone=one; }
        location /limited/ { limit_req zone=other; }
        location /asked/ {
            set $set asked;
            auth_basic $realm;
            auth_request /yes;
            auth_request_set $told asked;
            set_real_ip_from 127.0.0.1;
            limit_req zone=many burst=100 nodelay;
            limit_conn places 100;
        }
        location = /yes { return 204; }
    }
"#;

/// A site with folders that ask for another one before a request for them is judged.
fn asking() -> Server {
    let mut builder = Builder::new(BIN).http(HTTP).file("users", "ann:{PLAIN}right\n");
    for folder in ["private", "plain", "counting", "limited", "counted", "asked"] {
        builder = builder.file(&format!("html/{folder}/a.txt"), "secret");
    }
    for (folder, target) in
        [("private", "asked"), ("plain", "asked"), ("limited", "asked"), ("counting", "counted")]
    {
        let lines = format!("<If \"-U '/{target}/a.txt'\">\nHeader set X-Open yes\n</If>\n");
        builder = builder.file(&format!("html/{folder}/.htaccess"), lines);
    }
    builder.start()
}

/// Its status, and whether its rules have found the other request to be open.
fn asked(server: &Server, target: &str, fields: &str) -> (u16, bool) {
    let answer = ask(&mut server.client(), target, fields);
    (answer.status, answer.header("X-Open") == Some("yes"))
}

/// A `map` of the URI is kept for a request: that of the look-up's URI must not be kept for its asker.
#[test]
fn a_look_up_opens_nothing_for_its_asker() {
    let server = asking();
    for _ in 0..2 {
        assert_eq!(asked(&server, "/private/a.txt", "").0, 401, "{}", server.error_log());
        let login = "Authorization: Basic YW5uOnJpZ2h0\r\n";
        assert_eq!(asked(&server, "/private/a.txt", login), (200, true), "{}", server.error_log());
    }
}

#[test]
fn a_look_up_leaves_its_asker_as_it_was() {
    let server = asking();
    let answer = ask(&mut server.client(), "/plain/a.txt", "X-Real-IP: 192.0.2.1\r\n");
    assert_eq!((answer.status, answer.header("X-Open")), (200, Some("yes")), "{}", server.error_log());
    assert_eq!(answer.header("X-Known"), Some("||127.0.0.1||"));
}

#[test]
fn a_look_up_is_not_counted() {
    let server = asking();
    for _ in 0..3 {
        assert_eq!(asked(&server, "/counting/a.txt", ""), (200, true), "{}", server.error_log());
    }
    let statuses = [0; 2].map(|_| asked(&server, "/counted/a.txt", "").0);
    assert_eq!(statuses, [200, 503]);
    // What lets the other request in does not let this one in.
    let statuses = [0; 2].map(|_| asked(&server, "/limited/a.txt", "").0);
    assert_eq!(statuses, [200, 503]);
}
