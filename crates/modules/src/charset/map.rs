//! `charset_map`: a table between two charsets.

use brisk_conf::{Diag, Directive, Token};
use std::collections::HashMap;

/// A table in both directions. Only the second charset can be UTF-8.
/// It is one byte to one character: nginx has no tables of charsets with more bytes for a character.
pub struct Map {
    names: [Box<[u8]>; 2],
    pub tables: Tables,
}

/// What is not in a map is sent as a question mark.
const UNKNOWN: u8 = b'?';

pub enum Tables {
    Bytes { forth: Box<[u8; 256]>, back: Box<[u8; 256]> },
    Utf8 { encode: Box<[Encoded; 256]>, decode: HashMap<char, u8> },
}

/// A byte's UTF-8 form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    len: u8,
    bytes: [u8; 3],
}

impl Encoded {
    fn one(byte: u8) -> Encoded {
        Encoded { len: 1, bytes: [byte, 0, 0] }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// In which direction a map is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forth,
    Back,
}

/// ASCII stays what it is.
fn identity() -> Box<[u8; 256]> {
    let mut table = Box::new([UNKNOWN; 256]);
    // The upper half is what maps are about.
    for byte in 0..128 {
        table[usize::from(byte)] = byte;
    }
    table
}

impl Map {
    pub fn parse(d: &Directive) -> Result<Map, Diag> {
        let (a, b) = (d.arg(0), d.arg(1));
        let fail = |message: String| Err(Diag::emerg(d.span, message));
        if a.bytes().eq_ignore_ascii_case(b.bytes()) {
            return fail(format!(
                "\"charset_map\" between the same charsets \"{}\" and \"{}\"",
                a.text(),
                b.text()
            ));
        }
        if a.bytes().eq_ignore_ascii_case(b"utf-8") {
            // nginx's rule and words: the table is from bytes to characters.
            return fail(
                "\"charset_map\" with \"utf-8\" charset should be given in the second column".into(),
            );
        }
        let lines = d.block.as_deref().unwrap_or_default();
        let tables = if b.bytes().eq_ignore_ascii_case(b"utf-8") { utf8(lines)? } else { bytes(lines)? };
        Ok(Map { names: [a.bytes().into(), b.bytes().into()], tables })
    }

    /// Whether the map leads from one charset to the other.
    pub fn connects(&self, from: &[u8], to: &[u8]) -> Option<Direction> {
        let [a, b] = &self.names;
        let is = |x: &[u8], y: &[u8]| from.eq_ignore_ascii_case(x) && to.eq_ignore_ascii_case(y);
        // In both directions by one table: who writes a map writes it once.
        if is(a, b) {
            Some(Direction::Forth)
        } else if is(b, a) {
            Some(Direction::Back)
        } else {
            None
        }
    }
}

fn invalid(token: &Token) -> Diag {
    Diag::emerg(token.span, format!("invalid value \"{}\"", token.text()))
        .help("write two values in hexadecimal, such as C1 E1 or, to utf-8, C1 D0B0")
}

/// A line's byte of the first charset, and the token of the second.
fn line(line: &Directive) -> Result<(u8, &Token), Diag> {
    match line.args.as_slice() {
        [value] if line.block.is_none() => Ok((hex(&line.name).ok_or_else(|| invalid(&line.name))?, value)),
        _ => Err(Diag::emerg(line.span, "invalid parameters number").help("a line has two values")),
    }
}

fn hex(token: &Token) -> Option<u8> {
    let text = token.str();
    text.bytes()
        .all(|b| b.is_ascii_hexdigit())
        .then(|| u64::from_str_radix(text, 16).ok()?.try_into().ok())
        .flatten()
}

fn bytes(lines: &[Directive]) -> Result<Tables, Diag> {
    let (mut forth, mut back) = (identity(), identity());
    for directive in lines {
        let (source, token) = line(directive)?;
        let target = hex(token).ok_or_else(|| invalid(token))?;
        forth[usize::from(source)] = target;
        // Of two bytes with the same target the last one is the way back.
        back[usize::from(target)] = source;
    }
    Ok(Tables::Bytes { forth, back })
}

fn utf8(lines: &[Directive]) -> Result<Tables, Diag> {
    let mut encode = Box::new(identity().map(Encoded::one));
    let mut decode = HashMap::new();
    for directive in lines {
        let (source, token) = line(directive)?;
        let (encoded, character) = utf8_character(token).ok_or_else(|| invalid(token))?;
        encode[usize::from(source)] = encoded;
        // Of two bytes with one character the last one is the way back, as above.
        decode.insert(character, source);
    }
    Ok(Tables::Utf8 { encode, decode })
}

/// One character of at most three bytes, in hexadecimal.
fn utf8_character(token: &Token) -> Option<(Encoded, char)> {
    let pairs: Option<Vec<u8>> = token
        .bytes()
        .chunks(2)
        .map(|pair| {
            // A sign would be read as part of a number.
            let text =
                std::str::from_utf8(pair).ok().filter(|text| text.len() == 2 && !text.contains('+'))?;
            u8::from_str_radix(text, 16).ok()
        })
        .collect();
    let raw = pairs.filter(|raw| raw.len() <= 3)?;
    // Exactly one: a byte cannot become two characters.
    let mut characters = std::str::from_utf8(&raw).ok()?.chars();
    let (Some(character), None) = (characters.next(), characters.next()) else { return None };
    let mut bytes = [0; 3];
    bytes[..raw.len()].copy_from_slice(&raw);
    Some((Encoded { len: raw.len() as u8, bytes }, character))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use brisk_conf::{NoFiles, SourceMap};

    /// A map from `charset_map … { … }`.
    pub fn map(text: &str) -> Result<Map, String> {
        let mut sources = SourceMap::default();
        let file = sources.add("f", text.as_bytes().to_vec());
        let tree = brisk_conf::parse(&mut sources, file, &NoFiles, &mut Vec::new());
        Map::parse(&tree[0]).map_err(|diag| diag.message)
    }

    #[test]
    fn faults_are_told() {
        let check = |text: &str, want: &str| assert_eq!(map(text).err().unwrap(), want, "{text}");
        check("charset_map a A {}", "\"charset_map\" between the same charsets \"a\" and \"A\"");
        check(
            "charset_map UTF-8 a {}",
            "\"charset_map\" with \"utf-8\" charset should be given in the second column",
        );
        check("charset_map a b { 80; }", "invalid parameters number");
        check("charset_map a b { 80 81 82; }", "invalid parameters number");
        check("charset_map a b { 100 81; }", "invalid value \"100\"");
        check("charset_map a b { 80 xy; }", "invalid value \"xy\"");
        check("charset_map a utf-8 { 80 FFFFFF; }", "invalid value \"FFFFFF\"");
        check("charset_map a utf-8 { 80 F09F9880; }", "invalid value \"F09F9880\"");
        check("charset_map a utf-8 { 80 E282A; }", "invalid value \"E282A\"");
        check("charset_map a utf-8 { 80 4142; }", "invalid value \"4142\"");
    }

    #[test]
    fn directions() {
        let map = map("charset_map A B { 58 59; }").unwrap();
        assert_eq!(map.connects(b"a", b"b"), Some(Direction::Forth));
        assert_eq!(map.connects(b"B", b"A"), Some(Direction::Back));
        assert_eq!(map.connects(b"a", b"c"), None);
    }
}
