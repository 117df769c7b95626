//! Places in files of nginx's language. Each file is read alone: what it includes is one of the others.

use super::{File, Place, Places, Refused, VALUE};
use brisk_conf::{Directive, Level, Loader, SourceMap, Span};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// Gives nothing for an `include`.
struct Alone;

impl Loader for Alone {
    fn resolve(&self, path: &str) -> String {
        path.to_string()
    }

    fn read(&self, _: &str) -> io::Result<Arc<[u8]>> {
        Ok(Arc::from([]))
    }

    fn glob(&self, _: &str) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn addresses(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }
}

fn tree(file: &File) -> Result<Vec<Directive>, Refused> {
    let (mut sources, mut diags) = (SourceMap::default(), Vec::new());
    let id = sources.add(file.name.clone(), file.text.clone());
    let tree = brisk_conf::parse(&mut sources, id, &Alone, &mut diags);
    match diags.iter().find(|diag| diag.level <= Level::Error) {
        Some(diag) => Err(Refused::new(diag.render(&sources))),
        None => Ok(tree),
    }
}

fn range(span: Span) -> std::ops::Range<usize> {
    span.start as usize..span.end as usize
}

/// All directives with how deep they stand, in the order of the text.
fn walk<'a>(tree: &'a [Directive], depth: usize, found: &mut Vec<(usize, &'a Directive)>) {
    for directive in tree {
        found.push((depth, directive));
        if let Some(block) = &directive.block {
            walk(block, depth + 1, found);
        }
    }
}

/// Where a directive stands; where it does not, the beginning of the first block of that name.
pub(super) fn directive(files: &[File], name: &str, block: &str) -> Result<Places, Refused> {
    let mut places = Places::default();
    // The file that comes first is the main one: others begin inside of the block that includes them.
    let mut written: Vec<(usize, Place)> = Vec::new();
    for (file, source) in files.iter().enumerate() {
        let tree = tree(source)?;
        let mut all = Vec::new();
        walk(&tree, usize::from(file > 0), &mut all);
        for (depth, directive) in &all {
            if directive.name() != name || directive.block.is_some() {
                continue;
            }
            if let (Some(first), Some(last)) = (directive.args.first(), directive.args.last()) {
                let range = range(first.span.to(last.span));
                written.push((*depth, Place { file, range, before: "" }));
            }
        }
        if places.missing.is_none() {
            places.missing = match block {
                "" if file == 0 => Some((0, start_of(&source.text), format!("{name} {VALUE};\n"))),
                "" => None,
                _ => all
                    .iter()
                    .find(|(_, directive)| directive.name() == block && directive.block.is_some())
                    .map(|(_, opener)| {
                        (file, inside(&source.text, opener), line(&source.text, opener, name))
                    }),
            };
        }
    }
    // The outermost one holds for most requests.
    written.sort_by_key(|(depth, place)| (*depth, place.file, place.range.start));
    places.written = written.into_iter().map(|(_, place)| place).collect();
    Ok(places)
}

fn start_of(text: &[u8]) -> usize {
    if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 }
}

/// The byte behind the `{`.
fn inside(text: &[u8], opener: &Directive) -> usize {
    let from = opener.args.last().map_or(opener.name.span.end, |last| last.span.end) as usize;
    text[from..].iter().position(|byte| *byte == b'{').map_or(from, |at| from + at + 1)
}

/// The line for the beginning of a block, indented as its first directive is.
fn line(text: &[u8], opener: &Directive, name: &str) -> String {
    let first = opener.block.iter().flatten().next().map(|directive| directive.span.start as usize);
    let indent = first.map(|at| {
        let from = text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        &text[from..at]
    });
    match indent {
        // The first directive stands on the line of the brace.
        Some(indent) if !indent.iter().all(u8::is_ascii_whitespace) => format!(" {name} {VALUE};"),
        Some(indent) => format!("\n{}{name} {VALUE};", String::from_utf8_lossy(indent)),
        None => format!(" {name} {VALUE};"),
    }
}

/// Where a directive has a parameter with this prefix; where it has none, behind its last parameter. Each value of the first parameter
/// counts once: of several `listen` of one address only one may have options.
pub(super) fn parameter(files: &[File], name: &str, prefix: &'static str) -> Result<Places, Refused> {
    let mut places = Places::default();
    let mut bare: Vec<(Vec<u8>, Place)> = Vec::new();
    let mut given: Vec<Vec<u8>> = Vec::new();
    for (file, source) in files.iter().enumerate() {
        let tree = tree(source)?;
        let mut all = Vec::new();
        walk(&tree, 0, &mut all);
        for (_, directive) in all.iter().filter(|(_, directive)| directive.name() == name) {
            let (Some(first), Some(last)) = (directive.args.first(), directive.args.last()) else { continue };
            let key = first.bytes().to_vec();
            let word = prefix.trim_start();
            let option = directive.args.iter().find(|arg| arg.bytes().starts_with(word.as_bytes()));
            if let Some(option) = option {
                let mut range = range(option.span);
                range.start += word.len();
                places.written.push(Place { file, range, before: "" });
                given.push(key);
            } else if !bare.iter().any(|(have, _)| *have == key) {
                let end = last.span.end as usize;
                bare.push((key, Place { file, range: end..end, before: prefix }));
            }
        }
    }
    for (key, place) in bare {
        if !given.contains(&key) {
            places.written.push(place);
        }
    }
    Ok(places)
}
