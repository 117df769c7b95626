//! What may stand in a field's name and value (RFC 9113 §8.2.1), found out once per literal.

/// What was found, as bits. Nothing is set for an ordinary field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Checks(pub u8);

impl Checks {
    /// The name has `_`.
    pub const UNDERSCORE: Checks = Checks(1);
    /// The name has other bytes of a token than lower case letters, digits, hyphens and `_`.
    pub const ODD: Checks = Checks(2);
    /// The name is empty, or has upper case letters or what no token has (RFC 9110 §5.6.2): malformed.
    pub const BAD_NAME: Checks = Checks(4);
    /// The value has NUL, CR or LF: malformed (RFC 9113 §8.2.1). nginx's tests want other control bytes to pass.
    pub const BAD_VALUE: Checks = Checks(8);
    /// The name begins with a colon.
    pub const PSEUDO: Checks = Checks(16);
    /// The value begins or ends with white space.
    pub const PADDED_VALUE: Checks = Checks(32);

    /// Whether one of `other` is set.
    #[inline]
    pub fn has(self, other: Checks) -> bool {
        self.0 & other.0 != 0
    }

    /// What of it is about the name.
    #[must_use]
    pub fn of_name_only(self) -> Checks {
        let of_name = Checks::UNDERSCORE.0 | Checks::ODD.0 | Checks::BAD_NAME.0 | Checks::PSEUDO.0;
        Checks(self.0 & of_name)
    }

    /// What is to be found in a name.
    pub fn of_name(name: &[u8]) -> Checks {
        let (pseudo, rest) = match name {
            [b':', rest @ ..] => (Checks::PSEUDO.0, rest),
            _ => (0, name),
        };
        let found = rest.iter().fold(0, |found, &byte| found | NAME_CLASS[usize::from(byte)]);
        let empty = if rest.is_empty() { Checks::BAD_NAME.0 } else { 0 };
        Checks(pseudo | found | empty)
    }

    /// What is to be found in a value.
    pub fn of_value(value: &[u8]) -> Checks {
        // Without an early exit this becomes SIMD.
        let bad = value.iter().filter(|&&b| matches!(b, 0 | b'\r' | b'\n')).count();
        let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        let padded = is_space(value.first()) || is_space(value.last());
        Checks(
            if bad > 0 { Checks::BAD_VALUE.0 } else { 0 } | if padded { Checks::PADDED_VALUE.0 } else { 0 },
        )
    }
}

static NAME_CLASS: [u8; 256] = {
    let mut table = [Checks::BAD_NAME.0; 256];
    let mut byte = 0;
    while byte < 256 {
        let c = byte as u8;
        if c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' {
            table[byte] = 0;
        }
        byte += 1;
    }
    let odd = b"!#$%&'*+.^`|~";
    let mut at = 0;
    while at < odd.len() {
        table[odd[at] as usize] = Checks::ODD.0;
        at += 1;
    }
    table[b'_' as usize] = Checks::UNDERSCORE.0;
    table
};
