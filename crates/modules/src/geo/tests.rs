//! geo: networks, ranges, files, proxies.

use super::*;
use crate::check::{accepted, build_with, refused};
use brisk_server::directive::directive;

/// The table of a block, with values by text.
struct Probe(Vec<String>, Table);

thread_local! {
    static BUILT: std::cell::RefCell<Option<Geo>> = const { std::cell::RefCell::new(None) };
}

/// The module, with a directive that keeps what it builds.
static SPY: Module = Module {
    name: "spy",
    rows: &[directive("spy").in_(Context::HTTP).arity(Arity::NONE.block()).many().definition().set(spy)],
    ..Module::EMPTY
};

fn spy(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let mut builder = Builder::default();
    for line in lines(cx, d) {
        builder.line(cx, line)?;
    }
    BUILT.set(Some(builder.finish(None)));
    Ok(())
}

fn probe(block: &str) -> (Probe, Vec<String>) {
    let modules = [&brisk_server::core::MAIN, &brisk_server::core::HTTP, &SPY];
    let (snap, diags) = build_with(&modules, &format!("spy {{ {block} }}"));
    let messages: Vec<String> = diags.into_iter().map(|diag| diag.message).collect();
    assert!(snap.is_some(), "{messages:?}");
    let geo = BUILT.take().expect("built");
    let values = geo.values.iter().map(|v| String::from_utf8_lossy(v).into_owned()).collect();
    (Probe(values, geo.table), messages)
}

impl Probe {
    #[track_caller]
    fn check(&self, cases: &[(&str, &str)]) {
        for (address, want) in cases {
            let id = self.1.find(parse_address(address.as_bytes()));
            let got = self.0.get(id as usize).map_or("", |v| v.as_str());
            assert_eq!(got, *want, "{address}");
        }
    }
}

#[test]
fn networks() {
    let (probe, messages) = probe(
        "default d; 127.0.0.0/8 loop; 127.0.0.1 one; 2001:db8::/32 doc; 10.0.0.0/8 a; delete 10.0.0.0/8; \
         255.255.255.255 none; 127.1.2.3/16 odd; 127.0.0.1/32 two; delete 11.0.0.0/8;",
    );
    probe.check(&[
        ("127.0.0.1", "two"),
        ("127.0.0.2", "loop"),
        ("127.1.0.0", "odd"),
        ("::ffff:127.0.0.2", "loop"),
        ("10.0.0.1", "d"),
        ("2001:db8::1", "doc"),
        ("::1", "d"),
        ("unix:", "none"),
    ]);
    assert_eq!(
        messages,
        [
            "low address bits of 127.1.2.3/16 are meaningless",
            "duplicate network \"127.0.0.1/32\", value: \"two\", old value: \"one\"",
            "no network \"11.0.0.0/8\" to delete",
        ]
    );
}

#[test]
fn nothing_is_said_of_most_addresses() {
    probe("10.0.0.0/8 a;").0.check(&[("11.0.0.0", ""), ("::1", ""), ("", "")]);
    probe("").0.check(&[("11.0.0.0", ""), ("::1", "")]);
}

#[test]
fn ranges_nest_split_and_go() {
    let (probe, messages) = probe(
        "ranges; default d; 10.0.0.0-10.2.0.255 a; 10.0.255.0-10.1.0.10 b; 10.1.0.5-10.1.0.5 c; 9.0.0.0-9.0.0.9 x; \
         delete 9.0.0.0-9.0.0.9; 8.0.0.0-8.0.0.9 x; 8.0.0.0-8.0.0.9 y; delete 8.0.0.0-8.0.0.1;",
    );
    probe.check(&[
        ("9.0.0.1", "d"),
        ("9.255.255.255", "d"),
        ("10.0.0.0", "a"),
        ("10.0.254.255", "a"),
        ("10.0.255.0", "b"),
        ("10.1.0.4", "b"),
        ("10.1.0.5", "c"),
        ("10.1.0.6", "b"),
        ("10.1.0.11", "a"),
        ("10.2.0.255", "a"),
        ("10.2.1.0", "d"),
        ("8.0.0.5", "y"),
        ("::1", "d"),
        ("", "d"),
    ]);
    assert_eq!(
        messages,
        [
            "duplicate range \"8.0.0.0-8.0.0.9\", value: \"y\", old value: \"x\"",
            "no address range \"8.0.0.0-8.0.0.1\" to delete",
        ]
    );
}

#[test]
fn lines_are_checked_in_nginxs_words() {
    refused(&[
        ("geo x { }", "invalid variable name \"x\""),
        ("geo x $y { }", "invalid variable name \"x\""),
        ("geo $host { }", "the duplicate \"host\" variable"),
        ("geo $x { 10.0.0.0/8; }", "invalid number of the geo parameters"),
        ("geo $x { 10.0.0.0/99 a; }", "invalid network \"10.0.0.0/99\""),
        ("geo $x { proxy a; }", "invalid network \"a\""),
        (
            "geo $x { default a; ranges; }",
            "the \"ranges\" directive must be the first directive inside \"geo\" block",
        ),
        ("geo $x { ranges; 10.0.0.0/8 a; }", "invalid range \"10.0.0.0/8\""),
        ("geo $x { ranges; 10.0.0.2-10.0.0.1 a; }", "invalid range \"10.0.0.2-10.0.0.1\""),
        (
            "geo $x { ranges; 10.0.0.0-10.0.0.9 a; 10.0.0.5-10.0.0.15 b; }",
            "range \"10.0.0.5-10.0.0.15\" overlaps \"10.0.0.0-10.0.0.9\"",
        ),
        ("geo $nobody $x { }", "unknown \"nobody\" variable"),
    ]);
    accepted(&[
        "geo $x { volatile; proxy_recursive; proxy 10.0.0.0/8; default $no_variable; } geo $arg_a $y { ranges; }",
    ]);
}
