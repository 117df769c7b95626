//! Servers that a command brings up for a run.

use crate::limits::{END_TIME_MAX, LOOK_TIME_MAX, START_TIME_MAX};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::options::tls;
use crate::engine;
use crate::plan::{Endpoint, Plan, RequestOptions, Stop, Url, Version, sites};
use crate::system;

/// A command's server. Dropping it ends the command and all that it has started.
pub struct Server {
    command: String,
    child: Child,
}

impl Server {
    /// Runs the command until something answers at `url`, where nothing may have answered before: it would be measured in
    /// place of what the command brings up.
    pub fn start(command: &str, url: &Url) -> Result<Self, String> {
        // An earlier server may take its time to go.
        let begun = Instant::now();
        while is_taken(url)? {
            if begun.elapsed() > END_TIME_MAX || system::interrupted() {
                return Err(taken(command, url));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        brisk_net::sys::unblock_signals_in(&mut shell);
        let child = shell.spawn().map_err(|error| format!("cannot run \"{command}\": {error}"))?;
        let mut server = Self { command: command.to_owned(), child };
        let begun = Instant::now();
        loop {
            if let Some(status) = server.status() {
                return Err(format!("\"{command}\" ended with {status}; it must stay in the foreground"));
            }
            if answers(url)? {
                return Ok(server);
            }
            if begun.elapsed() > START_TIME_MAX || system::interrupted() {
                let seconds = begun.elapsed().as_secs();
                return Err(format!("\"{command}\" does not answer at {url} within {seconds} s"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its command's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An error if it has ended meanwhile.
    pub fn check(&mut self) -> Result<(), String> {
        match self.status() {
            Some(status) => Err(format!("\"{}\" ended with {status} while it was measured", self.command)),
            None => Ok(()),
        }
    }

    fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(group) = Pid::from_raw(self.child.id() as i32) else { return };
        let _ = kill_process_group(group, Signal::TERM);
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if begun.elapsed() > END_TIME_MAX {
                let _ = kill_process_group(group, Signal::KILL);
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// An error if something answers where a command is to bring a server up.
pub fn must_be_free(command: &str, url: &Url) -> Result<(), String> {
    if is_taken(url)? { Err(taken(command, url)) } else { Ok(()) }
}

fn taken(command: &str, url: &Url) -> String {
    format!(
        "something listens at {url} already: it would be measured in place of what \"{command}\" brings up"
    )
}

fn is_taken(url: &Url) -> Result<bool, String> {
    Ok(match url.endpoint().map_err(|error| error.to_string())? {
        // A socket that is given the very port that it asks for speaks with itself.
        Endpoint::Tcp(address) => TcpStream::connect_timeout(&address, LOOK_TIME_MAX)
            .is_ok_and(|stream| stream.local_addr().ok() != stream.peer_addr().ok()),
        Endpoint::Unix(path) => UnixStream::connect(path).is_ok(),
    })
}

/// One request, answered.
fn answers(url: &Url) -> Result<bool, String> {
    let urls = std::slice::from_ref(url);
    let sites = sites(urls, &RequestOptions::default()).map_err(|error| error.to_string())?;
    let tls = tls(urls, Version::H1, true)?;
    let plan = Plan { tls, timeout: Duration::from_secs(2), ..Plan::new(sites, 1, Stop::Requests(1)) };
    Ok(engine::run(plan).map_err(|error| error.to_string())?.stats.responses() == 1)
}
