//! `examples/wordpress`: Debian's WordPress with a database and a PHP pool of its own, behind Brisk and its micro-cache.
//! Installed, used and looked at as people do it, at the end by a browser.

use brisk_testkit::example::json_text;
use brisk_testkit::{Example, Response, Visitor, browser, wait};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");
const PASSWORD: &str = "correct horse battery staple";

/// WordPress's REST API, as whoever is logged in.
fn api(visitor: &mut Visitor, route: &str, fields: &str, body: &[u8]) -> Response {
    let nonce = visitor.get("/wp-admin/admin-ajax.php?action=rest-nonce").text();
    let fields = format!("X-WP-Nonce: {nonce}\r\n{fields}");
    visitor.ask("POST", &format!("/index.php?rest_route=/wp/v2/{route}"), &fields, body)
}

fn path_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("/".into(), |at| rest[at..].to_string())
}

/// A stranger's view of a page, once it shows (or no longer shows) what it should.
fn wait_for_page(site: &Example, target: &str, what: &str, shows: impl Fn(&str) -> bool) -> Response {
    wait::until(what, || {
        let page = site.visitor().get(target);
        (page.status == 200 && shows(&page.text())).then_some(page)
    })
}

fn install(site: &Example) {
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

fn log_in(site: &Example) -> Visitor {
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
fn publish(site: &Example, admin: &mut Visitor) -> (String, String) {
    let json = br#"{"title":"A first post","content":"Served by Brisk.","status":"publish"}"#;
    let made = api(admin, "posts", "Content-Type: application/json\r\n", json);
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
    let uploaded = api(admin, "media", fields, &image);
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
fn nobody_sees_anothers_page(site: &Example, admin: &mut Visitor, link: &str, number: &str) {
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
fn pages_are_cached(site: &Example) {
    wait::holds("a hit", || site.visitor().get("/").header("X-Cache") == Some("HIT"));
    wait::holds("an expired page", || site.visitor().get("/").header("X-Cache") != Some("HIT"));
    assert_eq!(
        site.visitor().post("/", &[("a", "b")]).header("X-Cache"),
        None,
        "what changes things is not asked"
    );
}

/// What a browser makes of a page, scripts included.
fn browse(site: &Example, target: &str) -> String {
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"])
        .args(["--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", site.beside("browser").display()))
        .arg(format!("http://127.0.0.1:{}{target}", site.port()))
        .output()
        .expect("chromium is installed: scripts/setup.sh does that");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn a_browser_shows_it(site: &Example) {
    let url = format!("http://127.0.0.1:{}/", site.port());
    let log = site.folder().join("log/access.log");
    browser::asks_as_chromium(BIN, &log, &url, &site.beside("beside"));
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
    let site = Example::up(BIN, "wordpress", &[("WORDPRESS_BARE", "1")]);
    install(&site);
    let mut admin = log_in(&site);
    let (link, number) = publish(&site, &mut admin);
    nobody_sees_anothers_page(&site, &mut admin, &link, &number);
    pages_are_cached(&site);
    a_browser_shows_it(&site);
    let log = site.log();
    assert!(!log.contains("[alert]") && !log.contains("[emerg]"), "{log}");
    site.stop_and_remove();
}
