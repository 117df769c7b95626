//! Both sides of sessions, in memory.
#![forbid(unsafe_code)]

mod ends;

use brisk_tls::issue::{Issued, Wish};
use brisk_tls::{
    ClientContext, ClientOptions, Distrust, Fixed, Offered, Purpose, Refusal, Resumption, ServerContext,
    ServerOptions, SessionCache, TicketKeys, Trust, Verification, Versions,
};
use ends::{End, NOW, VALID, certified, connect, server};
use std::sync::Arc;

#[test]
fn data_goes_both_ways_in_full_records() {
    for versions in [Versions { tls12: true, tls13: false }, Versions { tls12: false, tls13: true }] {
        let server = server(|options| options.versions = versions);
        let client = ClientContext::new(&ClientOptions::unverified()).unwrap();
        let (mut client, mut server) = connect(&server, &client);
        let text: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
        let mut records = Vec::new();
        server.session.seal(&text, &mut records).unwrap();
        assert!(records.len() < text.len() + 7 * 40, "{}", records.len());
        for piece in records.chunks(5000) {
            client.take(piece).unwrap();
        }
        assert!(client.plain == text && client.session.left() == 0);
        let mut records = Vec::new();
        client.session.seal(b"thank you", &mut records).unwrap();
        client.session.close(&mut records).unwrap();
        server.take(&records).unwrap();
        assert_eq!(server.plain, b"thank you");
        assert!(server.session.is_peer_closed());
        let version = if versions.tls13 { "TLSv1.3" } else { "TLSv1.2" };
        assert_eq!((server.session.version(), client.session.version()), (version, version));
        assert!(!server.session.cipher().is_empty() && !server.session.group().is_empty());
    }
}

#[test]
fn post_quantum_keys_come_first() {
    let client = ClientContext::new(&ClientOptions::unverified()).unwrap();
    let (_, server) = connect(&server(|_| ()), &client);
    assert_eq!(server.session.group(), "X25519MLKEM768");
}

#[test]
fn sessions_are_resumed_within_their_context_only() {
    let keys = Arc::new(TicketKeys::turning(300));
    let cache = Arc::new(SessionCache::new(1 << 20, 1000));
    for versions in [Versions { tls12: true, tls13: false }, Versions { tls12: false, tls13: true }] {
        for (tickets, cache) in [(Some(keys.clone()), None), (None, Some(cache.clone())), (None, None)] {
            let has_any = tickets.is_some() || cache.is_some();
            let make = |context| {
                server(|options| {
                    options.versions = versions;
                    options.context = [context; 32];
                    let (tickets, cache) = (tickets.clone(), cache.clone());
                    options.resumption = Resumption { tickets, cache, timeout: 300 };
                })
            };
            let (one, other) = (make(1), make(2));
            let client = ClientContext::new(&ClientOptions::unverified()).unwrap();
            let resumed = |server| connect(server, &client).1.session.is_resumed();
            assert!(!resumed(&one));
            assert_eq!(resumed(&one), has_any, "{versions:?}");
            assert!(!resumed(&other), "{versions:?}");
        }
    }
}

#[test]
fn a_server_without_anything_in_common_says_so() {
    let server = server(|options| options.versions = Versions { tls12: true, tls13: false });
    let options =
        ClientOptions { versions: Versions { tls12: false, tls13: true }, ..ClientOptions::unverified() };
    let client = ClientContext::new(&options).unwrap();
    let mut client = End::new(client.session("localhost", true).unwrap());
    let hello = client.take(b"").unwrap();
    let mut session = server.session(Offered::default()).unwrap();
    let mut out = Vec::new();
    let error = session.receive(&mut hello.clone(), &mut |_| (), &mut out).unwrap_err();
    assert_eq!(error.to_string(), "SSL: error:unsupported protocol");
    // A fatal alert, protocol_version (RFC 8446 §6.2).
    assert_eq!(out[0], 21);
    assert_eq!(&out[5..], &[2, 70]);
    assert!(session.receive(&mut [], &mut |_| (), &mut out).is_err());
}

/// The client can check nothing that the server could sign. What has been queued before the alert does not hide it.
#[test]
fn a_handshake_without_a_common_signature_ends_with_an_alert() {
    let server = server(|options| options.schemes = Some(vec![0x0807]));
    let mut client = End::new(
        ClientContext::new(&ClientOptions::unverified()).unwrap().session("localhost", true).unwrap(),
    );
    let mut hello = client.take(b"").unwrap();
    let (mut session, mut out) = (server.session(Offered::default()).unwrap(), Vec::new());
    assert!(session.receive(&mut hello, &mut |_| (), &mut out).is_err());
    let error = client.take(&out).unwrap_err();
    assert!(error.to_string().contains("alert"), "{error}");
}

#[test]
fn garbage_ends_a_session_without_a_panic() {
    let context = server(|_| ());
    let client = ClientContext::new(&ClientOptions::unverified()).unwrap();
    let hello = End::new(client.session("localhost", true).unwrap()).take(b"").unwrap();
    for at in 0..hello.len() {
        let mut bytes = hello.clone();
        bytes[at] ^= 0x55;
        let _ =
            context.session(Offered::default()).unwrap().receive(&mut bytes, &mut |_| (), &mut Vec::new());
    }
    let (_, mut server) = connect(&context, &client);
    let mut oversized = [&[23, 3, 3, 0x50, 0][..], &vec![0; 0x5000]].concat();
    let mut out = Vec::new();
    assert!(server.session.receive(&mut oversized, &mut |_| (), &mut out).is_err());
    assert!(!out.is_empty(), "an alert");
}

#[test]
fn clients_certificates_come_through() {
    let authority = Issued::new(&Wish { common_name: "root", authority: true, ..VALID }, None).unwrap();
    let own = Issued::new(&Wish { common_name: "me", names: &[], ..VALID }, Some(&authority)).unwrap();
    let server = server(|options| options.client_authorities = Some(vec![authority.certificate.clone()]));
    let options = ClientOptions { certificate: Some(certified(&own)), ..ClientOptions::unverified() };
    let (_, with) = connect(&server, &ClientContext::new(&options).unwrap());
    assert_eq!(&*with.session.peer_certificates()[0], &own.certificate[..]);
    let (_, without) = connect(&server, &ClientContext::new(&ClientOptions::unverified()).unwrap());
    assert!(without.session.peer_certificates().is_empty());
}

#[test]
fn a_client_checks_its_server() {
    let root = Issued::new(&Wish { common_name: "root", authority: true, ..VALID }, None).unwrap();
    let leaf = Issued::new(&VALID, Some(&root)).unwrap();
    let fixed = Arc::new(Fixed([certified(&leaf)].into()));
    let server = ServerContext::new(&ServerOptions::default(), fixed).unwrap();
    let check = |trusted: &Issued, name: &str, now: i64| {
        let mut trust = Trust::default();
        trust.add(trusted.certificate_pem().as_bytes()).unwrap();
        let verification = Verification::On { trust: Arc::new(trust), depth: 1 };
        let context = ClientContext::new(&ClientOptions::new(verification)).unwrap();
        let (client, _) = connect(&server, &context);
        context.check(&client.session, name, now)
    };
    assert_eq!(check(&root, "localhost", NOW), Ok(()));
    assert_eq!(check(&root, "127.0.0.1", NOW), Ok(()));
    assert_eq!(check(&root, "example.com", NOW), Err(Distrust::OtherName("example.com".into())));
    assert_eq!(check(&root, "localhost", NOW + 2000), Err(Distrust::Refused(Refusal::EXPIRED)));
    let stranger = Issued::new(&Wish { common_name: "stranger", authority: true, ..VALID }, None).unwrap();
    assert_eq!(check(&stranger, "localhost", NOW), Err(Distrust::Refused(Refusal::UNVERIFIED_LEAF)));
    // The same name, another key.
    let impostor = Issued::new(&Wish { common_name: "root", authority: true, ..VALID }, None).unwrap();
    assert_eq!(check(&impostor, "localhost", NOW), Err(Distrust::Refused(Refusal::SIGNATURE)));
}

#[test]
fn chains_are_verified() {
    let make = |name, authority, by: Option<&Issued>| {
        Issued::new(&Wish { common_name: name, names: &[], authority, ..VALID }, by).unwrap()
    };
    let root = make("root", true, None);
    let middle = make("middle", true, Some(&root));
    let leaf = make("leaf", false, Some(&middle));
    let below_leaf = make("below", false, Some(&leaf));
    let verify = |trusted: &[&Issued], leaf: &Issued, extra: &[&Issued], depth| {
        let mut trust = Trust::default();
        trusted.iter().for_each(|t| trust.add(t.certificate_pem().as_bytes()).unwrap());
        let extra: Vec<&[u8]> = extra.iter().map(|e| &e.certificate[..]).collect();
        trust.verify(&leaf.certificate, &extra, Purpose::Client, depth, NOW).map(|chain| chain.len())
    };
    assert_eq!(verify(&[&root], &leaf, &[&middle], 1), Ok(3));
    assert_eq!(verify(&[&root, &middle], &leaf, &[], 1), Ok(3));
    assert_eq!(verify(&[&root], &leaf, &[&middle], 0), Err(Refusal::TOO_LONG));
    assert_eq!(verify(&[&root], &leaf, &[], 1), Err(Refusal::UNVERIFIED_LEAF));
    assert_eq!(verify(&[], &leaf, &[&middle], 1), Err(Refusal::NO_LOCAL_ISSUER));
    assert_eq!(verify(&[&middle], &leaf, &[&root], 1), Err(Refusal::NO_ISSUER));
    assert_eq!(verify(&[&root], &root, &[], 0), Ok(1));
    assert_eq!(verify(&[&leaf], &root, &[], 0), Err(Refusal::SELF_SIGNED));
    let stranger = make("x", true, None);
    assert_eq!(verify(&[&stranger], &leaf, &[&middle, &root], 2), Err(Refusal::SELF_SIGNED_IN_CHAIN));
    assert_eq!(verify(&[&stranger], &leaf, &[&middle, &root], 1), Err(Refusal::TOO_LONG));
    // What is no authority cannot issue, whoever has issued it.
    assert_eq!(verify(&[&root], &below_leaf, &[&leaf, &middle], 5), Err(Refusal::PURPOSE));
}

/// RFC 8879: a certificate of many names comes compressed to who can read that, and is the same.
#[test]
fn certificates_are_compressed() {
    let names: Vec<String> = (0..100).map(|at| format!("host{at}.long.domain.example.com")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).chain(["localhost"]).collect();
    let issued = Issued::new(&Wish { names: &names, ..VALID }, None).unwrap();
    let flight = |compress_certificates| {
        let options = ServerOptions { compress_certificates, ..ServerOptions::default() };
        let server = ServerContext::new(&options, Arc::new(Fixed([certified(&issued)].into()))).unwrap();
        let client = ClientContext::new(&ClientOptions::unverified()).unwrap();
        let mut client = End::new(client.session("localhost", true).unwrap());
        let mut server = End::new(server.session(Offered::default()).unwrap());
        let flight = server.take(&client.take(b"").unwrap()).unwrap();
        client.take(&flight).unwrap();
        assert_eq!(&*client.session.peer_certificates()[0], &issued.certificate[..]);
        flight.len()
    };
    let (compressed, plain) = (flight(true), flight(false));
    assert!(compressed + 2000 < plain, "{compressed} bytes, {plain} without");
}
