//! A cache with very many entries: how soon a server knows what is on the disk, and what the index costs in memory.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Findings, absolute, brisk, plain_row};
use crate::conf::Conf;
use crate::lab::Lab;
use crate::results::Target;
use crate::server::Server;
use brisk_load::output;

const ENTRIES: u32 = 1_000_000;
/// More than a block: sizes that are known differ from sizes that are not.
const FILE_BYTES: u64 = 5000;
const BLOCK_BYTES: u64 = 4096;
const LOAD_MAX: Duration = Duration::from_mins(2);
const ASK_EVERY: Duration = Duration::from_millis(10);

/// A million entries, found on the disk by a server that has just been started.
pub fn run(lab: &Lab) -> io::Result<Findings> {
    let folder = lab.server_dir("entries")?;
    let conf = |folder: &Path| Conf {
        http: format!(
            "proxy_cache_path {} levels=1:2 keys_zone=many:200m inactive=10d max_size=100g;\n",
            folder.display()
        ),
        site: "location = /metrics { metrics; }\n".to_owned(),
        ..Conf::default()
    };
    let (empty, full) = (folder.join("empty"), folder.join("full"));
    fs::create_dir_all(&empty)?;
    output::note(format_args!("  making {ENTRIES} files"));
    fill(&full)?;
    let (empty, full) =
        (brisk(conf(&empty)).unpinned().prepare(lab)?, brisk(conf(&full)).unpinned().prepare(lab)?);
    let (mut seconds, mut measured, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=lab.options.rounds {
        output::note(format_args!("  round {round} of {}", lab.options.rounds));
        let mut server = empty.start()?;
        await_entries(&server, 0)?;
        let before = server.memory().pss;
        drop(server);
        let start = Instant::now();
        server = full.start()?;
        await_entries(&server, ENTRIES)?;
        seconds.push(start.elapsed().as_secs_f64());
        await_sizes(&server)?;
        measured.push(start.elapsed().as_secs_f64());
        bytes.push((server.memory().pss - before) / f64::from(ENTRIES));
    }
    let checks = vec![
        absolute("from the start to 1,000,000 entries known", &seconds, &[], "s", Target::AtMost(3.0)),
        absolute("memory of an entry", &bytes, &[], "bytes PSS", Target::AtMost(150.0)),
    ];
    let rows = vec![plain_row("from the start to their sizes known", "brisk", &measured, "s")];
    Ok(Findings { checks, rows, ..Findings::default() })
}

/// Makes files where a cache would have them; their names and sizes are what is learnt of them, so they hold nothing that
/// would have to be written.
fn fill(folder: &Path) -> io::Result<()> {
    for (one, two) in (0..16u32).flat_map(|one| (0..256u32).map(move |two| (one, two))) {
        fs::create_dir_all(folder.join(format!("{one:x}/{two:02x}")))?;
    }
    let part =
        |numbers: std::ops::Range<u32>| numbers.into_iter().try_for_each(|number| make(folder, number));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| part(0..ENTRIES / 2));
        let own = part(ENTRIES / 2..ENTRIES);
        other.join().unwrap_or_else(|_| Err(io::Error::other("a thread failed"))).and(own)
    })
}

fn make(folder: &Path, number: u32) -> io::Result<()> {
    // Multiplying by an odd number repeats nothing, and scatters.
    let digest = u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    let name = format!("{digest:032x}");
    let inner = folder.join(&name[31..]).join(&name[29..31]);
    fs::File::create(inner.join(&name))?.set_len(FILE_BYTES)
}

/// The names: what is not among them is not stored, and is not looked for.
fn await_entries(server: &Server, count: u32) -> io::Result<()> {
    await_lines(server, &[("loading", 0), ("entries", u64::from(count))])
}

/// Without sizes each entry counts as one block.
fn await_sizes(server: &Server) -> io::Result<()> {
    let bytes = FILE_BYTES.next_multiple_of(BLOCK_BYTES) * u64::from(ENTRIES);
    await_lines(server, &[("disk_bytes", bytes)])
}

fn await_lines(server: &Server, wanted: &[(&str, u64)]) -> io::Result<()> {
    let limit = Instant::now() + LOAD_MAX;
    let lines: Vec<String> =
        wanted.iter().map(|(name, value)| format!("brisk_cache_{name}{{zone=\"many\"}} {value}")).collect();
    loop {
        let text = metrics(server.address)?;
        if lines.iter().all(|wanted| text.lines().any(|line| line == wanted)) {
            return Ok(());
        }
        if Instant::now() > limit {
            return Err(io::Error::other(format!("{lines:?} are not to be seen: {text}")));
        }
        std::thread::sleep(ASK_EVERY);
    }
}

fn metrics(address: SocketAddr) -> io::Result<String> {
    let mut socket = TcpStream::connect(address)?;
    socket.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut text = String::new();
    socket.read_to_string(&mut text)?;
    Ok(text)
}
