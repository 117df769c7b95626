//! Chains of certificates that somebody has made up to be taken for something else.
#![forbid(unsafe_code)]

use brisk_tls::issue::{Issued, Wish};
use brisk_tls::{Certificate, Purpose, Refusal, Trust};
use std::time::Instant;

const NOW: i64 = 1_800_000_000;
const VALID: Wish<'_> =
    Wish { common_name: "", names: &[], authority: false, not_before: NOW - 1000, not_after: NOW + 1000 };

const BASIC: &[u8] = &[0x55, 0x1d, 0x13];
const USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const PURPOSES: &[u8] = &[0x55, 0x1d, 0x25];
const CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x1e];
const NAMES: &[u8] = &[0x55, 0x1d, 0x11];
const KEY: &[u8] = &[0x55, 0x1d, 0x0e];
const ISSUER_KEY: &[u8] = &[0x55, 0x1d, 0x23];
const PRIVATE: &[u8] = &[0x2a, 3, 4];

/// An element of DER.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let len = body.len();
    let head = match len {
        0..=0x7f => vec![tag, len as u8],
        0x80..=0xff => vec![tag, 0x81, len as u8],
        0x100..=0xffff => vec![tag, 0x82, (len >> 8) as u8, len as u8],
        _ => vec![tag, 0x83, (len >> 16) as u8, (len >> 8) as u8, len as u8],
    };
    [head, body].concat()
}

fn authority(path_len: Option<u8>) -> Vec<u8> {
    match path_len {
        None => der(0x30, &[&[1, 1, 0xff]]),
        Some(len) => der(0x30, &[&[1, 1, 0xff], &[2, 1, len]]),
    }
}

type More<'a> = &'a [(&'a [u8], bool, &'a [u8])];

fn issue(name: &str, more: More<'_>, by: Option<&Issued>) -> Issued {
    Issued::with(&Wish { common_name: name, ..VALID }, more, by).unwrap()
}

fn root() -> Issued {
    issue("root", &[(BASIC, true, &authority(None))], None)
}

fn verify_for(
    trusted: &Issued,
    leaf: &Issued,
    extra: &[&Issued],
    purpose: Purpose,
) -> Result<usize, Refusal> {
    let trust = Trust::of(&[&trusted.certificate]);
    let extra: Vec<&[u8]> = extra.iter().map(|one| &one.certificate[..]).collect();
    trust.verify(&leaf.certificate, &extra, purpose, 8, NOW).map(|chain| chain.len())
}

fn verify(trusted: &Issued, leaf: &Issued, extra: &[&Issued]) -> Result<usize, Refusal> {
    verify_for(trusted, leaf, extra, Purpose::Server)
}

/// The verdict on a leaf with these extensions.
fn leaf(more: More<'_>) -> Result<usize, Refusal> {
    let root = root();
    verify(&root, &issue("leaf", more, Some(&root)), &[])
}

/// The verdict on a leaf below an authority with these extensions.
fn below(middle: More<'_>, end: More<'_>) -> Result<usize, Refusal> {
    let root = root();
    let middle = issue("middle", middle, Some(&root));
    verify(&root, &issue("leaf", end, Some(&middle)), &[&middle])
}

#[test]
fn who_may_issue() {
    let is_authority = authority(None);
    assert_eq!(below(&[(BASIC, true, &is_authority)], &[]), Ok(3));
    // RFC 5280 §6.1.4 k: without the extension, with cA false, with something in its place.
    // OpenSSL says that it is no authority, then that it cannot be used for this: the last one counts.
    assert_eq!(below(&[], &[]), Err(Refusal::PURPOSE));
    for not in [&der(0x30, &[])[..], &der(0x30, &[&[1, 1, 0]])] {
        assert_eq!(below(&[(BASIC, true, not)], &[]), Err(Refusal::PURPOSE), "{not:?}");
    }
    for not in [&[5, 0][..], &[]] {
        assert!(below(&[(BASIC, true, not)], &[]).is_err(), "{not:?}");
    }
    // §6.1.4 n: keyUsage without keyCertSign.
    let usage = |bits: u8| der(3, &[&[0, bits]]);
    let with = |bits| below(&[(BASIC, true, &is_authority), (USAGE, true, &usage(bits))], &[]);
    assert_eq!(with(0x04), Ok(3));
    for bits in [0x80, 0xfb, 0] {
        assert_eq!(with(bits), Err(Refusal::UNVERIFIED_LEAF), "{bits:x}");
    }
}

#[test]
fn length_of_paths() {
    let root = issue("root", &[(BASIC, true, &authority(Some(1)))], None);
    let one = issue("one", &[(BASIC, true, &authority(Some(0)))], Some(&root));
    let two = issue("two", &[(BASIC, true, &authority(None))], Some(&one));
    assert_eq!(verify(&root, &issue("leaf", &[], Some(&one)), &[&one]), Ok(3));
    let refused = verify(&root, &issue("leaf", &[], Some(&two)), &[&two, &one]);
    assert_eq!(refused, Err(Refusal::PATH_LENGTH));
    // RFC 5280 §6.1.4 l: certificates that an authority issues to itself do not count.
    // It names its issuer's key: without that it would be taken for one that has signed itself.
    let (first, second) = (der(4, &[b"1"]), der(4, &[b"2"]));
    let by_first = der(0x30, &[&der(0x80, &[b"1"])]);
    let zero = authority(Some(0));
    let one = issue("one", &[(BASIC, true, &zero), (KEY, false, &first)], Some(&root));
    let more: More<'_> = &[(BASIC, true, &zero), (KEY, false, &second), (ISSUER_KEY, false, &by_first)];
    let again = issue("one", more, Some(&one));
    let by_second = der(0x30, &[&der(0x80, &[b"2"])]);
    let leaf = issue("leaf", &[(ISSUER_KEY, false, &by_second)], Some(&again));
    assert_eq!(verify(&root, &leaf, &[&again, &one]), Ok(4));
}

#[test]
fn what_a_leaf_is_for() {
    let purposes = |last: &[u8]| {
        let oids: Vec<Vec<u8>> =
            last.iter().map(|&last| der(6, &[&[0x2b, 6, 1, 5, 5, 7, 3, last]])).collect();
        der(0x30, &[&oids.concat()])
    };
    let (server, client, both) = (purposes(&[1]), purposes(&[2]), purposes(&[2, 1]));
    assert_eq!(leaf(&[(PURPOSES, false, &server)]), Ok(2));
    assert_eq!(leaf(&[(PURPOSES, false, &both)]), Ok(2));
    for not in [&client[..], &purposes(&[])] {
        assert_eq!(leaf(&[(PURPOSES, false, not)]), Err(Refusal::PURPOSE), "{not:?}");
    }
    for broken in [&[0x30, 3, 6][..], &[]] {
        assert!(leaf(&[(PURPOSES, false, broken)]).is_err(), "{broken:?}");
    }
    let root = root();
    let for_servers = issue("leaf", &[(PURPOSES, false, &server)], Some(&root));
    assert_eq!(verify_for(&root, &for_servers, &[], Purpose::Client), Err(Refusal::PURPOSE));
    // An authority's purposes hold for what is below it, as in OpenSSL.
    let middle: More<'_> = &[(BASIC, true, &authority(None)), (PURPOSES, false, &client)];
    assert_eq!(below(middle, &[]), Err(Refusal::PURPOSE));
    // Only for issuing.
    assert_eq!(leaf(&[(USAGE, true, &der(3, &[&[0, 0x04]]))]), Err(Refusal::PURPOSE));
}

#[test]
fn critical_extensions_that_are_not_known() {
    assert_eq!(leaf(&[(PRIVATE, false, b"x")]), Ok(2));
    assert_eq!(leaf(&[(PRIVATE, true, b"x")]), Err(Refusal::UNKNOWN_CRITICAL));
    let middle: More<'_> = &[(BASIC, true, &authority(None)), (PRIVATE, true, b"x")];
    assert_eq!(below(middle, &[]), Err(Refusal::UNKNOWN_CRITICAL));
    // RFC 5280 §4.2: none twice. The handshake ends there already.
    let twice = issue("leaf", &[(PRIVATE, false, b"x"), (PRIVATE, false, b"y")], None);
    assert!(Certificate::parse(&twice.certificate).is_err());
}

/// A BOOLEAN that is neither true nor false could be read either way.
#[test]
fn flags_are_true_or_false() {
    let root = root();
    let good = issue("leaf", &[(PRIVATE, true, b"x")], Some(&root));
    let at = good.certificate.windows(3).position(|w| w == [1, 1, 0xff]).unwrap();
    let mut odd = good.certificate.clone();
    odd[at + 2] = 1;
    let trust = Trust::of(&[&root.certificate]);
    let none: [&[u8]; 0] = [];
    assert!(Certificate::parse(&odd).is_err());
    assert!(trust.verify(&odd, &none, Purpose::Server, 1, NOW).is_err());
}

fn names(hosts: &[&str]) -> Vec<u8> {
    let hosts: Vec<Vec<u8>> = hosts.iter().map(|host| der(0x82, &[host.as_bytes()])).collect();
    der(0x30, &[&hosts.concat()])
}

/// nameConstraints: permitted and excluded subtrees.
fn constraints(permitted: &[Vec<u8>], excluded: &[Vec<u8>]) -> Vec<u8> {
    let list = |tag, trees: &[Vec<u8>]| {
        let trees: Vec<Vec<u8>> = trees.iter().map(|base| der(0x30, &[base])).collect();
        if trees.is_empty() { Vec::new() } else { der(tag, &[&trees.concat()]) }
    };
    der(0x30, &[&list(0xa0, permitted), &list(0xa1, excluded)])
}

fn host(name: &str) -> Vec<u8> {
    der(0x82, &[name.as_bytes()])
}

fn constrained(rule: &[u8], end: &[u8]) -> Result<usize, Refusal> {
    below(&[(BASIC, true, &authority(None)), (CONSTRAINTS, true, rule)], &[(NAMES, false, end)])
}

#[test]
fn names_that_an_authority_may_not_certify() {
    let rule = constraints(&[host("example.com")], &[host("secret.example.com")]);
    for good in ["example.com", "www.example.com", "WWW.EXAMPLE.COM"] {
        assert_eq!(constrained(&rule, &names(&[good])), Ok(3), "{good}");
    }
    for bad in ["example.org", "notexample.com", "com", "example.com.evil.org"] {
        assert_eq!(constrained(&rule, &names(&["example.com", bad])), Err(Refusal::NOT_PERMITTED), "{bad}");
    }
    for bad in ["secret.example.com", "a.secret.example.com", "SECRET.example.com", "*.example.com"] {
        assert_eq!(constrained(&rule, &names(&[bad])), Err(Refusal::EXCLUDED), "{bad}");
    }
    // An address is of another kind: an authority for hosts alone says nothing about it.
    assert_eq!(constrained(&rule, &der(0x30, &[&der(0x87, &[&[10, 0, 0, 1]])])), Ok(3));
    let net = constraints(&[der(0x87, &[&[10, 0, 0, 0, 255, 0, 0, 0]])], &[]);
    assert_eq!(constrained(&net, &der(0x30, &[&der(0x87, &[&[10, 9, 9, 9]])])), Ok(3));
    assert_eq!(constrained(&net, &der(0x30, &[&der(0x87, &[&[11, 0, 0, 1]])])), Err(Refusal::NOT_PERMITTED));
    // A common name that looks like a host counts where there is no other name.
    let root = root();
    let more: More<'_> = &[(BASIC, true, &authority(None)), (CONSTRAINTS, true, &rule)];
    let middle = issue("middle", more, Some(&root));
    let by_name = |name| verify(&root, &issue(name, &[], Some(&middle)), &[&middle]);
    assert_eq!((by_name("www.example.com"), by_name("evil.org")), (Ok(3), Err(Refusal::NOT_PERMITTED)));
}

/// RFC 5280 §7.1: another spelling is the same name.
#[test]
fn directory_names_are_compared_by_what_they_say() {
    let subject = |tag: u8, text: &str| {
        let pair = der(0x30, &[&[6, 3, 0x55, 4, 3], &der(tag, &[text.as_bytes()])]);
        der(0x30, &[&der(0x31, &[&pair])])
    };
    let rule = constraints(&[], &[der(0xa4, &[&subject(0x13, "Bad  Company")])]);
    let middle: More<'_> = &[(BASIC, true, &authority(None)), (CONSTRAINTS, true, &rule)];
    let root = root();
    let middle = issue("middle", middle, Some(&root));
    for name in ["Bad  Company", "bad company", "BAD COMPANY "] {
        let refused = verify(&root, &issue(name, &[], Some(&middle)), &[&middle]);
        assert_eq!(refused, Err(Refusal::EXCLUDED), "{name}");
    }
    assert_eq!(verify(&root, &issue("Good Company", &[], Some(&middle)), &[&middle]), Ok(3));
}

#[test]
fn constraints_that_are_not_understood_are_not_passed_over() {
    // RFC 5280 §4.2.1.10: minimum is 0 and maximum absent.
    let limits = der(0x30, &[&der(0xa0, &[&der(0x30, &[&host("example.com"), &[0x80, 1, 1]])])]);
    assert_eq!(constrained(&limits, &names(&["example.com"])), Err(Refusal::SUBTREE_LIMITS));
    let uri = der(0x86, &[b"https://example.com/"]);
    let of_host = |host: &str| constraints(&[der(0x86, &[host.as_bytes()])], &[]);
    assert_eq!(constrained(&of_host("example.com"), &der(0x30, &[&uri])), Ok(3));
    assert_eq!(constrained(&of_host("example.org"), &der(0x30, &[&uri])), Err(Refusal::NOT_PERMITTED));
    let number = der(0x88, &[&[0x2a, 3]]);
    let rule = constraints(std::slice::from_ref(&number), &[]);
    assert_eq!(constrained(&rule, &der(0x30, &[&number])), Err(Refusal::CONSTRAINT_TYPE));
    for broken in [&[][..], &[0x30, 1], &[0x30, 0, 0], &der(0x30, &[&der(0xa0, &[&[0x30, 0]])])] {
        assert!(constrained(broken, &names(&["example.com"])).is_err(), "{broken:?}");
    }
}

/// Names behind something that is none would be seen by some and not by others.
#[test]
fn lists_of_names_are_whole() {
    let host = der(0x82, &[b"example.com"]);
    for broken in [
        der(0x30, &[&host, &[0x82, 9, b'x']]),
        der(0x30, &[&host, &der(0x0c, &[b"evil.org"])]),
        [der(0x30, &[&host]), vec![0]].concat(),
        der(0x31, &[&host]),
    ] {
        assert!(leaf(&[(NAMES, false, &broken)]).is_err(), "{broken:x?}");
    }
    assert_eq!(leaf(&[(NAMES, false, &der(0x30, &[&host]))]), Ok(2));
}

#[test]
fn many_names_and_many_constraints_cost_little() {
    let hosts: Vec<String> = (0..3000).map(|n| format!("h{n}.example.com")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let trees: Vec<Vec<u8>> = (0..3000).map(|n| host(&format!("x{n}.example.org"))).collect();
    let start = Instant::now();
    assert_eq!(constrained(&constraints(&[], &trees), &names(&hosts)), Err(Refusal::MALFORMED));
    assert!(start.elapsed().as_secs() < 20);
}

/// Many authorities of one name, none of which has signed: the search ends.
#[test]
fn a_search_for_issuers_is_bounded() {
    let root = root();
    let of_one_name: Vec<Issued> =
        (0..100).map(|_| issue("same", &[(BASIC, true, &authority(None))], None)).collect();
    let signer = issue("same", &[(BASIC, true, &authority(None))], Some(&root));
    let leaf = issue("leaf", &[], Some(&signer));
    let extra: Vec<&Issued> = of_one_name.iter().collect();
    let start = Instant::now();
    assert!(verify(&root, &leaf, &extra).is_err());
    assert!(start.elapsed().as_secs() < 20);
    // Two that have issued each other lead nowhere.
    let (a, b) = (issue("a", &[(BASIC, true, &authority(None))], None), issue("b", &[], None));
    let ab = issue("a", &[(BASIC, true, &authority(None))], Some(&b));
    let ba = issue("b", &[(BASIC, true, &authority(None))], Some(&a));
    assert!(verify(&root, &issue("leaf", &[], Some(&a)), &[&ab, &ba, &ab]).is_err());
}

/// Each pair of certificates has few enough names and constraints for the library; all of them together are too many.
#[test]
fn names_and_constraints_of_a_chain_count_together() {
    let rule: Vec<Vec<u8>> = (0..300).map(|n| host(&format!("x{n}.example.org"))).collect();
    let rule = constraints(&[], &rule);
    let hosts: Vec<String> = (0..300).map(|n| format!("h{n}.example.com")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let verdict = |count: usize| {
        let root = root();
        let mut chain: Vec<Issued> = Vec::new();
        for n in 0..count {
            let more: More<'_> = &[
                (BASIC, true, &authority(None)),
                (CONSTRAINTS, true, &rule),
                (NAMES, false, &names(&hosts)),
            ];
            let next = issue(&format!("a{n}"), more, Some(chain.last().unwrap_or(&root)));
            chain.push(next);
        }
        let leaf = issue("leaf", &[], chain.last());
        verify(&root, &leaf, &chain.iter().collect::<Vec<_>>())
    };
    assert_eq!(verdict(1), Ok(3));
    assert_eq!(verdict(2), Err(Refusal::MALFORMED));
}

#[test]
fn chains_have_an_end() {
    let root = root();
    let mut chain: Vec<Issued> = Vec::new();
    for n in 0..40 {
        let more: More<'_> = &[(BASIC, true, &authority(None))];
        let next = issue(&format!("a{n}"), more, Some(chain.last().unwrap_or(&root)));
        chain.push(next);
    }
    let verdict = |sent: usize, trusted: usize, depth: u32| {
        let trusted: Vec<&[u8]> =
            chain[..trusted].iter().chain([&root]).map(|one| &one.certificate[..]).collect();
        let sent: Vec<&[u8]> =
            chain[trusted.len() - 1..][..sent].iter().map(|one| &one.certificate[..]).collect();
        let leaf = issue("leaf", &[], chain.last());
        let trust = Trust::of(&trusted);
        trust.verify(&leaf.certificate, &sent, Purpose::Server, depth, NOW).map(|chain| chain.len())
    };
    // What the configuration allows.
    assert_eq!(verdict(30, 10, 40), Ok(42));
    assert_eq!(verdict(30, 10, 39), Err(Refusal::TOO_LONG));
    // More certificates are not looked at.
    assert_eq!(verdict(33, 7, 40), Err(Refusal::UNVERIFIED_LEAF));
    // However many it allows.
    let mut trusted = vec![root.certificate.clone()];
    let mut last = root;
    for n in 0..70 {
        last = issue(&format!("b{n}"), &[(BASIC, true, &authority(None))], Some(&last));
        trusted.push(last.certificate.clone());
    }
    let none: [&[u8]; 0] = [];
    let leaf = issue("leaf", &[], Some(&last));
    let trust = Trust::of(&trusted);
    let verdict = trust.verify(&leaf.certificate, &none, Purpose::Server, u32::MAX, NOW).unwrap_err();
    assert_eq!(verdict, Refusal::TOO_LONG);
}

/// Keys that cost much are not used, and certificates beyond 64 KiB not read.
#[test]
fn large_certificates_are_left_out() {
    let root = root();
    let big = vec![7; 40_000];
    let more: More<'_> = &[(BASIC, true, &authority(None)), (PRIVATE, false, &big)];
    let middle = issue("middle", more, Some(&root));
    let leaf = issue("leaf", &[], Some(&middle));
    let other = issue("other", more, Some(&root));
    assert_eq!(verify(&root, &leaf, &[&middle, &other]), Ok(3));
    assert_eq!(verify(&root, &leaf, &[&other, &middle]), Err(Refusal::UNVERIFIED_LEAF));
}

/// RFC 5280 §4.2.1.10: an address in the subject counts as one of the alternative names.
#[test]
fn mail_addresses_in_subjects_are_constrained() {
    let mail = |text: &str| {
        let oid = [6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1];
        let pair = der(0x30, &[&oid, &der(0x16, &[text.as_bytes()])]);
        der(0x30, &[&der(0x31, &[&pair])])
    };
    let rule = constraints(&[der(0x81, &[b"example.com"])], &[]);
    let middle: More<'_> = &[(BASIC, true, &authority(None)), (CONSTRAINTS, true, &rule)];
    let root = root();
    let middle = issue("middle", middle, Some(&root));
    let verdict = |text: &str| {
        let leaf = Issued::named(&mail(text), &VALID, &[], Some(&middle)).unwrap();
        verify_for(&root, &leaf, &[&middle], Purpose::Client)
    };
    assert_eq!(verdict("me@example.com"), Ok(3));
    assert_eq!(verdict("me@example.org"), Err(Refusal::NOT_PERMITTED));
}

#[test]
fn an_authority_that_was_renewed() {
    let old = Wish { common_name: "root", not_after: NOW - 1, ..VALID };
    let old = Issued::with(&old, &[(BASIC, true, &authority(None))], None).unwrap();
    let new =
        old.renewed(&Wish { common_name: "root", ..VALID }, &[(BASIC, true, &authority(None))]).unwrap();
    let leaf = issue("leaf", &[], Some(&old));
    for order in [[&old, &new], [&new, &old]] {
        let trust = Trust::of(&order.map(|one| &one.certificate));
        let none: [&[u8]; 0] = [];
        assert!(trust.verify(&leaf.certificate, &none, Purpose::Server, 1, NOW).is_ok());
    }
    assert_eq!(verify(&old, &leaf, &[]), Err(Refusal::EXPIRED));
}

#[test]
fn signatures_are_what_they_say() {
    let root = root();
    let good = issue("leaf", &[], Some(&root));
    let trust = Trust::of(&[&root.certificate]);
    let none: [&[u8]; 0] = [];
    let verify = |der: &[u8]| trust.verify(der, &none, Purpose::Server, 1, NOW).map(|_| ());
    assert_eq!(verify(&good.certificate), Ok(()));
    // Not one bit may change, the two names of the algorithm included (RFC 5280 §4.1.1.2).
    for at in 0..good.certificate.len() {
        let mut changed = good.certificate.clone();
        changed[at] ^= 1;
        assert!(verify(&changed).is_err(), "byte {at}");
    }
    assert!(verify(&[&good.certificate[..], &[0]].concat()).is_err(), "something behind it");
}
