//! Targets: normalisation, escapes, what is refused.

use super::*;
use proptest::prelude::*;
use std::borrow::Cow;

fn parse(target: &str, opts: UriOptions) -> Result<Target, UriError> {
    let mut out = Target::default();
    parse_target(target.as_bytes(), opts, &mut out).map(|()| out)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Path, arguments and extension of a target; `None` if it is refused.
fn parts(target: &str, opts: UriOptions) -> Option<(String, Option<String>, String)> {
    let out = parse(target, opts).ok()?;
    let args = out.has_args.then(|| text(out.args.of(target.as_bytes())));
    Some((text(&out.path), args, out.ext.map_or(String::new(), |ext| text(ext.of(&out.path)))))
}

#[test]
fn paths_are_decoded_and_normalised() {
    let check = |target: &str, path: &str| {
        let got = parts(target, UriOptions::default()).map(|p| p.0);
        assert_eq!(got.as_deref(), (!path.is_empty()).then_some(path), "{target}");
    };
    check("/", "/");
    check("/foo/bar", "/foo/bar");
    check("/foo//bar///", "/foo/bar/");
    check("//", "/");
    check("/foo/./bar/.", "/foo/bar/");
    check("/foo/bar/..", "/foo/");
    check("/foo/bar/../baz", "/foo/baz");
    check("/foo/bar/.?args", "/foo/bar/");
    check("/foo/bar/.#frag", "/foo/bar/");
    check("/foo/bar/..?args", "/foo/");
    check("/foo/bar/..#frag", "/foo/");
    check("/.well-known/..x/...", "/.well-known/..x/...");
    check("/a/%2e%2E/b", "/b");
    check("/a/.%2e%2fb", "/b");
    check("/a%2fb", "/a/b");
    check("/a%2f%2fb", "/a/b");
    check("/%61%3f%23%25%2b", "/a?#%+");
    check("/%252e%252e/", "/%2e%2e/");
    check("/.%23", "/.#");
    check("/%02", "/\u{2}");
    check("/é", "/é");
    check("/a\\..\\b", "/a\\..\\b");
    // Refused.
    check("/..", "");
    check("/../", "");
    check("/a/../..", "");
    check("/%2e%2e/", "");
    check("/a/..%2f..", "");
    check("/a%00b", "");
    check("/foo/bar%", "");
    check("/foo/bar%1", "");
    check("/foo/%zz", "");
    check("/\u{2}", "");
    check("/\u{7f}", "");
    check("/ /", "");
    check("/a?b\tc", "");
    check("/a#\u{1}", "");
    check("*", "");
    check("", "");
    check("foo", "");
    check("?a", "");
    check("example.com:80", "");
}

#[test]
fn slashes_may_be_kept() {
    let opts = UriOptions { merge_slashes: false, ..UriOptions::default() };
    let check = |target: &str, path: &str| assert_eq!(parts(target, opts).unwrap().0, path, "{target}");
    check("/foo//../bar", "/foo/bar");
    check("/foo///../bar", "/foo//bar");
    check("//..", "/");
    check("/a//", "/a//");
}

#[test]
fn arguments_and_extensions() {
    let check = |target: &str, path: &str, args: Option<&str>, ext: &str| {
        let want = Some((path.to_owned(), args.map(str::to_owned), ext.to_owned()));
        assert_eq!(parts(target, UriOptions::default()), want, "{target}");
    };
    check("/a.html", "/a.html", None, "html");
    check("/a.html?", "/a.html", Some(""), "html");
    check("/a.tar.gz?x=/../%zz", "/a.tar.gz", Some("x=/../%zz"), "gz");
    check("/a.d/b", "/a.d/b", None, "");
    check("/a.d%2fb", "/a.d/b", None, "");
    check("/a%2ehtml", "/a.html", None, "html");
    check("/.htaccess", "/.htaccess", None, "");
    check("/.a.b", "/.a.b", None, "b");
    check("/a?b#c?d", "/a", Some("b"), "");
    check("/a.b#c?d", "/a.b", None, "b");
    check("/./a.b?c#d", "/a.b", Some("c"), "b");
    check("/a.", "/a.", None, "");
}

#[test]
fn flags_say_whether_the_path_was_changed() {
    let check = |target: &str, complex: bool, quoted: bool, plus: bool| {
        let out = parse(target, UriOptions::default()).unwrap();
        assert_eq!((out.complex, out.quoted, out.plus), (complex, quoted, plus), "{target}");
    };
    check("/a?%20+//", false, false, false);
    check("/a+b", false, false, true);
    check("/a%2Bb", false, true, true);
    check("/a%20b", false, true, false);
    check("/a//b", true, false, false);
    check("/a/./b", true, false, false);
    check("/a?b#c", true, false, false);
}

#[test]
fn absolute_form_gives_the_host() {
    let check = |target: &str, host: &str, path: &str, unparsed: &str| {
        let out = parse(target, UriOptions::default()).unwrap();
        assert_eq!(text(out.host.unwrap().of(target.as_bytes())), host, "{target}");
        assert_eq!(text(&out.path), path, "{target}");
        assert_eq!(text(&out.unparsed(target.as_bytes())), unparsed, "{target}");
    };
    check("http://localhost", "localhost", "/", "/");
    check("http://localhost/", "localhost", "/", "/");
    check("HTTP://localhost:8080?args#frag", "localhost:8080", "/", "/?args");
    check("http://localhost:8080/a//b", "localhost:8080", "/a/b", "/a//b");
    check("http://localhost:", "localhost:", "/", "/");
    check("git+x-y.z://[::1]:5/a", "[::1]:5", "/a", "/a");
    check("http:///a", "", "/a", "/a");
    check("http://a?b", "a", "/", "/?b");
    check("http://a/b#c", "a", "/b", "/b");
    for bad in
        ["http:/a", "http:a", "http://a#b", "http://a:b/", "http://[::1/", "http://a_b/", "http://u@a/"]
    {
        assert!(parse(bad, UriOptions::default()).is_err(), "{bad}");
    }
    let origin = UriOptions { form: TargetForm::Origin, ..UriOptions::default() };
    assert!(parse("http://localhost/", origin).is_err());
}

#[test]
fn authority_form_needs_a_port() {
    let opts = UriOptions { form: TargetForm::Authority, ..UriOptions::default() };
    let out = parse("localhost:8080", opts).unwrap();
    assert_eq!((out.host, text(&out.path)), (Some(Span::new(0, 14)), "/".into()));
    assert_eq!(&*out.unparsed(b"localhost:8080"), b"/");
    assert!(parse("[::1]:80", opts).is_ok());
    for bad in ["/", "localhost", "localhost:", "localhost:80/", "localhost:8a", "http://a:80"] {
        assert!(parse(bad, opts).is_err(), "{bad}");
    }
}

/// RFC 9112 §3.2.4.
#[test]
fn the_asterisk_is_a_target_of_its_own() {
    for form in [TargetForm::Any, TargetForm::Origin] {
        let opts = UriOptions { form, asterisk: true, ..UriOptions::default() };
        let out = parse("*", opts).unwrap();
        assert_eq!((out.asterisk, text(&out.path), &*out.unparsed(b"*")), (true, "*".into(), &b"*"[..]));
        assert!(parse("*a", opts).is_err());
        assert!(!parse("/*", opts).unwrap().asterisk);
    }
    assert!(parse("*", UriOptions::default()).is_err());
}

#[test]
fn escapes_as_nginx() {
    let check = |kind: Escape, src: &str, want: &str| {
        let mut out = Vec::new();
        escape(kind, src.as_bytes(), &mut out);
        assert_eq!(text(&out), want, "{kind:?} {src}");
    };
    let all = " !\"#$%&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~\u{7f}é\n";
    check(Escape::Uri, all, "%20!%22%23$%25&'()*+,-./09:;%3C=%3E%3F@AZ[%5C]%5E_%60az%7B%7C%7D~%7F%C3%A9%0A");
    check(
        Escape::Args,
        all,
        "%20!%22%23$%25%26'()*%2B,-./09:%3B%3C=%3E%3F@AZ[%5C]%5E_%60az%7B%7C%7D~%7F%C3%A9%0A",
    );
    check(
        Escape::UriComponent,
        all,
        "%20%21%22%23%24%25%26%27%28%29%2A%2B%2C-.%2F09%3A%3B%3C%3D%3E%3F%40AZ%5B%5C%5D%5E_%60az%7B%7C%7D~%7F%C3%A9%0A",
    );
    check(Escape::Html, all, "%20!%22%23$%25&%27()*+,-./09:;%3C=%3E?@AZ[%5C]%5E_%60az%7B%7C%7D~%7F%C3%A9%0A");
    check(Escape::Refresh, all, "%20!%22#$%&%27()*+,-./09:;%3C=%3E?@AZ[%5C]%5E_%60az%7B%7C}%7E%7F%C3%A9%0A");
    check(Escape::MemcachedKey, "a b%c\u{7f}é\r\n", "a%20b%25c\u{7f}é%0D%0A");
    check(Escape::MailAuth, "a b", "a%20b");
}

#[test]
fn targets_are_one_word() {
    let sound = b"/a%20b\xc3?c=<d>";
    assert!(matches!(escape_target(sound[..].into()), Cow::Borrowed(same) if same == sound));
    let escaped = escape_target(b"/a b\r\nX:\t\0\x7f%20"[..].into());
    assert_eq!(escaped, &b"/a%20b%0D%0AX:%09%00%7F%20"[..]);
}

#[test]
fn escapes_of_texts() {
    let check = |f: fn(&[u8], &mut Vec<u8>), src: &[u8], want: &str| {
        let mut out = Vec::new();
        f(src, &mut out);
        assert_eq!(text(&out), want);
    };
    check(escape_html, b"<a href=\"x\">'&'</a>", "&lt;a href=&quot;x&quot;&gt;'&amp;'&lt;/a&gt;");
    check(escape_log, b"GET \"\\\x01\x7f\xff~", "GET \\x22\\x5C\\x01\\x7F\\xFF~");
}

#[test]
fn unescapes_as_nginx() {
    let check = |mode: Unescape, src: &str, want: &str, read: usize| {
        let mut out = Vec::new();
        assert_eq!(
            (unescape(mode, src.as_bytes(), &mut out), text(&out).as_str()),
            (read, want),
            "{mode:?} {src}"
        );
    };
    check(Unescape::All, "a%20b%3fc?d", "a b?c?d", 11);
    check(Unescape::All, "%zz%4", "zz", 5);
    check(Unescape::All, "%4z1", "1", 4);
    check(Unescape::All, "%", "", 1);
    check(Unescape::Uri, "a%20b?c%20", "a b?", 6);
    check(Unescape::Uri, "a%3fc%20", "a?", 4);
    check(Unescape::Redirect, "http%3A%2F%2Fe%0D%0A%20%25%7f%3Ffrom", "http://e%0D%0A%20%25%7f?", 32);
    check(Unescape::Redirect, "%26%ff", "&%ff", 6);
}

#[test]
fn uris_from_elsewhere() {
    let check = |uri: &str, want: Option<(&str, Option<&str>)>| {
        let got = unsafe_uri(uri.as_bytes()).ok().map(|u| (text(&u.path), u.args.map(text)));
        assert_eq!(got, want.map(|(p, a)| (p.to_owned(), a.map(str::to_owned))), "{uri}");
    };
    check("/a", Some(("/a", None)));
    check("a%20b?c%20d?e", Some(("a b", Some("c%20d?e"))));
    check("/a..b/..c", Some(("/a..b/..c", None)));
    check("", None);
    check("?a", None);
    check("%", None);
    check("..", None);
    check("../a", None);
    check("/a/..", None);
    check("/a/../b", None);
    check("/a/%2e%2e/b", None);
    check("/a/..?x", None);
    check("/a\0", None);
    check("/a%00", None);
    check("/a?/../", Some(("/a", Some("/../"))));
}

proptest! {
    #![proptest_config(crate::testing::cases(512))]
    #[test]
    fn invariants_hold(target in "(http://[a-z.:\\[]{0,6})?[/.%2eEfFa?#+0]{0,24}") {
        crate::fuzz::fuzz_uri(target.as_bytes());
    }

    #[test]
    fn invariants_hold_for_any_bytes(target in prop::collection::vec(any::<u8>(), 0..40)) {
        crate::fuzz::fuzz_uri(&target);
    }
}

/// What is used again for the next request has nothing of this one, as a new one has nothing.
#[test]
fn a_cleared_target_is_as_a_new_one() {
    for target in ["http://a:1/b+%41//c.d?e#f", "*"] {
        let mut out = parse(target, UriOptions { asterisk: true, ..UriOptions::default() }).unwrap();
        assert_ne!(format!("{out:?}"), format!("{:?}", Target::default()));
        out.clear();
        assert_eq!(format!("{out:?}"), format!("{:?}", Target::default()));
    }
}
