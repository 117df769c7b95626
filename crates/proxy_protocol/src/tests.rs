//! Tests of PROXY headers.

use super::*;
use proptest::prelude::*;

/// `SOURCE|DESTINATION|rest`, `own|rest`, `partial`, or the error.
fn show(buf: &[u8]) -> String {
    match parse(buf) {
        Ok(Progress::Partial) => "partial".into(),
        Ok(Progress::Complete { len, header: None }) => format!("own|{}", buf.len() - len),
        Ok(Progress::Complete { len, header: Some(h) }) => {
            format!("{}|{}|{}", h.source, h.destination, buf.len() - len)
        }
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn check(buf: impl AsRef<[u8]>, want: &str) {
    assert_eq!(show(buf.as_ref()), want, "{:?}", String::from_utf8_lossy(buf.as_ref()));
}

#[test]
fn version_1() {
    let both = "192.0.2.1:123|192.0.2.2:5678";
    check("PROXY TCP4 192.0.2.1 192.0.2.2 123 5678\r\n", &format!("{both}|0"));
    check("PROXY TCP4 192.0.2.1 192.0.2.2 123 5678\r\nGET /", &format!("{both}|5"));
    check("PROXY TCP6 2001:Db8::1 2001:Db8::2 0 065535\r\n", "[2001:db8::1]:0|[2001:db8::2]:65535|0");
    check("PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n", "[::ffff:192.0.2.1]:1|[::1]:2|0");
    check("PROXY TCP4 ::1 192.0.2.2 1 2\r\n", "[::1]:1|192.0.2.2:2|0");
    check("PROXY UNKNOWN\r\n", "own|0");
    check("PROXY UNKNOWN 1 2 3 4 5 6\r\nabc", "own|3");
    // §2.1: the longest there is.
    let long = format!("PROXY UNKNOWN {}\r\n", "f".repeat(PROXY_V1_BYTES_MAX - 16));
    check(&long, "own|0");
}

#[test]
fn version_1_in_parts() {
    let text = "PROXY TCP4 192.0.2.1 192.0.2.2 123 5678\r\n";
    for len in 0..text.len() {
        check(&text[..len], "partial");
    }
}

#[test]
fn version_1_broken() {
    let broken =
        |line: &str| check(format!("{line}\r\nGET / HTTP/1.0\r\n"), &format!("broken header: \"{line}\""));
    broken("GET / HTTP/1.0");
    broken("PROXY");
    broken("PROXY ");
    broken("PROXY TCP4");
    broken("PROXY TCP5 192.0.2.1 192.0.2.2 123 5678");
    broken("PROXY TCP4  192.0.2.1 192.0.2.2 123 5678");
    broken("PROXY TCP4 192.0.2.1 192.0.2.2 123");
    broken("PROXY TCP4 192.0.2.1 192.0.2.2 123 5678 9");
    broken("PROXY TCP4 192.0.2.1 192.0.2.2 123 5678 ");
    broken("PROXY TCP4 192.0.2.1 192.0.2.2 +123 5678");
    broken("PROXY TCP4 192.0.2.1 192.0.2.2 -1 5678");
    broken("PROXY TCP4 192.0.2.1 192.0.2.2 65536 5678");
    broken("PROXY TCP4 192.0.2.1 192.0.2.2  5678");
    broken("PROXY TCP4 192.0.2.256 192.0.2.2 1 2");
    broken("PROXY TCP4 abc 192.0.2.2 1 2");
    broken("PROXY UNKNOWNS");
    broken("proxy UNKNOWN");
    check("\r\nGET / HTTP/1.0\r\n", "broken header: \"\"");
    // A line end is CRLF.
    check(
        "PROXY TCP4 192.0.2.1 192.0.2.2 123 5678\n",
        "broken header: \"PROXY TCP4 192.0.2.1 192.0.2.2 123 5678\"",
    );
    check("PROXY UNKNOWN\rx", "broken header: \"PROXY UNKNOWN\"");
    // No line end where it must be.
    let long = format!("PROXY UNKNOWN {}", "f".repeat(PROXY_V1_BYTES_MAX - 15));
    check(&long[..PROXY_V1_BYTES_MAX - 1], "partial");
    check(format!("{long}\r\n"), &format!("broken header: \"{long}\""));
    // Told at the first byte: nobody is kept waiting.
    check("G", "broken header: \"G\"");
    check([0x16, 3, 1], "broken header: \"\\x16\\x03\\x01\"");
}

fn v2_bytes(version_command: u8, family_transport: u8, body: &[u8]) -> Vec<u8> {
    let len = (body.len() as u16).to_be_bytes();
    [V2_SIGNATURE, &[version_command, family_transport], &len, body].concat()
}

const V4: &[u8] = &[192, 0, 2, 1, 192, 0, 2, 2, 0, 123, 0x16, 0x2e];

fn v6() -> Vec<u8> {
    let (a, b) = ("2001:db8::1".parse::<Ipv6Addr>().unwrap(), "2001:db8::2".parse::<Ipv6Addr>().unwrap());
    [&a.octets()[..], &b.octets(), &[0, 123, 0x16, 0x2e]].concat()
}

#[test]
fn version_2() {
    check(v2_bytes(0x21, 0x11, V4), "192.0.2.1:123|192.0.2.2:5678|0");
    check(v2_bytes(0x21, 0x21, &v6()), "[2001:db8::1]:123|[2001:db8::2]:5678|0");
    check([&v2_bytes(0x21, 0x11, V4)[..], b"GET /"].concat(), "192.0.2.1:123|192.0.2.2:5678|5");
    // LOCAL, and what is not spoken here: skipped by its length.
    check(v2_bytes(0x20, 0x00, b""), "own|0");
    check(v2_bytes(0x20, 0x11, V4), "own|0");
    check(v2_bytes(0x2f, 0x11, V4), "own|0");
    check(v2_bytes(0x21, 0x00, b""), "own|0");
    check(v2_bytes(0x21, 0x12, V4), "own|0");
    check(v2_bytes(0x21, 0x31, &[0; 216]), "own|0");
    check(v2_bytes(0x21, 0x41, &[1, 2, 3, 4]), "own|0");
}

#[test]
fn version_2_broken() {
    check(v2_bytes(0x11, 0x11, V4), "unknown PROXY protocol version: 1");
    check(&v2_bytes(0x31, 0x11, V4)[..13], "unknown PROXY protocol version: 3");
    check(v2_bytes(0x21, 0x11, &V4[..11]), "header is too short for its addresses");
    check(v2_bytes(0x21, 0x21, V4), "header is too short for its addresses");
    check(v2_bytes(0x21, 0x11, b""), "header is too short for its addresses");
    let most = PROXY_V2_BYTES_MAX - V2_FIXED_BYTES;
    check(v2_bytes(0x20, 0x11, &vec![0; most]), "own|0");
    check(&v2_bytes(0x20, 0x11, &vec![0; most + 1])[..V2_FIXED_BYTES], "header is too large");
    check(b"\r\n\r\n\0\r\nQUIT\r", "broken header: \"\"");
}

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    [&[kind][..], &(value.len() as u16).to_be_bytes(), value].concat()
}

fn with_tlvs(tlvs: &[u8]) -> ProxyHeader {
    match parse(&v2_bytes(0x21, 0x11, &[V4, tlvs].concat())) {
        Ok(Progress::Complete { header: Some(header), .. }) => header,
        other => panic!("{other:?}"),
    }
}

#[test]
fn fields() {
    let inner = [
        tlv(0x21, b"TLSv1.2"),
        tlv(0x22, b"example.com"),
        tlv(0x23, b"AES"),
        tlv(0x24, b"SHA1"),
        tlv(0x25, b"RSA512"),
    ];
    let ssl = [&[1, 0, 0, 0, 255][..], &inner.concat()].concat();
    let all = [
        tlv(0x01, b"h2"),
        tlv(0x02, b"localhost"),
        tlv(0x03, b"4321"),
        tlv(0x05, b"id"),
        tlv(0x20, &ssl),
        tlv(0x30, b"net"),
        tlv(0xae, b"12345"),
        tlv(0xae, b"second"),
        tlv(0x04, b""),
    ];
    let header = with_tlvs(&all.concat());
    let get =
        |name: &str| header.tlv(name).map(|value| value.map(|v| String::from_utf8_lossy(&v).into_owned()));
    for (name, want) in [
        ("alpn", "h2"),
        ("0x01", "h2"),
        ("0x1", "h2"),
        ("authority", "localhost"),
        ("unique_id", "id"),
        ("netns", "net"),
        ("0x3", "4321"),
        ("0x000ae", "12345"),
        ("0xAE", "12345"),
        ("0x04", ""),
        ("ssl_verify", "255"),
        ("ssl_version", "TLSv1.2"),
        ("ssl_0x21", "TLSv1.2"),
        ("ssl_cn", "example.com"),
        ("ssl_cipher", "AES"),
        ("ssl_sig_alg", "SHA1"),
        ("ssl_key_alg", "RSA512"),
    ] {
        assert_eq!(get(name), Ok(Some(want.to_string())), "{name}");
    }
    assert_eq!(header.tlv("ssl").unwrap().as_deref(), Some(&ssl[..]));
    for name in ["0x0f", "0x1ae", "ssl_0x0f"] {
        assert_eq!(get(name), Ok(None), "{name}");
    }
    for name in ["0x", "0xg", "0x+1", "ssl_0x", "0xfffffffffffffffff"] {
        assert_eq!(get(name), Err(TlvError::InvalidNumber(name.into())));
    }
    for name in ["", "cn", "ssl_alpn", "ssl_"] {
        assert_eq!(get(name), Err(TlvError::UnknownName(name.into())));
    }
    assert_eq!(with_tlvs(b"").tlv("ssl_cn"), Ok(None));
}

#[test]
fn broken_fields() {
    let broken =
        |tlvs: &[u8], name: &str| assert_eq!(with_tlvs(tlvs).tlv(name), Err(TlvError::Broken), "{tlvs:?}");
    broken(&[1], "alpn");
    broken(&[1, 0], "alpn");
    broken(&[1, 0, 1], "alpn");
    broken(&[2, 0, 0, 9], "alpn");
    broken(&tlv(0x20, &[0; 4]), "ssl_verify");
    broken(&tlv(0x20, &[0, 0, 0, 0, 0, 0x22, 0, 9]), "ssl_cn");
    // What stands before the fault is good, as in nginx.
    assert_eq!(
        with_tlvs(&[&tlv(1, b"a")[..], &[9]].concat()).tlv("alpn").unwrap().as_deref(),
        Some(&b"a"[..])
    );
}

fn address() -> impl Strategy<Value = SocketAddr> {
    prop_oneof![
        any::<([u8; 4], u16)>().prop_map(|(ip, port)| (Ipv4Addr::from(ip), port).into()),
        any::<([u8; 16], u16)>().prop_map(|(ip, port)| (Ipv6Addr::from(ip), port).into()),
    ]
}

/// Every proper part of `bytes` is partial, the whole is a header of these addresses, and what follows is left alone.
fn check_whole(bytes: &[u8], source: SocketAddr, destination: SocketAddr) {
    for len in 0..bytes.len() {
        assert_eq!(parse(&bytes[..len]), Ok(Progress::Partial));
    }
    let more = [bytes, b"\r\nPROXY "].concat();
    match parse(&more) {
        Ok(Progress::Complete { len, header: Some(header) }) => {
            assert_eq!((len, header.source, header.destination), (bytes.len(), source, destination));
        }
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn version_1_says_what_was_written(source in address(), destination in address()) {
        let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
        let (from, to) = (source.ip(), destination.ip());
        let text = format!("PROXY {family} {from} {to} {} {}\r\n", source.port(), destination.port());
        if source.is_ipv4() == destination.is_ipv4() {
            prop_assert_eq!(write(Some((source, destination))), text.clone());
        }
        prop_assert!(text.len() <= PROXY_V1_BYTES_MAX);
        check_whole(text.as_bytes(), source, destination);
    }

    #[test]
    fn version_2_says_what_was_written(
        ips in any::<([u8; 16], [u8; 16])>(), ports in any::<(u16, u16)>(), is_v6: bool,
        fields in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u8>(), 0..40)), 0..5),
    ) {
        let (len, family) = if is_v6 { (16, 0x21) } else { (4, 0x11) };
        let mut body = [&ips.0[..len], &ips.1[..len], &ports.0.to_be_bytes(), &ports.1.to_be_bytes()].concat();
        body.extend(fields.iter().flat_map(|(kind, value)| tlv(*kind, value)));
        let ip = |octets: [u8; 16]| -> IpAddr {
            if is_v6 { octets.into() } else { <[u8; 4]>::try_from(&octets[..4]).unwrap().into() }
        };
        let bytes = v2_bytes(0x21, family, &body);
        check_whole(&bytes, (ip(ips.0), ports.0).into(), (ip(ips.1), ports.1).into());
        let Ok(Progress::Complete { header: Some(header), .. }) = parse(&bytes) else { unreachable!() };
        for (kind, _) in &fields {
            let first = fields.iter().find(|(have, _)| have == kind).map(|(_, value)| &value[..]);
            let got = header.tlv(&format!("0x{kind:x}")).unwrap();
            prop_assert_eq!(got.as_deref(), first);
        }
    }

    #[test]
    fn any_bytes_keep_the_invariants(bytes in prop::collection::vec(any::<u8>(), 0..200), v2: bool) {
        crate::fuzz::fuzz_proxy_protocol(&bytes);
        let start = if v2 { V2_SIGNATURE } else { V1_START };
        crate::fuzz::fuzz_proxy_protocol(&[start, &bytes].concat());
    }
}
