//! Places in Apache's files. Settings of the whole server are meant: those that stand outside of all sections but `IfModule` and `IfDefine`.

use super::{File, Place, Places, Refused, VALUE};
use crate::limits::LINE_BYTES_MAX;
use crate::site::of_whole_server;
use brisk_apache::syntax;
use std::ops::Range;

/// All lines that set it; where there is none, the end of the first file.
pub(super) fn places(files: &[File], name: &str) -> Result<Places, Refused> {
    let mut places = Places::default();
    for (index, file) in files.iter().enumerate() {
        let nodes = syntax::read(&file.text, LINE_BYTES_MAX)
            .map_err(|mistake| Refused::new(format!("{}: {mistake}", file.name)))?;
        for line in of_whole_server(&nodes).into_iter().filter(|node| node.is(name)).map(|node| node.line) {
            let range = value(&file.text, line as usize, name).ok_or_else(|| {
                Refused::new(format!(
                    "{}:{line}: {name} goes over several lines: write it into one",
                    file.name
                ))
            })?;
            places.written.push(Place { file: index, range, before: "" });
        }
    }
    // The last one wins.
    places.written.reverse();
    places.missing = files.first().map(|file| {
        let newline = if file.text.is_empty() || file.text.ends_with(b"\n") { "" } else { "\n" };
        (0, file.text.len(), format!("{newline}{name} {VALUE}\n"))
    });
    Ok(places)
}

/// The place of the value on a line, from 1; `None` if the line does not begin with the name.
fn value(text: &[u8], line: usize, name: &str) -> Option<Range<usize>> {
    let mut start = 0;
    for _ in 1..line {
        start += text[start..].iter().position(|byte| *byte == b'\n')? + 1;
    }
    let whole = &text[start..];
    let whole = &whole[..whole.iter().position(|byte| *byte == b'\n').unwrap_or(whole.len())];
    let indent = whole.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let have = whole.get(indent..indent + name.len())?;
    if !have.eq_ignore_ascii_case(name.as_bytes()) {
        return None;
    }
    let behind = indent + name.len();
    let from = behind + whole[behind..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let to = whole.len() - whole.iter().rev().take_while(|byte| byte.is_ascii_whitespace()).count();
    (from <= to && from > behind).then_some(start + from..start + to)
}
