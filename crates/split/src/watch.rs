//! What a client of a session that is passed on as it is says: whether it changes to an account that the primary must not judge, since that
//! would judge our address. Nothing else is looked at, and nothing is changed.

use crate::packed::Unpacked;
use brisk_mysql::Capabilities;
use brisk_mysql::command::CHANGE_USER;
use brisk_mysql::limits::{FRAME_BYTES_MAX, LOGIN_BYTES_MAX};
use brisk_mysql::login::ChangeUser;
use brisk_mysql::packet::HEADER_BYTES;
use brisk_stream::handler::Seen;

/// Inflating so many bytes takes long.
const LONG_BYTES: usize = 256 << 10;

/// See the module's head.
pub struct Watch {
    frames: Frames,
    /// Both sides compress.
    unpacked: Option<Unpacked>,
}

/// What is known of the bytes so far.
struct Frames {
    capabilities: Capabilities,
    header: Vec<u8>,
    /// Bytes of the present frame that are still to come.
    left: usize,
    /// The present frame goes on with the message of the one before.
    goes_on: bool,
    /// Servers see to the numbers of frames.
    are_numbered: bool,
    /// The message, if it is a change of the account, or its first byte has not come yet.
    kept: Option<Vec<u8>>,
}

impl Watch {
    /// From the end of a login with these capabilities on.
    pub fn new(capabilities: Capabilities) -> Watch {
        let are_packed = capabilities.has(Capabilities::COMPRESS);
        let frames = Frames {
            capabilities,
            header: Vec::new(),
            left: 0,
            goes_on: false,
            // Not where packets around them are numbered: then a frame of any number may be a command.
            are_numbered: !are_packed,
            kept: None,
        };
        Watch { frames, unpacked: are_packed.then(Unpacked::default) }
    }

    /// Looks at what is about to be passed on. `may_become`: whether the client may change to this account; the charset is the collation's
    /// number, if it is told.
    pub fn look(&mut self, bytes: &[u8], mut may_become: impl FnMut(&[u8], Option<u16>) -> bool) -> Seen {
        let frames = &mut self.frames;
        let Some(unpacked) = &mut self.unpacked else {
            return if frames.pass(bytes, &mut may_become) { Seen::Fine } else { Seen::Forbidden };
        };
        match unpacked.look(bytes, |piece| frames.pass(piece, &mut may_become)) {
            Ok(count) if count < LONG_BYTES => Seen::Fine,
            Ok(_) => Seen::Long,
            // What cannot be read here is not passed on.
            Err(_) => Seen::Forbidden,
        }
    }
}

impl Frames {
    /// Whether all of it may be passed on.
    fn pass(&mut self, mut bytes: &[u8], may_become: &mut impl FnMut(&[u8], Option<u16>) -> bool) -> bool {
        while !bytes.is_empty() {
            if self.left == 0 {
                let count = bytes.len().min(HEADER_BYTES - self.header.len());
                let (begun, rest) = bytes.split_at(count);
                self.header.extend_from_slice(begun);
                bytes = rest;
                let Ok([a, b, c, number]) = <[u8; HEADER_BYTES]>::try_from(&self.header[..]) else {
                    return true;
                };
                self.left = u32::from_le_bytes([a, b, c, 0]) as usize;
                if !self.goes_on {
                    let may_be_command = number == 0 || !self.are_numbered;
                    self.kept = may_be_command.then(Vec::new);
                }
                self.goes_on = self.left == FRAME_BYTES_MAX;
            }
            let (body, rest) = bytes.split_at(bytes.len().min(self.left));
            bytes = rest;
            self.left -= body.len();
            if !self.keep(body) || self.left == 0 && !self.ended(may_become) {
                return false;
            }
        }
        true
    }

    /// Keeps a part of the message, if it is one that is judged. False: it is too long for one.
    fn keep(&mut self, body: &[u8]) -> bool {
        let Some(kept) = &mut self.kept else { return true };
        let first = kept.first().or(body.first());
        if first.is_some_and(|first| *first != CHANGE_USER) {
            self.kept = None;
            return true;
        }
        kept.extend_from_slice(body);
        kept.len() <= LOGIN_BYTES_MAX
    }

    /// A frame has ended. Whether it may be passed on.
    fn ended(&mut self, may_become: &mut impl FnMut(&[u8], Option<u16>) -> bool) -> bool {
        self.header.clear();
        if self.goes_on {
            return true;
        }
        let Some(message) = self.kept.take().filter(|message| !message.is_empty()) else { return true };
        let change = ChangeUser::parse(&message, self.capabilities);
        change.is_ok_and(|change| may_become(&change.user, change.charset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_mysql::packet::put_message;

    fn framed(number: u8, message: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_message(&mut out, &mut { number }, message);
        out
    }

    fn to(name: &str) -> Vec<u8> {
        [b"\x11", name.as_bytes(), b"\0\0test\0\x21\0mysql_native_password\0"].concat()
    }

    /// What is said of bytes that come in pieces, where only `app` is an account that may be had.
    fn seen(watch: &mut Watch, bytes: &[u8], piece: usize) -> Seen {
        let mut look =
            |piece: &[u8]| watch.look(piece, |name, charset| name == b"app" && charset == Some(33));
        bytes.chunks(piece).map(&mut look).find(|seen| *seen != Seen::Fine).unwrap_or(Seen::Fine)
    }

    #[test]
    fn only_changes_of_the_account_are_judged() {
        let long = [&b"\x03"[..], &vec![b'x'; FRAME_BYTES_MAX]].concat();
        for (messages, wanted) in [
            (vec![framed(0, b"\x03SELECT 1"), framed(0, &to("app")), framed(0, b"")], Seen::Fine),
            (vec![framed(0, b"\x03SELECT 1"), framed(0, &to("root"))], Seen::Forbidden),
            (vec![framed(0, &to("app")), framed(2, b"\x11 and what else proves a password")], Seen::Fine),
            (vec![framed(0, b""), framed(0, &to("'app'"))], Seen::Forbidden),
            (vec![framed(0, b"\x11app")], Seen::Forbidden),
            (vec![framed(0, &[b'\x11'; LOGIN_BYTES_MAX + 1])], Seen::Forbidden),
            (vec![framed(0, b"\x03\x11\x11"), framed(0, b"\x01")], Seen::Fine),
        ] {
            let bytes = messages.concat();
            for piece in [1, 3, 5, 1 << 20] {
                let mut watch = Watch::new(Capabilities::FOLLOWED);
                assert_eq!(seen(&mut watch, &bytes, piece), wanted, "{piece} of {} bytes", bytes.len());
            }
        }
        let mut watch = Watch::new(Capabilities::FOLLOWED);
        assert_eq!(seen(&mut watch, &framed(0, &long), 1 << 14), Seen::Fine);
        assert_eq!(seen(&mut watch, &framed(0, &to("root")), 1 << 14), Seen::Forbidden);
    }

    #[test]
    fn what_is_compressed_is_judged() {
        let packed = |number: u8, bytes: &[u8]| {
            let length = (bytes.len() as u32).to_le_bytes();
            [&length[..3], &[number, 0, 0, 0], bytes].concat()
        };
        let change = framed(7, &to("root"));
        let bytes = [
            packed(0, &framed(0, b"\x03SELECT 1")),
            packed(0, &framed(0, &to("app"))),
            packed(4, &change[..9]),
            packed(5, &change[9..]),
        ];
        let before = bytes[..2].concat().len();
        for piece in [1, 3, 1 << 20] {
            let mut watch = Watch::new(Capabilities::FOLLOWED | Capabilities::COMPRESS);
            assert_eq!(seen(&mut watch, &bytes.concat()[..before], piece), Seen::Fine);
            assert_eq!(seen(&mut watch, &bytes.concat()[before..], piece), Seen::Forbidden);
        }
    }
}
