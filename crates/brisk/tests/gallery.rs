//! `examples/gallery`: pictures are uploaded and shown; what is no picture is refused, and nothing that was uploaded runs.

use brisk_testkit::{Client, Response, TempDir, browser, ports, wait};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

struct Gallery {
    dir: TempDir,
    port: ports::Port,
}

impl Gallery {
    fn up() -> Gallery {
        let gallery = Gallery { dir: TempDir::new(), port: ports::claim() };
        // The processes are nobody's if the test is root's.
        fs::set_permissions(gallery.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let output = gallery.script("up");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        gallery
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("gallery")
    }

    fn script(&self, what: &str) -> Output {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gallery/gallery.sh");
        let mut command = Command::new(example);
        command.arg(what).env("BRISK", BIN).env("GALLERY_DIR", self.folder());
        command.env("GALLERY_PORT", self.port.number.to_string()).output().expect("the script starts")
    }

    fn get(&self, target: &str) -> Response {
        let host = self.port.number;
        Client::connect(host).request(format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{host}\r\n\r\n"))
    }

    fn upload(&self, fields: &str, title: &str, file: &[u8]) -> Response {
        let host = self.port.number;
        let part = |head: &str, content: &[u8]| {
            [format!("--part\r\nContent-Disposition: form-data; {head}\r\n\r\n").as_bytes(), content, b"\r\n"]
                .concat()
        };
        let body = [
            part("name=\"title\"", title.as_bytes()),
            part("name=\"images[]\"; filename=\"x.php\"\r\nContent-Type: image/jpeg", file),
            b"--part--\r\n".to_vec(),
        ]
        .concat();
        let head = format!(
            "POST /upload HTTP/1.1\r\nHost: 127.0.0.1:{host}\r\n{fields}\
             Content-Type: multipart/form-data; boundary=part\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        Client::connect(host).request([head.as_bytes(), &body].concat())
    }
}

impl Drop for Gallery {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", fs::read_to_string(self.folder().join("log/brisk.log")).unwrap_or_default());
        }
        self.script("down");
    }
}

/// The links of a page that begin so, in their order.
fn links(page: &str, start: &str) -> Vec<String> {
    let quoted = format!("\"{start}");
    let found = page.match_indices(&quoted).map(|(at, _)| &page[at + 1..]);
    found.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

#[test]
fn the_gallery_takes_pictures_and_nothing_else() {
    let gallery = Gallery::up();
    let index = gallery.get("/").text();
    let (thumbs, pictures) = (links(&index, "/thumbs/"), links(&index, "/uploads/"));
    assert_eq!((thumbs.len(), pictures.len()), (60, 60), "{index}");
    // Brisk makes the thumbnail, and asks neither PHP nor itself a second time.
    let (whole, thumb) = (gallery.get(&pictures[0]), gallery.get(&thumbs[0]));
    assert_eq!((thumb.status, thumb.header("Content-Type")), (200, Some("image/jpeg")));
    assert!(thumb.body.len() * 4 < whole.body.len() && thumb.body.starts_with(&[0xff, 0xd8]));
    assert_eq!(gallery.get(&thumbs[0]).body, thumb.body);
    assert_eq!(gallery.get("/thumbs/00000000000000000000000000000000.jpg").status, 404);

    let stored = gallery.upload("", "<b>Mine</b>", &whole.body);
    let place = stored.header("Location").unwrap_or_else(|| panic!("{}", stored.text())).to_owned();
    let page = gallery.get(&place).text();
    assert!(page.contains("&lt;b&gt;Mine") && !page.contains("<b>Mine"), "{page}");
    let mine = &links(&page, "/uploads/")[0];
    // Its name is ours, whatever it was called.
    let path = Path::new(mine);
    assert!(
        path.extension().is_some_and(|kind| kind == "jpg") && mine.len() == "/uploads/.jpg".len() + 32,
        "{mine}"
    );
    assert_eq!(gallery.get(mine).body, whole.body);
    wait::holds("the new gallery is on the front page", || gallery.get("/").text().contains("&lt;b&gt;Mine"));
    // A profile for each: what a browser has kept it does not ask for.
    for (target, profile) in [("/", "front"), (place.as_str(), "one")] {
        let url = format!("http://127.0.0.1:{}{target}", gallery.port.number);
        let log = gallery.folder().join("log/access.log");
        browser::asks_as_chromium(BIN, &log, &url, &gallery.dir.path().join(profile));
    }

    for (fields, title, file, status) in [
        ("", "no picture", &b"<?php echo 6 * 7;"[..], 400),
        ("", "half a picture", &whole.body[..10], 400),
        ("", "", &whole.body, 400),
        ("Origin: http://elsewhere.example\r\n", "from elsewhere", &whole.body, 403),
    ] {
        assert_eq!(gallery.upload(fields, title, file).status, status, "{title}");
    }
    // A file that came there in another way is shown as what it is, and not run.
    let script = gallery.folder().join("site/public/uploads/x.php");
    fs::write(&script, "<?php echo 6 * 7;").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o644)).unwrap();
    let shown = gallery.get("/uploads/x.php");
    assert_eq!(shown.text(), "<?php echo 6 * 7;");
    assert_eq!(shown.header("Content-Type"), Some("application/octet-stream"));
}
