//! Rules about crates: who may use whom, licences, one version of each.
#![forbid(unsafe_code)]

use brisk_tidy::packages::{self, Package};

/// Who may use whom (ARCHITECTURE.md, "The crates"). A crate that is not here is refused: give it its row.
const MAY_USE: &[(&str, &[&str])] = &[
    ("brisk-conf", &[]),
    ("brisk-apache", &["brisk-conf"]),
    ("brisk-statistics", &[]),
    ("brisk-top", &["brisk-http"]),
    ("brisk-tune", &["brisk-apache", "brisk-conf", "brisk-statistics"]),
    ("brisk-http", &[]),
    ("brisk-mysql", &[]),
    ("brisk-proxy-protocol", &[]),
    ("brisk-mux", &[]),
    ("brisk-h2", &["brisk-mux"]),
    ("brisk-h3", &["brisk-mux"]),
    ("brisk-image", &["brisk-webp"]),
    ("brisk-webp", &[]),
    ("brisk-balance", &[]),
    ("brisk-db", &[]),
    ("brisk-pgsql", &[]),
    ("brisk-gateway", &["brisk-http"]),
    ("brisk-otlp", &[]),
    ("brisk-php", &["brisk-balance"]),
    ("brisk-x509", &[]),
    ("brisk-tls", &["brisk-x509"]),
    ("brisk-quic", &["brisk-tls"]),
    ("brisk-net", &["brisk-tls"]),
    ("brisk-cachepolicy", &["brisk-http"]),
    ("brisk-cache", &["brisk-cachepolicy", "brisk-http", "brisk-net"]),
    ("brisk-host", &["brisk-conf", "brisk-net", "brisk-resolver", "brisk-tls"]),
    (
        "brisk-server",
        &[
            "brisk-conf",
            "brisk-h2",
            "brisk-h3",
            "brisk-host",
            "brisk-http",
            "brisk-mux",
            "brisk-net",
            "brisk-proxy-protocol",
            "brisk-quic",
            "brisk-resolver",
            "brisk-tls",
        ],
    ),
    (
        "brisk-stream",
        &[
            "brisk-balance",
            "brisk-conf",
            "brisk-db",
            "brisk-host",
            "brisk-net",
            "brisk-proxy-protocol",
            "brisk-resolver",
            "brisk-tls",
        ],
    ),
    (
        "brisk-split",
        &[
            "brisk-balance",
            "brisk-conf",
            "brisk-db",
            "brisk-host",
            "brisk-mysql",
            "brisk-net",
            "brisk-stream",
        ],
    ),
    (
        "brisk-modules",
        &[
            "brisk-apache",
            "brisk-balance",
            "brisk-cache",
            "brisk-cachepolicy",
            "brisk-conf",
            "brisk-db",
            "brisk-gateway",
            "brisk-h2",
            "brisk-host",
            "brisk-http",
            "brisk-image",
            "brisk-mysql",
            "brisk-net",
            "brisk-otlp",
            "brisk-pgsql",
            "brisk-php",
            "brisk-resolver",
            "brisk-server",
            "brisk-split",
            "brisk-stream",
            "brisk-tls",
            "brisk-upstream",
        ],
    ),
    ("brisk-resolver", &["brisk-net"]),
    ("brisk-supervise", &["brisk-net"]),
    (
        "brisk-upstream",
        &[
            "brisk-balance",
            "brisk-conf",
            "brisk-h2",
            "brisk-http",
            "brisk-net",
            "brisk-resolver",
            "brisk-server",
            "brisk-tls",
        ],
    ),
    ("brisk-cli", &["brisk-conf"]),
    (
        "brisk-drive",
        &["brisk-cli", "brisk-h2", "brisk-h3", "brisk-http", "brisk-load", "brisk-net", "brisk-tls"],
    ),
    (
        "brisk-load",
        &[
            "brisk-cli",
            "brisk-h2",
            "brisk-h3",
            "brisk-http",
            "brisk-net",
            "brisk-quic",
            "brisk-statistics",
            "brisk-tls",
        ],
    ),
    (
        "brisk",
        &[
            "brisk-cache",
            "brisk-cachepolicy",
            "brisk-cli",
            "brisk-conf",
            "brisk-drive",
            "brisk-gateway",
            "brisk-h2",
            "brisk-http",
            "brisk-load",
            "brisk-modules",
            "brisk-net",
            "brisk-php",
            "brisk-server",
            "brisk-supervise",
            "brisk-tls",
            "brisk-top",
            "brisk-tune",
        ],
    ),
    (
        "brisk-benches",
        &["brisk-cli", "brisk-http", "brisk-load", "brisk-mysql", "brisk-net", "brisk-quic", "brisk-tls"],
    ),
    (
        "brisk-fuzz",
        &[
            "brisk-apache",
            "brisk-cache",
            "brisk-cachepolicy",
            "brisk-conf",
            "brisk-drive",
            "brisk-gateway",
            "brisk-h2",
            "brisk-h3",
            "brisk-http",
            "brisk-image",
            "brisk-load",
            "brisk-modules",
            "brisk-mysql",
            "brisk-pgsql",
            "brisk-proxy-protocol",
            "brisk-quic",
            "brisk-resolver",
            "brisk-server",
            "brisk-upstream",
            "brisk-tls",
        ],
    ),
    (
        "brisk-testkit",
        &[
            "brisk-conf",
            "brisk-gateway",
            "brisk-h2",
            "brisk-h3",
            "brisk-http",
            "brisk-load",
            "brisk-modules",
            "brisk-net",
            "brisk-server",
            "brisk-tls",
        ],
    ),
    ("brisk-tidy", &["brisk-modules"]),
];

/// What tests, examples and benchmarks of any crate may use besides.
const TESTS_MAY_USE: &[&str] = &["brisk-testkit"];

/// Licences that allow what MIT OR Apache-2.0 promises.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "IJG",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates of which several versions are built, and why that cannot be helped yet.
const DUPLICATES: &[(&str, &str)] = &[
    ("getrandom", "ring is still on the generation before; rustls names it but does not use it here"),
    ("miniz_oxide", "png is built on the generation before"),
    ("syn", "macros of rav1e (AVIF) are on the generation before"),
];

fn ours() -> Vec<Package> {
    packages::all().into_iter().filter(|package| package.ours).collect()
}

#[test]
fn crates_use_only_what_lies_below_them() {
    for package in ours() {
        let row = MAY_USE.iter().find(|(name, _)| *name == package.name);
        let Some((_, allowed)) = row else { panic!("{} has no row in MAY_USE", package.name) };
        for used in package.uses.iter().filter(|used| used.name.starts_with("brisk")) {
            let name = used.name.as_str();
            let is_allowed = allowed.contains(&name) || used.dev && TESTS_MAY_USE.contains(&name);
            assert!(is_allowed, "{} must not use {name}: see ARCHITECTURE.md", package.name);
        }
    }
}

#[test]
fn licences_are_on_the_list() {
    for package in packages::all() {
        let license = &package.license;
        assert!(is_allowed(license), "{} {} has licence \"{license}\"", package.name, package.version);
    }
}

/// Every side of an AND and one side of an OR is on the list. `MIT/Apache-2.0` is the old way to write OR.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace(['(', ')'], " ").replace('/', " OR ");
    expression.split(" AND ").all(|all| all.split(" OR ").any(|one| LICENCES.contains(&one.trim())))
}

#[test]
fn licence_expressions_are_read() {
    assert!(is_allowed("MIT OR GPL-3.0") && is_allowed("Unlicense/MIT"));
    assert!(
        is_allowed("(MIT OR Apache-2.0) AND Unicode-3.0")
            && is_allowed("Apache-2.0 WITH LLVM-exception OR MIT")
    );
    assert!(!is_allowed("MIT AND GPL-3.0") && !is_allowed(""));
}

#[test]
fn each_crate_is_built_in_one_version() {
    let mut names: Vec<_> = packages::all().into_iter().map(|package| package.name).collect();
    names.sort();
    let mut twice: Vec<_> =
        names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0].as_str()).collect();
    twice.dedup();
    let listed: Vec<_> = DUPLICATES.iter().map(|(name, _)| *name).collect();
    assert_eq!(twice, listed, "several versions of a crate: agree on one, or list it with the reason");
}
