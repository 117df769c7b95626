//! `.htaccess` and Apache's own files under attack: by who writes files into folders of a site that others share, and by who asks. What is
//! denied is never served, and no request holds a thread up for long.

mod htaccess_attacks {
    mod bodies;
    mod injection;
    mod links;
    mod look_ups;
    mod loops;
    mod pages;
    mod rules;
    mod spelling;
}

use brisk_testkit::{Builder, Client, Server};
use std::process::Command;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// A site where files of folders say all that they may.
const HTTP: &str = r"
    types { text/html html; text/plain txt; text/html shtml; }
    server {
        listen 127.0.0.1:{{PORT}};
        root {{DIR}}/html;
        directory_overrides on;
        location / { }
    }
";

fn site() -> Builder {
    Builder::new(BIN).http(HTTP).file("html/a.txt", "a").file("html/closed/a.txt", "secret")
}

/// A server of Apache's configuration, with these modules behind what every server needs.
fn httpd(mut builder: Builder, modules: &[&str], conf: &str) -> Server {
    let mut text = "ServerRoot {{DIR}}\nPidFile {{DIR}}/brisk.pid\nErrorLog {{DIR}}/error.log\nLogLevel info\nListen 127.0.0.1:{{PORT}}\nServerName a\n".to_string();
    text.extend(modules.iter().map(|module| format!("LoadModule {module}_module x/mod_{module}.so\n")));
    let text = builder.fill(&(text + conf));
    let prepared = builder.conf("").prepare();
    prepared.write("httpd.conf", text);
    let mut command = Command::new(BIN);
    command.args(["httpd", "-DFOREGROUND", "-f"]).arg(prepared.dir().join("httpd.conf"));
    prepared.start_with(command)
}

/// Asks for a target with further fields.
fn ask(client: &mut Client, target: &str, fields: &str) -> brisk_testkit::Response {
    client.request(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
}
