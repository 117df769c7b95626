//! Signed tokens at the door: who comes in, what is told to whom does not, and keys that change.

use brisk_testkit::{Builder, Server, wait};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// The secret `fantasticjwt-fantasticjwt-123456`.
const KEYS: &str =
    r#"{"keys":[{"kty":"oct","kid":"one","k":"ZmFudGFzdGljand0LWZhbnRhc3RpY2p3dC0xMjM0NTY"}]}"#;
/// The secret `another-secret-another-secret-12`.
const OTHER_KEYS: &str =
    r#"{"keys":[{"kty":"oct","kid":"two","k":"YW5vdGhlci1zZWNyZXQtYW5vdGhlci1zZWNyZXQtMTI"}]}"#;

/// Of alice: `{"sub":"alice","admin":true,"roles":["a","b"],"info":{"e-mail":"a@b.c","level":3}}`.
const ALICE: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6Im9uZSJ9.eyJzdWIiOiJhbGljZSIsImFkbWluIjp0cnVlLCJyb2xlcyI6WyJhIiwiYiJdLCJpbmZvIjp7ImUtbWFpbCI6ImFAYi5jIiwibGV2ZWwiOjN9fQ.tPRvAEg5FMgKn0sUXH-f39a7gM9Fqwv_jY658p8L4d8";
/// Of bob, long expired.
const BOB: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJib2IiLCJleHAiOjEwMDAwMDAwMDB9.KXnS3DWrdrEXPO5PsQzKau_-i5gPBrNm6uP7iXG4T8w";
/// Of carol, with the other key.
const CAROL: &str = "eyJhbGciOiJIUzI1NiIsImtpZCI6InR3byJ9.eyJzdWIiOiJjYXJvbCIsInJvbGVzIjpbXX0.72n_P-zDSOv6HAGHGbUyzADlqU0rdydtld35yqC-bRw";

const CONF: &str = r#"
    auth_jwt_claim_set $email info e-mail;
    auth_jwt_claim_set $level info level;
    auth_jwt_header_set $kind typ;
    map $jwt_claim_sub $is_alice { alice 1; default 0; }
    add_header X-Who "$jwt_claim_sub|$jwt_claim_admin|$jwt_claim_roles|$email|$level|$kind|$jwt_header_kid";
    auth_jwt_key_file {{DIR}}/keys.json;
    server {
        listen 127.0.0.1:{{PORT}};
        location /open { add_header X-Payload "<$jwt_payload>"; }
        location /in { auth_jwt "the $arg_what"; auth_jwt_type signed; }
        location /in/off { auth_jwt off; }
        location /cookie { auth_jwt x token=$cookie_t; add_header X-Payload $jwt_payload; }
        location /late { auth_jwt x; auth_jwt_leeway 100y; }
        location /alice { auth_jwt x; auth_jwt_require $is_alice error=403; auth_jwt_require $jwt_claim_sub; }
        location /roles { auth_jwt x; auth_jwt_require $jwt_claim_roles; }
        location /any { satisfy any; deny all; auth_jwt x; }
        location /both { auth_jwt x; deny all; }
        location /asked { auth_jwt x; auth_jwt_key_file {{DIR}}/keys.json; auth_jwt_key_request /keys?of=two; }
        location /cached { auth_jwt x; auth_jwt_key_request /keys/cached; auth_jwt_key_cache 1h; }
        location /broken { auth_jwt x; auth_jwt_key_request /keys/none; }
        location /named { auth_jwt x; auth_jwt_key_file {{DIR}}/$arg_file; }
        location = /keys { internal; alias {{DIR}}/other.json; }
        location = /keys/cached { internal; alias {{DIR}}/other.json; }
        location = /keys/none { internal; return 404; }
        location /metrics { metrics; }
    }
    server { listen 127.0.0.1:{{PORT}}; server_name keyless; auth_jwt x; auth_jwt_key_file {{DIR}}/$arg_file; }"#;

fn server() -> Server {
    let mut builder = Builder::new(BIN).http(CONF).file("keys.json", KEYS).file("other.json", OTHER_KEYS);
    for name in [
        "open", "in", "in/off", "cookie", "late", "alice", "roles", "any", "both", "asked", "cached",
        "broken", "named",
    ] {
        builder = builder.file(&format!("html/{name}/a"), "ok");
    }
    builder.start()
}

fn ask(server: &Server, target: &str, token: &str) -> brisk_testkit::Response {
    server.request(format!("GET {target} HTTP/1.0\r\nAuthorization: Bearer {token}\r\n\r\n"))
}

#[test]
fn a_good_token_opens_the_door() {
    let server = server();
    let response = ask(&server, "/in/a", ALICE);
    assert_eq!(response.status, 200);
    assert_eq!(response.header("X-Who"), Some("alice|true|a,b|a@b.c|3|JWT|one"));
    assert_eq!(server.get("/in/off/a").status, 200);
    let cookie = server.request(format!("GET /cookie/a HTTP/1.0\r\nCookie: t={ALICE}\r\n\r\n"));
    assert_eq!(cookie.status, 200);
    assert_eq!(
        cookie.header("X-Payload"),
        Some(r#"{"sub":"alice","admin":true,"roles":["a","b"],"info":{"e-mail":"a@b.c","level":3}}"#)
    );
    assert_eq!(ask(&server, "/late/a", BOB).status, 200);
    // Where no token was asked for nothing is believed.
    assert_eq!(ask(&server, "/open/a", ALICE).header("X-Payload"), Some("<>"));
}

#[test]
fn a_bad_token_is_told_nothing() {
    let server = server();
    let nobody = server.get("/in/a?what=inside");
    assert_eq!(
        (nobody.status, nobody.header("WWW-Authenticate")),
        (401, Some("Bearer realm=\"the inside\""))
    );
    let line = server.wait_for_log("no JWT was provided");
    assert!(line.contains("[info]"), "{line}");
    let (start, _) = ALICE.rsplit_once('.').unwrap();
    let hostile = [
        BOB.to_string(),
        CAROL.to_string(),
        format!("{start}."),
        format!("{start}.AAAA"),
        // {"alg":"none"}
        format!("eyJhbGciOiJub25lIn0.{}.", ALICE.split('.').nth(1).unwrap()),
        "a.b.c".to_string(),
        "x".repeat(6000),
        format!("{}.e30.", "W1tb".repeat(900)),
    ];
    for token in &hostile {
        let response = ask(&server, "/in/a?what=x", token);
        assert_eq!(response.status, 401, "{token}");
        let challenge = "Bearer realm=\"the x\", error=\"invalid_token\"";
        assert_eq!(response.header("WWW-Authenticate"), Some(challenge), "{token}");
        assert!(!response.text().contains("alice"), "{token}");
    }
    let log = server.wait_for_log("JWT was refused: the token has expired");
    assert!(log.contains("client: 127.0.0.1"), "{log}");
    server.wait_for_log("JWT was refused: the token's signature is wrong");
    assert!(!server.error_log().contains("eyJ"), "tokens are not logged");
    let metrics = server.get("/metrics").text();
    assert!(
        metrics.contains(&format!("brisk_auth_jwt_tokens_total{{outcome=\"refused\"}} {}\n", hostile.len()))
    );
}

#[test]
fn requirements_and_others_who_decide() {
    let server = server();
    let status = |target: &str, token: &str| ask(&server, target, token).status;
    assert_eq!(status("/alice/a", ALICE), 200);
    assert_eq!(status("/alice/a", CAROL), 401);
    server.write("keys.json", OTHER_KEYS);
    wait::holds("the new key is in force", || status("/in/a", CAROL) == 200);
    assert_eq!(status("/alice/a", CAROL), 403);
    // An empty list is nothing.
    assert_eq!(status("/roles/a", CAROL), 401);
    assert_eq!(status("/any/a", CAROL), 200);
    let refused = ask(&server, "/any/a", ALICE);
    assert_eq!((refused.status, refused.header("WWW-Authenticate").is_some()), (401, true));
    assert_eq!(status("/both/a", CAROL), 403);
}

#[test]
fn broken_keys_leave_the_old_ones_in_force() {
    let server = server();
    assert_eq!(ask(&server, "/in/a", ALICE).status, 200);
    server.write("keys.json", "{\"keys\":[{\"kty\":\"oct\"}]}");
    let line = wait::until("the complaint", || {
        assert_eq!(ask(&server, "/in/a", ALICE).status, 200);
        server.error_log().lines().find(|line| line.contains("JWT key file")).map(str::to_string)
    });
    assert!(
        line.contains("cannot be used: key 1: no \"k\", the keys that were read before stay in force"),
        "{line}"
    );
    std::fs::remove_file(server.dir().join("keys.json")).unwrap();
    assert_eq!(ask(&server, "/in/a", ALICE).status, 200);
    // What was never read cannot stay in force.
    assert_eq!(ask(&server, "/named/a?file=nosuch", ALICE).status, 500);
    server.write("late.json", KEYS);
    wait::holds("the file is found", || ask(&server, "/named/a?file=late.json", ALICE).status == 200);
    // Larger than what the file cache keeps.
    let padding = "x".repeat(100_000);
    server.write("large.json", KEYS.replacen('{', &format!("{{\"padding\":\"{padding}\","), 1));
    assert_eq!(ask(&server, "/named/a?file=large.json", ALICE).status, 200);
    assert_eq!(ask(&server, "/named/a?file=large.json", BOB).status, 401);
}

#[test]
fn keys_from_a_subrequest() {
    let server = server();
    assert_eq!(ask(&server, "/asked/a", CAROL).status, 200);
    assert_eq!(ask(&server, "/asked/a", ALICE).status, 200);
    assert_eq!(ask(&server, "/asked/a", BOB).status, 401);
    let mut client = server.client();
    let mut cached = |token: &str| {
        let text = format!("GET /cached/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n");
        client.request(text).status
    };
    assert_eq!((cached(CAROL), cached(ALICE)), (200, 200), "keys of the file above count as well");
    server.write("other.json", "{}");
    // The cache belongs to a thread, and a connection stays with its thread.
    assert_eq!(cached(CAROL), 200);
    assert_eq!(ask(&server, "/asked/a", CAROL).status, 500);
    server.wait_for_log("JWT key request \"/keys\\?of=two\" failed: no \"keys\" array");
    assert_eq!(ask(&server, "/broken/a", CAROL).status, 500);
    server.wait_for_log("JWT key request \"/keys/none\" failed: status 404");
}

/// Found by reading: kept keys were known by the URI alone, so the issuer of one server opened another one's doors.
#[test]
fn keys_of_one_server_do_not_open_another() {
    let conf = r"
        auth_jwt_key_cache 1h;
        server { listen 127.0.0.1:{{PORT}}; server_name one;
            location / { auth_jwt x; auth_jwt_key_request /keys; }
            location = /keys { internal; alias {{DIR}}/keys.json; } }
        server { listen 127.0.0.1:{{PORT}}; server_name two;
            location / { auth_jwt x; auth_jwt_key_request /keys; }
            location = /keys { internal; alias {{DIR}}/other.json; } }
        server { listen 127.0.0.1:{{PORT}}; server_name *.many;
            location / { auth_jwt x; auth_jwt_key_request /keys; }
            location = /keys { internal; alias {{DIR}}/$host.json; } }";
    let builder = Builder::new(BIN).main("worker_processes 1;").http(conf);
    let builder = builder.file("keys.json", KEYS).file("other.json", OTHER_KEYS);
    let mut server =
        builder.file("a.many.json", KEYS).file("b.many.json", OTHER_KEYS).file("html/a", "ok").start();
    let status = |server: &Server, host: &str, token: &str| {
        let text = format!("GET /a HTTP/1.0\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n");
        server.request(text).status
    };
    for (host, good, bad) in
        [("one", ALICE, CAROL), ("two", CAROL, ALICE), ("a.many", ALICE, CAROL), ("b.many", CAROL, ALICE)]
    {
        assert_eq!((status(&server, host, good), status(&server, host, bad)), (200, 401), "{host}");
    }
    // The same path leads elsewhere from now on.
    server.configure_http("worker_processes 1;", &conf.replace("other.json", "keys.json"));
    server.reload();
    assert_eq!((status(&server, "two", ALICE), status(&server, "two", CAROL)), (200, 401));
}

#[test]
fn configurations_that_cannot_work_are_refused() {
    let check = |directives: &str, want: &str| {
        let prepared = Builder::new(BIN)
            .file("bad.json", "{\"keys\":1}")
            .http(&format!("server {{ listen 127.0.0.1:{{{{PORT}}}}; {directives} }}"))
            .prepare();
        let output = prepared.run(&["-t"]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(want), "{directives}: {text}");
    };
    check("auth_jwt_type encrypted;", "auth_jwt_type encrypted is not supported");
    check("auth_jwt_type nested;", "auth_jwt_type nested is not supported");
    check("auth_jwt x token=abc;", "no variable in \"token=abc\"");
    check("auth_jwt off token=$a;", "invalid parameter \"token=$a\"");
    check("auth_jwt_require x;", "no variable in \"x\"");
    check("auth_jwt_require error=403;", "no variables in \"auth_jwt_require\"");
    check("auth_jwt_require $uri error=402;", "invalid error code \"402\"");
    check("auth_jwt_key_file {{DIR}}/bad.json;", "bad.json\": no \"keys\" array");
    check("auth_jwt_key_file {{DIR}}/nosuch.json;", "No such file or directory");
}
