//! `brisk serve`: where it listens and what it says, what it never gives out, its page of a folder.

use brisk_testkit::server::check;
use brisk_testkit::{Client, TempDir, ports, process, wait};
use regex::Regex;
use rustix::process::Signal;
use std::process::{Command, Output, Stdio};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

fn brisk(args: &[&str]) -> Output {
    Command::new(BIN).args(args).stdin(Stdio::null()).output().unwrap()
}

/// `brisk serve`, ended when dropped.
struct Serve {
    child: std::process::Child,
    dir: TempDir,
    port: ports::Port,
}

impl Serve {
    fn start(dir: TempDir, args: &[&str]) -> Serve {
        Serve::with_php(dir, args, "")
    }

    /// `php`: what may run scripts; empty: whatever is found.
    fn with_php(dir: TempDir, args: &[&str], php: &str) -> Serve {
        let port = ports::claim();
        let log = std::fs::File::create(dir.path().join(".terminal")).unwrap();
        let child = Command::new(BIN)
            .env("BRISK_PHP", php)
            .arg("serve")
            .args(args)
            .arg("--listen")
            .arg(port.number.to_string())
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let serve = Serve { child, dir, port };
        wait::holds("brisk serve to answer", || Client::try_connect(serve.port.number).is_ok());
        serve
    }

    fn terminal(&self) -> String {
        std::fs::read_to_string(self.dir.path().join(".terminal")).unwrap()
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        process::signal(self.child.id(), Signal::INT);
        let ended = wait::within(wait::DEADLINE, || self.child.try_wait().ok().flatten());
        if ended.is_none() {
            let _ = self.child.kill();
        }
        assert!(
            ended.is_some_and(|status| status.success()) || std::thread::panicking(),
            "Ctrl-C ends it well: {ended:?}"
        );
    }
}

/// DNS rebinding: a page from elsewhere whose name was made to resolve to this machine must not read the folder.
#[test]
fn serve_answers_to_names_of_this_machine_only() {
    let dir = TempDir::new();
    dir.write("a.txt", "mine");
    let serve = Serve::start(dir, &["."]);
    let ask = |host: &str| {
        let mut client = Client::connect(serve.port.number);
        client.request(format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n\r\n"))
    };
    for host in ["localhost", "localhost:8080", "app.localhost:1", "127.0.0.1", "127.0.0.1:80", "[::1]:8080"]
    {
        assert_eq!(ask(host).text(), "mine", "{host}");
    }
    for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8080", "1.evil.example"] {
        let answer = ask(host);
        assert_eq!(answer.status, 421, "{host}");
        assert!(answer.text().contains("--public"), "{host}: {}", answer.text());
    }
    let mut old = Client::connect(serve.port.number);
    assert_eq!(old.request("GET /a.txt HTTP/1.0\r\n\r\n").text(), "mine");
}

#[test]
fn serve_shows_a_folder() {
    let dir = TempDir::new();
    dir.write("page/index.html", "<p>index</p>");
    dir.write("files/a b.txt", "text");
    dir.write("files/<x>&.svg", "<svg/>");
    dir.write("files/deep/x.js", "1");
    dir.write("files/movie.mp4", "0");
    dir.write("files/noext", "0");
    let serve = Serve::start(dir, &[]);
    let mut client = Client::connect(serve.port.number);
    assert_eq!(client.get("/page/").text(), "<p>index</p>");
    assert_eq!(client.get("/page").status, 301);
    let listing = client.get("/files/");
    assert_eq!((listing.status, listing.header("Content-Type")), (200, Some("text/html; charset=utf-8")));
    let html = listing.text();
    for wanted in ["href=\"a%20b.txt\"", "href=\"deep/\"", "&lt;x&gt;&amp;.svg", "href=\"../\""] {
        assert!(html.contains(wanted), "{wanted} in {html}");
    }
    assert!(!html.contains("<x>"), "{html}");
    let rows = [
        ("/files/a%20b.txt", "text/plain; charset=utf-8"),
        ("/files/%3Cx%3E%26.svg", "image/svg+xml"),
        ("/files/movie.mp4", "video/mp4"),
        ("/files/noext", "application/octet-stream"),
    ];
    for (target, wanted) in rows {
        let response = client.get(target);
        assert_eq!((response.status, response.header("Content-Type")), (200, Some(wanted)), "{target}");
    }
    assert!(client.get("/files/deep/x.js").header("Content-Type").unwrap().contains("javascript"));
    assert_eq!(client.get("/missing").status, 404);
    let line = Regex::new(r"(?m)^.*  404  GET /missing  \d+ B  \d\.\d{3} s$").unwrap();
    wait::holds("a log line on the terminal", || line.is_match(&serve.terminal()));
}

#[test]
fn serve_takes_a_folder_with_an_odd_name() {
    let outer = TempDir::new();
    outer.write("we \"ird\" $dir;{/index.html", "odd");
    let folder = outer.path().join("we \"ird\" $dir;{").display().to_string();
    let serve = Serve::start(outer, &[&folder]);
    assert_eq!(Client::connect(serve.port.number).get("/").text(), "odd");
}

#[test]
fn serve_says_what_is_wrong() {
    check(
        &brisk(&["serve", "/nowhere/at/all"]),
        1,
        &[
            "^brisk serve: \"/nowhere/at/all\": 2: No such file or directory$",
            "= help: .*brisk serve DIR",
            "!Usage",
        ],
    );
    check(&brisk(&["serve", BIN]), 1, &["is not a folder"]);
    check(&brisk(&["serve", "--bogus"]), 1, &["^brisk serve: unexpected argument '--bogus' found$"]);
    check(&brisk(&["serve", "--listen"]), 1, &["value is required for '--listen <ADDRESS>'"]);
    check(&brisk(&["serve", "a", "b"]), 1, &["unexpected argument 'b' found"]);
    check(&brisk(&["serve", "--help"]), 0, &["^Usage: brisk serve"]);
    check(
        &brisk(&["serve", "/", "--listen", "nonsense:x"]),
        1,
        &["^brisk serve: \"nonsense:x\" has no valid port$", "= help: .*--listen 8080"],
    );
    check(
        &brisk(&["serve", "/", "--public", "--listen", "127.0.0.1:8080"]),
        1,
        &["^brisk serve: --public and \"127.0.0.1:8080\" contradict each other$"],
    );
    check(
        &brisk(&["serve", "/", "--listen", "192.0.2.1:8080"]),
        1,
        &["^brisk serve: no interface of this machine has the address 192.0.2.1$", "it has .*127.0.0.1"],
    );
}

/// A port alone is the loopback's, and the address is told only once it answers.
#[test]
fn a_port_alone_is_for_this_machine() {
    let serve = Serve::start(TempDir::new(), &[]);
    let port = serve.port.number;
    let told =
        format!("  http://127.0.0.1:{port}/\nreachable from this machine only; --public is for others\n");
    wait::holds("the address on the terminal", || serve.terminal().contains(&told));
    let listening = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let local = |address: &str| format!(" {address}:{port:04X} 00000000:0000 0A ");
    assert!(listening.contains(&local("0100007F")), "{listening}");
    assert!(!listening.contains(&local("00000000")), "{listening}");
}

#[test]
fn in_public_all_addresses_are_told() {
    let serve = Serve::start(TempDir::new(), &["--public"]);
    let port = serve.port.number;
    let told = format!("  http://127.0.0.1:{port}/\n");
    wait::holds("the address on the terminal", || serve.terminal().contains(&told));
    assert!(!serve.terminal().contains("this machine only"), "{}", serve.terminal());
    let listening = std::fs::read_to_string("/proc/net/tcp").unwrap();
    assert!(listening.contains(&format!(" 00000000:{port:04X} 00000000:0000 0A ")), "{listening}");
}

#[test]
fn nothing_is_told_before_it_listens() {
    let dir = TempDir::new();
    let port = ports::claim();
    let _taken = std::net::TcpListener::bind(("127.0.0.1", port.number)).unwrap();
    let folder = dir.path().display().to_string();
    let output = brisk(&["serve", &folder, "--listen", &port.number.to_string()]);
    let own = std::process::id();
    check(
        &output,
        1,
        &[
            &format!("^brisk serve: port {} is in use: .* \\(process {own}\\) listens there$", port.number),
            "^   = help: choose another port: --listen \\d+$",
            "!serving",
            "!emerg",
            "!-->",
        ],
    );
}

#[test]
fn files_that_are_not_meant_for_visitors_stay() {
    let dir = TempDir::new();
    let private = [
        ".env",
        ".git/config",
        "sub/.svn/entries",
        ".htpasswd",
        ".DS_Store",
        "notes.bak",
        "wp-config.php~",
        "dump.sql",
        "dump.sql.gz",
        ".index.html.swp",
        "old.swp",
        "#x#",
        "server.key",
    ];
    for name in private {
        dir.write(name, "secret");
    }
    let programs = ["index.php", "wp-config.php.txt", "lib/x.inc", "cgi-bin/run", "A.PHP"];
    for name in programs {
        dir.write(name, "secret");
    }
    let open = ["hello.html", ".well-known/security.txt", "main.py"];
    for name in open {
        dir.write(name, "open");
    }
    let serve = Serve::with_php(dir, &[], "none");
    let mut client = Client::connect(serve.port.number);
    let target = |name: &str| format!("/{}", name.replace('#', "%23"));
    for name in private {
        assert_eq!(client.get(&target(name)).status, 404, "{name}");
    }
    for target in ["/%2eenv", "/x/../.env", "//.env", "/./.git/config", "/.git%2fconfig", "/dump.sq%6c"] {
        assert_eq!(client.get(target).status, 404, "{target}");
    }
    for name in programs {
        assert_eq!(client.get(&target(name)).status, 403, "{name}");
    }
    for name in open {
        let response = client.get(&target(name));
        assert_eq!((response.status, response.text().as_str()), (200, "open"), "{name}");
    }
    let listing = client.get("/").text();
    for name in ["dump.sql", "index.php", "wp-config", "server.key", ".env", "cgi-bin", "old.swp"] {
        assert!(!listing.contains(name), "{name} in {listing}");
    }
    assert!(listing.contains("hello.html") && listing.contains("11 entries are not shown"), "{listing}");
    wait::holds("the hint about PHP", || serve.terminal().contains("PHP scripts are not run"));
}

/// The page needs nothing from elsewhere and allows nothing else; its links sort.
#[test]
fn the_page_of_a_folder() {
    let dir = TempDir::new();
    dir.write("small.txt", "1");
    dir.write("big.txt", "12345");
    dir.write("deep/x.txt", "");
    dir.write("\"><script>alert(1)</script>.txt", "");
    let serve = Serve::start(dir, &[]);
    let mut client = Client::connect(serve.port.number);
    let page = client.get("/");
    let policy = page.header("Content-Security-Policy").unwrap().to_string();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("X-Content-Type-Options"), Some("nosniff"));
    let html = page.text();
    assert!(!html.contains("<script>alert"), "{html}");
    assert!(html.contains("name=\"viewport\"") && html.contains("prefers-color-scheme:dark"), "{html}");
    let order = |html: &str, a: &str, b: &str| html.find(a).unwrap() < html.find(b).unwrap();
    assert!(order(&html, "data-name=\"big.txt", "data-name=\"small.txt"), "{html}");
    let by_size = client.get("/?sort=size").text();
    assert!(order(&by_size, "data-name=\"small.txt", "data-name=\"big.txt"), "{by_size}");
    assert!(client.get("/deep/").text().contains("<a href=\"../\">Home</a>"));
    // A file of the folder has its own rules.
    assert_eq!(client.get("/small.txt").header("Content-Security-Policy"), None);
}

/// The page's own script runs under its policy; nothing that a name holds does.
#[test]
fn a_browser_runs_the_page_and_no_name() {
    let dir = TempDir::new();
    let outer = TempDir::new();
    dir.write("<img src=x onerror=document.title='owned'>.txt", "");
    dir.write("\"><svg onload=document.title='owned'>.txt", "");
    dir.write("javascript:document.title='owned'", "");
    let serve = Serve::start(dir, &[]);
    let url = format!("http://127.0.0.1:{}/", serve.port.number);
    let dom = brisk_testkit::browser::document(&url, outer.path());
    assert!(dom.contains("<title>Index of /</title>"), "{dom}");
    assert!(!dom.contains("<img") && dom.matches("<svg onload").count() == 0, "{dom}");
    // The search box is shown by the script.
    let input = dom.split_once("<input").unwrap().1.split_once('>').unwrap().0;
    assert!(!input.contains("hidden"), "{input}");
    // Names that were searched for are compared in lower case.
    assert!(dom.contains("data-name=\"javascript:document.title='owned'\""), "{dom}");
}

#[test]
fn built_in_error_pages_fit_phones_and_dark_rooms() {
    let serve = Serve::start(TempDir::new(), &[]);
    let page = Client::connect(serve.port.number).get("/missing").text();
    assert!(page.contains("<center><h1>404 Not Found</h1></center>"), "{page}");
    assert!(page.contains("<meta name=\"viewport\"") && page.contains("content=\"light dark\""), "{page}");
}

#[test]
fn a_unix_socket_is_told_and_a_stale_one_replaced() {
    let dir = TempDir::new();
    let path = dir.path().join("s.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let mut child = Command::new(BIN)
        .args(["serve", ".", "--listen", "unix:s.sock"])
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stderr(std::fs::File::create(dir.path().join(".terminal")).unwrap())
        .spawn()
        .unwrap();
    // The socket is bound before anybody serves on it; the line comes after that.
    let line = format!("  unix:{}\n", path.display());
    let said = || std::fs::read_to_string(dir.path().join(".terminal")).unwrap();
    wait::holds("the line that tells the socket", || said().contains(&line));
    assert!(Client::connect_unix(&path).is_ok());
    process::signal(child.id(), Signal::INT);
    assert!(child.wait().unwrap().success(), "{}", said());
}

/// A folder with PHP that other users may enter: root's pools are another user's.
fn php_folder(files: &[(&str, &str)]) -> TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    build_pool_master();
    let dir = TempDir::new();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    for (name, text) in files {
        dir.write(name, *text);
    }
    dir
}

fn build_pool_master() {
    let folder = std::path::Path::new(BIN).parent().unwrap().join("../php");
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/php.sh");
    let built = Command::new(script).arg(folder).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}

const FRONT: &str = "<?php echo 'front ', $_SERVER['REQUEST_URI'], ' ', $_SERVER['SCRIPT_NAME'];";

#[test]
fn php_in_a_folder_just_runs() {
    let dir = php_folder(&[
        ("index.php", FRONT),
        ("other.php", "<?php echo 'other ', $_SERVER['PATH_INFO'] ?? '';"),
        ("style.css", "css"),
        ("deep/index.php", "<?php echo 'deep';"),
        ("listed/a.txt", ""),
        ("wp-content/uploads/shell.php", "<?php echo 'owned';"),
        ("uploads/picture.jpg", "<?php echo 'owned';"),
        ("vendor/tool/eval.php", "<?php echo 'owned';"),
        ("wiki/images/x.php", "<?php echo 'owned';"),
        ("drupal/sites/default/files/x.php", "<?php echo 'owned';"),
        ("uploads/a\nb.php", "<?php echo 'owned';"),
        (".hidden/x.php", "<?php echo 'owned';"),
        ("page.phtml", "<?php echo 'source';"),
    ]);
    let serve = Serve::start(dir, &[]);
    let mut client = Client::connect(serve.port.number);
    for (target, want) in [
        ("/", "front / /index.php"),
        ("/some/page?x=1", "front /some/page?x=1 /index.php"),
        ("/other.php", "other "),
        ("/other.php/more", "other /more"),
        ("/style.css", "css"),
        ("/deep/", "deep"),
    ] {
        let answer = client.get(target);
        assert_eq!((answer.status, answer.text().as_str()), (200, want), "{target} {}", serve.terminal());
    }
    for (target, status) in [
        ("/wp-content/uploads/shell.php", 403),
        ("/wp-content/uploads/shell.php/x", 403),
        ("/WP-Content/Uploads/shell.php", 403),
        ("/uploads/picture.jpg/x.php", 403),
        ("/vendor/tool/eval.php", 403),
        ("/wiki/images/x.php", 403),
        ("/drupal/sites/default/files/x.php", 403),
        ("/uploads/a%0Ab.php", 403),
        ("/.hidden/x.php", 404),
        ("/page.phtml", 403),
        ("/missing.php", 404),
        ("/listed/", 403),
    ] {
        let answer = client.get(target);
        assert_eq!(answer.status, status, "{target}: {}", answer.text());
        assert!(!answer.text().contains("owned") && !answer.text().contains("<?php"), "{target}");
    }
    wait::holds("what runs PHP", || serve.terminal().contains("scripts are run by PHP 8."));
    let posted = client.request(format!(
        "POST /other.php HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{}",
        "x".repeat(100_000)
    ));
    assert_eq!(posted.status, 200);
    for name in ["logs", "fastcgi_temp", "client_body_temp", "brisk-php"] {
        assert!(!serve.dir.path().join(name).exists(), "nothing is left in the folder: {name}");
    }
}

/// Without PHP, too, only the public folder of an application is served.
#[test]
fn an_application_without_php_shows_its_public_folder_alone() {
    let files = [
        ("artisan", ""),
        ("public/index.php", FRONT),
        ("public/a.css", "css"),
        ("storage/logs/laravel.log", "SECRET"),
    ];
    let serve = Serve::with_php(php_folder(&files), &[], "none");
    let mut client = Client::connect(serve.port.number);
    assert_eq!(client.get("/a.css").text(), "css");
    assert_eq!(client.get("/storage/logs/laravel.log").status, 404);
    assert_eq!(client.get("/public/a.css").status, 404);
    assert!(!client.get("/index.php").text().contains("<?php"));
}

/// SIGHUP ends the server, unless it is ignored, as under nohup.
#[test]
fn the_end_of_the_terminal_ends_it() {
    for (ignores, command) in
        [(false, ["env", "--default-signal=HUP"]), (true, ["env", "--ignore-signal=HUP"])]
    {
        let (dir, port) = (TempDir::new(), ports::claim());
        dir.write("a.txt", "mine");
        let number = port.number.to_string();
        let mut child = Command::new(command[0])
            .args([command[1], BIN, "serve", "--listen", &number])
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait::holds("brisk serve to answer", || Client::try_connect(port.number).is_ok());
        process::signal(child.id(), Signal::HUP);
        if ignores {
            for _ in 0..3 {
                assert_eq!(Client::connect(port.number).get("/a.txt").text(), "mine");
            }
            process::signal(child.id(), Signal::INT);
        }
        let ended = wait::until("the end", || child.try_wait().unwrap());
        assert!(ended.success(), "{ended}");
    }
}

#[test]
fn the_public_folder_of_an_application_is_served() {
    let dir = php_folder(&[
        ("artisan", ""),
        (".env", "SECRET"),
        ("public/index.php", FRONT),
        ("config/app.php", "<?php"),
    ]);
    let serve = Serve::start(dir, &[]);
    let mut client = Client::connect(serve.port.number);
    assert_eq!(client.get("/users/1").text(), "front /users/1 /index.php");
    assert_eq!(client.get("/config/app.php").status, 404);
    wait::holds("the application's name", || serve.terminal().contains("Laravel: scripts are run by PHP"));
}

/// Without a program of our own others do it, and it is told.
#[test]
fn php_fpm_and_php_cgi_stand_in() {
    for php in ["php-fpm", "php-cgi"] {
        let dir = php_folder(&[
            ("index.php", "<?php echo PHP_SAPI, ' ', strlen(file_get_contents('php://input'));"),
            ("up.jpg", "<?php echo 'owned';"),
        ]);
        let serve = Serve::with_php(dir, &[], php);
        let mut client = Client::connect(serve.port.number);
        let sapi = if php == "php-fpm" { "fpm-fcgi" } else { "cgi-fcgi" };
        for _ in 0..20 {
            assert_eq!(client.get("/").text(), format!("{sapi} 0"), "{}", serve.terminal());
        }
        let post = client.request("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n12345");
        assert_eq!(post.text(), format!("{sapi} 5"));
        assert!(!client.get("/up.jpg/x.php").text().contains("owned"), "{php}");
        wait::holds("what runs PHP", || serve.terminal().contains(&format!("/{php}")));
        let child = serve.child.id();
        let below = process::tree(child);
        drop(serve);
        below.into_iter().for_each(process::wait_gone);
    }
}

#[test]
fn a_folder_with_htaccess_is_served_as_it_says() {
    let dir = TempDir::new();
    dir.write("index.html", "front");
    dir.write("in/secret.txt", "secret");
    dir.write(".htaccess", "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^nice/ /index.html [L]\nOptions -Indexes\n");
    dir.write("in/.htaccess", "Require all denied\n");
    let serve = Serve::start(dir, &[]);
    let get = |target: &str| Client::connect(serve.port.number).get(target);
    assert_eq!(get("/nice/url").text(), "front");
    assert_eq!(get("/in/secret.txt").status, 403);
    assert_eq!(get("/in/").status, 403);
}

/// What a start would refuse, `-t` names.
#[test]
fn a_pool_for_which_there_is_no_php_is_told_before_the_start() {
    let dir = TempDir::new();
    let conf = dir.write("a.conf", "events { } http { php_pool www { } }");
    let mut command = Command::new(BIN);
    command.arg("-t").arg("-p").arg(dir.path()).arg("-c").arg(conf).env("BRISK_PHP", "none");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("php_pool \"www\" needs the program none"), "{said}");
}
