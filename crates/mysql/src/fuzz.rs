//! Invariants as plain functions over arbitrary bytes: they panic if one is broken.

use crate::capability::Capabilities;
use crate::classify::{Backslashes, Class, classify};
use crate::client::{Account, Connecting, Query};
use crate::command::{Execution, Kind, statement_id};
use crate::compressed::{Packets, Zlib};
use crate::error::ProtocolError;
use crate::follow::{Follower, Next, Outcome};
use crate::greeting::Greeting;
use crate::login::{ChangeUser, First, Switch};
use crate::packet::put_message;
use crate::reply::{ErrPacket, OkPacket};
use crate::session::{Role, Session};
use crate::statements::{Places, model};

/// Messages of both sides: what is read is written as it was, and clients of our own come to an end whatever a server sends.
pub fn fuzz_mysql_messages(data: &[u8]) {
    if let Ok(greeting) = Greeting::parse(data) {
        assert_eq!(Greeting::parse(&greeting.write()).as_ref(), Ok(&greeting));
    }
    if let Ok(First::Login(login)) = First::parse(data)
        && let Some(bytes) = login.write()
    {
        assert_eq!(First::parse(&bytes), Ok(First::Login(login)));
    }
    if let Ok(switch) = Switch::parse(data) {
        assert_eq!(Switch::parse(&switch.write()), Ok(switch));
    }
    if let Ok(change) = ChangeUser::parse(data, Capabilities::FOLLOWED)
        && let Some(bytes) = change.write(Capabilities::FOLLOWED)
    {
        assert_eq!(ChangeUser::parse(&bytes, Capabilities::FOLLOWED), Ok(change));
    }
    if let Ok(error) = ErrPacket::parse(data) {
        assert_eq!(ErrPacket::parse(&error.write()), Ok(error));
    }
    for capabilities in [Capabilities::OWN, Capabilities::FOLLOWED] {
        let _ = OkPacket::parse(data, capabilities);
        let _ = Query::new(b"SELECT 1", capabilities, &mut Vec::new()).next(&mut &data[..]);
    }
    let _ = (statement_id(data), [0, 9].map(|parameters| Execution::parse(data, parameters)));
    let (mut out, mut rest) = (Vec::new(), data);
    let mut connecting = Connecting::new(Account::new(b"user", b"pa55word"));
    while !rest.is_empty() && connecting.next(&mut rest, &mut out).is_ok() {}
    assert!(!out.windows(8).any(|window| window == b"pa55word"), "told in clear");
}

/// An answer: pieces do not matter, and what follows it is left alone.
pub fn fuzz_mysql_answer(data: &[u8]) {
    let [kind, data @ ..] = data else { return };
    for capabilities in [Capabilities::OWN, Capabilities::FOLLOWED] {
        let kind = Kind::of(*kind);
        let mut whole = Follower::new(kind, capabilities, 1);
        let mut rest = data;
        let at_once = whole.next(&mut rest);
        let taken = data.len() - rest.len();
        let mut pieces = Follower::new(kind, capabilities, 1);
        let mut last = pieces.next(&mut &data[..0]);
        for at in 0..taken {
            if last != Ok(Next::More) {
                break;
            }
            last = pieces.next(&mut &data[at..=at]);
        }
        assert_eq!(last, at_once);
        if at_once == Ok(Next::Done) {
            assert_eq!(whole.outcome(), pieces.outcome());
        }
    }
}

/// A statement: judged without a panic, and the more of them, the more careful.
pub fn fuzz_mysql_statement(data: &[u8]) {
    let verdict = classify(data, Backslashes::Unknown);
    let more = classify(&[b"DELETE FROM t; ", data].concat(), Backslashes::Unknown);
    assert!(more.class >= Class::Write && more.class >= verdict.class.min(Class::Write));
    for backslashes in [Backslashes::Escape, Backslashes::Plain] {
        assert!(classify(data, backslashes).class <= verdict.class);
    }
    let mut session = Session::new(2, 45, b"");
    session.route(&[&[3], data].concat(), true);
    session.answered(Role::Primary, &Outcome::default(), &mut Places::default());
    if verdict.class >= Class::Write {
        assert!(session.pin().is_some() || *session.written() == crate::written::Written::Unknown);
    }
}

/// A session with prepared statements, as a list of what its client does and what becomes of servers: each server executes what the client
/// has prepared, by a number of its own, with the parameters' types that the client has told.
pub fn fuzz_mysql_prepared(data: &[u8]) {
    model::run(data);
}

/// The compressed protocol: pieces do not matter, nothing is given for which there is no room, and what is packed is read.
pub fn fuzz_mysql_compressed(data: &[u8]) {
    let whole = unpack(data, data.len().max(1), 1 << 16);
    let pieces = unpack(data, 1, 16);
    assert_eq!(whole.is_ok(), pieces.is_ok());
    if whole.is_ok() {
        assert_eq!(whole, pieces);
    }
    let (mut frames, mut packed, mut number) = (Vec::new(), Vec::new(), 0);
    data.split(|byte| *byte == 0).for_each(|message| put_message(&mut frames, &mut number, message));
    let (mut packets, mut zlib) = (Packets::default(), Zlib::default());
    frames.chunks(7).for_each(|piece| packets.pack(&mut zlib, piece, &mut packed));
    assert_eq!(unpack(&packed, 3, 1 << 16), Ok(frames));
}

fn unpack(data: &[u8], size: usize, room: usize) -> Result<Vec<u8>, ProtocolError> {
    let (mut packets, mut zlib, mut got) = (Packets::default(), Zlib::default(), Vec::new());
    for mut piece in data.chunks(size) {
        loop {
            let before = got.len();
            let is_given = packets.unpack(&mut zlib, &mut piece, &mut got, room)?;
            assert!(got.len() - before <= room);
            if !is_given {
                break;
            }
        }
        assert!(piece.is_empty());
    }
    Ok(got)
}
