//! What a directive that is wrong, or only looks right, was probably meant to be.

use crate::diag::Diag;
use crate::excerpt::INVISIBLE;
use crate::parser::{Directive, Token};
use crate::source::{SourceMap, Span};

/// A suspicion about a directive.
#[derive(Clone, Debug)]
pub struct Hint {
    /// The warning where nothing else is wrong; `None`: then there is nothing to say.
    warning: Option<String>,
    span: Span,
    place: Span,
    help: String,
}

impl Hint {
    /// Says it along with an error of the same directive: one cause, one message.
    pub fn explain(self, diag: Diag) -> Diag {
        diag.at(self.place).help(self.help)
    }

    /// Says it of a directive that was taken.
    pub fn warning(self) -> Option<Diag> {
        let Hint { warning, span, place, help } = self;
        warning.map(|text| Diag::warn(span, text).at(place).help(help))
    }
}

/// What is suspicious about the parameters of a directive. `knows` says whether a directive has a name.
pub fn of(directive: &Directive, sources: &SourceMap, knows: &dyn Fn(&str) -> bool) -> Option<Hint> {
    swallowed_line(directive, sources, knows)
        .or_else(|| typographic(directive))
        .or_else(|| commas(directive))
        .or_else(|| odd_space(directive))
        .or_else(|| detached_unit(directive))
        .or_else(|| several_conditions(directive))
        .or_else(|| swallowed_name(directive, knows))
}

/// A line that was meant as a directive of its own: a `;` that is missing makes it parameters of the one before, which may well
/// take them (`server_name`, `index`).
fn swallowed_line(d: &Directive, sources: &SourceMap, knows: &dyn Fn(&str) -> bool) -> Option<Hint> {
    let mut before = &d.name;
    for token in &d.args {
        let text = &sources.file(token.span.file).text;
        let gap = text.get(before.span.end as usize..token.span.start as usize).unwrap_or_default();
        if !token.quoted && gap.contains(&b'\n') && knows(token.str()) {
            let line = sources.end_line(before.span);
            return Some(Hint {
                warning: Some(format!("\"{}\" is read as a parameter of \"{}\"", token.text(), d.name())),
                span: token.span,
                place: before.span.behind(),
                help: format!("a \";\" is missing here, at the end of line {line}"),
            });
        }
        before = token;
    }
    None
}

/// Quotes as word processors and web pages print them; nginx takes them for letters.
const TYPOGRAPHIC: [char; 7] = ['“', '”', '„', '‟', '‘', '’', '‚'];

fn typographic(d: &Directive) -> Option<Hint> {
    let is_odd = |token: &&Token| {
        if token.quoted || token.bytes().is_ascii() {
            return false;
        }
        let text = token.text();
        text.starts_with(TYPOGRAPHIC) || text.ends_with(TYPOGRAPHIC)
    };
    let token = d.args.iter().find(is_odd)?;
    let quote = token.text().chars().find(|c| TYPOGRAPHIC.contains(c)).unwrap_or('”');
    Some(Hint {
        warning: Some(format!("{quote} in \"{}\" directive is read as a letter", d.name())),
        span: token.span,
        place: token.span,
        help: "typographic quotes are no quotes here: write \" or '".into(),
    })
}

/// Directives whose parameters are a list, and that take a comma for a part of a name.
fn is_list(name: &str) -> bool {
    matches!(name, "server_name" | "index" | "valid_referers" | "try_files") || name.ends_with("_types")
}

fn commas(d: &Directive) -> Option<Hint> {
    let is_name = d.name() == "server_name";
    let is_odd = |(at, token): &(usize, &Token)| {
        let text = token.bytes();
        let ends = text.ends_with(b",") && at + 1 < d.args.len();
        let is_joined = is_name && text.contains(&b',') && !text.starts_with(b"~");
        !token.quoted && (ends || is_joined)
    };
    let (_, token) = d.args.iter().enumerate().find(is_odd)?;
    let name = d.name();
    let text = token.text();
    Some(Hint {
        warning: is_list(name).then(|| format!("the comma is part of \"{text}\" in \"{name}\" directive")),
        span: token.span,
        place: token.span,
        help: format!("parameters are separated by spaces: {}", without_commas(d)),
    })
}

fn without_commas(d: &Directive) -> String {
    if matches!(d.name(), "allow" | "deny") {
        let one = |token: &Token| format!("{} {};", d.name(), token.text().trim_end_matches(','));
        return d.args.iter().map(one).collect::<Vec<_>>().join(" ");
    }
    let words = d.args.iter().map(|token| token.text().replace(',', " ").trim().to_string());
    let words: Vec<String> = std::iter::once(d.name().to_string()).chain(words).collect();
    words.join(" ") + ";"
}

/// `65 s` where `65s` is meant.
fn detached_unit(d: &Directive) -> Option<Hint> {
    const UNITS: [&[u8]; 14] =
        [b"ms", b"s", b"sec", b"m", b"min", b"h", b"d", b"k", b"K", b"kb", b"KB", b"M", b"MB", b"g"];
    let is_number = |token: &Token| token.bytes().iter().all(u8::is_ascii_digit);
    let pair = d.args.windows(2).find(|pair| is_number(&pair[0]) && UNITS.contains(&pair[1].bytes()))?;
    Some(Hint {
        warning: None,
        span: pair[1].span,
        place: pair[0].span.to(pair[1].span),
        help: format!("no space stands between a number and its unit: {}{}", pair[0].text(), pair[1].text()),
    })
}

/// `if ($a && $b)`.
fn several_conditions(d: &Directive) -> Option<Hint> {
    const WORDS: [&str; 6] = ["&&", "||", "and", "or", "AND", "OR"];
    let token =
        d.args.iter().find(|token| d.name() == "if" && !token.quoted && WORDS.contains(&token.str()))?;
    Some(Hint {
        warning: None,
        span: token.span,
        place: token.span,
        help:
            "an \"if\" has one condition: combine several with \"map\", for example map \"$a:$b\" $both { … }"
                .into(),
    })
}

fn odd_space(d: &Directive) -> Option<Hint> {
    // Bytes first: nearly all text is ASCII, and a configuration may have a million words.
    let is_odd = |token: &&Token| !token.bytes().is_ascii() && token.text().contains(INVISIBLE);
    let token = std::iter::once(&d.name).chain(&d.args).find(is_odd)?;
    let found = token.text().chars().find(|c| INVISIBLE.contains(c)).unwrap_or('\u{a0}');
    Some(Hint {
        warning: None,
        span: token.span,
        place: token.span,
        help: format!(
            "it holds U+{:04X}, which is not white space here and often comes from web pages: retype the line",
            u32::from(found)
        ),
    })
}

/// A directive's name among the parameters of one that refuses them: two directives on one line.
fn swallowed_name(d: &Directive, knows: &dyn Fn(&str) -> bool) -> Option<Hint> {
    let mut pairs = std::iter::once(&d.name).chain(&d.args).zip(&d.args).skip(1);
    let (before, token) = pairs.find(|(_, token)| !token.quoted && knows(token.str()))?;
    Some(Hint {
        warning: None,
        span: token.span,
        place: before.span.behind(),
        help: format!("is a \";\" missing here, before \"{}\"?", token.text()),
    })
}

/// Marks of lines that were left out where a configuration was printed.
pub(crate) fn is_ellipsis(word: &[u8]) -> bool {
    let inner = match word {
        [b'[', inner @ .., b']'] | [b'(', inner @ .., b')'] | [b'<', inner @ .., b'>'] => inner,
        other => other,
    };
    matches!(inner, b"..." | b".." | b"....") || inner == "…".as_bytes()
}

/// What follows a `;` in a value that was not quoted: `add_header A b; c;`.
pub fn cut_value(before: &Directive, directive: &Directive, sources: &SourceMap) -> Option<String> {
    let name = before.name();
    let has_value = name.starts_with("add_")
        || matches!(
            name,
            "proxy_set_header" | "fastcgi_param" | "return" | "set" | "proxy_cookie_path" | "expires"
        );
    let same_line = before.name.span.file == directive.name.span.file
        && sources.end_line(before.span) == sources.end_line(directive.name.span);
    if !has_value || !same_line || before.args.iter().any(|token| token.quoted) {
        return None;
    }
    let last = before.args.last()?.text();
    let rest: Vec<String> = std::iter::once(&directive.name)
        .chain(&directive.args)
        .map(|token| token.text().into_owned())
        .collect();
    Some(format!(
        "a \";\" ends a directive: quote the whole value of \"{name}\": \"{last}; {}\"",
        rest.join(" ")
    ))
}

/// What can be said about a name that no directive has; `names` are those that there are.
pub fn unknown<'a>(directive: &Directive, names: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    let name = directive.name();
    let knows = |text: &str| names.clone().any(|have| have == text);
    if name == "ssl" {
        return Some("\"ssl on\" is gone since nginx 1.25.1: write \"listen 443 ssl;\" in its place".into());
    }
    if matches!(name, "else" | "elseif" | "elsif" | "elif") {
        return Some(
            "there is no \"else\": write a second \"if\" with the opposite condition, or use map".into(),
        );
    }
    if let Some((whose, own)) = crate::foreign::directive(name) {
        return Some(match own {
            "" => format!("\"{name}\" is {whose}'s, and nothing here corresponds to it: remove it"),
            own => {
                format!("\"{name}\" is {whose}'s; what does this here is \"{own}\": `brisk directives {own}`")
            }
        });
    }
    if let Some(stripped) = name.strip_suffix([':', '=']).filter(|stripped| knows(stripped)) {
        let mark = &name[stripped.len()..];
        return Some(format!("no \"{mark}\" follows a directive's name: write \"{stripped}\""));
    }
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
    let (word, rest) = name.split_at(end);
    if !rest.is_empty() && knows(word) {
        return Some(match odd_space(directive) {
            Some(hint) => hint.help,
            None => format!("a space is missing behind \"{word}\""),
        });
    }
    let plain = name.to_ascii_lowercase().replace('-', "_");
    if plain != name && knows(&plain) {
        return Some(format!("did you mean \"{plain}\"?"));
    }
    None
}

/// Names that end with what was written: `cache_errors` is the end of `open_file_cache_errors`.
pub fn longer<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    const SHOWN_MAX: usize = 4;
    let mut found: Vec<&str> =
        names.filter(|have| have.strip_suffix(name).is_some_and(|start| start.ends_with('_'))).collect();
    found.sort_unstable_by_key(|have| (have.len(), *have));
    found.dedup();
    let shown: Vec<String> = found.iter().take(SHOWN_MAX).map(|have| format!("\"{have}\"")).collect();
    let (last, others) = shown.split_last()?;
    Some(match (others, found.len() > SHOWN_MAX) {
        ([], _) => format!("did you mean {last}?"),
        (others, false) => format!("did you mean {} or {last}?", others.join(", ")),
        (others, true) => format!("did you mean {}, {last} …?", others.join(", ")),
    })
}
