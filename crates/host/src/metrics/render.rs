//! The two forms in which numbers are given out.

use super::{Family, Histogram, Kind, Sample, Value};
use std::fmt::Write as _;

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// Prometheus' text format.
pub fn text(families: &[Family]) -> String {
    let mut out = String::with_capacity(16 << 10);
    for family in families {
        let name = family.name;
        let _ = writeln!(out, "# HELP {name} {}", family.help.replace('\\', "\\\\").replace('\n', "\\n"));
        let _ = writeln!(out, "# TYPE {name} {}", family.kind.as_str());
        for sample in &family.samples {
            text_sample(name, sample, &mut out);
        }
    }
    out
}

fn text_sample(name: &str, sample: &Sample, out: &mut String) {
    let mut line = |suffix: &str, bound: Option<&str>, value: &dyn std::fmt::Display| {
        let _ = write!(out, "{name}{suffix}");
        let bound = bound.map(|bound| ("le", bound));
        let labels = sample.labels.iter().map(|(label, value)| (*label, value.as_str())).chain(bound);
        for (at, (label, value)) in labels.enumerate() {
            out.push_str(if at == 0 { "{" } else { "," });
            let _ = write!(out, "{label}=\"");
            escape_label(value, out);
            out.push('"');
        }
        let braces = if sample.labels.is_empty() && bound.is_none() { "" } else { "}" };
        let _ = writeln!(out, "{braces} {value}");
    };
    match &sample.value {
        Value::Count(value) => line("", None, value),
        Value::Gauge(value) => line("", None, value),
        Value::Histogram(histogram) => {
            let mut count = 0;
            for (bound, more) in &histogram.buckets {
                count += more;
                line("_bucket", Some(&bound.to_string()), &count);
            }
            count += histogram.above;
            line("_bucket", Some("+Inf"), &count);
            line("_sum", None, &histogram.sum);
            line("_count", None, &count);
        }
    }
}

fn escape_label(value: &str, out: &mut String) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

/// `{"name":{"type":…,"help":…,"values":[{"labels":{…},"value":…}]}}`
pub fn json(families: &[Family]) -> String {
    let mut out = String::from("{");
    for (at, family) in families.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(out, "{comma}\n\"{}\":{{\"type\":\"{}\",\"help\":", family.name, family.kind.as_str());
        json_string(family.help, &mut out);
        out.push_str(",\"values\":[");
        for (at, sample) in family.samples.iter().enumerate() {
            out.push_str(if at == 0 { "\n{\"labels\":{" } else { ",\n{\"labels\":{" });
            for (at, (label, value)) in sample.labels.iter().enumerate() {
                let comma = if at == 0 { "" } else { "," };
                let _ = write!(out, "{comma}\"{label}\":");
                json_string(value, &mut out);
            }
            out.push_str("},");
            json_value(&sample.value, &mut out);
            out.push('}');
        }
        out.push_str("]}");
    }
    out.push_str("\n}\n");
    out
}

fn json_value(value: &Value, out: &mut String) {
    let _ = match value {
        Value::Count(value) => write!(out, "\"value\":{value}"),
        // JSON has no infinity, and nothing that is counted here reaches it.
        Value::Gauge(value) => write!(out, "\"value\":{}", if value.is_finite() { *value } else { 0.0 }),
        Value::Histogram(Histogram { buckets, above, sum }) => {
            let count = buckets.iter().map(|(_, count)| count).sum::<u64>() + above;
            let _ = write!(out, "\"count\":{count},\"sum\":{sum},\"buckets\":[");
            let mut so_far = 0;
            for (at, (bound, more)) in buckets.iter().enumerate() {
                so_far += more;
                let comma = if at == 0 { "" } else { "," };
                let _ = write!(out, "{comma}[{bound},{so_far}]");
            }
            write!(out, "]")
        }
    };
}

fn json_string(text: &str, out: &mut String) {
    let mut escaped = Vec::with_capacity(text.len());
    crate::text::escape_json(text.as_bytes(), &mut escaped);
    let _ = write!(out, "\"{}\"", String::from_utf8_lossy(&escaped));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn families() -> Vec<Family> {
        let histogram = Histogram { buckets: vec![(0.1, 1), (0.5, 2)], above: 3, sum: 7.25 };
        let sample = |labels: &[(&'static str, &str)], value| Sample {
            labels: labels.iter().map(|(name, value)| (*name, (*value).to_string())).collect(),
            value,
        };
        vec![
            Family {
                name: "brisk_a_total",
                help: "A \\ b.",
                kind: Kind::Counter,
                samples: vec![
                    sample(&[], Value::Count(5)),
                    sample(&[("x", "q\"\\\n"), ("y", "")], Value::Count(6)),
                ],
            },
            Family {
                name: "brisk_b",
                help: "B.",
                kind: Kind::Gauge,
                samples: vec![sample(&[], Value::Gauge(1.5))],
            },
            Family {
                name: "brisk_c_seconds",
                help: "C.",
                kind: Kind::Histogram,
                samples: vec![sample(&[("x", "1")], Value::Histogram(histogram))],
            },
        ]
    }

    #[test]
    fn text_is_as_prometheus_reads_it() {
        let want = "\
# HELP brisk_a_total A \\\\ b.
# TYPE brisk_a_total counter
brisk_a_total 5
brisk_a_total{x=\"q\\\"\\\\\\n\",y=\"\"} 6
# HELP brisk_b B.
# TYPE brisk_b gauge
brisk_b 1.5
# HELP brisk_c_seconds C.
# TYPE brisk_c_seconds histogram
brisk_c_seconds_bucket{x=\"1\",le=\"0.1\"} 1
brisk_c_seconds_bucket{x=\"1\",le=\"0.5\"} 3
brisk_c_seconds_bucket{x=\"1\",le=\"+Inf\"} 6
brisk_c_seconds_sum{x=\"1\"} 7.25
brisk_c_seconds_count{x=\"1\"} 6
";
        assert_eq!(text(&families()), want);
    }

    #[test]
    fn json_says_the_same() {
        let want = r#"{
"brisk_a_total":{"type":"counter","help":"A \\ b.","values":[
{"labels":{},"value":5},
{"labels":{"x":"q\"\\\n","y":""},"value":6}]},
"brisk_b":{"type":"gauge","help":"B.","values":[
{"labels":{},"value":1.5}]},
"brisk_c_seconds":{"type":"histogram","help":"C.","values":[
{"labels":{"x":"1"},"count":6,"sum":7.25,"buckets":[[0.1,1],[0.5,3]]}]}
}
"#;
        assert_eq!(json(&families()), want);
    }
}
