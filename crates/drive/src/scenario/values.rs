//! Values that are always there: `{{user.number}}`, `{{random}}`, `{{random.1.100}}`, `{{time}}`, `{{uuid}}`.

use brisk_load::rng::Rng;
use std::time::SystemTime;

/// Whether a value of this name needs nobody to give it.
pub fn is_given(name: &str) -> bool {
    matches!(name, "user.number" | "user.round") || of(name, &mut Rng::new(1)).is_some()
}

/// A value that depends on no user.
pub fn of(name: &str, rng: &mut Rng) -> Option<String> {
    if let Some(rest) = name.strip_prefix("random.") {
        let (low, high) = rest.split_once('.')?;
        let (low, high): (i64, i64) = (low.parse().ok()?, high.parse().ok()?);
        let width = high.checked_sub(low)?.checked_add(1).filter(|&width| width > 0)?;
        return Some((low + rng.below(width as usize) as i64).to_string());
    }
    match name {
        "random" => Some((rng.next_u64() >> 16).to_string()),
        // Milliseconds since 1970.
        "time" => {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            Some(since.as_millis().to_string())
        }
        "uuid" => Some(uuid(rng)),
        _ => None,
    }
}

/// A random one (RFC 9562 §5.4).
fn uuid(rng: &mut Rng) -> String {
    let bits = (u128::from(rng.next_u64()) << 64) | u128::from(rng.next_u64());
    let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_always_there() {
        let mut rng = Rng::new(3);
        for _ in 0..200 {
            let found: i64 =
                of("random.-3.4", &mut rng).or_else(|| of("random.3.7", &mut rng)).unwrap().parse().unwrap();
            assert!((-3..=7).contains(&found));
        }
        let uuid = of("uuid", &mut rng).unwrap();
        let parts: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!((parts, &uuid[14..15]), (vec![8, 4, 4, 4, 12], "4"));
        assert!("89ab".contains(&uuid[19..20]), "{uuid}");
        assert!(of("time", &mut rng).unwrap().len() >= 13);
        for name in ["user.number", "user.round", "random", "random.1.1"] {
            assert!(is_given(name), "{name}");
        }
        for name in ["random.2.1", "random.x.1", "random.1", "nobody", "random.0.9223372036854775807"] {
            assert!(!is_given(name), "{name}");
        }
    }
}
