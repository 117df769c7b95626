//! A line of text that is a chart.

/// The last `width` values as blocks of eight heights, from zero to the largest.
pub fn sparkline(values: &[f64], width: usize) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &values[values.len().saturating_sub(width)..];
    let highest = shown.iter().copied().fold(0.0, f64::max);
    let block = |value: &f64| {
        let part = if highest > 0.0 { value / highest * 7.0 } else { 0.0 };
        BLOCKS[(part.round().max(0.0) as usize).min(7)]
    };
    shown.iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_follow_values() {
        assert_eq!(sparkline(&[0.0, 1.0, 2.0, 7.0], 3), "▂▃█");
        assert_eq!(sparkline(&[0.0, 0.0], 5), "▁▁");
        assert_eq!(sparkline(&[f64::NAN, 1.0], 5), "▁█");
    }
}
