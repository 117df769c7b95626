//! Numbers as people read them, in few columns.

/// `1234` as `1,234`; small ones with a digit behind the point where they are no whole number.
pub(crate) fn count(value: f64) -> String {
    // The sum of nothing is -0, here and below.
    let value = value + 0.0;
    if value < 10.0 && value.fract() != 0.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Bytes in units of 1,024.
pub(crate) fn bytes(value: f64) -> String {
    let mut value = value + 0.0;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" || value >= 100.0 {
                format!("{value:.0} {unit}")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// Microseconds.
pub(crate) fn time(us: f64) -> String {
    match us {
        _ if us < 999.5 => format!("{us:.0} µs"),
        _ if us < 9_950.0 => format!("{:.1} ms", us / 1000.0),
        _ if us < 999_500.0 => format!("{:.0} ms", us / 1000.0),
        _ if us < 99_500_000.0 => format!("{:.1} s", us / 1_000_000.0),
        _ => format!("{:.0} s", us / 1_000_000.0),
    }
}

/// A share as per cent.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let counts: Vec<String> = [-0.0, 0.5, 9.0, 12.4, 999.0, 1000.0, 1_234_567.0].map(count).into();
        assert_eq!(counts, ["0", "0.5", "9", "12", "999", "1,000", "1,234,567"]);
        let sizes: Vec<String> = [0.0, 1023.0, 1536.0, 1e6, 1e9, 1e13].map(bytes).into();
        assert_eq!(sizes, ["0 B", "1023 B", "1.5 KiB", "977 KiB", "954 MiB", "9.1 TiB"]);
        let times: Vec<String> = [0.0, 999.0, 1500.0, 42_000.0, 1_500_000.0, 2e8].map(time).into();
        assert_eq!(times, ["0 µs", "999 µs", "1.5 ms", "42 ms", "1.5 s", "200 s"]);
        assert_eq!(percent(0.125), "12.5 %");
    }
}
