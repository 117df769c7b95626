//! Requests for which a full pool has no room: the server answers them at once with an error. What keeps the pool full is the limit then, not the errors.

use super::workers::{TAKEN, Workers};
use super::{Diagnosis, Measured, Role, TierFigures, WaitFigures, budget, by_means, errors, percent, places};

/// Answers that say there was no room (502 and 503).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TurnedAway {
    /// Of all responses.
    pub share: f64,
    /// How long refusals took, in microseconds.
    pub mean_us: f64,
}

/// Fewer are an accident.
const SHARE: f64 = 0.05;
/// An error of PHP's own waits for a process as every answer does; one that comes so many times sooner has not been there.
const SOONER: f64 = 4.0;

/// What limits those that were let in, if others were turned away from a full pool.
pub(super) fn diagnose(m: &Measured) -> Option<Diagnosis> {
    let away = m.turned_away;
    let is_full = |tier: &TierFigures| {
        let looked = tier.waits.as_ref().is_some_and(|waits| waits.taken_share() >= TAKEN);
        tier.role == Role::Php && (looked || tier.pool.is_some_and(|pool| pool.full_share >= TAKEN))
    };
    if away.share < SHARE || away.mean_us * SOONER > m.wall_us || !m.tiers.iter().any(is_full) {
        return None;
    }
    let served = served(m);
    let mut found =
        errors(&served).or_else(|| places::diagnose(&served)).unwrap_or_else(|| by_means(&served));
    if matches!(found.cause, "errors" | "nothing-full") {
        return None;
    }
    found.budget = budget(&served);
    let share = percent(away.share.min(0.99));
    found.sentence = format!(
        "{} {share} of the requests are turned away at once (502 or 503) while the pool is full.",
        found.sentence
    );
    Some(found)
}

/// The same without those that were turned away, and without the generator's work, which is mostly theirs.
fn served(m: &Measured) -> Measured {
    let share = (1.0 - m.turned_away.share).max(1e-6);
    let mut served = m.clone();
    served.rate *= share;
    served.error_share = ((m.error_share - m.turned_away.share) / share).clamp(0.0, 1.0);
    (served.generator_share, served.generator_cores) = (0.0, 0.0);
    (served.around.generator_waited_share, served.around.generator_late_us) = (0.0, 0.0);
    for tier in served.tiers.iter_mut().filter(|tier| tier.role != Role::Server) {
        tier.cpu_us /= share;
        tier.waits.iter_mut().for_each(|waits| waits.read_bytes /= share);
    }
    let workers = Workers::of(m);
    let front = m.tiers.iter().find_map(|tier| tier.waits.as_ref());
    let queue = front.map_or(0.0, |seen| workers.asked(m, seen).1);
    let inside = (workers.sum(WaitFigures::busy) + queue).round() as usize;
    served.users = inside.clamp(1, m.users.max(1));
    served
}
