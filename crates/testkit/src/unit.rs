//! systemd's sandbox without systemd: reads a service unit and its drop-ins, and starts the unit's own command with what
//! they grant and no more.
//!
//! Mounts, capabilities, the user and the filter of system calls are those that systemd 252 makes of the same settings. A
//! setting that is not known here fails the test: none is left out in silence.

mod filter;

use crate::process;
use crate::wait;
use rustix::process::Signal;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Settings of `[Service]` in their order; a list that is assigned twice is in it twice.
#[derive(Debug, Default)]
pub struct Unit {
    settings: Vec<(String, String)>,
}

/// Settings that concern systemd itself, or what the sandbox gives anyway (a read-only file system without devices).
const WITHOUT_EFFECT: &[&str] = &[
    "Type",
    "NotifyAccess",
    "ExecReload",
    "KillSignal",
    "TimeoutStopSec",
    "ExecStopPost",
    "OOMPolicy",
    "RestartSec",
    "RuntimeDirectoryPreserve",
    "ProtectClock",
    "ProtectControlGroups",
    "ProtectHostname",
    "ProtectKernelLogs",
    "ProtectKernelModules",
    "ProtectKernelTunables",
    "RestrictNamespaces",
    "RestrictRealtime",
    "RestrictSUIDSGID",
    "LockPersonality",
    "RemoveIPC",
    "SystemCallArchitectures",
];

/// Settings that [`Unit::start`] and [`Unit::restart_killed`] carry out.
const CARRIED_OUT: &[&str] = &[
    "KillMode",
    "Restart",
    "ExecStart",
    "User",
    "Group",
    "RuntimeDirectory",
    "StateDirectory",
    "CacheDirectory",
    "LogsDirectory",
    "RuntimeDirectoryMode",
    "StateDirectoryMode",
    "CacheDirectoryMode",
    "LogsDirectoryMode",
    "LimitNOFILE",
    "CapabilityBoundingSet",
    "AmbientCapabilities",
    "NoNewPrivileges",
    "ProtectSystem",
    "ReadWritePaths",
    "ProtectHome",
    "PrivateTmp",
    "PrivateDevices",
    "ProtectProc",
    "RestrictAddressFamilies",
    "UMask",
    "SystemCallFilter",
    "SystemCallErrorNumber",
];

/// The four kinds of folders that systemd makes for a service: setting, place, variable.
const FOLDERS: &[(&str, &str, &str)] = &[
    ("RuntimeDirectory", "/run", "RUNTIME_DIRECTORY"),
    ("StateDirectory", "/var/lib", "STATE_DIRECTORY"),
    ("CacheDirectory", "/var/cache", "CACHE_DIRECTORY"),
    ("LogsDirectory", "/var/log", "LOGS_DIRECTORY"),
];

impl Unit {
    /// A unit file, then its drop-ins.
    ///
    /// # Panics
    /// If one cannot be read, or has a setting that is not known here.
    pub fn read(files: &[&Path]) -> Unit {
        let mut unit = Unit::default();
        for file in files {
            let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            let mut section = "";
            for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
            {
                if line.starts_with('[') {
                    section = line;
                } else if section == "[Service]" {
                    let (name, value) = line.split_once('=').expect("a setting");
                    let is_known = WITHOUT_EFFECT.contains(&name) || CARRIED_OUT.contains(&name);
                    assert!(is_known, "{}: what {name} does is not known here", file.display());
                    unit.settings.push((name.into(), value.into()));
                }
            }
        }
        unit
    }

    /// The words of a list; an empty assignment drops those before it.
    pub fn list(&self, name: &str) -> Vec<&str> {
        let mut words = Vec::new();
        for (_, value) in self.settings.iter().filter(|(have, _)| have == name) {
            if value.is_empty() {
                words.clear();
            }
            words.extend(value.split_whitespace());
        }
        words
    }

    /// The last assignment; empty if there is none.
    pub fn value(&self, name: &str) -> &str {
        self.settings.iter().rev().find(|(have, _)| have == name).map_or("", |(_, value)| value)
    }

    /// Makes the folders of the unit as systemd does; gives their paths and the variables that name them.
    fn folders(&self, root: &Path) -> (Vec<String>, Vec<(String, String)>) {
        let (mut paths, mut variables) = (Vec::new(), Vec::new());
        for (setting, place, variable) in FOLDERS {
            let names: Vec<String> =
                self.list(setting).iter().map(|name| format!("{place}/{name}")).collect();
            let mode = self.value(&format!("{setting}Mode"));
            let mode = u32::from_str_radix(mode, 8).unwrap_or(0o755);
            for path in &names {
                let folder = root.join(&path[1..]);
                fs::create_dir_all(&folder).expect("a folder of the test");
                fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).expect("our own folder");
                let user = if self.value("User").is_empty() { "root" } else { self.value("User") };
                // The whole tree, if the folder itself has another owner.
                let script = r#"[ "$(stat -c %U "$0")" = "$1" ] || chown -R "$1:" "$0""#;
                run(Command::new("sh").args(["-c", script]).arg(&folder).arg(user));
            }
            if !names.is_empty() {
                variables.push(((*variable).to_string(), names.join(":")));
            }
            paths.extend(names);
        }
        (paths, variables)
    }

    /// Starts `ExecStart` with `root` laid over this machine's file system; gives it when it has reported that it is ready.
    ///
    /// # Panics
    /// If it ends instead, or a tool of the sandbox is missing.
    pub fn start(&self, root: &Path) -> Service {
        assert!(process::is_root(), "namespaces and users are changed: run this as root");
        assert_eq!(self.value("ProtectSystem"), "strict");
        let (writable, variables) = self.folders(root);
        // The overlay is mounted there, and the socket for notifications lies in /run of the service.
        let merged = root.with_extension("merged");
        fs::create_dir_all(&merged).expect("a folder beside the test's");
        fs::create_dir_all(root.join("run/systemd")).expect("a folder of the test");
        let notify = root.join("run/systemd/notify");
        let _ = fs::remove_file(&notify);
        let ready = UnixDatagram::bind(&notify).expect("a socket of the test's own");
        fs::set_permissions(&notify, fs::Permissions::from_mode(0o777)).expect("our own socket");
        ready.set_nonblocking(true).expect("a socket");
        let filter = root.with_extension("seccomp");
        let families = self.list("RestrictAddressFamilies");
        fs::write(&filter, filter::program(&self.list("SystemCallFilter"), &families)).expect("a file");

        let mut script = format!(
            "set -e\numask {umask}\nulimit -n $(( $(ulimit -Hn) < {files} ? $(ulimit -Hn) : {files} ))\n\
             mount -t tmpfs tmpfs {merged}\nmkdir {merged}/lower {merged}/root\n\
             cp -a {root}/. {merged}/lower\nmount -t overlay overlay -o lowerdir={merged}/lower:/ {merged}/root\n\
             mount -t proc -o hidepid=invisible proc {merged}/root/proc\nexec 9<{filter}\n\
             exec bwrap --ro-bind {merged}/root / --dev /dev --perms 1777 --tmpfs /tmp --perms 1777 --tmpfs /var/tmp --unshare-net --cap-add ALL --seccomp 9 \
             --clearenv --setenv PATH /usr/sbin:/usr/bin --setenv NOTIFY_SOCKET /run/systemd/notify \
             --bind {root}/run/systemd /run/systemd",
            umask = self.value("UMask"),
            files = self.value("LimitNOFILE"),
            root = root.display(),
            merged = merged.display(),
            filter = filter.display(),
        );
        for path in &writable {
            let _ = write!(script, " --bind {}{path} {path}", root.display());
        }
        for named in self.list("ReadWritePaths") {
            let path = named.trim_start_matches('-');
            let is_there = root.join(&path[1..]).exists();
            assert!(is_there || path != named, "{path} is not there");
            if is_there {
                let _ = write!(script, " --bind {}{path} {path}", root.display());
            }
        }
        for (name, value) in &variables {
            let _ = write!(script, " --setenv {name} {value}");
        }
        let _ = writeln!(script, " -- setpriv {} -- {}", self.privileges(), self.value("ExecStart"));

        let log = fs::File::create(root.with_extension("journal")).expect("a file");
        let mut command = Command::new("unshare");
        command.args(["--mount", "--ipc", "--uts", "--propagation", "private", "sh", "-c", &script]);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a copy")).stderr(log);
        let child = command.spawn().expect("unshare is installed");
        let mut service = Service { root: root.into(), child };
        wait::until("READY=1, or the service's end", || {
            if let Ok(Some(status)) = service.child.try_wait() {
                panic!("the service ended: {status}\n{}", service.journal());
            }
            let mut bytes = [0; 4096];
            let count = ready.recv(&mut bytes).ok()?;
            String::from_utf8_lossy(&bytes[..count]).contains("READY=1").then_some(())
        });
        service
    }

    /// Kills the main process, does with the others of the service what `KillMode` says, and starts it again.
    ///
    /// # Panics
    /// If the unit is not one that is started again then, or it does not start.
    pub fn restart_killed(&self, mut service: Service) -> Service {
        assert!(matches!(self.value("Restart"), "on-failure" | "always"), "it is not started again");
        let main = service.pid();
        let others: Vec<u32> = process::tree(main).into_iter().filter(|&pid| pid != main).collect();
        process::signal(main, Signal::KILL);
        process::wait_gone(main);
        let _ = service.child.wait();
        if self.value("KillMode") != "process" {
            others.iter().for_each(|&pid| process::signal(pid, Signal::KILL));
        }
        let root = service.root.clone();
        drop(service);
        self.start(&root)
    }

    /// Arguments of setpriv: user, capabilities.
    fn privileges(&self) -> String {
        let plus = |setting: &str| {
            let mut names = vec!["-all".to_string()];
            let small = |name: &str| format!("+{}", name.trim_start_matches("CAP_").to_ascii_lowercase());
            names.extend(self.list(setting).into_iter().map(small));
            names.join(",")
        };
        let ambient = plus("AmbientCapabilities");
        let mut words = vec![
            format!("--bounding-set={}", plus("CapabilityBoundingSet")),
            format!("--inh-caps={ambient}"),
            format!("--ambient-caps={ambient}"),
        ];
        if self.value("NoNewPrivileges") == "yes" {
            words.push("--no-new-privs".into());
        }
        let (user, group) = (self.value("User"), self.value("Group"));
        if !user.is_empty() {
            words.push(format!("--reuid={user} --init-groups"));
            words.push(match group {
                "" => format!("--regid=$(id -g {user})"),
                group => format!("--regid={group}"),
            });
        }
        words.join(" ")
    }
}

/// A service that runs. Dropped, it is stopped.
pub struct Service {
    root: PathBuf,
    child: Child,
}

impl Service {
    /// What it has written to its standard output and error.
    pub fn journal(&self) -> String {
        fs::read_to_string(self.root.with_extension("journal")).unwrap_or_default()
    }

    /// Its main process, by its pid file.
    ///
    /// # Panics
    /// If there is none.
    pub fn pid(&self) -> u32 {
        let text = fs::read_to_string(self.root.join("run/brisk/brisk.pid")).expect("a pid file");
        text.trim().parse().expect("a process number")
    }

    /// Stops it by `signal`.
    ///
    /// # Panics
    /// If it does not end, or not well.
    pub fn stop(&mut self, signal: Signal) {
        process::signal(self.pid(), signal);
        let status = wait::until("the service's end", || self.child.try_wait().ok().flatten());
        assert!(status.success(), "{status}\n{}", self.journal());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            process::tree(self.child.id())
                .into_iter()
                .rev()
                .for_each(|pid| process::signal(pid, Signal::TERM));
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- journal\n{}", self.journal());
        }
        for beside in ["journal", "seccomp"] {
            let _ = fs::remove_file(self.root.with_extension(beside));
        }
        let _ = fs::remove_dir(self.root.with_extension("merged"));
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
