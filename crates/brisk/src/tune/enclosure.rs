//! Where the copy of a site runs: namespaces of its own, with a file system of which every change goes to memory.
//!
//! `unshare` starts this program anew as the first process of a new PID namespace, with a network of its own that has nothing but a
//! loopback interface. There [`enclose`] puts an overlay over each file system of the machine, makes that the root, and gives up the
//! old one. So the copy has the same paths, ports and users as the original, and nothing that it does is seen outside. The kernel
//! ends all of it, and forgets all of it, with the first process, which dies with its parent: nothing is left of the copy however the
//! tuner ends. Before anything of the site is started, [`prove`] looks at what is there; what is not isolated is a refusal.

use super::mounts::{self, Mount};
use brisk_net::sys::{self, Confinement};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::net::IpAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Empty folders of every Linux that memory may be mounted over, in a namespace of our own.
const PLACES: &[&str] = &["/media", "/mnt", "/opt", "/srv"];
/// Made where none of these is empty.
const OWN_PLACE: &str = "/run/brisk-tune";
/// What changes of the copy may take of the machine's memory.
const MEMORY: &str = "size=25%,mode=755";

/// A tuner that works in the enclosure; dropping it ends it and all that it has started.
pub struct Inner {
    child: Child,
}

impl Inner {
    /// Starts this program anew in namespaces of its own. `args`: what follows `tune`.
    pub fn start(args: &[String]) -> Result<Inner, String> {
        must_be_root()?;
        let own =
            std::env::current_exe().map_err(|error| format!("the own program is not found: {error}"))?;
        let mut command = Command::new("unshare");
        command
            .args(["--net", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "--"])
            .arg(own)
            .arg("tune")
            .args(args);
        command.args(["--inside", &std::process::id().to_string()]);
        // In a group of its own: an interrupt from the terminal is for this process, which tells the one inside.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        // `unshare` has its child killed when it dies itself.
        let confinement = Confinement {
            account: None,
            limits: Vec::new(),
            death_signal: Some(Signal::KILL),
            descriptors: Vec::new(),
        };
        sys::confine(&mut command, confinement).map_err(|error| error.to_string())?;
        let child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                "the program \"unshare\" is missing: install util-linux".to_owned()
            }
            _ => format!("unshare cannot be run: {error}"),
        })?;
        Ok(Inner { child })
    }

    /// The process that holds its namespaces.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// What it prints until it ends, and its exit code. `is_ended` says whether the user wants the end; it is told then and has a time
    /// to say what it has found.
    pub fn finish(mut self, is_ended: impl Fn() -> bool) -> Result<(Vec<u8>, i32), String> {
        let mut out = self.child.stdout.take().ok_or("the copy's output is missing")?;
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            out.read_to_end(&mut text).map(|_| text)
        });
        let mut is_told = false;
        let status = loop {
            if let Some(status) = self.child.try_wait().map_err(|error| error.to_string())? {
                break status;
            }
            if is_ended() && !is_told {
                is_told = true;
                self.tell_the_end();
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let text = reader
            .join()
            .map_err(|_| "the copy's output was lost".to_owned())?
            .map_err(|error| error.to_string())?;
        Ok((text, status.code().unwrap_or(1)))
    }

    /// `unshare` itself ignores the signal; its child is who works.
    fn tell_the_end(&self) {
        let pid = self.child.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        for child in children.filter_map(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(child, Signal::INT);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Only root may make namespaces without others' help.
pub fn must_be_root() -> Result<(), String> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err("the copy of the site needs namespaces of its own, and only root may make them: run it as root"
        .to_owned())
}

/// What of the outside the copy may reach.
#[derive(Debug, Default)]
pub struct Shared {
    /// The database's unix sockets.
    pub database: bool,
    /// The folder of the database's copy: it is on the disk, as the original is, and nothing else uses it.
    pub folder: Option<PathBuf>,
}

/// Makes this process, the first of its namespaces, one that has left the machine's file systems. `outer`: who has started it.
pub fn enclose(outer: u32, shared: &Shared, addresses: &BTreeSet<IpAddr>) -> Result<(), String> {
    if std::process::id() != 1 {
        return Err("--inside is for the tuner itself".to_owned());
    }
    let sockets = mounts::sockets(&read(&format!("/proc/{outer}/net/unix"))?);
    let mut kept: Vec<&PathBuf> =
        sockets.iter().filter(|path| shared.database && is_database(path)).collect();
    if shared.database && kept.is_empty() {
        return Err("--share-database: no database listens at a unix socket here".to_owned());
    }
    kept.extend(&shared.folder);
    network(addresses)?;
    let all = mounts::of(&read("/proc/self/mountinfo")?);
    let place = place(&all)?;
    run("mount", &["-t", "tmpfs", "-o", MEMORY, "tmpfs", &place])?;
    let root = format!("{place}/root");
    make(&root)?;
    for (index, mount) in all.iter().enumerate() {
        cover(mount, index, &place, &root)?;
    }
    kernel(&root)?;
    for path in &kept {
        let path = path.to_string_lossy();
        run("mount", &["--bind", &path, &format!("{root}{path}")])?;
    }
    leave(&root)?;
    prove(&sockets, &kept)
}

fn read(path: &str) -> Result<String, String> {
    fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .map_err(|error| format!("open() \"{path}\" failed ({})", brisk_conf::os_text(&error)))
}

fn make(path: &str) -> Result<(), String> {
    fs::create_dir_all(path)
        .map_err(|error| format!("mkdir() \"{path}\" failed ({})", brisk_conf::os_text(&error)))
}

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    sys::unblock_signals_in(&mut command);
    let output = command.output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("the program \"{program}\" is missing"),
        _ => format!("{program} cannot be run: {error}"),
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "\"{program} {}\" failed: {}",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    ))
}

fn is_database(socket: &Path) -> bool {
    let name = socket.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    name.contains("mysql")
        || name.contains("maria")
        || name.starts_with(".s.PGSQL.") && !name.ends_with(".lock")
}

/// Loopback, with the addresses that the site has outside: it listens at them, and is asked at them.
fn network(addresses: &BTreeSet<IpAddr>) -> Result<(), String> {
    run("ip", &["link", "set", "lo", "up"]).map_err(|error| format!("{error} (install iproute2)"))?;
    for address in addresses.iter().filter(|address| !address.is_loopback() && !address.is_unspecified()) {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        run("ip", &["addr", "add", &format!("{address}/{bits}"), "dev", "lo"])?;
    }
    Ok(())
}

/// An empty folder below which nothing is mounted.
fn place(all: &[Mount]) -> Result<String, String> {
    let is_free = |place: &&&str| {
        let is_empty = fs::read_dir(place).is_ok_and(|mut entries| entries.next().is_none());
        is_empty && !all.iter().any(|mount| mount.point.starts_with(**place))
    };
    if let Some(place) = PLACES.iter().find(is_free) {
        return Ok((*place).to_owned());
    }
    make(OWN_PLACE)?;
    Ok(OWN_PLACE.to_owned())
}

/// An overlay at the same place. What cannot have one is not there in the copy.
fn cover(mount: &Mount, index: usize, place: &str, root: &str) -> Result<(), String> {
    let (upper, work) = (format!("{place}/upper{index}"), format!("{place}/work{index}"));
    make(&upper)?;
    make(&work)?;
    let target = format!("{root}{}", mount.point);
    let target = target.trim_end_matches('/');
    let options = format!("lowerdir={},upperdir={upper},workdir={work}", mount.point);
    let covered = run("mount", &["-t", "overlay", "-o", &options, "overlay", target]);
    match covered {
        Err(error) if mount.point == "/" => {
            Err(format!("the kernel puts no overlay over the root file system: {error}"))
        }
        _ => Ok(()),
    }
}

/// What the kernel offers: processes of the namespace, the machine's figures without the right to change them, and the harmless devices.
fn kernel(root: &str) -> Result<(), String> {
    run("mount", &["-t", "proc", "proc", &format!("{root}/proc")])?;
    let sys = format!("{root}/sys");
    run("mount", &["--bind", "/sys", &sys])?;
    run("mount", &["-o", "remount,ro,bind", &sys])?;
    let dev = format!("{root}/dev");
    run("mount", &["-t", "tmpfs", "-o", "size=1m,mode=755", "tmpfs", &dev])?;
    for device in ["null", "zero", "full", "random", "urandom", "tty"] {
        let path = format!("{dev}/{device}");
        fs::write(&path, "").map_err(|error| error.to_string())?;
        run("mount", &["--bind", &format!("/dev/{device}"), &path])?;
    }
    for (name, of) in [("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        std::os::unix::fs::symlink(format!("/proc/self/{of}"), format!("{dev}/{name}"))
            .map_err(|error| error.to_string())?;
    }
    let memory = format!("{dev}/shm");
    make(&memory)?;
    run("mount", &["-t", "tmpfs", "-o", "size=10%,mode=1777", "tmpfs", &memory])
}

/// Makes it the root, and gives up the old one.
fn leave(root: &str) -> Result<(), String> {
    let failed = |what: &'static str| move |error: rustix::io::Errno| format!("{what}() failed ({error})");
    // The old root is put below the new one, so that it can be taken away by its name.
    let old = format!("{root}/.brisk-tune-outside");
    make(&old)?;
    rustix::process::chdir(root).map_err(failed("chdir"))?;
    rustix::process::pivot_root(".", &*old).map_err(failed("pivot_root"))?;
    rustix::process::chdir("/").map_err(failed("chdir"))?;
    run("umount", &["-l", "/.brisk-tune-outside"])
}

/// Looks at what is there. What reaches the outside is named, and nothing is started.
fn prove(sockets: &[PathBuf], kept: &[&PathBuf]) -> Result<(), String> {
    let open = mounts::reaching(&read("/proc/self/mountinfo")?, kept);
    if let Some(first) = open.first() {
        return Err(format!("the copy is not isolated: what it writes to {first} would be seen outside"));
    }
    let interfaces = mounts::interfaces(&read("/proc/net/dev")?);
    if interfaces.iter().any(|name| name != "lo") {
        return Err(format!(
            "the copy is not isolated: it has the network interfaces {}",
            interfaces.join(", ")
        ));
    }
    // Sockets of other programs cannot be reached through an overlay, but they stand where the copy's own belong.
    let is_socket = |path: &Path| fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    for path in sockets.iter().filter(|path| !kept.contains(path)) {
        if is_socket(path) {
            let _ = fs::remove_file(path);
        }
        if is_socket(path) {
            return Err(format!("the copy is not isolated: it could reach the socket {}", path.display()));
        }
    }
    Ok(())
}
