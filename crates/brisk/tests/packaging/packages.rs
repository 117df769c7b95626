//! `make deb` and `make image` give what starts, made from the program under test.

use super::{BIN, make_for};
use brisk_testkit::server::text;
use brisk_testkit::{Client, TempDir, process, wait};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Starts `script` with a mount, process and network namespace of its own, until it serves on `socket`; then ends it.
fn serves(script: &str, socket: &Path) {
    assert!(process::is_root(), "namespaces are changed: run this as root");
    let mut child = Command::new("unshare")
        .args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--propagation", "private"])
        .args(["sh", "-c", script])
        .stdin(Stdio::null())
        .spawn()
        .expect("unshare is installed");
    let mut client = wait::until("the server, or its end", || {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        Client::connect_unix(socket).ok()
    });
    assert!(client.get("/").text().contains("<title>"));
    let server = wait::until("its process", || process::children(child.id()).first().copied());
    drop(client);
    process::signal(server, Signal::QUIT);
    let status = wait::until("its end", || child.try_wait().unwrap());
    assert!(status.success(), "{status}");
}

/// The site of the package, on a socket beside its port.
fn listen_beside(root: &Path) {
    let site = root.join("etc/brisk/conf.d/default.conf");
    let conf = fs::read_to_string(&site).unwrap();
    fs::write(site, conf.replacen("listen 80 ", "listen unix:/run/brisk/test.sock; listen 80 ", 1)).unwrap();
}

#[test]
fn the_debian_package_is_clean_and_starts() {
    let folder = TempDir::new();
    // What is thrown away again need not be small.
    make_for(
        "www-data",
        "deb",
        folder.path(),
        &[&format!("OUT={}", folder.path().display()), "DEB_COMPRESSION=0"],
    );
    let packages: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let package = |name: &str| {
        let is_it =
            |path: &&std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(name);
        packages.iter().find(is_it).unwrap_or_else(|| panic!("no {name} in {packages:?}"))
    };
    let (brisk, symbols) = (package("brisk_"), package("brisk-dbgsym_"));
    run(Command::new("lintian").args(["--fail-on", "error", "--allow-root"]).arg(brisk).arg(symbols));
    let contents = run(Command::new("dpkg-deb").arg("--contents").arg(symbols));
    assert!(contents.contains("./usr/lib/debug/.build-id/"), "{contents}");
    let conffiles = run(Command::new("dpkg-deb").args(["--info"]).arg(brisk).arg("conffiles"));
    assert!(conffiles.contains("/etc/brisk/brisk.conf\n"), "{conffiles}");

    let root = folder.path().join("root");
    run(Command::new("dpkg-deb").arg("--extract").arg(brisk).arg(&root));
    fs::create_dir_all(root.join("usr/lib")).unwrap();
    for name in ["run/brisk", "var/log/brisk", "var/lib/brisk", "var/cache/brisk"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    listen_beside(&root);
    // Laid over this system, as an installation is.
    let at = root.display();
    let over = format!(
        "set -e; mkdir {at}.over; mount -t tmpfs tmpfs {at}.over; cd {at}.over; mkdir lower root; cp -a {at}/. lower
         # /lib is a link to /usr/lib, which dpkg follows.
         cp -a lower/lib/. lower/usr/lib; rm -r lower/lib
         mount -t overlay overlay -o lowerdir=lower:/ root
         for path in var/log/brisk run/brisk; do mount --bind {at}/$path root/$path; done
         mount -t proc proc root/proc; mount --rbind /dev root/dev
         exec chroot root /usr/bin/brisk -g 'daemon off;'"
    );
    serves(&over, &root.join("run/brisk/test.sock"));
}

/// `OUT` may name any folder.
#[test]
fn an_image_replaces_nothing_but_an_image() {
    let folder = TempDir::new();
    folder.write("precious", "content");
    let output = Command::new(super::repository().join("scripts/image.sh"))
        .arg(folder.path())
        .env("BRISK", BIN)
        .output();
    let output = output.unwrap();
    assert!(!output.status.success() && text(&output.stderr).contains("holds something else than an image"));
    assert_eq!(fs::read_to_string(folder.path().join("precious")).unwrap(), "content");
}

#[test]
fn the_image_starts_with_nothing_else_around_it() {
    let folder = TempDir::new();
    let image = folder.path().join("image");
    make_for("www-data", "image", folder.path(), &[&format!("OUT={}", image.display())]);
    let bundle = folder.path().join("bundle");
    let layout = format!("{}:brisk", image.display());
    run(Command::new("umoci").args(["unpack", "--image", &layout]).arg(&bundle));
    // What the image says is to be run, where it says.
    let config = fs::read_to_string(bundle.join("config.json")).unwrap();
    let words = config.split("\"args\"").nth(1).unwrap().split(']').next().unwrap();
    let words: Vec<&str> = words.split('"').skip(1).step_by(2).collect();
    assert_eq!(words, ["/usr/bin/brisk", "-g", "daemon off;"]);
    let root = bundle.join("rootfs");
    assert!(!root.join("bin/sh").exists());
    assert!(fs::metadata(root.join("usr/bin/brisk")).unwrap().len() < fs::metadata(BIN).unwrap().len() / 2);
    listen_beside(&root);
    let script = format!(
        "set -e; cd {}; mount -t proc proc proc; mount --rbind /dev dev; exec chroot . {} {} '{}'",
        root.display(),
        words[0],
        words[1],
        words[2]
    );
    serves(&script, &root.join("run/brisk/test.sock"));
}
