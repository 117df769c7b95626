//! Files that are dear: patterns that backtrack, and very many rules.

use super::super::{ask, httpd, site};
use brisk_testkit::{Server, children, process, wait};
use std::fmt::Write as _;
use std::fs;

/// A pattern that needs longer than the universe for a text that it almost matches; the group behind keeps it from an engine that is
/// linear.
const SLOW: &str = "^((a+)+)\\1$";

/// What a request with such a pattern in this place may come to.
const PLACES: &[(&str, &str)] = &[
    ("rule", "RewriteEngine on\nRewriteRule SLOW - [F]\n"),
    ("condition", "RewriteEngine on\nRewriteCond %{HTTP:X-V} SLOW\nRewriteRule ^ - [F]\n"),
    ("negated", "RewriteEngine on\nRewriteCond %{HTTP:X-V} !SLOW\nRewriteRule ^ /a.txt [R]\n"),
    ("expression", "RewriteEngine on\nRewriteCond expr \"%{HTTP:X-V} =~ /SLOW/\"\nRewriteRule ^ - [F]\n"),
    ("names", "<FilesMatch \"SLOW\">\nRequire all denied\n</FilesMatch>\n"),
    ("tilde", "<Files ~ \"SLOW\">\nRequire all denied\n</Files>\n"),
    ("if", "<If \"%{HTTP:X-V} =~ /SLOW/\">\nRequire all denied\n</If>\n"),
    ("require", "Require expr \"! %{HTTP:X-V} =~ /SLOW/\"\n"),
    ("variable", "SetEnvIf X-V SLOW bad\nOrder allow,deny\nAllow from all\nDeny from env=bad\n"),
    ("redirect", "RedirectMatch 403 \"/(?=redirect/((a+)+)\\1$)\"\nRedirectMatch 403 SLOW\n"),
    ("header", "Header set X-A \"expr=%{HTTP:X-V}\"\nHeader edit X-A SLOW b\n"),
    ("asked", "RequestHeader edit X-V SLOW b\n"),
    ("sent", "Header set X-A b \"expr=%{HTTP:X-V} =~ /SLOW/\"\n"),
];

#[test]
fn patterns_that_backtrack_end_and_open_nothing() {
    let mut builder = site();
    let long = format!("{}b", "a".repeat(200));
    for (folder, text) in PLACES {
        let folder = format!("html/{folder}");
        builder = builder
            .file(&format!("{folder}/.htaccess"), text.replace("SLOW", SLOW))
            .file(&format!("{folder}/{long}"), "secret");
    }
    let server = builder.start();
    for (folder, _) in PLACES {
        let target = format!("/{folder}/{long}");
        let answer = ask(&mut server.client(), &target, &format!("X-V: {long}\r\n"));
        // What can neither be said to match nor not to is refused.
        let is_unasked = matches!(*folder, "redirect" | "asked");
        assert!(answer.status == 500 || is_unasked, "{folder}: {}", answer.status);
        assert!(!answer.text().contains("secret") || is_unasked, "{folder}");
        assert_eq!(server.client().get("/a.txt").text(), "a");
    }
}

/// Processor time of a server's workers so far, in milliseconds.
fn cpu_ms(server: &Server) -> f64 {
    let threads = server.workers().into_iter().flat_map(process::threads);
    threads.map(|thread| thread.cpu_ns as f64 / 1e6).sum()
}

/// Asks for a file below rules; gives the status and the processor time in ms. The first request compiles, and does not count.
fn cost(server: &Server, target: &str, fields: &str) -> (u16, f64) {
    ask(&mut server.client(), target, "");
    let before = cpu_ms(server);
    let answer = ask(&mut server.client(), target, fields);
    assert!(!answer.text().contains("secret") || answer.status == 200, "{target}");
    (answer.status, cpu_ms(server) - before)
}

/// No single rule meets the limit of one match: together they must not hold a thread up either.
#[test]
fn many_patterns_that_are_slow_together_end() {
    // Some 100,000 steps each for the field below.
    let rule = "RewriteCond %{HTTP:X-V} ^(a*)(a*)(a*)(a*)[bc]\\1$\nRewriteRule ^ - [F]\n";
    let lines: String = rule.repeat(3000);
    let server = site()
        .file("html/many/.htaccess", format!("RewriteEngine on\n{lines}"))
        .file("html/many/a.txt", "secret")
        .file("html/usual/.htaccess", format!("RewriteEngine on\n{lines}"))
        .file("html/usual/a.txt", "usual")
        .start();
    let (status, ms) = cost(&server, "/many/a.txt", &format!("X-V: {}\r\n", "a".repeat(40)));
    assert!(status == 500 && ms < 20_000.0, "{status} after {ms} ms");
    assert!(server.error_log().contains("rules make and look at more than"), "{}", server.error_log());
    // Patterns that are done soon are not counted as dear.
    let (status, ms) = cost(&server, "/usual/a.txt", "X-V: nothing\r\n");
    assert!(status == 200, "{status} after {ms} ms");
}

/// The engine counts its steps from each place of the text anew: a pattern that may begin anywhere must not have as many at each.
#[test]
fn one_slow_pattern_ends_on_long_texts() {
    let rules = "RewriteEngine on\nRewriteCond %{HTTP:X-V} (a*)(a*)(a*)(a*)[bc]\\1x?\nRewriteRule ^ - [F]\n";
    let server = site().file("html/x/.htaccess", rules).file("html/x/a.txt", "secret").start();
    for text in [
        "a".repeat(100),
        format!("{}-", "a".repeat(40)).repeat(20),
        format!("{}-", "a".repeat(60)).repeat(100),
    ] {
        let (status, ms) = cost(&server, "/x/a.txt", &format!("X-V: {text}\r\n"));
        assert!(status == 500 && ms < 20_000.0, "{} bytes: {status} after {ms} ms", text.len());
    }
    assert_eq!(ask(&mut server.client(), "/x/a.txt", "X-V: aac\r\n").status, 403);
}

/// Files with as many lines as there is room for, and with more.
#[test]
fn a_hundred_thousand_lines_end() {
    const ROOM: usize = 500 * 1024;
    let files: &[(&str, &str, &str)] = &[
        ("rules", "RewriteEngine on\n", "RewriteRule a b\n"),
        ("none", "RewriteEngine on\n", "RewriteRule ^ -\n"),
        ("cond", "RewriteEngine on\n", "RewriteCond a b\n"),
        ("files", "", "<Files *>\n</Files>\n"),
        ("said", "", "<Files *>\nHeader set a b\n</Files>\n"),
        ("match", "", "<FilesMatch a>\nHeader add a b\n</FilesMatch>\n"),
        ("if", "", "<If true>\nSetEnv a b\n</If>\n"),
        ("env", "", "SetEnvIf a a a\n"),
        ("always", "", "SetEnvIf Host .* a$0\n"),
        ("header", "", "Header add a b\n"),
        ("edit", "Header set a aaaa\n", "Header edit* a a aa\n"),
        ("deny", "", "Deny from 1.2.3.4\n"),
        ("require", "", "Require ip 1.2.3.4\n"),
        ("types", "", "AddType a/b a\n"),
        ("redirect", "", "Redirect /x /y\n"),
        ("pages", "", "ErrorDocument 404 x\n"),
        ("index", "DirectoryIndex ", "a "),
        ("ignore", "IndexIgnore ", "a* "),
    ];
    let mut builder = site();
    for (folder, first, line) in files {
        let lines =
            line.repeat(if *folder == "index" || *folder == "ignore" { 4000 } else { ROOM / line.len() });
        builder = builder
            .file(&format!("html/{folder}/.htaccess"), format!("{first}{lines}\n"))
            .file(&format!("html/{folder}/a.txt"), "text");
    }
    let server = builder
        .file("html/more/.htaccess", "RewriteRule a b\n".repeat(100_000))
        .file("html/more/a.txt", "secret")
        .start();
    for (folder, _, _) in files {
        for target in [format!("/{folder}/a.txt"), format!("/{folder}/")] {
            let (status, ms) = cost(&server, &target, "");
            assert!(matches!(status, 200 | 403 | 404 | 500), "{target}: {status}");
            // Far less of a thread where others wait, in a build without optimisation on a machine that others use.
            assert!(ms < 20_000.0, "{target}: {status} after {ms} ms");
        }
    }
    let (status, _) = cost(&server, "/more/a.txt", "");
    assert_eq!(status, 500);
    assert_eq!(server.client().get("/a.txt").text(), "a");
}

/// The writer of Apache's own files is trusted: very many rules are carried out, as far as the work for one request goes.
#[test]
fn twenty_thousand_rules_of_a_host_are_carried_out() {
    let mut rules = "DocumentRoot {{DIR}}/html\nRewriteEngine on\n".to_string();
    for number in 0..20_000 {
        let _ = writeln!(rules, "RewriteRule ^/old-{number}$ /new-{number} [R=301,L]");
    }
    let server = httpd(site(), &["rewrite"], &rules);
    let mut client = server.client();
    for number in [0, 10_000, 19_999] {
        let answer = client.get(&format!("/old-{number}"));
        let location = answer.header("Location").unwrap_or_default();
        assert!(
            answer.status == 301 && location.ends_with(&format!("/new-{number}")),
            "{number}: {location}"
        );
    }
    assert_eq!(client.get("/a.txt").text(), "a");
}

/// Very many folders with files of their own: memory for what they come to is bounded, and each still holds.
#[test]
fn thousands_of_folders_hold_within_bounds() {
    const FOLDERS: usize = 2000;
    let builder = site();
    for number in 0..FOLDERS {
        let folder = builder.dir().join(format!("html/f/{number}/in"));
        fs::create_dir_all(&folder).unwrap();
        children::write(&folder.join("a.txt"), "secret");
        let rule = format!("Header set X-N {number}\nRequire all {}\n", ["granted", "denied"][number % 2]);
        children::write(&folder.join("../.htaccess"), rule);
    }
    let server = builder.start();
    let check = |number: usize| {
        let answer = server.client().get(&format!("/f/{number}/in/a.txt"));
        assert_eq!(answer.status, [200, 403][number % 2], "{number}: {}", server.error_log());
        assert!(number % 2 == 1 || answer.header("X-N") == Some(number.to_string().as_str()));
    };
    (0..FOLDERS).for_each(check);
    let before = process::rss_kib(server.worker());
    for _ in 0..2 {
        (0..FOLDERS).for_each(check);
    }
    let grown = process::rss_kib(server.worker()).saturating_sub(before);
    assert!(grown < 16 << 10, "{grown} KiB more for the same folders");
    // All of them are still watched.
    for number in [0, 1, FOLDERS / 2, FOLDERS - 2] {
        let file = server.dir().join(format!("html/f/{number}/.htaccess"));
        children::write(&file.with_extension("new"), "Require all denied\n");
        fs::rename(file.with_extension("new"), &file).unwrap();
        assert_eq!(server.client().get(&format!("/f/{number}/in/a.txt")).status, 403, "{number}");
        fs::remove_file(&file).unwrap();
        wait::holds("a folder without a file is open", || {
            server.client().get(&format!("/f/{number}/in/a.txt")).status == 200
        });
    }
}
