//! `examples/wordpress`: Debian's WordPress with a database and PHP-FPM of its own, behind Brisk and its micro-cache.
//! Installed, used and looked at as people do it, at the end by a browser.

use brisk_testkit::{Client, Response, TempDir, browser, ports, wait};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");
const PASSWORD: &str = "correct horse battery staple";

/// The example in a folder of its own, running.
struct Site {
    dir: TempDir,
    port: ports::Port,
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/wordpress")
}

impl Site {
    fn up() -> Site {
        let site = Site { dir: TempDir::new(), port: ports::claim() };
        // The processes are nobody's if the test is root's.
        fs::set_permissions(site.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let output = site.script("up");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains(&format!("http://127.0.0.1:{} is served", site.port.number)), "{said}");
        site
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("wp")
    }

    fn script(&self, what: &str) -> Output {
        Command::new(example().join("wordpress.sh"))
            .arg(what)
            .env("BRISK", BIN)
            .env("WORDPRESS_DIR", self.folder())
            .env("WORDPRESS_PORT", self.port.number.to_string())
            .env("WORDPRESS_BARE", "1")
            .output()
            .expect("the script starts")
    }

    fn visitor(&self) -> Visitor {
        Visitor { port: self.port.number, cookies: BTreeMap::new() }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.folder().join("log/brisk.log")).unwrap_or_default();
            eprintln!("--- Brisk's log\n{log}");
        }
        self.script("down");
    }
}

/// Somebody with a cookie jar.
struct Visitor {
    port: u16,
    cookies: BTreeMap<String, String>,
}

impl Visitor {
    fn ask(&mut self, method: &str, target: &str, fields: &str, body: &[u8]) -> Response {
        let jar: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookie = if jar.is_empty() { String::new() } else { format!("Cookie: {}\r\n", jar.join("; ")) };
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n{cookie}{length}{fields}\r\n",
            self.port
        );
        let response = Client::connect(self.port).request([head.as_bytes(), body].concat());
        for set in response.all("Set-Cookie") {
            if let Some((name, value)) = set.split(';').next().and_then(|pair| pair.split_once('=')) {
                self.cookies.insert(name.to_string(), value.to_string());
            }
        }
        response
    }

    fn get(&mut self, target: &str) -> Response {
        self.ask("GET", target, "", b"")
    }

    fn post(&mut self, target: &str, form: &[(&str, &str)]) -> Response {
        let pairs: Vec<String> =
            form.iter().map(|(name, value)| format!("{name}={}", value.replace(' ', "+"))).collect();
        let fields = "Content-Type: application/x-www-form-urlencoded\r\n";
        self.ask("POST", target, fields, pairs.join("&").as_bytes())
    }

    /// WordPress's REST API, as whoever is logged in.
    fn api(&mut self, route: &str, fields: &str, body: &[u8]) -> Response {
        let nonce = self.get("/wp-admin/admin-ajax.php?action=rest-nonce").text();
        let fields = format!("X-WP-Nonce: {nonce}\r\n{fields}");
        self.ask("POST", &format!("/index.php?rest_route=/wp/v2/{route}"), &fields, body)
    }
}

/// The text behind `"name":"`, as JSON's own escapes allow.
fn json_text(json: &str, name: &str) -> String {
    let (_, rest) = json.split_once(&format!("\"{name}\":\"")).unwrap_or_else(|| panic!("no {name}: {json}"));
    rest.split('"').next().unwrap_or_default().replace("\\/", "/")
}

fn path_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("/".into(), |at| rest[at..].to_string())
}

/// A stranger's view of a page, once it shows (or no longer shows) what it should.
fn wait_for_page(site: &Site, target: &str, what: &str, shows: impl Fn(&str) -> bool) -> Response {
    wait::until(what, || {
        let page = site.visitor().get(target);
        (page.status == 200 && shows(&page.text())).then_some(page)
    })
}

fn install(site: &Site) {
    let mut visitor = site.visitor();
    let first = visitor.get("/");
    assert_eq!(first.status, 302, "{}", first.text());
    assert!(first.header("Location").is_some_and(|to| to.ends_with("/wp-admin/install.php")));
    assert!(visitor.get("/wp-admin/install.php").text().contains("WordPress"));
    let done = visitor.post(
        "/wp-admin/install.php?step=2",
        &[
            ("weblog_title", "The test"),
            ("user_name", "admin"),
            ("admin_password", PASSWORD),
            ("admin_password2", PASSWORD),
            ("admin_email", "admin%40example.com"),
            ("blog_public", "0"),
            ("Submit", "Install"),
        ],
    );
    assert!(done.text().contains("Success!"), "{}", done.text());
}

fn log_in(site: &Site) -> Visitor {
    let mut admin = site.visitor();
    assert!(admin.get("/wp-login.php").text().contains("user_login"));
    let wrong = admin.post("/wp-login.php", &[("log", "admin"), ("pwd", "wrong"), ("testcookie", "1")]);
    assert!(wrong.status == 200 && wrong.text().contains("is incorrect"), "{}", wrong.text());
    let right = admin.post("/wp-login.php", &[("log", "admin"), ("pwd", PASSWORD), ("testcookie", "1")]);
    assert_eq!(right.status, 302, "{}", right.text());
    let dashboard = admin.get("/wp-admin/");
    assert!(dashboard.status == 200 && dashboard.text().contains("Dashboard"), "{}", dashboard.head);
    admin
}

/// A post is written and seen, an image comes back as it was sent. Gives the post's address and number.
fn publish(site: &Site, admin: &mut Visitor) -> (String, String) {
    let json = br#"{"title":"A first post","content":"Served by Brisk.","status":"publish"}"#;
    let made = admin.api("posts", "Content-Type: application/json\r\n", json);
    assert_eq!(made.status, 201, "{}", made.text());
    let link = path_of(&json_text(&made.text(), "link"));
    let number: String =
        made.text().trim_start_matches("{\"id\":").chars().take_while(char::is_ascii_digit).collect();
    wait_for_page(site, "/", "the post on the front page", |page| page.contains("A first post"));
    assert!(site.visitor().get(&link).text().contains("Served by Brisk."));

    // 1×1, larger than any buffer for the ballast behind it.
    let mut image = PNG.to_vec();
    image.resize(200_000, b'.');
    let fields = "Content-Type: image/png\r\nContent-Disposition: attachment; filename=\"dot.png\"\r\n";
    let uploaded = admin.api("media", fields, &image);
    assert_eq!(uploaded.status, 201, "{}", uploaded.text());
    let source = path_of(&json_text(&uploaded.text(), "source_url"));
    let served = site.visitor().get(&source);
    assert_eq!((served.status, served.header("Content-Type")), (200, Some("image/png")));
    assert!(served.body == image, "{} bytes of {}", served.body.len(), image.len());
    (link, number)
}

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc\xf8\xcf\xc0\
    \xf0\x1f\0\x05\0\x01\xff\x89\x99=\x1d\0\0\0\0IEND\xaeB`\x82";

/// What is made for somebody is never shown to others: not what the cache keeps, nor what it is filled with.
fn nobody_sees_anothers_page(site: &Site, admin: &mut Visitor, link: &str, number: &str) {
    let is_private = |page: &str| page.contains("wp-admin-bar") || page.contains("wpadminbar");
    for _ in 0..5 {
        let own = admin.get("/");
        assert!(is_private(&own.text()), "a logged-in user has a bar");
        assert_eq!(own.header("X-Cache"), Some("BYPASS"));
        let stranger = site.visitor().get("/");
        assert!(!is_private(&stranger.text()));
        assert_ne!(stranger.header("X-Cache"), Some("BYPASS"));
        // And the other way round: the stored page is no page for who is logged in.
        assert!(is_private(&admin.get("/").text()));
    }

    // A comment waits for its approval: its author sees it, nobody else.
    let mut author = site.visitor();
    let sent = author.post(
        "/wp-comments-post.php",
        &[
            ("comment", "A secret remark"),
            ("author", "Xanthippe"),
            ("email", "xanthippe%40example.com"),
            ("comment_post_ID", number),
            ("comment_parent", "0"),
            ("wp-comment-cookies-consent", "yes"),
        ],
    );
    assert_eq!(sent.status, 302, "{}", sent.text());
    assert!(author.cookies.keys().any(|name| name.starts_with("comment_author_")), "{:?}", author.cookies);
    let after = path_of(sent.header("Location").expect("a redirect says where"));
    let after = after.split('#').next().unwrap_or_default().to_string();
    for _ in 0..5 {
        // The author's name is in the form that a commenter gets.
        let own = author.get(link);
        assert!(own.text().contains("Xanthippe"), "{}", own.text());
        assert_eq!(own.header("X-Cache"), Some("BYPASS"));
        let seen = author.get(&after);
        assert!(seen.text().contains("A secret remark"), "{after}: {}", seen.text());
        let stranger = site.visitor().get(link);
        assert!(!stranger.text().contains("Xanthippe") && !stranger.text().contains("A secret remark"));
    }
}

/// A stranger's page comes from the store, and PHP makes it anew when its second is over.
fn pages_are_cached(site: &Site) {
    wait::holds("a hit", || site.visitor().get("/").header("X-Cache") == Some("HIT"));
    wait::holds("an expired page", || site.visitor().get("/").header("X-Cache") != Some("HIT"));
    assert_eq!(
        site.visitor().post("/", &[("a", "b")]).header("X-Cache"),
        None,
        "what changes things is not asked"
    );
}

/// What a browser makes of a page, scripts included.
fn browse(site: &Site, target: &str) -> String {
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"])
        .args(["--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", site.dir.path().join("browser").display()))
        .arg(format!("http://127.0.0.1:{}{target}", site.port.number))
        .output()
        .expect("chromium is installed: scripts/setup.sh does that");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn a_browser_shows_it(site: &Site) {
    let url = format!("http://127.0.0.1:{}/", site.port.number);
    let log = site.folder().join("log/access.log");
    browser::asks_as_chromium(BIN, &log, &url, &site.dir.path().join("beside"));
    let front = browse(site, "/");
    assert!(front.contains("A first post") && front.contains("</html>"), "{front}");
    // A page that fills the form in and sends it, as a person would.
    let login = format!(
        "<form method=post action=/wp-login.php><input name=log value=admin><input name=pwd value=\"{PASSWORD}\">\
         <input name=redirect_to value=/wp-admin/profile.php></form><script>document.forms[0].submit()</script>"
    );
    let page = site.folder().join("site/form.html");
    fs::write(&page, login).unwrap();
    fs::set_permissions(&page, fs::Permissions::from_mode(0o644)).unwrap();
    let profile = browse(site, "/form.html");
    assert!(profile.contains("wpadminbar") && profile.contains("user_login"), "{profile}");
}

#[test]
fn wordpress_works_and_keeps_its_visitors_apart() {
    let site = Site::up();
    install(&site);
    let mut admin = log_in(&site);
    let (link, number) = publish(&site, &mut admin);
    nobody_sees_anothers_page(&site, &mut admin, &link, &number);
    pages_are_cached(&site);
    a_browser_shows_it(&site);
    let log = fs::read_to_string(site.folder().join("log/brisk.log")).unwrap_or_default();
    assert!(!log.contains("[alert]") && !log.contains("[emerg]"), "{log}");

    let output = site.script("down");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(Client::try_connect(site.port.number).is_err(), "it is stopped");
    assert!(!site.folder().join("mysql.sock").exists());
    assert!(site.script("remove").status.success() && !site.folder().exists());
}
