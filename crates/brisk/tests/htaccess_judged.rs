//! `.htaccess` and the ways that lead to a file: links, aliases, `try_files`, folders that are moved, listings. What is judged must be
//! what is served.

mod htaccess_judged {
    mod anew;
}

use brisk_testkit::{Builder, Server, children, process, wait};
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const HTTP: &str = r"
    types { text/html html; text/plain txt; }
    default_type application/octet-stream;
    server {
        listen 127.0.0.1:{{PORT}};
        root {{DIR}}/html;
        directory_overrides on;
        location / { }
        location /try/ { try_files $uri.php $uri.txt /closed/a.txt =404; }
        location = /one { alias {{DIR}}/html/scripts/a.php; }
        location = /two { alias {{DIR}}/html/closed/a.txt; }
        location /real/ { set_real_ip_from 127.0.0.1; }
        location /listed/ { autoindex on; }
    }
";

fn site() -> Builder {
    Builder::new(BIN).http(HTTP).file("html/a.txt", "a").file("html/closed/a.txt", "secret")
}

#[track_caller]
fn check(server: &Server, target: &str, status: u16) {
    for _ in 0..3 {
        let answer = server.client().get(target);
        assert_eq!(answer.status, status, "{target}: {}", server.error_log());
        assert!(!answer.text().contains("secret"), "{target}");
    }
}

/// A link on the way to a file is opened as a folder, which is told by another error than one at the end.
#[test]
fn links_in_the_middle_of_a_path_are_refused_too() {
    let server =
        site().file("html/dir/.htaccess", "Options -FollowSymLinks\n").file("html/dir/in/a.txt", "a").start();
    let html = server.dir().join("html");
    symlink("../closed", html.join("dir/folder")).expect("our own link");
    symlink("../closed/a.txt", html.join("dir/file.txt")).expect("our own link");
    symlink("nothing", html.join("dir/nothing")).expect("our own link");
    check(&server, "/dir/folder/a.txt", 403);
    check(&server, "/dir/folder/", 403);
    check(&server, "/dir/file.txt", 403);
    check(&server, "/dir/nothing", 403);
    check(&server, "/dir/none.txt", 404);
    check(&server, "/dir/none/none.txt", 404);
    check(&server, "/dir/in/a.txt", 200);
    check(&server, "/dir/in/a.txt/path", 404);
}

#[test]
fn what_try_files_and_aliases_lead_to_is_judged() {
    let server = site()
        .file("html/closed/.htaccess", "Require all denied\n")
        .file("html/try/script.php", "<?php secret")
        .file("html/try/text.txt", "text")
        .file("html/scripts/a.php", "<?php secret")
        .start();
    check(&server, "/try/script", 500);
    check(&server, "/try/text", 200);
    check(&server, "/try/none", 403);
    check(&server, "/one", 500);
    check(&server, "/two", 403);
    // A handler that a file names holds for what was found, too.
    children::write(&server.dir().join("html/try/.htaccess"), "AddHandler cgi-script .txt\n");
    check(&server, "/try/text", 500);
    check(&server, "/try/script", 500);
}

#[test]
fn require_ip_asks_for_the_address_that_trusted_proxies_tell() {
    let server =
        site().file("html/real/a.txt", "a").file("html/real/.htaccess", "Require ip 127.0.0.1\n").start();
    check(&server, "/real/a.txt", 200);
    let told = "GET /real/a.txt HTTP/1.1\r\nHost: a\r\nX-Real-IP: 192.0.2.1\r\n\r\n";
    for _ in 0..3 {
        assert_eq!(server.client().request(told).status, 403, "{}", server.error_log());
    }
}

/// Apache asks for each index file by a subrequest: what rules refuse there is not listed.
#[test]
fn rules_for_index_files_count_before_a_listing() {
    let rules = |rule: &str| format!("RewriteEngine On\n{rule}\n");
    let server = site()
        .file(
            "html/listed/refused/.htaccess",
            rules("RewriteCond %{REMOTE_ADDR} ^127\\.\nRewriteRule . - [F]"),
        )
        .file("html/listed/not_there/.htaccess", rules("RewriteRule . - [R=404]"))
        .file("html/listed/main/.htaccess", rules("RewriteRule . - [F,NS]"))
        .file(
            "html/listed/other/.htaccess",
            rules("DirectoryIndex front.html\nRewriteRule ^index\\.html$ - [F]"),
        )
        .start();
    for (folder, status) in [("refused", 403), ("not_there", 200), ("main", 200), ("other", 200)] {
        check(&server, &format!("/listed/{folder}/"), status);
    }
}

/// Asks for targets as long as `toggle` moves folders, at most so often, and counts the answers by whether the file was given out.
fn asked_while(server: &Server, target: &str, toggle: impl Fn() + Sync) -> usize {
    const ASKED: usize = 1500;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                toggle();
            }
        });
        let ask = || {
            server.client().try_get(target).map(|answer| (answer.status, answer.text().contains("secret")))
        };
        let answers: Vec<_> = (0..ASKED).map(|_| ask()).collect();
        is_over.store(true, Relaxed);
        let answers: Vec<_> = answers.into_iter().map(|answer| answer.expect("an answer")).collect();
        let mut statuses: Vec<u16> = answers.iter().map(|(status, _)| *status).collect();
        statuses.sort_unstable();
        statuses.dedup();
        assert!(statuses.iter().all(|status| matches!(status, 403 | 404 | 503)), "{statuses:?}");
        answers.iter().filter(|(_, is_given)| *is_given).count()
    })
}

/// A deployment renames folders while requests are judged by what is in them.
#[test]
fn a_closed_folder_that_is_moved_is_never_open() {
    let server = site()
        .file("html/closed/.htaccess", "Require all denied\n")
        .file("html/files/.htaccess", "<Files b.txt>\nRequire all denied\n</Files>\n")
        .file("html/files/in/b.txt", "secret")
        .file("html/other/a.txt", "open")
        .start();
    let html = server.dir().join("html");
    let (aside, closed, files) = (server.dir().join("aside"), html.join("closed"), html.join("files/in"));
    let there_and_back = |folder: &std::path::Path| {
        fs::rename(folder, &aside).expect("our own folder");
        std::thread::yield_now();
        fs::rename(&aside, folder).expect("our own folder");
        std::thread::yield_now();
    };
    assert_eq!(asked_while(&server, "/closed/a.txt", || there_and_back(&closed)), 0);
    assert_eq!(asked_while(&server, "/files/in/b.txt", || there_and_back(&files)), 0);
    check(&server, "/closed/a.txt", 403);
    check(&server, "/files/in/b.txt", 403);
    check(&server, "/other/a.txt", 200);
}

/// A slow upload writes in parts: as long as it has the file open, what held before holds, too.
#[test]
fn a_file_that_is_being_written_opens_nothing() {
    use std::io::Write as _;
    let server = site()
        .file("html/closed/.htaccess", "Require all denied\nHeader set A old\n")
        .file("html/other/.htaccess", "Header set A old\n")
        .file("html/other/a.txt", "text")
        .start();
    check(&server, "/closed/a.txt", 403);
    check(&server, "/other/a.txt", 200);
    let create = |name: &str| fs::File::create(server.dir().join(name)).expect("our own file");
    let mut closed = create("html/closed/.htaccess");
    let mut other = create("html/other/.htaccess");
    let pause = || {
        let from = std::time::Instant::now();
        // Longer than an empty file is waited for.
        wait::holds("the writers pause", || from.elapsed().as_millis() > 1200);
    };
    pause();
    check(&server, "/closed/a.txt", 403);
    assert_eq!(server.get("/other/a.txt").header("A"), Some("old"), "what held before answers");
    closed.write_all(b"# nothing yet\n").expect("our own file");
    other.write_all(b"Header set A new\nRequire all denied\n").expect("our own file");
    pause();
    check(&server, "/closed/a.txt", 403);
    check(&server, "/other/a.txt", 403);
    other.write_all(b"Nonsense\n").expect("our own file");
    check(&server, "/other/a.txt", 500);
    closed.write_all(b"Header set A new\n").expect("our own file");
    drop(closed);
    let said = "secret";
    wait::holds("a file counts when its writer closes it", || {
        let answer = server.get("/closed/a.txt");
        answer.status == 200 && answer.text() == said && answer.header("A") == Some("new")
    });
    check(&server, "/other/a.txt", 500);
    drop(other);
    check(&server, "/other/a.txt", 500);
}

/// A file that was emptied and closed is empty.
#[test]
fn an_emptied_file_counts_at_once_when_it_is_closed() {
    let server =
        site().file("html/other/a.txt", "open").file("html/other/.htaccess", "Require all denied\n").start();
    // It would take a second each time, if it was waited for; a busy machine makes one of them late.
    wait::holds("an empty file that is not waited for", || {
        server.write("html/other/.htaccess", "Require all denied\n");
        check(&server, "/other/a.txt", 403);
        children::write(&server.dir().join("html/other/.htaccess"), "");
        let asked = std::time::Instant::now();
        assert_eq!(server.get("/other/a.txt").status, 200);
        asked.elapsed().as_millis() < 900
    });
}

/// An upload truncates a file, and writes it when its text has come.
#[test]
fn a_truncated_file_does_not_open_its_folder() {
    use std::io::Write as _;
    let server = site().file("html/closed/.htaccess", "Require all denied\n").start();
    check(&server, "/closed/a.txt", 403);
    let file = server.dir().join("html/closed/.htaccess");
    let mut upload = fs::File::create(&file).expect("our own file");
    let asked = std::time::Instant::now();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| server.client().get("/closed/a.txt").status);
        // Longer than a file with text is left alone.
        wait::holds("the file has been empty for a while", || asked.elapsed().as_millis() > 300);
        assert!(!asking.is_finished(), "the request waits for the text");
        upload.write_all(b"# again\nRequire all denied\n").expect("our own file");
        drop(upload);
        assert_eq!(asking.join().expect("the client does not panic"), 403);
    });
}

/// Asks for a target as long as `toggle` changes what is there; each answer is what `is_right` wants.
fn right_while(
    server: &Server,
    target: &str,
    toggle: impl Fn() + Sync,
    is_right: impl Fn(u16, &str) -> bool,
) {
    const ASKED: usize = 1000;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                toggle();
            }
        });
        let answers: Vec<_> = (0..ASKED).map(|_| server.client().try_get(target)).collect();
        is_over.store(true, Relaxed);
        for answer in answers {
            let answer = answer.expect("an answer");
            let text = answer.text();
            assert!(is_right(answer.status, &text), "{} {text}\n{}", answer.status, server.error_log());
        }
    });
}

/// Files are replaced as wholes all the time: that is no reason to refuse one.
#[test]
fn a_file_that_is_replaced_meanwhile_is_served() {
    let server =
        site().file("html/other/.htaccess", "Header set A b\n").file("html/other/a.txt", "text").start();
    let (new, file) = (server.dir().join("html/other/new"), server.dir().join("html/other/a.txt"));
    let replace = || {
        children::write(&new, "text");
        fs::rename(&new, &file).expect("our own file");
    };
    right_while(&server, "/other/a.txt", replace, |status, text| (status, text) == (200, "text"));
}

/// A file that is another one each time it is looked at, so often.
fn replaced(times: u32) -> Server {
    let site = site().main("env BRISK_FAULTS; worker_processes 1;");
    let faults = format!("replaced:{times}={}/html/other/", site.dir().display());
    let site = site.file("html/other/.htaccess", "Header set A b\n").file("html/other/a.txt", "text");
    site.env("BRISK_FAULTS", &faults).start()
}

/// It was judged anew as often as a URI may change, and then taken for a circle of redirects.
#[test]
fn a_file_that_is_replaced_many_times_is_served() {
    let server = replaced(40);
    let answer = server.get("/other/a.txt");
    let got = (answer.status, answer.text(), answer.header("A").map(str::to_string));
    assert_eq!(got, (200, "text".into(), Some("b".into())), "{}", server.error_log());
}

#[test]
fn a_file_that_is_replaced_all_the_time_is_503() {
    let server = replaced(60);
    assert_eq!(server.get("/other/a.txt").status, 503, "{}", server.error_log());
    server.wait_for_log("was moved or created while its .htaccess files were read");
    assert_eq!(server.get("/other/a.txt").status, 200);
}

/// Editors that save in place, and nothing else, must not close a folder that was open.
#[test]
fn a_file_that_is_never_left_alone_is_held_to_what_was_there() {
    let server = site()
        .main("worker_processes 1;")
        .file("html/other/.htaccess", "Header set A old\n")
        .file("html/other/a.txt", "text")
        .start();
    check(&server, "/other/a.txt", 200);
    let path = server.dir().join("html/other/.htaccess");
    let is_over = AtomicBool::new(false);
    fs::write(&path, "Header set A new\n").expect("our own file");
    let file = fs::File::options().append(true).open(&path).expect("our own file");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Its bytes stay, its time does not.
            wait::holds("the requests are answered", || {
                let now = std::time::SystemTime::now();
                // Both of them: the kernel tells of one alone as of a write.
                let times = fs::FileTimes::new().set_accessed(now).set_modified(now);
                file.set_times(times).expect("our own file");
                is_over.load(Relaxed)
            });
        });
        let answers: Vec<_> = (0..3).map(|_| server.client().try_get("/other/a.txt")).collect();
        is_over.store(true, Relaxed);
        for answer in answers {
            let answer = answer.expect("an answer");
            let got = (answer.status, answer.text());
            assert_eq!(got, (200, "text".into()), "{}", server.error_log());
            // The second if the other thread had no turn for long enough.
            assert!(matches!(answer.header("A"), Some("old" | "new")), "{:?}", answer.header("A"));
        }
    });
    drop(file);
    wait::holds("it counts when it is left alone", || server.get("/other/a.txt").header("A") == Some("new"));
}

/// Files of folders are replaced by programs that write all the time, too: each of them is whole.
#[test]
fn htaccess_files_that_are_renamed_over_all_the_time_are_no_error() {
    let server = site()
        .main("worker_processes 1;")
        .file("html/other/.htaccess", "Header set A 0\n")
        .file("html/other/a.txt", "text")
        .start();
    check(&server, "/other/a.txt", 200);
    let (new, path) = (server.dir().join("html/other/new"), server.dir().join("html/other/.htaccess"));
    let is_over = AtomicBool::new(false);
    let text = |number: u32| format!("Header set A {number}\n");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1.. {
                fs::write(&new, text(number)).expect("our own file");
                fs::rename(&new, &path).expect("our own file");
                if is_over.load(Relaxed) {
                    return;
                }
                std::thread::yield_now();
            }
        });
        let answers: Vec<_> = (0..4).map(|_| server.client().try_get("/other/a.txt")).collect();
        is_over.store(true, Relaxed);
        for answer in answers {
            let answer = answer.expect("an answer");
            // Nothing else than a text of the moment opens it: if there is none for long enough, it is for the client to ask again.
            assert!(matches!(answer.status, 200 | 503), "{} {}", answer.status, server.error_log());
        }
    });
    let last = fs::read_to_string(&path).expect("our own file");
    let value = last.trim_start_matches("Header set A ").trim_end().to_string();
    wait::holds("the last one counts", || {
        server.get("/other/a.txt").header("A").map(str::to_string) == Some(value.clone())
    });
}

/// The first request in a folder waits until its file is compiled, and then looks at it once more. Folders that are asked for once, by a
/// crawler say, are not watched for that.
#[test]
fn a_folder_is_watched_when_it_is_asked_for_again() {
    let server = site()
        .main("worker_processes 1;")
        .file("html/other/.htaccess", "Header set A b\n")
        .file("html/other/a.txt", "text")
        .start();
    // Nobody has to wait for a file that was written long ago.
    let file = fs::File::options().append(true).open(server.dir().join("html/other/.htaccess"));
    file.expect("our own file").set_modified(std::time::UNIX_EPOCH).expect("our own file");
    check(&server, "/a.txt", 200);
    let watches = || process::file_watches(server.worker());
    let before = watches();
    assert_eq!(server.get("/other/a.txt").header("A"), Some("b"));
    assert_eq!(watches(), before);
    check(&server, "/other/a.txt", 200);
    assert!(watches() > before, "{before}");
}

/// What is opened must be what was judged: a link may take its place in between.
#[test]
fn a_link_that_takes_a_files_place_is_never_followed() {
    let server = site()
        .file("html/other/.htaccess", "Options -FollowSymLinks\n")
        .file("html/other/a.txt", "open")
        .file("html/other/in/a.txt", "open")
        .start();
    let html = server.dir().join("html/other");
    let new = html.join("new");
    let file = || {
        symlink("../closed/a.txt", &new).expect("our own link");
        fs::rename(&new, html.join("a.txt")).expect("our own link");
        children::write(&new, "open");
        fs::rename(&new, html.join("a.txt")).expect("our own file");
    };
    let folder = || {
        fs::rename(html.join("in"), html.join("aside")).expect("our own folder");
        symlink("../closed", html.join("in")).expect("our own link");
        fs::remove_file(html.join("in")).expect("our own link");
        fs::rename(html.join("aside"), html.join("in")).expect("our own folder");
    };
    let is_right =
        |status: u16, text: &str| matches!(status, 200 | 403 | 404 | 503) && !text.contains("secret");
    right_while(&server, "/other/a.txt", file, is_right);
    right_while(&server, "/other/in/a.txt", folder, is_right);
}
