//! Bar charts of distributions.

use std::fmt::Write as _;

use super::axis::{Axis, Scale};
use super::line::{frame, grid};
use super::short;

/// Bars that stand side by side on a logarithmic axis: how often values were how large.
#[derive(Debug, Clone, Default)]
pub struct Bars {
    /// What it shows.
    pub title: String,
    /// What the values are.
    pub x_label: String,
    /// Values in their order, with how often each was seen.
    pub values: Vec<(f64, u64)>,
}

/// Bars per decade.
const PER_DECADE: f64 = 12.0;

impl Bars {
    /// The chart as an SVG element.
    pub fn svg(&self) -> String {
        let place = |value: f64| (value.max(1e-9).log10() * PER_DECADE).floor() as i64;
        let mut bars: Vec<(i64, u64)> = Vec::new();
        for &(value, count) in &self.values {
            match bars.last_mut() {
                Some(last) if last.0 == place(value) => last.1 += count,
                _ => bars.push((place(value), count)),
            }
        }
        let edge = |place: i64| 10f64.powf(place as f64 / PER_DECADE);
        let total: u64 = bars.iter().map(|bar| bar.1).sum();
        let share = |count: u64| 100.0 * count as f64 / total.max(1) as f64;
        let edges = bars.iter().flat_map(|bar| [edge(bar.0), edge(bar.0 + 1)]);
        let x = Axis::new(Scale::Log, edges, 52.0, 468.0);
        let heights = bars.iter().map(|bar| share(bar.1)).chain([0.0]);
        let y = Axis::new(Scale::Linear, heights, 236.0, 42.0);
        let mut out = frame(&self.title, &self.x_label, "% of responses");
        grid(&mut out, &x, &x.ticks(6), &y);
        for &(place, count) in &bars {
            let (left, right, top) = (x.at(edge(place)), x.at(edge(place + 1)), y.at(share(count)));
            // The rarest must still be seen.
            let top = top.min(235.0);
            let _ = write!(
                out,
                "<path class=\"b\" d=\"M{left:.1} 236V{top:.1}H{right:.1}V236z\"><title>{} to {}: {count}</title></path>",
                short(edge(place)),
                short(edge(place + 1))
            );
        }
        out.push_str("</svg>");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_response_is_in_one_bar() {
        let bars = Bars { values: vec![(1.0, 5), (1.01, 6), (30.0, 1)], ..Bars::default() };
        let svg = bars.svg();
        assert_eq!(svg.matches("class=\"b\"").count(), 2);
        assert!(svg.contains(": 11<") && svg.contains(": 1<"), "{svg}");
        assert!(Bars::default().svg().ends_with("</svg>"));
    }
}
