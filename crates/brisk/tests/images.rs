//! `image_filter` end to end: what becomes of images, and of what is none or too much of one.

use brisk_testkit::{Builder, Response, Server};
use std::io::Write as _;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");
const PHOTO: &[u8] = include_bytes!("images/photo.jpg");

const CONF: &str = "server { listen 127.0.0.1:{{PORT}}; image_filter_jpeg_quality 70; image_filter_max_pixels 1m;
    image_filter_buffer 100k; image_filter_transparency off; image_filter_webp_quality 60; image_filter_sharpen 20;
    location /size/ { alias html/; image_filter size; }
    location /test/ { alias html/; image_filter test; }
    location /small/ { alias html/; image_filter resize 100 100; image_filter_formats webp; }
    location /tiny/ { alias html/; image_filter resize 40 40; image_filter_formats AVIF webp; image_filter_avif_quality 50; }
    location /square/ { alias html/; image_filter crop 50 50; image_filter_interlace on; }
    location /turned/ { alias html/; image_filter rotate 90; }
    location /any/ { alias html/; image_filter resize $arg_w -; }
    location /page/ { alias html/; image_filter resize 100 -; error_page 415 = /sorry; }
    location /sorry { return 200 sorry; }
}";

fn server() -> Server {
    Builder::new(BIN)
        .http(&CONF.replace("AVIF", if cfg!(feature = "avif") { "avif" } else { "" }))
        .file("html/photo.jpg", PHOTO)
        .file("html/photo.png", png(320, 240, 320 * 240))
        .file("html/bomb.png", png(50_000, 50_000, 1000))
        .file(
            "html/bomb.gif",
            b"GIF89a\xff\xff\xff\xff\0\0\0\x2c\0\0\0\0\xff\xff\xff\xff\0\x02\x02\x44\x01\0\x3b",
        )
        .file("html/cut.jpg", &PHOTO[..20])
        .file("html/text.jpg", "this is no image, but has more than sixteen bytes")
        .file("html/empty.jpg", "")
        .file("html/long.jpg", [PHOTO, &vec![0; 200_000]].concat())
        .start()
}

/// A grey PNG that has the pixels it says, or only some of them.
fn png(width: u32, height: u32, pixels: usize) -> Vec<u8> {
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |name: &[u8; 4], data: &[u8]| {
        out.extend_from_slice(&(data.len() as u32).to_be_bytes());
        let body = [&name[..], data].concat();
        let mut crc = flate2::Crc::new();
        crc.update(&body);
        out.extend_from_slice(&body);
        out.extend_from_slice(&crc.sum().to_be_bytes());
    };
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 0, 0, 0, 0]].concat();
    chunk(b"IHDR", &header);
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(6));
    let grey: Vec<u8> = (0..pixels).map(|n| (n / 7) as u8).collect();
    for row in grey.chunks(width as usize) {
        zlib.write_all(&[0]).unwrap();
        zlib.write_all(row).unwrap();
    }
    chunk(b"IDAT", &zlib.finish().unwrap());
    chunk(b"IEND", b"");
    out
}

fn get(server: &Server, target: &str, accept: &str) -> Response {
    server.request(format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n"))
}

/// Width and height of a JPEG by its frame header, and whether that is progressive.
fn jpeg_size(jpeg: &[u8]) -> (u16, u16, bool) {
    let mut at = 2;
    loop {
        let length = usize::from(u16::from_be_bytes([jpeg[at + 2], jpeg[at + 3]]));
        if matches!(jpeg[at + 1], 0xc0 | 0xc2) {
            let number = |at: usize| u16::from_be_bytes([jpeg[at], jpeg[at + 1]]);
            return (number(at + 7), number(at + 5), jpeg[at + 1] == 0xc2);
        }
        at += 2 + length;
    }
}

#[test]
fn images_are_measured_and_made_anew() {
    let server = server();
    let size = get(&server, "/size/photo.jpg", "*/*");
    assert_eq!(size.text(), "{ \"img\" : { \"width\": 320, \"height\": 240, \"type\": \"jpeg\" } }\r\n");
    assert_eq!((size.header("Content-Type"), size.header("Last-Modified")), (Some("application/json"), None));

    let small = get(&server, "/small/photo.jpg", "*/*");
    assert_eq!(jpeg_size(&small.body), (100, 75, false));
    assert_eq!(small.header("Content-Type"), Some("image/jpeg"));
    assert_eq!(small.header("Vary"), Some("Accept"));
    assert!(small.header("ETag").unwrap().starts_with("W/"), "{}", small.head);
    assert_eq!(small.header("Accept-Ranges"), None);
    assert!(small.body.windows(12).any(|text| text == b"quality = 70"));

    assert_eq!(jpeg_size(&get(&server, "/square/photo.jpg", "*/*").body), (50, 50, true));
    assert_eq!(jpeg_size(&get(&server, "/turned/photo.jpg", "*/*").body), (240, 320, false));
    assert_eq!(jpeg_size(&get(&server, "/any/photo.jpg?w=16", "*/*").body), (16, 12, false));
    // What is small enough stays as it is.
    let same = get(&server, "/any/photo.jpg?w=320", "*/*");
    assert!(same.body == PHOTO && !same.header("ETag").unwrap().starts_with("W/"));
    let head = server.request("HEAD /small/photo.jpg HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((head.status, head.header("Content-Type")), (200, Some("image/jpeg")));
    let conditional = format!(
        "GET /small/photo.jpg HTTP/1.1\r\nHost: a\r\nIf-None-Match: {}\r\n\r\n",
        small.header("ETag").unwrap()
    );
    assert_eq!(server.request(conditional).status, 304);
}

#[test]
fn clients_that_name_a_format_get_it() {
    let server = server();
    let webp = get(&server, "/small/photo.jpg", "image/avif,image/webp,*/*;q=0.8");
    assert_eq!(webp.header("Content-Type"), Some("image/webp"));
    assert_eq!((&webp.body[..4], &webp.body[8..16]), (&b"RIFF"[..], &b"WEBPVP8 "[..]));
    let size = |at: usize| u16::from_le_bytes([webp.body[at], webp.body[at + 1]]);
    assert_eq!((size(26), size(28)), (100, 75));
    let jpeg = get(&server, "/small/photo.jpg", "image/png, image/*");
    assert!(webp.body.len() < jpeg.body.len(), "{} {}", webp.body.len(), jpeg.body.len());
    assert_eq!(get(&server, "/square/photo.jpg", "image/webp").header("Content-Type"), Some("image/jpeg"));
}

#[test]
#[cfg(feature = "avif")]
fn avif_is_for_those_who_name_it() {
    let server = server();
    let avif = get(&server, "/tiny/photo.jpg", "image/webp,image/avif,*/*;q=0.8");
    assert_eq!((avif.header("Content-Type"), avif.header("Vary")), (Some("image/avif"), Some("Accept")));
    assert_eq!(&avif.body[4..12], b"ftypavif");
    // The box that says the image's width and height.
    let at = avif.body.windows(4).position(|name| name == b"ispe").unwrap() + 8;
    let number = |at: usize| u32::from_be_bytes(avif.body[at..at + 4].try_into().unwrap());
    assert_eq!((number(at), number(at + 4)), (40, 30));
    let webp = get(&server, "/tiny/photo.png", "image/webp");
    assert_eq!((webp.header("Content-Type"), &webp.body[..4]), (Some("image/webp"), &b"RIFF"[..]));
    assert_eq!(jpeg_size(&get(&server, "/tiny/photo.jpg", "*/*").body), (40, 30, false));
    let not = get(&server, "/tiny/photo.jpg", "image/avif;q=0, image/webp");
    assert_eq!(not.header("Content-Type"), Some("image/webp"));
}

#[test]
fn what_is_no_image_or_too_much_of_one_is_refused() {
    let server = server();
    let check = |target: &str, want| assert_eq!(get(&server, target, "*/*").status, want, "{target}");
    for action in ["small", "square", "turned"] {
        for file in ["bomb.png", "bomb.gif", "cut.jpg", "text.jpg", "empty.jpg", "long.jpg", "missing.jpg"] {
            check(&format!("/{action}/{file}"), 415);
        }
    }
    check("/any/photo.jpg", 415);
    check("/any/photo.jpg?w=0", 415);
    check("/any/photo.jpg?w=x", 415);
    for (file, want) in [("photo.png", 200), ("bomb.png", 200), ("text.jpg", 415), ("missing.jpg", 415)] {
        check(&format!("/test/{file}"), want);
    }
    for file in ["text.jpg", "cut.jpg", "empty.jpg"] {
        assert_eq!(get(&server, &format!("/size/{file}"), "*/*").text(), "{}\r\n", "{file}");
    }
    let sorry = get(&server, "/page/text.jpg", "*/*");
    assert_eq!((sorry.status, &*sorry.text()), (200, "sorry"));
    server.wait_for_log("image filter: too large image: 50000x50000");
    server.wait_for_log("image filter: too large image: 65535x65535");
    server.wait_for_log("image filter: too big response: 2\\d{5}");
    server.wait_for_log("image filter: not an image");
}

#[test]
fn many_at_once_are_worked_on_in_turn() {
    let server = server();
    std::thread::scope(|scope| {
        for n in 0..24 {
            let server = &server;
            scope.spawn(move || {
                let width = 20 + n;
                let response = get(server, &format!("/any/photo.png?w={width}"), "*/*");
                assert_eq!(response.status, 200);
                assert_eq!(response.body[16..20], u32::to_be_bytes(width));
            });
        }
    });
}
