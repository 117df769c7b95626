//! Charts as SVG, made here: one string each, without scripts, fonts or files from elsewhere.
//!
//! Lines are told apart by dashes and marks, not by colour alone. Colours and sizes come from the page's style sheet
//! (classes `s0` … `s5`), so that one chart serves light, dark and paper.

pub mod axis;
mod bars;
mod line;
mod spark;

pub use bars::Bars;
pub use line::{Line, Series};
pub use spark::sparkline;

/// Text for XML.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if (c as u32) < 0x20 && !matches!(c, '\n' | '\t') => {}
            c => out.push(c),
        }
    }
    out
}

/// A number with about three digits that count.
pub fn short(value: f64) -> String {
    let magnitude = value.abs();
    let (value, unit) = match magnitude {
        _ if !value.is_finite() => return "–".to_owned(),
        m if m >= 1e9 => (value / 1e9, "G"),
        m if m >= 1e6 => (value / 1e6, "M"),
        m if m >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let magnitude = value.abs();
    let digits = match magnitude {
        m if m >= 100.0 || m == 0.0 => 0,
        m if m >= 10.0 => 1,
        m if m >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, want) in [
            (0.0, "0"),
            (0.1234, "0.123"),
            (1.5, "1.5"),
            (12.34, "12.3"),
            (512.0, "512"),
            (9_999.0, "9999"),
            (12_345.0, "12.3k"),
            (2_500_000.0, "2.5M"),
            (100.0, "100"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(short(value), want);
        }
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("<a href=\"x\">&\u{1}</a>"), "&lt;a href=&quot;x&quot;&gt;&amp;&lt;/a&gt;");
    }
}
