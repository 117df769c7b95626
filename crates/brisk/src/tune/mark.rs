//! Changes of a file as blocks that say who has made them. No I/O.

use brisk_tune::patch::{changes, lines};
use std::path::Path;

/// The comment before a block.
const BEGIN: &str = "brisk tune: what follows was found to be better; \"brisk tune undo\" takes it back";
/// The comment behind it.
const END: &str = "brisk tune: end";

/// The new text with each changed line between comments. `name`: the file, which tells its language.
pub fn marked(name: &str, old: &[u8], new: &[u8]) -> Vec<u8> {
    let (old, new) = (lines(old), lines(new));
    let comment = if Path::new(name).extension().is_some_and(|kind| kind == "ini")
        || new.iter().any(|line| is_pool(line))
    {
        ";"
    } else {
        "#"
    };
    let mut out = Vec::new();
    let mut at = 0;
    for change in changes(&old, &new) {
        out.extend(new[at..change.new.start].concat());
        if out.last().is_some_and(|last| *last != b'\n') {
            out.push(b'\n');
        }
        at = change.new.end;
        if change.new.is_empty() {
            continue;
        }
        out.extend(format!("{comment} {BEGIN}\n").into_bytes());
        out.extend(new[change.new.clone()].concat());
        if out.last().is_some_and(|last| *last != b'\n') {
            out.push(b'\n');
        }
        out.extend(format!("{comment} {END}\n").into_bytes());
    }
    out.extend(new[at..].concat());
    out
}

/// A setting that only PHP-FPM's pools have, as they write it (`pm.max_children = 5`): their files know no other comments than those of php.ini.
/// Brisk's own pools have the same names and no equals sign.
fn is_pool(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    let end = line.iter().position(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'.' | b'_'));
    let (name, rest) = line.split_at(end.unwrap_or(line.len()));
    (name == b"pm" || name.starts_with(b"pm.")) && rest.trim_ascii_start().starts_with(b"=")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_between_comments() {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(marked("a", b"x\ny\n", b"x\ny\n"), b"x\ny\n");
        let pool = text(marked(
            "www.conf",
            b"[www]\npm.max_children = 2\nuser = u\n",
            b"[www]\npm.max_children = 9\nuser = u\n",
        ));
        assert_eq!(pool, format!("[www]\n; {BEGIN}\npm.max_children = 9\n; {END}\nuser = u\n"));
        let nginx = text(marked("nginx.conf", b"http {\n}\n", b"http {\n    gzip on;\n}\n"));
        assert_eq!(nginx, format!("http {{\n# {BEGIN}\n    gzip on;\n# {END}\n}}\n"));
        let own = text(marked(
            "brisk.conf",
            b"pm.max_children 2;\npm static;\n",
            b"pm.max_children 9;\npm static;\n",
        ));
        assert_eq!(own, format!("# {BEGIN}\npm.max_children 9;\n# {END}\npm static;\n"));
        // A last line without an end.
        let ini = text(marked("php.ini", b"a = 1", b"a = 1\nb = 2"));
        assert!(ini.contains(&format!("; {BEGIN}\n")) && ini.contains("b = 2\n"), "{ini}");
        // Lines that are only taken out leave nothing behind.
        assert_eq!(marked("a", b"x\ny\n", b"x\n"), b"x\n");
    }
}
