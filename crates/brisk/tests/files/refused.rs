//! What must not be served: anything outside the root, anything unreadable, anything that is no regular file.

use crate::BIN;
use brisk_testkit::process::is_root;
use brisk_testkit::{Builder, Client, Server};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

/// Every file outside of `html` holds this word.
const SECRET: &str = "SECRET";

fn guarded() -> Server {
    Builder::new(BIN)
        .http(
            "merge_slashes on;
            server { listen 127.0.0.1:{{PORT}};
                location /a { alias {{DIR}}/html/pub/; }
                location /b { alias {{DIR}}/html/pub; }
                location /c/ { alias {{DIR}}/html/pub/; autoindex on; }
                location ~ ^/r/(.*)$ { alias {{DIR}}/html/pub/$1; }
                location /t/ { try_files $uri $uri/ $arg_f =404; }
                location /u { alias {{DIR}}/html/pub/; try_files $uri $uri/index.html =404; }
            }
            server { listen 127.0.0.1:{{PORT2}}; merge_slashes off;
                location /a { alias {{DIR}}/html/pub/; }
            }",
        )
        .file("secret.txt", SECRET)
        .file("html-secret/secret.txt", SECRET)
        .file("htmlsecret.txt", SECRET)
        .file("html/pubsecret.txt", SECRET)
        .file("html/pub-secret/secret.txt", SECRET)
        .file("html/pub/file.txt", "public")
        .file("html/pub/index.html", "public index")
        .start()
}

/// GET with whatever target; a new connection if this one was closed by the answer.
fn ask(client: &mut Client, port: u16, target: &str) -> (u16, String) {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let response = client.try_response("GET").unwrap_or_else(|failure| panic!("{target}: {failure}"));
    if response.header("Connection") == Some("close") {
        *client = Client::connect(port);
    }
    (response.status, response.text())
}

/// Prefixes × ways to write a step upwards × how many × what is there, on servers with and without `merge_slashes`.
#[test]
fn nothing_leaves_the_root() {
    let server = guarded();
    let ups = [
        "../",
        "..%2f",
        "..%2F",
        "%2e%2e/",
        "%2e%2e%2f",
        ".%2e/",
        "%2e./",
        "..%5c",
        "..\\",
        "..//",
        "./../",
        ".././",
        "%252e%252e/",
        "..%252f",
        "..;/",
        "%c0%ae%c0%ae/",
        "..%00/",
        "....//",
        "..%c0%af",
        "\\../",
        "%2f../",
        "x/../../",
    ];
    let leaves =
        ["secret.txt", "html-secret/secret.txt", "htmlsecret.txt", "pubsecret.txt", "pub-secret/secret.txt"];
    let prefixes = ["/", "//", "/pub/", "/a", "/a/", "/b", "/b/", "/c/", "/r/", "/t/", "/t/?f=", "/u", "/u/"];
    for port in [server.port(), server.port_of(2)] {
        let mut client = Client::connect(port);
        for prefix in prefixes {
            for up in ups {
                for count in 1..=3 {
                    for leaf in leaves {
                        let target = format!("{prefix}{}{leaf}", up.repeat(count));
                        let (status, body) = ask(&mut client, port, &target);
                        // Within the root, dots are resolved: that is no escape.
                        let inside = leaf.starts_with("pub") && !prefix.starts_with("/t/?");
                        assert!(inside || !body.contains(SECRET), "{target} was served: {status}");
                        assert!(matches!(status, 200 | 301 | 400 | 403 | 404), "{target}: {status}");
                    }
                }
            }
        }
    }
}

#[test]
fn names_that_are_no_names() {
    let server = guarded();
    let mut client = server.client();
    let mut check = |target: &str, want: u16| {
        let (status, body) = ask(&mut client, server.port(), target);
        assert_eq!(status, want, "{target}: {body}");
    };
    // RFC 3986 §6.2.2.3: dots are resolved; nginx refuses what climbs over the root.
    check("/..", 400);
    check("/../secret.txt", 400);
    check("/%2e%2e/secret.txt", 400);
    check("/pub/../../secret.txt", 400);
    check("/pub/../pub/file.txt", 200);
    check("/./pub/./file.txt", 200);
    check("//pub///file.txt", 200);
    check("/pub%2ffile.txt", 200);
    check("/pub/file.txt%00", 400);
    check("/pub/file.txt%00.html", 400);
    check("/pub/file.txt%0", 400);
    check("/pub/file.txt%zz", 400);
    check("/pub\\file.txt", 404);
    check("/pub/..\\file.txt", 404);
    check("/pub/file.txt%20", 404);
    check("/pub/file.txt.", 404);
    check("/pub/...", 404);
    check("/pub/..file.txt", 404);
    // An alias with a slash more than its location: what follows the prefix must not climb.
    check("/a../pubsecret.txt", 404);
    check("/b../pubsecret.txt", 404);
    check("/asecret.txt", 404);
    check("/b-secret/secret.txt", 200);
}

#[test]
fn unreadable_files_are_forbidden() {
    assert!(is_root(), "the worker must be another user: run the tests as root");
    let server = guarded();
    let html = server.dir().join("html");
    server.write("html/private/file.txt", "private");
    server.write("html/private/index.html", "private");
    let mut client = server.client();
    assert_eq!(client.get("/private/file.txt").status, 200);
    for (path, mode) in [("private/file.txt", 0o600), ("private", 0o700)] {
        fs::set_permissions(html.join(path), fs::Permissions::from_mode(mode)).expect("our own file");
        assert_eq!(client.get("/private/file.txt").status, 403, "{path}");
    }
    assert_eq!(client.get("/private/").status, 403);
    assert_eq!(client.get("/private/none").status, 403);
    server.wait_for_log(r#"open\(\) ".*/private/file.txt" failed \(13: Permission denied\)"#);
}

/// Opening a pipe or a device can wait forever; nobody may notice that one lies in the root.
#[test]
fn pipes_sockets_and_devices_are_refused_at_once() {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    assert!(is_root(), "only root can make device files: run the tests as root");
    let server = Builder::new(BIN)
        .http("server { listen 127.0.0.1:{{PORT}}; autoindex on; }")
        .file("html/a.txt", "a")
        .start();
    let html = server.dir().join("html");
    let mode = Mode::from_raw_mode(0o666);
    mknodat(CWD, html.join("pipe"), FileType::Fifo, mode, 0).expect("a pipe");
    mknodat(CWD, html.join("device"), FileType::CharacterDevice, mode, makedev(1, 5)).expect("/dev/zero");
    let _socket = UnixListener::bind(html.join("socket")).expect("a socket");
    for name in ["pipe", "device", "socket"] {
        fs::set_permissions(html.join(name), fs::Permissions::from_mode(0o666)).expect("our own file");
    }
    let mut other = server.client();
    for _ in 0..3 {
        for name in ["pipe", "device", "socket"] {
            let start = Instant::now();
            let status = server.get(&format!("/{name}")).status;
            assert!(matches!(status, 403 | 404 | 500), "{name}: {status}");
            assert_eq!(other.get("/a.txt").text(), "a");
            assert!(start.elapsed() < Duration::from_secs(10), "{name} made others wait");
        }
    }
    assert_eq!(server.get("/").status, 200, "the listing names them");
}
