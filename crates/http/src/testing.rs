//! Shared by the tests.

use proptest::test_runner::Config;

/// A property test of `cases` cases that leaves no files behind.
pub(crate) fn cases(cases: u32) -> Config {
    Config { cases, failure_persistence: None, ..Config::default() }
}
