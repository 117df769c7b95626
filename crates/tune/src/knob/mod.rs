//! Knobs: settings that the tuner may change, as rows of data.
//!
//! A row says how its setting is spelled, in which language and tier it stands, which values are sensible, what a change needs, what it
//! can do at worst, and which finding of the doctor makes it eligible. [`levels`](Knob::levels) makes of the range the values that are
//! tried, in the spelling of the file.

mod levels;
mod row;
mod rows;

pub use levels::{Levels, Unreadable};
pub use row::{Bound, Companion, Domain, Knob, Needs, Risk, Scale, Unit};
pub use rows::rows;

use crate::audit::{Tier, checks};

/// Causes that no knob mends, with the reason: what is tried nevertheless where a risk is allowed is no advice.
pub const WITHOUT_KNOBS: &[(&str, &str)] = &[
    ("generator-full", "the load generator is full, and nothing is known of the site"),
    ("errors", "the site answers with errors, whose speed means nothing"),
    ("database-locks", "queries wait for each other's rows: only the application can lock less"),
    ("application-cpu", "the page itself computes; the audit names OPcache where it is off"),
    ("application-waits", "the page waits for what is not full itself: a slow query, or another service"),
    ("database-missing-index", "an index is missing: it is made once, by whoever knows the tables"),
    ("disk-slow", "files lie where reading them takes long: keep them nearer, or keep pages"),
    ("memory-short", "the memory is too small for what runs on the machine"),
    ("network-slow", "the time is spent on the way"),
    (
        "session-lock",
        "requests of one session wait for each other: the application holds it longer than it must",
    ),
    ("file-lock", "requests wait for each other's lock on a file: only the application can lock less"),
    ("service-slow", "the page waits for another service: keep its answers, or ask for them beside the page"),
    ("machine-busy-with-others", "other programs have the CPUs"),
    ("nothing-full", "nothing limits: more users may say more"),
];

/// Why no knob mends this cause, if none does.
pub fn why_none(cause: &str) -> Option<&'static str> {
    WITHOUT_KNOBS.iter().find(|(name, _)| *name == cause).map(|(_, why)| *why)
}

/// The row of this name.
pub fn find(name: &str) -> Option<&'static Knob> {
    rows().find(|knob| knob.name == name)
}

/// Rows worth trying: those that the limit asks for, in the rows' order, then those of the audit's findings, of which those that matter most come
/// first. Among findings of one weight the database and PHP go before the server: a page costs them more.
pub fn eligible(cause: &str, findings: &[&str], is_brisk: bool) -> Vec<&'static Knob> {
    let fits = |knob: &&Knob| {
        let is_foreign = is_brisk && knob.tier == Tier::Server && !knob.is_for_brisk;
        !is_foreign && knob.is_eligible(cause, findings)
    };
    let rank = |knob: &Knob| {
        let is_found = |slug: &str| findings.contains(&slug) && knob.findings.contains(&slug);
        let weight = checks().filter(|check| is_found(check.slug)).map(|check| check.weight).min();
        let tier = match knob.tier {
            Tier::Database => 0,
            Tier::Php => 1,
            Tier::Server => 2,
            Tier::Machine => 3,
        };
        weight.map(|weight| (weight, tier))
    };
    let mut found: Vec<&Knob> = rows().filter(fits).collect();
    found.sort_by_key(|knob| if knob.causes.contains(&cause) { None } else { rank(knob) });
    found
}

#[cfg(test)]
mod tests;
