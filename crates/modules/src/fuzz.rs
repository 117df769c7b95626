//! Fuzz targets of what modules make of strangers' bytes (`crates/fuzz` runs them).

use crate::ssi::parser::{Event, Parser};
use crate::sub_filter::replacer::{Outcome, Patterns, Replacer};
use std::sync::Arc;

pub use crate::memcached::fuzz as fuzz_memcached;
pub use crate::mp4::fuzz as fuzz_mp4;

/// Any page cut at any place: the same comes of it as of the whole, and nothing is lost but commands.
pub fn fuzz_ssi(data: &[u8]) {
    // The first byte says where to cut, so that the fuzzer can change it.
    let Some((&cut, page)) = data.split_first() else { return };
    let cut = usize::from(cut).min(page.len());
    let whole = ssi(&[page]);
    assert_eq!(ssi(&[&page[..cut], &page[cut..]]), whole);
    assert_eq!(ssi(&page.chunks(1).collect::<Vec<_>>()), whole);
    if memchr::memmem::find(page, b"<!--#").is_none() {
        assert_eq!(whole, page);
    }
}

/// Texts as they are; commands as they would be written, mistakes as their messages, each after a NUL.
fn ssi(pieces: &[&[u8]]) -> Vec<u8> {
    // Short values, so that the bound is met often.
    let mut parser = Parser::new(64);
    let mut out = Vec::new();
    let mut write = |event: Event<'_>| match event {
        Event::Text(text) => out.extend_from_slice(text),
        Event::Command(command) => {
            assert!(command.name.len() <= 32 && command.params.len() <= 17);
            // nginx's limits: what is longer is a message, not a command.
            assert!(command.params.iter().all(|(name, value)| name.len() <= 32 && value.len() <= 64));
            out.push(0);
            command.write(&mut out);
        }
        Event::Bad(message) => {
            out.push(0);
            out.extend_from_slice(message.as_bytes());
        }
    };
    for piece in pieces {
        let mut at = 0;
        while let Some(event) = parser.next(piece, &mut at) {
            write(event);
        }
        assert_eq!(at, piece.len());
    }
    parser.finish().map(write);
    out
}

/// Any patterns and any text, lines of the input, cut at any place: what comes out does not depend on the cut, and is
/// what looking at each place in turn would give.
pub fn fuzz_sub_filter(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else { return };
    // The rest of that byte is the cut.
    let (once, cut) = (first & 1 == 1, usize::from(first >> 1));
    let mut lines: Vec<&[u8]> = rest.split(|b| *b == b'\n').collect();
    let text = lines.pop().unwrap_or_default();
    let patterns: Vec<Vec<u8>> = lines.into_iter().filter(|p| !p.is_empty()).map(<[u8]>::to_vec).collect();
    if patterns.is_empty() {
        return;
    }
    let want = replaced_slowly(&patterns, once, text);
    // Without regard to case, as the directive has it.
    let shared = Arc::new(Patterns::new(patterns, true).expect("few short patterns"));
    let cut = cut.min(text.len());
    assert_eq!(replaced(&shared, once, &[text]), want);
    assert_eq!(replaced(&shared, once, &[&text[..cut], &text[cut..]]), want);
    assert_eq!(replaced(&shared, once, &text.chunks(1).collect::<Vec<_>>()), want);
}

fn value(pattern: usize) -> Vec<u8> {
    format!("[{pattern}]").into_bytes()
}

fn replaced(patterns: &Arc<Patterns>, once: bool, pieces: &[&[u8]]) -> Vec<u8> {
    let values = (0..patterns.count()).map(value).collect();
    let mut replacer = Replacer::new(patterns.clone(), values, once);
    let mut out = Vec::new();
    for piece in pieces {
        // `Same` is how a piece without a match is given back, uncopied.
        if replacer.feed(piece, &mut out) == Outcome::Same {
            out.extend_from_slice(piece);
        }
    }
    replacer.finish(&mut out);
    out
}

fn replaced_slowly(patterns: &[Vec<u8>], once: bool, text: &[u8]) -> Vec<u8> {
    let mut used = vec![false; patterns.len()];
    let mut out = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let is_here = |pattern: &[u8]| {
            text[at..].get(..pattern.len()).is_some_and(|head| head.eq_ignore_ascii_case(pattern))
        };
        // The first of the list that fits, as the directive promises.
        match (0..patterns.len()).find(|&i| !(once && used[i]) && is_here(&patterns[i])) {
            Some(pattern) => {
                used[pattern] = true;
                out.extend(value(pattern));
                at += patterns[pattern].len();
            }
            None => {
                out.push(text[at]);
                at += 1;
            }
        }
    }
    out
}
