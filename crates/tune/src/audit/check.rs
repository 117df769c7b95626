//! What a row of the audit is, and what it finds.

use crate::site::{Place, Site};

/// Which part of a site it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// The web server.
    Server,
    /// PHP and its pools.
    Php,
    /// MariaDB or MySQL.
    Database,
    /// The kernel and the machine.
    Machine,
}

impl Tier {
    /// Its word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Server => "server",
            Tier::Php => "php",
            Tier::Database => "database",
            Tier::Machine => "machine",
        }
    }
}

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Visitors get wrong pages, or others' pages: before any tuning.
    Danger,
    /// A gain that is seen on most sites.
    Large,
    /// A gain on some sites.
    Small,
    /// Without it, it cannot be seen what limits the site.
    Sight,
}

impl Weight {
    /// Its word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Weight::Danger => "danger",
            Weight::Large => "large",
            Weight::Small => "small",
            Weight::Sight => "sight",
        }
    }
}

/// What a row has found at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Where it stands; `None`: nowhere, and the default is the finding.
    pub place: Option<Place>,
    /// What is there.
    pub what: String,
}

impl Seen {
    pub(super) fn at(place: &Place, what: impl Into<String>) -> Seen {
        Seen { place: Some(place.clone()), what: what.into() }
    }

    pub(super) fn nowhere(what: impl Into<String>) -> Seen {
        Seen { place: None, what: what.into() }
    }
}

/// One thing that is looked for.
pub struct Check {
    /// Its name in JSON and in the documentation; it never changes its meaning.
    pub slug: &'static str,
    /// The part of the site.
    pub tier: Tier,
    /// How much it matters.
    pub weight: Weight,
    /// Why it matters, as one sentence.
    pub why: &'static str,
    /// What it gained where it was measured, with the page of `docs/experiments`; `None`: not measured by us.
    pub gain: Option<&'static str>,
    /// The line to write.
    pub line: &'static str,
    pub(super) look: fn(&Site) -> Vec<Seen>,
}
