//! Places in files of nginx's language. They are read as nginx does, each file where another one includes it: that says in which block a
//! directive stands.

use super::{File, Place, Places, Refused, VALUE};
use brisk_conf::{Directive, Level, Loader, SourceMap, Span, Token};
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

/// Blocks whose directives are others than those of the same names in `http`.
const FOREIGN: &[&str] = &["upstream", "stream", "mail"];

/// Gives the files that are known; an `include` of any other one gives nothing.
struct Known<'a>(&'a [File]);

impl Loader for Known<'_> {
    fn resolve(&self, path: &str) -> String {
        // Relative paths begin at the main file's folder.
        let folder = self.0.first().and_then(|main| Path::new(&main.name).parent());
        folder.map_or_else(|| path.to_owned(), |folder| folder.join(path).to_string_lossy().into_owned())
    }

    fn read(&self, path: &str) -> io::Result<Arc<[u8]>> {
        let file = self.0.iter().find(|file| file.name == path);
        Ok(file.map_or_else(|| Arc::from([]), |file| Arc::from(&file.text[..])))
    }

    fn glob(&self, pattern: &str) -> io::Result<Vec<String>> {
        let mut names: Vec<String> = self.0.iter().map(|file| file.name.clone()).collect();
        names.retain(|name| fits(pattern.as_bytes(), name.as_bytes()));
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn addresses(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }
}

/// Whether a name fits a pattern of `*`, `?` and `[…]`, each for anything but a `/`: which of the known files are meant is all that is asked.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let is_one = |name: &[u8]| name.first().is_some_and(|byte| *byte != b'/');
    match pattern {
        [] => name.is_empty(),
        [b'*', rest @ ..] => fits(rest, name) || is_one(name) && fits(pattern, &name[1..]),
        [b'?', rest @ ..] => is_one(name) && fits(rest, &name[1..]),
        [b'[', rest @ ..] => {
            let end = rest.iter().skip(1).position(|byte| *byte == b']').map_or(rest.len(), |at| at + 2);
            is_one(name) && fits(&rest[end..], &name[1..])
        }
        [byte, rest @ ..] => name.first() == Some(byte) && fits(rest, &name[1..]),
    }
}

/// What the files say, as nginx reads them.
struct Text<'a> {
    files: &'a [File],
    sources: SourceMap,
    /// The main file with all that it includes; then each file that none of these includes, as a part of `http`.
    trees: Vec<(&'static [&'static str], Vec<Directive>)>,
}

impl Text<'_> {
    fn read(files: &[File]) -> Result<Text<'_>, Refused> {
        let mut text = Text { files, sources: SourceMap::default(), trees: Vec::new() };
        for (index, file) in files.iter().enumerate() {
            if text.sources.files().iter().any(|have| have.name == file.name) {
                continue;
            }
            let mut diags = Vec::new();
            let id = text.sources.add(file.name.clone(), file.text.clone());
            let tree = brisk_conf::parse(&mut text.sources, id, &Known(files), &mut diags);
            if let Some(diag) = diags.iter().find(|diag| diag.level <= Level::Error) {
                return Err(Refused::new(diag.render(&text.sources)));
            }
            let above: &[&str] = if index == 0 { &[] } else { &["http"] };
            text.trees.push((above, tree));
        }
        Ok(text)
    }

    /// All directives with the blocks that they stand in, in the order in which they are read.
    fn all(&self) -> Vec<Found<'_>> {
        let mut found = Vec::new();
        for &(outside, ref tree) in &self.trees {
            walk(tree, outside, &[], &mut found);
        }
        found
    }

    /// Which of the files this is: one that is included twice may be there twice.
    fn files_of(&self, span: Span) -> Vec<usize> {
        let name = &self.sources.file(span.file).name;
        (0..self.files.len()).filter(|index| self.files[*index].name == *name).collect()
    }
}

/// A directive with the blocks around it.
struct Found<'a> {
    /// Blocks around its file.
    outside: &'static [&'static str],
    within: Vec<&'a Directive>,
    directive: &'a Directive,
}

impl Found<'_> {
    /// The names of the blocks, the outermost first.
    fn above(&self) -> Vec<&str> {
        self.outside.iter().copied().chain(self.within.iter().map(|block| block.name())).collect()
    }
}

fn walk<'a>(
    tree: &'a [Directive],
    outside: &'static [&'static str],
    within: &[&'a Directive],
    found: &mut Vec<Found<'a>>,
) {
    for directive in tree {
        found.push(Found { outside, within: within.to_vec(), directive });
        if let Some(block) = &directive.block {
            walk(block, outside, &[within, &[directive]].concat(), found);
        }
    }
}

fn range(span: Span) -> std::ops::Range<usize> {
    span.start as usize..span.end as usize
}

/// A directive that stands somewhere.
struct Written<'a> {
    above: Vec<&'a str>,
    within: &'a [&'a Directive],
    words: Vec<&'a [u8]>,
    place: Place,
}

impl Written<'_> {
    fn is_in_location(&self) -> bool {
        self.above.contains(&"location")
    }

    /// Whether this holds where the other one stands, if nothing between them says otherwise.
    fn is_around(&self, other: &Self) -> bool {
        let is_prefix = || {
            self.within.len() <= other.within.len()
                && self.within.iter().zip(other.within).all(|(own, others)| std::ptr::eq(*own, *others))
        };
        self.above.len() <= 1 || is_prefix()
    }
}

/// Where a directive stands with the value that holds; where it does not, the beginning of the first block of that name. Other values are
/// exceptions that somebody has made, and so is what a location says where the blocks around it say nothing: they are not among the places.
pub(super) fn directive(files: &[File], name: &str, block: &str) -> Result<Places, Refused> {
    let text = Text::read(files)?;
    let all = text.all();
    let mut written: Vec<Written<'_>> = Vec::new();
    for found in &all {
        let (above, directive) = (found.above(), found.directive);
        let is_foreign = above.iter().any(|name| FOREIGN.contains(name));
        if is_foreign || directive.name() != name || directive.block.is_some() {
            continue;
        }
        if let (Some(first), Some(last)) = (directive.args.first(), directive.args.last()) {
            let (range, words) = (range(first.span.to(last.span)), words(directive));
            for file in text.files_of(directive.span) {
                let place = Place { file, range: range.clone(), before: "" };
                let (above, words) = (above.clone(), words.clone());
                written.push(Written { above, within: &found.within, words, place });
            }
        }
    }
    // The outermost one holds for most requests.
    written.sort_by_key(|one| (one.above.len(), one.place.file, one.place.range.start));
    let is_own = |one: &Written<'_>| one.above.last().is_none_or(|last| *last == block);
    let mut places = Places { is_inside_only: !written.iter().any(is_own), ..Places::default() };
    let first = written.first().map(|one| one.words.clone());
    let same: Vec<Written<'_>> =
        written.into_iter().filter(|one| Some(&one.words) == first.as_ref()).collect();
    let holds = |one: &Written<'_>| {
        !one.is_in_location() || same.iter().any(|outer| !outer.is_in_location() && outer.is_around(one))
    };
    for one in same.iter().filter(|one| holds(one)) {
        let is_known =
            |have: &Place| (have.file, have.range.start) == (one.place.file, one.place.range.start);
        if !places.written.iter().any(is_known) {
            places.written.push(one.place.clone());
        }
    }
    if places.written.is_empty() {
        places.in_location = same.first().map(|one| one.place.clone());
    }
    places.missing = match block {
        "" => files.first().map(|main| (0, start_of(&main.text), format!("{name} {VALUE};\n"))),
        _ => all
            .iter()
            .map(|found| found.directive)
            .find(|directive| directive.name() == block && directive.block.is_some())
            .and_then(|opener| {
                let file = *text.files_of(opener.span).first()?;
                let source = &files[file].text;
                Some((file, inside(source, opener), line(source, opener, name)))
            }),
    };
    Ok(places)
}

/// Whether a directive stands directly in a block of this name; with this first parameter, if one is asked for.
pub(super) fn stands(files: &[File], name: &str, block: &str, first: Option<&str>) -> Result<bool, Refused> {
    let text = Text::read(files)?;
    let all = text.all();
    let is_it = |found: &Found<'_>| {
        let is_here = found.above().last().copied().unwrap_or_default() == block;
        let has_first = first.is_none_or(|first| {
            found.directive.args.first().is_some_and(|arg| arg.bytes() == first.as_bytes())
        });
        found.directive.name() == name && is_here && has_first
    };
    Ok(all.iter().any(is_it))
}

/// A directive's parameters without what quotes them.
fn words(directive: &Directive) -> Vec<&[u8]> {
    directive.args.iter().map(Token::bytes).collect()
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
    // What an included file says stands elsewhere.
    let mut inner = opener.block.iter().flatten().filter(|inner| inner.span.file == opener.span.file);
    let first = inner.next().map(|directive| directive.span.start as usize);
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
    let text = Text::read(files)?;
    let mut places = Places::default();
    let mut bare: Vec<(&[u8], Place)> = Vec::new();
    let mut given: Vec<&[u8]> = Vec::new();
    let all = text.all();
    for directive in all.iter().map(|found| found.directive).filter(|directive| directive.name() == name) {
        let (Some(first), Some(last)) = (directive.args.first(), directive.args.last()) else { continue };
        let Some(file) = text.files_of(directive.span).first().copied() else { continue };
        let (key, word) = (first.bytes(), prefix.trim_start());
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
    for (key, place) in bare {
        if !given.contains(&key) {
            places.written.push(place);
        }
    }
    Ok(places)
}
