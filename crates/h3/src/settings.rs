//! SETTINGS (RFC 9114 §7.2.4).

use crate::error::{ConnectionError, ErrorCode};
use crate::frame::{self, kind};
use crate::limits::SETTINGS_MAX;
use crate::varint;

/// Numbers of settings (RFC 9114 §11.2.2, RFC 9204 §8.1, RFC 9220 §3).
mod id {
    pub const QPACK_MAX_TABLE_CAPACITY: u64 = 0x1;
    pub const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
    pub const QPACK_BLOCKED_STREAMS: u64 = 0x7;
    pub const ENABLE_CONNECT_PROTOCOL: u64 = 0x8;
    /// RFC 9297 §2.1.1.
    pub const DATAGRAM: u64 = 0x33;
}

/// What one side has announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a head that it takes, counted as RFC 9114 §4.2.2 says. `None`: any number.
    pub max_field_section_size: Option<u64>,
    /// Bytes of the dynamic table that its decoder keeps (RFC 9204 §3.2.3).
    pub qpack_max_table_capacity: u64,
    /// Streams that may wait for entries of that table (RFC 9204 §2.1.2).
    pub qpack_blocked_streams: u64,
    /// It takes extended CONNECT (RFC 9220).
    pub enable_connect_protocol: bool,
    /// It takes datagrams (RFC 9297).
    pub datagram: bool,
}

impl Settings {
    /// Appends the frame. Defaults are left out. `reserved`: a reserved setting of this number, too (RFC 9114 §7.2.4.1).
    pub fn write(&self, reserved: Option<u64>, out: &mut Vec<u8>) {
        let mut payload = Vec::with_capacity(32);
        let mut add = |id: u64, value: u64| {
            varint::encode(id, &mut payload);
            varint::encode(value, &mut payload);
        };
        let numbers = [
            (id::QPACK_MAX_TABLE_CAPACITY, self.qpack_max_table_capacity),
            (id::QPACK_BLOCKED_STREAMS, self.qpack_blocked_streams),
            (id::ENABLE_CONNECT_PROTOCOL, u64::from(self.enable_connect_protocol)),
            (id::DATAGRAM, u64::from(self.datagram)),
        ];
        if let Some(size) = self.max_field_section_size {
            add(id::MAX_FIELD_SECTION_SIZE, size);
        }
        numbers.into_iter().filter(|&(_, value)| value > 0).for_each(|(id, value)| add(id, value));
        if let Some(number) = reserved {
            add(frame::reserved(number), number & 0xff);
        }
        frame::write(kind::SETTINGS, &payload, out);
    }

    /// What a frame's payload says.
    pub fn parse(mut payload: &[u8]) -> Result<Settings, ConnectionError> {
        let mut settings = Settings::default();
        let mut seen: Vec<u64> = Vec::new();
        while !payload.is_empty() {
            let pair = varint::decode(payload).and_then(|(id, first)| {
                let (value, second) = varint::decode(&payload[first..])?;
                Some((id, value, first + second))
            });
            let Some((id, value, used)) = pair else {
                return Err(ConnectionError::frame("SETTINGS frame with incorrect length"));
            };
            payload = &payload[used..];
            // RFC 9114 §7.2.4: the same one must not occur twice.
            if seen.contains(&id) {
                return Err(wrong(format!("SETTINGS frame with setting {id:#x} twice")));
            }
            if seen.len() == SETTINGS_MAX {
                return Err(ConnectionError::load("SETTINGS frame with too many settings"));
            }
            seen.push(id);
            settings.set(id, value)?;
        }
        Ok(settings)
    }

    fn set(&mut self, id: u64, value: u64) -> Result<(), ConnectionError> {
        let flag = |name: &str| match value {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(wrong(format!("SETTINGS frame with invalid {name} {value}"))),
        };
        match id {
            id::QPACK_MAX_TABLE_CAPACITY => self.qpack_max_table_capacity = value,
            id::MAX_FIELD_SECTION_SIZE => self.max_field_section_size = Some(value),
            id::QPACK_BLOCKED_STREAMS => self.qpack_blocked_streams = value,
            id::ENABLE_CONNECT_PROTOCOL => self.enable_connect_protocol = flag("ENABLE_CONNECT_PROTOCOL")?,
            id::DATAGRAM => self.datagram = flag("H3_DATAGRAM")?,
            // RFC 9114 §7.2.4.1: those of HTTP/2 that have no meaning here. 0 is reserved there, too.
            0x0 | 0x2..=0x5 => return Err(wrong(format!("SETTINGS frame with setting {id:#x} of HTTP/2"))),
            _ => {}
        }
        Ok(())
    }
}

fn wrong(text: String) -> ConnectionError {
    ConnectionError::new(ErrorCode::SETTINGS_ERROR, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(pairs: &[(u64, u64)]) -> Vec<u8> {
        let mut out = Vec::new();
        for &(id, value) in pairs {
            varint::encode(id, &mut out);
            varint::encode(value, &mut out);
        }
        out
    }

    fn code(pairs: &[(u64, u64)]) -> Result<Settings, ErrorCode> {
        Settings::parse(&payload(pairs)).map_err(|error| error.code)
    }

    #[test]
    fn what_is_written_is_read() {
        let settings = Settings {
            max_field_section_size: Some(32_768),
            qpack_max_table_capacity: 4096,
            qpack_blocked_streams: 16,
            enable_connect_protocol: true,
            datagram: false,
        };
        let mut out = Vec::new();
        settings.write(Some(77), &mut out);
        let (head, used) = frame::FrameHead::parse(&out).unwrap();
        assert_eq!((head.kind, head.len as usize), (kind::SETTINGS, out.len() - used));
        assert_eq!(Settings::parse(&out[used..]), Ok(settings));
    }

    /// RFC 9114 §7.2.4, §7.2.4.1; RFC 9220 §3; RFC 9297 §2.1.1.
    #[test]
    fn wrong_settings() {
        let refused = Err(ErrorCode::SETTINGS_ERROR);
        for of_http2 in [0, 2, 3, 4, 5] {
            assert_eq!(code(&[(of_http2, 1)]), refused);
        }
        assert_eq!(code(&[(1, 5), (1, 5)]), refused);
        assert_eq!(code(&[(8, 2)]), refused);
        assert_eq!(code(&[(0x33, 2)]), refused);
        assert_eq!(code(&[(0x21, 9), (0x7_0000, 1)]), Ok(Settings::default()));
        let truncated = Settings::parse(&payload(&[(1, 500)])[..2]).map_err(|error| error.code);
        assert_eq!(truncated, Err(ErrorCode::FRAME_ERROR));
        let many: Vec<(u64, u64)> = (0..=SETTINGS_MAX as u64).map(|at| (0x1000 + at, 0)).collect();
        assert_eq!(code(&many), Err(ErrorCode::EXCESSIVE_LOAD));
    }
}
