//! Rules on a request that is made up.

use super::*;
use crate::expr::Place;
use crate::testing::{Request, Rust};
use crate::{FileTest, Origin, Stop, Variable, syntax};

fn rules(text: &str) -> Result<Rules<crate::testing::RustPattern>, String> {
    let mut reader = Reader::default();
    for node in syntax::read(text.as_bytes(), 8192).map_err(|mistake| mistake.text)? {
        match node.name.as_str() {
            "RewriteCond" => reader.condition(&node.args, Origin::default(), Place::Override, &Rust)?,
            "RewriteRule" => reader.rule(&node.args, crate::Origin::unknown(1), &Rust)?,
            other => return Err(format!("{other} is not for this test")),
        }
    }
    Ok(reader.finish())
}

fn request() -> Request {
    let mut request = Request::default();
    for (name, value) in [("Host", "example.org"), ("User-Agent", "Mozilla"), ("Cookie", "theme=dark")] {
        request.fields.push((name.into(), value.into()));
    }
    for (variable, value) in [
        (Variable::RequestScheme, "http"),
        (Variable::ServerName, "example.org"),
        (Variable::ServerPort, "80"),
        (Variable::RequestMethod, "GET"),
        (Variable::DocumentRoot, "/srv/www"),
        (Variable::RequestUri, "/blog/a"),
        (Variable::Https, "off"),
    ] {
        request.variables.push((variable, value.into()));
    }
    for (path, test) in [
        ("/srv", FileTest::Directory),
        ("/etc", FileTest::Directory),
        ("/srv/www/blog/there.txt", FileTest::File),
        ("/srv/www/blog/dir", FileTest::Directory),
    ] {
        request.files.push((path.into(), test));
    }
    request.env.push(("OLD".into(), "1".into()));
    request.map.push(("key".into(), "value".into()));
    request.statuses.push(("/ok".into(), 200));
    request
}

fn target(path: &str) -> Target {
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    Target { path: path.into(), query: query.map(Into::into), ..Target::default() }
}

fn shown(action: &Action) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let with = |path: &[u8], query: &Option<Vec<u8>>| match query {
        Some(query) => format!("{}?{}", text(path), text(query)),
        None => text(path),
    };
    match action {
        Action::Continue { query: None } => "continue".into(),
        Action::Continue { query: Some(query) } => format!("continue ?{}", text(query)),
        Action::Status(status) => status.to_string(),
        Action::Redirect { status, location } => format!("{status} {}", text(location)),
        Action::Proxy { url, query, is_raw } => {
            format!("proxy {}{}", with(url, query), if *is_raw { " raw" } else { "" })
        }
        Action::Internal { uri, query } => format!("internal {}", with(uri, query)),
        Action::Path { path, query, meaning } => format!("{meaning:?} {}", with(path, query)),
    }
}

fn server(text: &str, path: &str) -> String {
    let request = request();
    let rules = rules(text).unwrap_or_else(|why| panic!("{text}: {why}"));
    match per_server(&rules, target(path), &request) {
        Ok((action, _)) => shown(&action),
        Err(stop) => format!("{stop:?}"),
    }
}

/// In /srv/www/blog.
fn directory(text: &str, path: &str, base: Option<&str>) -> (String, Effects) {
    let request = request();
    let rules = rules(text).unwrap_or_else(|why| panic!("{text}: {why}"));
    let directory = Directory {
        folder: b"/srv/www/blog/",
        base: base.map(str::as_bytes),
        allows_no_slash: false,
        ignores_context: false,
        follows_links: true,
    };
    match per_directory(&rules, &directory, target(path), &request) {
        Ok((action, effects)) => (shown(&action), effects),
        Err(stop) => (format!("{stop:?}"), Effects::default()),
    }
}

/// Rules, a path and what becomes of it.
const SERVER: &[(&str, &str, &str)] = &[
    ("RewriteRule ^/a$ /b", "/a", "DocumentRoot /b"),
    ("RewriteRule ^/a$ /b", "/c", "continue"),
    ("RewriteRule !^/a$ /b", "/c", "DocumentRoot /b"),
    ("RewriteRule ^/(.*)$ /x/$1?p=$1 [QSA]", "/a?q=1", "DocumentRoot /x/a?p=a&q=1"),
    ("RewriteRule ^/a$ /b?", "/a?q=1", "DocumentRoot /b"),
    ("RewriteRule ^/a$ /b [QSD]", "/a?q=1", "DocumentRoot /b"),
    ("RewriteRule ^/a$ /b?x=1", "/a?q=1", "DocumentRoot /b?x=1"),
    ("RewriteRule ^/a$ /b", "/a?q=1", "DocumentRoot /b?q=1"),
    ("RewriteRule ^/(.*)$ /x?a=1?b=2 [QSL]", "/a", "DocumentRoot /x?a=1?b=2"),
    ("RewriteRule ^/a$ /b [PT]", "/a", "Uri /b"),
    ("RewriteRule ^/a$ http://other.org/x [R=301]", "/a?q=1", "301 http://other.org/x?q=1"),
    ("RewriteRule ^/a$ http://other.org/x", "/a", "302 http://other.org/x"),
    ("RewriteRule ^/a$ http://example.org/x", "/a", "DocumentRoot /x"),
    ("RewriteRule ^/a$ http://example.org:8080/x", "/a", "302 http://example.org:8080/x"),
    ("RewriteRule ^/a$ /x [R]", "/a", "302 http://example.org/x"),
    ("RewriteRule ^/a$ /x\\%20y? [R,NE]", "/a", "302 http://example.org/x%20y"),
    ("RewriteRule ^/(.*)$ /x$1 [R]", "/a b", "302 http://example.org/xa%20b"),
    ("RewriteRule ^/(.*)$ http://h/?u=$1 [R,B,NE]", "/a b&c", "302 http://h/?u=a+b%26c"),
    ("RewriteRule ^/(.*)$ http://h/?u=$1 [R,B=&,NE]", "/a/b&c", "302 http://h/?u=a/b%26c"),
    ("RewriteRule ^/(.*)$ http://h/?u=$1 [R,B,BNP,BNE=/,NE]", "/a/b c", "302 http://h/?u=a/b%20c"),
    ("RewriteRule ^/a - [F]", "/abc", "403"),
    ("RewriteRule ^/a /never [G]", "/abc", "410"),
    ("RewriteRule ^/a - [R=404]", "/abc", "404"),
    ("RewriteRule ^/a /b\nRewriteRule ^/b /c", "/a", "DocumentRoot /c"),
    ("RewriteRule ^/a /b [L]\nRewriteRule ^/b /c", "/a", "DocumentRoot /b"),
    ("RewriteRule ^/a - [S=1]\nRewriteRule . /skipped [L]\nRewriteRule ^/a /b", "/a", "DocumentRoot /b"),
    ("RewriteRule ^/x - [C]\nRewriteRule . /chained [L]\nRewriteRule ^/a /b", "/a", "DocumentRoot /b"),
    ("RewriteRule ^/a$ - [C]\nRewriteRule . /chained [L]", "/a", "DocumentRoot /chained"),
    ("RewriteRule ^(.*)_(.*)$ $1-$2 [N]", "/a_b_c", "DocumentRoot /a-b-c"),
    (
        "RewriteRule ^(.*)$ $1x [N=10]",
        "/a",
        "Failed(\"a rewrite rule was applied in more than 10 rounds (flag N)\")",
    ),
    (
        "RewriteRule ^(.*)$ $1x [N]",
        "/a",
        "Failed(\"rules make and look at more than 4194304 bytes for one request\")",
    ),
    (
        "RewriteRule ^(.*)$ $1$1 [N]",
        "/a",
        "Failed(\"a rewrite rule has made a path of more than 16380 bytes\")",
    ),
    ("RewriteRule ^/(.*) $1", "/a", "DocumentRoot /a"),
    // A part of the request is no scheme (CVE-2024-39573).
    ("RewriteRule ^/(.*) $1", "/http://evil/", "302 http://evil/"),
    ("RewriteRule ^/p/(.*) http://back/$1 [P]", "/p/x y?q=1", "proxy http://back/x y?q=1"),
    ("RewriteRule ^/p/(.*) http://back/$1 [P,NE]", "/p/x?q=1", "proxy http://back/x?q=1 raw"),
    // Only a literal folder is a file system's (CVE-2024-38475).
    ("RewriteRule ^/a /etc/motd", "/a", "File /etc/motd"),
    ("RewriteRule ^/x(/.*) $1", "/x/etc/passwd", "DocumentRoot /etc/passwd"),
    ("RewriteRule ^/x(/.*) $1 [UnsafePrefixStat]", "/x/etc/passwd", "File /etc/passwd"),
    ("RewriteRule ^/a /srv/www/a", "/a", "File /srv/www/a"),
    ("RewriteRule ^/a /none/motd", "/a", "DocumentRoot /none/motd"),
    // A question mark of the request begins no query (CVE-2024-38474).
    ("RewriteRule ^/(.*) /cgi/$1", "/a?b", "DocumentRoot /cgi/a?b"),
    ("RewriteRule ^/a(.*) //x$1", "/ab", "DocumentRoot //xb"),
    ("RewriteRule ^/a(.*) $1", "/a//b", "DocumentRoot /b"),
    ("RewriteRule ^/a(.*) $1 [UNC]", "/a//b", "DocumentRoot //b"),
    ("RewriteRule ^/a(.*) /${names:key|none}/${names:no|$1}/${bad", "/ab", "DocumentRoot /value/b/${bad"),
    ("RewriteRule ^/a /${other:key}", "/a", "Failed(\"no such map\")"),
    ("RewriteRule ^/a /\\$1\\%1%{REQUEST_METHOD}%{NONE}", "/a", "DocumentRoot /$1%1GET"),
    ("RewriteRule ^/a /%{LA-U:REMOTE_USER}", "/a", "DocumentRoot /user of /a"),
    ("RewriteRule FAIL /b", "/a", "Failed(\"match limit\")"),
];

#[test]
fn rules_of_a_server() {
    for (rules, path, wanted) in SERVER {
        assert_eq!(server(rules, path), *wanted, "{rules} on {path}");
    }
    let request = request();
    let rules = rules("RewriteRule ^/(.*) /cgi/$1").unwrap();
    let foreign = Target { path: b"/a?b".to_vec(), ..Target::default() };
    assert_eq!(per_server(&rules, foreign, &request).unwrap().0, Action::Status(403));
}

#[test]
fn rules_of_a_directory() {
    for (rules, path, base, wanted) in [
        ("RewriteRule ^a$ b", "/srv/www/blog/a", None, "internal /blog/b"),
        ("RewriteRule ^a$ b", "/srv/www/blog/a", Some("/other"), "internal /other/b"),
        ("RewriteRule ^a$ /b", "/srv/www/blog/a", Some("/other"), "internal /b"),
        ("RewriteRule ^a$ a", "/srv/www/blog/a", None, "continue"),
        ("RewriteRule ^a$ a?x=1", "/srv/www/blog/a", None, "continue ?x=1"),
        ("RewriteRule . b", "/srv/www/blog", None, "continue"),
        ("RewriteRule ^a$ b [R]", "/srv/www/blog/a", None, "302 http://example.org/srv/www/blog/b"),
        ("RewriteRule ^a$ b [R=308]", "/srv/www/blog/a?q", Some("/blog/"), "308 http://example.org/blog/b?q"),
        ("RewriteRule ^a$ - [F]", "/srv/www/blog/a", None, "403"),
        // WordPress.
        (
            "RewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /blog/index.php [L]",
            "/srv/www/blog/2026/post",
            Some("/blog/"),
            "internal /blog/index.php",
        ),
        (
            "RewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /blog/index.php [L]",
            "/srv/www/blog/there.txt",
            Some("/blog/"),
            "continue",
        ),
    ] {
        assert_eq!(directory(rules, path, base).0, wanted, "{rules} on {path}");
    }
}

#[test]
fn conditions() {
    for (condition, wanted) in [
        ("%{HTTP_USER_AGENT} ^moz", false),
        ("%{HTTP_USER_AGENT} ^moz [NC]", true),
        ("%{HTTP_USER_AGENT} !^Opera", true),
        ("%{HTTP:Cookie} theme=(\\w+)", true),
        ("%{REQUEST_FILENAME} -f", false),
        ("/srv/www/blog/there.txt -f", true),
        ("/srv/www/blog/there.txt !-f", false),
        ("/srv/www/blog/dir -d", true),
        ("%{HTTPS} off", true),
        ("%{HTTPS} =off", true),
        ("%{HTTPS} =OFF", false),
        ("%{HTTPS} =OFF [NC]", true),
        ("%{HTTPS} !=on", true),
        ("%{QUERY_STRING} =\"\"", true),
        ("%{QUERY_STRING} ^$", true),
        ("%{SERVER_PORT} -eq80", true),
        ("%{SERVER_PORT} -ne80", false),
        ("%{SERVER_PORT} !-ne80", true),
        ("%{SERVER_PORT} -gt79", true),
        ("%{SERVER_PORT} >9", true),
        ("abc <abd", true),
        ("abc >=abc", true),
        ("%{ENV:OLD} 1", true),
        ("%{ENV:NONE} 1", false),
        ("/ok -U", true),
        ("/none -U", false),
        ("expr \"%{REQUEST_METHOD} == 'GET' && -f '/srv/www/blog/there.txt'\"", true),
        ("expr \"! %{REQUEST_METHOD} == 'GET'\"", false),
        ("a\\ b ^a\\ b$", true),
        ("\"a b\" \"^a b$\"", true),
    ] {
        let text = format!("RewriteCond {condition}\nRewriteRule ^ - [F]");
        let got = directory(&text, "/srv/www/blog/a", None).0;
        assert_eq!(got, if wanted { "403" } else { "continue" }, "{condition}");
    }
    // A row with OR is true if one is; captures are those of the last condition that matched.
    let text = "RewriteCond a ^(b) [OR]\nRewriteCond c ^(c) [OR]\nRewriteCond d ^(d)\nRewriteCond e ^e\nRewriteRule ^(.) /$1%1%0";
    assert_eq!(directory(text, "/srv/www/blog/x", None).0, "internal /xe");
    let text = "RewriteCond a ^(b) [OR]\nRewriteCond c ^(d)\nRewriteRule ^ - [F]";
    assert_eq!(directory(text, "/srv/www/blog/x", None).0, "continue");
}

#[test]
fn environment_cookies_and_types() {
    let text = "RewriteRule ^(.*)$ - [E=NAME:$1,E=EMPTY,E=!OLD,CO=a:b:.example.org:60:/x:secure:httponly:lax,T=text/Plain]
        RewriteCond %{ENV:NAME}-%{ENV:OLD} ^(x-)$
        RewriteRule ^ - [H=proxy-%1,CO=no:domain]";
    let (action, effects) = directory(text, "/srv/www/blog/x", None);
    assert_eq!(action, "continue");
    let some = |text: &str| Some(text.as_bytes().to_vec());
    assert_eq!(
        effects.env,
        [(b"NAME".to_vec(), some("x")), (b"EMPTY".to_vec(), some("")), (b"OLD".to_vec(), None)]
    );
    assert_eq!(effects.content_type, some("text/plain"));
    assert_eq!(effects.handler, some("proxy-x-"));
    let [cookie] = effects.cookies.as_slice() else { panic!("{effects:?}") };
    assert_eq!((cookie.name.as_slice(), cookie.value.as_slice()), (&b"a"[..], &b"b"[..]));
    assert_eq!((cookie.lifetime_mins, cookie.is_secure, cookie.is_http_only), (Some(60), true, true));
    assert_eq!(cookie.same_site.as_deref(), Some(&b"lax"[..]));
    let (_, effects) = directory("RewriteRule ^ x [END]", "/srv/www/blog/y", None);
    assert!(effects.is_last_pass);
}

#[test]
fn what_the_response_varies_by() {
    let vary = |text: &str| {
        let (_, effects) = directory(text, "/srv/www/blog/x", None);
        let names = effects.vary.iter().map(|name| String::from_utf8_lossy(name).into_owned());
        names.collect::<Vec<_>>().join(",")
    };
    assert_eq!(
        vary(
            "RewriteCond %{HTTP_USER_AGENT} Moz\nRewriteCond %{HTTP:Cookie} dark\nRewriteCond %{HTTP_HOST} .\nRewriteRule ^ y"
        ),
        "User-Agent,Cookie"
    );
    assert_eq!(vary("RewriteCond %{HTTP_USER_AGENT} Moz [NV]\nRewriteRule ^ y"), "");
    assert_eq!(vary("RewriteCond %{HTTP_USER_AGENT} Opera\nRewriteRule ^ y"), "");
}

#[test]
fn subrequests_and_waiting() {
    let request = request();
    let rules_of = |text| rules(text).unwrap();
    let sub = Target { is_subrequest: true, ..target("/a") };
    let text =
        "RewriteRule ^/a /b [NS]\nRewriteRule ^/a /c [R]\nRewriteRule ^/a - [R=404]\nRewriteRule ^/a /d";
    let (action, _) = per_server(&rules_of(text), sub, &request).unwrap();
    assert_eq!(shown(&action), "DocumentRoot /d");

    let mut request = self::request();
    request.unknown.push("/later".into());
    let result = per_server(&rules_of("RewriteCond /later -f\nRewriteRule ^ /b"), target("/a"), &request);
    assert_eq!(result.err(), Some(Stop::Wait));

    let controls =
        per_server(&rules_of("RewriteRule ^/(.*) /x?y=$1"), target("/a b"), &self::request()).unwrap();
    assert_eq!(controls.0, Action::Status(403), "a space from the request reaches the query");
}

#[test]
fn mistakes() {
    for (text, wanted) in [
        ("RewriteRule ^a", "RewriteRule: bad argument line '^a'"),
        ("RewriteCond %{A}", "RewriteCond: bad argument line '%{A}'"),
        ("RewriteRule ^(a b", "RewriteRule: cannot compile regular expression '^(a'"),
        ("RewriteRule a b [X]", "RewriteRule: unknown flag 'X'"),
        ("RewriteRule a b L", "RewriteRule: bad flag delimiters"),
        ("RewriteRule a b [L", "RewriteRule: bad flag delimiters"),
        ("RewriteRule a b [R=999]", "RewriteRule: invalid HTTP response code '999' for flag 'R'"),
        ("RewriteRule a b [BNE]", "RewriteRule: flag 'BNE' wants a list of characters (i.e. [BNE=...])"),
        ("RewriteCond a b [L]", "RewriteCond: unknown flag 'L'"),
        ("RewriteCond expr \"file('/etc/passwd') == 'x'\"", "RewriteCond: cannot compile expression"),
    ] {
        let error = rules(text).err().unwrap_or_else(|| panic!("{text} was read"));
        assert!(error.starts_with(wanted), "{text}: {error}");
    }
    let deep = format!("RewriteRule a {}", "${m:".repeat(2000) + &"}".repeat(2000));
    assert!(rules(&deep).is_err());
}

/// Each line makes texts of what lines before it have made.
#[test]
fn what_rules_make_is_bounded() {
    let wanted = "Failed(\"rules make and look at more than 4194304 bytes for one request\")";
    let double = "RewriteRule ^ - [E=A:x%{ENV:A}%{ENV:A}]\n".repeat(40);
    for text in [
        "RewriteRule ^ - [N,E=A:%{ENV:A}xxxxxxxxxxxxxxxxxxxx]",
        "RewriteRule ^ - [N=30000,E=A:x%{ENV:A}%{ENV:A}x]",
        "RewriteRule ^ - [N=30000,E=%{ENV:A}:x,E=A:%{ENV:A}x]",
        "RewriteRule ^ - [E=A:x%{ENV:A},CO=c%{ENV:A}:%{ENV:A}:a.org,N=30000]",
        "RewriteCond x%{ENV:A}%{ENV:A} ^(.*)$\nRewriteRule ^ - [E=A:%1,N=30000]",
        &double,
    ] {
        assert_eq!(server(text, "/a"), wanted, "{text}");
    }
    // One variable and one cookie are one, however often they are set.
    let (action, effects) =
        directory("RewriteRule ^ - [E=A:1,E=a:2,CO=c:1:a.org,CO=c:2:a.org]", "/srv/www/blog/x", None);
    assert_eq!(action, "continue");
    assert_eq!(effects.env, [(b"a".to_vec(), Some(b"2".to_vec()))]);
    assert_eq!(effects.cookies.iter().map(|cookie| cookie.value.clone()).collect::<Vec<_>>(), [b"2"]);
}

proptest::proptest! {
    // Rules that lengthen the path in many rounds take a while.
    #![proptest_config(proptest::test_runner::Config::with_cases(100))]
    /// Rules of any text end, and rules without the flags that trust the request never lead out of the server's folders.
    #[test]
    fn any_rules_end(
        pattern in "[a-c/.*^$()?+|]{1,12}",
        substitution in "[a-c/$%{}:|\\\\?&1-3]{1,16}",
        flags in proptest::collection::vec("L|N|N=3|C|S=1|QSA|QSD|QSL|R|PT|END|NE|B|NC|E=a:\\$1|F", 0..4),
        path in "[a-c/?% ]{0,12}",
    ) {
        let text = format!("RewriteRule {pattern} {substitution} [{}]", flags.join(","));
        if let Ok(rules) = rules(&format!("{text}\n{text}")) {
            let request = request();
            let target = Target { path: format!("/{path}").into_bytes(), ..Target::default() };
            if let Ok((Action::Path { path, .. }, _)) = per_server(&rules, target, &request) {
                proptest::prop_assert!(path.starts_with(b"/"));
            }
        }
    }
}
