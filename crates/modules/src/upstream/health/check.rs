//! What a `health_check` says.

use super::matching::Match;
use crate::upstream::group::Upstream;
use brisk_upstream::backend::Passes;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// One `health_check`.
pub struct Check {
    /// Between two rounds.
    pub interval: Duration,
    /// Up to this much is added to each interval.
    pub jitter: Duration,
    /// Failures in a row after which a server is bad, and successes after which it is good again.
    pub fails: u32,
    /// Successes in a row after which a bad server is good again.
    pub passes: u32,
    /// What is asked for.
    pub uri: String,
    /// No requests before the first check has passed.
    pub mandatory: bool,
    /// What was known before a reload still counts.
    pub persistent: bool,
    /// Another port than that of requests.
    pub port: Option<u16>,
    /// What an answer must be like.
    pub wanted: Arc<Match>,
    /// `match` was written.
    pub(super) is_matched: bool,
    /// `type=grpc`.
    pub grpc: Option<Grpc>,
    /// Set when the location is complete.
    pub(super) target: OnceLock<(Arc<Upstream>, Arc<Passes>)>,
}

/// What a gRPC server is asked.
#[derive(Default)]
pub struct Grpc {
    /// Empty: the server as a whole.
    pub service: String,
    /// The gRPC status of a healthy one.
    pub status: u32,
}
