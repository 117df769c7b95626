//! Limits of the tuner.

/// So many values of a knob are tried at most, the present one not counted.
pub(crate) const LEVELS_MAX: usize = 13;

/// So many knobs are tried at most, those that later looks have added included.
pub(crate) const DIMENSIONS_MAX: usize = 8;

/// Pairs of the original with itself, for the noise.
pub(crate) const NOISE_PAIRS: usize = 3;

/// Pairs of a confirmation, and of a second one where the first does not say.
pub(crate) const CONFIRM_PAIRS: usize = 20;

/// Where the time ends it, so many of them are judged.
pub(crate) const CONFIRM_PAIRS_MIN: usize = 10;

/// Gains of less than this share of the cost are not looked for.
pub(crate) const FINE: f64 = 0.03;

/// Points of the Latin hypercube.
pub(crate) const INTERACTION_POINTS: usize = 12;

/// So many of them go into the tournament.
pub(crate) const TOURNAMENT: usize = 4;

/// A winner whose variance is more than so many times what explains it has to show that its gain outlasts it.
pub(crate) const VARIANCE_RATIO_MAX: f64 = 2.0;

/// What Apache takes for one line with its continuations, in bytes (`MAX_STRING_LEN`).
pub(crate) const LINE_BYTES_MAX: usize = 8192;

/// A journal has so many files, states of a file, commands or words of a command at most; more is damage.
pub(crate) const JOURNAL_ITEMS_MAX: usize = 4096;

/// A breach lasts so many seconds.
pub(crate) const GUARD_SECONDS: usize = 2;

/// What 99 % of requests wait may grow by this factor.
pub(crate) const GUARD_FACTOR_MAX: f64 = 1.5;

/// The share of errors may grow by so much.
pub(crate) const GUARD_ERRORS_MAX: f64 = 0.01;

/// Swap in use may grow by so many bytes.
pub(crate) const GUARD_SWAP_BYTES_MAX: u64 = 64 << 20;

/// The server's memory may grow by so many bytes, beside half of what it was.
pub(crate) const GUARD_MEMORY_BYTES_MAX: u64 = 64 << 20;

/// Neighbours of a value that is changed under real traffic differ by this factor at most.
pub(crate) const LADDER_FACTOR: f64 = 1.25;

/// So many of them on each side.
pub(crate) const LADDER_RUNGS: usize = 6;
