//! What a `health_check` says.

use super::matching::Match;
use super::pace::Pace;
use crate::upstream::group::Upstream;
use brisk_balance::CheckId;
use brisk_upstream::backend::Passes;
use std::sync::{Arc, OnceLock};

/// One `health_check`.
pub struct Check {
    /// How often, and what follows.
    pub(super) pace: Pace,
    /// What is asked for.
    pub uri: String,
    /// What an answer must be like.
    pub wanted: Arc<Match>,
    /// `match` was written.
    pub(super) is_matched: bool,
    /// `type=grpc`.
    pub grpc: Option<Grpc>,
    /// Set when the location is complete.
    pub(super) target: OnceLock<Target>,
}

/// Whom a check asks, and by what.
pub(super) struct Target {
    /// The check among those of the group.
    pub id: CheckId,
    pub upstream: Arc<Upstream>,
    pub passes: Arc<Passes>,
}

/// What a gRPC server is asked.
#[derive(Default)]
pub struct Grpc {
    /// Empty: the server as a whole.
    pub service: String,
    /// The gRPC status of a healthy one.
    pub status: u32,
}
