//! Debian's Apache beside a test, with a folder and a port of its own.

use crate::ports::{self, Port};
use crate::{Client, TempDir, children, process, wait};
use rustix::process::Signal;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Where Debian's packages have its modules.
const MODULES: &str = "/usr/lib/apache2/modules";

/// A running Apache; it ends with the test.
pub struct Apache {
    child: Child,
    port: Port,
    dir: TempDir,
}

impl Apache {
    /// Starts one with these modules (`rewrite`) and, behind what every server needs, this configuration, in which `{{PORT}}` is
    /// its port. It must be able to read `root` as another user.
    ///
    /// # Panics
    /// If it is not installed, or does not start.
    pub fn start(modules: &[&str], configuration: &str) -> Apache {
        let (dir, port) = (TempDir::new(), ports::claim());
        let at = |name: &str| dir.path().join(name).display().to_string();
        let mut text = format!(
            "ServerRoot {}\nPidFile {}\nErrorLog {}\nLogLevel warn\nServerName localhost\nListen 127.0.0.1:{}\nUser nobody\nGroup nogroup\n",
            dir.path().display(),
            at("pid"),
            at("error.log"),
            port.number
        );
        for module in modules {
            let _ = writeln!(text, "LoadModule {module}_module {MODULES}/mod_{module}.so");
        }
        text.push_str("Mutex posixsem\nStartServers 1\nMinSpareThreads 1\nMaxSpareThreads 8\nThreadsPerChild 8\nMaxRequestWorkers 8\n");
        text.push_str(&configuration.replace("{{PORT}}", &port.number.to_string()));
        let file = dir.path().join("httpd.conf");
        fs::write(&file, text).expect("a file of our own");
        let mut command = Command::new("/usr/sbin/apache2");
        command.arg("-f").arg(&file).arg("-DFOREGROUND").stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(fs::File::create(dir.path().join("stderr")).expect("our own"));
        let child =
            children::spawn(&mut command).expect("apache2 is not installed: scripts/setup.sh does that");
        let mut apache = Apache { child, port, dir };
        wait::holds("Apache's port", || {
            let ended = apache.child.try_wait().expect("our own child");
            assert!(ended.is_none(), "{}", apache.log());
            Client::try_connect(apache.port.number).is_ok()
        });
        apache
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// What it has said.
    pub fn log(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.dir.path().join(name)).unwrap_or_default();
        read("stderr") + &read("error.log")
    }

    /// A connection to it.
    ///
    /// # Panics
    /// If there is none to be had.
    pub fn client(&self) -> Client {
        Client::connect(self.port.number)
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        process::signal(self.child.id(), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// Lets everybody read a folder of a test, with all that is in it.
///
/// # Panics
/// If that cannot be done.
pub fn open_to_all(folder: &Path) {
    let done = children::output(Command::new("chmod").arg("-R").arg("a+rX").arg(folder));
    assert!(done.expect("chmod is everywhere").status.success());
}
