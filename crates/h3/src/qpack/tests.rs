//! The RFC's examples, limits, errors, and what is encoded read again.

use super::*;
use crate::error::ErrorCode;
use brisk_mux::encode::HeadCoding;
use brisk_mux::integer;
use brisk_mux::{Field, FieldLimits, FieldSink, LimitError};
use proptest::prelude::*;

#[derive(Default)]
struct Collect(Vec<(Vec<u8>, Vec<u8>)>);

impl FieldSink for Collect {
    fn tag(&mut self, name: &[u8]) -> u8 {
        name.first().copied().unwrap_or(0)
    }

    fn field(&mut self, field: Field<'_>) {
        assert_eq!(field.tag, field.name.first().copied().unwrap_or(0));
        self.0.push((field.name.to_vec(), field.value.to_vec()));
    }
}

impl Collect {
    fn text(&self) -> String {
        let shown: Vec<String> = self
            .0
            .iter()
            .map(|(name, value)| {
                format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
            })
            .collect();
        shown.join("|")
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(u8::is_ascii_hexdigit)
        .map(|b| char::from(b).to_digit(16).unwrap() as u8)
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn feed(decoder: &mut Decoder, instructions: &str) -> Result<(), QpackError> {
    decoder.instructions(&hex(instructions), &mut Collect::default())
}

fn decode(decoder: &mut Decoder, section: &[u8]) -> Result<String, QpackError> {
    let prefix = decoder.prefix(section)?;
    assert!(prefix.required <= decoder.inserts(), "blocked");
    let mut sink = Collect::default();
    decoder.decode(section, prefix, FieldLimits::default(), &mut sink)?;
    Ok(sink.text())
}

/// What our decoder has said, as bytes.
fn said(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// RFC 9204 appendix B.
#[test]
fn examples_of_the_rfc() {
    let mut decoder = Decoder::new(4096);
    // B.1
    let path = decode(&mut decoder, &hex("0000 510b 2f69 6e64 6578 2e68 746d 6c"));
    assert_eq!(path.unwrap(), ":path: /index.html");
    // B.2: the section comes before what it needs.
    let section = hex("0381 10 11");
    let prefix = decoder.prefix(&section).unwrap();
    assert_eq!((prefix.required, decoder.inserts()), (2, 0));
    feed(&mut decoder, "3fbd01 c00f 7777 772e 6578 616d 706c 652e 636f 6d").unwrap();
    assert_eq!(decoder.inserts(), 1);
    feed(&mut decoder, "c10c 2f73 616d 706c 652f 7061 7468").unwrap();
    assert_eq!(decode(&mut decoder, &section).unwrap(), ":authority: www.example.com|:path: /sample/path");
    assert_eq!(said(|out| decoder.acknowledge_section(4, prefix.required, out)), hex("84"));
    // B.3
    feed(&mut decoder, "4a63 7573 746f 6d2d 6b65 790c 6375 7374 6f6d 2d76 616c 7565").unwrap();
    assert_eq!(said(|out| decoder.acknowledge_inserts(out)), hex("01"));
    assert_eq!(said(|out| decoder.acknowledge_inserts(out)), hex(""));
    // B.4
    feed(&mut decoder, "02").unwrap();
    let want = ":authority: www.example.com|:path: /|custom-key: custom-value";
    assert_eq!(decode(&mut decoder, &hex("0500 80 c1 81")).unwrap(), want);
    assert_eq!(said(|out| decoder.cancel(8, out)), hex("48"));
    // B.5: the oldest entry is evicted.
    feed(&mut decoder, "810d 6375 7374 6f6d 2d76 616c 7565 32").unwrap();
    assert_eq!(decoder.inserts(), 5);
    assert_eq!(decode(&mut decoder, &hex("0600 80")).unwrap(), "custom-key: custom-value2");
    let evicted = decode(&mut decoder, &hex("0600 84"));
    assert!(matches!(evicted, Err(QpackError::Section(_))), "{evicted:?}");
}

#[test]
fn instructions_in_pieces() {
    let bytes = hex("3fbd01 c00f 7777 772e 6578 616d 706c 652e 636f 6d 4161 0162 80 0163 00");
    for step in 1..bytes.len() {
        let mut decoder = Decoder::new(4096);
        for piece in bytes.chunks(step) {
            decoder.instructions(piece, &mut Collect::default()).unwrap();
        }
        assert_eq!(decoder.inserts(), 4, "in steps of {step}");
        assert_eq!(
            decode(&mut decoder, &hex("0500 80 81 82 83")).unwrap(),
            "a: c|a: c|a: b|:authority: www.example.com"
        );
    }
}

/// RFC 9204 §4.1.1, §4.3: each ends the connection with QPACK_ENCODER_STREAM_ERROR.
#[test]
fn wrong_instructions() {
    let refused = |what: &str, instructions: &str| {
        let error = feed(&mut Decoder::new(4096), instructions).expect_err(what);
        assert_eq!(error.code(), ErrorCode::QPACK_ENCODER_STREAM_ERROR, "{what}");
    };
    refused("a capacity beyond ours", "3fe2 1f");
    refused("an entry without a capacity", "c0 01 61");
    refused("an entry larger than the table", "3f02 c0 02 6161");
    refused("an unknown index of the static table", "3fe1 1f ff 24 01 61");
    refused("an unknown name of the dynamic table", "3fe1 1f 80 01 61");
    refused("a duplicate of nothing", "3fe1 1f 00");
    refused("an endless integer", "3fff ffff ffff ff");
    refused("a string that can fit into no table", "3fe1 1f c0 7f ff ff 7f");
    refused("an invalid Huffman code", "3fe1 1f c0 84 ffff ffff");
    assert!(feed(&mut Decoder::new(0), "20").is_ok(), "a capacity of 0 is allowed");
    refused_without_table();
}

fn refused_without_table() {
    assert!(feed(&mut Decoder::new(0), "21").is_err());
    let mut none = Decoder::new(0);
    assert!(none.prefix(&hex("0200 80")).is_err(), "no table, nothing to wait for");
    assert!(said(|out| none.cancel(8, out)).is_empty());
    assert_eq!(decode(&mut none, &hex("0000 d1")).unwrap(), ":method: GET");
}

/// RFC 9204 §2.2.3, §4.5: each ends the connection with QPACK_DECOMPRESSION_FAILED.
#[test]
fn wrong_sections() {
    let mut decoder = Decoder::new(4096);
    feed(&mut decoder, "3fbd01 4161 0162").unwrap();
    let mut refused = |what: &str, section: &str| {
        let error = decode(&mut decoder, &hex(section)).expect_err(what);
        assert_eq!(error.code(), ErrorCode::QPACK_DECOMPRESSION_FAILED, "{what}");
    };
    refused("no prefix", "");
    refused("half a prefix", "00");
    refused("an index that the static table has not", "0000 ff24");
    refused("a name that the static table has not", "0000 5f54 00");
    refused("an entry without an insert count", "0000 80");
    refused("a name without an insert count", "0000 40 00");
    refused("an entry behind the insert count", "0200 10");
    refused("an entry before the first one", "0200 81");
    refused("a base below 0", "0281 80");
    refused("a name behind the base that is not there", "0200 00 00");
    refused("an insert count that no table has", "ff02 00 80");
    refused("a value that is cut off", "0000 51 05 61");
    refused("an invalid Huffman code", "0000 51 84 ffff ffff");
    assert_eq!(decode(&mut decoder, &hex("0200 80")).unwrap(), "a: b");
    assert_eq!(decode(&mut decoder, &hex("0280 10")).unwrap(), "a: b", "behind a base of 0");
    assert_eq!(decode(&mut decoder, &hex("0280 00 01 63")).unwrap(), "a: c");
    assert_eq!(decode(&mut decoder, &hex("0200 40 01 63")).unwrap(), "a: c");
}

/// A byte of a section may stand for a whole entry: what counts is what it stands for, before anything is told.
#[test]
fn a_bomb_of_indexed_fields_is_counted() {
    let limits =
        FieldLimits { string_bytes_max: 1000, list_bytes_max: 8000, fields_max: 20, long_padding: false };
    let mut decoder = Decoder::new(4096);
    let mut insert = hex("3fe1 1f 41 61 7f b9 06");
    insert.extend_from_slice(&[b'x'; 127 + 0x339]);
    decoder.instructions(&insert, &mut Collect::default()).unwrap();
    assert_eq!(decoder.inserts(), 1);
    let mut run = |section: &[u8]| {
        let prefix = decoder.prefix(section).unwrap();
        let mut sink = Collect::default();
        let result = decoder.decode(section, prefix, limits, &mut sink);
        (result, sink.0.len())
    };
    let mut bomb = hex("0200");
    bomb.extend_from_slice(&[0x80; 5000]);
    assert_eq!(run(&bomb), (Err(QpackError::Limit(LimitError::List)), 8));
    let mut many = hex("0000");
    many.extend_from_slice(&[0xd1; 5000]);
    assert_eq!(run(&many), (Err(QpackError::Limit(LimitError::Fields)), 20));
    let (long, _) = run(&hex("0000 51 7f ea 06"));
    assert_eq!(long, Err(QpackError::Limit(LimitError::String)), "before it is waited for");
}

/// RFC 9204 §4.5.1.1: the count is sent modulo twice the entries, over many turns of the table.
#[test]
fn insert_counts_wrap() {
    let mut decoder = Decoder::new(100);
    feed(&mut decoder, "3f45").unwrap();
    for count in 1..50u64 {
        feed(&mut decoder, "4161 0162").unwrap();
        let encoded = (count % 6 + 1) as u8;
        let section = [encoded, 0, 0x80];
        assert_eq!(decoder.prefix(&section).unwrap().required, count);
        assert_eq!(decode(&mut decoder, &section).unwrap(), "a: b");
    }
}

/// RFC 9204 §4.4: nothing was inserted by us.
#[test]
fn the_peers_decoder_has_nothing_to_acknowledge() {
    let check = |text: &str| check_decoder_stream(&hex(text)).map(<[u8]>::len).map_err(QpackError::code);
    assert_eq!(check("44 7f05"), Ok(0));
    assert_eq!(check("44 7f"), Ok(1));
    assert_eq!(check("80"), Err(ErrorCode::QPACK_DECODER_STREAM_ERROR));
    assert_eq!(check("01"), Err(ErrorCode::QPACK_DECODER_STREAM_ERROR));
    assert_eq!(check("00"), Err(ErrorCode::QPACK_DECODER_STREAM_ERROR));
    assert_eq!(check("7f ffff ffff ffff ffff ffff"), Err(ErrorCode::QPACK_DECODER_STREAM_ERROR));
}

#[test]
fn kept_heads() {
    let mut section = Vec::new();
    Qpack::status(200, &mut section);
    assert_eq!(section, hex("0000 d9"));
    Qpack::literal(b"content-type", b"text/css", &mut section);
    let at = Qpack::date(b"Mon, 21 Oct 2013 20:13:21 GMT", &mut section);
    section[at..at + 3].copy_from_slice(b"Tue");
    write_status(431, &mut section);
    write_foreign(b"X-Key", b"a\r\nb", &mut section);
    write_foreign(b"Connection", b"close", &mut section);
    let want =
        ":status: 200|content-type: text/css|date: Tue, 21 Oct 2013 20:13:21 GMT|:status: 431|x-key: a  b";
    assert_eq!(decode(&mut Decoder::new(0), &section).unwrap(), want);
}

#[test]
fn sensitive_fields_are_told() {
    struct Sensitive(Vec<bool>);
    impl FieldSink for Sensitive {
        fn tag(&mut self, _: &[u8]) -> u8 {
            0
        }
        fn field(&mut self, field: Field<'_>) {
            self.0.push(field.sensitive);
        }
    }
    let section = hex("0000 51 0161 71 0161 21 61 0162 31 61 0162");
    let mut decoder = Decoder::new(0);
    let prefix = decoder.prefix(&section).unwrap();
    let mut sink = Sensitive(Vec::new());
    decoder.decode(&section, prefix, FieldLimits::default(), &mut sink).unwrap();
    assert_eq!(sink.0, [false, true, false, true]);
}

fn fields() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    let name = prop_oneof![
        Just(b":path".to_vec()),
        Just(b"cookie".to_vec()),
        Just(b"content-type".to_vec()),
        "[a-e]{1,30}".prop_map(String::into_bytes),
    ];
    let value = prop_oneof![
        Just(b"/".to_vec()),
        Just(b"text/css".to_vec()),
        "[x-z]{0,2}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..200),
    ];
    proptest::collection::vec((name, value), 1..12)
}

/// An encoder that uses the dynamic table in all ways, as another implementation might; for tests only.
#[derive(Default)]
struct Eager {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Eager {
    /// Appends instructions that put the field into the table; it gets the next absolute index.
    fn insert(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let same = self.entries.iter().rposition(|(have, _)| have == name);
        let newest = |at: usize| self.entries.len() - 1 - at;
        match same {
            Some(at) if self.entries[at].1 == value => integer::encode(newest(at), 5, 0, out),
            Some(at) => {
                integer::encode(newest(at), 6, 0x80, out);
                brisk_mux::encode::write_string(value, 7, 0, out);
            }
            None => {
                brisk_mux::encode::write_string(name, 5, 0x40, out);
                brisk_mux::encode::write_string(value, 7, 0, out);
            }
        }
        self.entries.push((name.to_vec(), value.to_vec()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_encoded_is_read(fields in fields()) {
        let mut section = Vec::new();
        begin(&mut section);
        fields.iter().for_each(|(name, value)| write_literal(name, value, &mut section));
        let mut decoder = Decoder::new(4096);
        let prefix = decoder.prefix(&section).unwrap();
        let mut sink = Collect::default();
        decoder.decode(&section, prefix, FieldLimits::default(), &mut sink).unwrap();
        prop_assert_eq!(sink.0, fields);
    }

    /// Sections that refer to the dynamic table, before and behind their base, whatever the order of insertions.
    #[test]
    fn references_are_found(fields in fields(), base in 0usize..12) {
        let mut eager = Eager::default();
        let mut instructions = Vec::new();
        integer::encode(1 << 16, 5, 0x20, &mut instructions);
        fields.iter().for_each(|(name, value)| eager.insert(name, value, &mut instructions));
        let mut decoder = Decoder::new(1 << 16);
        decoder.instructions(&instructions, &mut Collect::default()).unwrap();
        let (required, base) = (fields.len(), base.min(fields.len()));
        let mut section = Vec::new();
        integer::encode(required % (2 * ((1 << 16) / 32)) + 1, 8, 0, &mut section);
        if base < required {
            integer::encode(required - base - 1, 7, 0x80, &mut section);
        } else {
            integer::encode(base - required, 7, 0, &mut section);
        }
        for at in 0..required {
            if at < base {
                integer::encode(base - at - 1, 6, 0x80, &mut section);
            } else {
                integer::encode(at - base, 4, 0x10, &mut section);
            }
        }
        let prefix = decoder.prefix(&section).unwrap();
        prop_assert_eq!(prefix.required, required as u64);
        let mut sink = Collect::default();
        decoder.decode(&section, prefix, FieldLimits::default(), &mut sink).unwrap();
        prop_assert_eq!(sink.0, fields);
    }
}
