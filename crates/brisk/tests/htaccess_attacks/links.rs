//! Symbolic links: which are followed, and what is served while one is switched.

use super::super::{httpd, site};
use brisk_testkit::{Builder, Server, children, process};
use std::fs;
use std::os::unix::fs::{lchown, symlink};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// Owners of files: root may give them away.
const ONE: u32 = 1001;
const OTHER: u32 = 1002;

fn give(path: &Path, owner: u32) {
    lchown(path, Some(owner), None).expect("root gives files away");
}

#[track_caller]
fn check(server: &Server, target: &str, status: u16) {
    for _ in 0..3 {
        let answer = server.client().get(target);
        assert_eq!(answer.status, status, "{target}: {}", server.error_log());
        assert!(status == 200 || !answer.text().contains("secret"), "{target}");
    }
}

/// Links and what they lead to, of two owners, in a folder.
fn lay_out(folder: &Path) {
    fs::create_dir_all(folder.join("theirs")).unwrap();
    fs::create_dir_all(folder.join("own")).unwrap();
    for (name, owner) in [("theirs", OTHER), ("own", ONE)] {
        children::write(&folder.join(name).join("a.txt"), "secret");
        give(&folder.join(name).join("a.txt"), owner);
        give(&folder.join(name), owner);
        for (link, to) in [("file", format!("{name}/a.txt")), ("folder", name.to_string())] {
            let link = folder.join(format!("{link}-{name}"));
            symlink(to, &link).unwrap();
            give(&link, ONE);
        }
    }
    // A link to a link, of which the second leads to another's.
    symlink("file-theirs", folder.join("twice")).unwrap();
    give(&folder.join("twice"), ONE);
    symlink("/etc/passwd", folder.join("away")).unwrap();
    give(&folder.join("away"), ONE);
    symlink("..", folder.join("up")).unwrap();
    give(&folder.join("up"), ONE);
}

#[test]
fn links_are_followed_to_the_same_owner_only() {
    assert!(process::is_root(), "links of other owners need root");
    let conf = "DocumentRoot {{DIR}}/html\n<Directory />\nOptions FollowSymLinks\nAllowOverride None\n</Directory>\n<Directory {{DIR}}/html>\nRequire all granted\nAllowOverride Options\n</Directory>\n<Directory {{DIR}}/html/owner>\nOptions SymLinksIfOwnerMatch\n</Directory>\n<Directory {{DIR}}/html/none>\nOptions None\n</Directory>\n<Location /both>\nOptions -FollowSymLinks +SymLinksIfOwnerMatch\n</Location>\n";
    let site_of = || {
        let builder = site()
            .file("html/file/.htaccess", "Options -FollowSymLinks +SymLinksIfOwnerMatch\n")
            .file("html/closed/.htaccess", "Require all denied\n");
        for folder in ["owner", "none", "file"] {
            lay_out(&builder.dir().join("html").join(folder));
        }
        builder
    };
    let ours = site_of().start();
    let apaches = httpd(site_of(), &["authz_core", "dir"], conf);
    for (server, folders) in [(&ours, &["file"][..]), (&apaches, &["file", "owner"])] {
        for folder in folders {
            for (name, status) in [
                ("file-own", 200),
                ("folder-own/a.txt", 200),
                ("file-theirs", 403),
                ("folder-theirs/a.txt", 403),
                ("twice", 403),
                ("away", 403),
                ("theirs/a.txt", 200),
            ] {
                check(server, &format!("/{folder}/{name}"), status);
            }
        }
    }
    for name in ["file-own", "folder-own/a.txt", "file-theirs", "folder-theirs/a.txt", "twice", "away"] {
        check(&apaches, &format!("/none/{name}"), 403);
    }
    // Who may change options of its folder still has the folders above judged by theirs.
    children::write(&apaches.dir().join("html/none/own/.htaccess"), "Options +FollowSymLinks\n");
    check(&apaches, "/none/folder-own/a.txt", 403);
    check(&apaches, "/none/own/a.txt", 200);
    // A link that leads up is a link.
    check(&apaches, "/none/up/a.txt", 403);
}

/// Asks for a target from two connections, so often, as long as `toggle` changes what is there.
fn asked_while(server: &Server, target: &str, times: usize, toggle: impl Fn() + Sync) -> Vec<(u16, String)> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                toggle();
            }
        });
        let ask = || {
            let mut client = server.client();
            let one = |_| {
                let answer = client.try_get(target).unwrap_or_else(|failure| panic!("{target}: {failure}"));
                if answer.headers.iter().any(|(name, value)| {
                    name.eq_ignore_ascii_case("connection") && value.eq_ignore_ascii_case("close")
                }) {
                    client = server.client();
                }
                (answer.status, answer.text())
            };
            (0..times / 2).map(one).collect::<Vec<_>>()
        };
        let threads = [scope.spawn(ask), scope.spawn(ask)];
        let answers = threads.map(std::thread::ScopedJoinHandle::join);
        is_over.store(true, Relaxed);
        answers.into_iter().flat_map(|of_one| of_one.expect("an answer to each request")).collect()
    })
}

/// Puts a link in the place of another.
fn switch(link: &Path, to: &str) {
    let beside = link.with_extension("new");
    let _ = fs::remove_file(&beside);
    symlink(to, &beside).unwrap();
    fs::rename(&beside, link).unwrap();
}

/// What is denied is never served, however often the link is switched between looking and opening.
#[test]
fn a_switched_link_serves_nothing_that_is_denied() {
    let server = site()
        .file("html/open/a.txt", "open")
        .file("html/closed/.htaccess", "Require all denied\n")
        .file("html/open/.htaccess", "Header set A open\n")
        .start();
    let link = server.dir().join("html/current");
    switch(&link, "open");
    let toggle = || {
        switch(&link, "closed");
        switch(&link, "open");
    };
    let answers = asked_while(&server, "/current/a.txt", 10_000, toggle);
    assert_eq!(answers.len(), 10_000);
    let wrong: Vec<_> = answers
        .iter()
        .filter(|(status, text)| !matches!(status, 200 | 403 | 404 | 503) || text.contains("secret"))
        .collect();
    assert!(wrong.is_empty(), "{} wrong: {:?}", wrong.len(), wrong[0]);
    assert!(answers.iter().any(|(status, _)| *status == 200), "never open");
    check(&server, "/current/a.txt", 200);
    switch(&link, "closed");
    check(&server, "/current/a.txt", 403);
}

/// The same where links are followed to the same owner only, by Apache's own files.
#[test]
fn a_switched_link_leads_to_no_other_owner() {
    assert!(process::is_root(), "links of other owners need root");
    let builder = Builder::new(super::super::BIN)
        .file("html/links/own.txt", "own")
        .file("html/links/theirs.txt", "secret")
        .file("html/links/own/a.txt", "own")
        .file("html/links/theirs/a.txt", "secret");
    let conf = "DocumentRoot {{DIR}}/html\n<Directory {{DIR}}/html>\nRequire all granted\nOptions SymLinksIfOwnerMatch\n</Directory>\n";
    let server = httpd(builder, &["authz_core"], conf);
    let links = server.dir().join("html/links");
    for (name, owner) in [("own.txt", 0), ("own", 0), ("theirs.txt", OTHER), ("theirs", OTHER)] {
        give(&links.join(name), owner);
    }
    let (file, folder) = (links.join("file"), links.join("folder"));
    let toggle = || {
        for to in ["own", "theirs"] {
            switch(&file, &format!("{to}.txt"));
            switch(&folder, to);
        }
    };
    toggle();
    for target in ["/links/file", "/links/folder/a.txt"] {
        let answers = asked_while(&server, target, 3000, toggle);
        let is_wrong = |(status, text): &&(u16, String)| {
            !matches!(status, 200 | 403 | 404 | 503) || text.contains("secret")
        };
        let wrong: Vec<_> = answers.iter().filter(is_wrong).collect();
        assert!(wrong.is_empty(), "{target}: {} wrong: {:?}", wrong.len(), wrong[0]);
    }
}
