//! Interactions: knobs that were found one after the other may want each other's neighbours.

use super::{Point, Search, Stop, Verdict};
use crate::limits::{INTERACTION_POINTS, TOURNAMENT};
use brisk_statistics::rng::Rng;
use brisk_statistics::sample::mean;

/// How far around the best configuration is looked, as a part of a knob's range.
const AROUND: f64 = 0.2;
/// Where pairs scatter more than this, short slices tell nothing of what neighbours differ in.
const NOISE: f64 = 0.12;
/// A whole look costs so many slices: points on short slices, and the tournament.
const SLICES: f64 = (INTERACTION_POINTS + 2 * TOURNAMENT + 4) as f64;

impl Search<'_> {
    /// Looks around the best configuration, if two numbers or more were changed and there is time.
    pub(super) fn interact(&mut self) -> Result<(), Stop> {
        let is_moved = |index: &usize| {
            self.dimensions[*index].is_ordered && self.best[*index] != self.dimensions[*index].original
        };
        let moved: Vec<usize> = (0..self.dimensions.len()).filter(is_moved).collect();
        if moved.len() < 2 || self.left() < SLICES || self.noise.deviation() > NOISE {
            return Ok(());
        }
        let mut seen: Vec<(Point, f64)> = Vec::new();
        for place in latin(&mut self.rng, INTERACTION_POINTS, moved.len()) {
            let point = self.around(&moved, &place);
            if point == self.best || seen.iter().any(|(have, _)| *have == point) {
                continue;
            }
            if let Some(log) = self.measure(self.best.clone(), point.clone(), true)? {
                seen.push((point, log));
            }
        }
        seen.sort_by(|a, b| a.1.total_cmp(&b.1));
        seen.truncate(TOURNAMENT);
        let Some(winner) = self.tournament(seen)? else { return Ok(()) };
        let tested = self.test(&winner)?;
        if tested.verdict == Verdict::Kept {
            for step in self.steps.iter_mut().filter(|step| moved.contains(&step.dimension)) {
                step.to = winner[step.dimension];
            }
            self.best = winner;
        }
        Ok(())
    }

    /// The best configuration moved to a point of the unit cube around it.
    fn around(&self, moved: &[usize], place: &[f64]) -> Point {
        let mut point = self.best.clone();
        for (index, part) in moved.iter().zip(place) {
            let places = &self.dimensions[*index].places;
            let wanted = places[self.best[*index]] + (part - 0.5) * 2.0 * AROUND;
            let nearest = (0..places.len())
                .min_by(|a, b| (places[*a] - wanted).abs().total_cmp(&(places[*b] - wanted).abs()));
            // A knob that was moved stays so: its step says it is kept.
            if let Some(level) = nearest.filter(|level| *level != self.dimensions[*index].original) {
                point[*index] = level;
            }
        }
        point
    }

    /// Rounds of one pair each, after each of which the worse half leaves; `None` if the last one does not look better.
    fn tournament(&mut self, seen: Vec<(Point, f64)>) -> Result<Option<Point>, Stop> {
        let mut players: Vec<(Point, Vec<f64>)> =
            seen.into_iter().map(|(point, _)| (point, Vec::new())).collect();
        while players.len() > 1 {
            for (point, logs) in &mut players {
                match self.measure(self.best.clone(), point.clone(), false)? {
                    Some(log) => logs.push(log),
                    None => logs.push(f64::INFINITY),
                }
            }
            players.sort_by(|a, b| mean(&a.1).total_cmp(&mean(&b.1)));
            players.truncate(players.len().div_ceil(2));
        }
        let looks_better = |(_, logs): &(Point, Vec<f64>)| mean(logs) < -self.noise.deviation() / 2.0;
        Ok(players.pop().filter(looks_better).map(|(point, _)| point))
    }
}

/// Points of a Latin hypercube: in each dimension each of `count` equal parts has one point.
fn latin(rng: &mut Rng, count: usize, dimensions: usize) -> Vec<Vec<f64>> {
    let mut points = vec![Vec::with_capacity(dimensions); count];
    for _ in 0..dimensions {
        let mut order: Vec<usize> = (0..count).collect();
        rng.shuffle(&mut order);
        for (point, part) in points.iter_mut().zip(order) {
            point.push((part as f64 + rng.unit()) / count as f64);
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_each_dimension_has_one_point() {
        let points = latin(&mut Rng::new(5), 12, 3);
        for dimension in 0..3 {
            let mut parts: Vec<usize> =
                points.iter().map(|point| (point[dimension] * 12.0) as usize).collect();
            parts.sort_unstable();
            assert_eq!(parts, (0..12).collect::<Vec<_>>());
        }
    }
}
