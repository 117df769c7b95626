//! Through an HTTP proxy, by every command that asks.

use super::*;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};

/// A proxy that wants a login, makes tunnels, and passes on requests without bodies.
struct Proxy {
    port: u16,
    /// First lines of connections.
    seen: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&seen);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let lines = Arc::clone(&lines);
                std::thread::spawn(move || drop(serve(client, &lines)));
            }
        });
        Self { port, seen }
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

fn serve(mut client: TcpStream, lines: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let first = head.lines().next().unwrap_or_default().to_owned();
    let target = first.split(' ').nth(1).unwrap_or_default().to_owned();
    lines.lock().unwrap().push(first.clone());
    if !head.contains("\r\nProxy-Authorization: Basic bWU6c2VjcmV0\r\n") {
        return client.write_all(b"HTTP/1.1 407 Login\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
    let is_tunnel = first.starts_with("CONNECT ");
    let authority = match target.strip_prefix("http://") {
        Some(rest) => rest.split('/').next().unwrap_or_default().to_owned(),
        None => target,
    };
    let mut server = TcpStream::connect(&authority)?;
    let prefix = format!("http://{authority}/");
    if is_tunnel {
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    } else {
        server.write_all(head.replace(&prefix, "/").as_bytes())?;
    }
    let (mut back, mut to) = (server.try_clone()?, client.try_clone()?);
    std::thread::spawn(move || {
        let _ = io::copy(&mut back, &mut to);
        to.shutdown(Shutdown::Both)
    });
    let mut room = [0; 16384];
    loop {
        let count = client.read(&mut room)?;
        if count == 0 {
            return server.shutdown(Shutdown::Both);
        }
        // Heads of a test are small: none is cut in two.
        if is_tunnel {
            server.write_all(&room[..count])?;
        } else {
            server.write_all(String::from_utf8_lossy(&room[..count]).replace(&prefix, "/").as_bytes())?;
        }
    }
}

#[test]
fn loads_go_through_a_proxy() {
    let (server, proxy) = (server(), Proxy::start());
    let plain = format!("http://127.0.0.1:{}/a.txt", server.port());
    let secure = format!("https://127.0.0.1:{}/a.txt", server.port_of(2));
    let way = format!("me:secret@127.0.0.1:{}", proxy.port);
    let check = |args: &[&str], first: String| {
        let all = figures(&[&["-n", "40", "-c", "4", "-x", &way], args].concat());
        assert_eq!((&all["responses"], &all["non_2xx"]), (&40.into(), &0.into()), "{args:?}: {all}");
        let seen = proxy.taken();
        assert!(!seen.is_empty() && seen.iter().all(|line| *line == first), "{args:?}: {seen:?}");
    };
    check(&[&plain], format!("GET {plain} HTTP/1.1"));
    check(&["--rate", "400", &plain], format!("GET {plain} HTTP/1.1"));
    check(&["-2", &plain], format!("CONNECT 127.0.0.1:{} HTTP/1.1", server.port()));
    check(&[&secure], format!("CONNECT 127.0.0.1:{} HTTP/1.1", server.port_of(2)));
    check(&["-2", &secure], format!("CONNECT 127.0.0.1:{} HTTP/1.1", server.port_of(2)));
}

#[test]
fn a_proxy_that_makes_no_tunnel_is_no_success() {
    let (server, proxy) = (server(), Proxy::start());
    let url = format!("https://127.0.0.1:{}/a.txt", server.port_of(2));
    let way = format!("127.0.0.1:{}", proxy.port);
    let output = bench(&["-q", "--json", "-n", "4", "-c", "1", "--proxy", &way, &url]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(all["proxy_failure"], "the proxy answered CONNECT with 407");
    assert_eq!(all["errors"]["connect"], 4, "{all}");
    let text = bench(&["-n", "1", "-c", "1", "--proxy", &way, &url]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("connect: 1 (the proxy answered CONNECT with 407)"), "{text}");
}

#[test]
fn pages_and_scenarios_go_through_a_proxy() {
    let (server, proxy) = (server(), Proxy::start());
    let plain = format!("http://127.0.0.1:{}", server.port());
    let secure = format!("https://localhost:{}/a.txt", server.port_of(2));
    let way = format!("me:secret@127.0.0.1:{}", proxy.port);
    let brisk = |args: &[&str]| Command::new(BIN).args(args).stdin(Stdio::null()).output().unwrap();
    let url = format!("{plain}/a.txt");
    let got = brisk(&["get", "--only-body", "-x", &way, &url]);
    assert_eq!(got.stdout, "a".repeat(100).as_bytes(), "{got:?}");
    assert_eq!(proxy.taken(), [format!("GET {url} HTTP/1.1")]);
    for version in ["--http2", "--http1.1"] {
        let got = brisk(&["get", "--only-body", "-k", version, "-x", &way, &secure]);
        assert_eq!(got.stdout, "a".repeat(100).as_bytes(), "{got:?}");
        assert_eq!(proxy.taken(), [format!("CONNECT localhost:{} HTTP/1.1", server.port_of(2))]);
    }
    let refused = brisk(&["get", "-k", "-x", &format!("127.0.0.1:{}", proxy.port), &secure]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && text.contains("answered CONNECT with 407"), "{refused:?}");
    proxy.taken();
    let file = server.write(
        "p.toml",
        format!("target = \"{plain}\"\nproxy = \"http://{way}\"\niterations = 3\n[[user]]\n[[user.step]]\nrequest = \"GET /a.txt\"\ncheck = {{ status = 200 }}\n"),
    );
    let run = brisk(&["bench", "run", file.to_str().unwrap()]);
    assert!(run.status.success(), "{run:?}");
    assert_eq!(proxy.taken(), [format!("GET {url} HTTP/1.1")]);
}
