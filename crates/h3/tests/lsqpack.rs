//! Against ls-qpack: what it has encoded with its dynamic table (`lsqpack.txt`, recorded by `lsqpack.py`) is read field by field.

use brisk_h3::qpack::Decoder;
use brisk_h3::{Field, FieldLimits, FieldSink};

#[derive(Default)]
struct Fields(Vec<(Vec<u8>, Vec<u8>)>);

impl FieldSink for Fields {
    fn tag(&mut self, _: &[u8]) -> u8 {
        0
    }

    fn field(&mut self, field: Field<'_>) {
        self.0.push((field.name.to_vec(), field.value.to_vec()));
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    (0..text.len()).step_by(2).map(digit).collect()
}

/// Decodes a section, which must not have to wait.
fn decoded(decoder: &mut Decoder, section: &[u8]) -> (Fields, u64) {
    let prefix = decoder.prefix(section).expect("a valid prefix");
    assert!(prefix.required <= decoder.inserts());
    let mut fields = Fields::default();
    decoder.decode(section, prefix, FieldLimits::default(), &mut fields).expect("a valid section");
    (fields, prefix.required)
}

#[test]
fn what_ls_qpack_encodes_is_read() {
    let mut decoder = Decoder::new(0);
    let mut want = Fields::default();
    let (mut sections, mut dynamic) = (0, 0);
    for line in include_str!("lsqpack.txt").lines() {
        if let Some((name, value)) = line.split_once('=') {
            assert!(!want.0.is_empty(), "a field that was not decoded");
            assert_eq!(want.0.remove(0), (hex(name), hex(value)), "section {sections}");
            continue;
        }
        assert!(want.0.is_empty(), "more was decoded than was encoded");
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["capacity", bytes] => decoder = Decoder::new(bytes.parse().expect("a number")),
            ["encoder", bytes] => {
                decoder.instructions(&hex(bytes), &mut Fields::default()).expect("valid instructions");
            }
            ["section", _, bytes] => {
                let required;
                (want, required) = decoded(&mut decoder, &hex(bytes));
                sections += 1;
                dynamic += usize::from(required > 0);
            }
            _ => panic!("{line:?}"),
        }
    }
    assert!(want.0.is_empty());
    assert_eq!(sections, 140);
    assert!(dynamic > 50, "{dynamic} sections use the dynamic table");
}
