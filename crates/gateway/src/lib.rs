//! The protocols between a web server and what answers in its place: FastCGI, SCGI and uwsgi, as data.
//!
//! Bytes in, events out; no I/O, no clock, no configuration. The server speaks the client's side; tests and simulated
//! peers speak the other one with the same code. What a gateway answers is a head as CGI has it
//! ([`brisk_http::response::parse_cgi`]) and a body.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod fastcgi;
pub mod fuzz;
pub mod headers;
mod limits;
pub mod scgi;
pub mod uwsgi;

/// What takes parameters, one after the other.
pub trait Params {
    /// Adds `name` with the value that `pieces` are together.
    fn pair(&mut self, name: &[u8], pieces: &[&[u8]]);
}

/// A name and its value.
pub type Pair<'a> = (&'a [u8], &'a [u8]);

/// The bytes of all pieces together.
fn total(pieces: &[&[u8]]) -> usize {
    pieces.iter().map(|piece| piece.len()).sum()
}

fn put_all(pieces: &[&[u8]], out: &mut Vec<u8>) {
    for piece in pieces {
        out.extend_from_slice(piece);
    }
}
