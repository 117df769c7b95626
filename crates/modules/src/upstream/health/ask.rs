//! A question to one server, and the answer, whatever protocol they are in.

use super::check::Check;
use crate::limits::ANSWER_BYTES_MAX;
use brisk_balance::{Endpoint, PeerInfo};
use brisk_http::limits::INTERIM_RESPONSES_MAX;
use brisk_net::Stream;
use brisk_upstream::backend::Passes;
use brisk_upstream::codec::{Codec, Event};
use brisk_upstream::head::BackendHead;
use std::sync::Arc;

/// Whom to ask, and how.
pub(super) struct Ask<'a> {
    pub endpoint: Endpoint,
    pub passes: &'a Passes,
    pub check: &'a Check,
    /// The peer that is asked: variables tell of it.
    pub peer: &'a Arc<PeerInfo>,
}

/// An answer, or as much of it as is looked at.
#[derive(Default)]
pub(super) struct Answer {
    pub head: BackendHead,
    pub body: Vec<u8>,
    pub trailers: Vec<(Vec<u8>, Vec<u8>)>,
}

/// How much of an answer is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// The final head.
    Head,
    /// All of it, or [`ANSWER_BYTES_MAX`] of the body.
    End,
}

/// Sends a question with `body` and takes the answer. The caller limits the time.
pub(super) async fn exchange(
    io: &Stream,
    codec: &mut dyn Codec,
    body: &[u8],
    until: Until,
) -> Result<Answer, String> {
    let mut out = Vec::new();
    codec.begin(&mut out);
    codec.body(body, &mut out);
    codec.end(&mut out);
    let (mut taking, mut rest) = (Taking { answer: Answer::default(), until, interim: 0 }, Vec::new());
    let mut piece = vec![0; 16 * 1024];
    loop {
        io.write_all(&out).await.map_err(|error| format!("send() failed ({error})"))?;
        out.clear();
        let count = io.read(&mut piece).await.map_err(|error| format!("recv() failed ({error})"))?;
        rest.extend_from_slice(&piece[..count]);
        let (used, is_over) = taking.take(codec, &rest, &mut out)?;
        if is_over {
            return Ok(taking.answer);
        }
        rest.drain(..used);
        if count == 0 {
            return taking.closed(codec);
        }
        if rest.len() >= ANSWER_BYTES_MAX {
            return Err("the answer's head is too large".into());
        }
    }
}

/// An answer that is coming.
struct Taking {
    answer: Answer,
    until: Until,
    /// Interim responses so far.
    interim: usize,
}

impl Taking {
    /// Takes what has come. Gives the bytes that are done with, and whether the answer is.
    fn take(
        &mut self,
        codec: &mut dyn Codec,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, bool), String> {
        let mut at = 0;
        loop {
            let input = &bytes[at..];
            let step = codec.read(input, out).map_err(|failure| failure.text().to_string())?;
            let is_over = match step.event {
                Event::NeedMore => return Ok((at + step.used, false)),
                Event::End => true,
                Event::Head(head) => {
                    self.answer.head = head;
                    self.until == Until::Head
                }
                Event::Data(range) => {
                    self.answer.body.extend_from_slice(&input[range]);
                    self.answer.body.len() >= ANSWER_BYTES_MAX
                }
                Event::Trailers(fields) => {
                    self.answer.trailers = fields;
                    false
                }
                Event::Interim(_) => {
                    self.interim += 1;
                    if self.interim > INTERIM_RESPONSES_MAX {
                        return Err("there are too many interim responses".into());
                    }
                    false
                }
                Event::Log(..) => false,
            };
            at += step.used;
            if is_over {
                return Ok((at, true));
            }
        }
    }

    /// The server has closed the connection, which is the end of some answers (RFC 9112 §6.3).
    fn closed(self, codec: &mut dyn Codec) -> Result<Answer, String> {
        match codec.eof() {
            Ok(Event::End) => Ok(self.answer),
            _ => Err("the connection was closed before the answer was complete".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_http::response::RequestKind;
    use brisk_upstream::http1::{Http1, Shape};

    /// What becomes of an answer that comes byte by byte, and then the connection is closed.
    fn taken(bytes: &[u8], until: Until) -> Result<(u16, Vec<u8>), String> {
        let shape = Shape { kind: RequestKind::Other, chunked: false, upgrade: false };
        let mut codec = Http1::new(Vec::new(), shape);
        codec.begin(&mut Vec::new());
        let (mut taking, mut rest) = (Taking { answer: Answer::default(), until, interim: 0 }, Vec::new());
        let done = |answer: Answer| (answer.head.status, answer.body);
        for byte in bytes {
            rest.push(*byte);
            let (used, is_over) = taking.take(&mut codec, &rest, &mut Vec::new())?;
            if is_over {
                return Ok(done(taking.answer));
            }
            rest.drain(..used);
        }
        taking.closed(&mut codec).map(done)
    }

    #[test]
    fn as_much_is_waited_for_as_is_looked_at() {
        let length = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
        let closed = b"HTTP/1.0 503 No\r\n\r\nnot now";
        let interim = b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
        assert_eq!(taken(length, Until::Head), Ok((200, Vec::new())));
        assert_eq!(taken(length, Until::End), Ok((200, b"ok".to_vec())));
        assert_eq!(taken(chunked, Until::End), Ok((200, b"ok".to_vec())));
        assert_eq!(taken(closed, Until::End), Ok((503, b"not now".to_vec())));
        assert_eq!(taken(interim, Until::End), Ok((204, Vec::new())));
    }

    #[test]
    fn an_answer_that_is_cut_off_or_broken_is_none() {
        let incomplete = Err("the connection was closed before the answer was complete".to_string());
        assert_eq!(taken(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", Until::End), incomplete);
        assert_eq!(taken(b"HTTP/1.1 200 OK\r\n", Until::Head), incomplete);
        assert!(taken(b"SSH-2.0-x\r\n\r\n", Until::Head).is_err());
        let interim = b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(INTERIM_RESPONSES_MAX + 1);
        let many = taken(&interim, Until::End);
        assert_eq!(many, Err("there are too many interim responses".to_string()));
    }
}
