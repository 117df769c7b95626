//! A question to a worker of a pool, over the socket for requests: what only a process that runs PHP knows.

use brisk_gateway::Params as _;
use brisk_gateway::fastcgi::{Demux, Event, RequestWriter, stdin_end};
use brisk_modules::php::PoolSpec;
use brisk_net::connect::unix_at_once;
use std::io::{self, Read as _, Write as _};
use std::time::Duration;

/// All workers may be busy.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Asks a worker; `file` is what the question is about. Gives the body of the answer.
pub fn ask(pool: &PoolSpec, question: &str, file: &str) -> Result<Vec<u8>, String> {
    let name = &pool.settings.pool;
    exchange(pool, question, file).map_err(|error| {
        format!(
            "pool {name} does not answer ({}): does the server run, and the pool, as its error log says?",
            brisk_conf::os_text(&error)
        )
    })
}

fn exchange(pool: &PoolSpec, question: &str, file: &str) -> io::Result<Vec<u8>> {
    let mut stream = unix_at_once(&pool.socket)?;
    stream.set_read_timeout(Some(ANSWER_TIME))?;
    stream.set_write_timeout(Some(ANSWER_TIME))?;
    let mut request = Vec::new();
    let mut writer = RequestWriter::new(false, &mut request);
    for (name, value) in [
        ("BRISK_ASKS", question),
        ("REQUEST_METHOD", "GET"),
        ("SCRIPT_FILENAME", file),
        ("SCRIPT_NAME", file),
        ("REQUEST_URI", "brisk php"),
    ] {
        // A question about the pool as a whole names no script.
        if value.is_empty() {
            continue;
        }
        writer.pair(name.as_bytes(), &[value.as_bytes()]);
    }
    let too_long = |size| io::Error::new(io::ErrorKind::InvalidInput, format!("a name of {size} bytes"));
    writer.finish().map_err(too_long)?;
    request.extend_from_slice(&stdin_end());
    stream.write_all(&request)?;
    let (mut answer, mut demux, mut room) = (Vec::new(), Demux::default(), [0; 16 * 1024]);
    while !demux.is_done() {
        let count = stream.read(&mut room)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut at = 0;
        while at < count && !demux.is_done() {
            let (event, used) = demux
                .next(&room[at..count])
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            if let Event::Stdout(range) = event {
                answer.extend_from_slice(&room[at..count][range]);
            }
            at += used;
        }
    }
    let body = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").map_or(answer.len(), |at| at + 4);
    Ok(answer.split_off(body))
}
