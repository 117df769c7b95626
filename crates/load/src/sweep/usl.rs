//! The Universal Scalability Law (Gunther): throughput over users, with what is lost to waiting and to agreeing.
//!
//! X(N) = λ·N / (1 + σ·(N − 1) + κ·N·(N − 1)). N/X is linear in its coefficients, so the fit needs no search.

/// A fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usl {
    /// Throughput of one user, per second.
    pub lambda: f64,
    /// Contention: the share that only one can do at a time.
    pub sigma: f64,
    /// Coherence: what each pair of users costs.
    pub kappa: f64,
    /// The share of the throughput's variance that the fit explains.
    pub r2: f64,
}

impl Usl {
    /// Fits points of users and throughput. `None`: fewer than three different numbers of users, or throughputs that are
    /// not positive.
    pub fn fit(points: &[(f64, f64)]) -> Option<Usl> {
        let mut users: Vec<f64> = points.iter().map(|point| point.0).collect();
        users.sort_unstable_by(f64::total_cmp);
        users.dedup();
        let sound = |&(n, x): &(f64, f64)| n >= 1.0 && x > 0.0 && n.is_finite() && x.is_finite();
        if users.len() < 3 || !points.iter().all(sound) {
            return None;
        }
        // Rows are scaled so that residuals are relative ones of the throughput.
        let rows: Vec<[f64; 3]> =
            points.iter().map(|&(n, x)| [1.0, n - 1.0, n * (n - 1.0)].map(|column| column * x / n)).collect();
        // None of the coefficients may be negative: of all ways to leave some out, the best that is allowed.
        let ways: [&[usize]; 4] = [&[0, 1, 2], &[0, 1], &[0, 2], &[0]];
        let solved = ways.iter().filter_map(|columns| {
            let found = least_squares(&rows, columns)?;
            (found[0] > 0.0 && found.iter().all(|&value| value >= 0.0))
                .then(|| (residual(&rows, &found), found))
        });
        let (_, [a, b, c]) = solved.min_by(|left, right| left.0.total_cmp(&right.0))?;
        let mut fit = Usl { lambda: 1.0 / a, sigma: b / a, kappa: c / a, r2: 0.0 };
        fit.r2 = fit.explained(points);
        Some(fit)
    }

    /// Throughput with so many users.
    pub fn throughput(&self, users: f64) -> f64 {
        self.lambda * users / (1.0 + self.sigma * (users - 1.0) + self.kappa * users * (users - 1.0))
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

    fn explained(&self, points: &[(f64, f64)]) -> f64 {
        let mean = points.iter().map(|point| point.1).sum::<f64>() / points.len() as f64;
        let all: f64 = points.iter().map(|point| (point.1 - mean).powi(2)).sum();
        let rest: f64 = points.iter().map(|&(n, x)| (x - self.throughput(n)).powi(2)).sum();
        if all > 0.0 { 1.0 - rest / all } else { 1.0 }
    }
}

fn residual(rows: &[[f64; 3]], found: &[f64; 3]) -> f64 {
    let of =
        |row: &[f64; 3]| (row.iter().zip(found).map(|(left, right)| left * right).sum::<f64>() - 1.0).powi(2);
    rows.iter().map(of).sum()
}

/// Solves rows · x ≈ 1 for the given columns, the others being 0, by the normal equations.
fn least_squares(rows: &[[f64; 3]], columns: &[usize]) -> Option<[f64; 3]> {
    let size = columns.len();
    // Columns differ by powers of the number of users: scaled, the equations keep their digits.
    let norm = |column: usize| rows.iter().map(|row| row[column].powi(2)).sum::<f64>().sqrt();
    let norms: Vec<f64> = columns.iter().map(|&column| norm(column)).collect();
    if norms.contains(&0.0) {
        return None;
    }
    let mut matrix = [[0.0; 4]; 3];
    for row in rows {
        for i in 0..size {
            let left = row[columns[i]] / norms[i];
            for j in 0..size {
                matrix[i][j] += left * row[columns[j]] / norms[j];
            }
            matrix[i][3] += left;
        }
    }
    for pivot in 0..size {
        let best =
            (pivot..size).max_by(|&a, &b| matrix[a][pivot].abs().total_cmp(&matrix[b][pivot].abs()))?;
        matrix.swap(pivot, best);
        if matrix[pivot][pivot].abs() < 1e-12 {
            return None;
        }
        for row in 0..size {
            if row != pivot {
                let factor = matrix[row][pivot] / matrix[pivot][pivot];
                let above = matrix[pivot];
                matrix[row].iter_mut().zip(above).for_each(|(value, from)| *value -= factor * from);
            }
        }
    }
    let mut found = [0.0; 3];
    for (index, &column) in columns.iter().enumerate() {
        found[column] = matrix[index][3] / matrix[index][index] / norms[index];
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const USERS: [f64; 7] = [1.0, 10.0, 20.0, 50.0, 100.0, 150.0, 200.0];

    #[test]
    fn exact_data_give_their_coefficients_back() {
        for (lambda, sigma, kappa) in
            [(100.0, 0.02, 1e-4), (35.0, 0.0, 2e-5), (900.0, 0.1, 0.0), (10.0, 0.0, 0.0)]
        {
            let truth = Usl { lambda, sigma, kappa, r2: 1.0 };
            let points = USERS.map(|users| (users, truth.throughput(users)));
            let fit = Usl::fit(&points).unwrap();
            assert!((fit.lambda / lambda - 1.0).abs() < 1e-6, "{fit:?}");
            assert!((fit.sigma - sigma).abs() < 1e-7 && (fit.kappa - kappa).abs() < 1e-9, "{fit:?}");
            assert!(fit.r2 > 0.999_999, "{fit:?}");
        }
    }

    #[test]
    fn the_knee_is_found_through_noise() {
        let truth = Usl { lambda: 40.0, sigma: 0.03, kappa: 1.5e-4, r2: 1.0 };
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

    #[test]
    fn what_cannot_be_fitted_is_not() {
        assert_eq!(Usl::fit(&[(1.0, 5.0), (2.0, 9.0)]), None);
        assert_eq!(Usl::fit(&[(1.0, 5.0), (2.0, 9.0), (2.0, 9.5)]), None);
        assert_eq!(Usl::fit(&[(1.0, 5.0), (2.0, 0.0), (3.0, 9.5)]), None);
        let rising = Usl::fit(&[(1.0, 5.0), (2.0, 11.0), (4.0, 25.0)]).unwrap();
        assert_eq!((rising.knee(), rising.peak()), (None, None), "better than linear is taken for linear");
    }
}
