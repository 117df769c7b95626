//! One run with tiers that are watched beside it, for programs: without a picture, and without files.

use std::io;
use std::time::Duration;

use crate::engine;
use crate::plan::Plan;
use crate::report::{Beside, RunReport};
use crate::watch::{self, Tier, Watch};

/// Carries out a plan whose time ends it, and looks at the tiers meanwhile. Fails where a tier has no process, or does not tell what
/// it should.
pub fn run(plan: &Plan, tiers: &[Tier]) -> io::Result<RunReport> {
    let watch = Watch::start(tiers, watch::EVERY)?;
    let run = engine::start(plan.clone())?;
    let begun = watch.so_far().origin.elapsed().saturating_sub(run.elapsed());
    let outcome = run.join()?;
    let from = begun + plan.warmup;
    let beside = Beside { watched: watch.finish(), begun, from, to: from + outcome.elapsed };
    Ok(RunReport {
        label: String::new(),
        users: plan.connections,
        depth: if plan.think.is_some() { 0 } else { plan.pipeline },
        threads: plan.threads.min(plan.connections),
        rate: plan.rate,
        outcome,
        steady: None::<(Duration, bool)>,
        watched: Some(beside),
    })
}
