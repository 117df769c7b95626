//! The API: what it tells, and what it changes.

use crate::{BACKENDS, BIN};
use brisk_testkit::{Builder, Server, wait};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

fn builder() -> Builder {
    Builder::new(BIN).http(&format!(
        "upstream u {{ zone z 64k; server 127.0.0.1:{{{{PORT2}}}} weight=2; server 127.0.0.1:1 down; }}
         upstream kept {{ zone z; state {{{{DIR}}}}/state/kept.conf; }}
         server {{ listen 127.0.0.1:{{{{PORT}}}}; listen unix:{{{{DIR}}}}/api.sock; server_name own.example *.own.test any.* ~^wild;
             location / {{ proxy_pass http://u; }}
             location /kept {{ proxy_pass http://kept/; }}
             location /api {{ api write=on; }}
             location /known {{ api write=on; auth_basic area; auth_basic_user_file users; }}
             location /look/ {{ api; }}
             location = /metrics {{ metrics; }}
             location = /status {{ status; }}
             location = /stub {{ stub_status; }} }} {BACKENDS}"
    ))
    .file("users", "u:{PLAIN}p\n")
}

fn call(server: &Server, method: &str, path: &str, body: &str) -> (u16, Value) {
    let length = body.len();
    let answer = server.request(format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    ));
    assert_eq!(answer.header("Content-Type"), Some("application/json"), "{path}");
    (answer.status, serde_json::from_str(&answer.text()).unwrap())
}

fn get(server: &Server, path: &str) -> Value {
    let (status, value) = call(server, "GET", path, "");
    assert_eq!(status, 200, "{path}: {value}");
    value
}

#[test]
fn it_tells_what_the_peers_do() {
    let server = builder().start();
    for _ in 0..3 {
        assert_eq!(server.get("/").text(), "one");
    }
    assert_eq!(server.get("/bad").status, 503);
    // The last request may be on its way out of the other thread.
    let peers = wait::until("nobody at work", || {
        let peers = get(&server, "/api/9/http/upstreams/u")["peers"].clone();
        (peers[0]["active"] == 0).then_some(peers)
    });
    let first = &peers[0];
    assert_eq!(first["requests"], 4);
    assert_eq!(first["responses"]["2xx"], 3);
    assert_eq!(first["responses"]["5xx"], 1);
    assert_eq!((&first["state"], &first["weight"], &first["active"]), (&json!("up"), &json!(2), &json!(0)));
    assert!(first["sent"].as_u64().unwrap() > 0 && first["received"].as_u64().unwrap() > 0);
    assert!(first["selected"].as_str().unwrap().ends_with('Z'));
    assert_eq!((&peers[1]["state"], &peers[1]["requests"]), (&json!("down"), &json!(0)));
    assert_eq!(get(&server, "/look/9/http/upstreams")["u"]["zone"], "z");
    assert_eq!(get(&server, "/api/"), json!([1, 2, 3, 4, 5, 6, 7, 8, 9]));
    assert!(get(&server, "/api/9/http/requests")["total"].as_u64().unwrap() > 4);
    assert!(get(&server, "/api/9/connections")["accepted"].as_u64().unwrap() > 4);
    assert_eq!(get(&server, "/api/9/slabs")["z"]["bytes"], 65536);
    assert_eq!(get(&server, "/api/9/nginx")["generation"], 1);
    assert_eq!(call(&server, "GET", "/api/9/nothing", "").1["error"]["code"], "PathNotFound");
    assert_eq!(call(&server, "GET", "/api/9/http/upstreams/x", "").1["error"]["code"], "UpstreamNotFound");
    assert_eq!(call(&server, "GET", "/api/77/", "").1["error"]["code"], "UnknownVersion");
    let metrics = server.get("/metrics").text();
    let name = format!("upstream=\"u\",server=\"127.0.0.1:{}\"", server.port_of(2));
    let other = format!("brisk_upstream_state{{upstream=\"u\",server={}", peers[1]["server"]);
    for line in [
        format!("brisk_upstream_requests_total{{{name}}} 4\n"),
        format!("brisk_upstream_responses_total{{{name},class=\"2xx\"}} 3\n"),
        format!("brisk_upstream_up{{{name}}} 1\n"),
        format!("brisk_upstream_state{{{name},state=\"up\"}} 1\n"),
        format!("brisk_upstream_state{{{name},state=\"down\"}} 0\n"),
        // What its owner has taken out is told from what fails.
        format!("{other},state=\"down\"}} 1\n"),
        format!("{other},state=\"unavail\"}} 0\n"),
    ] {
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
    assert_eq!(call(&server, "DELETE", "/api/9/http/upstreams/u", "").0, 200);
    assert_eq!(get(&server, "/api/9/http/upstreams/u")["peers"][0]["requests"], 0);
}

#[test]
fn servers_are_added_changed_and_removed() {
    let server = builder().start();
    let list = "/api/9/http/upstreams/u/servers";
    let two = format!("127.0.0.1:{}", server.port_of(3));
    let (status, made) = call(&server, "POST", list, &format!("{{\"server\":\"{two}\",\"weight\":2}}"));
    assert_eq!((status, &made["server"], &made["weight"]), (201, &json!(two), &json!(2)));
    let id = made["id"].as_u64().unwrap();
    let answers = || (0..4).map(|_| server.get("/").text()).collect::<Vec<_>>();
    assert_eq!(answers().iter().filter(|text| *text == "two").count(), 2);
    let (status, changed) = call(&server, "PATCH", &format!("{list}/0"), "{\"drain\":true}");
    assert_eq!((status, &changed["drain"]), (200, &json!(true)));
    assert!(answers().iter().all(|text| text == "two"));
    assert_eq!(get(&server, "/api/9/http/upstreams/u")["peers"][0]["state"], "draining");
    // A group in a zone keeps its state over a reload, but servers are what the configuration says.
    let (status, left) = call(&server, "DELETE", &format!("{list}/{id}"), "");
    assert_eq!((status, left.as_array().unwrap().len()), (200, 2));
    assert_eq!(server.get("/").status, 502);
    for (method, path, body, status, code) in [
        ("POST", list, "{", 415, "JsonError"),
        ("POST", list, "{}", 400, "UpstreamConfFormatError"),
        ("POST", list, "{\"server\":\"a b\"}", 400, "UpstreamConfFormatError"),
        ("POST", list, "{\"server\":\"unix:\"}", 400, "UpstreamBadAddress"),
        ("POST", list, "{\"server\":\"a.example\"}", 400, "UpstreamConfNoResolver"),
        ("POST", list, "{\"server\":\"127.0.0.1:1\"}", 409, "UpstreamServerExists"),
        ("POST", list, "{\"server\":\"127.0.0.1:9\",\"weight\":0}", 400, "UpstreamConfFormatError"),
        ("PATCH", "/api/9/http/upstreams/u/servers/77", "{}", 404, "UpstreamServerNotFound"),
        ("PATCH", "/api/9/http/upstreams/u/servers/x", "{}", 400, "UpstreamBadServerId"),
        ("PATCH", "/api/9/http/upstreams/u/servers/0", "{\"server\":\"x\"}", 400, "UpstreamConfFormatError"),
        ("PATCH", list, "{}", 405, "MethodDisabled"),
        ("POST", "/look/9/http/upstreams/u/servers", "{}", 405, "MethodDisabled"),
        ("PUT", list, "{}", 405, "MethodDisabled"),
    ] {
        let (got, error) = call(&server, method, path, body);
        assert_eq!((got, &error["error"]["code"]), (status, &json!(code)), "{method} {path} {body}: {error}");
    }
}

#[test]
fn pages_of_other_sites_change_nothing() {
    let server = builder().start();
    let delete = |origin: &str| {
        let host = format!("127.0.0.1:{}", server.port());
        let request = format!(
            "DELETE /api/9/http/upstreams/u/servers/1 HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nConnection: close\r\n\r\n"
        );
        server.request(request).status
    };
    assert_eq!(delete("http://evil.example"), 403);
    assert_eq!(delete("null"), 403);
    assert_eq!(delete(&format!("http://127.0.0.1:{}", server.port())), 200);
}

/// DNS rebinding: a page whose name was made to resolve to this machine is of the same origin as what it asks for.
#[test]
fn pages_with_another_name_change_nothing() {
    let server = builder().start();
    let patch = |path: &str, host: &str, fields: &str| {
        let request = format!(
            "PATCH {path}/9/http/upstreams/u/servers/1 HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\nContent-Length: 13\r\n\r\n{{\"down\":true}}"
        );
        server.request(request).status
    };
    for (host, want) in [
        ("rebound.example", 403),
        ("rebound.example:8080", 403),
        ("localhost.example", 403),
        ("any.example", 403),
        ("wild.example", 403),
        ("own.example", 200),
        ("OWN.example:8080", 200),
        ("a.own.test", 200),
        ("localhost", 200),
        ("127.0.0.1", 200),
    ] {
        assert_eq!(patch("/api", host, &format!("Origin: http://{host}\r\n")), want, "{host}");
        assert_eq!(patch("/api", host, ""), want, "{host} without a page");
    }
    let user = "Authorization: Basic dTpw\r\n";
    assert_eq!(patch("/known", "other.example", user), 200, "whoever says who it is may use any name");
    assert_eq!(patch("/known", "other.example", &format!("{user}Origin: http://evil.example\r\n")), 403);
}

/// The same page reads what it asks for, and browsers name no page then.
#[test]
fn pages_with_another_name_read_nothing() {
    let server = builder().start();
    let get = |path: &str, fields: &str| {
        server.request(format!("GET {path} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n")).status
    };
    for path in ["/api/9/nginx", "/look/9/http/upstreams", "/metrics", "/status"] {
        for (host, want) in [
            ("rebound.example", 403),
            ("rebound.example:8080", 403),
            ("any.example", 403),
            ("own.example", 200),
            ("a.own.test", 200),
            ("localhost", 200),
            ("127.0.0.1", 200),
            ("[::1]:80", 200),
        ] {
            assert_eq!(get(path, &format!("Host: {host}\r\n")), want, "{path} {host}");
        }
    }
    server.wait_for_log("a look at the metrics was refused: .* add the name there");
    assert_eq!(get("/known/9/nginx", "Host: rebound.example\r\nAuthorization: Basic dTpw\r\n"), 200);
    // Programs that read nginx's numbers do so under any name.
    assert_eq!(get("/stub", "Host: rebound.example\r\n"), 200);
    // No browser connects to a Unix socket.
    let mut socket = UnixStream::connect(server.dir().join("api.sock")).unwrap();
    socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
}

#[test]
fn down_and_drain_do_not_undo_each_other() {
    let server = builder().start();
    let path = "/api/9/http/upstreams/u/servers/0";
    let patch = |body: &str| {
        let (status, json) = call(&server, "PATCH", path, body);
        assert_eq!(status, 200, "{json}");
        let state = get(&server, "/api/9/http/upstreams/u")["peers"][0]["state"].clone();
        (json["down"] == true, json["drain"] == true, state)
    };
    assert_eq!(patch("{\"drain\":true}"), (false, true, json!("draining")));
    assert_eq!(patch("{\"down\":true}"), (true, true, json!("down")));
    assert_eq!(patch("{\"drain\":true}"), (true, true, json!("down")));
    assert_eq!(patch("{\"down\":false}"), (false, true, json!("draining")));
    assert_eq!(patch("{\"weight\":2}"), (false, true, json!("draining")));
    assert_eq!(patch("{\"drain\":false}"), (false, false, json!("up")));
}

#[test]
fn a_state_file_outlives_the_server() {
    let server = builder().start();
    assert_eq!(server.get("/kept").status, 502);
    let one = format!("127.0.0.1:{}", server.port_of(2));
    let body = format!("{{\"server\":\"{one}\",\"max_fails\":3}}");
    assert_eq!(call(&server, "POST", "/api/9/http/upstreams/kept/servers", &body).0, 201);
    assert_eq!(server.get("/kept").text(), "one");
    assert_eq!(server.read("state/kept.conf"), format!("server {one} max_fails=3;\n"));
    server.reload();
    assert_eq!(server.get("/kept").text(), "one");
    assert_eq!(get(&server, "/api/9/http/upstreams/kept/servers")[0]["max_fails"], 3);
    // What a reload finds in the file is not newer than what the group has: the last change could not be saved, for instance.
    server.write("state/kept.conf", "");
    server.reload();
    assert_eq!(server.get("/kept").text(), "one");
}

/// An empty group that is taken for what is in the file would be written over it.
#[test]
fn a_state_file_that_cannot_be_read_is_an_error() {
    let check = |file: &str, text: &str| {
        let output = builder().file(file, text).prepare().run(&["-t"]);
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (ok, said) = check("state/kept.conf", "server 127.0.0.1:1; listen 80;");
    assert!(ok && said.contains("[warn] \"listen 80\" in ") && said.contains("is no server"), "{said}");
    for text in ["server 127.0.0.1:1; server 'a", "server 127.0.0.1:1"] {
        let (ok, said) = check("state/kept.conf", text);
        assert!(!ok && said.contains("kept.conf:1"), "{said}");
    }
    // A folder in the place of the file, as any error of a disk would be.
    let (ok, said) = check("state/kept.conf/a", "");
    assert!(!ok && said.contains("kept.conf\" failed (21: Is a directory)"), "{said}");
}

#[test]
fn the_command_line_speaks_to_it() {
    let server = builder().start();
    let socket = format!("unix:{}/api.sock", server.dir().display());
    let run = |args: &[&str]| {
        let args: Vec<&str> =
            ["upstream"].into_iter().chain(args.iter().copied()).chain(["--api", &socket]).collect();
        let output = std::process::Command::new(BIN).args(&args).output().unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let two = format!("127.0.0.1:{}", server.port_of(3));
    let (ok, text) = run(&["list"]);
    assert!(ok && text.contains("127.0.0.1:1") && text.contains("down"), "{text}");
    let listed: Value = serde_json::from_str(&run(&["list", "--json"]).1).unwrap();
    assert_eq!(listed["u"]["peers"][1]["server"], "127.0.0.1:1");
    let (ok, text) = run(&["add", "u", &two, "weight=3"]);
    assert!(ok && text.contains(&two), "{text}");
    assert_eq!(get(&server, "/api/9/http/upstreams/u/servers")[2]["weight"], 3);
    assert!(run(&["drain", "u", &two]).0);
    assert_eq!(get(&server, "/api/9/http/upstreams/u/servers")[2]["drain"], true);
    assert!(run(&["set", "u", &two, "up", "weight=1"]).0);
    assert_eq!(get(&server, "/api/9/http/upstreams/u/servers")[2]["weight"], 1);
    let set: Value = serde_json::from_str(&run(&["--json", "set", "u", &two, "weight=2"]).1).unwrap();
    assert_eq!((&set["weight"], &set["server"]), (&2.into(), &two.as_str().into()));
    assert!(run(&["remove", "u", &two]).0);
    assert_eq!(get(&server, "/api/9/http/upstreams/u/servers").as_array().unwrap().len(), 2);
    let (ok, text) = run(&["remove", "u", &two]);
    assert!(!ok && text.contains("no server"), "{text}");
}
