//! The Universal Scalability Law (Gunther): throughput over users, with what is lost to waiting and to agreeing.
//!
//! X(N) = λ·N / (1 + σ·(N − 1) + κ·N·(N − 1)), with λ > 0, 0 ≤ σ ≤ 1 and κ ≥ 0. It is fitted to the rates themselves, by
//! non-linear least squares (Levenberg and Marquardt): the linear form N/X weighs the points with the fewest users most, and
//! describes a saturated server by a law that explains nothing of its rates.

use crate::limits::{EXPLAINED_MIN, FIT_STEPS_MAX};
use crate::sample::student_quantile;

/// A fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usl {
    /// Throughput of one user, per second.
    pub lambda: f64,
    /// Contention: the share that only one can do at a time, 0 to 1.
    pub sigma: f64,
    /// Coherence: what each pair of users costs.
    pub kappa: f64,
    /// The share of the throughput's variance that the fit explains; not below 0 for a least-squares fit of a constant or better.
    pub r2: f64,
    /// Half of the width of the 95 % intervals of λ, σ and κ: 0 where the law does without the parameter, infinite where the
    /// points are too few.
    pub reach: [f64; 3],
}

/// What a trial leaves: parameters, which of them are free, and the sum of the squares of what they do not explain.
#[derive(Debug, Clone, Copy)]
struct Trial {
    values: [f64; 3],
    free: [bool; 3],
    squares: f64,
}

impl Usl {
    /// Fits points of users and throughput: the law with the fewest parameters that explains the rates and is not significantly
    /// worse than the best. `None`: fewer than three different numbers of users, or throughputs that are not positive.
    pub fn fit(points: &[(f64, f64)]) -> Option<Usl> {
        let mut users: Vec<f64> = points.iter().map(|point| point.0).collect();
        users.sort_unstable_by(f64::total_cmp);
        users.dedup();
        let sound = |&(n, x): &(f64, f64)| n >= 1.0 && x > 0.0 && n.is_finite() && x.is_finite();
        if users.len() < 3 || !points.iter().all(sound) {
            return None;
        }
        // Each parameter is free or at an end of its range; the fewest free ones first.
        let ways = [[true, false, false], [true, true, false], [true, false, true], [true, true, true]];
        let trials: Vec<Trial> = ways
            .iter()
            .flat_map(|&free| [0.0, 1.0].map(|sigma| (free, sigma)))
            .filter(|&(free, sigma)| !free[1] || sigma == 0.0)
            .map(|(free, sigma)| search(points, free, sigma))
            .collect();
        let best = trials.iter().copied().min_by(|left, right| left.squares.total_cmp(&right.squares))?;
        let r2 = |trial: &Trial| explained(points, trial.squares);
        let is_good = |trial: &&Trial| r2(trial) >= EXPLAINED_MIN && !is_worse(trial, &best, points);
        let found = *trials.iter().find(is_good).unwrap_or(&best);
        let [lambda, sigma, kappa] = found.values;
        Some(Usl { lambda, sigma, kappa, r2: r2(&found), reach: reach(points, &found) })
    }

    /// Throughput with so many users.
    pub fn throughput(&self, users: f64) -> f64 {
        throughput([self.lambda, self.sigma, self.kappa], users)
    }

    /// The number of users beyond which throughput falls; `None`: it never does.
    pub fn knee(&self) -> Option<f64> {
        (self.kappa > 0.0).then(|| ((1.0 - self.sigma).max(0.0) / self.kappa).sqrt().max(1.0))
    }

    /// The highest throughput that there can be; `None`: there is no limit in sight.
    pub fn peak(&self) -> Option<f64> {
        match self.knee() {
            Some(knee) => Some(self.throughput(knee)),
            None if self.sigma > 0.0 => Some(self.lambda / self.sigma),
            None => None,
        }
    }

    /// The name of a parameter whose interval is wider than the parameter itself: nothing can be concluded from it.
    pub fn vague(&self) -> Option<&'static str> {
        let values = [self.lambda, self.sigma, self.kappa];
        let names = ["the rate of one user", "contention", "coherence"];
        let all = names.into_iter().zip(values.into_iter().zip(self.reach));
        all.into_iter().find(|&(_, (value, reach))| 2.0 * reach > value).map(|(name, _)| name)
    }
}

/// The share of the rates' variance that is not among `squares`.
fn explained(points: &[(f64, f64)], squares: f64) -> f64 {
    let mean = points.iter().map(|point| point.1).sum::<f64>() / points.len() as f64;
    let all: f64 = points.iter().map(|point| (point.1 - mean).powi(2)).sum();
    if all > 0.0 { 1.0 - squares / all } else { 1.0 }
}

fn throughput([lambda, sigma, kappa]: [f64; 3], n: f64) -> f64 {
    lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0))
}

fn squares(points: &[(f64, f64)], values: [f64; 3]) -> f64 {
    points.iter().map(|&(n, x)| (x - throughput(values, n)).powi(2)).sum()
}

fn count(free: [bool; 3]) -> usize {
    free.iter().filter(|&&is_free| is_free).count()
}

/// Whether fewer parameters explain significantly less than the best do (F test at 5 %; one parameter more is Student's).
fn is_worse(trial: &Trial, best: &Trial, points: &[(f64, f64)]) -> bool {
    let scale: f64 = points.iter().map(|point| point.1.powi(2)).sum();
    let more = count(best.free).saturating_sub(count(trial.free));
    let lost = trial.squares - best.squares;
    // What is lost to rounding is no loss.
    if lost <= 1e-18 * scale {
        return false;
    }
    let freedom = points.len().saturating_sub(count(best.free)) as f64;
    if more == 0 || freedom < 1.0 {
        return true;
    }
    let limit = student_quantile(0.975, freedom).powi(2);
    lost / more as f64 > limit * best.squares / freedom
}

/// The best values of the free parameters; σ stays at `sigma` and κ at 0 where they are not free.
fn search(points: &[(f64, f64)], free: [bool; 3], sigma: f64) -> Trial {
    // λ follows from the others: the best of a coarse grid is where the search begins.
    let grid = |is_free: bool, fixed: f64, low: i32, high: i32| -> Vec<f64> {
        if is_free {
            (low..=high).map(|step| 10f64.powf(f64::from(step) / 2.0)).collect()
        } else {
            vec![fixed]
        }
    };
    let with_lambda = |sigma: f64, kappa: f64| {
        let shape = |n: f64| throughput([1.0, sigma, kappa], n);
        let (mut both, mut own) = (0.0, 0.0);
        for &(n, x) in points {
            both += x * shape(n);
            own += shape(n).powi(2);
        }
        [both / own, sigma, kappa]
    };
    let kappas = grid(free[2], 0.0, -18, 0);
    let starts = grid(free[1], sigma, -12, 0)
        .into_iter()
        .flat_map(|sigma| kappas.iter().map(move |&kappa| (sigma, kappa)).collect::<Vec<_>>());
    let best = starts
        .map(|(sigma, kappa)| with_lambda(sigma, kappa))
        .min_by(|&left, &right| squares(points, left).total_cmp(&squares(points, right)));
    let mut trial = Trial { values: best.unwrap_or([1.0, sigma, 0.0]), free, squares: 0.0 };
    trial.squares = squares(points, trial.values);
    descend(points, &mut trial);
    trial
}

/// Levenberg's and Marquardt's steps, within the ranges of the parameters.
fn descend(points: &[(f64, f64)], trial: &mut Trial) {
    let mut damping = 1e-3;
    for _ in 0..FIT_STEPS_MAX {
        let (matrix, gradient) = normal_equations(points, trial);
        let mut damped = matrix;
        (0..3).for_each(|at| damped[at][at] *= 1.0 + damping);
        let Some(inverse) = invert(damped) else { return };
        let mut values = trial.values;
        for (at, value) in values.iter_mut().enumerate().filter(|(at, _)| trial.free[*at]) {
            *value += (0..3).map(|other| inverse[at][other] * gradient[other]).sum::<f64>();
        }
        values = [values[0].max(f64::MIN_POSITIVE), values[1].clamp(0.0, 1.0), values[2].max(0.0)];
        let now = squares(points, values);
        if now < trial.squares {
            let is_done = trial.squares - now <= 1e-14 * trial.squares;
            (trial.values, trial.squares) = (values, now);
            if is_done {
                return;
            }
            damping = (damping / 10.0).max(1e-12);
        } else {
            damping *= 10.0;
            if damping > 1e12 {
                return;
            }
        }
    }
}

/// JᵀJ and Jᵀr; parameters that are not free have a row of their own that changes nothing.
fn normal_equations(points: &[(f64, f64)], trial: &Trial) -> ([[f64; 3]; 3], [f64; 3]) {
    let [lambda, sigma, kappa] = trial.values;
    let (mut matrix, mut gradient) = ([[0.0; 3]; 3], [0.0; 3]);
    for &(n, x) in points {
        let below = 1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0);
        let rate = lambda * n / below;
        let slopes = [n / below, -rate * (n - 1.0) / below, -rate * n * (n - 1.0) / below];
        for row in (0..3).filter(|&row| trial.free[row]) {
            for column in (0..3).filter(|&column| trial.free[column]) {
                matrix[row][column] += slopes[row] * slopes[column];
            }
            gradient[row] += slopes[row] * (x - rate);
        }
    }
    (0..3).filter(|&at| !trial.free[at]).for_each(|at| matrix[at][at] = 1.0);
    (matrix, gradient)
}

/// A symmetric matrix's inverse. Its rows are scaled first: columns differ by powers of the number of users.
fn invert(matrix: [[f64; 3]; 3]) -> Option<[[f64; 3]; 3]> {
    let scales: [f64; 3] = std::array::from_fn(|at| matrix[at][at].sqrt());
    if scales.iter().any(|scale| !(scale.is_finite() && *scale > 0.0)) {
        return None;
    }
    let mut rows = [[0.0; 6]; 3];
    for (at, row) in rows.iter_mut().enumerate() {
        for (other, value) in row.iter_mut().take(3).enumerate() {
            *value = matrix[at][other] / scales[at] / scales[other];
        }
        row[3 + at] = 1.0;
    }
    for pivot in 0..3 {
        let best = (pivot..3).max_by(|&a, &b| rows[a][pivot].abs().total_cmp(&rows[b][pivot].abs()))?;
        rows.swap(pivot, best);
        if rows[pivot][pivot].abs() < 1e-14 {
            return None;
        }
        let above = rows[pivot];
        for row in (0..3).filter(|&row| row != pivot) {
            let factor = rows[row][pivot] / above[pivot];
            rows[row].iter_mut().zip(above).for_each(|(value, from)| *value -= factor * from);
        }
    }
    Some(std::array::from_fn(|at| {
        std::array::from_fn(|other| rows[at][3 + other] / rows[at][at] / scales[at] / scales[other])
    }))
}

/// Half of the width of the parameters' 95 % intervals.
fn reach(points: &[(f64, f64)], trial: &Trial) -> [f64; 3] {
    let freedom = points.len().saturating_sub(count(trial.free)) as f64;
    let inverse = invert(normal_equations(points, trial).0);
    std::array::from_fn(|at| match inverse {
        _ if !trial.free[at] => 0.0,
        Some(inverse) if freedom >= 1.0 => {
            student_quantile(0.975, freedom) * (trial.squares / freedom * inverse[at][at].max(0.0)).sqrt()
        }
        _ => f64::INFINITY,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const USERS: [f64; 7] = [1.0, 10.0, 20.0, 50.0, 100.0, 150.0, 200.0];

    pub fn law(lambda: f64, sigma: f64, kappa: f64) -> Usl {
        Usl { lambda, sigma, kappa, r2: 1.0, reach: [0.0; 3] }
    }

    #[test]
    fn exact_data_give_their_coefficients_back() {
        for (lambda, sigma, kappa) in
            [(100.0, 0.02, 1e-4), (35.0, 0.0, 2e-5), (900.0, 0.1, 0.0), (10.0, 0.0, 0.0), (50.0, 1.0, 0.0)]
        {
            let truth = law(lambda, sigma, kappa);
            let points = USERS.map(|users| (users, truth.throughput(users)));
            let fit = Usl::fit(&points).unwrap();
            assert!((fit.lambda / lambda - 1.0).abs() < 1e-6, "{fit:?}");
            assert!((fit.sigma - sigma).abs() < 1e-7 && (fit.kappa - kappa).abs() < 1e-9, "{fit:?}");
            assert!(fit.r2 > 0.999_999 && fit.vague().is_none(), "{fit:?}");
        }
    }

    #[test]
    fn the_knee_is_found_through_noise() {
        let truth = law(40.0, 0.03, 1.5e-4);
        let knee = truth.knee().unwrap();
        let mut rng = Rng::new(41);
        let good = (0..300)
            .filter(|_| {
                let points =
                    USERS.map(|users| (users, truth.throughput(users) * (1.0 + 0.02 * rng.normal())));
                let fit = Usl::fit(&points).unwrap();
                fit.knee().is_some_and(|found| (found / knee - 1.0).abs() < 0.15)
                    && (fit.peak().unwrap() / truth.peak().unwrap() - 1.0).abs() < 0.05
            })
            .count();
        assert!(good >= 285, "{good} of 300");
    }

    /// Whatever is measured: the parameters stay in their ranges, and the law is not worse than one that knows nothing.
    #[test]
    fn no_data_lead_out_of_the_ranges() {
        let mut rng = Rng::new(43);
        for _ in 0..300 {
            let points = USERS.map(|users| (users, 580.0 + 217.0 * rng.unit()));
            let fit = Usl::fit(&points).unwrap();
            assert!(fit.lambda > 0.0 && (0.0..=1.0).contains(&fit.sigma) && fit.kappa >= 0.0, "{fit:?}");
            assert!(fit.r2 > -1e-9, "{points:?} {fit:?}");
        }
        // Falling at once: contention of 128 %, in the linear form.
        let fit = Usl::fit(&[(1.0, 100.0), (2.0, 80.0), (4.0, 70.0), (8.0, 60.0)]).unwrap();
        assert!(fit.sigma <= 1.0 && fit.r2 > 0.5, "{fit:?}");
    }

    /// The linear form is ruled by the points with few users; the rates themselves are not.
    #[test]
    fn a_saturated_curve_is_fitted_to_its_rates() {
        let points = USERS.map(|users| (users, (40.0 * users).min(700.0)));
        let fit = Usl::fit(&points).unwrap();
        assert!(fit.r2 > 0.9, "{fit:?}");
        assert!(
            points.iter().all(|&(n, x)| n < 20.0 || (fit.throughput(n) / x - 1.0).abs() < 0.25),
            "{fit:?}"
        );
    }

    #[test]
    fn intervals_cover_the_truth() {
        let truth = law(40.0, 0.03, 1.5e-4);
        let mut rng = Rng::new(44);
        let covered = (0..300)
            .filter(|_| {
                let points = USERS.map(|users| (users, truth.throughput(users) + 10.0 * rng.normal()));
                let fit = Usl::fit(&points).unwrap();
                (fit.kappa - truth.kappa).abs() <= fit.reach[2]
            })
            .count();
        assert!((270..=298).contains(&covered), "{covered} of 300");
        let three = Usl::fit(&[1.0, 50.0, 200.0].map(|users| (users, truth.throughput(users)))).unwrap();
        assert!(three.vague().is_some(), "three points know nothing of three parameters: {three:?}");
    }

    #[test]
    fn what_cannot_be_fitted_is_not() {
        assert_eq!(Usl::fit(&[(1.0, 5.0), (2.0, 9.0)]), None);
        assert_eq!(Usl::fit(&[(1.0, 5.0), (2.0, 9.0), (2.0, 9.5)]), None);
        assert_eq!(Usl::fit(&[(1.0, 5.0), (2.0, 0.0), (3.0, 9.5)]), None);
        let rising = Usl::fit(&[(1.0, 5.0), (2.0, 11.0), (4.0, 25.0)]).unwrap();
        assert_eq!((rising.knee(), rising.peak()), (None, None), "better than linear is taken for linear");
    }
}
