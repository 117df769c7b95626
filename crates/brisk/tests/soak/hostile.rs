//! Clients and a back end that keep to no rule. What they get is not looked at: others must not notice.

use super::{Random, Soak};
use brisk_h2::frame::{flag, kind, write_head};
use brisk_h2::{PREFACE, Settings};
use brisk_testkit::Client;
use brisk_testkit::backend::Peer;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

type Act = fn(&Soak, &mut Random) -> Result<(), String>;

pub const KINDS: &[(&str, Act)] = &[
    ("garbage", garbage),
    ("smuggling", smuggling),
    ("slow heads", slow_heads),
    ("large heads", large_heads),
    ("takes nothing", takes_nothing),
    ("leaves uploads", leaves_uploads),
    ("leaves answers", leaves_answers),
    ("ranges", ranges),
    ("patterns", patterns),
    ("h2 resets", h2_resets),
    ("h2 bombs", h2_bombs),
    ("h2 random frames", h2_frames),
    ("tls garbage", tls_garbage),
    ("hostile back end", asks_hostile),
    ("tunnels", tunnels),
];

/// Sends bytes and reads for a short time what comes.
fn say(port: u16, bytes: &[u8]) -> Result<(), String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
    let _ = stream.set_read_timeout(Some(Duration::from_millis(50)));
    let _ = stream.set_write_timeout(Some(Duration::from_millis(200)));
    let _ = stream.write_all(bytes);
    let mut sink = [0; 16 << 10];
    while stream.read(&mut sink).is_ok_and(|count| count > 0) {}
    Ok(())
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_head(payload.len(), kind, flags, stream, &mut out);
    out.extend_from_slice(payload);
    out
}

fn hello(window: u32) -> Vec<u8> {
    let mut out = PREFACE.to_vec();
    Settings { initial_window_size: window, enable_push: false, ..Settings::default() }.write(&mut out);
    out
}

fn h2_get(stream: u32, more: &[u8]) -> Vec<u8> {
    let block = [&[0x82, 0x86, 0x04, 15][..], b"/files/page.htm", &[0x01, 9], b"good.test", more].concat();
    frame(kind::HEADERS, flag::END_STREAM | flag::END_HEADERS, stream, &block)
}

fn garbage(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let size = random.below(4000) as usize;
    let bytes: Vec<u8> = (0..size).map(|_| random.draw() as u8).collect();
    let start: &[u8] = [&b""[..], b"GET ", b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nHost: a\r\n"]
        [random.below(4) as usize];
    say(soak.port, &[start, &bytes].concat())
}

fn smuggling(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let fields = [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: xchunked",
        "Content-Length: 5\r\nContent-Length: 6",
        "Transfer-Encoding: chunked",
        "Content-Length: 44",
        "Expect: 100-continue\r\nContent-Length: 44",
    ][random.below(6) as usize];
    let body = ["0\r\n\r\n", "ffffffffffffffffff\r\n", "1;\nx\r\n", "5\r\nhello\r\n0\r\nX: y\r\n\r\n", ""]
        [random.below(5) as usize];
    let request = format!(
        "POST /back/x HTTP/1.1\r\nHost: good.test\r\n{fields}\r\n\r\n{body}GET /denied/smuggled HTTP/1.1\r\nHost: good.test\r\n\r\n"
    );
    say(soak.port, request.as_bytes())
}

fn slow_heads(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let mut held: Vec<TcpStream> =
        (0..20).map_while(|_| TcpStream::connect(("127.0.0.1", soak.port)).ok()).collect();
    for byte in b"GET /files/small.txt HTTP/1.1\r\nX: y" {
        held.iter_mut().for_each(|stream| _ = stream.write(&[*byte]));
        std::thread::sleep(Duration::from_millis(random.below(20)));
    }
    Ok(())
}

fn large_heads(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let size = random.below(200_000) as usize;
    let bytes = match random.below(3) {
        0 => format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(size)),
        1 => format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(size)),
        _ => format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(size / 6)),
    };
    say(soak.port, bytes.as_bytes())
}

fn takes_nothing(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let held: Vec<Client> = (0..8)
        .map_while(|_| Client::try_connect(soak.port).ok())
        .map(|mut client| {
            let _ = client.try_send("GET /files/large.bin HTTP/1.1\r\nHost: good.test\r\n\r\n".repeat(20));
            let _ = client.try_send("GET /back/9?600000 HTTP/1.1\r\nHost: good.test\r\n\r\n");
            client
        })
        .collect();
    std::thread::sleep(Duration::from_millis(random.below(300)));
    held.into_iter().for_each(Client::reset);
    Ok(())
}

fn leaves_uploads(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let size = random.below(300_000) as usize;
    let head = "POST /back/up HTTP/1.1\r\nHost: good.test\r\nContent-Length: 9000000\r\n\r\n";
    say(soak.port, &[head.as_bytes(), &vec![b'x'; size]].concat())
}

fn leaves_answers(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let mut client = Client::try_connect(soak.port).map_err(|error| error.to_string())?;
    let _ =
        client.try_send(format!("GET /cached/{}?600000 HTTP/1.1\r\nHost: good.test\r\n\r\n", random.draw()));
    let mut sink = [0; 1000];
    let _ = client.read_some(&mut sink, Duration::from_millis(random.below(30)));
    client.reset();
    Ok(())
}

fn ranges(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let many: Vec<String> = (0..random.below(2000)).map(|n| format!("{n}-{}", n + 1)).collect();
    let request = format!(
        "GET /files/large.bin HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\nRange: bytes={}\r\n\r\n",
        many.join(",")
    );
    say(soak.port, request.as_bytes())
}

fn patterns(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let request = format!(
        "GET /re/{}c HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\n\r\n",
        "a".repeat(random.below(60) as usize)
    );
    say(soak.port, request.as_bytes())
}

fn h2_resets(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let mut bytes = hello(65_535);
    for n in 0..random.below(400) as u32 {
        bytes.extend(h2_get(2 * n + 1, &[]));
        bytes.extend(frame(kind::RST_STREAM, 0, 2 * n + 1, &[0, 0, 0, 8]));
    }
    say(soak.port, &bytes)
}

/// Fields of the table again and again, crumbs of cookies with others between them, and a window that stays closed.
fn h2_bombs(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let mut bytes = hello(0);
    let cookie = [&[0x60, 0x7f, 0xbd, 0x1d][..], &vec![b'c'; 3900]].concat();
    bytes.extend(h2_get(1, &cookie));
    for n in 1..20u32 {
        let crumbs = match random.below(3) {
            0 => [0xbe].repeat(300),
            1 => [&[0xbe][..], &[0xa0, 0x8f].repeat(330)].concat(),
            _ => [0x90, 0x8f].repeat(1000),
        };
        bytes.extend(h2_get(2 * n + 1, &crumbs));
    }
    say(soak.port, &bytes)
}

fn h2_frames(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let mut bytes = hello(random.below(1 << 20) as u32);
    for _ in 0..random.below(60) {
        let payload: Vec<u8> = (0..random.below(64)).map(|_| random.draw() as u8).collect();
        bytes.extend(frame(random.below(12) as u8, random.draw() as u8, random.below(9) as u32, &payload));
        if random.below(4) == 0 {
            bytes.extend(h2_get(2 * random.below(40) as u32 + 1, &[]));
        }
    }
    say(soak.port, &bytes)
}

fn tls_garbage(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let size = random.below(600) as usize;
    let bytes: Vec<u8> = (0..size).map(|_| random.draw() as u8).collect();
    let start: &[u8] =
        [&b""[..], &[22, 3, 1, 1, 0, 1, 0, 0, 0xfc, 3, 3], &[22, 3, 1, 0x40, 0], &[21, 3, 1, 0, 2, 1, 0]]
            [random.below(4) as usize];
    say(soak.tls_port, &[start, &bytes].concat())
}

fn asks_hostile(soak: &Soak, _: &mut Random) -> Result<(), String> {
    say(soak.port, b"GET /hostile/x HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\n\r\n")
}

fn tunnels(soak: &Soak, random: &mut Random) -> Result<(), String> {
    let mut client = Client::try_connect(soak.port).map_err(|error| error.to_string())?;
    let _ = client.try_send(
        "GET /ws/ HTTP/1.1\r\nHost: good.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    );
    let _ = client.try_send(vec![b'x'; random.below(100_000) as usize]);
    if random.below(2) == 0 {
        client.reset();
    } else {
        client.half_close();
    }
    Ok(())
}

/// Answers that are none, too long, too short, or never end.
pub fn back_end(mut peer: Peer) {
    let mut random = Random(peer.number as u64);
    while peer.head().is_some() {
        let answer: Vec<u8> = match random.below(10) {
            0 => (0..500).map(|_| random.draw() as u8).collect(),
            1 => b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort".to_vec(),
            2 => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_vec(),
            3 => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nlonger than it said".to_vec(),
            4 => b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(2000),
            5 => b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n".to_vec(),
            6 => [&b"HTTP/1.1 200 OK\r\n"[..], &b"X: y\r\n".repeat(20_000)].concat(),
            7 => b"HTTP/1.1 200 OK\r\nX-Accel-Redirect: /hostile/y\r\nContent-Length: 0\r\n\r\n".to_vec(),
            8 => Vec::new(),
            _ => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec(),
        };
        if answer.is_empty() || !peer.send(answer) {
            return;
        }
    }
}
