//! Real PHP behind FastCGI: Debian's PHP-FPM, over TCP and unix sockets.

use brisk_testkit::{Builder, PhpFpm, Server, process};
use rustix::process::Signal;
use std::time::{Duration, Instant};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// A server in front of a pool. `rest` goes into the location of scripts.
fn server(php: &PhpFpm, http: &str, pass: &str, rest: &str) -> Server {
    let params = include_str!("../../../packaging/fastcgi.conf");
    let http = format!(
        "{http} server {{ listen 127.0.0.1:{{{{PORT}}}}; root {}; index index.php;
           location / {{ try_files $uri $uri/ /index.php?$args; }}
           location ~ \\.php(/|$) {{
             fastcgi_split_path_info ^(.+\\.php)(/.*)$; fastcgi_param PATH_INFO $fastcgi_path_info;
             {params} fastcgi_pass {pass}; {rest}
           }} }}",
        php.dir().display()
    );
    Builder::new(BIN).http(&http).start()
}

#[test]
fn php_answers_over_both_kinds_of_socket() {
    for php in [PhpFpm::tcp(2), PhpFpm::unix(2)] {
        php.script("index.php", "<?php echo 'front page, ', $_GET['a'] ?? 'nothing';");
        php.script("hello.php", "<?php echo 'hello ', $_SERVER['PATH_INFO'], ' ', $_SERVER['SCRIPT_NAME'];");
        php.script("status.php", "<?php http_response_code(404); header('X-A: b'); echo 'sorry';");
        php.script("move.php", "<?php header('Location: /there');");
        php.script("host.php", "<?php echo $_SERVER['HTTP_HOST'], ' ', $_SERVER['SERVER_PORT'];");
        php.script(
            "cookies.php",
            "<?php setcookie('a', '1'); setcookie('b', '2'); echo json_encode($_COOKIE);",
        );
        let server = server(&php, "", &php.address(), "");
        assert_eq!(server.get("/").text(), "front page, nothing", "{}", server.error_log());
        assert_eq!(server.get("/no/such/page?a=1").text(), "front page, 1");
        assert_eq!(server.get("/hello.php/more").text(), "hello /more /hello.php");
        let status = server.get("/status.php");
        assert_eq!((status.status, status.header("X-A"), status.text().as_str()), (404, Some("b"), "sorry"));
        let moved = server.get("/move.php");
        assert_eq!((moved.status, moved.header("Location")), (302, Some("/there")));
        let host = server.request("GET /host.php HTTP/1.1\r\nHost: site:99\r\n\r\n").text();
        assert_eq!(host, format!("site:99 {}", server.port()));
        let cookies =
            server.request("GET /cookies.php HTTP/1.1\r\nHost: a\r\nCookie: x=1\r\nCookie: y=2\r\n\r\n");
        assert_eq!(cookies.all("Set-Cookie").count(), 2);
        assert_eq!(cookies.text(), r#"{"x":"1","y":"2"}"#);
        let head = server.request("HEAD /hello.php HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!((head.status, head.text().as_str()), (200, ""));
        let missing = server.get("/missing.php");
        assert_eq!((missing.status, missing.text().as_str()), (404, "File not found.\n"));
        server.wait_for_log("FastCGI sent in stderr: \"Primary script unknown\"");
    }
}

#[test]
fn uploads_reach_php() {
    let php = PhpFpm::tcp(2);
    php.script(
        "up.php",
        "<?php echo md5(file_get_contents('php://input')), ' ', $_SERVER['CONTENT_LENGTH'] ?? 'none';",
    );
    php.script(
        "form.php",
        "<?php $f = $_FILES['f']; echo $f['name'], ' ', filesize($f['tmp_name']), ' ', $_POST['a'];",
    );
    let server = server(&php, "client_max_body_size 10m; client_body_buffer_size 16k;", &php.address(), "");
    let body: Vec<u8> = (0..1_500_000u32).map(|n| (n * 7 % 256) as u8).collect();
    let head = format!("POST /up.php HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    let sum = server.request([head.as_bytes(), &body].concat()).text();
    let chunked = "POST /up.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let size = format!("{:x}\r\n", body.len());
    let chunked = [chunked.as_bytes(), size.as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
    assert_eq!(server.request(chunked).text(), sum, "{}", server.error_log());
    assert!(sum.ends_with(" 1500000"), "{sum}");

    let mut form = b"--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nvalue\r\n--x\r\n".to_vec();
    form.extend_from_slice(b"Content-Disposition: form-data; name=\"f\"; filename=\"p.bin\"\r\n\r\n");
    form.extend_from_slice(&body);
    form.extend_from_slice(b"\r\n--x--\r\n");
    let head = format!(
        "POST /form.php HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: {}\r\n\r\n",
        form.len()
    );
    assert_eq!(server.request([head.as_bytes(), &form].concat()).text(), "p.bin 1500000 value");
}

/// The first part of a page leaves when PHP has flushed it; the second waits for a file that the test makes.
#[test]
fn pages_are_streamed() {
    let php = PhpFpm::tcp(2);
    php.script(
        "slow.php",
        "<?php echo 'first '; flush(); while (!file_exists(__DIR__ . '/go')) { usleep(2000); clearstatcache(); } echo 'second';",
    );
    let server = server(&php, "", &php.address(), "");
    let mut client = server.client();
    client.send("GET /slow.php HTTP/1.1\r\nHost: a\r\n\r\n");
    client.wait_for("first ");
    php.script("go", "");
    assert_eq!(client.response().text(), "first second");
}

#[test]
fn errors_of_scripts_are_logged() {
    let php = PhpFpm::tcp(2);
    php.script("warn.php", "<?php ini_set('log_errors', '1'); error_log('watch out'); echo 'done';");
    php.script("kill.php", "<?php echo str_repeat('x', 100000); flush(); exec('kill -9 ' . getmypid());");
    let server = server(&php, "", &php.address(), "");
    assert_eq!(server.get("/warn.php").text(), "done");
    server.wait_for_log("FastCGI sent in stderr: \"PHP message: watch out\"");
    // A process that dies in the middle of its page: what came is not passed off as all of it.
    let mut client = server.client();
    client.send("GET /kill.php HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.try_response("GET").is_err());
    server.wait_for_log("(prematurely closed connection|recv\\(\\) failed)");
    assert_eq!(server.get("/warn.php").text(), "done", "others go on");
}

/// Five processes, a hundred clients and more connections than processes that might be kept.
#[test]
fn kept_connections_never_pin_all_processes() {
    const CLIENTS: usize = 100;
    const EACH: usize = 10;
    let php = PhpFpm::unix(5);
    php.script("hello.php", "<?php echo 'hello';");
    let server = server(
        &php,
        &format!("upstream php {{ server {}; keepalive 32; }}", php.address()),
        "php",
        "fastcgi_keep_conn on;",
    );
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = server.client();
                for _ in 0..EACH {
                    assert_eq!(client.get("/hello.php").text(), "hello", "{}", server.error_log());
                }
            });
        }
    });
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    // And when all is quiet connections are kept: the same process answers.
    php.script("pid.php", "<?php echo getmypid();");
    let mut client = server.client();
    let pids: Vec<String> = (0..10).map(|_| client.get("/pid.php").text()).collect();
    assert!(pids[1..].iter().all(|pid| *pid == pids[1]), "{pids:?}");
}

#[test]
fn a_process_that_died_is_not_asked_again() {
    let php = PhpFpm::tcp(1);
    php.script("pid.php", "<?php echo getmypid();");
    let server = server(
        &php,
        &format!("upstream php {{ server {}; keepalive 4; }}", php.address()),
        "php",
        "fastcgi_keep_conn on;",
    );
    let first = server.get("/pid.php").text();
    process::signal(first.parse().expect("a process number"), Signal::KILL);
    brisk_testkit::wait::holds("another process", || {
        php.processes().iter().any(|pid| pid.to_string() != first)
    });
    let second = server.get("/pid.php");
    assert_eq!(second.status, 200, "{}", server.error_log());
    assert_ne!(second.text(), first);
}
