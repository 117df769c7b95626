//! All limits of this crate.

// syntax.rs

/// Bytes of a line with its continuations in a configuration file (Apache: `VARBUF_MAX_LEN`).
pub const LINE_BYTES_MAX: usize = 16 << 20;
/// The same in a `.htaccess` file (Apache: `HUGE_STRING_LEN`).
pub const OVERRIDE_LINE_BYTES_MAX: usize = 8192;
/// Sections inside of each other.
pub const SECTIONS_DEPTH_MAX: usize = 64;

// conditional.rs

/// Files that include each other, and macros that use each other, inside of each other.
pub const FILES_DEPTH_MAX: usize = 64;

// expr/parser.rs

/// Bytes of one string or pattern in an expression (Apache: `MAX_STRING_LEN`).
pub const EXPR_STRING_BYTES_MAX: usize = 8192;
/// Conditions, calls and brackets inside of each other. Apache stops when it evaluates more than 20.
pub const EXPR_DEPTH_MAX: usize = 20;
/// Bytes that the result of an expression may have.
pub const EXPR_RESULT_BYTES_MAX: usize = 1 << 20;

// overrides/compile.rs

/// Ranges of one request that are sent where no line says otherwise (`MaxRanges default`).
pub const RANGES_MAX_USUAL: usize = 200;
/// Variables that `SetEnv` and `UnsetEnv` of one file name.
pub const ENV_CHANGES_MAX: usize = 1024;

// site/locations.rs

/// Locations of one host that lines about paths come to: with patterns above and below it, each path has those above it.
pub const HOST_LOCATIONS_MAX: usize = 50_000;

// rewrite/template.rs

/// Map look-ups inside of each other in one substitution.
pub const TEMPLATE_DEPTH_MAX: usize = 16;

// work.rs

/// Bytes that rules make and look at for one request, all directives, rounds and internal redirects together. 32,000 rounds over a path
/// that grows with each cost Apache seconds; a thread that serves others must not be held up so.
pub const WORK_BYTES_MAX: usize = 4 << 20;
/// What a rule, a line or a variable costs beside its bytes.
pub const LINE_WORK_BYTES: usize = 32;

// rewrite/apply.rs

/// Rounds of a rule with the flag N without a number (Apache: `REWRITE_MAX_ROUNDS`).
pub const ROUNDS_MAX: u32 = 32_000;
/// Bytes of a path after a rule. Apache: twice `LimitRequestLine`.
pub const PATH_BYTES_MAX: usize = 2 * 8190;
