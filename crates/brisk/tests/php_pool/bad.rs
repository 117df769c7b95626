//! Bad input, of clients and of scripts: one request fails clearly, and nothing else.
//!
//! Elsewhere: malformed records of any application in pieces (`gateway.rs`, the fuzz target `gateway`); files that are no scripts, and paths
//! behind them (`requests.rs`: `what_is_no_script_is_not_run`); loops in PHP and in C, crashes also in destructors, a memory limit in a script
//! (`faults.rs`).

use crate::site::{Site, builder, conf};
use brisk_testkit::wait;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The C library for scripts.
const LIBC: &str = "$c = FFI::cdef('int close(int); int fork(void); long write(int, const char *, unsigned long); int getpid(void);');";
/// The descriptors of the worker that are connections: the server's, and the socket that it listens on.
const SOCKETS: &str = "$sockets = array_filter(array_map('intval', scandir('/proc/self/fd')), fn ($fd) => str_starts_with((string) @readlink(\"/proc/self/fd/$fd\"), 'socket:'));";

/// A pool of two workers, one of which answers `other.php` all the time while `act` is carried out.
fn beside_others(pool: &str, rest: &str, scripts: &[(&str, &str)], act: impl FnOnce(&Site)) {
    let pool =
        format!("pm static; max_children 2; queue 100 timeout=60s; php_admin_value[ffi.enable] true; {pool}");
    let site = Site::of(builder().http(&conf(&pool, rest)));
    site.notes();
    site.script("other.php", "<?php usleep(1000); echo 'other';");
    for (name, text) in scripts {
        let text = text.replace("NOTES", &site.notes().display().to_string());
        site.script(name, &text.replace("LIBC", LIBC).replace("SOCKETS", SOCKETS));
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let ends = crate::life::Ends(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let answer = site.get("/other.php");
                assert_eq!(
                    (answer.status, answer.text().as_str()),
                    (200, "other"),
                    "{}",
                    site.server.error_log()
                );
            }
        });
        act(&site);
        drop(ends);
    });
    // Both workers are there and free.
    site.script("pid.php", "<?php usleep(20000); echo getmypid();");
    wait::holds("both workers", || {
        thread::scope(|scope| {
            let both = [(); 2].map(|()| scope.spawn(|| site.get("/pid.php").text()));
            both.into_iter().map(|one| one.join().unwrap()).collect::<BTreeSet<_>>().len() == 2
        })
    });
}

#[test]
fn what_a_script_writes_to_its_connection_spoils_its_own_answer() {
    let scripts = [
        // Bytes that are no record, one of another version, one of another request, one that says that it is longer than it is, and the end of
        // the answer before the answer.
        ("stray.php", "<?php LIBC SOCKETS
            $records = [str_repeat('x', 5000), \"\\x02\\6\\0\\1\\0\\1\\0\\0x\", \"\\1\\6\\0\\x09\\0\\1\\0\\0x\", \"\\1\\6\\0\\1\\xff\\xff\\0\\0x\", \"\\1\\3\\0\\1\\0\\x08\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\"];
            foreach ($sockets as $fd) $c->write($fd, $records[$_GET['n']], strlen($records[$_GET['n']]));
            echo 'answered';"),
        // Behind an answer that is complete: it would become part of the next one.
        ("late.php", "<?php LIBC SOCKETS echo 'mine'; fastcgi_finish_request();
            foreach ($sockets as $fd) $c->write($fd, \"\\1\\6\\0\\1\\0\\6\\0\\0\\n\\nevil\", 14);"),
    ];
    beside_others("", "", &scripts, |site| {
        for round in 0..15 {
            let answer = site.post(&format!("/stray.php?n={}", round % 5), b"a=1");
            assert_eq!(answer.status, 502, "{round}: {}", answer.text());
            assert_eq!(site.get("/late.php").text(), "mine");
            assert_eq!(site.get("/other.php").text(), "other");
        }
    });
}

#[test]
fn descriptors_that_a_script_closes_are_missed_by_nobody_else() {
    let scripts = [
        (
            "standard.php",
            "<?php LIBC foreach ([0, 1, 2] as $fd) $c->close($fd); echo 'closed'; error_log('said');",
        ),
        ("sockets.php", "<?php LIBC SOCKETS foreach ($sockets as $fd) $c->close($fd); echo 'closed';"),
        ("all.php", "<?php LIBC for ($fd = 0; $fd < 100; $fd++) $c->close($fd); echo 'closed';"),
    ];
    beside_others("", "", &scripts, |site| {
        for _ in 0..5 {
            assert_eq!(site.get("/standard.php").text(), "closed");
            for script in ["/sockets.php", "/all.php"] {
                assert_eq!(site.post(script, b"").status, 502, "{script}");
                assert_eq!(site.get("/other.php").text(), "other");
            }
        }
    });
}

/// The child goes on with the script; the answer and the next requests are the worker's.
#[test]
fn a_script_that_forks_answers_once() {
    let scripts = [(
        "fork.php",
        "<?php LIBC register_shutdown_function(fn () => file_put_contents('NOTES/ended', getmypid() . \"\\n\", FILE_APPEND | LOCK_EX));
        $child = $c->fork() === 0; $until = microtime(true) + 0.01; while (microtime(true) < $until);
        echo $child ? 'child' : 'worker', str_repeat('.', 70000); flush();",
    )];
    beside_others("access.log {{DIR}}/pool.log;", "", &scripts, |site| {
        for round in 1..=10 {
            let answer = site.get("/fork.php").text();
            assert!(answer.starts_with("worker.") && answer.len() == 70_006, "{}", answer.len());
            let ended = || std::fs::read_to_string(site.notes().join("ended")).unwrap_or_default();
            wait::holds("the ends of both", || ended().lines().count() == 2 * round);
        }
        // A worker writes its line when all else is done.
        wait::holds("a line for each answer", || {
            let log = site.server.read("pool.log");
            let count = log.lines().filter(|line| line.contains("fork.php")).count();
            assert!(count <= 10, "{log}");
            count == 10
        });
    });
}

#[test]
fn heads_without_end() {
    let scripts = [
        ("long.php", "<?php header('X-Long: ' . str_repeat('a', 1 << 20)); echo 'x';"),
        ("many.php", "<?php ini_set('memory_limit', '16M'); for ($i = 0;; $i++) header(\"X-$i: \" . str_repeat('a', 1000));"),
        // It never comes to an end, and PHP sends it as it is.
        ("open.php", "<?php LIBC SOCKETS $record = \"\\1\\6\\0\\1\\x10\\0\\0\\0\" . str_repeat(\"X-A: aa\\n\", 512);
            for (;;) foreach ($sockets as $fd) if ($c->write($fd, $record, strlen($record)) < 0 && count($sockets) === 1) exit;"),
    ];
    beside_others(
        "php_admin_flag[display_errors] off; request_terminate_timeout 3s;",
        "",
        &scripts,
        |site| {
            for _ in 0..2 {
                assert_eq!(site.get("/long.php").status, 502);
                assert!(matches!(site.get("/many.php").status, 500 | 502));
                assert_eq!(site.post("/open.php", b"").status, 502);
            }
        },
    );
}

#[test]
fn a_memory_limit_that_is_reached_while_output_is_made() {
    let scripts = [
        (
            "handler.php",
            "<?php ini_set('memory_limit', '16M'); ob_start(fn ($text) => str_repeat($text, 1 << 20)); echo str_repeat('x', 100);",
        ),
        (
            "buffer.php",
            "<?php ini_set('memory_limit', '16M'); ob_start(); for (;;) echo str_repeat('x', 1 << 16);",
        ),
        (
            "sent.php",
            "<?php ini_set('memory_limit', '16M'); echo str_repeat('y', 100000); flush(); ob_start(); for (;;) echo str_repeat('x', 1 << 16);",
        ),
    ];
    beside_others(
        "php_admin_flag[display_errors] off; php_admin_flag[log_errors] on;",
        "",
        &scripts,
        |site| {
            for _ in 0..5 {
                for script in ["/handler.php", "/buffer.php"] {
                    assert_eq!(site.get(script).status, 500, "{script}");
                }
                let sent = site.get("/sent.php");
                assert!(sent.status == 200 && sent.text().starts_with("yyy"));
            }
            site.server.wait_for_log("Allowed memory size");
        },
    );
}

#[test]
fn uploads_of_a_hundred_megabytes() {
    let scripts = [
        ("sum.php", "<?php $h = hash_init('crc32b'); $f = fopen('php://input', 'r'); while (!feof($f)) hash_update($h, fread($f, 1 << 16));
            echo hash_final($h), ' ', memory_get_peak_usage() < 20 << 20 ? 'small' : memory_get_peak_usage();"),
        ("file.php", "<?php $f = $_FILES['f']; echo $f['error'], ' ', $f['size'], ' ', hash_file('crc32b', $f['tmp_name']);"),
    ];
    let pool = "php_admin_value[post_max_size] 200M; php_admin_value[upload_max_filesize] 200M;";
    beside_others(pool, "", &scripts, |site| {
        let body: Vec<u8> = (0..100_u32 << 20).map(|at| (at >> 9) as u8).collect();
        let sum = site.server.request(
            [
                format!("POST /sum.php HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len())
                    .as_bytes(),
                &body,
            ]
            .concat(),
        );
        let sum = sum.text();
        assert!(sum.ends_with(" small"), "{sum}");
        let field = b"--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n";
        let form = [&field[..], &body, b"\r\n--x--\r\n"].concat();
        let head = format!(
            "POST /file.php HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: {}\r\n\r\n",
            form.len()
        );
        let file = site.server.request([head.as_bytes(), &form].concat()).text();
        assert_eq!(file, format!("0 {} {}", body.len(), sum.split(' ').next().unwrap()));
    });
}

/// A file system of 64 KiB that anybody may write to.
struct Disk(PathBuf);

impl Disk {
    fn new(site: &Site) -> Disk {
        let path = site.notes().join("disk");
        std::fs::create_dir(&path).unwrap();
        let made = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k,mode=1777", "none"])
            .arg(&path)
            .output();
        let made = made.expect("mount starts");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Disk(path)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_folder_for_temporary_files() {
    let scripts = [
        (
            "file.php",
            "<?php $f = $_FILES['f'] ?? ['error' => 'none', 'size' => '']; echo $f['error'], ' ', $f['size'];",
        ),
        ("input.php", "<?php echo strlen(file_get_contents('php://input'));"),
        (
            "own.php",
            "<?php echo @file_put_contents('NOTES/disk/own', str_repeat('x', 1 << 20)) === false ? 'failed' : 'kept';",
        ),
    ];
    beside_others(
        "env[TMPDIR] {{DIR}}/notes/disk; php_admin_value[upload_tmp_dir] {{DIR}}/notes/disk;",
        "",
        &scripts,
        |site| {
            let disk = Disk::new(site);
            let form = |bytes: usize| {
                let field = b"--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n";
                let form = [&field[..], &vec![b'x'; bytes], b"\r\n--x--\r\n"].concat();
                let head = format!(
                    "POST /file.php HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: {}\r\n\r\n",
                    form.len()
                );
                site.server.request([head.as_bytes(), &form].concat())
            };
            for _ in 0..3 {
                // UPLOAD_ERR_CANT_WRITE
                let answer = form(1 << 20);
                assert!(
                    answer.status == 200 && answer.text().starts_with("7 "),
                    "{} {}",
                    answer.status,
                    answer.text()
                );
                assert_eq!(form(1000).text(), "0 1000", "what was written of it is gone");
                let input = site.post("/input.php", &vec![b'x'; 4 << 20]);
                assert!(matches!(input.status, 200 | 500), "{}", input.status);
                assert!(matches!(site.get("/own.php").text().as_str(), "failed" | "kept"));
                let _ = std::fs::remove_file(disk.0.join("own"));
            }
        },
    );
}

/// The path of the pool's sockets with this ending.
pub fn socket(site: &Site, ending: &str) -> String {
    let folder = std::fs::read_dir(site.server.dir().join("logs/brisk-php")).unwrap();
    let mut paths = folder.map(|entry| entry.unwrap().path().display().to_string());
    paths.find(|path| path.ends_with(ending)).expect("a socket of the pool")
}

/// Its user is the pool's: it may connect to the pool's sockets, and say nothing, or half of a request.
#[test]
fn connections_that_a_script_holds_hold_no_worker() {
    let site = Site::new("pm static; max_children 2; queue 100 timeout=60s;", "");
    let notes = site.notes();
    let hold = "<?php for ($at = 0; $at < $_GET['count']; $at++) {
            $one = stream_socket_client(\"unix://$_GET[path]\", $code, $text, 1, STREAM_CLIENT_CONNECT | STREAM_CLIENT_ASYNC_CONNECT);
            if ($at % 2 === 0) fwrite($one, \"\\1\\1\\0\\1\\0\\x08\\0\\0\\0\\1\\1\\0\\0\\0\\0\\0\\1\\4\\0\\1\\xff\\xff\\0\\0abc\");
            $all[] = $one;
        }
        touch('NOTES/held');
        while (!file_exists('NOTES/go')) { usleep(1000); clearstatcache(); }
        echo 'held';";
    site.script("hold.php", &hold.replace("NOTES", &notes.display().to_string()));
    site.script("other.php", "<?php echo 'other';");
    let hold = |ending: &str, count: u32, during: &dyn Fn()| {
        let target = format!("/hold.php?path={}&count={count}", socket(&site, ending));
        thread::scope(|scope| {
            let holder = scope.spawn(|| site.get(&target).text());
            wait::holds("the connections", || notes.join("held").exists());
            during();
            std::fs::write(notes.join("go"), "").unwrap();
            assert_eq!(holder.join().unwrap(), "held");
        });
        std::fs::remove_file(notes.join("held")).unwrap();
        std::fs::remove_file(notes.join("go")).unwrap();
    };
    // One worker runs the script, and the other one reads what never comes, until it is replaced.
    hold(".sock", 1, &|| {
        site.server.wait_for_log("is replaced: a connection to the pool sent no request");
        assert_eq!(site.get("/other.php").text(), "other");
    });
    // More than the pool master hears at once.
    hold(".control", 20, &|| {
        let status = site.php(&["status"]);
        brisk_testkit::server::check(&status, 0, &["pool www \\(static, ", " /hold.php"]);
    });
}

#[test]
fn scripts_that_end_in_odd_places() {
    let places = [
        ("destructor", "class D { function __destruct() { exit; } } $d = new D; echo 'x';", "x"),
        ("output", "ob_start(function () { exit; }); echo 'y';", ""),
        ("head", "header_register_callback(function () { exit; }); echo 'y';", ""),
        ("shutdown", "register_shutdown_function(function () { register_shutdown_function(function () { exit; }); exit; }); exit('x');", "x"),
        ("session", "class S extends SessionHandler { function open($a, $b): bool { return true; } function read($a): string { return ''; }
            function write($a, $b): bool { exit; } function close(): bool { exit; } }
            session_set_save_handler(new S); session_start(); $_SESSION['a'] = 1; echo 'x';", "x"),
        ("autoload", "spl_autoload_register(function () { exit('x'); }); new Missing;", "x"),
        ("error", "set_error_handler(function () { exit('x'); }); echo $missing;", "x"),
        ("exception", "set_exception_handler(function () { exit('x'); }); throw new Exception;", "x"),
        ("tick", "declare(ticks=1); register_tick_function(function () { exit('x'); }); $a = 1; echo 'y';", "x"),
        ("text", "class T { function __toString() { exit('x'); } } echo new T;", "x"),
        ("finally", "function f() { try { return 1; } finally { exit('x'); } } f();", "x"),
        ("generator", "function g() { try { yield 1; } finally { exit('x'); } } foreach (g() as $one) break;", "x"),
        ("finished", "echo 'x'; fastcgi_finish_request(); register_shutdown_function(function () { exit(3); }); exit(2);", "x"),
        ("fiber", "$f = new Fiber(function () { try { Fiber::suspend(); } finally { exit; } }); $f->start(); echo 'x';", "x"),
        ("sort", "$a = [2, 1]; usort($a, function () { exit('x'); });", "x"),
        ("cycles", "class C { public $c; function __destruct() { exit; } } for ($i = 0; $i < 20000; $i++) { $c = new C; $c->c = $c; } echo 'y';", ""),
    ];
    let texts: Vec<(String, String)> =
        places.iter().map(|(name, text, _)| (format!("{name}.php"), format!("<?php {text}"))).collect();
    let scripts: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (&**name, &**text)).collect();
    beside_others("", "", &scripts, |site| {
        for (name, _, want) in places.iter().chain(&places) {
            let answer = site.get(&format!("/{name}.php"));
            assert_eq!((answer.status, answer.text().as_str()), (200, *want), "{name}");
        }
    });
}

/// What is caught of it goes through the pool master, which has others to look after.
#[test]
fn what_a_script_prints_beside_its_answer_delays_nobody() {
    let scripts = [(
        "print.php",
        "<?php $out = fopen('php://stdout', 'w'); $error = fopen('php://stderr', 'w'); touch('NOTES/prints');
        for ($i = 0; $i < 1000 || !file_exists('NOTES/go'); $i++) { fwrite($out, str_repeat('.', 5000) . \"\\n\"); fwrite($error, str_repeat('x', 5000)); usleep(100); clearstatcache(); }
        echo 'printed';",
    )];
    beside_others("catch_workers_output yes;", "", &scripts, |site| {
        thread::scope(|scope| {
            let printer = scope.spawn(|| site.get("/print.php").text());
            wait::holds("what it prints", || site.notes().join("prints").exists());
            let status = site.php(&["status"]);
            brisk_testkit::server::check(&status, 0, &["pool www \\(static, ", " /print.php"]);
            std::fs::write(site.notes().join("go"), "").unwrap();
            assert_eq!(printer.join().unwrap(), "printed");
        });
    });
}

/// As many processes as its user may have, each of which makes more: they end with the request, by its time limit.
#[test]
fn a_script_that_forks_without_end_ends_with_all_that_it_has_forked() {
    let scripts = [(
        "bomb.php",
        "<?php $c = FFI::cdef('int fork(void); int setrlimit(int, void *);'); $limit = FFI::new('unsigned long[2]'); $limit[0] = $limit[1] = 40;
        if ($c->setrlimit(6, FFI::addr($limit)) !== 0) exit('no limit');
        set_time_limit(0); for (;;) { $c->fork(); usleep(10000); }",
    )];
    // Debian's user 5, whom no other test has: the limit is the script's alone.
    beside_others("user games; request_terminate_timeout 2s;", "", &scripts, |site| {
        assert_eq!(site.post("/bomb.php", b"").status, 502);
        let is_of_user = |entry: &std::fs::DirEntry| {
            let status = std::fs::read_to_string(entry.path().join("status"));
            status.is_ok_and(|text| text.contains("\nUid:\t5\t"))
        };
        let of_user = || std::fs::read_dir("/proc").unwrap().flatten().filter(is_of_user).count();
        // The pool's master and its two workers.
        wait::holds("the end of what it has forked", || of_user() == 3);
    });
}

/// CVE-2019-11043: a line feed in the path made the usual expression give an empty PATH_INFO, and FPM write before its variables.
#[test]
fn a_path_with_a_line_feed_sets_nothing() {
    let params = format!(
        "fastcgi_split_path_info ^(.+?\\.php)(/.*)$; {} fastcgi_param PATH_INFO $fastcgi_path_info;",
        include_str!("../../../../packaging/fastcgi.conf")
    );
    let text = conf("pm static; max_children 1;", &params).replacen(
        "fastcgi_split_path_info ^(.+?\\.php)(/.*)$; php_pass",
        "php_pass",
        1,
    );
    let site = Site::of(builder().http(&text));
    site.script("index.php", "<?php echo ini_get('session.auto_start'), ini_get('error_log'), getmypid();");
    let want = site.get("/index.php").text();
    for length in (0..2000).step_by(50) {
        for path in
            ["/PHP_VALUE%0Asession.auto_start=1;;;", "/PHP_VALUE%0Aerror_log=/tmp/x;;;", "/%0A", "/a%0Ab/c"]
        {
            let target = format!("/index.php{path}?{}", "Q".repeat(length));
            let answer = site.server.request(format!(
                "GET {target} HTTP/1.1\r\nHost: a\r\nD-Pisos: 8{}D\r\nEbut: mamku tvoyu\r\n\r\n",
                "=".repeat(length % 97)
            ));
            assert!(
                answer.status == 404 || answer.text() == want,
                "{target}: {} {}",
                answer.status,
                answer.text()
            );
        }
    }
    assert_eq!(site.get("/index.php").text(), want, "the same worker, with the same settings");
}
