//! First packets of QUIC clients that never go on, from ever other addresses: what a flood with forged senders looks like.

use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use brisk_load::output;
use brisk_load::rng::Rng;
use brisk_net::udp::{Message, Outbox};
use brisk_quic::{Client, ClientSettings};
use brisk_tls::{ClientContext, ClientOptions};

use crate::lab::LOAD_CPU;
use crate::server::end;

/// Clients whose packets are sent in turn.
const CLIENTS: usize = 4000;
/// How long it sleeps when nothing is due.
const PAUSE: Duration = Duration::from_micros(500);
/// Packets that are sent in one go at most: what was not sent in time is left out.
const BURST_MAX: usize = 200;
/// What it says before it begins.
const READY: &str = "ready";

/// A flood that runs beside the generator, in a process of its own; dropping it ends it.
pub struct Flood(Child);

impl Flood {
    /// Begins to send so many first packets per second to `port`.
    pub fn begin(port: u16, rate: u32) -> io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.args(["exec", &std::process::id().to_string(), &LOAD_CPU.to_string()]);
        command.arg(std::env::current_exe()?).args(["flood", &port.to_string(), &rate.to_string()]);
        let mut flood = Self(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?);
        let mut said = [0; READY.len()];
        match &mut flood.0.stdout {
            Some(stdout) => stdout.read_exact(&mut said)?,
            None => return Err(io::Error::other("the flood has no output")),
        }
        Ok(flood)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

/// Sends until killed.
pub fn send(port: u16, rate: u32) -> io::Result<()> {
    let packets = first_packets()?;
    // On all addresses, so that each message may name the one that it comes from. Answers are of no interest.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 1)?;
    let (to, mut outbox, mut rng) =
        (SocketAddr::from((Ipv4Addr::LOCALHOST, port)), Outbox::default(), Rng::from_clock());
    output::line(format_args!("{READY}"));
    let (mut begun, mut count) = (Instant::now(), 0);
    loop {
        let due = (begun.elapsed().as_secs_f64() * f64::from(rate)) as usize;
        if count >= due {
            std::thread::sleep(PAUSE);
            continue;
        }
        if due - count > BURST_MAX {
            (begun, count) = (Instant::now(), 0);
            continue;
        }
        for _ in count..due {
            let [_, a, b, c] = (rng.next_u64() as u32).to_be_bytes();
            let from = Some(IpAddr::from(Ipv4Addr::new(127, a.max(1), b, c.clamp(1, 254))));
            let bytes = packets[rng.below(packets.len())].clone();
            outbox.push(Message { to, from, ecn: 0, segment: None, bytes });
            if outbox.is_full() {
                outbox.flush(socket.as_fd(), drop);
            }
        }
        outbox.flush(socket.as_fd(), drop);
        count = due;
    }
}

/// The first datagrams of so many clients.
fn first_packets() -> io::Result<Vec<Vec<u8>>> {
    let options = ClientOptions { alpn: vec![b"h3".to_vec()], ..ClientOptions::unverified() };
    let context = ClientContext::new(&options).map_err(io::Error::other)?;
    let settings = ClientSettings::new(&context, false).map_err(io::Error::other)?;
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, 443));
    let first = |_| {
        let now = Instant::now();
        let mut client = Client::begin(now, &settings, to, "localhost").map_err(io::Error::other)?;
        let fresh =
            client.poll_transmit(now).ok_or_else(|| io::Error::other("a client without a first packet"))?;
        let size = fresh.segment.unwrap_or(fresh.bytes.len());
        Ok(fresh.bytes[..size].to_vec())
    };
    (0..CLIENTS).map(first).collect()
}
