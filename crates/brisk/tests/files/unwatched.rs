//! Where the kernel does not tell of changes, nothing is kept: still no stale answer.
//!
//! The servers of these tests run in mount (and user) namespaces of their own; their files are reached through
//! `/proc/PID/root`, so that what is changed is what they see.

use crate::BIN;
use crate::coherence::{CONF, LARGE, Rig, SMALL, Want, put, replace, retarget, version};
use brisk_testkit::process::is_root;
use brisk_testkit::server::Prepared;
use brisk_testkit::{Builder, Server};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Starts the server in new namespaces (arguments of `unshare`), after a shell script; `$DIR` there is its folder.
pub fn start_in(prepared: Prepared, namespaces: &[&str], script: &str) -> Server {
    let dir = prepared.dir().to_owned();
    let check = Command::new("unshare").args(namespaces).args(["sh", "-c", script]).env("DIR", &dir).output();
    let check = check.expect("unshare, of util-linux, is installed");
    let why = String::from_utf8_lossy(&check.stderr).into_owned();
    assert!(
        check.status.success(),
        "this machine does not let us prepare the namespace that this test needs: {why}"
    );
    let plain = prepared.command(&["-e", "error.log"]);
    let mut command = Command::new("unshare");
    command.args(namespaces).args(["sh", "-c", &format!("{script} && exec \"$0\" \"$@\"")]).env("DIR", &dir);
    command.arg(plain.get_program()).args(plain.get_args());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    prepared.start_with(command)
}

/// The server's files, as it sees them.
pub fn seen_by(server: &Server) -> PathBuf {
    let html = server.dir().join("html");
    PathBuf::from(format!("/proc/{}/root{}", server.child_pid(), html.display()))
}

/// Some of every kind of change.
fn changes(rig: &mut Rig) {
    for size in [SMALL, LARGE] {
        let folder = rig.folder(&format!("changes{size}"));
        let file = folder.join("file");
        let target = format!("/changes{size}/file");
        rig.rounds("replaced", &target, 60, |round| {
            replace(&file, version(round, size));
            Want::Body(version(round, size))
        });
        let open = File::options().write(true).open(&file).expect("our own file");
        rig.rounds("overwritten in place", &target, 60, |round| {
            open.write_all_at(&version(round, size), 0).expect("our own file");
            Want::Body(version(round, size))
        });
        rig.rounds("deleted and written", &target, 60, |round| {
            if round % 2 == 0 {
                fs::remove_file(&file).expect("our own file");
                return Want::Status(404);
            }
            put(&file, version(round, size));
            Want::Body(version(round, size))
        });
        rig.rounds("link retargeted", &format!("/changes{size}/current/file"), 60, |round| {
            let release = folder.join(["a", "b"][round as usize % 2]);
            fs::create_dir_all(&release).expect("our own folder");
            put(&release.join("file"), version(round, size));
            retarget(&folder.join("current"), release.file_name().expect("a name"));
            Want::Body(version(round, size))
        });
    }
    let folder = rig.folder("tries");
    rig.rounds("try_files", "/tries/page", 60, |round| {
        if round % 2 == 0 {
            put(&folder.join("page.html"), version(round, SMALL));
            return Want::Body(version(round, SMALL));
        }
        fs::remove_file(folder.join("page.html")).expect("our own file");
        Want::Body(b"fallback".to_vec())
    });
}

pub fn mounts() -> &'static [&'static str] {
    if is_root() { &["--mount"] } else { &["--user", "--map-root-user", "--mount"] }
}

#[test]
fn an_overlay() {
    let prepared = Builder::new(BIN).http(CONF).file("html/fallback.txt", "fallback").prepare();
    let script = r#"mkdir -p "$DIR/upper" "$DIR/work" &&
        mount -t overlay overlay -o "lowerdir=$DIR/html,upperdir=$DIR/upper,workdir=$DIR/work" "$DIR/html""#;
    let server = start_in(prepared, mounts(), script);
    let html = seen_by(&server);
    let mut rig = Rig::of(server, html);
    changes(&mut rig);
    assert!(rig.server.dir().join("upper/changes200").exists(), "it was served from the overlay");
}

/// A link from a watched folder leads to a file system that cannot be watched.
#[test]
fn a_link_into_an_overlay() {
    let prepared = Builder::new(BIN).http(CONF).file("lower/file", "").prepare();
    let script = r#"mkdir -p "$DIR/upper" "$DIR/work" &&
        mount -t overlay overlay -o "lowerdir=$DIR/lower,upperdir=$DIR/upper,workdir=$DIR/work" "$DIR/lower""#;
    let server = start_in(prepared, mounts(), script);
    let html = seen_by(&server);
    let lower = html.join("../lower");
    std::os::unix::fs::symlink("../lower", html.join("folder")).expect("our own link");
    std::os::unix::fs::symlink("../lower/file", html.join("file")).expect("our own link");
    let mut rig = Rig::of(server, html);
    for target in ["/folder/file", "/file"] {
        rig.rounds("behind a link", target, 100, |round| {
            replace(&lower.join("file"), version(round, SMALL));
            Want::Body(version(round, SMALL))
        });
    }
}

/// Containers mount single files over others: the folder in which such a file seems to be tells nothing of it.
#[test]
fn a_file_mounted_over_another() {
    let prepared =
        Builder::new(BIN).http(CONF).file("html/file", "covered").file("elsewhere/file", "mounted").prepare();
    let server = start_in(prepared, mounts(), r#"mount --bind "$DIR/elsewhere/file" "$DIR/html/file""#);
    let html = seen_by(&server);
    let open = File::options().write(true).open(server.dir().join("elsewhere/file")).expect("our own file");
    std::os::unix::fs::symlink("file", html.join("link")).expect("our own link");
    let mut rig = Rig::of(server, html);
    for target in ["/file", "/link"] {
        for size in [SMALL, LARGE] {
            rig.rounds("behind a mount", target, 100, |round| {
                open.set_len(0).expect("our own file");
                open.write_all_at(&version(round, size), 0).expect("our own file");
                Want::Body(version(round, size))
            });
        }
    }
}

/// What is mounted later is not reported either; a reload looks at everything anew, as the documentation promises.
#[test]
fn a_reload_sees_what_was_mounted() {
    let prepared = Builder::new(BIN)
        .http(CONF)
        .file("html/folder/file", "covered")
        .file("html/file", "covered")
        .file("elsewhere/file", "mounted")
        .prepare();
    let server = start_in(prepared, mounts(), "true");
    let mut clients = [server.client(), server.client()];
    for target in ["/folder/file", "/file"] {
        clients
            .iter_mut()
            .for_each(|client| (0..3).for_each(|_| assert_eq!(client.get(target).text(), "covered")));
    }
    let script = r#"mount --bind "$DIR/elsewhere" "$DIR/html/folder" && mount --bind "$DIR/elsewhere/file" "$DIR/html/file""#;
    let mut enter = Command::new("nsenter");
    enter
        .args(["--target", &server.child_pid().to_string()])
        .args(mounts().iter().filter(|n| !n.starts_with("--map")));
    let output =
        enter.args(["sh", "-c", script]).env("DIR", server.dir()).output().expect("nsenter, of util-linux");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server.reload();
    for target in ["/folder/file", "/file"] {
        for _ in 0..3 {
            assert_eq!(server.get(target).text(), "mounted", "{target}");
        }
    }
}

/// The user may have no more watches: what cannot be watched is looked at.
#[test]
fn watches_are_used_up() {
    for limit in ["max_inotify_watches", "max_inotify_instances"] {
        let prepared = Builder::new(BIN).http(CONF).file("html/fallback.txt", "fallback").prepare();
        // The limits of a user namespace hold for those inside it. The server runs as an ordinary user there: the
        // namespace has no other users to change to.
        let script =
            format!("echo {} > /proc/sys/user/{limit}", if limit.ends_with("watches") { 6 } else { 0 });
        let script =
            format!("{script} && exec unshare --user --map-user=1000 --map-group=1000 \"$0\" \"$@\"");
        let server = start_nested(prepared, &script);
        let html = server.dir().join("html");
        let mut rig = Rig::of(server, html);
        changes(&mut rig);
    }
}

fn start_nested(prepared: Prepared, script: &str) -> Server {
    let plain = prepared.command(&["-e", "error.log"]);
    let mut check = Command::new("unshare");
    let check = check.args(["--user", "--map-root-user", "sh", "-c", script, "true"]).output();
    let check = check.expect("unshare, of util-linux, is installed");
    let why = String::from_utf8_lossy(&check.stderr).into_owned();
    assert!(
        check.status.success(),
        "this machine does not let us prepare the namespace that this test needs: {why}"
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", script]);
    command.arg(plain.get_program()).args(plain.get_args());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    prepared.start_with(command)
}
