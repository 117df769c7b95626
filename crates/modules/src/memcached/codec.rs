//! The answer to one `get` of memcached's text protocol: bytes in, events out.
//!
//! `VALUE key flags length`, the value and `END`, or `END` alone where there is none. Each line ends with CR LF.

use brisk_net::Failure;
use brisk_server::core::LogLevel;
use brisk_upstream::codec::{Codec, Event, Step};
use brisk_upstream::head::BackendHead;
use std::rc::Rc;

/// What ends an answer with a value.
const TRAILER: &[u8] = b"\r\nEND\r\n";

/// What is asked.
pub struct Get {
    /// Without bytes that mean something to the protocol.
    pub key: Rc<[u8]>,
    /// The client wants no body.
    pub is_head: bool,
    /// Flags of a value that say that it is compressed; 0: none do.
    pub gzip_flag: u64,
}

/// What is to come next.
enum State {
    Head,
    /// There is no such value; its head has not been given.
    Missing,
    /// Bytes of the value that have not come.
    Value(u64),
    /// How much of [`TRAILER`] has come.
    Trailer(usize),
    /// Nothing more that matters. Whether the back end may be asked something else on this connection.
    Over {
        persists: bool,
    },
}

/// See the module's head.
pub struct Memcached {
    get: Get,
    state: State,
    length: Option<u64>,
}

impl Memcached {
    pub fn new(get: Get) -> Memcached {
        Memcached { get, state: State::Head, length: None }
    }

    fn read_head(&mut self, input: &[u8]) -> Result<Step, Failure> {
        // Waits for the whole line; how long that may be the connection's buffer says.
        let Some(end) = memchr::memchr(b'\n', input) else {
            return Ok(Step { used: 0, event: Event::NeedMore });
        };
        let used = end + 1;
        let line = &input[..end];
        let line = line.strip_suffix(b"\r").ok_or_else(|| invalid("response", line))?;
        // No value: told in the log before the answer is given, in two steps.
        if line == b"END" {
            self.state = State::Missing;
            let key = String::from_utf8_lossy(&self.get.key);
            let text = format!("key: \"{key}\" was not found by memcached");
            return Ok(Step { used, event: Event::Log(LogLevel::Info, text.into_bytes()) });
        }
        let rest = line.strip_prefix(b"VALUE ").ok_or_else(|| invalid("response", line))?;
        let of_key = |what| self.invalid_for_key(what, line);
        // Another key is the answer to another question: the connection is out of step, and is given up.
        let rest = rest.strip_prefix(&self.get.key[..]).ok_or_else(|| of_key("key"))?;
        let rest = rest.strip_prefix(b" ").ok_or_else(|| invalid("response", line))?;
        let space = memchr::memchr(b' ', rest).ok_or_else(|| invalid("response", line))?;
        let mut head = BackendHead::new(200);
        if self.get.gzip_flag != 0 {
            // Only read where they mean something here: other clients put what they like there.
            let flags = number(&rest[..space]).ok_or_else(|| of_key("flags"))?;
            if flags & self.get.gzip_flag != 0 {
                head.push(b"Content-Encoding", b"gzip");
            }
        }
        let length = number(&rest[space + 1..]).ok_or_else(|| of_key("length"))?;
        self.length = Some(length);
        self.state = match length {
            // The value follows all the same, and is not read.
            _ if self.get.is_head => State::Over { persists: false },
            0 => State::Trailer(0),
            length => State::Value(length),
        };
        Ok(Step { used, event: Event::Head(head) })
    }

    fn invalid_for_key(&self, what: &str, line: &[u8]) -> Failure {
        let text = String::from_utf8_lossy;
        Failure::protocol(format!(
            "memcached sent invalid {what} in response \"{}\" for key \"{}\"",
            text(line),
            text(&self.get.key)
        ))
    }

    /// What comes must be the rest of the trailer, and nothing behind it.
    fn read_trailer(&mut self, seen: usize, input: &[u8]) -> Step {
        let used = input.len();
        // The value was whole, so the client keeps it; only the connection is not used again.
        if !TRAILER[seen..].starts_with(input) {
            self.state = State::Over { persists: false };
            let text = b"memcached sent invalid trailer".to_vec();
            return Step { used, event: Event::Log(LogLevel::Error, text) };
        }
        self.state = match seen + used {
            all if all == TRAILER.len() => State::Over { persists: true },
            seen => State::Trailer(seen),
        };
        let event = if matches!(self.state, State::Over { .. }) { Event::End } else { Event::NeedMore };
        Step { used, event }
    }
}

fn invalid(what: &str, line: &[u8]) -> Failure {
    Failure::protocol(format!("memcached sent invalid {what}: \"{}\"", String::from_utf8_lossy(line)))
}

/// Digits alone, of a number that also fits into 63 bits.
fn number(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| is_number)?;
    text.parse().ok().filter(|number| i64::try_from(*number).is_ok())
}

impl Codec for Memcached {
    fn begin(&mut self, out: &mut Vec<u8>) {
        // The same question may be put to the next back end.
        (self.state, self.length) = (State::Head, None);
        for part in [b"get ", &self.get.key[..], b"\r\n"] {
            out.extend_from_slice(part);
        }
    }

    /// A `get` has none.
    fn body(&mut self, _: &[u8], _: &mut Vec<u8>) {}

    fn end(&mut self, _: &mut Vec<u8>) {}

    fn read(&mut self, input: &[u8], _: &mut Vec<u8>) -> Result<Step, Failure> {
        match &mut self.state {
            State::Head => self.read_head(input),
            State::Missing => {
                self.state = State::Over { persists: true };
                self.length = Some(0);
                Ok(Step { used: 0, event: Event::Head(BackendHead::new(404)) })
            }
            State::Over { .. } => Ok(Step { used: 0, event: Event::End }),
            _ if input.is_empty() => Ok(Step { used: 0, event: Event::NeedMore }),
            State::Value(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= count as u64;
                if *left == 0 {
                    self.state = State::Trailer(0);
                }
                Ok(Step { used: count, event: Event::Data(0..count) })
            }
            State::Trailer(seen) => {
                let seen = *seen;
                Ok(self.read_trailer(seen, input))
            }
        }
    }

    /// An end before the value's is seen by the caller, from the length that was announced.
    fn eof(&mut self) -> Result<Event, Failure> {
        Ok(if matches!(self.state, State::Over { .. }) { Event::End } else { Event::NeedMore })
    }

    fn persists(&self) -> bool {
        matches!(self.state, State::Over { persists: true })
    }

    fn length(&self) -> Option<u64> {
        self.length
    }
}

/// Any bytes as an answer: they mean the same in whatever pieces they come, and a value is as long as was announced.
pub fn fuzz(bytes: &[u8]) {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let whole = read(first, bytes, bytes.len().max(1));
    if let Read { status: 200, ended: true, length: Some(length), .. } = whole {
        assert_eq!(whole.body.len() as u64, if first & 1 != 0 { 0 } else { length });
    }
    for size in [1, 2, 7] {
        assert_eq!(read(first, bytes, size), whole, "in pieces of {size}");
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    status: u16,
    is_gzip: bool,
    length: Option<u64>,
    body: Vec<u8>,
    ended: bool,
    failed: bool,
}

fn read(first: u8, bytes: &[u8], size: usize) -> Read {
    let get = Get { key: b"/k"[..].into(), is_head: first & 1 != 0, gzip_flag: u64::from(first >> 1 & 3) };
    let mut codec = Memcached::new(get);
    let (mut out, mut rest, mut answer) = (Vec::new(), Vec::new(), Read::default());
    codec.begin(&mut out);
    assert_eq!(out, b"get /k\r\n");
    'pieces: for piece in bytes.chunks(size) {
        rest.extend_from_slice(piece);
        let mut at = 0;
        loop {
            let Ok(step) = codec.read(&rest[at..], &mut out) else {
                answer.failed = true;
                break 'pieces;
            };
            let from = at;
            at += step.used;
            match step.event {
                Event::Head(head) => {
                    answer.status = head.status;
                    answer.is_gzip = head.fields().next().is_some();
                    answer.length = codec.length();
                }
                Event::Data(range) => {
                    assert!(range.end <= step.used);
                    answer.body.extend_from_slice(&rest[from..][range]);
                }
                Event::End => {
                    answer.ended = true;
                    break 'pieces;
                }
                Event::NeedMore => break,
                _ => {}
            }
        }
        rest.drain(..at);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], first: u8, status: u16, body: &[u8], ended: bool) {
        let read = read(first, bytes, 1000);
        let got = (read.status, &read.body[..], read.ended);
        assert_eq!(got, (status, body, ended), "{:?}", String::from_utf8_lossy(bytes));
        fuzz(&[&[first], bytes].concat());
    }

    #[test]
    fn values_and_their_absence() {
        check(b"VALUE /k 0 3\r\nabc\r\nEND\r\n", 0, 200, b"abc", true);
        check(b"VALUE /k 0 0\r\n\r\nEND\r\n", 0, 200, b"", true);
        check(b"VALUE /k 0 3\r\nabc\r\nEND", 0, 200, b"abc", false);
        check(b"VALUE /k 0 3\r\nab", 0, 200, b"ab", false);
        check(b"VALUE /k 0 3\r\n", 1, 200, b"", true);
        check(b"END\r\n", 0, 404, b"", true);
        check(b"END\r\nmore", 0, 404, b"", true);
        assert!(read(2, b"VALUE /k 3 1\r\na\r\nEND\r\n", 9).is_gzip);
        assert!(!read(2, b"VALUE /k 2 1\r\na\r\nEND\r\n", 9).is_gzip);
        assert!(!read(0, b"VALUE /k 3 1\r\na\r\nEND\r\n", 9).is_gzip);
    }

    #[test]
    fn what_a_wrong_trailer_costs_is_the_connection() {
        for wrong in [&b"abc\r\nEND\r\nx"[..], b"abcEND\r\n", b"abc\r\nEXD\r\n", b"abcdefghijk"] {
            let mut codec = Memcached::new(Get { key: b"/k"[..].into(), is_head: false, gzip_flag: 0 });
            let (mut out, mut events) = (Vec::new(), Vec::new());
            let input = [b"VALUE /k 0 3\r\n", wrong].concat();
            let mut at = 0;
            while !matches!(events.last(), Some(Event::End)) {
                let step = codec.read(&input[at..], &mut out).unwrap();
                at += step.used;
                events.push(step.event);
            }
            let said = events.iter().any(|event| matches!(event, Event::Log(LogLevel::Error, _)));
            assert!(said && !codec.persists(), "{:?}", String::from_utf8_lossy(wrong));
        }
    }

    #[test]
    fn other_answers_are_errors() {
        let error = |bytes: &[u8]| {
            let get = Get { key: b"/k"[..].into(), is_head: false, gzip_flag: 1 };
            Memcached::new(get).read(bytes, &mut Vec::new()).unwrap_err().text().to_string()
        };
        let of_key = |what: &str, line: &str| {
            format!("memcached sent invalid {what} in response \"{line}\" for key \"/k\"")
        };
        for line in ["ERROR", "", "VALUE", "VALUE /k", "VALUE /k ", "VALUE /k 0", "VALUE /kk 0 1", "END "] {
            let text = format!("memcached sent invalid response: \"{line}\"");
            assert_eq!(error(format!("{line}\r\n").as_bytes()), text, "{line}");
        }
        assert_eq!(error(b"END\n"), "memcached sent invalid response: \"END\"");
        for (what, line) in [
            ("key", "VALUE /x 0 1"),
            ("flags", "VALUE /k x 1"),
            ("flags", "VALUE /k  1"),
            ("length", "VALUE /k 0 "),
            ("length", "VALUE /k 0 -1"),
            ("length", "VALUE /k 0 +1"),
            ("length", "VALUE /k 0 1 2"),
            ("length", "VALUE /k 0 9223372036854775808"),
            ("length", "VALUE /k 0 99999999999999999999"),
        ] {
            assert_eq!(*error(format!("{line}\r\n").as_bytes()), of_key(what, line));
        }
    }
}
