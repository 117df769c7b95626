//! The prefixes under which the directives exist.

/// Whose directives, as the parameter of [`Conf`](super::conf::Conf).
pub const PROXY: usize = 0;
/// `fastcgi_cache…`
pub const FASTCGI: usize = 1;
/// `scgi_cache…`
pub const SCGI: usize = 2;
/// `uwsgi_cache…`
pub const UWSGI: usize = 3;

/// The names before `_cache`, by number.
pub const PREFIXES: [&str; 4] = ["proxy", "fastcgi", "scgi", "uwsgi"];
