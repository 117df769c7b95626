//! Invariants of the readers as plain functions over arbitrary bytes: they panic if one is broken.

use crate::jar::Jar;
use crate::response::{HeadCache, ResponseError, ResponseReader};
use crate::url::Url;

/// Responses, and how the last one ended.
type Found = (Vec<(u16, bool)>, Result<Option<u16>, ResponseError>);

fn read(data: &[u8], step: usize, cache: &mut HeadCache) -> Found {
    let (mut reader, mut found) = (ResponseReader::default(), Vec::new());
    for mut input in data.chunks(step) {
        while !input.is_empty() {
            match reader.read(&mut input, false, cache) {
                Ok(Some(head)) => found.push((head.status, head.close)),
                Ok(None) => assert!(input.is_empty(), "input is left without a response"),
                Err(error) => return (found, Err(error)),
            }
        }
    }
    (found, reader.end().map(|head| head.map(|head| head.status)))
}

/// A server's bytes: pieces do not matter, nor does what was remembered of earlier heads. Of broken ones the first fault
/// that is seen may differ.
pub fn fuzz_responses(data: &[u8]) {
    let whole = read(data, data.len().max(1), &mut HeadCache::default());
    let mut cache = HeadCache::default();
    for step in [data.len().max(1), 1, 3, 7] {
        let found = read(data, step, &mut cache);
        assert_eq!(found.0, whole.0, "{step} bytes at a time");
        assert_eq!(found.1.is_ok(), whole.1.is_ok(), "{step} bytes at a time: {:?}, {:?}", found.1, whole.1);
    }
}

/// URLs and cookies: a URL prints as what it is, references lead to URLs, and what a jar gives can be sent.
pub fn fuzz_url(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let base = Url::parse("http://a.b/c/d?e").unwrap_or_else(|error| panic!("{error}"));
    let urls = [Url::parse(first).ok(), base.join(first), Some(base)];
    let mut jar = Jar::default();
    for url in urls.iter().flatten() {
        assert_eq!(Url::parse(&url.to_string()).as_ref(), Ok(url));
        assert!(url.path.starts_with('/') && !url.path.contains(['\r', '\n', ' ']), "{url:?}");
        rest.lines().for_each(|line| jar.set(url, line));
    }
    for header in urls.iter().flatten().filter_map(|url| jar.header(url)) {
        assert!(!header.contains(['\r', '\n', '\0']), "{header:?}");
    }
}
