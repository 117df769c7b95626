//! Who may come in, how often and how many at a time: from outside, over reloads and redirects.

use brisk_testkit::client::Ending;
use brisk_testkit::{Builder, Client, Server, wait};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const CONF: &str = r#"
    limit_req_zone $arg_k zone=req:32k rate=1r/m;
    limit_conn_zone $arg_k zone=conn:32k;
    add_header X-Limits "$limit_req_status,$limit_conn_status" always;
    auth_basic_user_file {{DIR}}/users;
    server {
        listen 127.0.0.1:{{PORT}};
        location /req { limit_req zone=req burst=1 nodelay; limit_req_status 429; }
        location /req/file { limit_req zone=req; error_page 404 = /elsewhere; }
        location = /elsewhere { limit_req zone=req; return 200 "$limit_req_status"; }
        location /late { limit_req zone=req burst=5; }
        location /conn { limit_conn conn 1; limit_rate 1k; }
        location /conn/free { limit_conn conn 1; limit_conn_dry_run on; }
        location /basic { auth_basic "the $arg_what"; }
        location /asked { auth_request /judge?strict; auth_request_set $who "$sent_http_x_who"; add_header X-Who $who; }
        location = /judge {
            auth_request /judge;
            add_header WWW-Authenticate one always;
            add_header X-Who "judge$is_args$args";
            if ($arg_may = yes) { return 204; }
            if ($http_may = yes) { return 204; }
            if ($http_may = no) { return 401; }
            if ($http_may = never) { return 403; }
            return 500;
        }
        location /either { satisfy any; deny all; auth_basic x; }
        location /real {
            set_real_ip_from 127.0.0.1; real_ip_header X-Who; allow 192.0.2.1; deny all;
            add_header X-Addr "$remote_addr:$remote_port $realip_remote_addr";
        }
    }
"#;

fn server() -> Server {
    let users = "plain:{PLAIN}secret\nslow:$2y$05$abcdefghijklmnopqrstuuWG29KuyeAicPCJODk1zjyGvyQUU2awu\n";
    let mut builder = Builder::new(BIN).http(CONF).file("users", users);
    for name in ["req", "conn/free", "basic", "asked", "either", "real", "late"] {
        builder = builder.file(&format!("html/{name}/a.txt"), name);
    }
    builder.file("html/conn/big", vec![b'x'; 20_000]).start()
}

fn status(server: &Server, target: &str, header: &str) -> u16 {
    server.request(format!("GET {target} HTTP/1.0\r\n{header}\r\n\r\n")).status
}

fn basic(server: &Server, target: &str, credentials: &str) -> u16 {
    status(server, target, &format!("Authorization: Basic {credentials}"))
}

#[test]
fn the_rate_of_a_key_is_limited_over_reloads() {
    let server = server();
    let codes = |key: &str| [0; 3].map(|_| server.get(&format!("/req/a.txt?k={key}")).status);
    assert_eq!(codes("a"), [200, 200, 429]);
    server.reload();
    assert_eq!(codes("a"), [429, 429, 429], "a reload forgives nobody");
    assert_eq!(codes("b"), [200, 200, 429]);
    assert_eq!(codes(""), [200, 200, 200], "without a key nobody is counted");
    assert_eq!(server.get("/req/a.txt?k=c").header("X-Limits"), Some("PASSED,"));
}

#[test]
fn a_request_is_counted_once_however_often_it_is_redirected() {
    let server = server();
    assert_eq!(server.get("/req/file?k=once").text(), "PASSED");
}

#[test]
fn who_leaves_while_he_waits_is_not_waited_for() {
    let server = server();
    assert_eq!(server.get("/late/a.txt?k=l").status, 200);
    let mut client = server.client();
    client.send("GET /late/a.txt?k=l HTTP/1.0\r\n\r\n");
    server.wait_for_log("delaying request, excess: 1.000, by zone \"req\"");
    drop(client);
    wait::holds("the connection is gone", || {
        server.error_log().contains("client prematurely closed connection")
    });
}

#[test]
fn places_are_given_back() {
    let server = server();
    let mut client = server.client();
    client.send("GET /conn/big?k=a HTTP/1.0\r\n\r\n");
    assert!(!client.some(100).unwrap().is_empty());
    assert_eq!(server.get("/conn/big?k=a").status, 503);
    assert_eq!(server.get("/conn/big?k=a").header("X-Limits"), Some(",REJECTED"));
    let free = server.get("/conn/free/a.txt?k=a");
    assert_eq!((free.status, free.header("X-Limits")), (200, Some(",REJECTED_DRY_RUN")));
    server.reload();
    assert_eq!(server.get("/conn/free/a.txt?k=a").header("X-Limits"), Some(",REJECTED_DRY_RUN"));
    drop(client);
    wait::holds("the place is free again", || {
        server.get("/conn/free/a.txt?k=a").header("X-Limits") == Some(",PASSED")
    });
}

#[test]
fn passwords_of_every_kind() {
    let server = server();
    let refused = server.get("/basic/a.txt?what=door");
    assert_eq!((refused.status, refused.header("WWW-Authenticate")), (401, Some("Basic realm=\"the door\"")));
    // plain:secret, plain:wrong, slow:password, slow:wrong, nobody:secret, and what is no pair.
    assert_eq!(basic(&server, "/basic/a.txt", "cGxhaW46c2VjcmV0"), 200);
    assert_eq!(basic(&server, "/basic/a.txt", "cGxhaW46d3Jvbmc="), 401);
    assert_eq!(basic(&server, "/basic/a.txt", "c2xvdzpwYXNzd29yZA=="), 200);
    assert_eq!(basic(&server, "/basic/a.txt", "c2xvdzp3cm9uZw=="), 401);
    assert_eq!(basic(&server, "/basic/a.txt", "bm9ib2R5OnNlY3JldA=="), 401);
    assert_eq!(basic(&server, "/basic/a.txt", "cGxhaW4="), 401);
    server.write("users", "plain:{PLAIN}other\n");
    assert_eq!(basic(&server, "/basic/a.txt", "cGxhaW46c2VjcmV0"), 401, "a changed file counts at once");
    // Larger than what is kept in memory.
    server.write("users", format!("{}plain:{{PLAIN}}secret\n", "# filler\n".repeat(20_000)));
    assert_eq!(basic(&server, "/basic/a.txt", "cGxhaW46c2VjcmV0"), 200);
    std::fs::remove_file(server.dir().join("users")).unwrap();
    assert_eq!(basic(&server, "/basic/a.txt", "cGxhaW46c2VjcmV0"), 403);
}

#[test]
fn a_broken_password_file_leaves_the_old_one_in_force() {
    const SECRET: &str = "cGxhaW46c2VjcmV0";
    let conf = "server { listen 127.0.0.1:{{PORT}};
         location /basic { auth_basic x; auth_basic_user_file {{DIR}}/users; }
         location /named { auth_basic x; auth_basic_user_file {{DIR}}/$arg_file; } }";
    let server = Builder::new(BIN)
        .main("worker_processes 1;")
        .http(conf)
        .file("users", "plain:{PLAIN}secret\n")
        .file("html/basic", "ok")
        .file("html/named", "ok")
        .allow_alerts("Is a directory")
        .start();
    assert_eq!(basic(&server, "/basic", SECRET), 200);
    // Half of a page that somebody has put there instead.
    server.write("users", "<html>\nplain:{PLAIN}other\n");
    let complaints = || server.error_log().matches("what was read before stays in force").count();
    for _ in 0..3 {
        assert_eq!(basic(&server, "/basic", SECRET), 200);
    }
    server.wait_for_log(
        "\\[crit\\].*users\" cannot be used \\(line 1 is not \"name:password\"\\), what was read",
    );
    assert_eq!(complaints(), 1);
    let users = server.dir().join("users");
    std::fs::remove_file(&users).unwrap();
    std::fs::create_dir(&users).unwrap();
    assert_eq!(basic(&server, "/basic", SECRET), 200);
    wait::holds("that is another complaint", || complaints() == 2);
    // A reload that would take it over is refused, and changes nothing.
    assert!(!server.run(&["-s", "reload"]).status.success());
    assert_eq!(basic(&server, "/basic", SECRET), 200);
    std::fs::remove_dir(&users).unwrap();
    server.write("users", "plain:{PLAIN}other\n");
    assert_eq!(basic(&server, "/basic", SECRET), 401, "what is right again counts at once");
    // Of what a client may choose nothing is kept: there lines that are none are passed over, as by nginx.
    server.write("chosen", "plain:{PLAIN}secret\n");
    assert_eq!(basic(&server, "/named?file=chosen", SECRET), 200);
    server.write("chosen", "<html>\nplain:{PLAIN}other\n");
    assert_eq!(basic(&server, "/named?file=chosen", SECRET), 401);
}

#[test]
fn password_files_are_looked_at_before_the_server_starts() {
    let check = |content: Option<&str>, succeeds: bool, want: &str| {
        let mut builder = Builder::new(BIN)
            .http("server { listen 127.0.0.1:{{PORT}}; auth_basic x; auth_basic_user_file {{DIR}}/users; }");
        if let Some(content) = content {
            builder = builder.file("users", content);
        }
        let output = builder.prepare().run(&["-t"]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() == succeeds && text.contains(want), "{content:?}: {text}");
    };
    check(Some("# nobody yet\n"), true, "test is successful");
    check(Some("a:b\nnonsense\n"), false, "users\": line 2 is not \"name:password\"");
    // As with nginx, it may come later.
    check(None, true, "[warn] open() ");
}

#[test]
fn a_slow_hash_keeps_nobody_else_waiting() {
    // It takes as long as a hundred other requests, however fast the machine.
    let users = "slow:$2y$09$abcdefghijklmnopqrstuuWG29KuyeAicPCJODk1zjyGvyQUU2awu\n";
    let server = Builder::new(BIN)
        .main("worker_processes 1;")
        .http(
            "server { listen 127.0.0.1:{{PORT}}; location /open { return 204; }
             location /slow { auth_basic x; auth_basic_user_file {{DIR}}/users; } }",
        )
        .file("users", users)
        .start();
    let mut other = server.client();
    // If the others had to wait for it, they would each time; a busy machine makes them late now and then.
    wait::holds("others are answered while the hash is computed", || {
        let mut slow = server.client();
        slow.send("GET /slow HTTP/1.0\r\nAuthorization: Basic c2xvdzpwYXNzd29yZA==\r\n\r\n");
        for _ in 0..5 {
            assert_eq!(other.get("/open").status, 204);
        }
        let is_computed = slow.ending(std::time::Duration::from_millis(1)) != Ending::Open;
        assert_eq!(slow.response().status, 401);
        !is_computed
    });
}

#[test]
fn who_guesses_passwords_is_slowed_down() {
    let server = Builder::new(BIN)
        .http(
            "server { listen 127.0.0.1:{{PORT}}; auth_basic x; auth_basic_user_file {{DIR}}/users; auth_delay 300ms;
             location /short { error_page 401 @short; } location @short { return 401 \"\"; } }",
        )
        .file("users", "plain:{PLAIN}secret\n")
        .file("html/a", "ok")
        .start();
    let started = std::time::Instant::now();
    assert_eq!(basic(&server, "/a", "cGxhaW46d3Jvbmc="), 401);
    assert!(started.elapsed().as_millis() >= 290, "{:?}", started.elapsed());
    // Without a body, too.
    let started = std::time::Instant::now();
    assert_eq!(basic(&server, "/short", "cGxhaW46d3Jvbmc="), 401);
    assert!(started.elapsed().as_millis() >= 290, "{:?}", started.elapsed());
    assert_eq!(basic(&server, "/a", "cGxhaW46c2VjcmV0"), 200);
}

#[test]
fn limits_are_logged_as_loudly_as_is_said() {
    let server = Builder::new(BIN)
        .http(
            "limit_req_zone $uri zone=r:32k rate=1r/m; limit_conn_zone $uri zone=c:32k;
             server { listen 127.0.0.1:{{PORT}};
                location /req { limit_req zone=r; limit_req_log_level warn; }
                location /conn { limit_conn c 1; limit_conn_status 429; limit_conn_log_level notice; limit_rate 1k; } }",
        )
        .file("html/req", "ok")
        .file("html/conn", vec![b'x'; 50_000])
        .start();
    assert_eq!([0; 2].map(|_| server.get("/req").status), [200, 503]);
    server.wait_for_log("\\[warn\\].* limiting requests, excess: .* by zone \"r\"");
    let mut client = server.client();
    client.send("GET /conn HTTP/1.0\r\n\r\n");
    assert!(!client.some(100).unwrap().is_empty());
    assert_eq!(server.get("/conn").status, 429);
    server.wait_for_log("\\[notice\\].* limiting connections by zone \"c\"");
}

#[test]
fn one_of_several_conditions_is_enough() {
    let server = server();
    assert_eq!(server.get("/either/a.txt").status, 401);
    let passed =
        server.request("GET /either/a.txt HTTP/1.0\r\nAuthorization: Basic cGxhaW46c2VjcmV0\r\n\r\n");
    assert_eq!((passed.status, passed.header("WWW-Authenticate")), (200, None));
}

#[test]
fn a_subrequest_decides() {
    let server = server();
    let ask = |may: &str| server.request(format!("GET /asked/a.txt HTTP/1.0\r\nMay: {may}\r\n\r\n"));
    let passed = ask("yes");
    assert_eq!((passed.status, passed.text().as_str()), (200, "asked"));
    assert_eq!(ask("no").status, 401);
    assert_eq!(ask("never").status, 403);
    assert_eq!(ask("?").status, 500);
    server.wait_for_log("auth request unexpected status: 500");
}

#[test]
fn trusted_proxies_tell_the_address() {
    let server = server();
    let ask = |who: &str| server.request(format!("GET /real/a.txt HTTP/1.0\r\nX-Who: {who}\r\n\r\n"));
    assert_eq!(ask("192.0.2.1:7").header("X-Addr"), Some("192.0.2.1:7 127.0.0.1"));
    assert_eq!(ask("192.0.2.2").status, 403);
    server.wait_for_log("access forbidden by rule, client: 192.0.2.2,");
    assert_eq!(ask("nonsense").status, 403);
}

/// An IPv4 client of an IPv6 socket has an address like `::ffff:127.0.0.1`.
#[test]
fn a_proxy_is_known_by_its_ipv4_address_on_an_ipv6_socket() {
    let conf = "
        geo $net { default other; proxy 127.0.0.1; 192.0.2.0/24 ours; }
        server { listen [::]:{{PORT}} ipv6only=off; set_real_ip_from 127.0.0.1; real_ip_header X-Who; return 200 $remote_addr; }
        server { listen [::]:{{PORT2}} ipv6only=off; return 200 $net; }";
    let server = Builder::new(BIN).http(conf).start();
    let told = |port, field: &str| {
        let mut client = Client::connect(port);
        client.send(format!("GET / HTTP/1.0\r\n{field}: 192.0.2.1\r\n\r\n"));
        client.response().text()
    };
    assert_eq!(told(server.port(), "X-Who"), "192.0.2.1");
    assert_eq!(told(server.port_of(2), "X-Forwarded-For"), "ours");
}
