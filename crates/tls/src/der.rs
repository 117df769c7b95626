//! DER, as far as certificates, keys, revocation lists and OCSP need it (ITU-T X.690 §8, §10).

/// Tags.
pub const BOOLEAN: u8 = 0x01;
/// The tag of INTEGER.
pub const INTEGER: u8 = 0x02;
/// The tag of BIT STRING.
pub const BIT_STRING: u8 = 0x03;
/// The tag of OCTET STRING.
pub const OCTET_STRING: u8 = 0x04;
/// The tag of OBJECT IDENTIFIER.
pub const OID: u8 = 0x06;
/// The tag of UTCTime.
pub const UTC_TIME: u8 = 0x17;
/// The tag of GeneralizedTime.
pub const GENERALIZED_TIME: u8 = 0x18;
/// The tag of SEQUENCE.
pub const SEQUENCE: u8 = 0x30;
/// The tag of SET.
pub const SET: u8 = 0x31;

/// The tag of a constructed element `[n]`.
pub const fn context(n: u8) -> u8 {
    0xa0 | n
}

/// The tag of a primitive element `[n] IMPLICIT`.
pub const fn implicit(n: u8) -> u8 {
    0x80 | n
}

/// One element: its tag, its content, and all of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element<'a> {
    /// Its tag, one byte.
    pub tag: u8,
    /// Its content.
    pub body: &'a [u8],
    /// Tag, length and content.
    pub whole: &'a [u8],
}

impl<'a> Element<'a> {
    /// Reads the elements in this one.
    pub fn inner(&self) -> Reader<'a> {
        Reader(self.body)
    }
}

/// Reads elements one after the other. `None`: what is there is not what was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next tag, without taking anything.
    pub fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// Takes any element.
    pub fn any(&mut self) -> Option<Element<'a>> {
        let (&tag, rest) = self.0.split_first()?;
        // Tags of more than one byte occur nowhere here.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (&first, rest) = rest.split_first()?;
        let (len, head) = match first {
            0..=0x7f => (usize::from(first), 2),
            0x81..=0x84 => {
                let count = usize::from(first & 0x7f);
                let bytes = rest.get(..count)?;
                let len = bytes.iter().fold(0usize, |len, &byte| len << 8 | usize::from(byte));
                // X.690 §10.1: as few bytes as possible.
                if len < 0x80 || bytes[0] == 0 {
                    return None;
                }
                (len, 2 + count)
            }
            _ => return None,
        };
        let (whole, rest) = self.0.split_at_checked(head.checked_add(len)?)?;
        self.0 = rest;
        Some(Element { tag, body: &whole[head..], whole })
    }

    /// Takes an element that must have this tag.
    pub fn take(&mut self, tag: u8) -> Option<Element<'a>> {
        if self.peek()? == tag { self.any() } else { None }
    }

    /// Takes an element if the next one has this tag. The outer `None` is broken DER.
    #[allow(clippy::option_option)]
    pub fn optional(&mut self, tag: u8) -> Option<Option<Element<'a>>> {
        if self.peek() == Some(tag) { self.any().map(Some) } else { Some(None) }
    }

    /// Takes a sequence and reads in it.
    pub fn sequence(&mut self) -> Option<Reader<'a>> {
        self.take(SEQUENCE).map(|element| element.inner())
    }

    /// Takes a bit string of whole bytes.
    pub fn bits(&mut self) -> Option<&'a [u8]> {
        match self.take(BIT_STRING)?.body.split_first()? {
            (0, bits) => Some(bits),
            _ => None,
        }
    }

    /// Takes a boolean that is false where it is missing. There are two ways to write one (X.690 §11.1).
    pub fn flag(&mut self) -> Option<bool> {
        match self.optional(BOOLEAN)?.map(|element| element.body) {
            None | Some([0]) => Some(false),
            Some([0xff]) => Some(true),
            Some(_) => None,
        }
    }

    /// Takes a small number that is not negative.
    pub fn number(&mut self) -> Option<u64> {
        let body = self.take(INTEGER)?.body;
        if body.is_empty() || body[0] & 0x80 != 0 || body.len() > 8 {
            return None;
        }
        Some(body.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// Takes a time, in seconds since 1970 (RFC 5280 §4.1.2.5).
    pub fn time(&mut self) -> Option<i64> {
        let element = self.any()?;
        time(element.tag, element.body)
    }
}

fn time(tag: u8, body: &[u8]) -> Option<i64> {
    let digits = body.strip_suffix(b"Z")?;
    let two = |at: usize| {
        let pair = digits.get(at..at + 2)?;
        if !pair.iter().all(u8::is_ascii_digit) {
            return None;
        }
        Some(i64::from(pair[0] - b'0') * 10 + i64::from(pair[1] - b'0'))
    };
    let (year, at) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year = two(0)?;
            (if year < 50 { 2000 + year } else { 1900 + year }, 2)
        }
        (GENERALIZED_TIME, 14) => (two(0)? * 100 + two(2)?, 4),
        _ => return None,
    };
    let [month, day, hour, minute, second] =
        [two(at)?, two(at + 2)?, two(at + 4)?, two(at + 6)?, two(at + 8)?];
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some(days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Days since 1970-01-01 in the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the leap day is the last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month, day of a number of [`days`].
pub(crate) fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Writes an element.
pub fn element(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match body.len() {
        len @ 0..=0x7f => out.push(len as u8),
        len => {
            let bytes = len.to_be_bytes();
            let skip = bytes.iter().take_while(|&&byte| byte == 0).count();
            out.push(0x80 | (bytes.len() - skip) as u8);
            out.extend_from_slice(&bytes[skip..]);
        }
    }
    out.extend_from_slice(body);
    out
}

/// Writes a sequence of elements.
pub fn sequence(elements: &[&[u8]]) -> Vec<u8> {
    element(SEQUENCE, &elements.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_strictly() {
        let read = |bytes: &[u8]| Reader(bytes).any().map(|e| (e.tag, e.body.len(), e.whole.len()));
        assert_eq!(read(&[4, 2, 1, 2, 9]), Some((4, 2, 4)));
        assert_eq!(read(&element(4, &[7; 200])), Some((4, 200, 203)));
        assert_eq!(read(&element(4, &vec![7; 70_000])), Some((4, 70_000, 70_005)));
        // Too short, a long form where a short one would do, leading zeros, without end, long tags.
        for bytes in [&[4][..], &[4, 2, 1], &[4, 0x81, 1, 1], &[4, 0x82, 0, 0x90], &[4, 0x80], &[0x1f, 1, 0]]
        {
            assert_eq!(read(bytes), None, "{bytes:x?}");
        }
        assert_eq!(read(&[4, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }

    #[test]
    fn times_are_seconds() {
        let read = |tag, text: &str| time(tag, text.as_bytes());
        assert_eq!(read(UTC_TIME, "700101000000Z"), Some(0));
        assert_eq!(read(UTC_TIME, "000229120000Z"), Some(951_825_600));
        assert_eq!(read(GENERALIZED_TIME, "20500101000000Z"), Some(2_524_608_000));
        assert_eq!(read(UTC_TIME, "490101000000Z"), Some(2_493_072_000));
        for text in
            ["20500101000000", "2050010100000Z", "20501301000000Z", "2050010x000000Z", "20500101000000+1Z"]
        {
            assert_eq!(read(GENERALIZED_TIME, text), None, "{text}");
        }
        for day in [-1, 0, 59, 11_016, 11_017, 20_000, 2_932_896] {
            let (year, month, dom) = date(day);
            assert_eq!(days(year, month, dom), day);
        }
    }
}
