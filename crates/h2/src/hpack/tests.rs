//! The RFC's examples, limits, and what other implementations say.

use super::*;
use brisk_mux::LimitError;
use proptest::prelude::*;

#[derive(Default)]
struct Collect(Vec<(String, String)>);

impl FieldSink for Collect {
    fn tag(&mut self, name: &[u8]) -> u8 {
        name[0]
    }

    fn field(&mut self, field: Field<'_>) {
        assert_eq!(field.tag, field.name[0]);
        self.0.push((text(field.name), text(field.value)));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(u8::is_ascii_hexdigit)
        .map(|b| char::from(b).to_digit(16).unwrap() as u8)
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<(String, String)>, HpackError> {
    let mut sink = Collect::default();
    decoder.decode(block, Limits::default(), &mut sink).map(|()| sink.0)
}

fn check(decoder: &mut Decoder, block: &str, want: &str, table_size: usize) {
    let fields = decode(decoder, &hex(block)).unwrap();
    let shown: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    assert_eq!(shown.join("|"), want);
    assert_eq!(decoder.table_size(), table_size, "{want}");
}

/// RFC 7541 C.3 and C.4: requests, without and with Huffman coding.
#[test]
fn requests_of_the_rfc() {
    let first = ":method: GET|:scheme: http|:path: /|:authority: www.example.com";
    let second = format!("{first}|cache-control: no-cache");
    let third =
        ":method: GET|:scheme: https|:path: /index.html|:authority: www.example.com|custom-key: custom-value";
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let coded = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    for blocks in [plain, coded] {
        let mut decoder = Decoder::new(4096);
        check(&mut decoder, blocks[0], first, 57);
        check(&mut decoder, blocks[1], &second, 110);
        check(&mut decoder, blocks[2], third, 164);
    }
}

/// RFC 7541 C.6: responses with evictions from a table of 256 bytes.
#[test]
fn responses_of_the_rfc() {
    let mut decoder = Decoder::new(256);
    let first = ":status: 302|cache-control: private|date: Mon, 21 Oct 2013 20:13:21 GMT|location: https://www.example.com";
    check(
        &mut decoder,
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        first,
        222,
    );
    check(&mut decoder, "4883 640e ffc1 c0bf", &first.replace("302", "307"), 222);
    check(
        &mut decoder,
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
        ":status: 200|cache-control: private|date: Mon, 21 Oct 2013 20:13:22 GMT|location: https://www.example.com|content-encoding: gzip|set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
        215,
    );
}

#[test]
fn bad_blocks() {
    let check = |block: &str, want: HpackError| {
        let mut decoder = Decoder::new(100);
        assert_eq!(decode(&mut decoder, &hex(block)), Err(want), "{block}");
    };
    check("80", HpackError::Index);
    check("be", HpackError::Index);
    check("ff00", HpackError::Index);
    check("7f", HpackError::Truncated);
    check("ffffffffffff", HpackError::Integer);
    check("ff8080808000", HpackError::Integer);
    check("4001", HpackError::Truncated);
    check("400161", HpackError::Truncated);
    check("40016102", HpackError::Truncated);
    check("4000", HpackError::Truncated);
    check("400000", HpackError::EmptyName);
    check("4080 00", HpackError::EmptyName);
    check("3f46", HpackError::TableSize);
    check("82 20", HpackError::LateSizeUpdate);
    // Padding of eight bits, of zeros, and EOS itself (RFC 7541 §5.2).
    check("0001618207ff", HpackError::Huffman);
    check("000161811e", HpackError::Huffman);
    check("00016184ffffffff", HpackError::Huffman);
}

#[test]
fn limits_come_before_memory() {
    let limits = Limits { string_bytes_max: 100, list_bytes_max: 1000, fields_max: 20, long_padding: false };
    let run = |block: &[u8]| {
        let mut sink = Collect::default();
        let result = Decoder::new(4096).decode(block, limits, &mut sink);
        (result, sink.0.len())
    };
    let mut bomb = Vec::new();
    bomb.extend_from_slice(&hex("4001 6164"));
    bomb.extend_from_slice(&[b'x'; 100]);
    // Each byte more is a field of a hundred.
    bomb.extend_from_slice(&[0xbe; 5000]);
    assert_eq!(run(&bomb), (Err(HpackError::Limit(LimitError::List)), 9));
    // Empty cookie crumbs.
    assert_eq!(run(&[0xa0; 5000]), (Err(HpackError::Limit(LimitError::Fields)), 20));
    assert_eq!(run(&hex("0001 61 65")), (Err(HpackError::Limit(LimitError::String)), 0));
    assert_eq!(run(&hex("00 7f 80 80 10")), (Err(HpackError::Limit(LimitError::String)), 0));
}

#[test]
fn the_size_of_the_table_is_agreed() {
    let mut decoder = Decoder::new(4096);
    decode(&mut decoder, &hex("4001 6101 62 4001 6301 64")).unwrap();
    assert_eq!(decoder.table_size(), 68);
    decoder.set_size_max(40);
    assert_eq!(decode(&mut decoder, &hex("be")), Err(HpackError::MissingSizeUpdate));
    assert_eq!(decode(&mut decoder, &hex("3f09 be")).unwrap(), [("c".to_string(), "d".to_string())]);
    assert_eq!(decoder.table_size(), 34);
    assert_eq!(decode(&mut decoder, &hex("20 be")), Err(HpackError::Index));

    let mut encoder = Encoder::new(4096);
    let mut block = Vec::new();
    encoder.field(b"a", b"b", Indexing::Add, &mut block);
    encoder.set_size_max(0);
    encoder.set_size_max(100);
    block.clear();
    encoder.begin(&mut block);
    encoder.field(b"a", b"b", Indexing::Add, &mut block);
    assert_eq!(block, hex("20 3f45 40 0161 0162"));
}

#[test]
fn the_static_table_finds_its_names() {
    for (at, (name, _)) in table::STATIC.iter().enumerate() {
        let first = table::static_name(name).unwrap();
        assert!(first <= at + 1 && table::STATIC[first - 1].0 == *name);
    }
    assert_eq!(table::static_name(b"x-y"), None);
}

#[test]
fn stateless_fields() {
    let mut block = Vec::new();
    write_status(200, &mut block);
    write_status(431, &mut block);
    write_literal(b"x-key", b"value!", &mut block);
    write_literal(b"server", b"", &mut block);
    let at = write_named(33, b"Mon, 21 Oct 2013 20:13:21 GMT", &mut block);
    block[at..at + 3].copy_from_slice(b"Tue");
    let mut decoder = Decoder::new(0);
    let fields = decode(&mut decoder, &block).unwrap();
    let shown: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let want =
        [":status: 200", ":status: 431", "x-key: value!", "server: ", "date: Tue, 21 Oct 2013 20:13:21 GMT"];
    assert_eq!(shown, want);
}

/// Names and values as they are, with repetitions: what is sent again can be indexed.
fn fields() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    let name = prop_oneof![
        Just(b":path".to_vec()),
        Just(b"cookie".to_vec()),
        Just(b"content-type".to_vec()),
        "[a-e]{1,3}".prop_map(String::into_bytes),
    ];
    let value = prop_oneof![
        Just(b"/".to_vec()),
        "[x-z]{0,2}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..60),
    ];
    proptest::collection::vec((name, value), 1..12)
}

fn other_decoder(decoder: &mut fluke_hpack::Decoder<'_>, block: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    decoder.decode(block).expect("the other implementation reads it")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// What we encode, another implementation reads, block after block.
    #[test]
    fn others_read_what_we_write(blocks in proptest::collection::vec(fields(), 1..6)) {
        let mut encoder = Encoder::new(200);
        let (mut other, mut ours) = (fluke_hpack::Decoder::new(), Decoder::new(4096));
        encoder.set_size_max(150);
        for fields in blocks {
            let mut block = Vec::new();
            encoder.begin(&mut block);
            for (at, (name, value)) in fields.iter().enumerate() {
                let indexing = [Indexing::Add, Indexing::Add, Indexing::Without, Indexing::Never][at % 4];
                encoder.field(name, value, indexing, &mut block);
            }
            prop_assert_eq!(&other_decoder(&mut other, &block), &fields);
            let mut sink = Raw::default();
            ours.decode(&block, Limits::default(), &mut sink).unwrap();
            prop_assert_eq!(&sink.0, &fields);
        }
    }

    /// What another implementation encodes, we read.
    #[test]
    fn we_read_what_others_write(blocks in proptest::collection::vec(fields(), 1..6)) {
        let (mut other, mut ours) = (fluke_hpack::Encoder::new(), Decoder::new(4096));
        for fields in blocks {
            let block = other.encode(fields.iter().map(|(name, value)| (&name[..], &value[..])));
            let mut sink = Raw::default();
            ours.decode(&block, Limits::default(), &mut sink).unwrap();
            prop_assert_eq!(sink.0, fields);
        }
    }

    #[test]
    fn texts_survive_the_huffman_code(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        crate::fuzz::fuzz_huffman(&text);
    }
}

#[derive(Default)]
struct Raw(Vec<(Vec<u8>, Vec<u8>)>);

impl FieldSink for Raw {
    fn tag(&mut self, _: &[u8]) -> u8 {
        0
    }

    fn field(&mut self, field: Field<'_>) {
        self.0.push((field.name.to_vec(), field.value.to_vec()));
    }
}
