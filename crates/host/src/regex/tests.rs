//! Patterns on both engines.

use super::program::{Jit, Program};
use super::translate::Dialect;
use super::*;
use crate::vars::{Names, Spelled};

/// For patterns without named groups.
struct Unnamed(Spelled);

impl Names for Unnamed {
    fn refer(&mut self, name: &str, _: Option<brisk_conf::Span>) -> VarId {
        unreachable!("no pattern refers to \"{name}\"")
    }

    fn define_slot(&mut self, name: &str) -> Option<VarId> {
        unreachable!("no group is called \"{name}\"")
    }

    fn spelled(&mut self) -> &mut Spelled {
        &mut self.0
    }
}

fn program(pattern: &str) -> Program {
    Program::compile(pattern, false, Dialect::Nginx, Jit::Off)
        .unwrap_or_else(|(error, _)| panic!("{pattern}: {error}"))
}

/// A match and its groups as text; `-` for one that took no part.
fn groups(pattern: &str, subject: &str) -> Option<Vec<String>> {
    let spans = program(pattern).spans(subject.as_bytes()).expect("no limit is reached")?;
    let text = |(start, end): Span| subject.get(start..end).unwrap_or("-").to_string();
    Some(spans.into_iter().map(text).collect())
}

fn check(pattern: &str, subject: &str, want: &[&str]) {
    let got = groups(pattern, subject).unwrap_or_default();
    assert_eq!(got, want, "{pattern:?} on {subject:?}");
}

/// A request's newline goes round no rule of Apache's: `.` is every byte, and `$` is the very end.
#[test]
fn what_apache_means() {
    let is_match = |pattern: &str, subject: &str| {
        let program = Program::compile(pattern, false, Dialect::Apache, Jit::Off);
        let program = program.unwrap_or_else(|(error, _)| panic!("{pattern}: {error}"));
        program.is_match(subject.as_bytes()).expect("no limit is reached")
    };
    // The second of each pair is one that the linear engine leaves to PCRE2.
    for pattern in [r"^admin\.php.*$", r"^(?!x)admin\.php.*$"] {
        assert!(is_match(pattern, "admin.php/\nx") && is_match(pattern, "admin.php\n"), "{pattern}");
    }
    for pattern in [r"^a$", r"^(?!x)a$", r"^(?!x)[$]*a$"] {
        assert!(is_match(pattern, "a") && !is_match(pattern, "a\n"), "{pattern}");
    }
    for pattern in [r"^\$[$]\Q$\E$", r"^(?!x)\$[$]\Q$\E$", r"^(?!x)[]$][[:punct:]$][^]$]?\$$"] {
        assert!(is_match(pattern, "$$$") && !is_match(pattern, "$$$\n"), "{pattern}");
    }
    // With (?m) the end of a line is meant.
    assert!(is_match("(?m)^a$", "a\nb") && !is_match("^a$", "a\nb"));
}

#[test]
fn what_pcre_means() {
    // A newline at the end is not past `$`.
    check(r"^/admin$", "/admin\n", &["/admin"]);
    check(r"^/admin\z", "/admin\n", &[]);
    check(r"^/admin\Z", "/admin\n", &["/admin"]);
    check(r"^/admin$", "/admin\n\n", &[]);
    check(r"\.php$|x", "a.php\n", &[".php"]);
    check(r"(a|b$)\n", "b\n", &["b\n", "b"]);
    check(r"^(.*)$", "a\n", &["a", "a"]);
    // An iteration that matches nothing is the last one, and its groups count.
    check("(a*)*x", "aax", &["aax", ""]);
    check("(a*)+", "aab", &["aa", ""]);
    // PCRE2 10.43: a counter without a minimum.
    check("a{,3}b", "aab", &["aab"]);
    check("a{,3}b", "a{,3}b", &["b"]);
    check("a{b", "a{b", &["a{b"]);
    // Operators in classes are bytes.
    check("^[a&&b]+$", "a&b", &["a&b"]);
    check("^[a~~b]+$", "a~b", &["a~b"]);
    check("^[[a]b]$", "[b]", &["[b]"]);
    check("^[]a]+$", "]a", &["]a"]);
    check(r"^\Qa.b\E$", "a.b", &["a.b"]);
    check(r"^\<a\>$", "<a>", &["<a>"]);
    // The last iteration's groups, and those of earlier ones that later ones did not touch.
    check("(?:(a)|b)*", "ab", &["ab", "a"]);
    check("(a|ab)(c|bcd)(d*)", "abcd", &["abcd", "a", "bcd", ""]);
    check(r"^\s$", "\u{b}", &["\u{b}"]);
}

#[test]
fn what_runs_on_the_linear_engine() {
    let is_linear = |pattern: &str| program(pattern).linear().is_some();
    for pattern in [r"\.php$", "^/a", "(a|b)+c*?", r"[\w.-]+", "(?i)a", "(?<n>a){1,2}", "a{b}", "é"] {
        assert!(is_linear(pattern), "{pattern}");
    }
    for pattern in [
        "(?=a)",
        r"(a)\1",
        "(a*)*",
        "(|a)+",
        "a{,3}",
        "a{1,",
        "a++",
        "(?>a)",
        "a(?i)b",
        "(?s).",
        r"\h",
        r"\R",
        r"\Qa\E",
        r"\x{41}",
        r"\101",
        "(*UTF)a",
        "(?#a)",
        r"[\w-]a-z[\d\-]|[[:^alpha:]]",
    ] {
        assert!(!is_linear(pattern), "{pattern}");
    }
    let look_around = fuzz::USUAL.iter().filter(|pattern| !is_linear(pattern)).count();
    assert!(look_around <= 5, "{look_around} of the usual patterns need PCRE");
}

/// `PAIRS=10000000 SEED=7 cargo test --profile fuzz -p brisk-server both_engines` tries more.
#[test]
fn both_engines_find_the_same() {
    let number = |name, or: u64| std::env::var(name).map_or(or, |value| value.parse().expect("a number"));
    let tally = fuzz::run(number("SEED", 7), number("PAIRS", 40_000));
    println!("{tally:?}");
    assert!(tally.matches * 5 > tally.pairs && tally.linear * 3 > tally.patterns, "{tally:?}");
}

#[test]
fn groups_of_both_engines() {
    for pattern in [r"(?P<a>x+)(y)?", r"(?P<a>x+)(?=y|$)(y)?"] {
        let regex = Adhoc::compile(pattern).unwrap();
        assert_eq!(regex.names()[1].as_deref(), Some("a"));
        let groups = regex.groups(b"-xxy").unwrap().unwrap();
        assert_eq!(groups, [Some(&b"xxy"[..]), Some(b"xx"), Some(b"y")]);
        assert_eq!(regex.groups(b"-xx").unwrap().unwrap()[2], None);
        assert_eq!(regex.groups(b"-").unwrap(), None);
    }
    assert!(Adhoc::compile("(").is_err_and(|error| error.starts_with("pcre2_compile() failed: ")));
}

#[test]
fn a_runaway_match_is_an_error() {
    let mut subject = vec![b'a'; 40];
    subject.push(b'!');
    for pattern in [r"^(?=(a+)+$)(a+)+$", "(*LIMIT_MATCH=4000000000)(a+)+(?=b)"] {
        let program = program(pattern);
        assert!(program.is_match(&subject).is_err(), "{pattern}");
        assert!(program.find(&subject).is_err(), "{pattern}");
        assert!(program.spans(&subject).is_err(), "{pattern}");
    }
    // A pattern's own limits can only be lower.
    assert!(program("(*LIMIT_MATCH=3)(a+)+(?=b)").is_match(b"aaa!").is_err());
    assert!(program("(*UTF)a(?=b)").is_match(b"ab\xff").is_err());
}

#[test]
fn long_subjects_do_not_need_a_stack() {
    let subject = [&b"ab".repeat(16_000)[..], b"c"].concat();
    for pattern in ["^(?=a)(a|b)*c", "^(?:(?=.)(a|b))+c$"] {
        for jit in [Jit::Off, Jit::On] {
            let program = Program::compile(pattern, false, Dialect::Nginx, jit).unwrap();
            assert!(program.is_match(&subject).unwrap(), "{pattern}");
        }
    }
}

#[test]
fn errors_say_where() {
    let error =
        |pattern| Program::compile(pattern, false, Dialect::Nginx, Jit::Off).err().expect("it is wrong");
    assert_eq!(error("a(b").1, Some(3));
    assert_eq!(error("(*UTF)a(b").1, Some(9));
    assert_eq!(error("[z-a]").1, Some(3));
}

#[test]
fn a_set_skips_nothing_that_matches() {
    let mut table = Unnamed(Spelled::default());
    let span = brisk_conf::Span { file: brisk_conf::FileId(0), start: 0, end: 0 };
    let token = Token { value: Box::default(), span, quoted: false };
    let patterns = ["a$", "b", "(?=c)", "d$", "e", "f", "g", "h", "^i$", "(?i)j"];
    let list: Vec<_> = patterns
        .iter()
        .map(|pattern| Regex::compile(&mut table, pattern, false, Jit::Off, &token).unwrap())
        .collect();
    let set = RegexSet::new(list.iter()).expect("it is large enough");
    for subject in ["a", "a\n", "i\n", "bd", "cd\n", "J", "x", "\n", ""] {
        let candidates = set.candidates(subject.as_bytes());
        for (index, regex) in list.iter().enumerate() {
            let matches = regex.is_match(subject.as_bytes()).unwrap();
            assert!(candidates.has(index) || !matches, "{} on {subject:?}", patterns[index]);
        }
    }
    assert!(!set.candidates(b"x").has(0) && set.candidates(b"x\n").has(0));
}
