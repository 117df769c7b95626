//! One knob: numbers by hill climbing and a parabola through what was measured, choices by a look at each.

use super::{Dimension, Search, Step, Stop, Verdict};
use brisk_statistics::sample::mean;
use std::collections::BTreeMap;

/// A step of the climb, as a part of the knob's range.
const STRIDE: f64 = 0.25;
/// Points this near to the best one are what the parabola goes through.
const NEAR: f64 = 0.55;
/// Pairs of the level that is good for many.
const LEAP_PAIRS: usize = 2;
/// Pairs that a number gets at least before nothing is said to be better.
const PAIRS: usize = 4;

/// What was measured of a knob: the logarithms by level, relative to the level of the best configuration, which is 0.
#[derive(Default)]
struct Profile {
    logs: BTreeMap<usize, Vec<f64>>,
    /// Levels that do not run.
    impossible: Vec<usize>,
}

impl Profile {
    fn value(&self, level: usize) -> Option<f64> {
        self.logs.get(&level).map(|logs| mean(logs))
    }

    fn best(&self) -> Option<(usize, f64)> {
        let means = self.logs.iter().map(|(level, logs)| (*level, mean(logs)));
        means.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn pairs(&self) -> usize {
        self.logs.values().map(Vec::len).sum()
    }
}

impl Search<'_> {
    /// A knob whose levels are numbers.
    pub(super) fn climb(&mut self, index: usize) -> Result<Step, Stop> {
        let mut profile = Profile::default();
        if !self.leap(index, &mut profile)? {
            let own = (self.best[index], 0.0);
            let up = self.walk(index, own, 1.0, &mut profile)?;
            if up > -self.noise.deviation() {
                self.walk(index, own, -1.0, &mut profile)?;
            }
        }
        self.make_sure(index, &mut profile)?;
        let Some((level, value)) = profile.best() else {
            return Ok(self.step(index, self.best[index], Verdict::Dropped, (0.0, f64::INFINITY), 0));
        };
        if value > -self.noise.deviation() / 1.5 {
            return Ok(self.none(index, level, &profile));
        }
        // The top may lie between what was measured; what is measured there bends the parabola once more.
        let top = self.top(index, level, &profile);
        if profile.value(top).is_none() {
            self.probe(index, top, &mut profile)?;
        }
        let Some((level, _)) = profile.best() else { return Ok(self.none(index, top, &profile)) };
        let candidate = self.top(index, level, &profile);
        self.tested(index, candidate)
    }

    /// Looks at what is good for many, which steps from far off would not reach past the noise, and climbs on from there if it is better; gives
    /// whether it is.
    fn leap(&mut self, index: usize, profile: &mut Profile) -> Result<bool, Stop> {
        let own = self.best[index];
        let Dimension { places, usual, .. } = &self.dimensions[index];
        let Some(usual) = usual.filter(|usual| (places[*usual] - places[own]).abs() > STRIDE) else {
            return Ok(false);
        };
        let away = (places[usual] - places[own]).signum();
        let mut value = 0.0;
        for _ in 0..LEAP_PAIRS {
            let Some(mean) = self.probe(index, usual, profile)? else { return Ok(false) };
            value = mean;
        }
        // Half a deviation of one pair: more than half of what does nothing goes the usual way.
        if value > -self.noise.deviation() / 2.0 {
            return Ok(false);
        }
        let beyond = self.walk(index, (usual, value), away, profile)?;
        if beyond >= value {
            self.walk(index, (usual, value), -away, profile)?;
        }
        Ok(true)
    }

    /// A number at the end of its range has one direction, and one unlucky pair there would be all that is known of it: a few more, at
    /// two strides and at one.
    fn make_sure(&mut self, index: usize, profile: &mut Profile) -> Result<(), Stop> {
        let own = self.best[index];
        let direction = if self.next_level(index, own, 1.0).is_some() { 1.0 } else { -1.0 };
        let Some(near) = self.next_level(index, own, direction) else { return Ok(()) };
        let far = self.next_level(index, near, direction).unwrap_or(near);
        for level in [far, near].into_iter().cycle().take(PAIRS) {
            if profile.pairs() >= PAIRS {
                break;
            }
            self.probe(index, level, profile)?;
        }
        Ok(())
    }

    /// A knob whose levels are choices.
    pub(super) fn choose(&mut self, index: usize) -> Result<Step, Stop> {
        let own = self.best[index];
        let others: Vec<usize> =
            (0..self.dimensions[index].places.len()).filter(|level| *level != own).collect();
        if let [other] = others[..] {
            return self.tested(index, other);
        }
        let mut profile = Profile::default();
        for level in others {
            for _ in 0..2 {
                self.probe(index, level, &mut profile)?;
            }
        }
        match profile.best() {
            Some((level, value)) if value < 0.0 => self.tested(index, level),
            Some((level, _)) => Ok(self.none(index, level, &profile)),
            None => Ok(self.step(index, own, Verdict::Dropped, (0.0, f64::INFINITY), 0)),
        }
    }

    /// Nothing looks better.
    fn none(&mut self, index: usize, level: usize, profile: &Profile) -> Step {
        self.tests += 1;
        let logs = profile.logs.get(&level).map_or(&[][..], Vec::as_slice);
        let reach = self.noise.reach(logs.len(), self.error());
        self.step(index, level, Verdict::NoGain, (mean(logs), reach), profile.pairs())
    }

    /// Goes from a level with its value in one direction while it gets better; gives the best value that was met.
    fn walk(
        &mut self,
        index: usize,
        (mut at, mut best): (usize, f64),
        direction: f64,
        profile: &mut Profile,
    ) -> Result<f64, Stop> {
        let own = self.best[index];
        while let Some(next) = self.next_level(index, at, direction).filter(|next| *next != own) {
            let Some(mut value) = self.probe(index, next, profile)? else { break };
            if (value - best).abs() < 1.5 * self.noise.deviation() {
                value = self.probe(index, next, profile)?.unwrap_or(value);
            }
            // On a slope that has shown itself a step that is a little worse may be an accident.
            let doubt = if best < -self.noise.deviation() { 1.2 * self.noise.deviation() } else { 0.0 };
            if value >= best + doubt {
                break;
            }
            (at, best) = (next, value.min(best));
        }
        Ok(best)
    }

    /// The level one stride away, or the last one before the end.
    fn next_level(&self, index: usize, at: usize, direction: f64) -> Option<usize> {
        let places = &self.dimensions[index].places;
        let wanted = places[at] + direction * STRIDE;
        let beyond = (0..places.len()).filter(|level| (places[*level] - places[at]) * direction > 1e-9);
        beyond.min_by(|a, b| (places[*a] - wanted).abs().total_cmp(&(places[*b] - wanted).abs()))
    }

    /// One more pair at this level; gives the mean there. `None`: it does not run.
    fn probe(&mut self, index: usize, level: usize, profile: &mut Profile) -> Result<Option<f64>, Stop> {
        if profile.impossible.contains(&level) {
            return Ok(None);
        }
        let Some(log) = self.measure(self.best.clone(), self.with(index, level), false)? else {
            profile.impossible.push(level);
            return Ok(None);
        };
        let logs = profile.logs.entry(level).or_default();
        logs.push(log);
        if logs.len() == 2 {
            self.noise.of_same(logs);
        }
        Ok(profile.value(level))
    }

    /// The level nearest to the top of a parabola through the points around the best one; that one if they do not bend.
    fn top(&self, index: usize, best: usize, profile: &Profile) -> usize {
        let places = &self.dimensions[index].places;
        let own = self.best[index];
        // The present level is exactly 0, by definition.
        const CERTAIN: f64 = 4.0;
        let measured =
            profile.logs.iter().map(|(level, logs)| (places[*level], mean(logs), logs.len() as f64));
        let near: Vec<(f64, f64, f64)> = measured
            .chain([(places[own], 0.0, CERTAIN)])
            .filter(|(place, ..)| (place - places[best]).abs() <= NEAR)
            .collect();
        let (low, high) = near.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |ends, (place, ..)| {
            (ends.0.min(*place), ends.1.max(*place))
        });
        let Some(top) = bottom_of_parabola(&near).filter(|top| (low..=high).contains(top)) else {
            return best;
        };
        let is_possible = |level: &usize| *level != own && !profile.impossible.contains(level);
        let nearest = (0..places.len()).filter(is_possible);
        nearest.min_by(|a, b| (places[*a] - top).abs().total_cmp(&(places[*b] - top).abs())).unwrap_or(best)
    }
}

/// Where the parabola of least weighted squares through (x, y, weight) is lowest; `None` if it does not bend upwards.
fn bottom_of_parabola(points: &[(f64, f64, f64)]) -> Option<f64> {
    if points.len() < 3 {
        return None;
    }
    // Around the mean the equations are well conditioned.
    let weights: f64 = points.iter().map(|point| point.2).sum();
    let middle = points.iter().map(|point| point.0 * point.2).sum::<f64>() / weights;
    let sum = |power: i32, with_y: bool| -> f64 {
        let term = |(x, y, weight): &(f64, f64, f64)| {
            weight * (x - middle).powi(power) * if with_y { *y } else { 1.0 }
        };
        points.iter().map(term).sum()
    };
    let [s0, s1, s2, s3, s4] = [0, 1, 2, 3, 4].map(|power| sum(power, false));
    let [t0, t1, t2] = [0, 1, 2].map(|power| sum(power, true));
    // Cramer's rule for y = p + q·x + r·x².
    let det = |m: [[f64; 3]; 3]| {
        m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
            + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
    };
    let whole = det([[s0, s1, s2], [s1, s2, s3], [s2, s3, s4]]);
    if whole.abs() < 1e-12 {
        return None;
    }
    let slope = det([[s0, t0, s2], [s1, t1, s3], [s2, t2, s4]]) / whole;
    let bend = det([[s0, s1, t0], [s1, s2, t1], [s2, s3, t2]]) / whole;
    (bend > 1e-9).then(|| middle - slope / (2.0 * bend))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parabola_s_bottom() {
        let curve = |x: f64| (x, 3.0 + 2.0 * (x - 0.4) * (x - 0.4), 1.0);
        let bottom = bottom_of_parabola(&[curve(0.0), curve(0.3), curve(0.9), curve(1.0)]).unwrap();
        assert!((bottom - 0.4).abs() < 1e-9);
        assert_eq!(bottom_of_parabola(&[(0.0, 0.0, 1.0), (0.5, 1.0, 1.0), (1.0, 0.0, 1.0)]), None);
        assert_eq!(bottom_of_parabola(&[(0.0, 0.0, 1.0), (0.5, 1.0, 1.0)]), None);
        assert_eq!(bottom_of_parabola(&[(0.5, 0.0, 1.0), (0.5, 1.0, 1.0), (0.5, 2.0, 1.0)]), None);
    }
}
