//! Pages with commands that `.htaccess` switches on: they show what the client that asks for them may see.

use super::super::{BIN, ask};
use brisk_testkit::Builder;

const HTTP: &str = r"
    types { text/html html shtml; text/plain txt; }
    server {
        listen 127.0.0.1:{{PORT}};
        root {{DIR}}/html;
        directory_overrides on;
        location / { }
        location /inner/ { internal; }
        location /denied/ { deny all; }
        location /users/ { auth_basic users; auth_basic_user_file {{DIR}}/users; }
        location /led/ { error_page 404 = /inner/a.txt; }
        location /trusted/ { ssi on; directory_overrides off; }
    }
";

const ERROR: &str = "[an error occurred while processing this directive]";

fn include(target: &str) -> String {
    format!("<!--#include virtual=\"{target}\" -->")
}

#[test]
fn parts_of_pages_are_judged_as_what_clients_ask_for() {
    let targets = ["/a.txt", "/inner/a.txt", "/denied/a.txt", "/users/a.txt", "/none.txt", "/led/none"];
    let page = targets.map(include).join("|");
    let server = Builder::new(BIN)
        .http(HTTP)
        .file("users", "ann:{PLAIN}secret\n")
        .file("html/a.txt", "open")
        .file("html/inner/a.txt", "inner")
        .file("html/denied/a.txt", "denied")
        .file("html/users/a.txt", "for users")
        .file("html/pages/.htaccess", "Options +Includes\nAddOutputFilter INCLUDES .shtml\n")
        .file("html/pages/a.shtml", &page)
        .file("html/pages/outer.shtml", include("/pages/a.shtml"))
        // The configuration's own pages show what nobody may ask for, as in nginx.
        .file("html/trusted/a.html", include("/inner/a.txt"))
        .start();
    for _ in 0..2 {
        for target in ["/pages/a.shtml", "/pages/outer.shtml"] {
            let wanted = ["open", ERROR, ERROR, ERROR, ERROR, "inner"].join("|");
            assert_eq!(ask(&mut server.client(), target, "").text(), wanted, "{target}");
            let wanted = ["open", ERROR, ERROR, "for users", ERROR, "inner"].join("|");
            let fields = "Authorization: Basic YW5uOnNlY3JldA==\r\n";
            assert_eq!(ask(&mut server.client(), target, fields).text(), wanted, "{target}");
        }
        assert_eq!(ask(&mut server.client(), "/trusted/a.html", "").text(), "inner");
    }
}
