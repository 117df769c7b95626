//! `examples/mediawiki`: Debian's MediaWiki with a database and a PHP pool of its own, behind Brisk and its micro-cache. Somebody logs in,
//! writes a page and uploads a picture; strangers see both, and nothing that was made for somebody else.

use brisk_testkit::example::json_text;
use brisk_testkit::{Example, Visitor, wait};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");
const PASSWORD: &str = "correct-horse-battery-staple";

/// A value for a form.
fn coded(text: &str) -> String {
    text.bytes().fold(String::new(), |all, byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => all + &char::from(byte).to_string(),
        _ => all + &format!("%{byte:02X}"),
    })
}

fn token(visitor: &mut Visitor, kind: &str) -> String {
    let answer = visitor.get(&format!("/api.php?action=query&meta=tokens&type={kind}&format=json"));
    json_text(&answer.text(), &format!("{kind}token"))
}

fn log_in(site: &Example) -> Visitor {
    let mut admin = site.visitor();
    assert!(admin.get("/wiki/Special:UserLogin").text().contains("wpPassword"));
    for (password, result) in [("wrong", "FAIL"), (PASSWORD, "PASS")] {
        let token = coded(&token(&mut admin, "login"));
        let back = coded(&site.url());
        let form = [
            ("action", "clientlogin"),
            ("format", "json"),
            ("username", "Admin"),
            ("password", password),
            ("loginreturnurl", back.as_str()),
            ("logintoken", token.as_str()),
        ];
        let answer = admin.post("/api.php", &form).text();
        assert_eq!(json_text(&answer, "status"), result, "{answer}");
    }
    admin
}

fn write_page(admin: &mut Visitor, text: &str) {
    let token = coded(&token(admin, "csrf"));
    let form = [
        ("action", "edit"),
        ("format", "json"),
        ("title", "A_first_page"),
        ("text", text),
        ("token", token.as_str()),
    ];
    let answer = admin.post("/api.php", &form).text();
    assert_eq!(json_text(&answer, "result"), "Success", "{answer}");
}

/// A picture of one point with ballast behind it.
fn picture() -> Vec<u8> {
    let mut picture = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc\xf8\xcf\xc0\
        \xf0\x1f\0\x05\0\x01\xff\x89\x99=\x1d\0\0\0\0IEND\xaeB`\x82"
        .to_vec();
    picture.resize(200_000, b'.');
    picture
}

fn upload(site: &Example, admin: &mut Visitor) {
    let token = token(admin, "csrf");
    let field = |head: &str, content: &[u8]| {
        [format!("--part\r\nContent-Disposition: form-data; {head}\r\n\r\n").as_bytes(), content, b"\r\n"]
            .concat()
    };
    let send = |admin: &mut Visitor, name: &str, content: &[u8]| {
        let body = [
            field("name=\"action\"", b"upload"),
            field("name=\"format\"", b"json"),
            field("name=\"ignorewarnings\"", b"1"),
            field("name=\"filename\"", name.as_bytes()),
            field("name=\"token\"", token.as_bytes()),
            field(&format!("name=\"file\"; filename=\"{name}\"\r\nContent-Type: image/png"), content),
            b"--part--\r\n".to_vec(),
        ];
        admin
            .ask("POST", "/api.php", "Content-Type: multipart/form-data; boundary=part\r\n", &body.concat())
            .text()
    };
    let answer = send(admin, "Dot.png", &picture());
    assert_eq!(json_text(&answer, "result"), "Success", "{answer}");
    let url = json_text(&answer, "url");
    let served = site.visitor().get(url.strip_prefix(&site.url()).unwrap_or(&url));
    assert_eq!((served.status, served.header("Content-Type")), (200, Some("image/png")));
    assert!(served.body == picture());
    let refused = send(admin, "Evil.php", b"<?php echo 6 * 7;");
    assert!(refused.contains("\"error\""), "{refused}");
    // What came there in another way is neither run nor shown.
    let script = site.folder().join("site/images/x.php");
    fs::write(&script, "<?php echo 6 * 7;").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(site.visitor().get("/images/x.php").status, 404);
}

#[test]
fn mediawiki_works_and_keeps_its_visitors_apart() {
    let site = Example::up(BIN, "mediawiki", &[("MEDIAWIKI_PASSWORD", PASSWORD)]);
    let front = site.visitor().get("/");
    assert!(
        front.status == 301 && front.header("Location").is_some_and(|to| to.ends_with("/wiki/Main_Page")),
        "{}",
        front.head
    );
    let mut admin = log_in(&site);
    write_page(&mut admin, "Served by Brisk.");
    let page = "/wiki/A_first_page";
    wait::holds("the page", || site.visitor().get(page).text().contains("Served by Brisk."));
    let is_private = |text: &str| text.contains("pt-userpage") || text.contains("Special:UserLogout");
    for _ in 0..5 {
        let own = admin.get(page);
        assert!(is_private(&own.text()), "who is logged in has a name: {}", own.text());
        assert_eq!(own.header("X-Cache"), Some("BYPASS"));
        let stranger = site.visitor().get(page);
        assert!(!is_private(&stranger.text()));
        assert_ne!(stranger.header("X-Cache"), Some("BYPASS"));
    }
    wait::holds("a hit", || site.visitor().get(page).header("X-Cache") == Some("HIT"));
    write_page(&mut admin, "Changed by Admin.");
    wait::holds("the change", || site.visitor().get(page).text().contains("Changed by Admin."));
    // Styles and scripts are made by PHP, too.
    let styles = site.visitor().get("/load.php?lang=en&modules=site.styles&only=styles&skin=vector");
    assert_eq!(styles.status, 200);
    upload(&site, &mut admin);
    for closed in [
        "/LocalSettings.php",
        "/maintenance/install.php",
        "/includes/Setup.php",
        "/mw-config/index.php",
        "/cache/",
    ] {
        assert_eq!(site.visitor().get(closed).status, 404, "{closed}");
    }
    let log = site.log();
    assert!(!log.contains("[alert]") && !log.contains("[emerg]") && !log.contains("PHP Fatal"), "{log}");
    site.stop_and_remove();
}
