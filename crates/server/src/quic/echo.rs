//! HTTP/0.9 over QUIC as interoperability tests speak it (`hq-interop`), answering each request with its own line: what shows that
//! handshakes, streams and ends work while nothing else is spoken. Of builds for development only.

use super::state::App;
use crate::connection::Connection;
use crate::table::Thread;
use brisk_quic::{Dir, Event, Key, Read, Written};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Bytes of a request.
/// A longer line is no request of those tests.
const LINE_BYTES: usize = 4096;

pub(crate) struct Echo {
    thread: Rc<Thread>,
    key: Key,
    conn: Rc<Connection>,
    /// What has come on each stream, and how much of it went back.
    lines: RefCell<HashMap<u64, Line>>,
}

#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    sent: usize,
    is_whole: bool,
}

impl Echo {
    pub fn begin(thread: Rc<Thread>, key: Key, conn: Rc<Connection>) -> Rc<dyn App> {
        Rc::new(Echo { thread, key, conn, lines: RefCell::default() })
    }

    fn serve(&self, stream: u64) {
        // All of it in one use of the endpoint: nothing in here asks it again.
        self.thread.quic.with(self.key, |quic| {
            let mut lines = self.lines.borrow_mut();
            let line = lines.entry(stream).or_default();
            while !line.is_whole {
                match quic.read(stream, LINE_BYTES, &mut line.bytes) {
                    Read::Some(_) => {}
                    Read::End(_) => line.is_whole = true,
                    Read::Blocked => return,
                    // Nobody waits for the rest.
                    Read::Reset(_) | Read::Gone => {
                        lines.remove(&stream);
                        return;
                    }
                }
            }
            while line.sent < line.bytes.len() {
                match quic.write(stream, &line.bytes[line.sent..]) {
                    Written::Some(count) => line.sent += count,
                    Written::Blocked => return,
                    // The client does not want its answer.
                    Written::Stopped(_) | Written::Gone => break,
                }
            }
            quic.finish(stream);
            lines.remove(&stream);
        });
    }
}

impl App for Echo {
    fn connection(&self) -> &Rc<Connection> {
        &self.conn
    }

    fn event(self: Rc<Self>, event: Event) {
        match event {
            // Streams that come together are told once.
            Event::Opened(Dir::Bi) => {
                while let Some(stream) =
                    self.thread.quic.with(self.key, |quic| quic.accept(Dir::Bi)).flatten()
                {
                    self.serve(stream);
                }
            }
            Event::Readable(stream) | Event::Writable(stream) => self.serve(stream),
            // The rest is about packets and windows, which the library keeps.
            _ => {}
        }
    }
}
