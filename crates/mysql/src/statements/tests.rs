//! Prepared statements of a session as a model of two servers, and what is easily got wrong one by one.

use super::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn numbers_of_one_server_are_never_sent_to_another(steps in prop::collection::vec(any::<u8>(), 0..400)) {
        model::run(&steps);
    }
}

const TYPES: [u8; 4] = [3, 0, 15, 0];

fn prepared(text: Option<&[u8]>, parameters: u16) -> Prepared {
    Prepared { verdict: Verdict::of(Class::Read), text: text.map(<[u8]>::to_vec), parameters, position: 0 }
}

fn execution(id: u32, types: Option<&[u8]>) -> Vec<u8> {
    let mut message = command::naming(command::EXECUTE, id);
    message.extend(b"\0\x01\0\0\0\0");
    message.push(u8::from(types.is_some()));
    message.extend(types.unwrap_or_default());
    message.extend(b"values");
    message
}

#[test]
fn types_are_told_to_each_server_once() {
    let (mut one, mut other) = (Places::default(), Places::default());
    let mut statements = Statements::default();
    let id = statements.next().unwrap();
    statements.put(id, prepared(Some(b"SELECT ?, ?"), 2));
    one.put(id, 70);
    other.put(id, 80);
    assert!(!statements.has_types(id));
    let first = execution(id, Some(&TYPES));
    assert_eq!(statements.rewritten(id, &first, &one).unwrap(), execution(70, Some(&TYPES)));
    statements.executed(id, Some(&TYPES), false, &mut one);
    let later = execution(id, None);
    assert_eq!(statements.rewritten(id, &later, &one).unwrap(), execution(70, None));
    assert_eq!(statements.rewritten(id, &later, &other).unwrap(), execution(80, Some(&TYPES)));
    // After an error it is told again.
    statements.executed(id, None, true, &mut other);
    assert_eq!(statements.rewritten(id, &later, &other).unwrap(), execution(80, Some(&TYPES)));
    statements.executed(id, None, false, &mut other);
    assert_eq!(statements.rewritten(id, &later, &other).unwrap(), execution(80, None));
    assert_eq!(statements.rewritten(id, &later, &Places::default()), None);
}

#[test]
fn texts_are_kept_up_to_limits() {
    let mut statements = Statements::default();
    let text = vec![b'x'; STATEMENTS_BYTES_MAX / 2];
    for _ in 0..2 {
        assert!(statements.has_room(&text));
        let id = statements.next().unwrap();
        statements.put(id, prepared(Some(&text), 0));
    }
    assert!(!statements.has_room(b"SELECT 1"));
    statements.remove(1);
    // A parameter has a type.
    assert!(statements.has_room(&text) && !statements.has_room(&[&text[1..], b"?"].concat()));
    statements.clear();
    for _ in 0..STATEMENTS_KEPT_MAX {
        let id = statements.next().unwrap();
        statements.put(id, prepared(Some(b"SELECT 1"), 0));
    }
    assert!(!statements.has_room(b"") && statements.may_move(0));
    let id = statements.next().unwrap();
    statements.put(id, prepared(None, 0));
    assert!(!statements.may_move(0));
    while let Some(id) = statements.next() {
        statements.put(id, prepared(None, 0));
    }
    assert_eq!(statements.known.len(), STATEMENTS_MAX);
}

#[test]
fn numbers_that_mean_something_else_are_not_given() {
    let mut statements = Statements { next: command::LAST_STATEMENT - 1, ..Statements::default() };
    statements.put(1, prepared(None, 0));
    statements.next = command::LAST_STATEMENT - 1;
    for wanted in [command::LAST_STATEMENT - 1, 2, 3] {
        let id = statements.next().unwrap();
        assert_eq!(id, wanted);
        statements.put(id, prepared(None, 0));
    }
    let last = command::naming(command::EXECUTE, command::LAST_STATEMENT);
    assert_eq!(statements.named(&last), Some(3));
    statements.refused();
    assert_eq!(statements.named(&last), None);
    assert_eq!(statements.named(&command::naming(command::EXECUTE, 9)), None);
}
