//! Parts of videos: of an MP4 file by time, of an FLV file by byte. ffmpeg makes the file, ffprobe reads what comes.

use brisk_testkit::{Builder, Server, TempDir};
use std::process::Command;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// A video of ten seconds with a key frame per second, and a tone.
fn video(name: &str, more: &[&str]) -> Vec<u8> {
    let folder = TempDir::new();
    let path = folder.path().join(name);
    let inputs = [
        "-nostdin",
        "-loglevel",
        "error",
        "-f",
        "lavfi",
        "-i",
        "testsrc=duration=10:size=64x48:rate=25",
        "-f",
        "lavfi",
        "-i",
        "sine=duration=10",
        "-pix_fmt",
        "yuv420p",
        "-g",
        "25",
        "-shortest",
    ];
    let status = Command::new("ffmpeg").args(inputs).args(more).arg(&path).status();
    assert!(status.expect("ffmpeg is not installed: scripts/setup.sh does that").success());
    std::fs::read(&path).unwrap()
}

/// How long ffprobe finds the picture of a file to be, in seconds, and whether all of it can be decoded.
fn duration(bytes: &[u8]) -> f64 {
    let folder = TempDir::new();
    let path = folder.write("part.mp4", bytes);
    let decoded = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-xerror", "-i"])
        .arg(&path)
        .args(["-f", "null", "-"])
        .output()
        .unwrap();
    assert!(decoded.status.success(), "{}", String::from_utf8_lossy(&decoded.stderr));
    let output = Command::new("ffprobe")
        .args(["-v", "error", "-select_streams", "v", "-show_entries", "stream=duration", "-of", "csv=p=0"])
        .arg(&path)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

fn server(files: &[(&str, &[u8])], directives: &str) -> Server {
    let builder = Builder::new(BIN).http(&format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; root {{{{DIR}}}}; {directives}
            location ~ \\.mp4$ {{ mp4; }} location ~ \\.flv$ {{ flv; }} }}"
    ));
    files.iter().fold(builder, |builder, (name, bytes)| builder.file(name, bytes)).start()
}

#[test]
fn parts_of_mp4_files_can_be_played() {
    let codecs = ["-c:v", "mpeg4", "-c:a", "aac"];
    let behind = video("a.mp4", &codecs);
    let before = video("a.mp4", &[&codecs[..], &["-movflags", "+faststart"]].concat());
    let server = server(
        &[("behind.mp4", &behind), ("before.mp4", &before)],
        "mp4_buffer_size 4k; mp4_max_buffer_size 1m;",
    );
    let near = |target: &str, seconds: f64| {
        let response = server.get(target);
        assert_eq!(response.status, 200, "{target}");
        let found = duration(&response.body);
        assert!((found - seconds).abs() < 0.1, "{target}: {found} s");
    };
    for name in ["behind", "before"] {
        near(&format!("/{name}.mp4?start=3"), 7.0);
        near(&format!("/{name}.mp4?end=4.5"), 4.5);
        near(&format!("/{name}.mp4?start=2.2&end=5"), 2.8);
        near(&format!("/{name}.mp4?start=0"), 10.0);
        assert_eq!(server.get(&format!("/{name}.mp4?start=11")).status, 500);
    }
    assert_eq!(server.get("/before.mp4?start=0").body, before);
    assert_eq!(server.get("/behind.mp4").body, behind);
    server.wait_for_log("mp4 start time exceeds file duration in");
    let whole = server.get("/before.mp4?start=3").body;
    let request = "GET /before.mp4?start=3 HTTP/1.1\r\nHost: h\r\nRange: bytes=100-4999\r\n\r\n";
    let range = server.request(request);
    assert_eq!((range.status, &range.body[..]), (206, &whole[100..5000]));
    let head = server.request("HEAD /before.mp4?start=3 HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(head.header("Content-Length"), Some(&*whole.len().to_string()));
    assert_eq!(
        server.request("POST /before.mp4 HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n").status,
        405
    );
    assert_eq!(server.get("/missing.mp4?start=1").status, 404);
}

#[test]
fn parts_may_begin_with_a_key_frame() {
    let file = video("a.mp4", &["-c:v", "mpeg4", "-c:a", "aac"]);
    let exact = server(&[("a.mp4", &file)], "");
    let key = server(&[("a.mp4", &file)], "mp4_start_key_frame on;");
    let (exact, key) = (exact.get("/a.mp4?start=2.6&end=6").body, key.get("/a.mp4?start=2.6&end=6").body);
    // The frames from the key frame on come besides; a player skips them by the edit list.
    assert!(key.len() > exact.len(), "{} {}", key.len(), exact.len());
    assert!(key.windows(4).any(|four| four == b"elst"));
    assert!((duration(&key) - 3.4).abs() < 0.7);
}

#[test]
fn tables_that_are_too_large_or_broken_are_refused() {
    let file = video("a.mp4", &["-c:v", "mpeg4", "-c:a", "aac"]);
    let cut = &file[..file.len() - 10];
    let server = server(
        &[("a.mp4", &file), ("cut.mp4", cut), ("text.mp4", b"no video at all")],
        "mp4_buffer_size 1k; mp4_max_buffer_size 1k;",
    );
    for (name, said) in [
        ("a", "you may want to increase mp4_max_buffer_size"),
        ("cut", "mp4 atom too large"),
        ("text", "mp4 atom too large"),
    ] {
        assert_eq!(server.get(&format!("/{name}.mp4?start=1")).status, 500, "{name}");
        server.wait_for_log(said);
    }
    assert_eq!(server.get("/a.mp4").body, file);
}

#[test]
fn flv_files_are_sent_from_a_byte_on() {
    let file: Vec<u8> = (0..100_000u32).map(|n| (n % 253) as u8).collect();
    let server = server(&[("a.flv", &file)], "");
    let part = server.get("/a.flv?start=5000");
    assert_eq!(&part.body[..13], b"FLV\x01\x05\0\0\0\x09\0\0\0\0");
    assert_eq!((part.status, &part.body[13..]), (200, &file[5000..]));
    for whole in ["/a.flv", "/a.flv?start=0", "/a.flv?start=100000", "/a.flv?start=x"] {
        assert_eq!(server.get(whole).body, file, "{whole}");
    }
    let range = server.request("GET /a.flv?start=5000 HTTP/1.1\r\nHost: h\r\nRange: bytes=10-15\r\n\r\n");
    assert_eq!((range.status, &range.body[..]), (206, &part.body[10..16]));
    assert_eq!(server.request("PUT /a.flv HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n").status, 405);
}
