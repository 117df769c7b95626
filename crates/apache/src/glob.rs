//! Wildcards, as `-strmatch`, `-fnmatch`, `<Files>` and `<Directory>` read them: `?`, `*`, `[a-z]`, `[!a-z]` and `\`.

/// How wildcards match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// A slash is matched by a slash alone.
    pub is_path: bool,
    /// `a` matches `A`.
    pub ignores_case: bool,
}

/// Whether `text` as a whole is what `pattern` describes. It takes at most as many steps as the product of both lengths.
pub fn matches(pattern: &[u8], text: &[u8], options: Options) -> bool {
    if !options.is_path {
        return part_matches(pattern, text, options);
    }
    let mut parts = text.split(|&byte| byte == b'/');
    let is_each = pattern
        .split(|&byte| byte == b'/')
        .all(|pattern| parts.next().is_some_and(|text| part_matches(pattern, text, options)));
    is_each && parts.next().is_none()
}

/// Whether a text has a wildcard in it.
pub fn is_pattern(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b'*' | b'?')) || {
        let open = text.iter().position(|&byte| byte == b'[');
        open.is_some_and(|at| text[at..].contains(&b']'))
    }
}

fn part_matches(pattern: &[u8], text: &[u8], options: Options) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on if what follows the last star does not match: the star takes one byte more.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let is_star = pattern.get(p) == Some(&b'*');
        if is_star {
            p += 1;
            retry = Some((p, t));
            continue;
        }
        let step = match (pattern.get(p), text.get(t)) {
            (None, None) => return true,
            (Some(_), Some(&byte)) => one(&pattern[p..], byte, options),
            _ => None,
        };
        match (step, retry) {
            (Some(length), _) => (p, t) = (p + length, t + 1),
            (None, Some((back, at))) if at < text.len() => {
                retry = Some((back, at + 1));
                (p, t) = (back, at + 1);
            }
            (None, _) => return false,
        }
    }
}

/// Whether the first element of `pattern` matches `byte`; if so, its length.
fn one(pattern: &[u8], byte: u8, options: Options) -> Option<usize> {
    let fold = |byte: u8| if options.ignores_case { byte.to_ascii_lowercase() } else { byte };
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => match set(rest, byte, fold) {
            Some((length, true)) => Some(length + 1),
            Some((_, false)) => None,
            // A bracket that is not closed stands for itself.
            None => (byte == b'[').then_some(1),
        },
        [b'\\', literal, ..] => (fold(*literal) == fold(byte)).then_some(2),
        [literal, ..] => (fold(*literal) == fold(byte)).then_some(1),
        [] => None,
    }
}

/// The set behind a bracket: its length up to the closing bracket included, and whether `byte` is in it.
fn set(pattern: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> Option<(usize, bool)> {
    let is_negated = matches!(pattern.first(), Some(b'!' | b'^'));
    let start = usize::from(is_negated);
    let mut at = start;
    let mut is_in = false;
    loop {
        let mut first = *pattern.get(at)?;
        if first == b']' && at > start {
            return Some((at + 1, is_in != is_negated));
        }
        if first == b'\\' {
            at += 1;
            first = *pattern.get(at)?;
        }
        let mut last = first;
        if pattern.get(at + 1) == Some(&b'-') && pattern.get(at + 2).is_some_and(|&byte| byte != b']') {
            at += 2;
            last = *pattern.get(at)?;
            if last == b'\\' {
                at += 1;
                last = *pattern.get(at)?;
            }
        }
        is_in |= (fold(first)..=fold(last)).contains(&fold(byte));
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards() {
        let path = Options { is_path: true, ..Options::default() };
        let blind = Options { ignores_case: true, ..Options::default() };
        for (pattern, text, options, wanted) in [
            ("foo/foo", "foo/foo", Options::default(), true),
            ("foo/*", "foo/bar/baz", Options::default(), true),
            ("foo/*", "foo/bar/baz", path, false),
            ("foo/*/b?z", "foo/bar/baz", path, true),
            ("FOO*", "foobar", blind, true),
            ("[a-c]x[!0-9]", "bxy", Options::default(), true),
            ("[a-c]x[!0-9]", "bx1", Options::default(), false),
            ("[]a]", "]", Options::default(), true),
            ("[abc", "[abc", Options::default(), true),
            ("a\\*b", "a*b", Options::default(), true),
            ("a\\*b", "axb", Options::default(), false),
            ("*.php*", "index.php.bak", Options::default(), true),
            ("**a", "bca", Options::default(), true),
            ("", "", Options::default(), true),
            ("*", "", Options::default(), true),
            ("?", "", Options::default(), false),
            ("*a*a*a*a*a*a*a*b", &"a".repeat(2000), Options::default(), false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes(), options), wanted, "{pattern} {text}");
        }
    }
}
