//! Change, then GET: the answer is never older than the change. 12,000 rounds in all, each asked on kept connections to
//! both threads.
//!
//! Each kind of change has a folder of its own. Before a change its target has been asked for often enough to be
//! cached in whatever form: prepared answer, content, descriptor, or the knowledge that it is missing.

use crate::{BIN, set_time};
use brisk_testkit::{Builder, Client, Response, Server, wait};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// What a target must give.
#[derive(Debug, PartialEq)]
pub enum Want {
    Body(Vec<u8>),
    Status(u16),
}

impl Want {
    pub fn matches(&self, response: &Response) -> bool {
        match self {
            Want::Body(body) => response.status == 200 && response.body == *body,
            Want::Status(status) => response.status == *status,
        }
    }
}

/// In memory, and as a descriptor.
pub const SMALL: usize = 200;
pub const LARGE: usize = 70_000;

/// The content of a round: `size` bytes that no other round has.
pub fn version(round: u32, size: usize) -> Vec<u8> {
    let mut bytes = format!("{round:08}.").repeat(size / 9 + 1).into_bytes();
    bytes.truncate(size);
    bytes
}

fn body(round: u32, size: usize) -> Want {
    Want::Body(version(round, size))
}

/// A server with connections to both of its threads, and its files as this process sees them.
pub struct Rig {
    pub server: Server,
    pub clients: Vec<Client>,
    pub html: PathBuf,
}

pub const CONF: &str = "server { listen 127.0.0.1:{{PORT}}; keepalive_requests 1000000;
    location /tries/ { try_files $uri $uri.html $uri/ /fallback.txt; }
    location /indexes/ { index index.html index.htm; }
    location /tests/ { if (-f $request_filename) { return 204; } return 404; }
    location /unlinked/ { disable_symlinks on from={{DIR}}/html; }
}";

impl Rig {
    pub fn new() -> Rig {
        let server = Builder::new(BIN).http(CONF).file("html/fallback.txt", "fallback").start();
        let html = server.dir().join("html");
        Rig::of(server, html)
    }

    pub fn of(server: Server, html: PathBuf) -> Rig {
        // A connection that was answered goes to the thread that has the fewest: two in a row go to both.
        let clients = (0..2).map(|_| server.client()).collect();
        Rig { server, clients, html }
    }

    /// An empty folder, served as `/NAME/`.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.html.join(name);
        fs::create_dir_all(&path).expect("our own folder");
        path
    }

    /// `rounds` times: `change` says what the target must give when it has returned.
    pub fn rounds(&mut self, what: &str, target: &str, rounds: u32, mut change: impl FnMut(u32) -> Want) {
        for round in 0..rounds {
            let want = change(round);
            let turn = round as usize;
            for at in 0..self.clients.len() {
                let at = (at + turn) % self.clients.len();
                let response = self.clients[at].get(target);
                assert!(
                    want.matches(&response),
                    "{what}, round {round}, client {at}: {} instead of {}",
                    shown(response.status, &response.body),
                    match &want {
                        Want::Body(body) => shown(200, body),
                        Want::Status(status) => status.to_string(),
                    }
                );
            }
        }
    }

    /// Asks until both threads give what is wanted, which must not take much more than a second.
    pub fn eventually(&mut self, what: &str, target: &str, want: &Want) {
        for client in &mut self.clients {
            wait::holds(what, || want.matches(&client.get(target)));
        }
    }
}

fn shown(status: u16, body: &[u8]) -> String {
    format!("{status}, {} bytes, {:?}", body.len(), String::from_utf8_lossy(&body[..body.len().min(40)]))
}

pub fn put(path: &Path, content: impl AsRef<[u8]>) {
    fs::write(path, content).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// Replaces by rename, as editors and deployments do.
pub fn replace(path: &Path, content: impl AsRef<[u8]>) {
    let new = path.with_extension("new");
    put(&new, content);
    fs::rename(&new, path).expect("our own file");
}

/// Points a link elsewhere, in one step.
pub fn retarget(link: &Path, target: impl AsRef<Path>) {
    let new = link.with_extension("newlink");
    symlink(target, &new).expect("our own link");
    fs::rename(&new, link).expect("our own link");
}

fn exchange(one: &Path, other: &Path) {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).expect("both exist");
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("our own file");
}

/// Changes of one file's content: 2,100 rounds each.
#[test]
fn content_in_memory() {
    content(SMALL);
}

#[test]
fn content_by_descriptor() {
    content(LARGE);
}

fn content(size: usize) {
    let mut rig = Rig::new();
    let folder = rig.folder("content");
    let file = folder.join("file");
    let target = "/content/file";
    rig.rounds("replaced", target, 500, |round| {
        replace(&file, version(round, size));
        body(round, size)
    });
    rig.rounds("truncated and written", target, 300, |round| {
        put(&file, version(round, size));
        body(round, size)
    });
    let open = File::options().read(true).write(true).open(&file).expect("our own file");
    rig.rounds("overwritten in place", target, 500, |round| {
        open.write_all_at(&version(round, size), 0).expect("our own file");
        body(round, size)
    });
    rig.rounds("one byte overwritten", target, 200, |round| {
        let mut want = version(0, size);
        if round == 0 {
            open.write_all_at(&want, 0).expect("our own file");
        }
        let at = size - 1 - round as usize % 7;
        (0..7).for_each(|n| want[size - 1 - n] = b'-');
        open.write_all_at(&want, 0).expect("our own file");
        want[at] = b'x';
        open.write_all_at(b"x", at as u64).expect("our own file");
        Want::Body(want)
    });
    rig.rounds("rewritten with its old time", target, 200, |round| {
        open.write_all_at(&version(round, size), 0).expect("our own file");
        set_time(&file, 1_000_000_000);
        body(round, size)
    });
    rig.rounds("replaced by one of the same time and length", target, 200, |round| {
        let new = folder.join("new");
        put(&new, version(round, size));
        set_time(&new, 1_000_000_000);
        fs::rename(&new, &file).expect("our own file");
        body(round, size)
    });
    let mut log = File::options().append(true).open(&file).expect("our own file");
    let mut want = fs::read(&file).expect("our own file");
    rig.rounds("appended to", target, 200, |round| {
        let line = format!("line {round}\n");
        log.write_all(line.as_bytes()).expect("our own file");
        want.extend_from_slice(line.as_bytes());
        Want::Body(want.clone())
    });
}

/// Changes of length, over the size up to which contents are kept in memory: 800 rounds.
#[test]
fn length() {
    let mut rig = Rig::new();
    let file = rig.folder("length").join("file");
    let whole = version(7, 66_000);
    const EDGE: usize = 64 << 10;
    rig.rounds("cut and filled again", "/length/file", 600, |round| {
        let length = [EDGE, EDGE + 1, EDGE - 1, 0, 66_000, 1][round as usize % 6];
        put(&file, &whole);
        File::options().write(true).open(&file).and_then(|f| f.set_len(length as u64)).expect("our own file");
        Want::Body(whole[..length].to_vec())
    });
    put(&file, &whole);
    let open = File::options().write(true).open(&file).expect("our own file");
    rig.rounds("cut byte by byte", "/length/file", 200, |round| {
        let length = EDGE + 100 - round as usize;
        open.set_len(length as u64).expect("our own file");
        Want::Body(whole[..length].to_vec())
    });
}

/// Whether it is there, and whether it may be read: 2,100 rounds.
#[test]
fn presence() {
    let mut rig = Rig::new();
    for size in [SMALL, LARGE] {
        let folder = rig.folder("presence");
        let file = folder.join("file");
        put(&file, "");
        rig.rounds("forbidden and allowed", "/presence/file", 300, |round| {
            if round == 0 {
                put(&file, version(round, size));
            }
            mode(&file, if round % 2 == 0 { 0o000 } else { 0o644 });
            if round % 2 == 0 { Want::Status(403) } else { body(0, size) }
        });
        mode(&file, 0o644);
        rig.rounds("deleted and written", "/presence/file", 300, |round| {
            if round % 2 == 0 {
                fs::remove_file(&file).expect("our own file");
                Want::Status(404)
            } else {
                put(&file, version(round, size));
                body(round, size)
            }
        });
        let aside = folder.join("aside");
        put(&aside, version(3, size));
        rig.rounds("moved away and back", "/presence/file", 150, |round| {
            if round % 2 == 0 {
                let _ = fs::remove_file(&file);
                Want::Status(404)
            } else {
                match round % 3 {
                    0 => fs::hard_link(&aside, &file).expect("our own file"),
                    1 => symlink("aside", &file).expect("our own link"),
                    _ => drop(fs::copy(&aside, &file).expect("our own file")),
                }
                body(3, size)
            }
        });
        put(&file, version(1, size));
        rig.rounds("folder closed and opened", "/presence/file", 150, |round| {
            mode(&folder, if round % 2 == 0 { 0o600 } else { 0o755 });
            if round % 2 == 0 { Want::Status(403) } else { body(1, size) }
        });
        mode(&folder, 0o755);
    }
    let folder = rig.folder("tests");
    rig.rounds("if (-f)", "/tests/file", 150, |round| {
        match round % 3 {
            0 => put(&folder.join("file"), "x"),
            1 => fs::remove_file(folder.join("file")).expect("our own file"),
            _ => fs::create_dir(folder.join("file")).expect("our own folder"),
        }
        if round % 3 == 2 {
            fs::remove_dir(folder.join("file")).expect("our own folder");
        }
        Want::Status(if round % 3 == 0 { 204 } else { 404 })
    });
    let folder = rig.folder("unlinked");
    put(&folder.join("real"), "real");
    rig.rounds("disable_symlinks", "/unlinked/file", 150, |round| {
        let _ = fs::remove_file(folder.join("file"));
        if round % 2 == 0 {
            put(&folder.join("file"), version(round, SMALL));
            body(round, SMALL)
        } else {
            symlink("real", folder.join("file")).expect("our own link");
            Want::Status(403)
        }
    });
}

/// What stands for a directory, and answers that something is missing: 1,050 rounds.
#[test]
fn indexes_and_tries() {
    let mut rig = Rig::new();
    let folder = rig.folder("indexes/here");
    rig.rounds("index files", "/indexes/here/", 400, |round| {
        let (first, second) = (folder.join("index.html"), folder.join("index.htm"));
        match round % 4 {
            0 => {
                put(&second, version(round, SMALL));
                body(round, SMALL)
            }
            1 => {
                put(&first, version(round, LARGE));
                body(round, LARGE)
            }
            2 => {
                fs::remove_file(&first).expect("our own file");
                body(round - 2, SMALL)
            }
            _ => {
                fs::remove_file(&second).expect("our own file");
                Want::Status(403)
            }
        }
    });
    let folder = rig.folder("tries");
    rig.rounds("try_files", "/tries/page", 400, |round| {
        let (page, html) = (folder.join("page"), folder.join("page.html"));
        match round % 4 {
            0 => {
                put(&html, version(round, SMALL));
                body(round, SMALL)
            }
            1 => {
                put(&page, version(round, LARGE));
                body(round, LARGE)
            }
            2 => {
                fs::remove_file(&page).expect("our own file");
                body(round - 2, SMALL)
            }
            _ => {
                fs::remove_file(&html).expect("our own file");
                Want::Body(b"fallback".to_vec())
            }
        }
    });
    rig.rounds("try_files and directories", "/tries/folder/", 150, |round| match round % 3 {
        0 => {
            fs::create_dir(folder.join("folder")).expect("our own folder");
            Want::Status(403)
        }
        1 => {
            put(&folder.join("folder/index.html"), version(round, SMALL));
            body(round, SMALL)
        }
        _ => {
            fs::remove_dir_all(folder.join("folder")).expect("our own folder");
            Want::Body(b"fallback".to_vec())
        }
    });
    rig.rounds("the fallback itself", "/tries/none", 100, |round| {
        replace(&folder.parent().expect("html").join("fallback.txt"), version(round, SMALL));
        body(round, SMALL)
    });
}

/// Symbolic links on the way: 1,500 rounds.
#[test]
fn links() {
    let mut rig = Rig::new();
    for size in [SMALL, LARGE] {
        let folder = rig.folder(&format!("links{size}"));
        let target = format!("/links{size}/link");
        let link = folder.join("link");
        rig.rounds("link to a file retargeted", &target, 200, |round| {
            let name = format!("file{}", round % 3);
            put(&folder.join(&name), version(round, size));
            retarget(&link, name);
            body(round, size)
        });
        rig.rounds("link removed and made", &target, 150, |round| {
            let _ = fs::remove_file(&link);
            if round % 2 == 1 {
                symlink(folder.join("file1"), &link).expect("our own link");
                put(&folder.join("file1"), version(round, size));
                body(round, size)
            } else {
                Want::Status(404)
            }
        });
        fs::create_dir_all(folder.join("elsewhere")).expect("our own folder");
        retarget(&folder.join("second"), "elsewhere/file");
        retarget(&link, "second");
        rig.rounds("written behind two links", &target, 100, |round| {
            put(&folder.join("elsewhere/file"), version(round, size));
            body(round, size)
        });
        rig.rounds("the second link retargeted", &target, 100, |round| {
            let name = format!("elsewhere/file{}", round % 2);
            put(&folder.join(&name), version(round, size));
            retarget(&folder.join("second"), &name);
            body(round, size)
        });
        for release in ["a", "b"] {
            fs::create_dir_all(folder.join("releases").join(release)).expect("our own folder");
        }
        rig.rounds("link to a folder retargeted", &format!("/links{size}/current/file"), 200, |round| {
            let release = ["a", "b"][round as usize % 2];
            if round < 2 || round % 5 == 0 {
                put(
                    &folder.join("releases").join(release).join("file"),
                    version(u32::from(round % 2 == 1), size),
                );
            }
            retarget(&folder.join("current"), format!("releases/{release}"));
            body(u32::from(round % 2 == 1), size)
        });
    }
}

/// Folders on the way: 1,400 rounds.
#[test]
fn folders() {
    let mut rig = Rig::new();
    for size in [SMALL, LARGE] {
        let base = rig.folder(&format!("folders{size}"));
        let target = format!("/folders{size}/site/sub/file");
        let tree = |name: &str, round: u32| {
            fs::create_dir_all(base.join(name).join("sub")).expect("our own folder");
            put(&base.join(name).join("sub/file"), version(round, size));
        };
        tree("site", 0);
        tree("other", 1);
        rig.rounds("parents exchanged", &target, 150, |round| {
            exchange(&base.join("site"), &base.join("other"));
            body(u32::from(round % 2 == 0), size)
        });
        rig.rounds("parent renamed", &target, 150, |round| {
            if round % 2 == 0 {
                fs::rename(base.join("site"), base.join("away")).expect("our own folder");
                Want::Status(404)
            } else {
                fs::rename(base.join("away"), base.join("site")).expect("our own folder");
                body(0, size)
            }
        });
        if !base.join("site").exists() {
            fs::rename(base.join("away"), base.join("site")).expect("our own folder");
        }
        rig.rounds("the inner folder replaced", &target, 150, |round| {
            let new = base.join("new");
            fs::create_dir(&new).expect("our own folder");
            put(&new.join("file"), version(round, size));
            exchange(&new, &base.join("site/sub"));
            fs::remove_dir_all(&new).expect("our own folder");
            body(round, size)
        });
        rig.rounds("removed and made again", &target, 150, |round| {
            fs::remove_dir_all(base.join("site")).expect("our own folder");
            tree("site", round);
            body(round, size)
        });
        rig.rounds("a file in the folder's place", &target, 100, |round| {
            if round % 2 == 0 {
                fs::remove_dir_all(base.join("site")).expect("our own folder");
                put(&base.join("site"), "a file");
                Want::Status(404)
            } else {
                fs::remove_file(base.join("site")).expect("our own file");
                tree("site", round);
                body(round, size)
            }
        });
    }
}

/// One name stands for different things. 150 rounds.
#[test]
fn file_folder_nothing() {
    let mut rig = Rig::new();
    let base = rig.folder("places");
    rig.rounds("file, folder, nothing", "/places/thing", 150, |round| {
        let thing = base.join("thing");
        match round % 3 {
            0 => {
                put(&thing, version(round, SMALL));
                body(round, SMALL)
            }
            1 => {
                fs::remove_file(&thing).expect("our own file");
                fs::create_dir(&thing).expect("our own folder");
                Want::Status(301)
            }
            _ => {
                fs::remove_dir(&thing).expect("our own folder");
                Want::Status(404)
            }
        }
    });
}

/// The same inode by another name: a link that existed when the file was first asked for. 400 rounds.
#[test]
fn hard_links() {
    let mut rig = Rig::new();
    for size in [SMALL, LARGE] {
        let folder = rig.folder(&format!("hard{size}"));
        let outside = rig.folder("outside").join(format!("name{size}"));
        put(&outside, version(0, size));
        fs::hard_link(&outside, folder.join("file")).expect("our own file");
        rig.rounds("written by another name", &format!("/hard{size}/file"), 200, |round| {
            put(&outside, version(round, size));
            body(round, size)
        });
    }
}

/// Two requests in flight with the change between them: the second must see it, the first may. 400 rounds.
#[test]
fn pipelined() {
    let mut rig = Rig::new();
    for size in [SMALL, LARGE] {
        let folder = rig.folder("pipelined");
        let file = folder.join("file");
        replace(&file, version(0, size));
        let request = "GET /pipelined/file HTTP/1.1\r\nHost: localhost\r\n\r\n";
        for round in 1..=200 {
            let at = round as usize % rig.clients.len();
            let client = &mut rig.clients[at];
            client.send(request);
            if round % 2 == 0 {
                // Two at once, the last of them not yet complete when the change is made.
                client.send(&request[..20]);
            }
            replace(&file, version(round, size));
            client.send(if round % 2 == 0 { &request[20..] } else { request });
            let (first, second) = (client.response(), client.response());
            let old = body(round - 1, size);
            assert!(
                old.matches(&first) || body(round, size).matches(&first),
                "round {round}: the first is older"
            );
            assert!(body(round, size).matches(&second), "round {round}: the second is stale");
        }
    }
}
