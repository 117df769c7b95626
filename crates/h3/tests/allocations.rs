//! A connection that has warmed up takes nothing from the allocator, whatever it is asked and answers.

use brisk_h3::qpack::{begin, write_literal, write_status};
use brisk_h3::{Begun, Config, Connection, Event, Field, FieldSink, HeadKind, HeadSink, Role, frame};

/// Fields as a server looks at them, without keeping them.
#[derive(Default)]
struct Seen {
    fields: usize,
}

impl FieldSink for Seen {
    fn tag(&mut self, name: &[u8]) -> u8 {
        name.first().copied().unwrap_or(0)
    }

    fn field(&mut self, _: Field<'_>) {
        self.fields += 1;
    }
}

impl HeadSink for Seen {
    fn begin(&mut self, _: u64, _: HeadKind) {}
}

struct Server {
    conn: Connection<()>,
    seen: Seen,
    section: Vec<u8>,
    out: Vec<u8>,
}

impl Server {
    /// Takes a request, answers it with a small body.
    fn serve(&mut self, stream: u64, mut input: &[u8]) {
        assert_eq!(self.conn.begin(stream), Ok(Begun::Taken));
        let mut ended = false;
        while let Some(event) = self.conn.receive(stream, &mut input, true, &mut self.seen).unwrap() {
            ended |= matches!(event, Event::Head { end: true, .. } | Event::Data { end: true, .. });
        }
        assert!(ended);
        self.section.clear();
        begin(&mut self.section);
        write_status(200, &mut self.section);
        write_literal(b"content-type", b"text/plain", &mut self.section);
        self.out.clear();
        self.conn.send_head(stream, &self.section, &mut self.out).unwrap();
        self.conn.begin_data(stream, 12, &mut self.out).unwrap();
        self.out.extend_from_slice(b"hello, world");
        self.conn.end_send(stream).unwrap();
    }
}

fn request(has_body: bool, out: &mut Vec<u8>) {
    let mut section = Vec::new();
    begin(&mut section);
    let fields = [
        (":method", if has_body { "POST" } else { "GET" }),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("user-agent", "a client that says who it is"),
        ("priority", "u=3, i"),
    ];
    fields.iter().for_each(|(name, value)| write_literal(name.as_bytes(), value.as_bytes(), &mut section));
    out.clear();
    frame::write(frame::kind::HEADERS, &section, out);
    if has_body {
        frame::write(frame::kind::DATA, &[b'x'; 500], out);
    }
}

#[test]
fn requests_take_nothing_from_the_allocator() {
    let conn = Connection::new(Role::Server, Config::default(), 0);
    let mut server = Server { conn, seen: Seen::default(), section: Vec::new(), out: Vec::new() };
    let mut input = Vec::new();
    for round in 0..400u64 {
        request(round % 4 == 3, &mut input);
        let taken = allocation_counter::measure(|| server.serve(4 * round, &input));
        if round >= 100 {
            assert_eq!(taken.count_total, 0, "in round {round}: {} bytes", taken.bytes_total);
        }
    }
    assert_eq!(server.seen.fields, 400 * 6);
}
