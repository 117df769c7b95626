//! The patterns that the linear engine may run: those that PCRE2 and it understand alike, by construction.
//!
//! A parser of the part of PCRE2's syntax of which both engines find the same match with the same groups. Whatever it
//! does not know, PCRE2 runs. What it knows is written anew in a form that leaves the other engine nothing to interpret:
//! bytes are bytes, classes are lists of bytes, letters that match in any case are classes, and there are no flags.
//!
//! Two things are outside of this file. Both engines prefer the same match among all that there are (PCRE2 by
//! backtracking, the other one by simulating it), except for loops over something that can be empty; those are not
//! accepted. And `$` also matches before a newline that ends the subject in PCRE2 alone: see [`Translated::has_dollar`].

use crate::limits::{REGEX_DEPTH_MAX, REGEX_REPEAT_MAX};
use std::fmt::Write as _;

/// A pattern in the linear engine's syntax, to be compiled without Unicode and without flags.
#[derive(Debug, PartialEq, Eq)]
pub struct Translated {
    /// The pattern.
    pub pattern: String,
    /// `$` or `\Z` is there, written as `\z`. The pattern means the same only for subjects that do not end with a newline.
    pub has_dollar: bool,
}

/// What `.` and `$` mean in a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// As in nginx: no newline is `.`, and `$` also stands before a newline that ends the subject.
    #[default]
    Nginx,
    /// As in Apache (`RegexDefaultOptions DOTALL DOLLAR_ENDONLY`): every byte is `.`, and `$` is the very end. A request's `%0a` must
    /// not go round a rule.
    Apache,
}

/// The translation; `None`: the pattern is for PCRE2, be it right or wrong.
pub fn translate(pattern: &str, caseless: bool, dialect: Dialect) -> Option<Translated> {
    let (pattern, caseless) = match pattern.strip_prefix("(?i)") {
        Some(rest) => (rest, true),
        None => (pattern, caseless),
    };
    let mut parser = Parser {
        rest: pattern.as_bytes(),
        out: String::new(),
        caseless,
        dialect,
        depth: 0,
        has_dollar: false,
    };
    parser.alternatives()?;
    parser.rest.is_empty().then_some(Translated { pattern: parser.out, has_dollar: parser.has_dollar })
}

/// What can be repeated.
enum Item {
    /// `^`, `\b`: PCRE2 has rules of its own for their repetition.
    Assertion,
    Text {
        can_be_empty: bool,
    },
}

const ONE_BYTE: Item = Item::Text { can_be_empty: false };

struct Parser<'p> {
    rest: &'p [u8],
    out: String,
    caseless: bool,
    dialect: Dialect,
    depth: usize,
    has_dollar: bool,
}

/// What a backslash and what follows it stand for.
enum Escaped {
    Byte(u8),
    Class(Bytes),
    /// In the linear engine's syntax.
    Assertion(&'static str),
}

impl Parser<'_> {
    fn next(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    fn take(&mut self, text: &[u8]) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Up to the end or a closing parenthesis. Gives whether it can match nothing at all.
    fn alternatives(&mut self) -> Option<bool> {
        let mut can_be_empty = self.branch()?;
        while self.take(b"|") {
            self.out.push('|');
            can_be_empty |= self.branch()?;
        }
        Some(can_be_empty)
    }

    fn branch(&mut self) -> Option<bool> {
        let mut can_be_empty = true;
        while !matches!(self.rest.first(), None | Some(b'|' | b')')) {
            let item = self.item()?;
            can_be_empty &= self.quantified(&item)?;
        }
        Some(can_be_empty)
    }

    fn item(&mut self) -> Option<Item> {
        match self.next()? {
            b'^' => self.out.push_str(r"\A"),
            b'$' => {
                self.has_dollar |= self.dialect == Dialect::Nginx;
                self.out.push_str(r"\z");
            }
            b'\\' => return self.escape(),
            b'(' => return self.group(),
            b'.' => {
                let is_all = self.dialect == Dialect::Apache;
                Bytes::of(|byte| is_all || byte != b'\n').write(&mut self.out);
                return Some(ONE_BYTE);
            }
            b'[' => {
                class(&mut self.rest, self.caseless)?.write(&mut self.out);
                return Some(ONE_BYTE);
            }
            // Nothing to repeat.
            b'*' | b'+' | b'?' => return None,
            // A counter, or what was none before PCRE2 10.43: `{,3}`, `{ 1, 2 }`.
            b'{' if matches!(self.rest.first(), Some(b'0'..=b'9' | b',' | b' ' | b'\t')) => return None,
            byte => {
                self.literal(byte);
                return Some(ONE_BYTE);
            }
        }
        Some(Item::Assertion)
    }

    fn literal(&mut self, byte: u8) {
        if self.caseless && byte.is_ascii_alphabetic() {
            Bytes::of(|other| other.eq_ignore_ascii_case(&byte)).write(&mut self.out);
        } else {
            plain(byte, &mut self.out);
        }
    }

    fn escape(&mut self) -> Option<Item> {
        match escaped(&mut self.rest)? {
            Escaped::Byte(byte) => {
                self.literal(byte);
                Some(ONE_BYTE)
            }
            Escaped::Class(class) => {
                class.write(&mut self.out);
                Some(ONE_BYTE)
            }
            Escaped::Assertion(text) => {
                self.has_dollar |= text == DOLLAR;
                self.out.push_str(if text == DOLLAR { r"\z" } else { text });
                Some(Item::Assertion)
            }
        }
    }

    /// What follows `(`.
    fn group(&mut self) -> Option<Item> {
        let outer = self.caseless;
        if self.take(b"?:") {
            self.out.push_str("(?:");
        } else if self.take(b"?i:") {
            self.caseless = true;
            self.out.push_str("(?:");
        } else if self.take(b"?<") || self.take(b"?P<") {
            self.name(b'>')?;
            self.out.push('(');
        } else if self.take(b"?'") {
            self.name(b'\'')?;
            self.out.push('(');
        } else if matches!(self.rest.first(), Some(b'?' | b'*')) {
            return None;
        } else {
            self.out.push('(');
        }
        self.depth += 1;
        if self.depth > REGEX_DEPTH_MAX {
            return None;
        }
        let can_be_empty = self.alternatives()?;
        if !self.take(b")") {
            return None;
        }
        self.depth -= 1;
        self.out.push(')');
        self.caseless = outer;
        Some(Item::Text { can_be_empty })
    }

    /// Names are known from PCRE2, which has compiled the pattern before.
    fn name(&mut self, end: u8) -> Option<()> {
        let length = self.rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
        if length == 0 || self.rest[0].is_ascii_digit() {
            return None;
        }
        self.rest = &self.rest[length..];
        self.take(&[end]).then_some(())
    }

    /// The quantifier that follows an item, if one does. Gives whether item and quantifier can match nothing.
    fn quantified(&mut self, item: &Item) -> Option<bool> {
        if !self.is_at_counter() {
            return Some(matches!(item, Item::Assertion | Item::Text { can_be_empty: true }));
        }
        let (min, max) = self.counter()?;
        let Item::Text { can_be_empty } = *item else { return None };
        // When an iteration matches nothing the engines disagree about what becomes of the groups in it.
        if can_be_empty && (min, max) != (0, Some(1)) {
            return None;
        }
        match (min, max) {
            (0, None) => self.out.push('*'),
            (1, None) => self.out.push('+'),
            (0, Some(1)) => self.out.push('?'),
            (min, None) => write!(self.out, "{{{min},}}").expect("a string takes all"),
            (min, Some(max)) => write!(self.out, "{{{min},{max}}}").expect("a string takes all"),
        }
        if self.take(b"?") {
            self.out.push('?');
        } else if self.rest.starts_with(b"+") {
            // Possessive.
            return None;
        }
        Some(can_be_empty || min == 0)
    }

    fn is_at_counter(&self) -> bool {
        matches!(self.rest, [b'*' | b'+' | b'?', ..] | [b'{', b'0'..=b'9', ..])
    }

    /// How often: at least, and at most.
    fn counter(&mut self) -> Option<(u32, Option<u32>)> {
        match self.next()? {
            b'*' => return Some((0, None)),
            b'+' => return Some((1, None)),
            b'?' => return Some((0, Some(1))),
            _ => {}
        }
        let length = self.rest.iter().position(|b| *b == b'}')?;
        let text = std::str::from_utf8(&self.rest[..length]).ok()?;
        self.rest = &self.rest[length + 1..];
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            text.parse::<u32>().ok().filter(|n| is_number && *n <= REGEX_REPEAT_MAX)
        };
        let (min, max) = match text.split_once(',') {
            None => (number(text)?, Some(number(text)?)),
            Some((min, "")) => (number(min)?, None),
            Some((min, max)) => (number(min)?, Some(number(max)?)),
        };
        // `{0}` drops its item, but not the groups in it.
        max.is_none_or(|max| max >= min && max > 0).then_some((min, max))
    }
}

/// A pattern in which `$` is the very end, for PCRE2: written as `\z` wherever it is an assertion. A pattern that changes its options
/// keeps its `$`, for with `(?m)` it means something else.
pub fn end_only(pattern: &str) -> String {
    let changes_options = pattern.as_bytes().windows(2).enumerate().any(|(at, pair)| {
        let flags = &pattern.as_bytes()[at + 2..];
        let length =
            flags.iter().take_while(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'^')).count();
        pair == b"(?" && flags[..length].contains(&b'm')
    });
    if changes_options {
        return pattern.to_string();
    }
    let mut out = String::with_capacity(pattern.len());
    let (mut is_quoted, mut class_from, mut chars) = (false, None, pattern.char_indices().peekable());
    while let Some((at, c)) = chars.next() {
        let rest = &pattern[at..];
        if is_quoted {
            is_quoted = !rest.starts_with("\\E");
            out.push(c);
            continue;
        }
        match (c, class_from) {
            ('\\', _) => {
                out.push(c);
                is_quoted = class_from.is_none() && rest.starts_with("\\Q");
                out.extend(chars.next().map(|(_, c)| c));
                continue;
            }
            ('[', None) => class_from = Some(at),
            // A bracket that comes first is one of the class's own.
            (']', Some(from)) if !matches!(&pattern[from..at], "[" | "[^") => class_from = None,
            ('$', None) => {
                out.push_str("\\z");
                continue;
            }
            _ => {}
        }
        if class_from.is_some()
            && rest.starts_with("[:")
            && let Some(end) = rest.find(":]")
        {
            // `[:alpha:]` is a part of a class and does not end it.
            let name = &rest[..end + 2];
            out.push_str(name);
            while chars.next_if(|(next, _)| *next < at + name.len()).is_some() {}
            continue;
        }
        out.push(c);
    }
    out
}

/// Stands for `\Z`, which is what `$` is.
const DOLLAR: &str = "$";

/// What follows a backslash.
fn escaped(rest: &mut &[u8]) -> Option<Escaped> {
    let (&byte, after) = rest.split_first()?;
    *rest = after;
    let class = |is_in: fn(u8) -> bool| Some(Escaped::Class(Bytes::of(is_in)));
    match byte {
        b'd' => class(|b| b.is_ascii_digit()),
        b'D' => class(|b| !b.is_ascii_digit()),
        b'w' => class(is_word),
        b'W' => class(|b| !is_word(b)),
        b's' => class(is_space),
        b'S' => class(|b| !is_space(b)),
        b'n' => Some(Escaped::Byte(b'\n')),
        b'r' => Some(Escaped::Byte(b'\r')),
        b't' => Some(Escaped::Byte(b'\t')),
        b'f' => Some(Escaped::Byte(0x0c)),
        b'x' => {
            let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
            let value = digit(0)? << 4 | digit(1)?;
            *rest = &after[2..];
            Some(Escaped::Byte(value as u8))
        }
        b'b' => Some(Escaped::Assertion(r"\b")),
        b'B' => Some(Escaped::Assertion(r"\B")),
        b'A' => Some(Escaped::Assertion(r"\A")),
        b'z' => Some(Escaped::Assertion(r"\z")),
        b'Z' => Some(Escaped::Assertion(DOLLAR)),
        // Other letters and digits have a meaning, or may get one.
        _ if byte.is_ascii_alphanumeric() || !byte.is_ascii() => None,
        _ => Some(Escaped::Byte(byte)),
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// With VT, in PCRE since 8.34.
fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ')
}

/// One thing in a class.
enum Member {
    Byte(u8),
    Class(Bytes),
}

/// What follows `[`, up to the closing bracket.
fn class(rest: &mut &[u8], caseless: bool) -> Option<Bytes> {
    // `[:alpha:]` outside of a class is an error.
    if matches!(rest.first(), Some(b':' | b'.' | b'=')) {
        return None;
    }
    let negated = rest.first() == Some(&b'^');
    if negated {
        *rest = &rest[1..];
    }
    let mut set = Bytes::default();
    let mut is_first = true;
    // A hyphen behind a range stands for itself.
    let mut after_range = false;
    loop {
        if rest.first() == Some(&b']') && !is_first {
            *rest = &rest[1..];
            break;
        }
        let has_range = |rest: &[u8]| rest.first() == Some(&b'-') && rest.get(1).is_some_and(|b| *b != b']');
        let member = member(rest)?;
        let is_hyphen = matches!(member, Member::Byte(b'-'));
        if is_hyphen && rest.first() == Some(&b'-') {
            return None;
        }
        match member {
            // An error in PCRE2, but a hyphen in Perl.
            Member::Class(_) if has_range(rest) => return None,
            Member::Class(class) => set.add(&class),
            Member::Byte(from) if has_range(rest) && !(is_hyphen && after_range) => {
                *rest = &rest[1..];
                let Member::Byte(to) = self::member(rest)? else { return None };
                if to < from {
                    return None;
                }
                set.add(&Bytes::of(|byte| (from..=to).contains(&byte)));
                (is_first, after_range) = (false, true);
                continue;
            }
            Member::Byte(byte) => set.add(&Bytes::of(|other| other == byte)),
        }
        (is_first, after_range) = (false, false);
    }
    if caseless {
        set = Bytes::of(|byte| {
            set.has(byte) || set.has(byte.to_ascii_lowercase()) || set.has(byte.to_ascii_uppercase())
        });
    }
    if negated {
        set = Bytes::of(|byte| !set.has(byte));
    }
    // What can never match has no form that both engines know.
    (set != Bytes::default()).then_some(set)
}

fn member(rest: &mut &[u8]) -> Option<Member> {
    let (&byte, after) = rest.split_first()?;
    *rest = after;
    match byte {
        b'[' if after.first() == Some(&b':') => {
            let length = after[1..].windows(2).position(|two| two == b":]")?;
            let class = posix(&after[1..=length])?;
            *rest = &after[length + 3..];
            Some(Member::Class(class))
        }
        b'[' if matches!(after.first(), Some(b'.' | b'=')) => None,
        b'\\' => match escaped(rest)? {
            Escaped::Byte(byte) => Some(Member::Byte(byte)),
            Escaped::Class(class) => Some(Member::Class(class)),
            // `\b` is a backspace here.
            Escaped::Assertion(_) => None,
        },
        byte => Some(Member::Byte(byte)),
    }
}

/// `[:name:]`, in the C locale.
fn posix(name: &[u8]) -> Option<Bytes> {
    let is_in: fn(u8) -> bool = match name {
        b"alnum" => |b| b.is_ascii_alphanumeric(),
        b"alpha" => |b| b.is_ascii_alphabetic(),
        b"digit" => |b| b.is_ascii_digit(),
        b"lower" => |b| b.is_ascii_lowercase(),
        b"upper" => |b| b.is_ascii_uppercase(),
        b"punct" => |b| b.is_ascii_punctuation(),
        b"space" => is_space,
        b"word" => is_word,
        b"xdigit" => |b| b.is_ascii_hexdigit(),
        _ => return None,
    };
    Some(Bytes::of(is_in))
}

/// A set of bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Bytes([u64; 4]);

impl Bytes {
    fn of(is_in: impl Fn(u8) -> bool) -> Bytes {
        let mut set = Bytes::default();
        for byte in (0..=u8::MAX).filter(|byte| is_in(*byte)) {
            set.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
        }
        set
    }

    fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }

    fn add(&mut self, other: &Bytes) {
        self.0.iter_mut().zip(other.0).for_each(|(bits, more)| *bits |= more);
    }

    /// As a class of the linear engine.
    fn write(&self, out: &mut String) {
        out.push('[');
        let mut bytes = (0..=u8::MAX).filter(|byte| self.has(*byte)).peekable();
        while let Some(from) = bytes.next() {
            let mut to = from;
            while let Some(next) = bytes.next_if(|byte| to.checked_add(1) == Some(*byte)) {
                to = next;
            }
            plain(from, out);
            if to > from {
                out.push('-');
                plain(to, out);
            }
        }
        out.push(']');
    }
}

/// A byte that means itself.
fn plain(byte: u8, out: &mut String) {
    if byte.is_ascii_alphanumeric() || byte == b'/' {
        out.push(char::from(byte));
    } else {
        write!(out, "\\x{byte:02X}").expect("a string takes all");
    }
}
