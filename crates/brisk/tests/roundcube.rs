//! `examples/roundcube`: Debian's Roundcube with a database, a PHP pool and a small mail server of its own, behind Brisk. Somebody logs in and sends a
//! mail, the other one finds and reads it; strangers see neither, and nothing of it is stored.

use brisk_testkit::example::json_text;
use brisk_testkit::{Example, Visitor, wait};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");
const PASSWORD: &str = "correct-horse-battery-staple";

/// The value of a form's hidden field.
fn hidden(page: &str, name: &str) -> String {
    let field = page.split("<input").find(|part| part.contains(&format!("name=\"{name}\"")));
    let value = field.and_then(|part| part.split("value=\"").nth(1)?.split('"').next());
    value.unwrap_or_else(|| panic!("no {name}: {page}")).to_string()
}

fn log_in(site: &Example, name: &str, password: &str) -> (Visitor, bool) {
    let mut visitor = site.visitor();
    let token = hidden(&visitor.get("/").text(), "_token");
    let form = [
        ("_task", "login"),
        ("_action", "login"),
        ("_timezone", "UTC"),
        ("_url", ""),
        ("_user", name),
        ("_pass", password),
        ("_token", token.as_str()),
    ];
    let answer = visitor.post("/?_task=login", &form);
    let is_in = answer.status == 302 && answer.header("Location").is_some_and(|to| to.contains("_task=mail"));
    (visitor, is_in)
}

/// What `list` says of the INBOX.
fn inbox(visitor: &mut Visitor) -> String {
    let page = visitor.get("/?_task=mail&_mbox=INBOX").text();
    let token = json_text(&page, "request_token");
    let fields = format!("X-Roundcube-Request: {token}\r\n");
    visitor.ask("GET", "/?_task=mail&_action=list&_mbox=INBOX&_remote=1", &fields, b"").text()
}

fn send(visitor: &mut Visitor, to: &str, subject: &str, text: &str) {
    let begun = visitor.get("/?_task=mail&_action=compose");
    let target = begun.header("Location").expect("a place to write").trim_start_matches('.').to_string();
    let page = visitor.get(&target).text();
    let (id, token) = (json_text(&page, "compose_id"), json_text(&page, "request_token"));
    let from =
        page.split("name=\"_from\"").nth(1).and_then(|rest| rest.split("value=\"").nth(1)?.split('"').next());
    let form = [
        ("_token", token.as_str()),
        ("_task", "mail"),
        ("_action", "send"),
        ("_id", id.as_str()),
        ("_from", from.expect("a sender")),
        ("_to", to),
        ("_subject", subject),
        ("_message", text),
        ("_store_target", "Sent"),
    ];
    let said = visitor.post("/?_task=mail&_action=send&_framed=1&_unlock=loading1", &form).text();
    assert!(said.contains("sent_successfully"), "{said}");
}

#[test]
fn roundcube_works_and_keeps_its_users_apart() {
    let site = Example::up(BIN, "roundcube", &[("ROUNDCUBE_PASSWORD", PASSWORD)]);
    assert!(!log_in(&site, "alice", "wrong").1);
    let ((mut alice, alice_is_in), (mut bob, bob_is_in)) =
        (log_in(&site, "alice", PASSWORD), log_in(&site, "bob", PASSWORD));
    assert!(alice_is_in && bob_is_in, "{}", site.log());
    assert!(!inbox(&mut bob).contains("A first mail"));
    send(&mut alice, "bob@example.org", "A first mail", "Carried by Brisk.");
    wait::holds("the mail", || inbox(&mut bob).contains("A first mail"));
    let page = "/?_task=mail&_action=show&_uid=1&_mbox=INBOX";
    for _ in 0..5 {
        let read = bob.get(page);
        assert!(read.text().contains("Carried by Brisk."), "{}", read.text());
        assert!(
            read.header("Cache-Control")
                .is_some_and(|said| said.contains("no-cache") || said.contains("private"))
        );
        for other in [&mut alice, &mut site.visitor()] {
            assert!(!other.get(page).text().contains("Carried by Brisk."));
        }
    }
    // What alice has sent is in her own folder.
    let sent = alice.get("/?_task=mail&_action=show&_uid=1&_mbox=Sent").text();
    assert!(sent.contains("Carried by Brisk."), "{sent}");
    let styles = site.visitor().get("/skins/elastic/styles/styles.min.css");
    assert_eq!((styles.status, styles.header("Content-Type")), (200, Some("text/css")));
    assert_eq!(site.visitor().get("/program/js/jquery.min.js").status, 200);
    for closed in [
        "/config/config.inc.php",
        "/config/secrets.php",
        "/SQL/mysql.initial.sql",
        "/program/include/iniset.php",
        "/program/lib/Roundcube/bootstrap.php",
        "/installer/index.php",
        "/index.php/x",
    ] {
        assert_eq!(site.visitor().get(closed).status, 404, "{closed}");
    }
    // Who has logged out is a stranger.
    let token = json_text(&bob.get("/?_task=mail").text(), "request_token");
    bob.get(&format!("/?_task=logout&_token={token}"));
    assert!(!bob.get(page).text().contains("Carried by Brisk."));
    let log = site.log();
    assert!(!log.contains("[alert]") && !log.contains("[emerg]") && !log.contains("PHP Fatal"), "{log}");
    site.stop_and_remove();
}
