//! What the system refuses a configuration that is right in itself: messages with the place that asks for it, and the remedy.

use crate::sockets;
use brisk_conf::{Diag, SourceMap, Span, os_text};
use brisk_load::watch::proc;
use brisk_net::listen::Address;
use brisk_net::sys;
use brisk_server::conf::{LogTarget, Snapshot, Socket as Listen};
use std::io;
use std::path::Path;

/// nginx's line for it has no place; the excerpt shows one where the text names what is refused.
fn diag(place: Option<Span>, message: String) -> Diag {
    match place {
        Some(span) => Diag::emerg(span, message).bare(),
        None => Diag::global(message),
    }
}

/// The message for a place that says `[emerg]` itself.
pub fn without_level(diag: &Diag, sources: &SourceMap) -> String {
    let text = diag.render(sources);
    text.strip_prefix("[emerg] ").map(str::to_string).unwrap_or(text)
}

/// A log that cannot be opened, by its number.
pub fn log(snap: &Snapshot, index: usize, error: &io::Error) -> Diag {
    let (target, place) = (&snap.logs[index], snap.log_places.get(index).copied().flatten());
    let diag = diag(place, format!("open() \"{target}\" failed ({})", os_text(error)));
    let LogTarget::File(path) = target else { return diag };
    let default = if place.is_none() { "it is the default, as no directive names a log; " } else { "" };
    diag.help(format!("{default}{}", file_remedy(path, error)))
}

/// What helps where a file cannot be written.
pub fn file_remedy(path: &str, error: &io::Error) -> String {
    let folder = Path::new(path).parent().map_or_else(|| ".".into(), |folder| folder.display().to_string());
    match error.kind() {
        io::ErrorKind::NotFound => format!("the folder is not there: mkdir -p {folder}"),
        io::ErrorKind::PermissionDenied => {
            format!(
                "the user that starts Brisk may not write there: start it as root, or write into a folder of yours (not {folder})"
            )
        }
        io::ErrorKind::IsADirectory => "this is a folder; name a file in it".into(),
        io::ErrorKind::ReadOnlyFilesystem => {
            "the file system is read-only there: name another path (under systemd, ReadWritePaths=)".into()
        }
        io::ErrorKind::StorageFull => "the disk is full".into(),
        _ => "name a file that can be written".into(),
    }
}

/// A user or group that the machine does not have.
pub fn account(place: Option<Span>, call: &str, name: &str) -> Diag {
    const USUAL: [&str; 5] = ["www-data", "nginx", "http", "apache", "nobody"];
    let diag = diag(place, format!("{call}(\"{name}\") failed"));
    let exists = |other: &&str| *other != name && sys::user(other).is_some();
    let here = USUAL.iter().copied().find(exists).unwrap_or("nobody");
    if call == "getgrnam" {
        return diag.help(format!(
            "this machine has no group \"{name}\": leave it out, or make it (groupadd --system {name})"
        ));
    }
    diag.help(format!(
        "this machine has no user \"{name}\": write \"user {here};\", or make it (useradd --system --no-create-home {name})"
    ))
}

/// An address that cannot be listened on.
pub fn listen(listen: &Listen, call: &str, error: &io::Error) -> Diag {
    let message = format!("{call}() to {} failed ({})", listen.address, os_text(error));
    let diag = diag(Some(listen.span), message);
    match remedy(&listen.address, error) {
        Some(help) => diag.help(help),
        None => diag,
    }
}

/// What stands in the way of binding, as far as it can be seen from here.
fn remedy(address: &Address, error: &io::Error) -> Option<String> {
    let port = match address {
        Address::Ip(ip) | Address::Udp(ip) | Address::Quic(ip, _) => ip.port(),
        Address::Unix(path) => return unix_remedy(path, error),
    };
    match error.raw_os_error()? {
        libc::EADDRINUSE => Some(match holder(port) {
            Some(holder) => format!("{holder} listens there: end it, or choose another port"),
            None => format!("another process listens there (ss -ltnp 'sport = {port}'): end it, or choose another port"),
        }),
        libc::EACCES if port < 1024 => Some(
            "ports below 1024 are for root and for programs with the capability CAP_NET_BIND_SERVICE; from 1024 on \
             everybody may listen"
                .into(),
        ),
        libc::EADDRNOTAVAIL => {
            let own: Vec<String> = sys::interface_addresses().iter().map(ToString::to_string).collect();
            Some(format!("no interface of this machine has this address; it has {}", own.join(", ")))
        }
        libc::EAFNOSUPPORT => Some("this machine has no IPv6: remove this listen".into()),
        _ => None,
    }
}

fn unix_remedy(path: &Path, error: &io::Error) -> Option<String> {
    match error.raw_os_error()? {
        libc::EADDRINUSE if !sockets::is_socket(path) => Some("the file there is no socket".into()),
        libc::EADDRINUSE => Some(match named(&proc::listening_at(path)) {
            Some(holder) => format!("{holder} listens there: end it, or choose another path"),
            None => "another process listens there: end it, or choose another path".into(),
        }),
        libc::ENOENT | libc::EACCES => path.to_str().map(|path| file_remedy(path, error)),
        _ => None,
    }
}

/// The process that listens on a port, as far as it can be seen.
pub fn holder(port: u16) -> Option<String> {
    named(&proc::listening_on(port))
}

/// The first of these processes; a server's other processes share its socket.
fn named(pids: &[u32]) -> Option<String> {
    let pid = pids.first()?;
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(format!("{} (process {pid})", brisk_conf::escape_controls(name.trim_end())))
}
