//! What a comparison has shown: for people, for programs, and as a page.

use std::fmt::Write as _;

use serde_json::json;

use super::Contest;
use crate::chart::{Line, Series};
use crate::compare::{EQUAL, Ground, Promise, Verdict};
use crate::report::{Body, Environment, Section, Tile, page};
use crate::sample::Interval;

impl Contest<'_> {
    /// What disturbs.
    pub(super) fn disturbance(&self) -> String {
        format!(
            "the machine is busy: others took {:.0} % of the CPU time that server and generator wanted ({})",
            self.comparison.taken_share() * 100.0,
            self.others
        )
    }

    pub(super) fn json(&self) -> serde_json::Value {
        let comparison = &self.comparison;
        let verdict = match comparison.verdict() {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Equal => "equal",
            Verdict::Undecided => "undecided",
        };
        let ratio = comparison.ratio();
        let known = ratio.low > 0.0 && ratio.high.is_finite();
        let promise = comparison.promise().map(Promise::name);
        let others: serde_json::Map<String, serde_json::Value> =
            self.others.most(4).into_iter().map(|(name, cpus)| (name.to_owned(), json!(cpus))).collect();
        json!({
            "verdict": verdict, "by": self.by.unit(), "pairs": comparison.pairs(), "spoilt_pairs": comparison.spoilt(),
            "disturbed_pairs": comparison.disturbed(), "busy_machine": comparison.ground() != Ground::Quiet,
            "others_share": comparison.taken_share(), "others_cpus": others,
            "ratio": known.then_some(ratio.middle), "low": known.then_some(ratio.low), "high": known.then_some(ratio.high),
            "costs": comparison.costs(), "promise": promise,
        })
    }

    pub(super) fn report(&self) -> String {
        let comparison = &self.comparison;
        let (ratio, verdict) = (comparison.ratio(), comparison.verdict());
        let (pairs, spoilt, disturbed) = (comparison.pairs(), comparison.spoilt(), comparison.disturbed());
        let known = pairs > 0 && ratio.high.is_finite();
        let mut out = if known {
            let (unit, Interval { low, middle, high }) = (self.by.unit(), ratio);
            format!(
                "{unit}, B over A: {middle:.3} (between {low:.3} and {high:.3}; {pairs} pairs, {spoilt} spoilt)\n"
            )
        } else {
            format!("{pairs} pairs counted, {spoilt} were spoilt: too few for a verdict\n")
        };
        if comparison.ground() == Ground::Busy {
            let _ = writeln!(out, "{}", self.disturbance());
            if known {
                let reach = (ratio.high / ratio.low).sqrt() - 1.0;
                let _ = writeln!(
                    out,
                    "all pairs count therefore; the interval is ±{:.1} % wide, and smaller differences stay hidden in it",
                    reach * 100.0
                );
            }
        }
        if !known && disturbed > 0 {
            let _ = writeln!(
                out,
                "{disturbed} were disturbed: the machine must be quieter, the load lower (--rate, --think), or see --others"
            );
        }
        if !known && spoilt > disturbed {
            let _ = writeln!(
                out,
                "{} had failures, or no answer in time: brisk bench URL says why",
                spoilt - disturbed
            );
        }
        let promised = self.promised().map_or_else(String::new, |text| format!("{text}\n"));
        format!("{out}{promised}{verdict}\n")
    }

    /// What was promised, and what came of it.
    fn promised(&self) -> Option<String> {
        let share = self.options.slo? * 100.0;
        let text = format!("slower<{share}%");
        Some(match self.comparison.promise()? {
            Promise::Holds => format!("holds: {text}"),
            Promise::Broken => format!("DOES NOT HOLD: {text}"),
            Promise::Undecided => format!("undecided: {text}"),
        })
    }

    /// A page that needs nothing else.
    pub(super) fn html(&self) -> String {
        let comparison = &self.comparison;
        let (ratio, verdict) = (comparison.ratio(), comparison.verdict());
        let is_known = comparison.pairs() > 0 && ratio.high.is_finite();
        let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
        let between = if is_known {
            format!("{} … {}", percent(ratio.low), percent(ratio.high))
        } else {
            "–".to_owned()
        };
        let tile = |name: &str, value: String, is_bad: bool| Tile { name: name.to_owned(), value, is_bad };
        let mut tiles = vec![
            tile("verdict", verdict.to_string(), false),
            tile(
                &format!("B's {} over A's", self.by.unit()),
                if is_known { percent(ratio.middle) } else { "–".to_owned() },
                false,
            ),
            tile("the truth is between", between, false),
            tile("pairs that count", comparison.pairs().to_string(), comparison.pairs() == 0),
            tile("pairs spoilt", comparison.spoilt().to_string(), comparison.spoilt() > comparison.pairs()),
        ];
        if let (Some(promise), Some(share)) = (comparison.promise(), self.options.slo) {
            let name = format!("promise: slower by less than {} %", share * 100.0);
            tiles.push(tile(&name, promise.name().to_owned(), promise == Promise::Broken));
        }
        let section = |title: &str, text: &str, body: Body| Section {
            title: title.to_owned(),
            text: text.to_owned(),
            body,
        };
        let urls: Vec<String> = self.options.targets.iter().map(|target| target.url.to_string()).collect();
        let mut rows = vec![vec!["command".to_owned(), self.options.command.clone()]];
        for (name, url) in ["A", "B"].iter().zip(&urls) {
            rows.push(vec![(*name).to_owned(), url.clone()]);
        }
        let here = Environment::here().rows();
        rows.extend(here.into_iter().map(|(name, value)| vec![name.to_owned(), value]));
        page(
            "A and B compared",
            &[
                section("At a glance", "", Body::Tiles(tiles)),
                section("Pairs", &format!("{} of each run, one right after the other.", self.by.unit()), {
                    Body::Charts(self.charts(ratio, is_known))
                }),
                section("What was found", "", Body::Pre(self.report())),
                section("Configuration and environment", "", Body::Table(Vec::new(), rows)),
            ],
        )
    }

    /// Both costs, and their ratio with its interval, pair by pair.
    fn charts(&self, ratio: Interval, is_known: bool) -> Vec<String> {
        let costs = self.comparison.costs();
        if costs.is_empty() {
            return Vec::new();
        }
        let series = |name: &str, of: &dyn Fn(&(f64, f64)) -> f64, only_marks: bool| Series {
            name: name.to_owned(),
            points: costs.iter().enumerate().map(|(at, pair)| ((at + 1) as f64, of(pair))).collect(),
            only_marks,
        };
        let unit = match self.by {
            super::By::Latency => "ms",
            super::By::Cpu | super::By::Rate => "µs",
        };
        let chart = |title: &str, y: &str, series: Vec<Series>| {
            let (title, x_label, y_label) = (title.to_owned(), "pair".to_owned(), y.to_owned());
            Line { title, x_label, y_label, series, ..Line::default() }.svg()
        };
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        let mut ratios = vec![series("B over A", &|(a, b)| percent(b / a), true)];
        if is_known {
            ratios.push(series("mean", &|_| percent(ratio.middle), false));
            ratios.push(series("lowest", &|_| percent(ratio.low), false));
            ratios.push(series("highest", &|_| percent(ratio.high), false));
        } else {
            ratios.push(series("equal", &|_| EQUAL * 100.0, false));
        }
        vec![
            chart(
                "Both, pair by pair",
                unit,
                vec![series("A", &|pair| pair.0, false), series("B", &|pair| pair.1, false)],
            ),
            chart("Difference", "% of A", ratios),
        ]
    }
}
