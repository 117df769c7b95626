//! The directive, and what a location's plan has of it.

use crate::check::{http, messages_in_location};

#[test]
fn what_is_wrong_is_said() {
    messages_in_location("directory_overrides on;", &[]);
    messages_in_location("directory_overrides on FileInfo Limit php=@php;", &[]);
    messages_in_location("directory_overrides on Files;", &["invalid parameter \"Files\""]);
    messages_in_location("directory_overrides on php=php;", &["invalid parameter \"php=php\""]);
}

#[test]
fn plans_have_its_steps_where_it_is_on() {
    let text = "directory_overrides on; server { location /a { } location /b { directory_overrides off; } }";
    let snap = http(text).unwrap();
    let counts: Vec<_> = snap
        .locations
        .iter()
        .map(|l| (l.plan.preaccess.len(), l.plan.precontent.len(), l.plan.pages.is_some()))
        .collect();
    assert_eq!(counts, [(1, 3, true), (1, 3, true), (0, 0, false)]);
}
