//! Pages from a small server that counts its connections.

use super::load::{Browser, Page, load};
use super::{advice, report};
use crate::client::{Common, Fields, Options, Url, block_on};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Connections that are open, and the most that were.
#[derive(Default)]
struct Open {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// Answers `/` with a page of so many images, and anything else with so many bytes, after a while.
fn serve(mut stream: TcpStream, open: &Open, images: usize, bytes: usize, keeps: bool) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        let body = if buffer[..count].starts_with(b"GET / ") {
            (0..images).flat_map(|at| format!("<img src={at}.png>").into_bytes()).collect()
        } else {
            std::thread::sleep(Duration::from_millis(20));
            vec![b'x'; bytes]
        };
        let close = if keeps { "" } else { "Connection: close\r\n" };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n{close}\r\n",
            body.len()
        );
        if !keeps {
            // Before the client can know that it is over, and open the next.
            open.now.fetch_sub(1, Ordering::SeqCst);
        }
        if stream.write_all(&[head.as_bytes(), &body].concat()).is_err() || !keeps {
            return;
        }
    }
}

/// A page of so many images over so many connections at a time, and the most that the server has seen.
fn page(images: usize, bytes: usize, keeps: bool, connections: usize) -> (Page, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    let open = Arc::new(Open::default());
    let seen = Arc::clone(&open);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let open = Arc::clone(&open);
            // Before it is answered: whoever is answered may be gone before its thread has begun.
            open.most.fetch_max(open.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::spawn(move || serve(stream, &open, images, bytes, keeps));
        }
    });
    let browser = Browser { connections, fields: Fields::default() };
    let work = async move { load(Common::new(Options::default()).unwrap(), url, browser).await };
    (block_on(work).unwrap(), seen.most.load(Ordering::SeqCst))
}

fn advised(page: &Page, about: &str) -> Option<String> {
    advice::advice(page).into_iter().find(|piece| piece.about == about).map(|piece| piece.text)
}

/// As browsers do: six at a time unless told, and all of them where there is enough to fetch.
#[test]
fn no_more_connections_than_a_browser_opens() {
    for connections in [6, 2] {
        let (page, most) = page(20, 10, true, connections);
        assert_eq!((page.entries.len(), most), (21, connections));
        assert!(page.entries.iter().all(|entry| entry.status() == 200));
        assert_eq!(advised(&page, "connections"), None);
        assert_eq!(advised(&page, "weight"), None);
    }
}

#[test]
fn connections_that_are_closed_and_heavy_pages_are_advised_on() {
    let (page, most) = page(8, 600_000, false, 6);
    assert!(most <= 6, "{most}");
    let text = advised(&page, "connections").unwrap();
    assert!(text.contains("closes after each of 9 requests: turn keep-alive on"), "{text}");
    let text = advised(&page, "weight").unwrap();
    assert!(text.starts_with("4.80 MB in 9 requests, 4.80 MB of them images; heaviest: 0.png"), "{text}");
    let html = report::html(&page, "brisk bench page http://a/", "http://a/<b>", false);
    for part in ["Page http://a/&lt;b&gt;", "<title>Waterfall</title>", "turn keep-alive on", "images"] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("<script") && html.trim_end().ends_with("</html>"));
}

/// What logs in at the page's server is told to no other.
#[test]
fn secrets_stay_with_the_page_s_own_server() {
    let listeners = [TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap()];
    let [own, other] = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
    let (sender, heard) = std::sync::mpsc::channel();
    for (index, listener) in listeners.into_iter().enumerate() {
        let sender = sender.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut buffer = [0; 4096];
                let Ok(count @ 1..) = stream.read(&mut buffer) else { continue };
                sender.send((index, String::from_utf8_lossy(&buffer[..count]).into_owned())).unwrap();
                let body = format!("<img src=/a.png><img src=http://{other}/b.png>");
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            }
        });
    }
    let mut fields = Fields::default();
    fields.push("Authorization", "Basic x");
    fields.push("X-Own", "1");
    let url = Url::parse(&format!("http://{own}/")).unwrap();
    let browser = Browser { connections: 1, fields };
    let page =
        block_on(async move { load(Common::new(Options::default()).unwrap(), url, browser).await }).unwrap();
    assert_eq!(page.entries.len(), 3);
    for (index, request) in heard.try_iter() {
        assert_eq!(request.contains("Authorization: Basic x"), index == 0, "{request}");
        assert!(request.contains("X-Own: 1"), "{request}");
    }
}
