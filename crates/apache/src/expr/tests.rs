//! Expressions on a request that is made up.

use super::*;
use crate::testing::{Request, Rust};
use crate::{FileTest, Stop, Variable};

fn request() -> Request {
    let mut request = Request::default();
    request.fields.push(("User-Agent".into(), "Mozilla/5.0 (X11)".into()));
    request.fields.push(("Host".into(), "example.org".into()));
    request.fields.push(("X-List".into(), "a, b".into()));
    request.response.push(("X-Sent".into(), "yes".into()));
    request.env.push(("Colour".into(), "blue".into()));
    request.variables.push((Variable::RequestUri, "/a/b.php".into()));
    request.variables.push((Variable::Https, "on".into()));
    request.variables.push((Variable::RemoteAddr, "192.0.2.77".into()));
    request.files.push(("/srv/a".into(), FileTest::File));
    request
}

fn holds(text: &str) -> bool {
    let condition =
        Condition::parse(text.as_bytes(), Place::Server, &Rust).unwrap_or_else(|why| panic!("{text}: {why}"));
    let request = request();
    Evaluation::new(&request).holds(&condition).unwrap_or_else(|stop| panic!("{text}: {stop:?}"))
}

/// Each is true.
const TRUE: &[&str] = &[
    "true",
    "!false",
    "! ! true",
    "true && ! false",
    "false || true && true",
    "not false and true or false",
    "(true || false) && true",
    "'a' = 'a'",
    "'a' == 'a'",
    "'a' != 'b'",
    "'a' < 'b'",
    "'b' >= 'a'",
    "'10' < '9'",
    "'10' -gt '9'",
    "10 -eq 10",
    "-1 lt 1",
    "' 7x' -eq 7",
    "'abc' =~ /B/i",
    "'abc' !~ m#d#",
    "'abc' =~ m!^a.c$!",
    "'a' in { 'b', 'a' }",
    "!('c' -in { 'b', 'a' })",
    "-n 'x'",
    "-z ''",
    "! -n ''",
    "-T 'yes'",
    "!-T 'off'",
    "! -T '0'",
    "-T '00'",
    "-f '/srv/a'",
    "! -d '/srv/a'",
    "-R '192.0.2.0/24'",
    "%{REMOTE_ADDR} -ipmatch '192.0.2'",
    "!('x' -ipmatch '10.0.0.0/8')",
    "'foo/bar' -strmatch 'foo*'",
    "!('foo/bar' -fnmatch 'foo*')",
    "'FOO' -strcmatch 'f?o'",
    "%{REQUEST_URI} == '/a/b.php'",
    "%{request_uri} =~ m#\\.php$#",
    "%{HTTP:user-agent} =~ /Mozilla/",
    "req('host') == 'example.org'",
    "%{req:X-None} == ''",
    "resp('X-Sent') = 'yes'",
    "reqenv('Colour') = 'blue'",
    "env('Colour') = 'blue'",
    "%{HTTPS} == 'on'",
    "tolower('ABC') == 'abc'",
    "toupper(tolower('Abc')) . '!' == 'ABC!'",
    "md5('') == 'd41d8cd98f00b204e9800998ecf8427e'",
    "sha1('abc') == 'a9993e364706816aba3e25717850c26c9cd0d89d'",
    "base64('foo') == 'Zm9v'",
    "unbase64('Zm9v') == 'foo'",
    "escape('a b?') == 'a%20b%3f'",
    "unescape('%41%2f') == 'A%2f'",
    "filesize('/srv/a') -eq 5",
    "file('/srv/a') == 'hello'",
    "'xab' =~ /x(.)(.)/ && '$2$1' == 'ba'",
    "'xab' =~ /x(.)/ && 'q' =~ /q/ && $1 == 'a'",
    "'a\\tb' == 'a\\011b'",
    "\"it's\" == 'it\\'s'",
    "'100%' == \"100%\"",
    "'${x}' == '${x}'",
    "%{SSL_PROTOCOL} == ''",
    "\"%{escape:%{tolower:A B}}\" == 'a%20b'",
];

#[test]
fn conditions() {
    for text in TRUE {
        assert!(holds(text), "{text}");
    }
}

#[test]
fn mistakes() {
    for (text, why) in [
        ("", "syntax error"),
        ("'a'", "syntax error"),
        ("%{NONE} == 'a'", "Variable 'NONE' does not exist"),
        ("none('a') == 'a'", "Function 'none' does not exist"),
        ("-q 'a'", "Unary operator 'q' does not exist"),
        ("'a' -none 'b'", "Binary operator 'none' does not exist"),
        ("'a' =~ /(/", "Failed to compile regular expression"),
        ("'a' =~ /a", "Unterminated regexp"),
        ("'a", "Unterminated string"),
        ("%{A", "Unterminated"),
        ("%{A B}", "Invalid character in variable name ' '"),
        ("'\\400' = 'a'", "out of bound"),
        ("'\\9' = 'a'", "Bad escape"),
        ("'\\0' = 'a'", "Bad escape"),
        ("true true", "syntax error"),
        ("$2$1 == 'ba'", "syntax error"),
        ("-R 'nowhere'", "parsing of subnet"),
        ("-R %{REMOTE_ADDR}", "constant"),
        ("'a' == 'b' == 'c'", "syntax error"),
        ("true # comment", "Parse error near '#'"),
    ] {
        let error = Condition::parse(text.as_bytes(), Place::Server, &Rust).expect_err(text);
        assert!(error.contains(why), "{text}: {error}");
    }
    let deep = format!("{}true{}", "(".repeat(5000), ")".repeat(5000));
    let error = Condition::parse(deep.as_bytes(), Place::Server, &Rust).expect_err("too deep");
    assert!(error.contains("too deeply"), "{error}");
    let deep = format!("{}true", "! ".repeat(5000));
    Condition::parse(deep.as_bytes(), Place::Server, &Rust).expect_err("too deep");
    let long = format!("'{}' == ''", "x".repeat(9000));
    Condition::parse(long.as_bytes(), Place::Server, &Rust).expect_err("too long");
}

#[test]
fn files_are_not_read_for_htaccess() {
    for text in ["file('/etc/passwd') == 'a'", "%{file:/etc/passwd} == ''"] {
        let error = Condition::parse(text.as_bytes(), Place::Override, &Rust).expect_err(text);
        assert!(error.contains("restricted"), "{error}");
    }
    // What only looks is allowed, as in Apache.
    Condition::parse(b"-f '/etc/passwd' && filesize('/etc/passwd') -gt 1", Place::Override, &Rust).unwrap();
}

#[test]
fn what_the_response_varies_by() {
    let request = request();
    let vary = |text: &str| {
        let condition = Condition::parse(text.as_bytes(), Place::Server, &Rust).unwrap();
        let mut evaluation = Evaluation::new(&request);
        evaluation.holds(&condition).unwrap();
        evaluation.vary.into_iter().map(|name| String::from_utf8(name).unwrap()).collect::<Vec<_>>().join(",")
    };
    assert_eq!(
        vary("%{HTTP_USER_AGENT} == 'a' || req('X-List') == 'b' || http('x-list') == 'c'"),
        "User-Agent,X-List"
    );
    assert_eq!(vary("req_novary('X-List') == 'b' || %{HTTP_HOST} == 'a' || req('Host') == 'b'"), "");
}

#[test]
fn an_evaluation_waits_for_facts_and_fails_for_good() {
    let mut request = request();
    request.unknown.push("/srv/later".into());
    let condition = Condition::parse(b"-f '/srv/later' || true", Place::Server, &Rust).unwrap();
    assert_eq!(Evaluation::new(&request).holds(&condition), Err(Stop::Wait));
    let condition = Condition::parse(b"! ('FAIL' =~ /FAIL/)", Place::Server, &Rust).unwrap();
    assert!(
        matches!(Evaluation::new(&request).holds(&condition), Err(Stop::Failed(_))),
        "a match error is no false"
    );
}

#[test]
fn texts() {
    let request = request();
    let value = |text: &str| {
        let text = Text::parse(text.as_bytes(), Place::Server).unwrap();
        String::from_utf8(Evaluation::new(&request).text(&text).unwrap()).unwrap()
    };
    assert_eq!(value("%{REQUEST_URI} is 100% \"%{HTTP:Host}\" $"), "/a/b.php is 100% \"example.org\" $");
    assert_eq!(value(""), "");
    assert_eq!(value("a\\nb"), "a\nb");
    assert_eq!(Text::parse(b"plain", Place::Server).unwrap().literal(), Some(&b"plain"[..]));
    Text::parse(b"%{REQUEST_URI", Place::Server).expect_err("not closed");
}

proptest::proptest! {
    /// Reading ends, and what was read has a value.
    #[test]
    fn any_text_is_read(text in "[a-z0-9 '\"%{}$()!&|=~<>./,:\\\\-]{0,60}") {
        if let Ok(condition) = Condition::parse(text.as_bytes(), Place::Server, &Rust) {
            let _ = Evaluation::new(&request()).holds(&condition);
        }
        if let Ok(read) = Text::parse(text.as_bytes(), Place::Server) {
            let _ = Evaluation::new(&request()).text(&read);
        }
    }
}
