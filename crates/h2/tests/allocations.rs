//! A connection that has warmed up takes nothing from the allocator, whatever it is asked and answers.

use brisk_h2::conn::{Config, HeadKind, HeadSink, Role};
use brisk_h2::frame::{flag, kind, write_head, write_window_update};
use brisk_h2::hpack::{Encoder, Field, FieldSink, Indexing, write_literal, write_status};
use brisk_h2::{Connection, Event, PREFACE, Settings};

/// Fields as a server looks at them, without keeping them.
#[derive(Default)]
struct Seen {
    fields: usize,
    bytes: usize,
}

impl FieldSink for Seen {
    fn tag(&mut self, name: &[u8]) -> u8 {
        name.first().copied().unwrap_or(0)
    }

    fn field(&mut self, field: Field<'_>) {
        self.fields += 1;
        self.bytes += field.name.len() + field.value.len();
    }
}

impl HeadSink for Seen {
    fn begin(&mut self, _: u64, _: HeadKind) {}

    fn is_interim(&self) -> bool {
        false
    }
}

/// A server's end and what it needs at hand.
struct Server {
    conn: Connection<()>,
    seen: Seen,
    block: Vec<u8>,
    out: Vec<u8>,
}

impl Server {
    /// Takes frames, answers each request with a small body, reads bodies and drops them.
    fn serve(&mut self, mut input: &[u8]) -> usize {
        let mut answered = 0;
        loop {
            let received = self.conn.receive(input, &mut self.seen, &mut self.out).unwrap();
            input = &input[received.used..];
            let done = match received.event {
                Some(Event::Head { stream, end, .. }) => end.then_some(stream),
                Some(Event::Data { stream, data, end, .. }) => {
                    let count = data.len() as u32;
                    self.conn.consume(stream, count, &mut self.out);
                    end.then_some(stream)
                }
                Some(_) => None,
                None if received.used == 0 => return answered,
                None => None,
            };
            if let Some(stream) = done {
                answered += 1;
                self.block.clear();
                write_status(200, &mut self.block);
                write_literal(b"content-type", b"text/plain", &mut self.block);
                self.conn.send_head(stream, &self.block, false, &mut self.out).unwrap();
                self.conn.send_body(stream, b"hello, world", true, &mut self.out).unwrap();
            }
        }
    }
}

/// Sixteen requests, every fourth with a body, with what clients say between: windows, priorities, pings, acknowledgements.
fn flight(first: u32, encoder: &mut Encoder, out: &mut Vec<u8>) {
    out.clear();
    for at in 0..16 {
        let stream = first + 2 * at;
        let has_body = at % 4 == 3;
        let mut block = Vec::new();
        encoder.begin(&mut block);
        let method = if has_body { "POST" } else { "GET" };
        let fields = [
            (":method", method),
            (":scheme", "https"),
            (":path", "/index.html"),
            (":authority", "www.example.com"),
            ("user-agent", "a client that says who it is"),
            ("cookie", "session=0123456789abcdef"),
            ("priority", "u=3, i"),
        ];
        for (name, value) in fields {
            encoder.field(name.as_bytes(), value.as_bytes(), Indexing::Add, &mut block);
        }
        // One that is new each time: the table turns over.
        encoder.field(b"x-request-id", stream.to_string().as_bytes(), Indexing::Add, &mut block);
        let flags = flag::END_HEADERS | if has_body { 0 } else { flag::END_STREAM };
        write_head(block.len(), kind::HEADERS, flags, stream, out);
        out.extend_from_slice(&block);
        if has_body {
            write_head(500, kind::DATA, 0, stream, out);
            out.extend_from_slice(&[b'x'; 500]);
            write_head(0, kind::DATA, flag::END_STREAM, stream, out);
        }
    }
    write_window_update(0, 16 * 12, out);
    write_head(8, kind::PING, flag::ACK, 0, out);
    out.extend_from_slice(&[0; 8]);
}

#[test]
fn frames_take_nothing_from_the_allocator() {
    let mut out = Vec::new();
    let conn = Connection::new(Role::Server, Config::default(), 0, &mut out);
    let mut server = Server { conn, seen: Seen::default(), block: Vec::new(), out };
    let mut hello = PREFACE.to_vec();
    Settings { initial_window_size: 1 << 20, ..Settings::default() }.write(&mut hello);
    server.serve(&hello);
    let mut encoder = Encoder::new(4096);
    let (mut input, mut first) = (Vec::new(), 1);
    for round in 0..400 {
        flight(first, &mut encoder, &mut input);
        first += 32;
        server.out.clear();
        // It is later each time: what clients say between requests is not a flood.
        server.conn.tick(round);
        let mut answered = 0;
        let taken = allocation_counter::measure(|| answered = server.serve(&input));
        assert_eq!(answered, 16);
        if round >= 100 {
            assert_eq!(taken.count_total, 0, "in round {round}: {} bytes", taken.bytes_total);
        }
    }
    assert!(server.seen.fields == 400 * 16 * 8 && server.seen.bytes > 0);
}
