//! `directory_overrides`: files with directives for their folders, and what becomes of requests when they change.

use brisk_testkit::{Builder, Server, children, scenario, wait};
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const HTTP: &str = r#"
    log_format late "$uri $status [$tag]";
    map $uri $tag { default "$sent_http_x_tag"; }
    server {
        listen 127.0.0.1:{{PORT}};
        root {{DIR}}/html;
        access_log {{DIR}}/late.log late;
        directory_overrides .brisk headers index access errors rewrite;
        location / { add_header X-Outer yes; }
        location /few/ { directory_overrides .brisk headers; }
        location /off/ { directory_overrides off; }
        location ~ \.cgi$ { return 200 "script $uri"; }
        location /slow/ { limit_rate 100k; }
        location /try/ { try_files $uri $uri.txt /dir/a.txt =404; }
    }
    server {
        listen 127.0.0.1:{{PORT2}};
        root {{DIR}}/html;
        default_type text/html;
        ssi on;
        directory_overrides .brisk headers index access errors rewrite;
    }
"#;

fn site() -> Builder {
    Builder::new(BIN)
        .http(HTTP)
        .file("html/plain/a.txt", "plain")
        .file("html/dir/a.txt", "a")
        .file("html/dir/in/b.txt", "b")
        .file("html/dir/deep/er/c.txt", "c")
        .file("html/few/a.txt", "few")
        .file("html/off/a.txt", "off")
        .file("html/part.html", "<!--# include virtual=\"/dir/a.txt\" -->")
}

/// Puts a file in its place as a whole.
fn put(server: &Server, name: &str, text: &str) {
    let to = server.dir().join(name);
    let beside = PathBuf::from(format!("{}.new", to.display()));
    children::write(&beside, text);
    fs::rename(&beside, &to).expect("our own file");
}

fn tag(server: &Server, target: &str) -> Option<String> {
    let response = server.client().get(target);
    assert_eq!(response.status, 200, "{target}: {}", server.error_log());
    response.header("X-Tag").map(str::to_string)
}

#[test]
fn files_hold_for_their_folders_and_take_effect_when_they_are_saved() {
    let server = site().start();
    // Asked often enough to be prepared.
    for _ in 0..4 {
        assert_eq!(tag(&server, "/dir/in/b.txt"), None);
        assert_eq!(server.client().get("/dir/a.txt").header("X-Outer"), Some("yes"));
    }
    for round in 0..20 {
        put(&server, "html/dir/.brisk", &format!("add_header X-Tag outer-{round};\n"));
        for _ in 0..4 {
            assert_eq!(tag(&server, "/dir/a.txt"), Some(format!("outer-{round}")));
            // A folder without a file has its parent's.
            assert_eq!(tag(&server, "/dir/deep/er/c.txt"), Some(format!("outer-{round}")));
            assert_eq!(tag(&server, "/plain/a.txt"), None);
        }
        put(&server, "html/dir/in/.brisk", &format!("add_header X-Tag inner-{round};\n"));
        for _ in 0..4 {
            assert_eq!(tag(&server, "/dir/in/b.txt"), Some(format!("inner-{round}")));
            assert_eq!(tag(&server, "/dir/a.txt"), Some(format!("outer-{round}")));
        }
        fs::remove_file(server.dir().join("html/dir/in/.brisk")).expect("our own file");
        for _ in 0..4 {
            assert_eq!(tag(&server, "/dir/in/b.txt"), Some(format!("outer-{round}")));
        }
    }
    fs::remove_file(server.dir().join("html/dir/.brisk")).expect("our own file");
    assert_eq!(tag(&server, "/dir/a.txt"), None);
    // The log of prepared answers tells what the file's directives have made of them.
    wait::holds("the last line of the log", || {
        server.read("late.log").contains("/dir/in/b.txt 200 [inner-19]")
    });
}

#[test]
fn a_file_with_a_mistake_closes_its_folder() {
    let server = site().start();
    for _ in 0..3 {
        assert_eq!(server.client().get("/dir/a.txt").status, 200);
    }
    let check = |text: &str, status: u16, log: &str| {
        put(&server, "html/dir/.brisk", text);
        for target in ["/dir/a.txt", "/dir/deep/er/c.txt", "/dir/a.txt"] {
            assert_eq!(server.client().get(target).status, status, "{text}");
        }
        assert_eq!(server.client().get("/plain/a.txt").status, 200);
        assert!(server.error_log().contains(log), "{text}: {}", server.error_log());
    };
    check("deny all\n", 500, "unexpected end of file, expecting \";\" or \"}\" in ");
    check("deny all;\nno_such_directive on;\n", 500, "unknown directive \"no_such_directive\" in ");
    check("proxy_pass http://127.0.0.1:1;\n", 500, "\"proxy_pass\" directive is not allowed here in ");
    let text = "if ($uri) { rewrite ^ /plain/a.txt break; }\n";
    check(text, 500, "\"rewrite\" directive is not allowed here in ");
    check("add_header X-Tag $nosuch;\n", 500, "unknown \"nosuch\" variable");
    check("", 500, "may be half-written");
    check("deny all;", 500, "may be half-written");
    check("deny all;\n", 403, "access forbidden by rule");
    check("add_header X-Tag good;\n", 200, "");
    let file = server.dir().join("html/dir/.brisk");
    fs::remove_file(&file).expect("our own file");
    fs::create_dir(&file).expect("our own folder");
    assert_eq!(server.client().get("/dir/a.txt").status, 500);
    fs::remove_dir(&file).expect("our own folder");
    children::write(&file, vec![b'#'; 100_000]);
    assert_eq!(server.client().get("/dir/a.txt").status, 500);
    fs::remove_file(&file).expect("our own file");
    assert_eq!(server.client().get("/dir/a.txt").status, 200);
}

#[test]
fn only_what_is_allowed_may_stand_there() {
    let server = site()
        .file("html/few/.brisk", "deny all;\n")
        .file("html/off/.brisk", "deny all;\n")
        .file("html/dir/.brisk", "return 200 late;\n")
        .file("html/dir/in/.brisk", "set $tag late; if ($arg_a) { add_header X-If yes; }\nindex b.txt;\n")
        .start();
    scenario::run(
        &server,
        r"
== a class that is not allowed
>> GET /few/a.txt HTTP/1.0
>>
<< 500

== switched off inside
>> GET /off/a.txt HTTP/1.0
>>
<< 200
<< = off

== the file itself
>> GET /dir/.brisk HTTP/1.0
>>
<< 404

== an answer
>> GET /dir/a.txt HTTP/1.0
>>
<< 200
<< = late

== what the location itself answers comes first
>> GET /dir/x.cgi HTTP/1.0
>>
<< 200
<< = script /dir/x.cgi

== if, set and index
>> GET /dir/in/?a=1 HTTP/1.0
>>
<< 200
<< X-If: yes
<< = b

== the condition is not met
>> GET /dir/in/b.txt HTTP/1.0
>>
<< 200
<< !X-If
<< = b

",
    );
}

/// A request that runs goes on under the directives that it began with, its end in the log included.
#[test]
fn requests_that_run_keep_what_they_began_with() {
    let server = site().file("html/slow/large", vec![b'x'; 150_000]).start();
    put(&server, "html/slow/.brisk", "add_header X-Tag before;\n");
    let mut client = server.client();
    client.send("GET /slow/large HTTP/1.0\r\n\r\n");
    assert!(client.wait_for("\r\n\r\n").contains("X-Tag: before"));
    put(&server, "html/slow/.brisk", "add_header X-Tag after;\n");
    let mut other = server.client();
    other.send("GET /slow/large HTTP/1.0\r\n\r\n");
    assert!(other.wait_for("\r\n\r\n").contains("X-Tag: after"));
    assert!(client.rest().is_ok() && other.rest().is_ok());
    wait::holds("both lines of the log", || {
        let log = server.read("late.log");
        log.contains("/slow/large 200 [before]") && log.contains("/slow/large 200 [after]")
    });
}

/// A part of a page goes through its own folder's files, whatever the page went through.
#[test]
fn subrequests_have_directives_of_their_own() {
    let server = site().file("html/.brisk", "add_header X-Tag page;\n").start();
    let page = |status: u16, body: &str| {
        let response = brisk_testkit::Client::connect(server.port_of(2)).get("/part.html");
        assert_eq!((response.status, response.text().as_str()), (status, body));
        assert_eq!(response.header("X-Tag"), Some("page"));
    };
    page(200, "a");
    put(&server, "html/dir/.brisk", "return 200 part;\n");
    page(200, "part");
    put(&server, "html/dir/.brisk", "rewrite ^ /plain/a.txt;\n");
    page(200, "plain");
}

/// An edit in place is truncation and writing: nothing is let in between.
#[test]
fn an_edit_in_place_never_opens_a_folder() {
    let server = site().file("html/dir/.brisk", "deny all;\n").start();
    let file = server.dir().join("html/dir/.brisk");
    let answers = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let ask = |_| {
                        let status = server.client().get("/dir/a.txt").status;
                        answers.fetch_add(1, Relaxed);
                        status
                    };
                    (0..60).map(ask).collect::<Vec<_>>()
                })
            })
            .collect();
        let mut seen = usize::MAX;
        while !asking.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            std::thread::yield_now();
            if seen == answers.load(Relaxed) {
                continue;
            }
            seen = answers.load(Relaxed);
            let mut open = fs::File::create(&file).expect("our own file");
            for piece in ["# a comment\n", "deny ", "all;\n"] {
                open.write_all(piece.as_bytes()).expect("our own file");
                std::thread::yield_now();
            }
        }
        for asked in asking {
            let statuses = asked.join().expect("the client does not panic");
            assert!(statuses.iter().all(|status| matches!(status, 403 | 500)), "{statuses:?}");
        }
    });
    wait::holds("the folder is closed by its rule again", || server.client().get("/dir/a.txt").status == 403);
}

/// `try_files` does not begin anew: the files of the folder that it leads to would not be read.
#[test]
fn what_try_files_finds_in_another_folder_is_refused() {
    let server = site().file("html/dir/.brisk", "deny all;\n").file("html/try/b.txt", "b").start();
    for _ in 0..2 {
        assert_eq!(server.client().get("/try/b").status, 200, "{}", server.error_log());
        assert_eq!(server.client().get("/try/none").status, 403, "{}", server.error_log());
    }
    assert!(
        server.error_log().contains("was found by try_files in another folder"),
        "{}",
        server.error_log()
    );
    // Also where the location is extended by a file of its own.
    put(&server, "html/try/.brisk", "add_header X-Tag t;\n");
    assert_eq!(tag(&server, "/try/b").as_deref(), Some("t"));
    assert_eq!(server.client().get("/try/none").status, 403, "{}", server.error_log());
}

/// Lines of such a file lead to nothing above the root and to no `internal` location; those of the configuration do as before.
#[test]
fn files_lead_nowhere_that_clients_may_not_go() {
    let http = "server { listen 127.0.0.1:{{PORT}}; root {{DIR}}/html; directory_overrides .brisk headers index errors rewrite;
        error_page 410 /inner/page.html; location / { } location /inner/ { internal; } location /gone/ { try_files /none =410; }
        location @named { return 200 secret; } }";
    let files = [
        ("index above", "index ../../outside.html;", "", 403),
        ("index across", "index ../inner/a.html;", "", 404),
        ("index there", "index /inner/a.html;", "", 404),
        ("index open", "index ../open/a.html;", "", 200),
        ("index made", "index $arg_file;", "?file=../../outside.html", 403),
        ("page above", "error_page 404 /../outside.html;", "none", 404),
        ("page there", "error_page 404 =200 /inner/a.html;", "none", 404),
        ("page inside", "if ($uri) { error_page 404 =200 /inner/a.html; }", "none", 404),
        ("page named", "error_page 404 =200 @named;", "none", 500),
        ("page open", "error_page 404 =200 /open/a.html;", "none", 200),
        ("rule above", "rewrite ^ /open/../../outside.html last;", "a", 400),
        ("rule there", "rewrite ^ /inner/a.html last;", "a", 404),
        ("rule behind", "index a.html; rewrite a.html$ /inner/a.html last;", "", 404),
        ("rule open", "rewrite ^ /open/a.html last;", "a", 200),
    ];
    let mut builder = Builder::new(BIN)
        .http(http)
        .file("outside.html", "secret")
        .file("html/inner/a.html", "secret")
        .file("html/inner/page.html", "page of the configuration")
        .file("html/open/a.html", "open")
        .file("html/gone/.brisk", "add_header X-A a;\n");
    for (name, line, _, _) in files {
        let folder = name.replace(' ', "-");
        builder = builder.file(&format!("html/{folder}/.brisk"), format!("{line}\n"));
        builder = builder.file(&format!("html/{folder}/a.html"), "own");
    }
    let server = builder.start();
    for (name, _, rest, status) in files {
        let answer = server.get(&format!("/{}/{rest}", name.replace(' ', "-")));
        assert_eq!(answer.status, status, "{name}: {}", server.error_log());
        assert!(!answer.text().contains("secret"), "{name}");
        assert!(status != 200 || answer.text() == "open", "{name}: {}", answer.text());
    }
    assert_eq!(server.get("/gone/a").text(), "page of the configuration");
}
