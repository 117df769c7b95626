//! Configurations of caches.

use crate::check::{accepted, http, messages, refused};

/// Every directive under one prefix.
macro_rules! all_of {
    ($prefix:literal) => {
        concat!(
            $prefix, "_cache_path /c levels=1:2 keys_zone=one:1m inactive=5m max_size=1g min_free=1m use_temp_path=off loader_files=5 loader_sleep=1 loader_threshold=2 manager_files=5 manager_sleep=1 manager_threshold=2 purger=on purger_files=5 purger_sleep=1 purger_threshold=2 memory=8m; ",
            "server { location / { ",
            $prefix, "_cache one; ",
            $prefix, "_cache_key $uri; ",
        )
    };
}

const PROXY: &str = "proxy_cache_background_update on; proxy_cache_bypass $arg_a $arg_b; proxy_cache_convert_head off; proxy_cache_lock on; proxy_cache_lock_age 1s; proxy_cache_lock_timeout 2s; proxy_cache_max_range_offset 5m; proxy_cache_methods GET POST; proxy_cache_min_uses 2; proxy_cache_mode rfc9111; proxy_cache_purge $arg_p; proxy_cache_revalidate on; proxy_cache_use_stale error timeout updating http_500; proxy_cache_valid 200 404 1m; proxy_cache_valid any 1s; proxy_no_cache $arg_a $arg_b; } }";

const FASTCGI: &str = "fastcgi_cache_background_update on; fastcgi_cache_bypass $arg_a; fastcgi_cache_lock on; fastcgi_cache_lock_age 1s; fastcgi_cache_lock_timeout 2s; fastcgi_cache_max_range_offset 5m; fastcgi_cache_methods GET POST; fastcgi_cache_min_uses 2; fastcgi_cache_mode nginx; fastcgi_cache_purge $arg_p; fastcgi_cache_revalidate on; fastcgi_cache_use_stale invalid_header; fastcgi_cache_valid 1m; fastcgi_no_cache $arg_a; } }";

const SCGI: &str = "scgi_cache_background_update on; scgi_cache_bypass $arg_a; scgi_cache_lock on; scgi_cache_lock_age 1s; scgi_cache_lock_timeout 2s; scgi_cache_max_range_offset 5m; scgi_cache_methods GET POST; scgi_cache_min_uses 2; scgi_cache_mode nginx; scgi_cache_purge $arg_p; scgi_cache_revalidate on; scgi_cache_use_stale off; scgi_cache_valid 1m; scgi_no_cache $arg_a; } }";

const UWSGI: &str = "uwsgi_cache_background_update on; uwsgi_cache_bypass $arg_a; uwsgi_cache_lock on; uwsgi_cache_lock_age 1s; uwsgi_cache_lock_timeout 2s; uwsgi_cache_max_range_offset 5m; uwsgi_cache_methods GET POST; uwsgi_cache_min_uses 2; uwsgi_cache_mode nginx; uwsgi_cache_purge $arg_p; uwsgi_cache_revalidate on; uwsgi_cache_use_stale http_404; uwsgi_cache_valid 1m; uwsgi_no_cache $arg_a; } }";

/// As they stand in files, for those who look for directives in tests.
const NAMES: &str = "
    proxy_cache_path /c keys_zone=a:1m; proxy_cache a; proxy_cache_key $uri;
    fastcgi_cache_path /f keys_zone=b:1m; fastcgi_cache b; fastcgi_cache_key $uri;
    scgi_cache_path /s keys_zone=c:1m; scgi_cache c; scgi_cache_key $uri;
    uwsgi_cache_path /u keys_zone=d:1m; uwsgi_cache d; uwsgi_cache_key $uri;
";

#[test]
fn all_directives_under_all_prefixes() {
    let pairs = [
        (all_of!("proxy"), PROXY),
        (all_of!("fastcgi"), FASTCGI),
        (all_of!("scgi"), SCGI),
        (all_of!("uwsgi"), UWSGI),
    ];
    for (declared, rules) in pairs {
        accepted(&[&format!("{declared}{rules}")]);
    }
    accepted(&[
        NAMES,
        "add_header A $upstream_cache_status$upstream_cache_key$upstream_cache_etag$upstream_cache_last_modified$cache_status;",
    ]);
}

#[test]
fn mistakes() {
    refused(&[
        ("proxy_cache_path /c;", "invalid number of arguments in \"proxy_cache_path\" directive"),
        ("proxy_cache_path /c inactive=1m;", "\"proxy_cache_path\" must have \"keys_zone\" parameter"),
        ("proxy_cache_path /c keys_zone=a;", "invalid keys zone size \"keys_zone=a\""),
        ("proxy_cache_path /c keys_zone=a:1;", "invalid keys zone size \"keys_zone=a:1\""),
        ("proxy_cache_path /c keys_zone=a:1m levels=3;", "invalid \"levels\" \"levels=3\""),
        ("proxy_cache_path /c keys_zone=a:1m levels=1:1:1:1;", "invalid \"levels\" \"levels=1:1:1:1\""),
        ("proxy_cache_path /c keys_zone=a:1m foo=1;", "invalid parameter \"foo=1\""),
        ("proxy_cache_path /c keys_zone=a:1m foo_files=1;", "invalid parameter \"foo_files=1\""),
        ("proxy_cache_path /c keys_zone=a:1m max_size=x;", "invalid max_size value \"max_size=x\""),
        (
            "proxy_cache_path /c keys_zone=a:1m use_temp_path=x;",
            "invalid use_temp_path value \"x\", it must be \"on\" or \"off\"",
        ),
        ("proxy_cache_path /c keys_zone=a:1m; fastcgi_cache_path /d keys_zone=a:1m;", "duplicate zone \"a\""),
        (
            "proxy_cache_path /c keys_zone=a:1m; proxy_cache_path /c/ keys_zone=b:1m;",
            "the path \"/c\" is used by zone \"a\" already",
        ),
        ("server { location / { proxy_cache a; } }", "\"proxy_cache\" zone \"a\" is unknown"),
        ("proxy_cache_valid 20 1m;", "invalid status \"20\""),
        ("proxy_cache_use_stale foo;", "invalid value \"foo\""),
        ("proxy_cache_methods PUT;", "invalid value \"PUT\""),
        ("server { proxy_cache_purge one $uri$args; }", "a zone and a key make every request a purge"),
        (
            "server { location / { proxy_cache_purge b \"$1\"; } }",
            "\"proxy_cache_purge\" zone \"b\" is unknown",
        ),
        ("proxy_cache_purge PURGE from;", "nobody may use it"),
        ("proxy_cache_purge PURGE from 1.2.3;", "invalid parameter \"1.2.3\""),
        (
            "proxy_cache_path /c keys_zone=a:1m; server { location / { proxy_pass http://127.0.0.1:1; proxy_cache_purge a $uri; } }",
            "a location with \"proxy_pass\" is not all purges",
        ),
        ("proxy_cache_mode varnish;", "invalid value \"varnish\""),
    ]);
}

const ZONE: &str = "proxy_cache_path /c keys_zone=a:1m;";

#[test]
fn a_bypass_that_is_stored_is_warned_about() {
    let check = |rules: &str, want: &[&str]| {
        let text = format!(
            "{ZONE} server {{ location / {{ proxy_pass http://127.0.0.1:1; proxy_cache a; {rules} }} }}"
        );
        messages(&text, want);
    };
    let warning = "\"proxy_cache_bypass\" without the same condition in \"proxy_no_cache\": answers that bypass the cache are stored";
    check("proxy_cache_bypass $arg_a;", &[warning]);
    check("proxy_cache_bypass $arg_a $cookie_b; proxy_no_cache $arg_a;", &[warning]);
    check("proxy_cache_bypass $arg_a; proxy_no_cache $cookie_b $arg_a;", &[]);
    check("proxy_no_cache $arg_a;", &[]);
}

#[test]
fn answers_to_post_that_are_told_apart_by_nothing_are_warned_about() {
    let check = |rules: &str, want: &[&str]| {
        let text = format!(
            "{ZONE} server {{ location / {{ proxy_pass http://127.0.0.1:1; proxy_cache a; {rules} }} }}"
        );
        messages(&text, want);
    };
    let warning = "\"proxy_cache_methods POST\" without $request_body in \"proxy_cache_key\": the answer to one POST is given to all";
    check("proxy_cache_methods POST;", &[warning]);
    check("proxy_cache_methods POST; proxy_cache_key $uri;", &[warning]);
    check("proxy_cache_methods POST; proxy_cache_key $uri|$request_body;", &[]);
    check("proxy_cache_methods GET; proxy_cache_key $uri; proxy_cache_convert_head off;", &[]);
}

#[test]
fn a_cache_without_a_back_end_is_noticed() {
    let text = format!("{ZONE} server {{ location / {{ proxy_cache a; }} }}");
    messages(&text, &["\"proxy_cache\" has no effect without \"proxy_pass\""]);
    let text =
        format!("{ZONE} proxy_cache a; server {{ location / {{ }} location /b {{ proxy_cache off; }} }}");
    messages(&text, &[]);
}

#[test]
fn purges_that_cannot_be_meant_are_warned_about() {
    let check =
        |rules: &str, want: &[&str]| messages(&format!("{ZONE} server {{ location / {{ {rules} }} }}"), want);
    let used = "proxy_pass http://127.0.0.1:1; proxy_cache a;";
    check(&format!("{used} proxy_cache_purge $arg_a 0;"), &[]);
    check(&format!("{used} proxy_cache_purge PURGE from 127.0.0.1 10.0.0.0/8 ::1;"), &[]);
    check(&format!("{used} proxy_cache_purge on; proxy_cache_purge off;"), &[]);
    check("proxy_cache_purge a $uri;", &[]);
    check(
        &format!("{used} proxy_cache_purge 1;"),
        &["\"proxy_cache_purge\" with a constant makes every request a purge"],
    );
    check(
        "proxy_cache_purge $arg_a;",
        &["\"proxy_cache_purge\" has no effect without \"proxy_cache\" and a pass"],
    );
}

#[test]
fn only_locations_with_a_cache_can_be_pure() {
    let purity = |rules: &str| {
        let text = format!("{ZONE} server {{ location / {{ proxy_pass http://127.0.0.1:1; {rules} }} }}");
        let snap = http(&text).unwrap();
        snap.locations.iter().map(|location| location.plan.purity()).collect::<Vec<_>>()
    };
    assert_ne!(purity(""), purity("proxy_cache a;"));
}
