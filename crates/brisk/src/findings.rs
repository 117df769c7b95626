//! What the doctor finds in the configuration that is live, and what the tuner found last, for dashboards.
//!
//! The master looks, since it alone may read what the tuner has left. It looks when a configuration has become live, and only if that
//! has a dashboard. Rows about PHP, databases and foreign servers are left to `brisk doctor`: their files are not this server's.

use crate::bundle::{Bundle, BundleLoader};
use crate::config::{self, Paths};
use crate::doctor::files::machine;
use crate::limits::FINDINGS_TOLD_MAX;
use crate::tune;
use brisk_tune::audit::{self, Finding, Tier};
use brisk_tune::site::{Block, Site};
use serde_json::{Value, json};

/// The directive.
const DASHBOARD: &str = "dashboard";
/// Places of one finding that are told.
const PLACES_TOLD: usize = 3;

/// What is to be told; `None` if the configuration has no dashboard.
pub fn of(paths: &Paths, bundle: &Bundle) -> Option<String> {
    // The word first: that is a thousand times cheaper than parsing ten thousand hosts for nothing.
    if paths.inline.is_none() && !bundle.says(DASHBOARD) {
        return None;
    }
    let loader = BundleLoader { conf_prefix: &paths.env.conf_prefix, bundle };
    let (tree, _, sources) = config::parse(paths, &loader);
    let server = Block::of(&tree, &sources);
    if !has_dashboard(&server) {
        return None;
    }
    let site = Site { server: Some(server), is_brisk: true, machine: machine(), ..Site::default() };
    let found = audit::audit(&site);
    let found: Vec<&Finding> =
        found.iter().filter(|finding| matches!(finding.check.tier, Tier::Server | Tier::Machine)).collect();
    let audit: Value = found.iter().take(FINDINGS_TOLD_MAX).map(|finding| as_json(finding)).collect();
    let told = json!({ "audit": audit, "count": found.len(), "tuned": tune::last_report(&paths.conf) });
    Some(told.to_string())
}

fn has_dashboard(block: &Block) -> bool {
    block.own(DASHBOARD).is_some() || block.blocks.iter().any(has_dashboard)
}

fn as_json(finding: &Finding) -> Value {
    let check = finding.check;
    let place = |seen: &audit::Seen| match &seen.place {
        Some(place) => format!("{place}: {}", seen.what),
        None => seen.what.clone(),
    };
    json!({
        "slug": check.slug,
        "weight": check.weight.name(),
        "why": check.why,
        "line": check.line,
        "seen": finding.seen.iter().take(PLACES_TOLD).map(place).collect::<Vec<_>>(),
        "places": finding.seen.len(),
    })
}
