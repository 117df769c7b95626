//! Failures of a request's body.

use brisk_host::temp_file::TempError;
use brisk_http::chunked::ChunkError;
use brisk_net::{Activity, Cause, Failure, Origin};
use std::borrow::Cow;

fn client(cause: Cause) -> Failure {
    Failure::client(Activity::ReadingRequestBody, cause)
}

/// The client has closed the connection, or reset the stream.
pub fn gone() -> Failure {
    client(Cause::Closed)
}

/// `client_body_timeout` is over.
pub fn timed_out() -> Failure {
    client(Cause::TimedOut)
}

/// The chunked framing is wrong (RFC 9112 §7.1).
pub fn malformed(error: &ChunkError) -> Failure {
    client(Cause::Protocol(format!("client sent invalid chunked body: {error}").into()))
}

/// Chunks come to more than `client_max_body_size`: `received` bytes before, and a chunk of `chunk` bytes.
pub fn too_large(received: u64, chunk: u64) -> Failure {
    let text = format!("client intended to send too large chunked body: {received}+{chunk} bytes");
    client(Cause::TooLarge(Cow::Owned(text)))
}

/// Not as many bytes as `Content-Length` has announced, where the end is told apart from it (RFC 9113 §8.1.1).
pub fn other_length() -> Failure {
    client(Cause::Length)
}

/// The temporary file failed.
#[allow(clippy::needless_pass_by_value, reason = "it is given to map_err")]
pub fn file(error: TempError) -> Failure {
    Failure::new(Origin::Local, Activity::ReadingRequestBody, Cause::Broken(error.to_string().into()))
}
