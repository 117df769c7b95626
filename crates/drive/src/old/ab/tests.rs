//! The command line: what is taken, what is refused, what is asked for.

use super::options::{Options, Parsed, parse};

fn check(line: &str) -> Result<Options, String> {
    parse(&crate::old::words(line)).map(|parsed| match parsed {
        Parsed::Run(options) => *options,
        Parsed::Text(_) | Parsed::Usage => panic!("{line}"),
    })
}

#[test]
fn the_command_of_the_article() {
    let options = check("-n 8000 -c 100 -g out.dat http://seravo.fi/css/style-print.css").unwrap();
    assert_eq!(
        (options.requests, options.concurrency, options.gnuplot.as_deref()),
        (8000, 100, Some("out.dat"))
    );
    assert_eq!(
        options.request_text(),
        "GET /css/style-print.css HTTP/1.0\r\nHost: seravo.fi\r\nUser-Agent: ApacheBench/2.3\r\nAccept: */*\r\n\r\n"
    );
    assert_eq!(options.progress_every(), 800);
}

#[test]
fn letters_are_joined_and_values_glued() {
    let options = check("-kn10 -c2 -Hhost:x -C a=1 -C b=2 -A u:p 127.0.0.1:81/").unwrap();
    let text = options.request_text();
    for part in
        ["Connection: Keep-Alive\r\n", "Cookie: a=1; b=2\r\n", "Authorization: Basic dTpw\r\n", "host:x\r\n"]
    {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("Host: 127"));
    assert_eq!((options.port, options.requests), (81, 10));
}

#[test]
fn a_time_limit_means_fifty_thousand_unless_told_otherwise_behind_it() {
    assert_eq!(check("-n 10 -t 5 http://a/").unwrap().requests, 50_000);
    assert_eq!(check("-t 5 -n 10 http://a/").unwrap().requests, 10);
}

#[test]
fn what_is_not_known_is_refused_by_name() {
    for (line, part) in [
        ("-n 10 -J http://a/", "'J'"),
        ("-n x http://a/", "-n"),
        ("-n 1 -c 2 http://a/", "concurrency level"),
        ("-n 1 http://a", "path"),
        ("-n 1 ftp://a/", "ftp"),
        ("-n 1", "no URL"),
        ("http://a/ http://b/", "not the only URL"),
        ("-B 1.2.3.4 http://a/", "-B"),
        ("-f SSL3 http://a/", "SSL3"),
        ("-p /nonexistent/x http://a/", "/nonexistent/x"),
        ("-X proxy:0 http://a/", "-X"),
        ("-c", "requires an argument"),
    ] {
        let error = check(line).unwrap_err();
        assert!(error.contains(part), "{line}: {error}");
    }
}
