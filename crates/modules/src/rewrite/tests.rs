//! The rewrite script: what it does and what is refused.

use super::*;
use crate::check::{accepted, http, refused};

/// The ops of the first server's script and of its first location's, by name.
fn scripts(text: &str) -> Vec<String> {
    let name = |(op, _): &(Op, Span)| match op {
        Op::Rewrite(_) => "rewrite".to_string(),
        Op::Return(_) => "return".to_string(),
        Op::Set { .. } => "set".to_string(),
        Op::Break => "break".to_string(),
        Op::Unless { to, .. } => format!("unless>{to}"),
        Op::Enter(_) => "enter".to_string(),
    };
    let mut ops = Vec::new();
    lay_out(&items(text), &mut ops);
    ops.iter().map(name).collect()
}

thread_local! {
    static SEEN: std::cell::RefCell<Vec<Item>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// A module that looks at what the rewrite module has in a location.
static SPY: Module = Module {
    name: "spy",
    install: Some(|cx, _| {
        let conf = cx.conf_of::<Conf>();
        if cx.block == Context::LOCATION || cx.block == Context::SERVER && SEEN.with_borrow(Vec::is_empty) {
            SEEN.set(conf.items.clone());
        }
    }),
    ..Module::EMPTY
};

fn items(text: &str) -> Vec<Item> {
    SEEN.take();
    crate::check::build_with(&[&brisk_server::core::MAIN, &brisk_server::core::HTTP, &MODULE, &SPY], text)
        .0
        .expect("the configuration is valid");
    SEEN.take()
}

#[test]
fn an_if_is_a_jump_over_its_body() {
    assert_eq!(
        scripts(
            "server { location / { set $a 1; if ($a) { set $b 2; break; } if ($b = 2) { } return 200 x; } }"
        ),
        ["set", "unless>5", "enter", "set", "break", "unless>7", "enter", "return"]
    );
}

#[test]
fn an_if_in_a_server_enters_nothing() {
    assert_eq!(
        scripts("server { if ($uri = /x) { return 204; } rewrite ^ /y; }"),
        ["unless>2", "return", "rewrite"]
    );
}

#[test]
fn a_script_is_not_inherited() {
    let snap = http("server { set $a 1; location /a { location /a/b { } if ($a) { } } }").unwrap();
    let with_script = snap.locations.iter().filter(|l| l.plan.rewrite.is_some()).count();
    assert_eq!(with_script, 2, "the server and /a, not /a/b and not the block of the if");
}

#[test]
fn broken_directives_are_refused_in_nginxs_words() {
    refused(&[
        ("server { rewrite ^ \"\"; }", "empty replacement"),
        ("server { rewrite ^ /x final; }", "invalid parameter \"final\""),
        ("server { return 1000; }", "invalid return code \"1000\""),
        ("server { return x; }", "invalid return code \"x\""),
        ("server { return +200; }", "invalid return code \"+200\""),
        ("server { return http://x y; }", "invalid return code \"http://x\""),
        ("server { set a b; }", "invalid variable name \"a\""),
        ("server { set $uri b; }", "the duplicate \"uri\" variable"),
        ("server { set $a $; }", "invalid variable name"),
        ("server { set $a $nowhere; }", "unknown \"nowhere\" variable"),
        ("server { if $a { } }", "invalid condition \"$a\""),
        ("server { if ($uri { } }", "invalid condition \"$uri\""),
        ("server { if () { } }", "invalid condition \"()\""),
        ("server { if (a) { } }", "invalid condition \"a\""),
        ("server { if ($uri == a) { } }", "unexpected \"==\" in condition"),
        ("server { if ($uri = ) { } }", "invalid condition \"$uri\""),
        ("server { if (-z /x) { } }", "invalid condition \"-z\""),
        ("server { if (-f) { } }", "invalid condition \"-f\""),
        ("server { if ($uri) { root /x; } }", "\"root\" directive is not allowed here"),
        ("return 200;", "\"return\" directive is not allowed here"),
    ]);
}

#[test]
fn all_forms_are_accepted() {
    accepted(&[
        "server { rewrite ^/(.*)$ /b?x=$1? last; rewrite ^ http://x/ permanent; }",
        "server { return 444; } server { return 301 https://$host$request_uri; } server { return $scheme://x; }",
        "server { if ( $uri ) { } if ( -f $request_filename ) { } if (!-x /x) { } if ($uri = \"\") { } }",
        "server { if ($uri !~* (a|b)) { } if ($uri ~ \"^/(?<n>x)\") { set $m $n; } }",
        "server { set $http_foo a; set $args b; set $limit_rate 1k; location / { set $http_foo c; } }",
        "rewrite_log on; uninitialized_variable_warn off; server { rewrite_log off; }",
    ]);
}
