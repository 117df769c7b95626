//! The directive, and what a location's plan has of it.

use crate::check::{http, messages, messages_in_location};

#[test]
fn what_is_wrong_is_said() {
    messages_in_location("directory_overrides on;", &[]);
    messages_in_location("directory_overrides on FileInfo Limit php=@php;", &[]);
    messages_in_location("directory_overrides on Files;", &["invalid parameter \"Files\""]);
    messages_in_location("directory_overrides on php=php;", &["invalid parameter \"php=php\""]);
}

/// Otherwise `php_flag engine off` and its like would be lost on the way there.
#[test]
fn the_location_that_runs_php_reads_the_files_too() {
    let check = |outer: &str, location: &str, inner: &str, is_taken: bool| {
        let text = format!(
            "server {{ {outer} location / {{ {location} }} location @php {{ {inner} fastcgi_pass 127.0.0.1:9; }} }}"
        );
        let got = http(&text).err();
        let wanted = "location @php runs PHP for .htaccess files, but does not read them";
        assert_eq!(got.as_deref(), (!is_taken).then_some(wanted), "{text}");
    };
    let on = "directory_overrides on php=@php;";
    check(on, "", "", true);
    check("", on, "directory_overrides on;", true);
    check("", on, "", false);
    check(on, "", "directory_overrides off;", false);
    check("", on, "directory_overrides .brisk headers;", false);
    // One that runs nothing judges nothing.
    let text = format!("server {{ {on} location @php {{ proxy_pass http://127.0.0.1:9; }} }}");
    assert!(http(&text).is_err());
    assert!(http(&format!("server {{ {on} location / {{ }} }}")).is_ok());
}

#[test]
fn plans_have_its_steps_where_it_is_on() {
    let text = "directory_overrides on; server { location /a { } location /b { directory_overrides off; } }";
    let snap = http(text).unwrap();
    let counts: Vec<_> = snap
        .locations
        .iter()
        .map(|l| (l.plan.preaccess.len(), l.plan.precontent.len(), l.plan.pages.is_some()))
        .collect();
    assert_eq!(counts, [(1, 3, true), (1, 3, true), (0, 0, false)]);
}

#[test]
fn apaches_own_lines_are_refused_by_name() {
    messages(
        "apache_site { Require \"all granted\"; Directory \"/srv\" { AllowOverride All; Options \"-Indexes\"; } }",
        &[],
    );
    for (line, wanted) in [
        (
            "Nonsense x",
            "Invalid command 'Nonsense', perhaps misspelled or defined by a module not included in the server configuration",
        ),
        ("Directory srv { }", "<Directory> takes one absolute path, or ~ and a regular expression"),
        ("Directory /srv { AllowOverride Some; }", "AllowOverride: Illegal override option Some"),
        (
            "RewriteEngine On; RewriteRule \"^/a http://b/ [P]\"",
            "RewriteRule: the flag P asks a back end, for which mod_proxy must be loaded",
        ),
        (
            "RewriteOptions InheritDown",
            "RewriteOptions: Brisk does not hand rules down to <VirtualHost> (yet): write them into it",
        ),
        ("SetOutputFilter SUBSTITUTE", "SetOutputFilter: Brisk has no filter 'substitute'"),
        (
            "RewriteMap a dbm:/b",
            "RewriteMap: Brisk has no maps of the type dbm: write the map as a text (txt:)",
        ),
    ] {
        let line = if line.ends_with('}') { line.to_string() } else { format!("{line};") };
        let got = http(&format!("apache_site {{ {line} }}")).err();
        assert_eq!(got.as_deref(), Some(wanted), "{line}");
    }
}

/// A line of Apache's in a location would be another file than the one that is judged.
#[test]
fn a_location_says_of_itself_only_that_it_is_a_back_end() {
    let check =
        |location: &str| http(&format!("server {{ apache_site {{ }} location / {{ {location} }} }}")).err();
    assert_eq!(check("apache_site { BriskBackEnd; }"), None);
    let wanted = Some("\"apache_site\" of a location takes the line BriskBackEnd only".to_string());
    for wrong in ["", "Require \"all granted\";", "BriskBackEnd; Require \"all granted\";"] {
        assert_eq!(check(&format!("apache_site {{ {wrong} }}")), wanted, "{wrong}");
    }
    let outside = http("server { location / { apache_site { BriskBackEnd; } } }").err();
    assert_eq!(outside, wanted);
}

#[test]
fn hosts_begin_with_the_lines_for_all() {
    let text = "apache_site { Redirect \"/a /b\"; } server { apache_site { RewriteEngine On; RewriteRule \"^/x$ /y\"; } location / { } } server { listen 81; location / { } }";
    let snap = http(text).unwrap();
    // Both lead before a location is looked for: by rules, or by what all hosts have.
    let leads: Vec<_> = snap.locations.iter().map(|l| l.plan.rewrite.is_some()).collect();
    assert_eq!(leads, [true, false, true, false]);
}
