//! What `make run` serves and `make install` puts into place works as it is.

use brisk_testkit::server::text;
use brisk_testkit::{Builder, TempDir};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[path = "packaging/packages.rs"]
mod packages;
#[path = "packaging/unit.rs"]
mod unit;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

fn repository() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

/// Every file below a folder, with its path from there.
fn files_below(folder: &Path, prefix: &str, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type().unwrap().is_dir() {
            files_below(&entry.path(), &format!("{name}/"), found);
        } else {
            found.push((name, fs::read(entry.path()).unwrap()));
        }
    }
}

#[test]
fn the_example_site_shows_what_its_pages_promise() {
    let site = repository().join("examples/site");
    let types = repository().join("crates/brisk/src/mime.types");
    let conf = fs::read_to_string(site.join("brisk.conf"))
        .unwrap()
        .replace("127.0.0.1:8080", "127.0.0.1:{{PORT}}")
        .replace("../../crates/brisk/src/mime.types", types.to_str().unwrap());
    let mut html = Vec::new();
    files_below(&site.join("html"), "html/", &mut html);
    let builder = html.iter().fold(Builder::new(BIN).conf(&conf), |b, (name, content)| b.file(name, content));
    let server = builder.start();

    let index = server.get("/");
    assert!(index.status == 200 && index.text().contains("Brisk is serving"), "{}", index.head);
    assert_eq!(index.header("Content-Type"), Some("text/html; charset=utf-8"));
    // Every link of the page leads where it says.
    let page = index.text();
    let links: Vec<&str> =
        page.split("href=\"/").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(links.len() > 8, "{links:?}");
    for link in links {
        let status = server.get(&format!("/{link}")).status;
        let wanted = match link {
            "old/page" => 301,
            "nowhere" | ".secret" => 404,
            _ => 200,
        };
        assert_eq!(status, wanted, "/{link}");
    }
    assert_eq!(server.get("/hello/world").text(), "Hello, world!\n");
    assert!(server.get("/files/").text().contains("read-me.txt"));
    assert!(server.get("/docs").text().contains("There is no file of that name"));
    assert!(server.get("/nowhere").text().contains("Nothing lies here"));
    assert_eq!(server.get("/404.html").status, 404);
    assert!(server.get("/style.css").header("Cache-Control").unwrap().contains("max-age=3600"));
    let german = server.request("GET /language HTTP/1.1\r\nHost: a\r\nAccept-Language: de-DE\r\n\r\n");
    assert!(german.text().starts_with("Guten Tag"), "{}", german.text());
}

fn make(target: &str, root: &Path) -> Output {
    make_for("nobody", target, root, &[])
}

fn make_for(user: &str, target: &str, root: &Path, more: &[&str]) -> Output {
    // The strictest umask: what is installed must be readable for other users all the same.
    let output = Command::new("sh")
        .current_dir(repository())
        .args(["-c", "umask 077; exec make \"$@\"", "make"])
        .args(more)
        .args([
            target,
            &format!("BRISK={BIN}"),
            &format!("DESTDIR={}", root.display()),
            &format!("RUN_USER={user}"),
        ])
        .output()
        .expect("make is installed");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    output
}

/// If it is built.
fn what_embeds_php_is_where_the_program_looks_for_it(root: &Path) {
    let count = |folder: PathBuf| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("brisk-php")).count()
    };
    let built = Path::new(BIN).parent().unwrap().join("../php");
    assert_eq!(count(root.join("usr/lib/brisk")), count(built));
}

#[test]
fn make_install_gives_a_server_that_starts() {
    let root = TempDir::new();
    make("install", root.path());
    let read =
        |path: &str| fs::read_to_string(root.path().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    for path in [
        "usr/bin/brisk",
        "usr/share/man/man8/brisk.8",
        "usr/share/man/man1/brisk-bench-run.1",
        "usr/share/bash-completion/completions/brisk",
        "usr/share/zsh/vendor-completions/_brisk",
        "usr/share/fish/vendor_completions.d/brisk.fish",
        "var/www/brisk/index.html",
        "etc/brisk/mime.types",
        "etc/brisk/fastcgi.conf",
        "etc/brisk/fastcgi_params",
        "etc/brisk/scgi_params",
        "etc/brisk/uwsgi_params",
    ] {
        assert!(root.path().join(path).exists(), "{path}");
    }
    what_embeds_php_is_where_the_program_looks_for_it(root.path());
    assert!(read("usr/lib/systemd/system/brisk.service").contains("Type=notify-reload"));
    assert!(read("etc/logrotate.d/brisk").contains("create 0640 nobody adm"));

    // Without symbols, which lie where debuggers look for them.
    let size = |path: &str| fs::metadata(root.path().join(path)).unwrap().len();
    assert!(size("usr/bin/brisk") < fs::metadata(BIN).unwrap().len() / 2);
    let symbols = read("usr/share/brisk/symbols");
    assert!(
        symbols.starts_with("/usr/lib/debug/.build-id/") && size(symbols.trim().trim_start_matches('/')) > 0
    );

    // The configuration as installed, moved to the folder of the test.
    let dir = root.path().display();
    let mut builder = Builder::new(BIN);
    let moved = |text: String| {
        text.replace("/var/", &format!("{dir}/var/"))
            .replace("/run/brisk/", "{{DIR}}/")
            .replace("user nobody;", "")
    };
    let site = moved(read("etc/brisk/conf.d/default.conf"))
        .replace("listen 80 ", "listen 127.0.0.1:{{PORT}} ")
        .replace("listen [::]:80 ", "listen unix:{{DIR}}/http.sock ");
    let site = builder.fill(&site);
    let server = builder
        .file("conf.d/default.conf", site)
        .file("mime.types", read("etc/brisk/mime.types"))
        .conf(&format!("daemon off; {}", moved(read("etc/brisk/brisk.conf"))))
        .start();
    assert!(server.get("/").text().contains("<title>"));
    assert_eq!(server.get("/.git/config").status, 404);
    assert_eq!(server.get("/nothing").status, 404);
    assert_eq!(server.get("/").header("Server"), Some("brisk"));
    drop(server);
    assert!(read("var/log/brisk/access.log").contains("\"GET / HTTP/1.1\" 200"));

    others_may_read(root.path());
    a_second_one_keeps_what_was_edited(root.path(), symbols.trim().trim_start_matches('/'));
}

/// Whatever the administrator's umask says.
fn others_may_read(root: &Path) {
    for path in
        ["var/www/brisk", "var/www/brisk/index.html", "var/lib/brisk", "etc/brisk/conf.d", "usr/share/brisk"]
    {
        let mode = fs::metadata(root.join(path)).unwrap().permissions().mode();
        assert_eq!(mode & 0o444, 0o444, "{path}");
    }
}

/// It brings nothing back that was removed; removing leaves what was edited, too.
fn a_second_one_keeps_what_was_edited(root: &Path, symbols: &str) {
    fs::write(root.join("etc/brisk/brisk.conf"), "# mine").unwrap();
    fs::remove_file(root.join("etc/brisk/conf.d/default.conf")).unwrap();
    fs::remove_dir_all(root.join("var/www/brisk")).unwrap();
    // Of an installation whose configuration was elsewhere.
    fs::write(root.join("usr/share/brisk/sysconfdir"), "/opt/etc\n").unwrap();
    assert!(text(&make("install", root).stdout).contains("kept: "));
    for path in ["etc/brisk/conf.d/default.conf", "var/www/brisk", "usr/share/brisk/sysconfdir"] {
        assert!(!root.join(path).exists(), "{path}");
    }
    make("uninstall", root);
    assert_eq!(fs::read_to_string(root.join("etc/brisk/brisk.conf")).unwrap(), "# mine");
    assert!(!root.join("usr/bin/brisk").exists());
    let mut left = Vec::new();
    files_below(&root.join("usr"), "usr/", &mut left);
    assert!(left.is_empty(), "{:?}", left.iter().map(|(name, _)| name).collect::<Vec<_>>());
    assert!(!root.join(symbols).exists());
    assert!(!root.join("etc/logrotate.d/brisk").exists());
}

#[test]
fn logrotate_reads_our_rule() {
    let rule = TempDir::new();
    let path = rule.write("brisk", fs::read(repository().join("packaging/logrotate")).unwrap());
    let output =
        Command::new("logrotate").arg("--debug").arg(&path).output().expect("logrotate is installed");
    let said = text(&output.stderr);
    assert!(output.status.success() && !said.contains("error:"), "{said}");
    assert!(said.contains("/var/log/brisk/*.log"), "{said}");
}
