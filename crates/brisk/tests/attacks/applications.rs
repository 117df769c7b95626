//! FastCGI, SCGI and uwsgi: what applications are told, and hostile ones.

use super::BIN;
use brisk_testkit::application::Speaks;
use brisk_testkit::{Application, Backend, Builder, Server};
use std::fmt::Write as _;

/// An application that answers with its parameters, one per line.
fn telling() -> Application {
    Application::start(Speaks::FastCgi, 2, |exchange| {
        let mut text = String::from("Content-Type: text/plain\r\n\r\n");
        for (name, value) in &exchange.asked.params {
            let _ = writeln!(text, "{name}={}", value.escape_debug());
        }
        exchange.stdout(text);
    })
}

fn php(application: &Application) -> Server {
    let conf = format!(
        r"server {{ listen 127.0.0.1:{{{{PORT}}}}; root /srv/app;
             location ~ [^/]\.php(/|$) {{ fastcgi_split_path_info ^(.+?\.php)(/.*)$; fastcgi_pass {};
                 fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_param PATH_INFO $fastcgi_path_info; }}
             location / {{ return 404; }} }}",
        application.address()
    );
    Builder::new(BIN).http(&conf).start()
}

#[test]
fn a_line_feed_in_the_path_of_a_script() {
    let application = telling();
    let server = php(&application);
    // PHP-FPM wrote before the start of its buffer where PATH_INFO was empty because `.` did not match the line feed.
    for target in ["/index.php/PHP%0Ais_the_shit", "/index.php%0a/x", "/index.php/%0a.php"] {
        let text = server.get(target).text();
        let path_info = text.lines().find(|line| line.starts_with("PATH_INFO=")).unwrap_or("PATH_INFO=");
        let script = text.lines().find(|line| line.starts_with("SCRIPT_FILENAME=")).unwrap_or_default();
        assert!(path_info == "PATH_INFO=" || path_info.starts_with("PATH_INFO=/"), "{target}: {text}");
        assert!(!script.contains('\r') && !text.contains("HTTP_X_INJECTED"), "{target}: {text}");
    }
}

#[test]
fn scripts_whose_names_only_look_alike() {
    let application = telling();
    let server = php(&application);
    // Letters whose lower-case form has another length; a full-width full stop; a NUL before the ending.
    for target in [
        "/uploads/%C8%BA.txt.php.txt",
        "/%C4%B0.txt.php",
        "/a.txt%EF%BC%8Ephp",
        "/a.txt%00.php",
        "/a.ph%C5%BF",
        "/a.PHP",
    ] {
        let response = server.get(target);
        let text = response.text();
        let script = text.lines().find(|line| line.starts_with("SCRIPT_FILENAME=")).unwrap_or_default();
        assert!(script.is_empty() || script.as_bytes().ends_with(b".php"), "{target}: {text}");
    }
}

#[test]
fn a_proxy_for_the_application() {
    let application = telling();
    let server = php(&application);
    let response =
        server.request("GET /a.php HTTP/1.1\r\nHost: a\r\nProxy: http://evil/\r\nConnection: close\r\n\r\n");
    assert!(!response.text().contains("HTTP_PROXY"), "{}", response.text());
}

#[test]
fn identities_in_other_spellings() {
    let application = telling();
    let server = php(&application);
    let response = server.request(
        "GET /a.php HTTP/1.1\r\nHost: a\r\nRemote_User: admin\r\nRemote-Groups: real\r\nRemote_Groups: admin\r\nConnection: close\r\n\r\n",
    );
    let text = response.text();
    assert!(!text.contains("admin") && text.contains("HTTP_REMOTE_GROUPS=real"), "{text}");
}

/// What a client gets from a server whose application says these bytes after its request.
fn said(prefix: &str, bytes: Vec<u8>) -> (u16, String) {
    let backend = Backend::start(move |mut peer| {
        peer.some();
        peer.send(&bytes);
    });
    let conf = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; location / {{ {prefix}_pass 127.0.0.1:{}; {prefix}_read_timeout 5s; }} location = /who {{ return 200 who; }} }}",
        backend.port()
    );
    let server = Builder::new(BIN).http(&conf).start();
    let mut client = server.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let got =
        client.try_response("GET").map_or((0, String::new()), |response| (response.status, response.text()));
    assert_eq!(server.get("/who").text(), "who");
    got
}

/// A record of FastCGI.
fn record(kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
    let mut out = vec![1, kind];
    out.extend(id.to_be_bytes());
    out.extend((content.len() as u16).to_be_bytes());
    out.extend([padding, 0]);
    out.extend_from_slice(content);
    out.resize(out.len() + padding as usize, 0);
    out
}

#[test]
fn a_record_of_the_largest_size() {
    // HAProxy's count of content and padding was one byte too small for their sum.
    let inner = record(6, 1, b"Status: 200\r\n\r\nsmuggled", 0);
    let mut content = b"Content-Type: text/plain\r\n\r\n".to_vec();
    content.resize(65_535 - inner.len(), b'x');
    content.extend(&inner);
    let mut bytes = record(6, 1, &content, 255);
    bytes.extend(record(3, 1, &[0; 8], 0));
    let (status, text) = said("fastcgi", bytes);
    assert_eq!((status, text.len()), (200, 65_535 - 28));
}

#[test]
fn records_that_are_none() {
    let ok = b"Content-Type: text/plain\r\n\r\nhello";
    for bytes in [
        record(6, 2, ok, 0),
        record(6, 0, ok, 0),
        record(99, 1, ok, 0),
        record(3, 1, &[0; 3], 0),
        record(6, 1, b"", 0),
        [&[2][..], &record(6, 1, ok, 0)[1..]].concat(),
        record(6, 1, ok, 0)[..20].to_vec(),
        vec![0; 4000],
        vec![0xff; 4000],
        record(7, 1, &vec![b'e'; 60_000], 7).repeat(30),
    ] {
        let (status, text) = said("fastcgi", bytes.clone());
        assert!(
            matches!(status, 0 | 502) && !text.contains("hello"),
            "{status} {text} for {:?}",
            &bytes[..bytes.len().min(40)]
        );
    }
}

#[test]
fn status_lines_that_are_cut_short() {
    for prefix in ["scgi", "uwsgi"] {
        for bytes in [
            &b"HTTP/1.1 2"[..],
            b"HTTP/1.1",
            b"H",
            b"",
            b"\r\n",
            b"Status:\r\n\r\nx",
            b"Status: \r\n\r\nx",
            b"Status: 9999999999\r\n\r\nx",
            b"HTTP/1.1 200",
            b"HTTP/1.1 200 OK\r\nX",
            b"\0\0\0\0",
        ] {
            let (status, text) = said(prefix, bytes.to_vec());
            assert!(matches!(status, 0 | 200 | 502), "{prefix} {bytes:?}: {status}");
            assert!(text.is_empty() || text == "x" || status == 502, "{prefix} {bytes:?}: {text:?}");
        }
    }
}
