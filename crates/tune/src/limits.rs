//! Limits of the tuner.

/// So many values of a knob are tried at most, the present one not counted.
pub(crate) const LEVELS_MAX: usize = 13;

/// So many knobs are tried at most.
pub(crate) const DIMENSIONS_MAX: usize = 8;

/// Pairs of the original with itself, for the noise.
pub(crate) const NOISE_PAIRS: usize = 3;

/// Pairs of a confirmation, and of a second one where the first does not say.
pub(crate) const CONFIRM_PAIRS: usize = 20;

/// Points of the Latin hypercube.
pub(crate) const INTERACTION_POINTS: usize = 12;

/// So many of them go into the tournament.
pub(crate) const TOURNAMENT: usize = 4;

/// A winner whose cost varies so many times as much as the original's is no winner.
pub(crate) const VARIANCE_RATIO_MAX: f64 = 2.0;

/// What Apache takes for one line with its continuations, in bytes (`MAX_STRING_LEN`).
pub(crate) const LINE_BYTES_MAX: usize = 8192;

/// A journal has so many files, states of a file, commands or words of a command at most; more is damage.
pub(crate) const JOURNAL_ITEMS_MAX: usize = 4096;
