//! Passwords and tokens, forged log lines, ranges, images.

use super::{BIN, site};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use brisk_testkit::{Builder, Server};

fn ask(server: &Server, target: &str, authorization: &str) -> u16 {
    server
        .request(format!(
            "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: {authorization}\r\n\r\n"
        ))
        .status
}

#[test]
fn passwords_that_are_malformed() {
    let server = Builder::new(BIN)
        .http("server { listen 127.0.0.1:{{PORT}}; location / { auth_basic x; auth_basic_user_file {{DIR}}/users; } }")
        .file("users", "user:{PLAIN}right\nempty:\nstar:*\nodd:{PLAIN}\n")
        .file("html/index.html", "secret")
        .start();
    let basic = |text: &[u8]| format!("Basic {}", STANDARD.encode(text));
    assert_eq!(ask(&server, "/", &basic(b"user:right")), 200);
    for text in [
        &b"user:"[..],
        b"user",
        b":",
        b"",
        b"empty:",
        b"star:*",
        b"star:",
        b"user:right\0",
        b"user:rightx",
        b"user\n:right",
        b"\xff:right",
        b"user:right\n",
    ] {
        assert_eq!(ask(&server, "/", &basic(text)), 401, "{text:?}");
    }
    for value in ["Basic", "Basic ", "Basic !!!!", "Basic dXNlcjpyaWdodA", "Bearer dXNlcjpyaWdodA==", "basic"]
    {
        let status = ask(&server, "/", value);
        assert!(status == 401 || value.ends_with("dA"), "{value}: {status}");
    }
}

#[test]
fn tokens_that_name_their_own_rules() {
    let key = URL_SAFE_NO_PAD.encode(b"0123456789abcdef0123456789abcdef");
    let server = Builder::new(BIN)
        .http("server { listen 127.0.0.1:{{PORT}}; location / { auth_jwt x; auth_jwt_key_file {{DIR}}/keys; } }")
        .file("keys", format!(r#"{{"keys":[{{"kty":"oct","alg":"HS256","kid":"1","k":"{key}"}}]}}"#))
        .file("html/index.html", "secret")
        .start();
    let token = |head: &str, claims: &str, signature: &str| {
        format!("Bearer {}.{}.{signature}", URL_SAFE_NO_PAD.encode(head), URL_SAFE_NO_PAD.encode(claims))
    };
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    for head in [
        r#"{"alg":"none"}"#,
        r#"{"alg":"None"}"#,
        r#"{"alg":"nOnE","kid":"1"}"#,
        r#"{"alg":"HS256","kid":"../../keys"}"#,
        r#"{"alg":"RS256","kid":"1"}"#,
        r#"{"alg":"HS256","jwk":{"kty":"oct","k":"AAAA"}}"#,
        r#"{"alg":"HS256","crit":["x"],"x":1}"#,
        r#"{"alg":"HS256","alg":"none"}"#,
        "{}",
        "",
        "[]",
        "null",
    ] {
        for signature in ["", "AAAA", "."] {
            assert_eq!(ask(&server, "/", &token(head, r#"{"sub":"x"}"#, signature)), 401, "{head}");
        }
    }
    let status = ask(&server, "/", &token(r#"{"alg":"HS256"}"#, &deep[..20_000], "AAAA"));
    assert!(matches!(status, 400 | 401), "{status}");
    for value in ["Bearer", "Bearer ", "Bearer ...", "Bearer a.b", "Bearer a.b.c.d.e"] {
        assert_eq!(ask(&server, "/", value), 401, "{value}");
    }
}

#[test]
fn lines_that_are_forged_in_logs() {
    let site = site("");
    let mut client = site.server.client();
    client.send("GET /who?%0d%0a127.0.0.1 HTTP/1.1\r\nHost: a\r\nUser-Agent: x\" 200 1 \"-\" \"\x1b[31mforged\r\nReferer: \\\"\r\nConnection: close\r\n\r\n");
    let _ = client.try_response("GET");
    site.statuses("GET /files/%0a%1b[2Jforged HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    site.server.wait_for_log("forged");
    for log in [site.server.access_log(), site.server.error_log()] {
        assert!(!log.contains('\x1b'), "{log}");
        assert!(
            log.lines().all(|line| !line.starts_with("127.0.0.1 HTTP") && !line.contains("forged")
                || line.contains("127.0.0.1")),
            "{log}"
        );
    }
}

#[test]
fn ranges_that_overlap_or_overflow() {
    let site = site("");
    let many = vec!["0-"; 1300].join(",");
    for range in [
        "-9223372036854775608",
        "0-,9223372036854775807-",
        "-1,-9223372036854775807",
        "0-18446744073709551616",
        "5-1",
        "a-b",
        "-0",
        many.as_str(),
        "0-0,1-1,0-0,1-1,0-0,1-1",
    ] {
        let mut client = site.server.client();
        client.send(format!(
            "GET /files/a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\nRange: bytes={range}\r\n\r\n"
        ));
        let response = client.response();
        assert!(matches!(response.status, 200 | 206 | 416), "{range}: {}", response.status);
        assert!(response.body.len() < 1000, "{range}: {} bytes", response.body.len());
    }
}

#[test]
fn images_that_are_larger_than_their_files() {
    // A PNG that says 65000 x 65000, a GIF and a WebP cut short.
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\xfd\xe8\0\0\xfd\xe8\x08\x06\0\0\0".to_vec();
    png.extend([0xde, 0xad, 0xbe, 0xef]);
    let server = Builder::new(BIN)
        .http("server { listen 127.0.0.1:{{PORT}}; location / { image_filter resize 100 100; } location = /who { return 200 who; } }")
        .file("html/a.png", png)
        .file("html/a.gif", b"GIF89a\xff\xff\xff\xff\xf7\0\0")
        .file("html/a.webp", b"RIFF\xff\xff\xff\xffWEBPVP8L\xff\xff\xff\xff\x2f\xff\xff\xff\xff")
        .file("html/a.jpg", b"\xff\xd8\xff\xe0\0\x10JFIF\0\xff\xc0\0\x11\x08\xff\xff\xff\xff\x03")
        .start();
    let memory = super::resident(&server);
    for name in ["/a.png", "/a.gif", "/a.webp", "/a.jpg"] {
        assert_eq!(server.get(name).status, 415, "{name}");
    }
    assert!(super::resident(&server) < memory + (64 << 20));
    assert_eq!(server.get("/who").text(), "who");
}

/// The copy is another request, for another URI: a `map` that is kept for it must not be kept for the one that is still on its way. (In
/// nginx nothing comes in between, as it waits for no disk there.)
#[test]
fn a_copy_opens_nothing_for_what_it_is_of() {
    let server = Builder::new(BIN)
        .main("env BRISK_FAULTS; worker_processes 1;")
        .http(
            "map $uri $realm { ~^/page/ closed; default off; }
             server { listen 127.0.0.1:{{PORT}}; root {{DIR}}/html; auth_basic_user_file {{DIR}}/users;
               location /page/ { mirror /copy; mirror_request_body off; index front.html; }
               location ~ \\.html$ { auth_basic $realm; }
               location = /copy { if ($realm) { return 204; } } }",
        )
        .file("users", "user:{PLAIN}right\n")
        .file("html/page/front.html", "secret");
    let faults = format!("stall:300={}/html/page/front.html", server.dir().display());
    let server = server.env("BRISK_FAULTS", &faults).start();
    assert_eq!(server.get("/page/").status, 401, "{}", server.error_log());
}
