//! Scripted servers.

use super::*;
use crate::greeting::NONCE_BYTES;
use crate::login::First;
use crate::wire::{put_number, put_text};

const NONCE: [u8; NONCE_BYTES] = *b"01234567890123456789";

fn greeting(plugin: &[u8], more: Capabilities) -> Vec<u8> {
    let capabilities = Capabilities::FOLLOWED | more;
    let greeting = Greeting {
        version: b"11.8.3-MariaDB".to_vec(),
        thread: 1,
        nonce: NONCE,
        capabilities,
        charset: 45,
        status: 2,
        plugin: plugin.to_vec(),
    };
    framed(0, &greeting.write())
}

fn framed(mut sequence: u8, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_message(&mut out, &mut sequence, message);
    out
}

fn sent(sequence: u8, out: &mut Vec<u8>) -> Vec<u8> {
    let bytes = std::mem::take(out);
    Messages::new(sequence, 10_000).next(&mut &bytes[..]).unwrap().unwrap()
}

fn login(message: &[u8]) -> Login {
    match First::parse(message).unwrap() {
        First::Login(login) => *login,
        First::TlsRequest(_) => panic!("a request for TLS"),
    }
}

#[test]
fn a_login_by_the_native_plugin() {
    let mut connecting = Connecting::new(Account::new(b"app", b"secret"));
    let mut out = Vec::new();
    assert_eq!(
        connecting.next(&mut &greeting(NATIVE, Capabilities::default())[..], &mut out),
        Ok(Step::More)
    );
    let login = login(&sent(1, &mut out));
    assert_eq!((&login.user[..], &login.plugin[..]), (&b"app"[..], NATIVE));
    assert!(Secret::Password(b"secret"[..].into()).is_answered_by(&login.answer, &NONCE));
    assert!(!login.fixed.capabilities.has(Capabilities::CONNECT_WITH_DB));
    let ok = OkPacket { status: 2, ..OkPacket::default() };
    match connecting.next(&mut &framed(2, &ok.write())[..], &mut out) {
        Ok(Step::Open(opened)) => assert_eq!(opened.ok, ok),
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_plugin_is_answered_if_it_is_known() {
    let mut connecting = Connecting::new(Account::new(b"app", b"secret"));
    let mut out = Vec::new();
    connecting.next(&mut &greeting(b"unix_socket", Capabilities::default())[..], &mut out).unwrap();
    out.clear();
    let switch = Switch { plugin: CACHING_SHA2.to_vec(), data: [&NONCE[..], b"\0"].concat() };
    assert_eq!(connecting.next(&mut &framed(2, &switch.write())[..], &mut out), Ok(Step::More));
    assert_eq!(sent(3, &mut out).len(), 32);
    assert_eq!(connecting.next(&mut &framed(4, &[1, 3])[..], &mut out), Ok(Step::More));
    let ok = OkPacket::default().write();
    assert!(matches!(connecting.next(&mut &framed(5, &ok)[..], &mut out), Ok(Step::Open(_))));

    let mut connecting = Connecting::new(Account::new(b"app", b"secret"));
    connecting.next(&mut &greeting(NATIVE, Capabilities::default())[..], &mut out).unwrap();
    let switch = Switch { plugin: b"mysql_clear_password".to_vec(), data: Vec::new() };
    let refused = Err(LoginError::Plugin(b"mysql_clear_password".to_vec()));
    out.clear();
    check_given_up(&mut connecting, &framed(2, &switch.write()), &mut out, b"", &refused);
}

/// The server is told what it must refuse: a handshake that is broken off counts against our address.
fn check_given_up(
    connecting: &mut Connecting,
    message: &[u8],
    out: &mut Vec<u8>,
    sent_is: &[u8],
    why: &Result<Step, LoginError>,
) {
    assert_eq!(connecting.next(&mut &message[..], out), Ok(Step::More));
    let sequence = message[3] + 1;
    assert_eq!(sent(sequence, out), sent_is);
    let denied = ErrPacket::new(1045, b"28000", "Access denied").write();
    assert_eq!(&connecting.next(&mut &framed(sequence + 1, &denied)[..], out), why);
}

#[test]
fn an_answer_that_a_server_takes_for_one_is_given_to_other_plugins() {
    let mut connecting = Connecting::new(Account::new(b"app", b"secret"));
    let mut out = Vec::new();
    connecting.next(&mut &greeting(NATIVE, Capabilities::default())[..], &mut out).unwrap();
    out.clear();
    let switch = Switch { plugin: b"client_ed25519".to_vec(), data: vec![7; 32] };
    let refused = Err(LoginError::Plugin(b"client_ed25519".to_vec()));
    check_given_up(&mut connecting, &framed(2, &switch.write()), &mut out, &[0; 64], &refused);
}

#[test]
fn a_password_is_told_to_a_server_that_is_proved_by_tls_only() {
    for (has_tls, is_proved) in [(false, false), (true, false), (true, true)] {
        let account = Account { wants_tls: has_tls, ..Account::new(b"app", b"secret") };
        let mut connecting = Connecting::new(account);
        let mut out = Vec::new();
        let step = connecting.next(&mut &greeting(CACHING_SHA2, Capabilities::TLS)[..], &mut out);
        let mut sequence = 2;
        if has_tls {
            assert_eq!(step, Ok(Step::BeginTls));
            assert!(matches!(First::parse(&sent(1, &mut out)), Ok(First::TlsRequest(_))));
            connecting.tls_begun(is_proved, &mut out).unwrap();
            sequence = 3;
        }
        out.clear();
        let asks = framed(sequence, &[1, 4]);
        if is_proved {
            assert_eq!(connecting.next(&mut &asks[..], &mut out), Ok(Step::More));
            assert_eq!(sent(4, &mut out), b"secret\0");
        } else {
            check_given_up(&mut connecting, &asks, &mut out, b"\0", &Err(LoginError::NeedsTls));
        }
    }
}

#[test]
fn tls_is_not_given_up() {
    let account = || Account { wants_tls: true, ..Account::new(b"app", b"secret") };
    let mut out = Vec::new();
    let greeted = greeting(NATIVE, Capabilities::default());
    let nobody = Login::nobody(&Greeting::parse(&greeted[4..]).unwrap()).write().unwrap();
    assert!(!nobody.windows(3).any(|window| window == b"app"), "the name is not told");
    check_given_up(&mut Connecting::new(account()), &greeted, &mut out, &nobody, &Err(LoginError::NoTls));
    // What was sent in clear behind the greeting would be taken for what came by TLS.
    let more = [greeting(NATIVE, Capabilities::TLS), framed(1, &OkPacket::default().write())].concat();
    let step = Connecting::new(account()).next(&mut &more[..], &mut out);
    assert!(matches!(step, Err(LoginError::Protocol(_))), "{step:?}");
}

#[test]
fn a_connection_is_used_for_another_login() {
    let bytes = greeting(NATIVE, Capabilities::default());
    let first = Greeting::parse(&bytes[4..]).unwrap();
    let account = Account { database: b"shop".to_vec(), ..Account::new(b"app", b"secret") };
    let mut out = Vec::new();
    let mut connecting = Connecting::change(account, first, Capabilities::OWN, &mut out).unwrap();
    let change = ChangeUser::parse(&sent(0, &mut out), Capabilities::OWN).unwrap();
    assert_eq!((&change.user[..], &change.database[..]), (&b"app"[..], &b"shop"[..]));
    assert!(Secret::Password(b"secret"[..].into()).is_answered_by(&change.answer, &NONCE));
    // Servers may give another nonce.
    let other = *b"another nonce of 20b";
    let switch = Switch { plugin: NATIVE.to_vec(), data: [&other[..], b"\0"].concat() };
    assert_eq!(connecting.next(&mut &framed(1, &switch.write())[..], &mut out), Ok(Step::More));
    assert!(Secret::Password(b"secret"[..].into()).is_answered_by(&sent(2, &mut out), &other));
    let ok = OkPacket::default().write();
    assert!(matches!(connecting.next(&mut &framed(3, &ok)[..], &mut out), Ok(Step::Open(_))));
}

#[test]
fn a_server_that_refuses_says_why() {
    let mut connecting = Connecting::new(Account::new(b"app", b"secret"));
    let refused = framed(0, b"\xff\x10\x04Too many connections");
    match connecting.next(&mut &refused[..], &mut Vec::new()) {
        Err(LoginError::Refused(error)) => assert_eq!(error.code, 1040),
        other => panic!("{other:?}"),
    }
}

fn column(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for text in [&b"def"[..], b"", b"", b"", name, b""] {
        put_text(&mut out, text);
    }
    put_number(&mut out, 12);
    out.extend_from_slice(&[45, 0, 0, 1, 0, 0, 253, 0, 0, 0, 0, 0]);
    out
}

fn answer(messages: &[&[u8]], capabilities: Capabilities) -> Result<Option<Answer>, ProtocolError> {
    let mut query = Query::new(b"SELECT 1", capabilities, &mut Vec::new());
    let (mut bytes, mut sequence) = (Vec::new(), 1);
    messages.iter().for_each(|message| put_message(&mut bytes, &mut sequence, message));
    // In pieces, however small.
    for at in 0..bytes.len() - 1 {
        assert_eq!(query.next(&mut &bytes[at..=at])?, None);
    }
    query.next(&mut &bytes[bytes.len() - 1..])
}

#[test]
fn rows_are_collected() {
    let want = Rows {
        columns: vec![b"a".to_vec(), b"B".to_vec()],
        rows: vec![vec![Some(b"1".to_vec()), None], vec![Some(b"".to_vec()), Some(b"xy".to_vec())]],
    };
    assert_eq!(want.get(1, "b"), Some(&b"xy"[..]));
    assert_eq!((want.get(0, "b"), want.get(2, "a"), want.get(0, "c")), (None, None, None));
    let (a, b) = (column(b"a"), column(b"B"));
    let rows: [&[u8]; 2] = [b"\x011\xfb", b"\0\x02xy"];
    let eof = b"\xfe\0\0\x02\0";
    let old = answer(&[b"\x02", &a, &b, eof, rows[0], rows[1], eof], Capabilities::OWN);
    assert_eq!(old, Ok(Some(Answer::Rows(want.clone()))));
    let new = answer(&[b"\x02", &a, &b, rows[0], rows[1], b"\xfe\0\0\x02\0\0\0"], Capabilities::FOLLOWED);
    assert_eq!(new, Ok(Some(Answer::Rows(want))));
}

#[test]
fn lies_are_refused() {
    let own = Capabilities::OWN;
    assert!(answer(&[b"\xfb/etc/passwd"], own).is_err());
    assert!(answer(&[b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff"], own).is_err());
    let a = column(b"a");
    for row in [&b"\x05abc"[..], b"\x01ab", b""] {
        assert!(answer(&[b"\x01", &a, b"\xfe\0\0\x02\0", row], own).is_err(), "{row:?}");
    }
    match answer(&[b"\xff\x15\x04#28000no"], own) {
        Ok(Some(Answer::Err(error))) => assert_eq!((error.code, &error.state), (1045, b"28000")),
        other => panic!("{other:?}"),
    }
}
