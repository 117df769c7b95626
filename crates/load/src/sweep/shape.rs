//! What a sweep's rates have the shape of: still growing, saturated, with a knee, or nothing that can be told.

use super::Point;
use super::usl::Usl;
use crate::limits::{EXPLAINED_MIN, FLAT_POINTS_MIN, FLAT_SHARE_MAX, FLAT_USERS_MIN, NOISE_MIN};
use crate::sample::mean;

/// Rates are flat if they differ from their mean by less than so many times the uncertainty of a run.
const NOISES: f64 = 1.5;

/// See the module's head.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// From so many users on more of them get no more together, and no less.
    Saturated {
        /// What they get, per second.
        capacity: f64,
        /// The fewest measured users who get it.
        users: usize,
    },
    /// Beyond so many users, among those measured, more get less.
    Knee(f64),
    /// Within what was measured, more users got more.
    Growing,
    /// The points do not tell, because of this.
    Unclear(String),
}

impl Shape {
    /// Of points in the order of users, and the law that was fitted to them.
    pub fn of(points: &[Point], fit: Option<&Usl>) -> Self {
        if let Some(saturated) = saturated(points) {
            return saturated;
        }
        let Some(fit) = fit else {
            let why = "that needs three different numbers of users with responses";
            return Self::Unclear(why.to_owned());
        };
        if fit.r2 < EXPLAINED_MIN {
            let share = fit.r2.max(0.0) * 100.0;
            return Self::Unclear(format!("the law explains {share:.0} % of how the rates differ"));
        }
        if let Some(name) = fit.vague() {
            return Self::Unclear(format!("{name} is known too badly: its interval is wider than itself"));
        }
        let last = points.last().map_or(0.0, |point| point.users as f64);
        match fit.knee() {
            Some(knee) if knee <= last => Self::Knee(knee),
            _ => Self::Growing,
        }
    }
}

/// Whether rates are flat within their noise up to the last one: from where on.
fn saturated(points: &[Point]) -> Option<Shape> {
    let is_flat = |part: &&[Point]| {
        let middle = mean(&part.iter().map(|point| point.rate).collect::<Vec<_>>());
        let near = |point: &Point| {
            let noise = if point.uncertainty.is_finite() { point.uncertainty } else { 0.0 };
            (point.rate / middle - 1.0).abs() <= (NOISES * noise.max(NOISE_MIN)).min(FLAT_SHARE_MAX)
        };
        let users = part[part.len() - 1].users as f64 / part[0].users as f64;
        users >= FLAT_USERS_MIN && part.iter().all(near)
    };
    let from = (0..points.len().checked_sub(FLAT_POINTS_MIN - 1)?).map(|from| &points[from..]);
    let part = from.into_iter().find(is_flat)?;
    let rates: Vec<f64> = part.iter().map(|point| point.rate).collect();
    Some(Shape::Saturated { capacity: mean(&rates), users: part[0].users })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const USERS: [usize; 7] = [1, 10, 20, 50, 100, 150, 200];

    fn points(rate: impl Fn(f64) -> f64, uncertainty: f64) -> Vec<Point> {
        let point =
            |users: usize| Point { users, rate: rate(users as f64), uncertainty, latency: 0.1, errors: 0.0 };
        USERS.map(point).to_vec()
    }

    fn shape(points: &[Point]) -> Shape {
        let pairs: Vec<(f64, f64)> = points.iter().map(|point| (point.users as f64, point.rate)).collect();
        Shape::of(points, Usl::fit(&pairs).as_ref())
    }

    #[test]
    fn a_curve_that_is_flat_within_its_noise_is_saturated() {
        let mut rng = Rng::new(71);
        for _ in 0..200 {
            let noise: Vec<f64> = (0..300).map(|_| 1.0 + 0.012 * rng.normal().clamp(-2.0, 2.0)).collect();
            let found = shape(&points(|users| (40.0 * users).min(700.0) * noise[users as usize], 0.02));
            let Shape::Saturated { capacity, users } = found else { panic!("{found:?}") };
            assert!((capacity / 700.0 - 1.0).abs() < 0.02 && users == 20, "{capacity} {users}");
        }
        // Runs that are uncertain by themselves are flat within more.
        let wide = |users: f64| if users as usize % 20 == 10 { 600.0 } else { 760.0 };
        assert!(matches!(shape(&points(wide, 0.15)), Shape::Saturated { users: 1, .. }));
    }

    /// Runs that know nothing of their rates are not flat for that.
    #[test]
    fn what_grows_through_noise_is_not_saturated() {
        let mut points = points(|_| 0.0, 0.4)[..4].to_vec();
        for (point, rate) in points.iter_mut().zip([20_800.0, 26_000.0, 31_000.0, 36_000.0]) {
            point.rate = rate;
        }
        assert!(!matches!(shape(&points), Shape::Saturated { .. }), "{:?}", shape(&points));
    }

    /// What was printed as "R² −23.037, knee 39 users, 1329/s".
    #[test]
    fn rates_that_scatter_have_no_knee() {
        let scattered = |users: f64| match users as usize {
            1 => 590.0,
            10 => 797.0,
            20 => 605.0,
            50 => 744.0,
            100 => 580.0,
            150 => 760.0,
            _ => 640.0,
        };
        let found = shape(&points(scattered, 0.02));
        assert!(matches!(&found, Shape::Unclear(why) if why.contains("explains")), "{found:?}");
    }

    #[test]
    fn a_knee_is_found_where_it_was_measured() {
        let law = Usl { lambda: 40.0, sigma: 0.03, kappa: 1.5e-4, r2: 1.0, reach: [0.0; 3] };
        let mut rng = Rng::new(72);
        let good = (0..200)
            .filter(|_| {
                let noise: Vec<f64> = (0..300).map(|_| 1.0 + 0.02 * rng.normal()).collect();
                let found = shape(&points(|users| law.throughput(users) * noise[users as usize], 0.02));
                matches!(found, Shape::Knee(knee) if (knee / 80.0 - 1.0).abs() < 0.2)
            })
            .count();
        assert!(good >= 180, "{good} of 200");
    }

    #[test]
    fn what_grows_has_no_knee() {
        assert_eq!(shape(&points(|users| 5.0 * users, 0.01)), Shape::Growing);
        // Its knee lies beyond what was measured: that is an extrapolation.
        let law = Usl { lambda: 40.0, sigma: 0.003, kappa: 1e-6, r2: 1.0, reach: [0.0; 3] };
        assert_eq!(shape(&points(|users| law.throughput(users), 0.01)), Shape::Growing);
        let few = &points(|users| 5.0 * users, 0.01)[..2];
        assert!(matches!(shape(few), Shape::Unclear(why) if why.contains("three")));
    }

    /// The same numbers of users close together: at the top of a curve all are flat.
    #[test]
    fn a_narrow_top_is_not_called_saturated() {
        let mut top = points(|_| 700.0, 0.01);
        for (point, users) in top.iter_mut().zip([100, 110, 120, 130, 140, 150, 160]) {
            point.users = users;
        }
        assert!(!matches!(shape(&top), Shape::Saturated { .. }));
    }
}
