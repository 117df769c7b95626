//! Content coding negotiation (RFC 9110 §12.5.3).

/// A weight in thousandths: 0 (not acceptable) to 1000.
pub type Quality = u16;

/// The weight that an `Accept-Encoding` value gives a coding by name; 0 if it does not name it, or names it with a
/// malformed weight. This is nginx's rule for gzip: `*` counts for nothing, since clients that send it rarely mean it.
pub fn coding_quality(value: &[u8], coding: &[u8]) -> Quality {
    for item in value.split(|&b| b == b',') {
        let mut parts = item.split(|&b| b == b';').map(<[u8]>::trim_ascii);
        if parts.next().is_some_and(|name| name.eq_ignore_ascii_case(coding)) {
            return weight(parts).unwrap_or(0);
        }
    }
    0
}

/// The codings that this server makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coding {
    /// Zstandard (RFC 8878).
    Zstd,
    /// Brotli (RFC 7932).
    Br,
    /// gzip (RFC 1952).
    Gzip,
}

impl Coding {
    /// All of them, in the order in which equals are preferred.
    pub const ALL: [Coding; 3] = [Coding::Zstd, Coding::Br, Coding::Gzip];

    /// As in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Coding::Zstd => "zstd",
            Coding::Br => "br",
            Coding::Gzip => "gzip",
        }
    }
}

/// What an `Accept-Encoding` value comes to: which codings are acceptable, and in what order. There are few different
/// ones, however clients write them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Preference(u8);

impl Preference {
    /// Of a field's value; no field is an empty one. Weights are read as in [`coding_quality`].
    pub fn parse(value: &[u8]) -> Preference {
        let mut weights = [None; Coding::ALL.len()];
        for item in value.split(|&b| b == b',') {
            let mut parts = item.split(|&b| b == b';').map(<[u8]>::trim_ascii);
            let name = parts.next().unwrap_or_default();
            let known =
                Coding::ALL.iter().position(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()));
            if let Some(at) = known
                && weights[at].is_none()
            {
                weights[at] = Some(weight(parts).unwrap_or(0));
            }
        }
        let weights = weights.map(Option::unwrap_or_default);
        let mut packed = 0;
        for (at, weight) in weights.into_iter().enumerate().filter(|(_, weight)| *weight > 0) {
            let better = weights.iter().filter(|other| **other > weight).count() as u8;
            packed |= (better + 1) << (2 * at);
        }
        Preference(packed)
    }

    /// A number that is equal for equal preferences, below 64.
    pub fn number(self) -> u8 {
        self.0
    }

    /// How many codings the client likes better; `None` if it does not accept this one.
    pub fn rank(self, coding: Coding) -> Option<u8> {
        (self.0 >> (2 * coding as u8) & 3).checked_sub(1)
    }

    /// Of the codings offered the one that the client likes best; among equals the first.
    pub fn choose(self, offered: impl Iterator<Item = Coding>) -> Option<Coding> {
        offered
            .filter_map(|coding| Some((self.rank(coding)?, coding)))
            .min_by_key(|(rank, _)| *rank)
            .map(|(_, c)| c)
    }
}

/// The weight in an item's parameters: none means 1000. nginx takes `q` alone and at most three decimals.
fn weight<'a>(mut parameters: impl Iterator<Item = &'a [u8]>) -> Option<Quality> {
    let Some(parameter) = parameters.next() else { return Some(1000) };
    if parameter.is_empty() && parameters.next().is_none() {
        return Some(1000);
    }
    let [b'q' | b'Q', b'=', number @ ..] = parameter else { return None };
    let (whole, decimals) = match number {
        [whole] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] => (whole, decimals),
        _ => return None,
    };
    if decimals.len() > 3 || !matches!(whole, b'0' | b'1') {
        return None;
    }
    let mut quality = u16::from(whole - b'0');
    for i in 0..3 {
        let digit = char::from(*decimals.get(i).unwrap_or(&b'0')).to_digit(10)?;
        quality = quality * 10 + digit as u16;
    }
    (quality <= 1000).then_some(quality)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights() {
        let check = |value: &str, want: Quality| {
            assert_eq!(coding_quality(value.as_bytes(), b"gzip"), want, "{value}");
        };
        check("gzip", 1000);
        check("GZip", 1000);
        check("deflate, gzip ;q=0.5, br", 500);
        check("gzip; q=0.001", 1);
        check("gzip; q=1.000", 1000);
        check("gzip;q=1", 1000);
        check("gzip;q=0", 0);
        check("gzip;q=0.", 0);
        check("gzip;q=0.000", 0);
        check("gzip;q=0.0001", 0);
        check("gzip;q=1.001", 0);
        check("gzip;q=2", 0);
        check("gzip;q=", 0);
        check("gzip;q=0.a", 0);
        check("gzip;", 1000);
        check("gzip;x", 0);
        check("x-gzip", 0);
        check("gzipped", 0);
        check("gzipped, gzip", 1000);
        check("*", 0);
        check("", 0);
        check("deflate", 0);
    }

    #[test]
    fn preferences_are_orders() {
        let check = |value: &str, want: [Option<u8>; 3]| {
            let preference = Preference::parse(value.as_bytes());
            assert_eq!(Coding::ALL.map(|coding| preference.rank(coding)), want, "{value}");
            assert!(preference.number() < 64);
        };
        check("", [None; 3]);
        check("gzip", [None, None, Some(0)]);
        check("gzip, deflate, br, zstd", [Some(0); 3]);
        check("gzip;q=0.8, br;q=0.9, zstd", [Some(0), Some(1), Some(2)]);
        check("gzip;q=0.8, br;q=0, zstd;q=0.8", [Some(0), None, Some(0)]);
        check("gzip, br;q=0.5, zstd;q=0.5", [Some(1), Some(1), Some(0)]);
        let choose = |value: &str| Preference::parse(value.as_bytes()).choose(Coding::ALL.into_iter());
        assert_eq!(choose("gzip, br"), Some(Coding::Br));
        assert_eq!(choose("gzip, br;q=0.9"), Some(Coding::Gzip));
        assert_eq!(choose("identity"), None);
    }
}
