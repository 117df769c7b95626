//! Servers under test: started, awaited, watched, ended.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use brisk_load::system;
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};

use crate::conf::{Conf, Place};
use crate::lab::{Lab, SERVER_CPU};
use crate::process::{self, Memory, ThreadCpu};

/// How long a server may take to answer for the first time.
const START_MAX: Duration = Duration::from_secs(30);
/// How long it may take to end when told to.
const END_MAX: Duration = Duration::from_secs(3);

/// Which program is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Ours.
    Brisk,
    /// Debian's nginx.
    Nginx,
    /// Debian's h2o.
    H2o,
    /// Debian's HAProxy.
    Haproxy,
    /// Debian's Varnish.
    Varnish,
    /// Debian's Apache, with mod_php.
    Apache,
    /// [`crate::floor`], with a body of so many bytes.
    Floor { body_bytes: usize },
    /// [`crate::least::forward`], to this port.
    Forward { back_end: u16 },
    /// [`crate::least::sessions`], with the database at this port.
    Sessions { back_end: u16 },
    /// [`crate::slow`], with a body of so many bytes.
    Slow { body_bytes: usize, workers: usize, work_ms: u64 },
}

/// A server to be started.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The name in results.
    pub name: String,
    /// What is run.
    pub program: Program,
    /// How it is configured.
    pub conf: Conf,
    /// Whether it has [`SERVER_CPU`] only.
    pub pinned: bool,
    /// Processes whose CPU counts as the server's, with all their descendants.
    pub beside: Vec<u32>,
}

/// A running server; dropping it ends it.
#[derive(Debug)]
pub struct Server {
    /// The name in results.
    pub name: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether it logs requests.
    logs: bool,
    beside: Vec<u32>,
    child: Child,
    dir: PathBuf,
}

impl Spec {
    /// A server that is not measured: it has whatever the others leave.
    #[must_use]
    pub fn unpinned(self) -> Self {
        Self { pinned: false, ..self }
    }

    /// The CPU of these processes counts, too.
    #[must_use]
    pub fn with(self, beside: &[u32]) -> Self {
        Self { beside: beside.to_vec(), ..self }
    }

    /// A pinned server.
    pub fn new(name: &str, program: Program, conf: Conf) -> Self {
        Self { name: name.to_owned(), program, conf, pinned: true, beside: Vec::new() }
    }

    /// Writes the configuration and chooses a port.
    pub fn prepare(&self, lab: &Lab) -> io::Result<Prepared> {
        let dir = lab.server_dir(&self.name)?;
        let port = free_port()?;
        let place = Place { port, dir: &dir, docroot: &lab.docroot };
        let conf = |name: &str, text: String| {
            let path = dir.join(name);
            fs::write(&path, text).map(|()| path.display().to_string())
        };
        let options = &lab.options;
        let (program, args) = match self.program {
            Program::Brisk | Program::Nginx => {
                conf("nginx.conf", self.conf.nginx(place))?;
                let binary = if self.program == Program::Brisk { &options.brisk } else { &options.nginx };
                let prefix = format!("{}/", dir.display());
                let args = ["-p", &prefix, "-c", "nginx.conf", "-e", "error.log"].map(str::to_owned);
                (present(binary)?, args.to_vec())
            }
            Program::H2o => {
                let path = conf("h2o.conf", self.conf.h2o(place))?;
                (present(&options.h2o)?, vec!["-c".to_owned(), path])
            }
            Program::Haproxy => {
                let path = conf("haproxy.cfg", self.conf.haproxy(place))?;
                (present(&options.haproxy)?, vec!["-db".to_owned(), "-f".to_owned(), path])
            }
            Program::Apache => {
                let path = conf("apache.conf", self.conf.apache(place))?;
                let args = ["-D", "FOREGROUND", "-f", &path].map(str::to_owned);
                (present(&options.apache)?, args.to_vec())
            }
            Program::Varnish => (present(&options.varnish)?, self.conf.varnish(place)),
            Program::Floor { body_bytes } => {
                let args = ["floor".to_owned(), port.to_string(), body_bytes.to_string()];
                (std::env::current_exe()?, args.to_vec())
            }
            Program::Forward { back_end } | Program::Sessions { back_end } => {
                let is_forward = matches!(self.program, Program::Forward { .. });
                let name = if is_forward { "forward" } else { "sessions" };
                (std::env::current_exe()?, [name.to_owned(), port.to_string(), back_end.to_string()].to_vec())
            }
            Program::Slow { body_bytes, workers, work_ms } => {
                let numbers =
                    [port.to_string(), body_bytes.to_string(), workers.to_string(), work_ms.to_string()];
                let args = ["slow-server".to_owned()].into_iter().chain(numbers).collect();
                (std::env::current_exe()?, args)
            }
        };
        let (name, pinned, logs) = (self.name.clone(), self.pinned, self.conf.access_log);
        let beside = self.beside.clone();
        Ok(Prepared { name, pinned, beside, logs, program, args, dir, port })
    }
}

/// A server that can be started, any number of times one after another.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The name in results.
    pub name: String,
    pinned: bool,
    beside: Vec<u32>,
    logs: bool,
    program: PathBuf,
    args: Vec<String>,
    dir: PathBuf,
    port: u16,
}

impl Prepared {
    /// Starts it and waits for its first answer.
    pub fn start(&self) -> io::Result<Server> {
        let mut server = self.spawn()?;
        server.await_answer(Duration::from_millis(5))?;
        Ok(server)
    }

    /// Starts it and does not wait.
    pub fn spawn(&self) -> io::Result<Server> {
        let mut command = Command::new("/proc/self/exe");
        command.args(["exec", &std::process::id().to_string()]);
        command.arg(if self.pinned { SERVER_CPU.to_string() } else { "any".to_owned() });
        command.arg(&self.program).args(&self.args);
        let output = File::create(self.dir.join("output.log"))?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        // Without the program of its own Brisk would have PHP-FPM run its pools, which is another measurement.
        command.env("BRISK_PHP", "brisk-php");
        // Apache's prefork ends its whole process group, which would be the harness's.
        command.process_group(0);
        let child = command.spawn()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let (name, beside, dir) = (self.name.clone(), self.beside.clone(), self.dir.clone());
        Ok(Server { name, address, logs: self.logs, beside, child, dir })
    }

    /// Runs `-t` and returns how long it took.
    pub fn test_conf(&self) -> io::Result<Duration> {
        let start = Instant::now();
        let output = Command::new(&self.program).args(&self.args).arg("-t").output()?;
        let elapsed = start.elapsed();
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(io::Error::other(format!("{} -t: {text}", self.program.display())));
        }
        Ok(elapsed)
    }
}

impl Server {
    /// Waits for the first answer, asking at this interval.
    pub fn await_answer(&mut self, interval: Duration) -> io::Result<()> {
        let end = Instant::now() + START_MAX;
        while !answers(self.address) {
            let gone = self.child.try_wait()?.is_some();
            if gone || Instant::now() >= end {
                let why = if gone { "ended" } else { "does not answer" };
                return Err(io::Error::other(format!("{} {why}:\n{}", self.name, self.last_words())));
            }
            std::thread::sleep(interval);
        }
        Ok(())
    }

    /// Its first process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// CPU by thread, of all the server's processes.
    pub fn thread_cpu(&self) -> ThreadCpu {
        process::thread_cpu(self.child.id())
    }

    /// The same of what works for it.
    pub fn thread_cpu_beside(&self) -> ThreadCpu {
        self.beside.iter().flat_map(|&root| process::thread_cpu(root)).collect()
    }

    /// Resident memory of all the server's processes.
    pub fn memory(&self) -> Memory {
        process::memory(self.child.id())
    }

    /// Makes sure that what should have been logged was, and keeps the log from filling the disk.
    pub fn check_log(&self) -> io::Result<()> {
        if !self.logs {
            return Ok(());
        }
        let log = File::options().write(true).open(self.dir.join("access.log"))?;
        if log.metadata()?.len() == 0 {
            return Err(io::Error::other(format!("{} has logged nothing", self.name)));
        }
        log.set_len(0)
    }

    /// The ends of what the server has written.
    fn last_words(&self) -> String {
        let tail = |name: &str| {
            let text = fs::read_to_string(self.dir.join(name)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().rev().take(5).collect();
            lines.into_iter().rev().fold(String::new(), |all, line| all + line + "\n")
        };
        tail("output.log") + &tail("error.log")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Ends a process of ours, with its descendants if need be.
pub fn end(child: &mut Child) {
    // Its own processes only, each by its own number.
    let tree = process::tree(child.id());
    send(child.id(), Signal::TERM);
    let end = Instant::now() + END_MAX;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() >= end {
            for &pid in &tree {
                send(pid, Signal::KILL);
            }
            drop(child.wait());
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn send(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        // It may have ended by itself.
        let _ = kill_process(pid, signal);
    }
}

/// The start of every server's process, as `exec PARENT CPU|any PROGRAM ARGS…`: pins itself, asks
/// to be ended when the harness ends however that happens, and becomes the server.
pub fn exec(args: &[String]) -> io::Result<()> {
    let [parent, cpu, program, args @ ..] = args else {
        return Err(io::Error::other("usage: exec PARENT CPU|any PROGRAM [ARGS]"));
    };
    set_parent_process_death_signal(Some(Signal::TERM))?;
    if getppid().is_none_or(|pid| pid.as_raw_nonzero().to_string() != *parent) {
        return Err(io::Error::other("the harness has ended"));
    }
    if let Ok(cpu) = cpu.parse() {
        system::pin_to_cpu(cpu)?;
    }
    Err(Command::new(program).args(args).exec())
}

/// One request on a new connection; whatever the answer is.
fn answers(address: SocketAddr) -> bool {
    let ask = || -> io::Result<usize> {
        let mut socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(Duration::from_secs(2)))?;
        socket.write_all(b"GET /small.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        socket.read(&mut [0; 512])
    };
    ask().is_ok_and(|count| count > 0)
}

/// A port that is free, below those that the kernel gives to connections: a server started again
/// must find its own port as it left it.
pub fn free_port() -> io::Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(18_000);
    let ports = std::iter::from_fn(|| Some(NEXT.fetch_add(1, Ordering::Relaxed)));
    ports
        .take_while(|&port| port < 32_000)
        .find(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
        .ok_or_else(|| io::Error::other("no free port below 32000"))
}

/// The binary's absolute path, or what to do about its absence.
pub fn present(binary: &Path) -> io::Result<PathBuf> {
    binary.canonicalize().map_err(|_| {
        let name = binary.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let remedy = match name {
            "nginx" => "apt-get install -y nginx-light",
            "h2o" => "apt-get install -y h2o",
            "haproxy" => "apt-get install -y haproxy",
            "varnishd" => "apt-get install -y varnish",
            "apache2" => "apt-get install -y apache2-bin libapache2-mod-php",
            "mariadbd" => "apt-get install -y mariadb-server-core",
            "sysbench" => "apt-get install -y sysbench",
            _ => "cargo build --release -p brisk",
        };
        io::Error::other(format!(
            "{} is missing: run \"{remedy}\" (or scripts/setup.sh bench)",
            binary.display()
        ))
    })
}
