//! A program of the site that runs: which one it is, what it was started with, and its own check of its files.

use brisk_load::watch::proc;
use brisk_net::sys;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What of a program's environment its check does not get: sockets and supervisors that are the running program's own, and libraries that are
/// loaded before others. The rest may stand in its files (`${NAME}`).
const NOT_FOR_A_CHECK: &[&str] = &[
    "NGINX",
    "FPM_SOCKETS",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "LD_PRELOAD",
    "LD_AUDIT",
];

/// Words of a command line, which a program may have written over with one text.
pub fn words(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    line.split_whitespace().map(str::to_owned).collect()
}

/// What stands behind an option, up to the next one.
pub fn option(words: &[String], name: &str) -> Option<String> {
    let at = words.iter().position(|word| word == name)?;
    let value: Vec<&str> =
        words[at + 1..].iter().map(String::as_str).take_while(|word| !word.starts_with('-')).collect();
    (!value.is_empty()).then(|| value.join(" "))
}

/// The configuration of a master of Brisk's: its title ends with it (`brisk: master FILE`). Until it has a title, its options say so.
pub fn conf_of_brisk(words: &[String]) -> Option<String> {
    if let [first, second, file @ ..] = words
        && first == "brisk:"
        && second == "master"
    {
        return (!file.is_empty()).then(|| file.join(" "));
    }
    option(words, "-c")
}

/// The configuration of a master of PHP-FPM's: `php-fpm: master process (/etc/php/8.2/fpm/php-fpm.conf)`. While it begins anew, its options
/// say so.
pub fn conf_of_fpm(words: &[String]) -> Option<String> {
    let title = words.join(" ");
    let file = title.split_once("master process (").and_then(|(_, rest)| rest.strip_suffix(')'));
    let of_title = file.filter(|file| !file.is_empty()).map(str::to_owned);
    of_title.or_else(|| option(words, "-y")).or_else(|| option(words, "--fpm-config"))
}

/// The file that a process runs. After an update it is the new one of the same name.
fn program(pid: u32) -> Option<PathBuf> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let there = path.to_str().and_then(|name| name.strip_suffix(" (deleted)")).map(PathBuf::from);
    Some(there.unwrap_or(path))
}

/// Its name without the folder.
pub fn name(pid: u32) -> Option<String> {
    Some(program(pid)?.file_name()?.to_string_lossy().into_owned())
}

/// Whether it is Brisk, which serves Apache's files, too.
pub fn is_brisk(pid: u32) -> bool {
    name(pid).is_some_and(|name| name == "brisk")
}

/// A line of what the kernel says of a process, behind the command's name, which may hold anything.
fn stat(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.trim_start().to_owned())
}

pub fn parent(pid: u32) -> Option<u32> {
    stat(pid)?.split_whitespace().nth(1)?.parse().ok()
}

pub fn children(pid: u32) -> BTreeSet<u32> {
    proc::tree(pid).into_iter().filter(|other| *other != pid).collect()
}

/// An error if a program of the site has ended.
pub fn must_run(master: u32) -> Result<(), String> {
    // One that has ended and was not waited for is there still.
    match stat(master).unwrap_or_default().chars().next() {
        None | Some('Z' | 'X') => Err(format!("process {master}, a program of the site, has ended")),
        Some(_) => Ok(()),
    }
}

/// The effective user and group of a process.
fn account(pid: u32) -> Option<(u32, u32)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let effective = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    Some((effective("Uid:")?, effective("Gid:")?))
}

/// Has the program of a process check its files: runs it with these arguments, as the user that the process is, in its folder. What is wrong is
/// the error.
pub fn check(pid: u32, args: &[String]) -> Result<(), String> {
    let gone = || format!("process {pid} cannot be looked at");
    let (program, (user, group)) = (program(pid).ok_or_else(gone)?, account(pid).ok_or_else(gone)?);
    let mut command = Command::new(&program);
    command.args(args).stdin(Stdio::null()).env_clear().uid(user).gid(group);
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    for variable in environment.split(|byte| *byte == 0) {
        let Some(at) = variable.iter().position(|byte| *byte == b'=') else { continue };
        let (name, value) = (OsStr::from_bytes(&variable[..at]), OsStr::from_bytes(&variable[at + 1..]));
        if !NOT_FOR_A_CHECK.iter().any(|own| name == *own) {
            command.env(name, value);
        }
    }
    // Names of files may be relative to it.
    if let Ok(folder) = fs::read_link(format!("/proc/{pid}/cwd")) {
        command.current_dir(folder);
    }
    sys::unblock_signals_in(&mut command);
    let output = command.output().map_err(|error| format!("{}: {error}", program.display()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_master_s_configuration_is_in_its_title() {
        let of = |line: &str| conf_of_brisk(&split(line));
        assert_eq!(of("brisk: master /srv/a site/brisk.conf").as_deref(), Some("/srv/a site/brisk.conf"));
        assert_eq!(of("/usr/sbin/brisk -g x -c /srv/b.conf").as_deref(), Some("/srv/b.conf"));
        assert_eq!((of("brisk: master"), of("brisk: worker"), of("/usr/sbin/brisk -t")), (None, None, None));
        let of = |line: &str| conf_of_fpm(&split(line));
        assert_eq!(of("php-fpm: master process (/etc/p (a)/f.conf)").as_deref(), Some("/etc/p (a)/f.conf"));
        assert_eq!(of("/usr/sbin/php-fpm8.2 -F -y /etc/f.conf").as_deref(), Some("/etc/f.conf"));
        assert_eq!((of("php-fpm: pool www"), of("php-fpm: master process (/etc/php")), (None, None));
    }

    #[test]
    fn options_of_a_title() {
        let words = split("nginx: master process nginx -c /srv/a site/nginx.conf -g daemon off; -q");
        let of = |name: &str| option(&words, name);
        assert_eq!(
            (of("-c").as_deref(), of("-g").as_deref()),
            (Some("/srv/a site/nginx.conf"), Some("daemon off;"))
        );
        assert_eq!((of("-q"), of("-p")), (None, None));
    }

    /// The check runs with the process's user and group, in its folder, with its environment but for what only the running program may have.
    #[test]
    fn a_check_has_the_account_the_folder_and_the_environment() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        // It waits for a line that never comes.
        let mut child = Command::new("sh")
            .args(["-c", "read line"])
            .stdin(Stdio::piped())
            .env("LISTEN_FDS", "1")
            .env("SITE_ROOT", "/srv/a")
            .current_dir("/usr/share")
            .uid(65_534)
            .gid(65_534)
            .spawn()
            .unwrap();
        let pid = child.id();
        assert_eq!(account(pid), Some((65_534, 65_534)));
        let told = "echo \"$SITE_ROOT$LISTEN_FDS $PWD $(id -u)\" >&2; exit 1";
        let told = check(pid, &["-c".to_owned(), told.to_owned()]);
        assert_eq!(told, Err("/srv/a /usr/share 65534".to_owned()));
        assert_eq!(check(pid, &["-c".to_owned(), "exit 0".to_owned()]), Ok(()));
        assert_eq!(must_run(pid), Ok(()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(must_run(pid).is_err());
    }
}
