//! The static audit: rows, each of which looks for one thing in the configuration of a site.
//!
//! A row finds only what stands there, or what a default that is known does. What depends on the load is for a measurement to say,
//! so advice whose effect changes from site to site (`multi_accept`, more PHP processes) is no row.

mod check;
mod database;
mod kernel;
mod php;
mod server;

pub use check::{Check, Seen, Tier, Weight};

use crate::site::Site;

/// A row that has found something.
#[derive(Clone)]
pub struct Finding {
    /// The row.
    pub check: &'static Check,
    /// The places, at least one, each once.
    pub seen: Vec<Seen>,
}

/// All rows, tier by tier.
pub fn checks() -> impl Iterator<Item = &'static Check> {
    [server::CHECKS, php::CHECKS, database::CHECKS, kernel::CHECKS].into_iter().flatten()
}

/// What stands in the way of a site's speed, what matters most first.
pub fn audit(site: &Site) -> Vec<Finding> {
    let mut findings: Vec<Finding> = checks()
        .filter_map(|check| {
            let mut seen: Vec<Seen> = Vec::new();
            for one in (check.look)(site) {
                if !seen.contains(&one) {
                    seen.push(one);
                }
            }
            (!seen.is_empty()).then_some(Finding { check, seen })
        })
        .collect();
    findings.sort_by_key(|finding| finding.check.weight);
    findings
}

#[cfg(test)]
mod tests;
