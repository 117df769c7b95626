//! Clients whose answers are known beforehand, and the back ends that make them.

use super::{Random, Soak};
use brisk_testkit::application::Exchange;
use brisk_testkit::backend::Peer;
use brisk_testkit::tls::stranger;
use brisk_testkit::{Client, H2Client, TlsClient};

/// Names and sizes.
pub const FILES: &[(&str, usize)] = &[("small.txt", 100), ("page.html", 20_000), ("large.bin", 1 << 20)];

/// What a good client does: `Err` says what came of it.
type Act = fn(&Soak, &mut Random) -> Result<(), String>;

pub const KINDS: &[(&str, Act)] = &[
    ("http/1.1 files", files),
    ("http/1.1 ranges", ranges),
    ("http/1.1 proxied", proxied),
    ("http/1.1 cached", cached),
    ("http/1.1 uploads", uploads),
    ("http/1.1 application", fastcgi),
    ("http/1.1 websocket", websocket),
    ("http/2 streams", streams),
    ("tls files", tls),
    ("denied", denied),
];

/// The bytes of a name: different names have different bytes at every place.
pub fn pattern(name: &str, size: usize) -> Vec<u8> {
    let text = format!("[{name}]");
    text.bytes().cycle().take(size).collect()
}

fn right(what: &str, got: &[u8], wanted: &[u8]) -> Result<(), String> {
    if got == wanted {
        return Ok(());
    }
    let shown = String::from_utf8_lossy(&got[..got.len().min(120)]).into_owned();
    Err(format!("wrong: {what}: {} bytes, not {}: {shown:?}", got.len(), wanted.len()))
}

/// One request on a connection of its own; an answer with another status than `status` is no answer.
fn exchange(soak: &Soak, request: &[u8], method: &str, status: u16) -> Result<Vec<u8>, String> {
    let mut client = Client::try_connect(soak.port).map_err(|error| error.to_string())?;
    client.try_send(request).map_err(|error| error.to_string())?;
    let response = client.try_response(method).map_err(|failure| failure.to_string())?;
    if response.status != status {
        return Err(format!("status {}", response.status));
    }
    Ok(response.body)
}

fn get(target: &str, fields: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\n{fields}\r\n").into_bytes()
}

/// Whether a new client is served.
pub fn is_served(soak: &Soak) -> bool {
    exchange(soak, &get("/files/small.txt", ""), "GET", 200).is_ok()
}

fn files(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let (name, size) = FILES[random.below(FILES.len() as u64) as usize];
    right(name, &exchange(soak, &get(&format!("/files/{name}"), ""), "GET", 200)?, &pattern(name, size))
}

fn ranges(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let (name, size) = FILES[2];
    let from = random.below(size as u64) as usize;
    let to = from + random.below((size - from) as u64) as usize;
    let got = exchange(
        soak,
        &get(&format!("/files/{name}"), &format!("Range: bytes={from}-{to}\r\n")),
        "GET",
        206,
    )?;
    right(name, &got, &pattern(name, size)[from..=to])
}

/// Answers of [`back_end`]: as many bytes as asked for, of the target.
fn proxied(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let size = [10, 3000, 100_000, 600_000][random.below(4) as usize];
    let target = format!("/back/{}?{size}", random.draw());
    right(&target, &exchange(soak, &get(&target, ""), "GET", 200)?, &pattern(&target, size))
}

fn cached(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let target = format!("/cached/{}?{}", random.below(40), 1000 + random.below(3) * 90_000);
    let size = target.rsplit('?').next().and_then(|text| text.parse().ok()).unwrap_or(0);
    right(&target, &exchange(soak, &get(&target, ""), "GET", 200)?, &pattern(&target, size))
}

fn uploads(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let size = [5, 20_000, 400_000][random.below(3) as usize];
    let name = random.draw().to_string();
    let body = pattern(&name, size);
    let head = format!(
        "POST /back/up HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n"
    );
    let got = exchange(soak, &[head.as_bytes(), &body].concat(), "POST", 200)?;
    right("an upload", &got, &body)
}

fn fastcgi(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let name = random.draw().to_string();
    right("an application", &exchange(soak, &get(&format!("/app/?{name}"), ""), "GET", 200)?, name.as_bytes())
}

fn denied(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let target = ["/denied/", "/denied/x", "/%64enied/x", "/files/../denied/"][random.below(4) as usize];
    exchange(soak, &get(target, ""), "GET", 403)
        .map(drop)
        .map_err(|why| if why == "status 200" { format!("wrong: {target} is open") } else { why })
}

fn websocket(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let mut client = Client::try_connect(soak.port).map_err(|error| error.to_string())?;
    let head = "GET /ws/ HTTP/1.1\r\nHost: good.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    client.try_send(head).map_err(|error| error.to_string())?;
    let response = client.try_response("GET").map_err(|failure| failure.to_string())?;
    if response.status != 101 {
        return Err(format!("status {}", response.status));
    }
    let body = pattern(&random.draw().to_string(), 3000);
    client.try_send(&body).map_err(|error| error.to_string())?;
    client.half_close();
    let got = client.rest().map_err(|error| error.to_string())?;
    // A tunnel has no length: one that is cut short is no wrong answer.
    if got.len() < body.len() && body.starts_with(&got) {
        return Err(format!("a tunnel ended after {} bytes", got.len()));
    }
    right("a tunnel", &got, &body)
}

fn streams(soak: &Soak, random: &mut Random) -> Result<(), String> {
    // A reload may close the connection before all of its streams have come: the server says up to which it has looked at
    // them, and a client asks again for the others (RFC 9113 §6.8).
    (0..3)
        .find_map(|_| streams_of_one_connection(soak, random).transpose())
        .unwrap_or(Err("three GOAWAY".into()))
}

/// `None`: the server has said that it did not look at some of the streams.
fn streams_of_one_connection(soak: &Soak, random: &mut Random) -> Result<Option<()>, String> {
    let stream = std::net::TcpStream::connect(("127.0.0.1", soak.port)).map_err(|error| error.to_string())?;
    let mut client = H2Client::over(stream, brisk_h2::Settings { enable_push: false, ..Default::default() });
    let mut wanted = Vec::new();
    for _ in 0..10 {
        let size = 10 + random.below(40_000) as usize;
        let target = match random.below(2) {
            0 => format!("/back/{}?{size}", random.draw()),
            _ => "/files/page.html".to_string(),
        };
        let body =
            if target.starts_with("/back") { pattern(&target, size) } else { pattern("page.html", 20_000) };
        wanted.push((client.begin(&H2Client::get_fields(&target), true), target, body));
    }
    let is_over = |client: &H2Client| {
        client.closed
            || wanted.iter().all(|(id, ..)| client.answers[id].ended || client.answers[id].reset.is_some())
    };
    client.until(is_over);
    if let Some((last, brisk_h2::ErrorCode::NO_ERROR)) = client.goaway
        && wanted.iter().any(|(id, ..)| *id > last)
    {
        return Ok(None);
    }
    for (id, target, body) in &wanted {
        let answer = &client.answers[id];
        if !answer.ended || answer.status != 200 {
            let (end, is_closed) = (client.goaway, client.closed);
            return Err(format!(
                "{target}: status {}, {:?}, {end:?}, {is_closed}",
                answer.status, answer.reset
            ));
        }
        right(target, &answer.body, body)?;
    }
    Ok(Some(()))
}

fn tls(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let (name, size) = FILES[random.below(2) as usize];
    let answer = TlsClient::get(soak.tls_port, &stranger(), "good.test", &format!("/files/{name}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no head")?;
    if !head.starts_with("HTTP/1.1 200") {
        return Err(head.lines().next().unwrap_or_default().to_string());
    }
    right(name, body.as_bytes(), &pattern(name, size))
}

/// Answers GET with as many bytes as the argument says, POST with its body, and an upgrade with an echo.
pub fn back_end(mut peer: Peer) {
    while let Some(head) = peer.head() {
        let line = head.lines().next().unwrap_or_default().to_string();
        let target = line.split(' ').nth(1).unwrap_or_default();
        let lower = head.to_ascii_lowercase();
        if lower.contains("\r\nupgrade: websocket") {
            peer.send(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
            );
            loop {
                let some = peer.some();
                if some.is_empty() || !peer.send(&some) {
                    return;
                }
            }
        }
        let length = lower
            .split("\r\ncontent-length: ")
            .nth(1)
            .and_then(|rest| rest.split("\r\n").next()?.parse().ok());
        let is_sent = match length {
            Some(length) => {
                let body = peer.body(length);
                peer.answer(body)
            }
            None => {
                let size = target.rsplit('?').next().and_then(|text| text.parse().ok()).unwrap_or(0);
                peer.answer(pattern(target, size))
            }
        };
        if !is_sent {
            return;
        }
    }
}

/// Answers with the query string.
pub fn application(exchange: &mut Exchange<'_>) {
    let text = format!("Content-Type: text/plain\r\n\r\n{}", exchange.asked.param("QUERY_STRING"));
    exchange.stdout(text);
}
