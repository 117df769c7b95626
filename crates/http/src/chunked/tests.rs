//! Chunked bodies: what is decoded, refused and written.

use super::*;
use crate::testing::cases;
use proptest::prelude::*;

/// `data|trailers|bytes left`, or the error; fed in pieces of `step` bytes.
fn decode(text: &str, step: usize, limits: ChunkLimits) -> String {
    let mut decoder = ChunkedDecoder::new(limits);
    let mut data = Vec::new();
    let mut rest = text.as_bytes();
    while !rest.is_empty() && !decoder.is_done() {
        let piece = &rest[..step.min(rest.len())];
        match decoder.next(piece) {
            Err(error) => return error.to_string(),
            Ok((event, used)) => {
                if let ChunkEvent::Data(range) = event {
                    data.extend_from_slice(&piece[range]);
                }
                rest = &rest[used..];
            }
        }
    }
    let (fields, bytes) = decoder.trailers();
    let field = |h: &Header| format!("{}={}", lossy(h.name.of(bytes)), lossy(h.value.of(bytes)));
    let fields: Vec<_> = fields.iter().map(field).collect();
    let end = if decoder.is_done() { rest.len().to_string() } else { "more".into() };
    format!("{}|{}|{end}", lossy(&data), fields.join(","))
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn check(text: &str, want: &str) {
    for step in [1, 2, 3, 1000] {
        assert_eq!(decode(text, step, ChunkLimits::default()), want, "{text:?} by {step}");
    }
}

#[test]
fn bodies() {
    check("0\r\n\r\n", "||0");
    check("5\r\nhello\r\n0\r\n\r\n", "hello||0");
    check("5\r\nhello\r\n00A\r\n0123456789\r\n000\r\n\r\nGET /", "hello0123456789||5");
    check("5;a=b;c=\"d\"\r\nhello\r\n0;x\r\n\r\n", "hello||0");
    check("5 \t;a\r\nhello\r\n0 ;x\r\n\r\n", "hello||0");
    check("1\r\na\r\n0\r\nX: y\r\nZ:\r\n\r\n", "a|X=y,Z=|0");
    check("5\r\nhel", "hel||more");
    check("0\r\n", "||more");
}

/// RFC 9112 §7.1.1. Where two parsers see different ends of an extension, they see different bodies.
#[test]
fn extensions_are_as_the_rfc_has_them() {
    let body = |line: &str| format!("5{line}\r\nhello\r\n0\r\n\r\n");
    let good =
        ["", ";a", " ; a", ";a=b", ";a = b", "\t;a=\"b;\\\"\\r\u{e9}\" ; c", ";a=\"\"", ";!#=~", ";a;b;c=d"];
    good.iter().for_each(|line| check(&body(line), "hello||0"));
    let bad = [
        " ",
        "\t",
        ";",
        ";;",
        "; ",
        ";a=",
        ";a= ",
        ";a ",
        ";a=b ",
        ";bad[",
        ";bad[=x",
        ";a=[",
        ";=b",
        ";a b",
        ";a=b c",
        ";a=\"b\"c",
        ";a=\"b",
        ";a=\"b\u{1}\"",
        ";\u{e9}=1",
        ";a=b=c",
        ";a=\"b\" ",
        ";a\u{7f}",
    ];
    bad.iter().for_each(|line| check(&body(line), "invalid chunk extension"));
    // Old servers pad the sizes of their answers.
    let answers = ChunkLimits::of_answers();
    assert_eq!(decode(&body("  "), 3, answers), "hello||0");
    assert_eq!(decode(&body(" x"), 3, answers), "invalid chunk extension");
    assert_eq!(decode(&body(";"), 3, answers), "invalid chunk extension");
}

#[test]
fn framing_is_strict() {
    let size = "invalid chunk size";
    check("\r\n", size);
    check("x\r\n", size);
    check("-1\r\n", size);
    check("+1\r\n", size);
    check("0x1\r\n", size);
    check(" 1\r\n", size);
    check("1,\r\n", size);
    check("ffffffffffffffff\r\n", size);
    check("8000000000000000\r\n", size);
    check("10000000000000001\r\n", size);
    let extension = "invalid chunk extension";
    check("1 a\r\n", extension);
    check("1 2\r\n", extension);
    check("1;a\n", extension);
    check("1;a\0\r\n", extension);
    let line = "invalid line end in chunked body";
    check("1\ra", line);
    check("1;a\rb", line);
    check("1\r\nab\r\n", line);
    check("1\r\na\n0\r\n", line);
    check("1\r\na\r0\r\n", line);
    check("0\r\n\n", line);
    check("0\r\n\ra", line);
    check("1\n", size);
    check("0\n\n", size);
    let trailer = "invalid trailer";
    check("0\r\nA: b\n\r\n", trailer);
    check("0\r\nA: b\0\r\n\r\n", trailer);
    check("0\r\nA b: c\r\n\r\n", trailer);
    check("0\r\nA[: c\r\n\r\n", trailer);
    check("0\r\n\u{e9}: c\r\n\r\n", trailer);
    check("0\r\nA: b\u{8}\r\n\r\n", trailer);
    check("0\r\n: c\r\n\r\n", trailer);
    check("0\r\n A: c\r\n\r\n", trailer);
    check("0\r\nA\r\n\r\n", trailer);
    check("0\r\nA: b\rc\r\n", line);
}

#[test]
fn the_largest_size_is_63_bits() {
    let mut decoder = ChunkedDecoder::default();
    assert_eq!(decoder.next(b"7fffffffffffffff\r\nab"), Ok((ChunkEvent::Data(18..20), 20)));
    assert_eq!(decoder.chunk_left(), i64::MAX as u64 - 2);
}

#[test]
fn extensions_and_trailers_are_limited() {
    let limits = ChunkLimits {
        extension_bytes_max: 8,
        trailer_bytes_max: 10,
        trailers_max: 2,
        ..ChunkLimits::default()
    };
    let check = |text: &str, want: &str| {
        for step in [1, 3, 1000] {
            assert_eq!(decode(text, step, limits), want, "{text:?} by {step}");
        }
    };
    check("1;1234567\r\na\r\n", "a||more");
    check("1;123456789\r\na\r\n", "too long chunk extensions");
    check("0000000001\r\na", "too long chunk extensions");
    // A byte of data pays for a byte of extension, so signed chunks pass and floods of tiny ones do not.
    check(&"8;1234567\r\n12345678\r\n".repeat(5), &format!("{}||more", "12345678".repeat(5)));
    check(&"1;123\r\na\r\n".repeat(9), "too long chunk extensions");
    check("0\r\nA: 45678\r\n\r\n", "|A=45678|0");
    check("0\r\nA: 456789012\r\n\r\n", "too long trailers");
    check("0\r\nA:\r\nB:\r\n\r\n", "|A=,B=|0");
    check("0\r\nA:\r\nB:\r\nC:\r\n\r\n", "too long trailers");
}

#[test]
fn chunk_heads() {
    let check = |len: u64, want: &str| {
        let mut out = Vec::new();
        write_chunk_head(len, &mut out);
        assert_eq!(lossy(&out), want);
    };
    check(1, "1\r\n");
    check(15, "f\r\n");
    check(16, "10\r\n");
    check(0xdead_beef, "deadbeef\r\n");
    check(u64::MAX, "ffffffffffffffff\r\n");
    let mut out = Vec::new();
    write_last_chunk([(&b"A"[..], &b"b\r\nc"[..])], &mut out);
    assert_eq!(lossy(&out), "0\r\nA: b  c\r\n\r\n");
}

proptest! {
    #![proptest_config(cases(200))]
    #[test]
    fn round_trip(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..5), step in 1usize..20) {
        let mut text = Vec::new();
        for chunk in &chunks {
            write_chunk_head(chunk.len() as u64, &mut text);
            text.extend_from_slice(chunk);
            text.extend_from_slice(CHUNK_END);
        }
        text.extend_from_slice(LAST_CHUNK);
        let mut decoder = ChunkedDecoder::default();
        let mut data = Vec::new();
        for piece in text.chunks(step) {
            let mut at = 0;
            while at < piece.len() {
                let (event, used) = decoder.next(&piece[at..]).unwrap();
                if let ChunkEvent::Data(range) = event {
                    data.extend_from_slice(&piece[at..][range]);
                }
                at += used;
            }
        }
        prop_assert!(decoder.is_done());
        prop_assert_eq!(data, chunks.concat());
    }

    #[test]
    fn invariants_hold(text in "([0-9a]{1,2}(;x)?\r\n[a-z\r\n]{0,9}\r\n){0,3}(0\r\n(A: b\r\n)?\r\n)?") {
        crate::fuzz::fuzz_chunked(text.as_bytes());
    }
}
