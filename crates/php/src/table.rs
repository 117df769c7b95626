//! FPM's settings of a pool, one row each.

/// What a setting's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any text without control characters.
    Text,
    /// A path; a relative one starts at `prefix`.
    Path,
    /// A number, from the first to the second.
    Count(i64, i64),
    /// A time: a number of seconds, or with `s`, `m`, `h`, `d`.
    Time,
    /// `yes` or `no`, with their synonyms.
    Flag,
    /// Accepted and without effect here: why.
    Unused(&'static str),
    /// Refused: why, and what to do.
    Refused(&'static str),
}

const OWN_SOCKET: &str = "Brisk listens for this pool on a socket of its own, which only its workers may use";

/// All but those with keys in brackets, `pm`, `security.limit_extensions` and what is Brisk's own.
pub(crate) static TABLE: &[(&str, Kind)] = &[
    ("user", Kind::Text),
    ("group", Kind::Text),
    ("listen", Kind::Unused(OWN_SOCKET)),
    ("listen.backlog", Kind::Unused(OWN_SOCKET)),
    ("listen.owner", Kind::Unused(OWN_SOCKET)),
    ("listen.group", Kind::Unused(OWN_SOCKET)),
    ("listen.mode", Kind::Unused(OWN_SOCKET)),
    ("listen.acl_users", Kind::Unused(OWN_SOCKET)),
    ("listen.acl_groups", Kind::Unused(OWN_SOCKET)),
    ("listen.allowed_clients", Kind::Unused(OWN_SOCKET)),
    ("listen.setfib", Kind::Unused("Linux has no such thing")),
    ("pm.max_children", Kind::Count(1, crate::limits::WORKERS_MAX as i64)),
    ("pm.start_servers", Kind::Count(1, crate::limits::WORKERS_MAX as i64)),
    ("pm.min_spare_servers", Kind::Count(1, crate::limits::WORKERS_MAX as i64)),
    ("pm.max_spare_servers", Kind::Count(1, crate::limits::WORKERS_MAX as i64)),
    ("pm.max_spawn_rate", Kind::Count(1, crate::limits::WORKERS_MAX as i64)),
    ("pm.process_idle_timeout", Kind::Time),
    ("pm.max_requests", Kind::Count(0, i64::MAX)),
    ("pm.status_path", Kind::Text),
    (
        "pm.status_listen",
        Kind::Unused("\"brisk php status\" answers while all workers are busy, and needs no second socket"),
    ),
    ("ping.path", Kind::Text),
    ("ping.response", Kind::Text),
    ("access.log", Kind::Path),
    ("access.format", Kind::Text),
    ("slowlog", Kind::Path),
    ("request_slowlog_timeout", Kind::Time),
    ("request_slowlog_trace_depth", Kind::Count(1, 1000)),
    ("request_terminate_timeout", Kind::Time),
    ("request_terminate_timeout_track_finished", Kind::Flag),
    ("rlimit_files", Kind::Count(1, i64::MAX)),
    ("chroot", Kind::Path),
    ("chdir", Kind::Path),
    ("catch_workers_output", Kind::Flag),
    ("decorate_workers_output", Kind::Flag),
    ("clear_env", Kind::Flag),
    ("process.priority", Kind::Count(-19, 20)),
    ("process.dumpable", Kind::Flag),
    (
        "apparmor_hat",
        Kind::Refused("Brisk changes no AppArmor hats: confine the pool's user by another means"),
    ),
    ("include", Kind::Refused("a pool's file is read alone: write the settings into it")),
    ("php_ini", Kind::Path),
    ("worker", Kind::Path),
];

/// Names that may stand without `pm.` in a `php_pool` block.
pub(crate) static SHORT: &[&str] = &[
    "max_children",
    "start_servers",
    "min_spare_servers",
    "max_spare_servers",
    "max_spawn_rate",
    "process_idle_timeout",
    "max_requests",
    "status_path",
    "status_listen",
];

/// The kind of a setting, and its whole name.
pub(crate) fn find(name: &str) -> Option<(&'static str, Kind)> {
    TABLE
        .iter()
        .find(|(have, _)| *have == name || SHORT.contains(&name) && have.strip_prefix("pm.") == Some(name))
        .copied()
}
