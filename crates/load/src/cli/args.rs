//! What options hold: numbers, times, rates, sizes, thought pauses.

pub use crate::limits::CONNECTIONS_MAX;
use std::path::PathBuf;
use std::time::Duration;

use crate::arrivals::{Distribution, Rate};
use crate::plan::{Resolve, Think};
use base64::prelude::{BASE64_STANDARD, Engine as _};

/// A number of any type.
pub fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("\"{text}\" is not a number"))
}

/// A whole number, of thousands with `k`.
pub fn thousands(text: &str) -> Result<u64, String> {
    let bad = || format!("\"{text}\" is not a number");
    let Some(digits) = text.strip_suffix(['k', 'K']) else { return number(text) };
    let found = digits.parse::<f64>().map_err(|_| bad())? * 1000.0;
    // Beyond 2^53 not every whole number is one.
    if (0.0..9e15).contains(&found) && found.fract() == 0.0 { Ok(found as u64) } else { Err(bad()) }
}

/// A number above zero, at most `max`.
pub fn count(text: &str, max: usize) -> Result<usize, String> {
    let found = usize::try_from(thousands(text)?).unwrap_or(usize::MAX);
    if (1..=max).contains(&found) { Ok(found) } else { Err(format!("\"{text}\" is not between 1 and {max}")) }
}

/// `Basic` and the base64 of `NAME:PASSWORD` (RFC 7617).
pub fn login(text: &str) -> Result<String, String> {
    if !text.contains(':') || text.chars().any(char::is_control) {
        return Err("write NAME:PASSWORD".to_owned());
    }
    Ok(format!("Basic {}", BASE64_STANDARD.encode(text)))
}

/// `HOST:PORT:ADDRESS`; an IPv6 address may stand in brackets.
pub fn resolve(text: &str) -> Result<Resolve, String> {
    let parts = || {
        let (host, rest) = text.split_once(':')?;
        let (port, address) = rest.split_once(':')?;
        let address = address.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
        (!host.is_empty()).then_some(Resolve { host: host.to_owned(), port: port.parse().ok()?, address })
    };
    parts().ok_or_else(|| format!("\"{text}\" is not HOST:PORT:ADDRESS, e.g. example.com:443:127.0.0.1"))
}

/// `500`, or `10..1000/60s`.
pub fn rate(text: &str) -> Result<Rate, String> {
    let bad = || format!("\"{text}\" is not a rate: write 500, or 10..1000/60s for a ramp");
    let rate = match text.split_once("..") {
        None => Rate::constant(match thousands(text) {
            Ok(found) => found as f64,
            Err(_) => number(text).map_err(|_| bad())?,
        }),
        Some((from, rest)) => {
            let (to, over) = rest.split_once('/').map_or((rest, None), |(to, over)| (to, Some(over)));
            let one = |text: &str| thousands(text).map_or_else(|_| number(text), |found| Ok(found as f64));
            Rate {
                from: one(from).map_err(|_| bad())?,
                to: one(to).map_err(|_| bad())?,
                // Without a time it is as long as the run.
                over: over.map_or(Ok(Duration::MAX), duration).map_err(|_| bad())?,
            }
        }
    };
    if rate.is_sound() { Ok(rate) } else { Err(bad()) }
}

/// `constant` or `poisson`.
pub fn distribution(text: &str) -> Result<Distribution, String> {
    match text {
        "constant" => Ok(Distribution::Constant),
        "poisson" => Ok(Distribution::Poisson),
        _ => Err(format!("\"{text}\" is neither constant nor poisson")),
    }
}

/// Numbers with `us`, `ms`, `s`, `m` or `h`, one behind the other as in `1m30s`; a single one without a unit is seconds. At most
/// a week.
pub fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("\"{text}\" is not a time: write e.g. 500ms, 10s, 1m30s");
    let (mut found, mut rest) = (Duration::ZERO, text);
    loop {
        let cut = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (value, unit) = rest.split_at(cut);
        let end = unit.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit.len());
        let seconds = match &unit[..end] {
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "" if rest.len() == text.len() => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(bad()),
        };
        let value: f64 = value.parse().map_err(|_| bad())?;
        let part = Duration::try_from_secs_f64(value * seconds).map_err(|_| bad())?;
        found = found.checked_add(part).ok_or_else(bad)?;
        rest = &unit[end..];
        if rest.is_empty() {
            break;
        }
    }
    if found <= Duration::from_hours(24 * 7) { Ok(found) } else { Err(bad()) }
}

/// A number with `k`, `m` or `g`; bytes without.
pub fn size(text: &str) -> Result<usize, String> {
    let bad = || format!("\"{text}\" is not a size: write e.g. 4096, 64k, 1m");
    let lower = text.to_ascii_lowercase();
    let cut = lower.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(lower.len());
    let shift = match &lower[cut..] {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return Err(bad()),
    };
    let value: usize = lower[..cut].parse().map_err(|_| bad())?;
    value.checked_mul(1 << shift).ok_or_else(bad)
}

/// `1s`, `1s..3s`, or `exp:2s`.
pub fn think(text: &str) -> Result<Think, String> {
    if let Some(mean) = text.strip_prefix("exp:") {
        return Ok(Think::Exponential(duration(mean)?));
    }
    match text.split_once("..") {
        None => Ok(Think::Constant(duration(text)?)),
        Some((from, to)) => {
            let (from, to) = (duration(from)?, duration(to)?);
            if from <= to {
                Ok(Think::Uniform(from, to))
            } else {
                Err(format!("\"{text}\": the first is longer"))
            }
        }
    }
}

/// Numbers with commas between them. The name keeps clap from taking each for a value of its own.
pub type Numbers = Vec<usize>;

/// See [`Numbers`].
pub fn numbers(text: &str) -> Result<Numbers, String> {
    text.split(',').map(|part| number(part.trim())).collect()
}

/// A number of connections, or of what else there may be many of.
pub fn connections(text: &str) -> Result<usize, String> {
    count(text, CONNECTIONS_MAX)
}

/// A number of threads.
pub fn threads(text: &str) -> Result<usize, String> {
    count(text, 1024)
}

/// A number of requests that are under way at a time.
pub fn depth(text: &str) -> Result<usize, String> {
    count(text, 100_000)
}

/// A time that is not zero.
pub fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err(format!("{text} is no time at all: write e.g. 500ms")),
        time => Ok(time),
    }
}

/// The file of a report: "-" is the terminal elsewhere, where the report is printed anyway.
pub fn report_file(text: &str) -> Result<PathBuf, String> {
    match text {
        "-" => Err("the report is printed there; write to a file, or to /dev/stdout with -q".to_owned()),
        "" => Err("a file's name is wanted".to_owned()),
        name => Ok(name.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2h"), Ok(Duration::from_hours(2)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1h1.5s250ms"), Ok(Duration::from_millis(3_601_750)));
        for bad in ["", "s", "-1s", "1x", "1e300s", "nan", "9999h", "1m30", "1m-5s", "1ms s", "100h100h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert_eq!((size("64K"), size("100"), size("1m")), (Ok(65536), Ok(100), Ok(1 << 20)));
        assert!(size("1t").is_err() && size("").is_err() && size("99999999999g").is_err());
        assert_eq!((count("1k", 5000), count("1.5k", 5000), thousands("2k")), (Ok(1000), Ok(1500), Ok(2000)));
        assert!(
            count("6k", 5000).is_err()
                && count("k", 5).is_err()
                && count("1m", 5).is_err()
                && count("1.2345k", 5000).is_err()
        );
        assert!(count("0", 5).is_err() && count("6", 5).is_err() && count("5", 5) == Ok(5));
    }

    #[test]
    fn rates_and_pauses() {
        assert_eq!(rate("500"), Ok(Rate::constant(500.0)));
        assert_eq!((rate("1k"), rate("0.5")), (Ok(Rate::constant(1000.0)), Ok(Rate::constant(0.5))));
        let ramp = Rate { from: 10.0, to: 1000.0, over: Duration::from_mins(1) };
        assert_eq!(rate("10..1000/60s"), Ok(ramp));
        let whole = rate("1k..2k").unwrap();
        assert!(whole.is_endless() && (whole.from, whole.to) == (1000.0, 2000.0));
        let minute = Duration::from_mins(1);
        assert_eq!(whole.within(Some(minute)), Rate { over: minute, ..whole });
        assert_eq!(ramp.within(None), ramp);
        assert_eq!(login("Aladdin:open sesame").as_deref(), Ok("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
        assert!(login("nobody").is_err());
        let found = resolve("a.b:443:[::1]").unwrap();
        assert_eq!((found.host.as_str(), found.port, found.address), ("a.b", 443, "::1".parse().unwrap()));
        assert!(
            resolve("a.b:443").is_err()
                && resolve("a.b:x:1.2.3.4").is_err()
                && resolve(":1:1.2.3.4").is_err()
        );
        for bad in ["0", "-1", "x", "10../5s", "10..x"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
        let second = Duration::from_secs(1);
        assert_eq!(think("1s"), Ok(Think::Constant(second)));
        assert_eq!(think("1s..2s"), Ok(Think::Uniform(second, second * 2)));
        assert_eq!(think("exp:1s"), Ok(Think::Exponential(second)));
        assert!(think("2s..1s").is_err() && think("exp:").is_err());
    }
}
