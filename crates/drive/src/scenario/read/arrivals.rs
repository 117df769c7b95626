//! Users who arrive: `arrivals = { … }`, and stages of rates.

use super::super::keys::Scope;
use super::super::model::{Arrivals, Stage};
use super::{LENGTH, Node, Reader, find};
use crate::limits::ARRIVED_USERS_MAX;
use brisk_load::arrivals::{Distribution, Rate, Schedule};
use std::time::Duration;
use toml::Spanned;

/// A rate after a ramp.
struct RateStage {
    rate: f64,
    over: Duration,
    hold: Duration,
}

/// A ramp from the rate before it, and the plateau behind it, for each.
fn schedule(stages: &[RateStage]) -> Schedule {
    let mut before = 0.0;
    let mut pieces = Vec::new();
    for &RateStage { rate, over, hold } in stages {
        pieces.push((Rate { from: before, to: rate, over }, over));
        pieces.push((Rate::constant(rate), hold));
        before = rate;
    }
    Schedule::new(pieces)
}

impl Reader<'_> {
    /// How users arrive; `None`: they are there.
    pub(super) fn arrivals(&mut self, root: Node<'_>) -> Option<Arrivals> {
        let list = find(root, "stage").and_then(|list| list.get_ref().as_array());
        let stages = list.into_iter().flatten().filter_map(|stage| stage.get_ref().as_table());
        let has_rates = stages.into_iter().any(|stage| find(stage, "rate").is_some());
        let value = find(root, "arrivals");
        let table = match value {
            None if !has_rates => return None,
            None => None,
            Some(value) => {
                let table = value.get_ref().as_table();
                if table.is_none() {
                    let help = "write arrivals = { rate = 40, distribution = \"poisson\" }";
                    self.fault(value.span(), "\"arrivals\" is a table", help);
                }
                table
            }
        };
        let (mut distribution, mut users_max) = (Distribution::Constant, ARRIVED_USERS_MAX);
        if let Some(table) = table {
            self.known(table, Scope::Arrivals);
            if self.one_of(table, Scope::Arrivals, "distribution") == Some("poisson") {
                distribution = Distribution::Poisson;
            }
            users_max = self.count(table, Scope::Arrivals, "users_max").unwrap_or(users_max);
        }
        if let Some(value) = find(root, "users") {
            let help = "leave one of them out; users_max of arrivals is how many there may be at a time";
            self.fault(value.span(), "\"users\" has no meaning beside arrivals", help);
        }
        let stages = if list.is_some() { self.rate_stages(root, table) } else { self.one_rate(root, table) };
        let schedule = schedule(&stages);
        if schedule.arrivals() <= 0.0 && self.faults.is_empty() {
            let span = value.or_else(|| find(root, "stage")).map_or(0..0, Spanned::span);
            self.fault(
                span.start..span.start,
                "nobody arrives",
                "write a rate above 0 and a time: rate = 40, hold = \"1m\"",
            );
        }
        Some(Arrivals { distribution, schedule, users_max: users_max as usize })
    }

    /// `arrivals = { rate = 40 }`, with the file's ramp and duration.
    fn one_rate(&mut self, root: Node<'_>, table: Option<Node<'_>>) -> Vec<RateStage> {
        let rate = table.and_then(|table| self.number(table, Scope::Arrivals, "rate"));
        if table.is_some_and(|table| find(table, "rate").is_none()) {
            let span = find(root, "arrivals").map_or(0..0, Spanned::span);
            self.fault(span, "arrivals without a rate", "write rate = 40, or [[stage]] with rates");
        }
        let (over, length) = (self.time(root, "ramp").unwrap_or_default(), self.span(root, "duration"));
        if let (Some(value), Some(length)) = (find(root, "ramp"), length)
            && over > length
        {
            let help = "the duration includes the ramp: make it longer, or the ramp shorter";
            self.fault(value.span(), "a ramp that is longer than the duration", help);
        }
        let hold = length.unwrap_or(LENGTH.max(over)).saturating_sub(over);
        vec![RateStage { rate: rate.unwrap_or_default(), over, hold }]
    }

    /// Users who are there beside those who arrive, if a stage has some; none in stages that do not name them.
    pub(super) fn present_stages(&mut self, root: Node<'_>) -> Vec<Stage> {
        let list = find(root, "stage").and_then(|list| list.get_ref().as_array());
        let nodes: Vec<Node<'_>> =
            list.into_iter().flatten().filter_map(|stage| stage.get_ref().as_table()).collect();
        if !nodes.iter().any(|node| find(node, "users").is_some()) {
            return Vec::new();
        }
        let mut stages = Vec::new();
        for node in nodes {
            let users = self.count(node, Scope::Stage, "users").unwrap_or(0) as usize;
            let (over, hold) = (self.time(node, "over"), self.time(node, "hold"));
            stages.push(Stage { users, over: over.unwrap_or_default(), hold: hold.unwrap_or_default() });
        }
        stages
    }

    /// `[[stage]]` with rates.
    fn rate_stages(&mut self, root: Node<'_>, table: Option<Node<'_>>) -> Vec<RateStage> {
        let given = table.and_then(|table| find(table, "rate"));
        for (name, value) in
            [("rate", given), ("ramp", find(root, "ramp")), ("duration", find(root, "duration"))]
        {
            if let Some(value) = value {
                self.meaningless_beside_stages(name, value.span());
            }
        }
        let mut stages = Vec::new();
        for (span, node) in self.tables(root, "stage") {
            self.known(node, Scope::Stage);
            if find(node, "rate").is_none() && find(node, "users").is_none() {
                self.fault(
                    span,
                    "a stage without users and without a rate",
                    "write rate = 40, or users = 50",
                );
            }
            let rate = self.rate(node, Scope::Stage, "rate").unwrap_or(0.0);
            let (over, hold) = (self.time(node, "over"), self.time(node, "hold"));
            stages.push(RateStage { rate, over: over.unwrap_or_default(), hold: hold.unwrap_or_default() });
        }
        stages
    }
}

#[cfg(test)]
mod tests {
    use super::super::text;
    use super::*;
    use std::path::Path;

    const USER: &str = "[[user]]\n[[user.step]]\nrequest = \"GET /\"\n";

    fn read(more: &str) -> Result<super::super::Scenario, String> {
        text(&format!("target = \"http://h\"\n{more}\n{USER}"), Path::new(""))
            .map_err(|faults| faults.into_iter().map(|fault| fault.text).collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn users_arrive_at_a_rate_or_in_stages_of_rates() {
        let secs = Duration::from_secs;
        let one = read("arrivals = { rate = 40, distribution = \"poisson\" }\nduration = \"1m\"").unwrap();
        let arrivals = one.arrivals.as_ref().unwrap();
        assert_eq!(
            (arrivals.distribution, one.length(), one.iterations),
            (Distribution::Poisson, secs(60), None)
        );
        assert!((arrivals.schedule.arrivals() - 2400.0).abs() < 1e-6 && one.users_max() == 4000);
        let ramp = read(
            "iterations = 3\nramp = \"10s\"\nduration = \"20s\"\narrivals = { rate = 10, users_max = 5 }",
        )
        .unwrap();
        let arrivals = ramp.arrivals.as_ref().unwrap();
        assert!((arrivals.schedule.arrivals() - 150.0).abs() < 1e-6);
        assert_eq!(
            (ramp.iterations, ramp.users_max(), arrivals.distribution),
            (Some(3), 5, Distribution::Constant)
        );
        let stages = read(
            "arrivals = { distribution = \"poisson\" }\n[[stage]]\nrate = 20\nover = \"10s\"\nhold = \"5s\"\n[[stage]]\nrate = 0\nover = \"10s\"",
        );
        let stages = stages.unwrap();
        assert!((stages.arrivals.as_ref().unwrap().schedule.arrivals() - 300.0).abs() < 1e-6);
        assert_eq!(stages.length(), secs(25));
        let plain = read("[[stage]]\nrate = 2.5\nhold = \"4s\"").unwrap();
        assert!((plain.arrivals.unwrap().schedule.arrivals() - 10.0).abs() < 1e-6);
        // Users who are there for a while, then some who arrive, then both.
        let both = read(
            "[[stage]]\nusers = 20\nhold = \"10s\"\n[[stage]]\nrate = 3\nhold = \"10s\"\n[[stage]]\nusers = 5\nrate = 1\nhold = \"10s\"",
        )
        .unwrap();
        let users: Vec<usize> = both.stages.iter().map(|stage| stage.users).collect();
        assert_eq!(
            (users, both.length(), both.present_max(), both.users_max()),
            (vec![20, 0, 5], secs(30), 20, 4020)
        );
        assert_eq!(both.presence(3), [(secs(0), secs(10)), (secs(20), secs(30))]);
        assert!((both.arrivals.unwrap().schedule.arrivals() - 40.0).abs() < 1e-6);
        assert!(read("thresholds = [\"sessions: p95 < 5s\"]\narrivals = { rate = 1 }").is_ok());
    }

    #[test]
    fn what_makes_no_sense_of_arrivals() {
        for (more, want) in [
            ("arrivals = 40", "\"arrivals\" is a table"),
            ("arrivals = {}", "without a rate"),
            ("arrivals = { rate = 0 }", "\"rate\" is a number above 0"),
            ("arrivals = { rate = 1, distribution = \"normal\" }", "\"normal\" is not a value"),
            ("arrivals = { rate = 1, burst = 2 }", "unknown key \"burst\""),
            ("users = 5\narrivals = { rate = 1 }", "\"users\" has no meaning beside arrivals"),
            (
                "arrivals = { rate = 1 }\n[[stage]]\nrate = 2\nhold = \"1s\"",
                "\"rate\" has no meaning beside [[stage]]",
            ),
            (
                "[[stage]]\nrate = 2\nhold = \"1s\"\n[[stage]]\nhold = \"2s\"",
                "without users and without a rate",
            ),
            ("[[stage]]\nrate = -2\nhold = \"1s\"", "\"rate\" is a number, 0 or more"),
            ("[[stage]]\nrate = 0\nhold = \"1s\"", "nobody arrives"),
            ("ramp = \"20s\"\nduration = \"10s\"\narrivals = { rate = 1 }", "a ramp that is longer"),
            ("thresholds = [\"sessions: p95 < 5s\"]", "no step and no group is called \"sessions\""),
        ] {
            let found = read(more).unwrap_err();
            assert!(found.contains(want), "{more}: {found}");
        }
    }
}
