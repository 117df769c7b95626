//! `SET`: what replicas can be told of as it is written. Values must be plain: what is computed may come out otherwise elsewhere.

use super::{Class, Pin, Statement};
use crate::token::Token;

/// Settings that mean the same on every server, and of which no later one depends, whatever plain value they are given. Those of which only
/// some values are good are in [`is_known`].
const KNOWN: &[&str] = &[
    "collation_connection",
    "default_week_format",
    "div_precision_increment",
    "foreign_key_checks",
    "group_concat_max_len",
    "innodb_lock_wait_timeout",
    "interactive_timeout",
    "lc_time_names",
    "lock_wait_timeout",
    "max_execution_time",
    "max_join_size",
    "max_statement_time",
    "net_read_timeout",
    "net_write_timeout",
    "sql_big_selects",
    "sql_quote_show_create",
    "sql_safe_updates",
    "sql_select_limit",
    "time_zone",
    "unique_checks",
    "wait_timeout",
];

/// Character sets in which quotes and backslashes are never parts of other characters.
const CHARSETS: &[&str] = &["utf8", "utf8mb3", "utf8mb4", "latin1", "ascii", "binary"];

pub(super) fn class(set: &Statement<'_, '_>) -> Class {
    if set.0.contains(&Token::UserVariable) {
        return Class::Pin(Pin::UserVariable);
    }
    let is_known = match set {
        _ if set.is(1, "NAMES") => names(set, 2),
        _ if set.is(1, "CHARACTER") && set.is(2, "SET") => set.0.len() == 4 && is_charset(set, 3),
        _ if set.is(1, "CHARSET") => set.0.len() == 3 && is_charset(set, 2),
        _ if set.is_any(1, &["SESSION", "LOCAL"]) && set.is(2, "TRANSACTION") => isolation(set),
        _ => return assignments(set),
    };
    if is_known { Class::Setting } else { Class::Pin(Pin::Set) }
}

fn names(set: &Statement<'_, '_>, at: usize) -> bool {
    let has_collation = set.is(at + 1, "COLLATE") && is_plain(set, at + 2);
    is_charset(set, at) && set.0.len() == if has_collation { at + 3 } else { at + 1 }
}

fn isolation(set: &Statement<'_, '_>) -> bool {
    let words = ["ISOLATION", "LEVEL", "READ", "COMMITTED", "UNCOMMITTED", "REPEATABLE", "SERIALIZABLE"];
    set.is(3, "ISOLATION") && set.is(4, "LEVEL") && (3..set.0.len()).all(|at| set.is_any(at, &words))
}

/// `name = value, …`.
fn assignments(set: &Statement<'_, '_>) -> Class {
    let mut class = Class::Setting;
    for one in set.0[1..].split(|token| *token == Token::Sign(b',')) {
        let one = Statement(one);
        let mut at = usize::from(one.0.first() == Some(&Token::SystemVariable));
        if one.is_any(at, &["SESSION", "LOCAL"]) {
            at += 1;
            at += usize::from(one.is_sign(at, b'.'));
        }
        if !one.is_sign(at + 1, b'=') {
            return Class::Pin(Pin::Set);
        }
        let is_number_of_one = one.0.len() == at + 3;
        // The status of the next answer tells how it is.
        if one.is(at, "autocommit")
            && is_number_of_one
            && one.is_any(at + 2, &["0", "1", "ON", "OFF", "TRUE", "FALSE"])
        {
            class = class.max(Class::Write);
            continue;
        }
        if !is_number_of_one || !is_known(&one, at) {
            return Class::Pin(Pin::Set);
        }
    }
    // Half of it would be for replicas.
    let is_mixed = class == Class::Write && set.0.contains(&Token::Sign(b','));
    if is_mixed { Class::Pin(Pin::Set) } else { class }
}

fn is_known(one: &Statement<'_, '_>, at: usize) -> bool {
    let value = at + 2;
    match () {
        () if one
            .is_any(at, &["character_set_client", "character_set_connection", "character_set_results"]) =>
        {
            is_charset(one, value) || one.is(value, "NULL")
        }
        // By numbers modes could be set that are looked for by their names here.
        () if one.is(at, "sql_mode") => is_plain(one, value) && !is_number(one, value),
        // With it `WHERE id IS NULL` asks for LAST_INSERT_ID().
        () if one.is(at, "sql_auto_is_null") => one.is_any(value, &["0", "OFF", "FALSE"]),
        () => one.is_any(at, KNOWN) && is_plain(one, value),
    }
}

fn is_number(one: &Statement<'_, '_>, at: usize) -> bool {
    one.word(at).is_some_and(|word| word.first().is_some_and(u8::is_ascii_digit))
}

/// A number, a text, or a word that is a value.
fn is_plain(one: &Statement<'_, '_>, at: usize) -> bool {
    match one.0.get(at) {
        // With that mode names of functions need no parentheses, and quotes mean something else.
        Some(Token::Text(text) | Token::Name(text)) => {
            !text.to_ascii_uppercase().windows(6).any(|part| part == b"ORACLE") && !text.contains(&b'\\')
        }
        Some(Token::Word(word)) => {
            !word.eq_ignore_ascii_case(b"DEFAULT")
                && !word.to_ascii_uppercase().windows(6).any(|part| part == b"ORACLE")
        }
        _ => false,
    }
}

fn is_charset(one: &Statement<'_, '_>, at: usize) -> bool {
    match one.0.get(at) {
        Some(Token::Text(name) | Token::Name(name) | Token::Word(name)) => {
            CHARSETS.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
        }
        _ => false,
    }
}
