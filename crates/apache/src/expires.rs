//! `ExpiresActive`, `ExpiresDefault` and `ExpiresByType`: how long an answer may be kept.

use crate::syntax::Words;

/// A time from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// From the file's last change; else from the request.
    pub is_from_change: bool,
    /// Seconds.
    pub seconds: i64,
}

impl Lifetime {
    /// Reads `A3600`, `M86400`, `access plus 1 month 2 days` …
    ///
    /// # Errors
    /// What is wrong with it, in Apache's words.
    pub fn parse(text: &[u8]) -> Result<Lifetime, String> {
        if let [base @ (b'A' | b'M'), number @ ..] = text
            && (number.is_empty() || number.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-'))
        {
            let seconds = crate::expr::leading_number(number);
            return Ok(Lifetime { is_from_change: *base == b'M', seconds });
        }
        let mut words = Words(text).map(|word| String::from_utf8_lossy(&word).into_owned()).peekable();
        let base = words.next().unwrap_or_default();
        let is_from_change = match base.bytes().next().map(|byte| byte.to_ascii_lowercase()) {
            Some(b'n' | b'a') => false,
            Some(b'm') => true,
            _ => return Err(format!("bad expires code, unrecognised <base> '{base}'")),
        };
        words.next_if(|word| word.starts_with(['p', 'P']));
        let mut seconds: i64 = 0;
        while let Some(number) = words.next() {
            if !number.starts_with(|first: char| first.is_ascii_digit()) {
                return Err(format!("bad expires code, numeric value expected <num> '{number}'"));
            }
            let unit = words.next().ok_or("bad expires code, missing <type>")?;
            let unknown = || format!("bad expires code, unrecognised <type>'{unit}'");
            let more = unit_seconds(&unit)
                .ok_or_else(unknown)?
                .saturating_mul(crate::expr::leading_number(number.as_bytes()));
            seconds = seconds.saturating_add(more);
        }
        Ok(Lifetime { is_from_change, seconds })
    }

    /// How long an answer lives from the request on, at least 0. Times are seconds since 1970; `None`: it is no file's.
    pub fn max_age(self, now: i64, changed: Option<i64>) -> Option<i64> {
        let base = if self.is_from_change { changed? } else { now };
        Some(base.saturating_add(self.seconds).saturating_sub(now).max(0))
    }
}

/// As many letters as tell a unit from the others are enough.
fn unit_seconds(unit: &str) -> Option<i64> {
    let unit = unit.to_ascii_lowercase();
    Some(match unit.as_bytes() {
        [b'y', ..] => 365 * 86_400,
        [b'm', b'o', ..] => 30 * 86_400,
        [b'w', ..] => 7 * 86_400,
        [b'd', ..] => 86_400,
        [b'h', ..] => 3600,
        [b'm', b'i', ..] => 60,
        [b's', ..] => 1,
        _ => return None,
    })
}

/// The lines of one directory.
#[derive(Clone, Debug, Default)]
pub struct Expires {
    /// `ExpiresActive`.
    pub is_active: Option<bool>,
    /// `ExpiresDefault`.
    pub default: Option<Lifetime>,
    /// `ExpiresByType`, the newest last: a type in small letters, or `image/*`.
    pub by_type: Vec<(Vec<u8>, Lifetime)>,
}

impl Expires {
    /// These lines in a directory below others.
    #[must_use]
    pub fn below(&self, above: &Expires) -> Expires {
        Expires {
            is_active: self.is_active.or(above.is_active),
            default: self.default.or(above.default),
            by_type: [above.by_type.as_slice(), &self.by_type].concat(),
        }
    }

    /// What holds for a type, which may have parameters: its own line, then that of `image/*`, then the default.
    pub fn lifetime(&self, content_type: &[u8]) -> Option<Lifetime> {
        if self.is_active != Some(true) {
            return None;
        }
        let plain = content_type
            .split(|byte| matches!(byte, b';' | b' '))
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        let of = |name: &[u8]| {
            self.by_type.iter().rev().find(|(known, _)| known == name).map(|(_, lifetime)| *lifetime)
        };
        let slash = plain.iter().position(|&byte| byte == b'/');
        let wild = slash.and_then(|slash| of(&[&plain[..=slash], b"*"].concat()));
        of(&plain).or(wild).or(self.default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes() {
        let day = 86_400;
        for (text, is_from_change, seconds) in [
            ("A0", false, 0),
            ("A2592000", false, 2_592_000),
            ("M60", true, 60),
            ("access plus 1 month", false, 30 * day),
            ("access 1 year", false, 365 * day),
            ("now plus 1 week 2 days 3 hours 4 minutes 5 seconds", false, 9 * day + 3 * 3600 + 4 * 60 + 5),
            ("modification plus 5 h", true, 5 * 3600),
            ("access plus 0 seconds", false, 0),
        ] {
            assert_eq!(Lifetime::parse(text.as_bytes()), Ok(Lifetime { is_from_change, seconds }), "{text}");
        }
        for text in [
            "",
            "later",
            "access plus one day",
            "access plus 1",
            "access plus 1 fortnight",
            "access plus 1 m",
        ] {
            Lifetime::parse(text.as_bytes()).expect_err(text);
        }
        let from_change = Lifetime { is_from_change: true, seconds: 100 };
        assert_eq!(from_change.max_age(1000, Some(950)), Some(50));
        assert_eq!(from_change.max_age(1000, Some(5)), Some(0));
        assert_eq!(from_change.max_age(1000, None), None);
        assert_eq!(
            Lifetime { is_from_change: false, seconds: i64::MAX }.max_age(1000, None),
            Some(i64::MAX - 1000)
        );
    }

    #[test]
    fn what_holds_for_a_type() {
        let life = |seconds| Lifetime { is_from_change: false, seconds };
        let above = Expires {
            is_active: Some(true),
            default: Some(life(1)),
            by_type: vec![(b"image/*".to_vec(), life(2)), (b"text/css".to_vec(), life(3))],
        };
        let below = Expires {
            by_type: vec![(b"image/png".to_vec(), life(4)), (b"text/css".to_vec(), life(5))],
            ..Expires::default()
        };
        let both = below.below(&above);
        for (content_type, seconds) in
            [("image/png", 4), ("image/gif", 2), ("Text/CSS; charset=utf-8", 5), ("text/html", 1), ("", 1)]
        {
            assert_eq!(both.lifetime(content_type.as_bytes()), Some(life(seconds)), "{content_type}");
        }
        let off = Expires { is_active: Some(false), ..Expires::default() }.below(&above);
        assert_eq!(off.lifetime(b"image/png"), None);
    }
}
