//! Who is traced, and by whom: `traceparent` (W3C Trace Context, level 1).

/// The number of a trace; not all zeros (§3.2.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId(pub [u8; 16]);

/// The number of a span; not all zeros (§3.2.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanId(pub [u8; 8]);

/// The caller, as `traceparent` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its trace.
    pub trace: TraceId,
    /// Its span.
    pub span: SpanId,
    /// It is recorded.
    pub is_sampled: bool,
}

/// Bytes of a `traceparent` of version 00.
const BYTES: usize = 55;

fn digit(byte: u8) -> Option<u8> {
    // Small letters alone (§3.2.2: HEXDIGLC).
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

fn number<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut out = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(out)
}

/// Small hexadecimal digits.
pub fn hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

impl Parent {
    /// What a `traceparent` says; `None` if it is none, and then nothing of it counts (§3.2.2.3, §3.2.2.4).
    pub fn parse(text: &[u8]) -> Option<Parent> {
        let fixed = text.get(..BYTES)?;
        let [version] = number::<1>(&fixed[..2])?;
        // A later version may have more behind it (§3.2.4); 00 has not, and ff is none.
        let is_long = text.get(BYTES).is_some_and(|next| version > 0 && *next == b'-');
        let has_dashes = [2, 35, 52].iter().all(|&at| fixed[at] == b'-');
        if version == 0xff || !has_dashes || !(text.len() == BYTES || is_long) {
            return None;
        }
        let (trace, span) = (number::<16>(&fixed[3..35])?, number::<8>(&fixed[36..52])?);
        let [flags] = number::<1>(&fixed[53..])?;
        let is_valid = trace != [0; 16] && span != [0; 8];
        is_valid.then_some(Parent { trace: TraceId(trace), span: SpanId(span), is_sampled: flags & 1 == 1 })
    }
}

/// A `traceparent` of version 00.
pub fn traceparent(trace: TraceId, span: SpanId, is_sampled: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(BYTES);
    out.extend_from_slice(b"00-");
    hex(&trace.0, &mut out);
    out.push(b'-');
    hex(&span.0, &mut out);
    out.extend_from_slice(if is_sampled { b"-01" } else { b"-00" });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b9c7c989f97918e1-01";

    #[test]
    fn a_parent_survives_its_way() {
        let parent = Parent::parse(GOOD.as_bytes()).unwrap();
        assert!(parent.is_sampled && parent.trace.0[0] == 0x0a && parent.span.0[7] == 0xe1);
        assert_eq!(traceparent(parent.trace, parent.span, true), GOOD.as_bytes());
        let not = traceparent(parent.trace, parent.span, false);
        assert_eq!(Parent::parse(&not), Some(Parent { is_sampled: false, ..parent }));
    }

    #[test]
    fn what_is_none_is_refused() {
        let zeros = |at: std::ops::Range<usize>| {
            let mut text = GOOD.as_bytes().to_vec();
            text[at].fill(b'0');
            text
        };
        let with = |from: &str, to: &str| GOOD.replacen(from, to, 1).into_bytes();
        for (wrong, why) in [
            (Vec::new(), "nothing"),
            (GOOD.as_bytes()[..54].to_vec(), "short"),
            (format!("{GOOD}-x").into_bytes(), "version 00 with more"),
            (with("0af7", "0AF7"), "capitals"),
            (with("0af7", "0ag7"), "no digit"),
            (with("00-", "ff-"), "no version"),
            (with("-b9", "_b9"), "no dash"),
            (with("-01", "-0x"), "no flags"),
            (zeros(3..35), "no trace"),
            (zeros(36..52), "no span"),
        ] {
            assert_eq!(Parent::parse(&wrong), None, "{why}");
        }
        for later in
            [with("00-", "01-"), with("00-", "cc-"), [with("00-", "01-"), b"-more".to_vec()].concat()]
        {
            assert!(Parent::parse(&later).is_some_and(|parent| parent.is_sampled));
        }
        assert_eq!(Parent::parse(&[with("00-", "01-"), b"more".to_vec()].concat()), None);
    }
}
