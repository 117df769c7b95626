//! Both engines against each other: patterns as they stand in configurations of nginx, and subjects that nearly match.
//!
//! Where a pattern runs on the linear-time engine, PCRE2 must find the same match with the same groups. Everything is
//! chosen by the bytes of the input, so a fuzzer can look for the pattern.

use super::program::{Jit, Pcre, Program};
use super::translate::{Dialect, translate};

/// What was compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Patterns that PCRE2 accepts.
    pub patterns: u64,
    /// Those of them that run on the linear-time engine.
    pub linear: u64,
    /// Pairs of a pattern and a subject of which both engines were asked.
    pub pairs: u64,
    /// Of these, where there is a match.
    pub matches: u64,
}

/// Patterns of well-known configurations: WordPress, Drupal, Laravel, MediaWiki, Nextcloud and the usual advice.
pub const USUAL: &[&str] = &[
    r"\.php$",
    r"\.php(/|$)",
    r"[^/]\.php(/|$)",
    r"^(.+?\.php)(/.*)$",
    r"^(.+\.php)(/.+)$",
    r"^(.+\.php)(.*)$",
    r"/\.(?!well-known).*",
    r"/\.",
    r"/\.ht",
    r"^/\.user\.ini",
    r"(^|/)\.",
    r"\.(js|css|png|jpg|jpeg|gif|ico)$",
    r"\.(?:css(\.map)?|js(\.map)?|jpe?g|png|gif|ico|svgz?|ttf|ttc|otf|eot|woff2?)$",
    r"^.+\.(css|js|jpg|jpeg|gif|png|ico|gz|svg|svgz|ttf|otf|woff|woff2|eot|mp4|ogg|ogv|webm|webp|zip|swf|map)$",
    r"/(?:uploads|files)/.*\.php$",
    r"^/wp-content/uploads/.*\.(html|htm|shtml|php|js|swf)$",
    r"^/wp-(admin|login\.php)",
    r"/wp-json/|/xmlrpc\.php|wp-.*\.php|/feed/|index\.php|sitemap(_index)?\.xml",
    r"comment_author|wordpress_[a-f0-9]+|wp-postpass|wordpress_no_cache|wordpress_logged_in",
    r"^/sites/.*/files/styles/",
    r"^(/[a-z\-]+)?/system/files/",
    r"\..*/.*\.php$",
    r"^/sites/.*/private/",
    r"/vendor/.*\.php$",
    r"'\.php$|^/update\.php",
    r"\.(engine|inc|install|make|module|profile|po|sh|.*sql|theme|twig|tpl(\.php)?|xtmpl|yml)(~|\.sw[op]|\.bak|\.orig|\.save)?$|^(\.(?!well-known).*|Entries.*|Repository|Root|Tag|Template)$",
    r"^/(?:build|tests|config|lib|3rdparty|templates|data)(?:$|/)",
    r"^/(?:\.|autotest|occ|issue|indie|db_|console)",
    r"^\/(?:index|remote|public|cron|core\/ajax\/update|status|ocs\/v[12]|updater\/.+|oc[ms]-provider\/.+)\.php(?:$|\/)",
    r"^/w/(index|load|api|thumb|opensearch_desc|rest|img_auth)\.php$",
    r"^/wiki/(?<title>.*)$",
    r"^/(?<lang>[a-z]{2})/(?P<rest>.+)$",
    r"^/user/(\d+)/?$",
    r"^/download/(.*)/media/(.*)\..*$",
    r"^/([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$",
    r"^(www\.)?(?<domain>.+)$",
    r"^(?<sub>\w+)\.example\.com$",
    r"^www\d+\.example\.net$",
    r"([^/]+)\.example\.(com|net|org)",
    r"MSIE [1-6]\.",
    r"(bot|crawl|spider|slurp)",
    r"(?i)(googlebot|bingbot|yandex)",
    r"^(GET|HEAD|POST)$",
    r"^$",
    r"^/admin$",
    r"^https?://([^/]+\.)?(example\.com|test\.org)($|/)",
    r"http://[^/]+/(.*)",
    r"^(\d+\.\d+)\.\d+\.\d+$",
    r"[?&]utm_[a-z]+=[^&]*",
    r"^/([^/]+)/([^/]+)/([^/]+)/?$",
    r"^(.*)-([a-z0-9]{6,})\.(css|js)$",
    r"^/+(.*?)/*$",
    r"\bselect\b.*\bfrom\b",
    r"%[0-9A-Fa-f]{2}",
    r"[[:alnum:]_-]+@[[:alnum:].-]+",
    r"^/(?!private)",
    r"^(?=.*\.php)(?!.*wp-).*$",
    r"^/(\w)\1/",
];

/// Bytes that decide, one after the other; zeros behind their end.
struct Choices<'d>(&'d [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((&byte, rest)) => {
                self.0 = rest;
                byte
            }
            None => 0,
        }
    }

    fn below(&mut self, count: usize) -> usize {
        let value = if count > 256 { usize::from(self.byte()) << 8 } else { 0 };
        (value | usize::from(self.byte())) % count
    }

    fn of<'t, T: ?Sized>(&mut self, list: &[&'t T]) -> &'t T {
        list[self.below(list.len())]
    }
}

/// A pattern, as a tree, so that subjects can be made that it matches.
enum Node {
    Text(&'static str),
    /// As written, and bytes that it may match.
    One(&'static str, &'static [u8]),
    Assertion(&'static str),
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Group(&'static str, Box<Node>),
    /// The quantifier, and how often a subject has the node.
    Repeated(Box<Node>, &'static str, usize),
}

const TEXTS: &[&str] = &[
    "a", "b", "ab", "x", "/", "php", "k", "S", "-", "_", "é", "{a}", "]", "}", "0", "1", ":", "#", " ", "=",
    "admin", "wp-",
];
const ONES: &[(&str, &[u8])] = &[
    (".", b"a/\0\xff\r\x85"),
    (r"\.", b"."),
    (r"\/", b"/"),
    (r"\-", b"-"),
    (r"\d", b"059"),
    (r"\w", b"aZ_9"),
    (r"\s", b" \t\n\x0b\x0c\r"),
    (r"\S", b"a\0\xa0\x85"),
    (r"\D", b"a\n\xff"),
    (r"\W", b"-\n\xe9"),
    ("[a-z]", b"amz"),
    ("[^/]", b"a\n\0\xff"),
    ("[^/.]", b"-\nb"),
    ("[a-zA-Z0-9_-]", b"aZ0_-"),
    ("[a-z-9]", b"a-9"),
    ("[]a]", b"]a"),
    ("[^]a]", b"b\n["),
    ("[a&&b]", b"a&b"),
    ("[!--b]", b"!-b*"),
    ("[+--]", b"+,-"),
    ("[a~~b]", b"a~b"),
    ("[a[b]", b"a[b"),
    ("[^\\x00-\\x7f]", b"\x80\xff"),
    ("[\\w.-]", b"a.-"),
    ("[\\w\\-.]", b"a-."),
    ("[\\d-]", b"1-"),
    ("[é]", b"\xc3\xa9"),
    ("[[:alpha:]]", b"aZ"),
    ("[[:punct:][:space:]]", b"!\x0b ~"),
    ("[[:upper:]]", b"Aa"),
    ("[[:xdigit:]_]", b"fF_"),
    ("[^\\W_]", b"a9"),
    ("[\\s\\S]", b"\n\0\xff"),
    ("[A-z]", b"A_z^"),
    ("[k]", b"kK"),
    ("\\x41", b"Aa"),
    ("\\n", b"\n"),
    ("\\t", b"\t"),
];
const ASSERTIONS: &[&str] = &["^", "$", r"\b", r"\B", r"\A", r"\z", r"\Z", "$", "^"];
const OPENINGS: &[&str] =
    &["(", "(?:", "(", "(?<n1>", "(?P<n2>", "(?'n3'", "(?i:", "(?>", "(?=", "(?!", "(?<=", "(?|"];
const QUANTIFIERS: &[(&str, &[usize])] = &[
    ("*", &[0, 1, 2, 5]),
    ("+", &[1, 2, 3]),
    ("?", &[0, 1]),
    ("*?", &[0, 1, 2]),
    ("+?", &[1, 2]),
    ("??", &[0, 1]),
    ("{2}", &[2]),
    ("{1,3}", &[1, 3]),
    ("{2,}", &[2, 4]),
    ("{0,2}", &[0, 2]),
    ("{1,2}?", &[1, 2]),
    ("*+", &[0, 2]),
    ("{,2}", &[1]),
    ("{0}", &[0]),
];
/// What stands in patterns besides, mostly wrong or differently understood.
const ODD: &[&str] = &[
    "{,3}",
    "{2",
    "{2}",
    "{ 1,2 }",
    "{",
    "}",
    "**",
    "a++",
    r"\Q.*\E",
    r"\E",
    r"\h",
    r"\H",
    r"\R",
    r"\v",
    r"\N",
    r"\K",
    r"\G",
    r"\X",
    r"\C",
    r"\1",
    r"\g1",
    r"\k<n1>",
    r"\12",
    r"\012",
    r"\0",
    r"\x{41}",
    r"\x4",
    r"\xg",
    r"\o{101}",
    r"\e",
    r"\a",
    r"\cA",
    r"\<",
    r"\>",
    r"\_",
    r"\ ",
    r"\%",
    r"\pL",
    r"\p{L}",
    "(?#c)",
    "(?i)",
    "(?-i)",
    "(?x)",
    "(?s)",
    "(?m)",
    "(?i-s:a)",
    "(*UTF)",
    "(*UTF8)",
    "(*ANYCRLF)",
    "(*ACCEPT)",
    "(?R)",
    "(?1)",
    "(?&n1)",
    "(?J)",
    "()",
    "(|a)",
    "(a|)",
    "(a*)*",
    "(a*)+",
    "(|a)+",
    "(a?)*b",
    "(a*|b)*",
    "[[:^alpha:]]",
    "[[.a.]]",
    "[[=a=]]",
    "[:alpha:]",
    "[[:nope:]]",
    r"[\w-z]",
    r"[a-\d]",
    r"[\b]",
    r"[\Qa]\E]",
    "[z-a]",
    "[a-[]",
    "[]-a]",
    "[--a]",
    "[a-z--9]",
    "[^",
    "[",
    "(",
    ")",
    "\\",
    "^*",
    "$+",
    r"\b+",
    "(?:^)*",
    "(?:$|a)*",
    "\u{17f}",
    "\u{212a}",
    "\0",
    "\n",
    "x{1001}",
    "(?<n1>a)(?<n1>b)",
    "(?<1a>b)",
    "(a){0}",
    "(a){2}{3}",
    "[a-zA-Z",
];

fn tree(choose: &mut Choices<'_>, depth: usize) -> Node {
    let count = 1 + choose.below(4);
    let items = (0..count).map(|_| {
        let item = match choose.below(if depth == 0 { 8 } else { 12 }) {
            0..=2 => Node::Text(choose.of(TEXTS)),
            3..=6 => {
                let (text, bytes) = ONES[choose.below(ONES.len())];
                Node::One(text, bytes)
            }
            7 => Node::Assertion(choose.of(ASSERTIONS)),
            8..=10 => {
                // Mostly what is usual.
                let many = if choose.below(8) == 0 { OPENINGS.len() } else { 7 };
                Node::Group(OPENINGS[choose.below(many)], Box::new(tree(choose, depth - 1)))
            }
            _ => Node::Choice((0..2 + choose.below(2)).map(|_| tree(choose, depth - 1)).collect()),
        };
        if choose.below(3) != 0 || matches!(item, Node::Assertion(_)) {
            return item;
        }
        let (quantifier, counts) = QUANTIFIERS[choose.below(QUANTIFIERS.len())];
        let count = counts[choose.below(counts.len())];
        Node::Repeated(Box::new(item), quantifier, count)
    });
    Node::Sequence(items.collect())
}

impl Node {
    fn write(&self, out: &mut String) {
        match self {
            Node::Text(text) | Node::One(text, _) | Node::Assertion(text) => out.push_str(text),
            Node::Sequence(items) => items.iter().for_each(|item| item.write(out)),
            Node::Choice(items) => {
                out.push_str("(?:");
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { "|" } else { "" });
                    item.write(out);
                }
                out.push(')');
            }
            Node::Group(opening, inner) => {
                out.push_str(opening);
                inner.write(out);
                out.push(')');
            }
            Node::Repeated(inner, quantifier, _) => {
                inner.write(out);
                out.push_str(quantifier);
            }
        }
    }

    /// Something that it may well match.
    fn sample(&self, choose: &mut Choices<'_>, out: &mut Vec<u8>) {
        match self {
            Node::Text(text) => out.extend_from_slice(text.as_bytes()),
            Node::One(_, bytes) => out.push(bytes[choose.below(bytes.len())]),
            Node::Assertion(_) => {}
            Node::Sequence(items) => items.iter().for_each(|item| item.sample(choose, out)),
            Node::Choice(items) => items[choose.below(items.len())].sample(choose, out),
            Node::Group(_, inner) => inner.sample(choose, out),
            Node::Repeated(inner, _, count) => (0..*count).for_each(|_| inner.sample(choose, out)),
        }
    }
}

/// A pattern and whether it ignores case. The tree is there if it was made of one.
fn pattern(choose: &mut Choices<'_>) -> (String, Option<Node>) {
    let mut text = String::new();
    match choose.below(8) {
        0..=4 => {
            let node = tree(choose, 2);
            node.write(&mut text);
            (text, Some(node))
        }
        5 | 6 => {
            for _ in 0..=choose.below(5) {
                match choose.below(6) {
                    0 => text.push_str(choose.of(TEXTS)),
                    1 => text.push_str(ONES[choose.below(ONES.len())].0),
                    2 => text.push_str(QUANTIFIERS[choose.below(QUANTIFIERS.len())].0),
                    3 => tree(choose, 1).write(&mut text),
                    4 => text.push('|'),
                    _ => text.push_str(choose.of(ODD)),
                }
            }
            (text, None)
        }
        _ => {
            text.push_str(choose.of(USUAL));
            for _ in 0..choose.below(3) {
                let at = choose.below(text.len() + 1);
                if text.is_char_boundary(at) {
                    text.insert_str(at, if choose.below(2) == 0 { choose.of(ODD) } else { choose.of(TEXTS) });
                }
            }
            (text, None)
        }
    }
}

/// Something that the pattern may match, or nearly.
fn subject(choose: &mut Choices<'_>, pattern: &str, node: Option<&Node>) -> Vec<u8> {
    const NOISE: &[&[u8]] = &[
        b"\n",
        b"\0",
        b"\xff",
        b"a",
        b"/",
        b"A",
        b"\r\n",
        b".",
        b"\xc3\xa9",
        b"b",
        b"-",
        b" ",
        b"\n\n",
        b"php",
        b"1",
        b"\xe2\x84\xaa",
    ];
    let mut out = Vec::new();
    for _ in 0..choose.below(3) {
        out.extend_from_slice(choose.of(NOISE));
    }
    match node {
        Some(node) => node.sample(choose, &mut out),
        None => {
            for _ in 0..choose.below(10) {
                // The pattern's own text is the likeliest to match.
                match pattern.as_bytes().get(choose.below(pattern.len().max(1))) {
                    Some(&byte) if choose.below(4) != 0 => out.push(byte),
                    _ => out.extend_from_slice(choose.of(NOISE)),
                }
            }
        }
    }
    for _ in 0..choose.below(3) {
        let at = choose.below(out.len() + 1);
        let noise: &[u8] = choose.of(NOISE);
        match choose.below(4) {
            1 if at < out.len() => _ = out.remove(at),
            2 if at < out.len() => out[at] = out[at].to_ascii_uppercase(),
            _ => out.splice(at..at, noise.iter().copied()).for_each(drop),
        }
    }
    if choose.below(4) == 0 {
        out.push(b'\n');
    }
    out
}

/// Makes a pattern and `subjects` subjects of `data` and compares.
///
/// # Panics
/// If the engines differ.
pub fn compare(data: &[u8], subjects: usize, tally: &mut Tally) {
    let choose = &mut Choices(data);
    let caseless = choose.below(3) == 0;
    let dialect = if choose.below(4) == 0 { Dialect::Apache } else { Dialect::Nginx };
    let (pattern, node) = pattern(choose);
    let Ok(reference) = Pcre::compile(&pattern, caseless, dialect, Jit::Off) else {
        assert!(
            Program::compile(&pattern, caseless, dialect, Jit::Off).is_err(),
            "{pattern:?} is no pattern of PCRE2"
        );
        return;
    };
    tally.patterns += 1;
    let Some(translated) = translate(&pattern, caseless, dialect) else { return };
    let program = Program::compile(&pattern, caseless, dialect, Jit::Off).expect("it was compiled before");
    // Otherwise it is too large for the linear engine.
    let Some(linear) = program.linear() else {
        assert!(
            translated.pattern.len() > 1000 || pattern.contains('{'),
            "{pattern:?} is refused as {translated:?}"
        );
        return;
    };
    tally.linear += 1;
    for _ in 0..subjects {
        let subject = subject(choose, &pattern, node.as_ref());
        // A limit; the other engine has none.
        let Ok(want) = reference.spans(&subject, program.names().len()) else { continue };
        let shown = || {
            format!(
                "{pattern:?} (caseless: {caseless}, {dialect:?}) as {translated:?} on {:?}",
                subject.escape_ascii().to_string()
            )
        };
        assert_eq!(program.spans(&subject).expect("no limit"), want, "{}", shown());
        let whole = want.as_ref().map(|spans| spans[0]);
        assert_eq!(program.find(&subject).expect("no limit"), whole, "{}", shown());
        assert_eq!(program.is_match(&subject).expect("no limit"), whole.is_some(), "{}", shown());
        if !linear.leaves_to_pcre(&subject) {
            tally.pairs += 1;
            tally.matches += u64::from(whole.is_some());
        }
    }
}

/// The fuzz target.
pub fn fuzz_regex(data: &[u8]) {
    compare(data, 4, &mut Tally::default());
}

/// Compares until so many pairs were tried, from `seed` on.
pub fn run(seed: u64, pairs: u64) -> Tally {
    let mut tally = Tally::default();
    let mut state = seed | 1;
    let mut data = [0; 512];
    while tally.pairs < pairs {
        for chunk in data.chunks_exact_mut(8) {
            // xorshift64*
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            chunk.copy_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
        }
        compare(&data, 16, &mut tally);
    }
    tally
}
