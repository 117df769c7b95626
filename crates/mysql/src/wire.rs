//! The field types of messages: numbers with the lowest byte first, lengths in one to nine bytes, texts with or without a NUL.

/// Takes fields from the front of a message; `None`: it is too short.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// From the beginning of a message.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// What is left.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// So many bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// One byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// A number whose first byte says how many follow. 0xfb (NULL) and 0xff (an error) are no numbers.
    pub fn number(&mut self) -> Option<u64> {
        let more = match self.u8()? {
            small @ 0..=0xfa => return Some(u64::from(small)),
            0xfc => 2,
            0xfd => 3,
            0xfe => 8,
            _ => return None,
        };
        let mut whole = [0; 8];
        whole[..more].copy_from_slice(self.take(more)?);
        Some(u64::from_le_bytes(whole))
    }

    /// A text with such a number before it.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let count = usize::try_from(self.number()?).ok()?;
        self.take(count)
    }

    /// A text of a row: `None` within is NULL.
    pub fn value(&mut self) -> Option<Option<&'a [u8]>> {
        if self.0.first() == Some(&0xfb) {
            self.0 = &self.0[1..];
            return Some(None);
        }
        self.text().map(Some)
    }

    /// A text up to a NUL, which is taken, too.
    pub fn until_nul(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        let text = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Some(text)
    }

    /// A text up to a NUL or the end: what some servers and clients write at a message's end.
    pub fn until_nul_or_end(&mut self) -> &'a [u8] {
        self.until_nul().unwrap_or_else(|| std::mem::take(&mut self.0))
    }
}

/// Writes what [`Reader::number`] reads.
pub fn put_number(out: &mut Vec<u8>, number: u64) {
    let bytes = number.to_le_bytes();
    match number {
        0..=0xfa => out.push(bytes[0]),
        0xfb..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&bytes[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Writes what [`Reader::text`] reads.
pub fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Writes what [`Reader::until_nul`] reads: as far as the text's first NUL.
pub fn put_until_nul(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(text.iter().take_while(|&&byte| byte != 0));
    out.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(number: u64, text: Vec<u8>, rest: Vec<u8>) {
            let mut out = Vec::new();
            put_number(&mut out, number);
            put_text(&mut out, &text);
            out.extend_from_slice(&rest);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.number(), Some(number));
            prop_assert_eq!(reader.text(), Some(&text[..]));
            prop_assert_eq!(reader.rest(), &rest[..]);
        }
    }

    #[test]
    fn what_is_too_short_is_none() {
        for bytes in [&b""[..], b"\xfc\x01", b"\xfd\x01\x02", b"\xfe\x01", b"\xfb", b"\xff"] {
            assert_eq!(Reader::new(bytes).number(), None, "{bytes:?}");
        }
        assert_eq!(Reader::new(b"\x05abcd").text(), None);
        assert_eq!(Reader::new(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xffab").text(), None);
        assert_eq!(Reader::new(b"abc").until_nul(), None);
        assert_eq!(Reader::new(b"abc").until_nul_or_end(), b"abc");
        assert_eq!(Reader::new(b"\xfbx").value(), Some(None));
    }
}
