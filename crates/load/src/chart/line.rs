//! Line charts.

use std::fmt::Write as _;

use super::axis::{Axis, Scale};
use super::escape;

/// Units of a chart: a phone shows about one pixel for each.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 276.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 42.0;
const BOTTOM: f64 = 40.0;
/// Marks of a line, at most.
const MARKS: usize = 12;

/// One line.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// What it is.
    pub name: String,
    /// Its points, from left to right. A y that is no number makes a gap.
    pub points: Vec<(f64, f64)>,
    /// Whether its points are marked and not joined: measurements, where another line is their fit.
    pub only_marks: bool,
}

/// A chart of lines that share their axes.
#[derive(Debug, Clone, Default)]
pub struct Line {
    /// What it shows.
    pub title: String,
    /// What runs from left to right.
    pub x_label: String,
    /// What runs upwards.
    pub y_label: String,
    /// The lines.
    pub series: Vec<Series>,
    /// How x is laid out.
    pub x_scale: Scale,
    /// How y is laid out.
    pub y_scale: Scale,
    /// What the x axis has room for even without points there: charts of one page that show the same time agree on it.
    pub x_span: Option<(f64, f64)>,
    /// What stands at points of the x axis, in place of numbers.
    pub x_ticks: Option<Vec<(f64, String)>>,
}

impl Line {
    /// The chart as an SVG element.
    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| series.points.iter().copied());
        let span = self.x_span.map(|(low, high)| [low, high]).into_iter().flatten();
        let x = Axis::new(self.x_scale, points().map(|point| point.0).chain(span), LEFT, WIDTH - RIGHT);
        let y = Axis::new(self.y_scale, points().map(|point| point.1), HEIGHT - BOTTOM, TOP);
        let mut out = frame(&self.title, &self.x_label, &self.y_label);
        let x_ticks = self.x_ticks.clone().unwrap_or_else(|| x.ticks(6));
        grid(&mut out, &x, &x_ticks, &y);
        for (index, series) in self.series.iter().enumerate() {
            series.draw(index, &x, &y, &mut out);
        }
        self.legend(&mut out);
        out.push_str("</svg>");
        out
    }

    fn legend(&self, out: &mut String) {
        let mut at = LEFT + 4.0;
        if self.series.len() < 2 {
            return;
        }
        let width = |series: &Series| 42.0 + 7.2 * series.name.chars().count() as f64;
        let whole: f64 = self.series.iter().map(width).sum();
        // Many long names are written smaller.
        let scale = ((WIDTH - at) / whole).min(1.0);
        let size =
            if scale < 1.0 { format!(" style=\"font-size:{:.1}px\"", 12.0 * scale) } else { String::new() };
        for (index, series) in self.series.iter().enumerate() {
            let class = index % 6;
            let _ = write!(
                out,
                "<path class=\"l s{class}\" d=\"M{at:.0} 29h{:.0}\"/>{}<text x=\"{:.0}\" y=\"33\"{size}>{}</text>",
                22.0 * scale,
                mark(index, at + 11.0 * scale, 29.0),
                at + 27.0 * scale,
                escape(&series.name)
            );
            at += width(series) * scale;
        }
    }
}

impl Series {
    fn draw(&self, index: usize, x: &Axis, y: &Axis, out: &mut String) {
        let class = index % 6;
        let sound: Vec<Option<(f64, f64)>> = self
            .points
            .iter()
            .map(|&(px, py)| (px.is_finite() && py.is_finite()).then(|| (x.at(px), y.at(py))))
            .collect();
        if !self.only_marks {
            let (mut path, mut pen_is_up) = (String::new(), true);
            for point in &sound {
                match point {
                    Some((px, py)) => {
                        let _ = write!(path, "{}{px:.1} {py:.1}", if pen_is_up { 'M' } else { 'L' });
                        pen_is_up = false;
                    }
                    None => pen_is_up = true,
                }
            }
            let _ = write!(out, "<path class=\"l s{class}\" d=\"{path}\"/>");
        }
        let step = if self.only_marks { 1 } else { sound.len().div_ceil(MARKS).max(1) };
        // Lines begin to be marked at different places, so that marks do not hide each other.
        for (px, py) in sound.iter().skip(index % step.max(1)).step_by(step).flatten() {
            out.push_str(&mark(index, *px, *py));
        }
    }
}

/// The start of a chart, with its labels.
pub(super) fn frame(title: &str, x_label: &str, y_label: &str) -> String {
    let (title, x_label, y_label) = (escape(title), escape(x_label), escape(y_label));
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\"><title>{title}</title><text class=\"h\" x=\"{LEFT}\" y=\"14\">{title}</text>\
         <text class=\"x\" x=\"{:.0}\" y=\"{:.0}\">{x_label}</text>\
         <text class=\"y\" x=\"-{:.0}\" y=\"12\" transform=\"rotate(-90)\">{y_label}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 6.0,
        (TOP + HEIGHT - BOTTOM) / 2.0,
    )
}

/// Lines behind the data, and the numbers beside them.
pub(super) fn grid(out: &mut String, x: &Axis, x_ticks: &[(f64, String)], y: &Axis) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for (value, text) in y.ticks(5) {
        let at = y.at(value);
        let _ = write!(
            out,
            "<path class=\"g\" d=\"M{LEFT} {at:.1}H{right}\"/><text class=\"yt\" x=\"{:.0}\" y=\"{:.1}\">{text}</text>",
            LEFT - 5.0,
            at + 4.0
        );
    }
    for (value, text) in x_ticks {
        let at = x.at(*value);
        let _ = write!(
            out,
            "<path class=\"g\" d=\"M{at:.1} {bottom}v5\"/><text class=\"xt\" x=\"{at:.1}\" y=\"{:.0}\">{}</text>",
            bottom + 17.0,
            escape(text)
        );
    }
    let _ = write!(out, "<path class=\"a\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>");
}

/// A line's mark: another shape for each.
fn mark(index: usize, x: f64, y: f64) -> String {
    let class = index % 6;
    let shape = match class {
        0 => return format!("<circle class=\"m s{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>"),
        1 => "m-3 -3h6v6h-6z",
        2 => "m0 -4l3.6 6.5h-7.2z",
        3 => "m0 -4l4 4l-4 4l-4 -4z",
        4 => "m-3 -3l6 6m0 -6l-6 6",
        _ => "m0 4l3.6 -6.5h-7.2z",
    };
    format!("<path class=\"m s{class}\" d=\"M{x:.1} {y:.1}{shape}\"/>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_of_the_same_time_have_the_same_axis() {
        let ticks = |points: Vec<(f64, f64)>| {
            let series = vec![Series { name: "p50".to_owned(), points, only_marks: false }];
            let svg = Line { series, x_span: Some((0.0, 10.2)), ..Line::default() }.svg();
            let ticks: Vec<String> =
                svg.split("<text class=\"xt\"").skip(1).map(|tick| tick[..20].to_owned()).collect();
            ticks
        };
        let all = ticks(vec![(0.0, 1.0), (10.0, 2.0)]);
        assert!(all.len() > 3, "{all:?}");
        assert_eq!(ticks(vec![(0.4, 1.0), (9.3, 2.0)]), all);
        assert_eq!(ticks(Vec::new()), all);
    }

    /// "failed connects" was cut off at the edge.
    #[test]
    fn a_legend_ends_within_its_chart() {
        let series = |name: &str| Series { name: name.to_owned(), ..Series::default() };
        let names = ["listen drops", "sent again", "resets", "failed connects"];
        let chart = Line { series: names.map(series).to_vec(), ..Line::default() };
        let svg = chart.svg();
        let text = svg.rsplit_once("<text ").unwrap().1;
        let of = |name: &str, end: &str| -> f64 {
            text.split_once(name).unwrap().1.split_once(end).unwrap().0.parse().unwrap()
        };
        // The letters of the widest usual font are 0.6 of its size wide in the mean.
        let (at, size) = (of("x=\"", "\""), of("font-size:", "px"));
        assert!(size > 9.0 && at + 15.0 * 0.6 * size < WIDTH, "{text}");
    }

    #[test]
    fn a_chart_is_well_formed_and_has_all_its_lines() {
        let series = |name: &str, factor: f64| Series {
            name: name.to_owned(),
            points: (0..50).map(|at| (f64::from(at), f64::from(at) * factor)).collect(),
            only_marks: false,
        };
        let mut chart = Line {
            title: "a <b>".to_owned(),
            series: vec![series("p50", 1.0), series("p99", 2.0)],
            ..Line::default()
        };
        chart.series[1].points[7].1 = f64::NAN;
        let svg = chart.svg();
        assert!(svg.contains("a &lt;b&gt;") && svg.contains(">p50<") && svg.contains(">p99<"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let opened = svg.matches('<').count();
        assert_eq!(opened, svg.matches('>').count());
        assert!(Line::default().svg().ends_with("</svg>"), "an empty chart is one");
    }
}
