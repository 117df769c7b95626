//! For `crates/fuzz`: a server that sends anything.

use crate::client::{Client, Event, Login};

/// Given at once or in pieces, the same comes of it, and nothing panics.
pub fn fuzz_client(bytes: &[u8]) {
    let at_once = course(bytes, bytes.len().max(1));
    for piece in [1, 7] {
        assert!(course(bytes, piece) == at_once, "the same bytes in other pieces");
    }
}

/// What is sent, and how it ends.
fn course(bytes: &[u8], piece: usize) -> (Vec<u8>, Option<String>) {
    let login = Login { user: "u".into(), password: "p".into(), database: "d".into(), is_proved: true };
    let mut out = Vec::new();
    let mut client = Client::new(login, [1; 18], &mut out);
    let mut pieces = bytes.chunks(piece);
    let mut next: &[u8] = &[];
    loop {
        match client.handle(next, &mut out) {
            Ok(Some(Event::LoggedIn | Event::Rows(_))) => {
                client.ask("SELECT 1", &mut out);
                next = &[];
            }
            Ok(None) => match pieces.next() {
                Some(more) => next = more,
                None => return (out, None),
            },
            Err(_) if client.is_usable() => {
                client.ask("SELECT 1", &mut out);
                next = &[];
            }
            Err(error) => return (out, Some(error.to_string())),
        }
    }
}
