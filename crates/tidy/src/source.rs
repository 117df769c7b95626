//! Rust source as far as rules about it need: without comments and strings, cut into functions.

/// A function and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Of its `fn`, from 1.
    pub line: usize,
    /// From its `fn` to the closing brace.
    pub lines: usize,
}

/// The source with the insides of comments, strings and character literals replaced by spaces; lines stay where they
/// were.
pub fn code(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = at + skipped(&bytes[at..], at.checked_sub(1).map(|before| bytes[before]));
        if end == at {
            out.push(bytes[at]);
            at += 1;
        } else {
            out.extend(bytes[at..end].iter().map(|&b| if b == b'\n' { b'\n' } else { b' ' }));
            at = end;
        }
    }
    String::from_utf8(out).expect("what is kept is whole characters, what is not is spaces")
}

/// The length of the comment or literal that begins here; 0 if none does.
fn skipped(text: &[u8], before: Option<u8>) -> usize {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    match text {
        [b'/', b'/', ..] => text.iter().position(|&b| b == b'\n').unwrap_or(text.len()),
        [b'/', b'*', ..] => block_comment(text),
        [b'"', ..] => string(text),
        [b'r', rest @ ..] if !before.is_some_and(|b| is_word(b) && b != b'b' && b != b'c') => {
            match raw_string(rest) {
                0 => 0,
                length => 1 + length,
            }
        }
        [b'\'', b'\\', ..] => 2 + text[2..].iter().skip(1).position(|&b| b == b'\'').map_or(0, |at| at + 2),
        // A character, not a lifetime: the quote closes after one character.
        [b'\'', first, ..] => {
            let length = match *first {
                ..0x80 => 1,
                0x80..0xe0 => 2,
                0xe0..0xf0 => 3,
                _ => 4,
            };
            if text.get(1 + length) == Some(&b'\'') { length + 2 } else { 0 }
        }
        _ => 0,
    }
}

fn block_comment(text: &[u8]) -> usize {
    let (mut at, mut depth) = (2, 1);
    while at < text.len() && depth > 0 {
        match &text[at..] {
            [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
    }
    at
}

fn string(text: &[u8]) -> usize {
    let mut at = 1;
    while at < text.len() && text[at] != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

/// After its `r`.
fn raw_string(text: &[u8]) -> usize {
    let hashes = text.iter().take_while(|&&b| b == b'#').count();
    if text.get(hashes) != Some(&b'"') {
        return 0;
    }
    let end = [&b"\""[..], &b"#".repeat(hashes)].concat();
    let body = &text[hashes + 1..];
    let length = body.windows(end.len()).position(|window| window == end).unwrap_or(body.len());
    (hashes + 1 + length + end.len()).min(text.len())
}

/// The functions that have a body. `code` is what [`code()`] gave.
pub fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let name: String = code[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if let (false, Some(end)) = (name.is_empty(), body_end(&code[at..])) {
            let lines = code[at..at + end].matches('\n').count() + 1;
            found.push(Function { name, line: code[..at].matches('\n').count() + 1, lines });
        }
    }
    found
}

/// Where the body's closing brace is; `None` for a declaration without one.
fn body_end(code: &str) -> Option<usize> {
    // A semicolon ends a declaration, except in an array's type.
    let (mut brackets, mut braces) = (0, 0);
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'[' => brackets += 1,
            b']' => brackets -= 1,
            b';' if braces == 0 && brackets == 0 => return None,
            b'{' => braces += 1,
            b'}' if braces == 1 => return Some(at),
            b'}' => braces -= 1,
            _ => {}
        }
    }
    None
}

/// The part of a source file that only tests compile: all of it, from `#[cfg(test)]` on, or nothing.
pub fn tests_of<'a>(path: &str, text: &'a str) -> &'a str {
    let name = path.rsplit('/').next().unwrap_or_default();
    if path.contains("/tests/") || name.ends_with("tests.rs") {
        return text;
    }
    // Several test modules, or `mod x;` for tests only, come after the code too.
    let start = text
        .match_indices("#[cfg(test)]")
        .find(|(at, _)| text[*at..].lines().nth(1).is_some_and(|line| line.trim_end().ends_with('{')));
    start.map_or("", |(at, _)| &text[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_become_spaces() {
        let check = |text: &str, want: &str| assert_eq!(code(text), want, "{text}");
        check("a // b\nc", "a     \nc");
        check("a /* b /* c */ d */ e", "a                   e");
        check(r#"f("{ \" }") + 'x'"#, "f(        ) +    ");
        check("r#\"a\"b\"# 'a 'b'", "         'a    ");
        check("b'\\'' b'{'", "b     b   ");
        check("for 'a'", "for    ");
        check("x \"é\" 'é' y", "x           y");
    }

    #[test]
    fn functions_are_measured() {
        let text = "trait T {\n fn a();\n fn b() { one() }\n}\nfn c<A, B>(f: fn(u8) -> u8, n: [u8; 2]) -> X\nwhere\n A: B,\n{\n if x {\n }\n}\n";
        let all: Vec<_> = functions(&code(text)).into_iter().map(|f| (f.name, f.line, f.lines)).collect();
        assert_eq!(all, [("b".to_string(), 3, 1), ("c".to_string(), 5, 7)]);
    }

    #[test]
    fn tests_are_found() {
        assert_eq!(tests_of("crates/a/src/tests.rs", "x"), "x");
        assert_eq!(tests_of("crates/a/src/b_tests.rs", "x"), "x");
        assert_eq!(
            tests_of("crates/a/src/b.rs", "x\n#[cfg(test)]\nmod c;\ny\n#[cfg(test)]\nmod tests {\n}"),
            "#[cfg(test)]\nmod tests {\n}"
        );
        assert_eq!(tests_of("crates/a/src/b.rs", "x"), "");
    }
}
