//! What is wanted of a site: one primary figure, made a cost, and what must hold besides.

use brisk_load::histogram::Histogram;
use brisk_load::report::RunReport;
use brisk_load::sweep::slo::Slo;
use brisk_load::watch::TierSummary;

/// What holds where a goal says nothing of errors: who answers with errors is fast.
const USUAL_PROMISE: &str = "errors<1%";

/// The primary figure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    /// Good answers per second; the cost is the time per answer.
    Rate,
    /// This share of users waits less.
    Quantile(f64),
    /// What users wait in the mean.
    Mean,
    /// CPU of all tiers per response.
    Cpu,
    /// Memory of all tiers.
    Memory,
}

impl Figure {
    /// The standard error of the figure of a slice with these latencies, as a share of it.
    fn error_of(self, latency: &Histogram) -> f64 {
        let count = latency.count().max(1) as f64;
        match self {
            // Counts vary by their root (Poisson), and so does what is counted per response.
            Self::Rate | Self::Cpu => 1.0 / count.sqrt(),
            Self::Mean => latency.deviation() / latency.mean().max(1.0) / count.sqrt(),
            // The share of values below a quantile varies by this much, and the quantile between those of the shares around it.
            Self::Quantile(share) => {
                let off = (share * (1.0 - share) / count).sqrt();
                let between = |share: f64| latency.quantile(share.clamp(0.0, 1.0)) as f64;
                // Over twice as much: a histogram's classes are as wide as one deviation of a long slice.
                (between(share + 2.0 * off) - between(share - 2.0 * off)) / 4.0 / between(share).max(1.0)
            }
            // It is read, not counted.
            Self::Memory => 0.0,
        }
    }
}

/// Some seconds of real traffic, as the server itself has seen them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stretch {
    /// Per second.
    pub requests: f64,
    /// Of these, those with a status of 500 or above.
    pub failed: f64,
    /// Half of them, 95 % and 99 % took at most so long, in microseconds.
    pub quantiles_us: [Option<f64>; 3],
    /// CPU of the server per second, in microseconds.
    pub cpu_us: f64,
    /// Memory of the server, in bytes.
    pub memory: f64,
}

impl Stretch {
    /// Of seconds one after another: means, the median of times, and the most of memory.
    pub fn of(seconds: &[Stretch]) -> Stretch {
        let count = seconds.len().max(1) as f64;
        let mean = |figure: fn(&Stretch) -> f64| seconds.iter().map(figure).sum::<f64>() / count;
        let middle = |index: usize| {
            let mut all: Vec<f64> = seconds.iter().filter_map(|second| second.quantiles_us[index]).collect();
            all.sort_unstable_by(f64::total_cmp);
            all.get(all.len() / 2).copied()
        };
        Stretch {
            requests: mean(|second| second.requests),
            failed: mean(|second| second.failed),
            quantiles_us: [0, 1, 2].map(middle),
            cpu_us: mean(|second| second.cpu_us),
            memory: seconds.iter().map(|second| second.memory).fold(0.0, f64::max),
        }
    }
}

/// Quantiles that the server keeps.
const SEEN: [f64; 3] = [0.5, 0.95, 0.99];

/// A goal as it was given, understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    text: String,
    figure: Figure,
    promises: Vec<Slo>,
    /// Nothing was promised but what always is.
    is_usual: bool,
}

impl Goal {
    /// Reads `max rate where p95<300ms, errors<0.1%`, `min p95`, `min cpu` and the like.
    pub fn parse(text: &str) -> Result<Goal, String> {
        let (aim, promised) = match text.split_once(" where ") {
            Some((aim, promised)) => (aim, Some(promised)),
            None => (text, None),
        };
        let words: Vec<&str> = aim.split_whitespace().collect();
        let figure = match words[..] {
            ["max", "rate"] => Some(Figure::Rate),
            ["min", "mean"] => Some(Figure::Mean),
            ["min", "cpu"] => Some(Figure::Cpu),
            ["min", "memory"] => Some(Figure::Memory),
            ["min", quantile] => quantile_of(quantile).map(Figure::Quantile),
            _ => None,
        };
        let figure = figure.ok_or_else(|| {
            format!(
                "\"{aim}\" is no goal: write \"max rate\", \"min p95\", \"min mean\", \"min cpu\" or \"min memory\", and behind it \
                 promises, as in \"max rate where p95<300ms, errors<0.1%\""
            )
        })?;
        let mut promises = Vec::new();
        if !promised.is_some_and(|promised| promised.contains("errors")) {
            promises.push(Slo::parse(USUAL_PROMISE)?);
        }
        promises.extend(promised.map(Slo::parse).transpose()?);
        Ok(Goal { text: text.to_owned(), figure, promises, is_usual: promised.is_none() })
    }

    /// As it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the tiers have to be watched for it.
    pub fn asks_tiers(&self) -> bool {
        matches!(self.figure, Figure::Cpu | Figure::Memory)
    }

    /// The primary figure of a run as a cost: less is better. `None`: the run does not say.
    pub fn cost(&self, run: &RunReport) -> Option<f64> {
        let latency = run.seen().latency;
        let tiers = |figure: fn(&TierSummary) -> f64| {
            run.tiers().map(|(tiers, _)| tiers.iter().map(figure).sum::<f64>())
        };
        let cost = match self.figure {
            _ if latency.count() == 0 => None,
            Figure::Rate => Some(1e6 / run.goodput()),
            Figure::Quantile(share) => Some(latency.quantile(share) as f64 / 1e3),
            Figure::Mean => Some(latency.mean() / 1e3),
            Figure::Cpu => tiers(|tier| tier.cpu_us_per_response),
            Figure::Memory => tiers(|tier| tier.pss_max as f64),
        };
        cost.filter(|cost| cost.is_finite() && *cost > 0.0)
    }

    /// How far the cost of this run is off by chance at least, as a share of it: its standard error if requests do not depend on
    /// each other.
    pub fn error(&self, run: &RunReport) -> f64 {
        let latency = run.seen().latency;
        self.figure.error_of(latency)
    }

    /// So many answers are enough for a slice. `are_whole`: its users begin together, and what each has asked for is waited for, so that no part of a
    /// request is cut off: rates and CPU vary with the machine more than with chance then.
    pub fn answers_enough(&self, are_whole: bool) -> f64 {
        match self.figure {
            Figure::Rate | Figure::Cpu | Figure::Memory if are_whole => 100.0,
            _ => 1000.0,
        }
    }

    /// An error if the server's own figures do not have what is wanted.
    pub fn must_be_seen_from_outside(&self) -> Result<(), String> {
        let is_seen = match self.figure {
            Figure::Quantile(share) => index_of(share).is_some(),
            Figure::Cpu | Figure::Memory => true,
            Figure::Rate | Figure::Mean => false,
        };
        // How many requests come is the visitors' business, and promises are held by the guard.
        if is_seen && self.is_usual {
            return Ok(());
        }
        Err("--live has \"min p50\", \"min p95\", \"min p99\", \"min cpu\" and \"min memory\", without promises: errors and waiting times are \
             watched each second"
            .to_owned())
    }

    /// The primary figure of some seconds of real traffic as a cost; `None`: they do not say.
    pub fn cost_of(&self, stretch: &Stretch) -> Option<f64> {
        let cost = match self.figure {
            Figure::Quantile(share) => stretch.quantiles_us[index_of(share)?],
            Figure::Cpu => Some(stretch.cpu_us / stretch.requests),
            Figure::Memory => Some(stretch.memory),
            Figure::Rate | Figure::Mean => None,
        };
        cost.filter(|cost| cost.is_finite() && *cost > 0.0)
    }

    /// What the cost is counted in.
    pub fn unit(&self) -> &'static str {
        match self.figure {
            Figure::Rate => "µs per good answer",
            Figure::Quantile(_) | Figure::Mean => "µs",
            Figure::Cpu => "CPU µs per answer",
            Figure::Memory => "bytes",
        }
    }

    /// A cost as people read it.
    pub fn shown(&self, cost: f64) -> String {
        match self.figure {
            Figure::Rate => format!("{:.1} answers per second", 1e6 / cost),
            Figure::Quantile(_) | Figure::Mean => format!("{:.2} ms", cost / 1e3),
            Figure::Cpu => format!("{cost:.0} µs of CPU per answer"),
            Figure::Memory => format!("{:.0} MiB", cost / 1_048_576.0),
        }
    }

    /// What was promised and does not hold, in words.
    pub fn broken(&self, run: &RunReport) -> Vec<String> {
        self.promises.iter().flat_map(|slo| slo.broken(&run.seen())).collect()
    }
}

fn index_of(share: f64) -> Option<usize> {
    SEEN.iter().position(|seen| (seen - share).abs() < 1e-9)
}

/// `p95` as a share.
fn quantile_of(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_prefix('p')?.parse().ok()?;
    (percent > 0.0 && percent < 100.0).then_some(percent / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_read() {
        let goal = Goal::parse("max rate where p95<300ms, errors<0.1%").unwrap();
        assert_eq!((goal.figure, goal.promises.len()), (Figure::Rate, 1));
        assert_eq!(goal.shown(2000.0), "500.0 answers per second");
        let goal = Goal::parse("min p99.9 where rate>50").unwrap();
        assert_eq!(goal.promises.len(), 2, "errors are always promised");
        assert!(matches!(goal.figure, Figure::Quantile(share) if (share - 0.999).abs() < 1e-9));
        assert!(Goal::parse("min cpu").unwrap().asks_tiers());
        assert!(!Goal::parse("min mean").unwrap().asks_tiers());
        for bad in ["", "rate", "max p95", "min p0", "min p100", "max rate where", "max rate where fast"] {
            assert!(Goal::parse(bad).is_err(), "{bad}");
        }
        let error = Goal::parse("max speed").unwrap_err();
        assert!(error.contains("write \"max rate\""), "{error}");
    }

    #[test]
    fn real_traffic_has_other_figures() {
        let second = |p95: f64| Stretch {
            requests: 100.0,
            quantiles_us: [Some(1.0), Some(p95), None],
            cpu_us: 5000.0,
            ..Stretch::default()
        };
        let stretch = Stretch::of(&[second(10.0), second(90.0), second(20.0)]);
        let cost = |goal: &str| Goal::parse(goal).unwrap().cost_of(&stretch);
        assert_eq!(
            (cost("min p95"), cost("min cpu"), cost("min p99"), cost("max rate")),
            (Some(20.0), Some(50.0), None, None)
        );
        let is_seen = |goal: &str| Goal::parse(goal).unwrap().must_be_seen_from_outside().is_ok();
        assert!(is_seen("min p99") && is_seen("min memory"));
        assert!(!is_seen("max rate") && !is_seen("min p90") && !is_seen("min p95 where errors<1%"));
    }

    /// Ten thousand values of 1 to 2 ms, evenly: all errors are known.
    #[test]
    fn errors_by_chance_are_those_of_their_distributions() {
        let mut latency = Histogram::default();
        (0..10_000).for_each(|value| latency.record(1_000_000 + value * 100));
        let is_near = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < 0.1;
        assert!(is_near(Figure::Rate.error_of(&latency), 0.01));
        // The deviation of an even distribution is its width over the root of 12.
        assert!(is_near(Figure::Mean.error_of(&latency), 1.0 / 12f64.sqrt() / 1.5 / 100.0));
        let median = Figure::Quantile(0.5).error_of(&latency);
        // As near as the histogram's classes let it be.
        assert!((median / (0.005 / 1.5) - 1.0).abs() < 0.3, "{median}");
        assert!(Figure::Quantile(0.99).error_of(&latency) < median);
        assert!(Figure::Memory.error_of(&latency).abs() < f64::EPSILON);
        assert!(is_near(Figure::Rate.error_of(&Histogram::default()), 1.0));
    }
}
