//! The copy of a site's database: a backup of its data in a folder of its own, on which the same program runs within the enclosure.
//!
//! The backup is made outside, by MariaDB's own tool, from the running server. Its folder lies beside the data, so that the copy has the
//! same disk. A guard removes it however the tuner ends.

use super::files::option_of;
use crate::doctor::files::Read;
use crate::limits::TUNE_REMOVE_TRIES_MAX;
use brisk_load::output;
use brisk_load::watch::proc;
use brisk_net::sys;
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, lchown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Programs of the server.
const PROGRAMS: &[&str] = &["mariadbd", "mysqld"];
/// Programs that make a backup of a running server.
const BACKUP: &[&str] = &["mariadb-backup", "mariabackup"];
/// Where MariaDB's data lies where nothing else is written.
const DATA: &str = "/var/lib/mysql";
/// Its socket, likewise.
const SOCKET: &str = "/run/mysqld/mysqld.sock";
/// The disk must have room for so many times the data: the backup is prepared, and then written to.
const ROOM: f64 = 1.3;
/// Options of the original that do not hold for the copy.
const REPLACED: &[&str] = &[
    "--datadir",
    "--user",
    "--innodb-log-group-home-dir",
    "--innodb-data-home-dir",
    "--innodb-undo-directory",
];
/// The option that names the option file; it comes first.
const FILE: &str = "--defaults-file=";

/// A running database server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    program: PathBuf,
    /// What it was started with.
    args: Vec<String>,
    /// As whom it runs.
    user: u32,
    data: PathBuf,
    socket: PathBuf,
}

impl Database {
    /// The one that has read this option file. `read`: the site with the database's option files.
    pub fn find(file: &str, read: &Read) -> Result<Database, String> {
        let all = PROGRAMS.iter().flat_map(|name| proc::with_command(name));
        let mut found = all.filter_map(|pid| {
            let args = words(pid)?;
            has_read(&args, file).then_some((pid, args))
        });
        let Some((pid, args)) = found.next() else {
            return Err(format!("--mysql: no MariaDB runs here that has read {file}"));
        };
        if found.next().is_some() {
            return Err(format!(
                "--mysql: several MariaDB servers have read {file}: give each a file of its own"
            ));
        }
        let failed = |error: std::io::Error| format!("process {pid} cannot be looked at ({error})");
        let program = fs::read_link(format!("/proc/{pid}/exe")).map_err(failed)?;
        let user = fs::metadata(format!("/proc/{pid}")).map_err(failed)?.uid();
        let option = |name: &str, usual: &str| {
            let given = args.iter().rev().find_map(|arg| arg.strip_prefix(&format!("--{name}=")));
            PathBuf::from(
                given.map(str::to_owned).or_else(|| option_of(read, name)).unwrap_or(usual.to_owned()),
            )
        };
        let (data, socket) = (option("datadir", DATA), option("socket", SOCKET));
        let socket = if socket.is_absolute() { socket } else { data.join(socket) };
        Ok(Database { program, args, user, data, socket })
    }

    /// The program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Its socket, which the copy's has as well.
    pub fn socket(&self) -> String {
        self.socket.display().to_string()
    }

    /// What the copy is started with, on this folder.
    pub fn args_on(&self, folder: &Path) -> Vec<String> {
        let is_kept = |arg: &&String| {
            let name = arg.split_once('=').map_or(&***arg, |(name, _)| name).replace('_', "-");
            !REPLACED.contains(&&*name)
        };
        let mut args: Vec<String> = self.args.iter().filter(is_kept).cloned().collect();
        args.extend(
            ["datadir", "innodb-log-group-home-dir", "innodb-data-home-dir", "innodb-undo-directory"]
                .map(|name| format!("--{name}={}", folder.display())),
        );
        // A replica or a node of a cluster would look for its companions, which the copy must not reach.
        args.extend(["--skip-slave-start".to_owned(), "--loose-wsrep-on=OFF".to_owned()]);
        // As root it must be told who it is.
        args.push(format!(
            "--user={}",
            if self.user == 0 { "root".to_owned() } else { self.user.to_string() }
        ));
        args
    }
}

/// A process's arguments without its name.
fn words(pid: u32) -> Option<Vec<String>> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = line.split(|byte| *byte == 0).skip(1).filter(|word| !word.is_empty());
    Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// Whether a server with these arguments has read the file.
fn has_read(args: &[String], file: &str) -> bool {
    let same = |one: &str| {
        fs::canonicalize(one).ok().is_some_and(|one| fs::canonicalize(file).is_ok_and(|other| one == other))
    };
    match args.iter().find_map(|arg| arg.strip_prefix(FILE)) {
        Some(named) => same(named),
        None if args.iter().any(|arg| arg == "--no-defaults") => false,
        None => {
            let extra = args.iter().filter_map(|arg| arg.strip_prefix("--defaults-extra-file="));
            extra.chain(["/etc/mysql/my.cnf", "/etc/my.cnf"]).any(same)
        }
    }
}

/// A backup that can be started from; its folder goes with it.
pub struct Copy {
    folder: PathBuf,
    guard: Child,
}

impl Copy {
    /// Makes one. `login`: an option file with `user` and `password` of somebody who may make backups; else it is root by the socket.
    pub fn make(database: &Database, login: Option<&str>) -> Result<Copy, String> {
        let tool = BACKUP.iter().find(|name| is_installed(name)).ok_or_else(|| {
            "--mysql: the database is copied by mariadb-backup, which is not installed: \"apt-get install mariadb-backup\" (or \
             --share-database: the copy asks the real one)"
                .to_owned()
        })?;
        let parent = database.data.parent().unwrap_or(Path::new("/"));
        let size = size_of(&database.data);
        must_have_room(parent, size)?;
        let folder = parent.join(format!("brisk-tune-{}", std::process::id()));
        let failed = |what: &str, error: std::io::Error| {
            format!("{what} \"{}\" failed ({})", folder.display(), brisk_conf::os_text(&error))
        };
        let guard = guard(&folder)?;
        let copy = Copy { folder: folder.clone(), guard };
        fs::DirBuilder::new().mode(0o700).create(&folder).map_err(|error| failed("mkdir()", error))?;
        output::note(format_args!("the database is copied: {:.0} MiB", size as f64 / 1_048_576.0));
        let target = format!("--target-dir={}", folder.display());
        let own = || database.args.iter().find(|arg| arg.starts_with(FILE)).cloned();
        // The option that names a file must come first, and there can be one.
        let mut args: Vec<String> =
            login.map(|file| format!("--defaults-extra-file={file}")).or_else(own).into_iter().collect();
        args.extend(["--backup".to_owned(), target.clone()]);
        args.push(format!("--datadir={}", database.data.display()));
        args.push(format!("--socket={}", database.socket.display()));
        if login.is_none() {
            args.push("--user=root".to_owned());
        }
        run(tool, &args)?;
        run(tool, &["--no-defaults".to_owned(), "--prepare".to_owned(), target])?;
        give(&folder, database.user).map_err(|error| failed("chown()", error))?;
        Ok(copy)
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // The guard removes the folder as soon as its input ends.
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// A process that removes the folder when the tuner ends, whatever ends it. The copy's server may be writing for a moment then.
fn guard(folder: &Path) -> Result<Child, String> {
    const REMOVE: &str = "cat >/dev/null; n=0; until rm -rf -- \"$0\" 2>/dev/null || [ $n -ge \"$1\" ]; do n=$((n + 1)); sleep 0.1; done";
    let mut command = Command::new("sh");
    command.args(["-c", REMOVE]).arg(folder).arg(TUNE_REMOVE_TRIES_MAX.to_string());
    // In a group of its own: what ends the tuner from a terminal does not end it.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    sys::unblock_signals_in(&mut command);
    command.spawn().map_err(|error| format!("sh cannot be started: {error}"))
}

fn is_installed(name: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(name).is_file())
}

fn run(tool: &str, args: &[String]) -> Result<(), String> {
    let mut command = Command::new(tool);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    sys::unblock_signals_in(&mut command);
    let output = command.output().map_err(|error| format!("{tool} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = said.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
    let last: Vec<&str> = last.into_iter().rev().collect();
    Err(format!("the database cannot be copied: {tool} ended with {}: {}", output.status, last.join("; ")))
}

/// Bytes of all files below.
fn size_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => size_of(&entry.path()),
            Ok(data) => data.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

fn must_have_room(folder: &Path, size: u64) -> Result<(), String> {
    let disk = rustix::fs::statvfs(folder)
        .map_err(|error| format!("statvfs() \"{}\" failed ({error})", folder.display()))?;
    let free = disk.f_bavail * disk.f_frsize;
    let wanted = (size as f64 * ROOM) as u64;
    if free >= wanted {
        return Ok(());
    }
    let mebibytes = |bytes: u64| bytes >> 20;
    Err(format!(
        "the database cannot be copied: {} has {} MiB left, and {} MiB are needed",
        folder.display(),
        mebibytes(free),
        mebibytes(wanted)
    ))
}

/// Changes the owner of a file, or of a folder with all that is in it. The folder itself comes last, and links are not followed: otherwise
/// the new owner could replace a file by a link, and the file that the link leads to would change its owner.
fn give(path: &Path, user: u32) -> std::io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), user)?;
        }
    }
    lchown(path, Some(user), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_link_leads_to_is_not_given_away() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = std::env::temp_dir().join(format!("brisk-tune-give-{}", std::process::id()));
        fs::create_dir_all(folder.join("copy/shop")).unwrap();
        let [outside, table, link] =
            ["outside", "copy/shop/goods.ibd", "copy/shop/link"].map(|name| folder.join(name));
        fs::write(&outside, "root's").unwrap();
        fs::write(&table, "").unwrap();
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        give(&folder.join("copy"), 65_534).unwrap();
        let owner = |path: &Path| fs::symlink_metadata(path).unwrap().uid();
        for path in [&folder.join("copy"), &folder.join("copy/shop"), &table, &link] {
            assert_eq!(owner(path), 65_534, "{}", path.display());
        }
        assert_eq!(owner(&outside), 0);
        fs::remove_dir_all(&folder).unwrap();
    }
}
