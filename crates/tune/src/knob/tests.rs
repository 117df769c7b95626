//! The rows against themselves, the doctor's slugs and files of each kind.

use super::*;
use crate::audit;
use crate::diagnosis::CAUSES;
use crate::edit::Language;
use crate::edit::{self, File};
use crate::site::Machine;
use std::collections::BTreeSet;

fn machine() -> Machine {
    Machine { cpus: 4, memory: 8 << 30, ..Machine::default() }
}

fn file(language: Language) -> File {
    let text = match language {
        Language::Nginx { .. } | Language::NginxParameter { .. } => {
            "user www-data;\nevents {\n    use epoll; # c\n}\nhttp {\n    index i;\n    server { listen 80; }\n}\n"
        }
        Language::Php => "[PHP]\n; comment\nmemory_limit = 128M\n\n[Date]\n",
        Language::Pool => "; pool\n[www]\nuser = www-data\n",
        Language::Database => "[client]\nsocket=/s\n[mysqld]\nuser = mysql\n!includedir /etc/mysql/conf.d/\n",
        Language::Apache => "# Apache\nServerRoot /etc/apache2\n<IfModule a>\n</IfModule>\n",
        Language::Sysctl => "kernel.printk = 4\n",
    };
    File { name: language.name().into(), text: text.into() }
}

/// Every level of every row: written where it is not, over itself, and taken back.
#[test]
fn every_row_is_read_set_and_undone() {
    for knob in rows() {
        let before = [file(knob.language)];
        let wanted = knob.wanted("www");
        assert_eq!(edit::read(&before, &wanted).unwrap(), None, "{}", knob.name);
        let levels = knob.levels(None, &machine()).unwrap();
        assert!(levels.texts.len() > 1, "{}", knob.name);
        assert_eq!(levels.texts[levels.original], knob.default, "{}", knob.name);
        for text in levels.texts.iter().filter(|text| !text.is_empty()) {
            let edits = edit::set(&before, &wanted, text).unwrap();
            let after = edit::apply(&before, &edits).unwrap();
            let have = edit::read(&after, &wanted).unwrap().unwrap_or_default();
            assert_eq!(have, *text, "{}", knob.name);
            let again = knob.levels(Some(&have), &machine()).unwrap();
            assert_eq!(&again.texts[again.original], text, "{}", knob.name);
            // The other values are written over it.
            for other in again.texts.iter().filter(|other| !other.is_empty()) {
                let over = edit::set(&after, &wanted, other).unwrap();
                let there = edit::apply(&after, &over).unwrap();
                assert_eq!(edit::read(&there, &wanted).unwrap().as_ref(), Some(other), "{}", knob.name);
                assert_eq!(edit::undo(&there, &over).unwrap(), after, "{}", knob.name);
            }
            assert_eq!(edit::undo(&after, &edits).unwrap(), before, "{}", knob.name);
        }
    }
}

#[test]
fn rows_are_told_apart_and_say_who_advises_them() {
    let names: BTreeSet<&str> = rows().map(|knob| knob.name).collect();
    assert_eq!(names.len(), rows().count());
    assert!(rows().count() >= 60 && rows().all(|knob| !knob.source.is_empty()));
    assert_eq!(find("pm.max_children").map(|knob| knob.tier), Some(Tier::Php));
}

/// Each cause of the diagnosis has knobs, or says why it has none; no row names a slug that does not exist.
#[test]
fn every_cause_has_knobs_or_a_reason() {
    for cause in CAUSES {
        let has = rows().any(|knob| knob.risk == Risk::Safe && knob.causes.contains(cause));
        let why = WITHOUT_KNOBS.iter().any(|(name, why)| name == cause && !why.is_empty());
        assert!(has != why, "{cause}: knobs {has}, reason {why}");
    }
    assert!(WITHOUT_KNOBS.iter().all(|(name, _)| CAUSES.contains(name)));
    let slugs: BTreeSet<&str> = audit::checks().map(|check| check.slug).collect();
    for knob in rows() {
        for cause in knob.causes {
            assert!(CAUSES.contains(cause), "{}: {cause}", knob.name);
        }
        for finding in knob.findings {
            assert!(slugs.contains(finding), "{}: {finding}", knob.name);
        }
        if let Some((other, _)) = knob.idle_with {
            assert!(find(other).is_some(), "{}: {other}", knob.name);
        }
    }
}

#[test]
fn the_limit_comes_before_the_audit() {
    let names = |cause, findings: &[&str], is_brisk| -> Vec<&str> {
        eligible(cause, findings, is_brisk).iter().map(|knob| knob.name).collect()
    };
    let found = names("pool-too-small", &["opcache-off", "sendfile-off"], false);
    assert_eq!(&found[..2], ["pm.max_children", "pm"]);
    assert_eq!(&found[found.len() - 2..], ["opcache.enable", "sendfile"]);
    // What only the application can mend, pages that are kept hide; which is no advice.
    let found = names("application-waits", &[], false);
    assert!(found.iter().all(|name| find(name).unwrap().risk == Risk::Correctness), "{found:?}");
    let found =
        names("php-cpu", &["keepalive-off", "sendfile-off", "database-pool-small", "opcache-memory"], false);
    let at = |name: &str| found.iter().position(|one| *one == name).unwrap();
    let order = [
        "opcache.jit",
        "innodb_buffer_pool_size",
        "opcache.memory_consumption",
        "keepalive_timeout",
        "sendfile",
    ];
    assert!(order.is_sorted_by_key(|name| at(name)), "{found:?}");
    // A pool that is too large shows in what its processes want: CPUs, or connections.
    assert_eq!(names("php-cpu", &[], false)[0], "pm.max_children");
    assert_eq!(names("database-connections", &[], false)[0], "pm.max_children");
    assert!(names("server-cpu", &[], false).contains(&"multi_accept"));
    assert!(!names("server-cpu", &[], true).contains(&"multi_accept"));
}

/// A limit that refuses work is not made smaller.
#[test]
fn limits_that_refuse_work_only_grow() {
    let knob = find("worker_connections").unwrap();
    for levels in [knob.levels(Some("768"), &machine()), knob.ladder(Some("768"), &machine())] {
        let levels = levels.unwrap();
        assert_eq!((levels.original, &*levels.texts[0], levels.places[0]), (0, "768", 0.0));
        assert!(levels.texts.len() > 1);
    }
    let most = knob.levels(Some("65536"), &machine()).unwrap();
    assert_eq!(most.texts, ["65536"]);
    for name in ["max_connections", "listen.backlog", "listen backlog", "ListenBacklog", "proxy_buffer_size"]
    {
        assert!(find(name).unwrap().never_less, "{name}");
    }
    // Fewer processes can be what a site needs.
    let pool = find("pm.max_children").unwrap().levels(Some("100"), &machine()).unwrap();
    assert!(pool.original > 0);
}

/// OPcache that is on is not tried off.
#[test]
fn a_choice_may_be_settled() {
    let is_settled = |name: &str, now: &str| {
        let knob = find(name).unwrap();
        knob.is_settled(knob.levels(Some(now), &machine()).unwrap().original)
    };
    assert!(is_settled("opcache.enable", "On") && is_settled("opcache.validate_timestamps", "0"));
    assert!(!is_settled("opcache.enable", "0") && !is_settled("opcache.jit", "disable"));
    assert!(!is_settled("pm.max_children", "16"));
    for knob in rows() {
        let is_choice = |best: &str| matches!(knob.domain, Domain::Choice(texts) if texts.contains(&best));
        assert!(knob.settled.is_none_or(is_choice), "{}", knob.name);
    }
}

#[test]
fn levels_are_spread_as_the_scale_says() {
    let of = |name: &str, now: Option<&str>| find(name).unwrap().levels(now, &machine());
    let children = of("pm.max_children", Some("7")).unwrap();
    assert_eq!(
        children.texts,
        ["2", "3", "4", "7", "10", "15", "23", "34", "51", "76", "110", "170", "256"],
        "{children:?}"
    );
    assert_eq!((children.original, children.is_ordered), (3, true));
    assert!(children.places[0].abs() < 1e-9 && (children.places[12] - 1.0).abs() < 1e-9);
    let level = of("gzip_comp_level", None).unwrap();
    assert_eq!(level.texts, ["1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    // What is written stays spelled as it is.
    let workers = of("worker_processes", Some("auto")).unwrap();
    assert_eq!(workers.texts[workers.original], "auto");
    assert_eq!(of("fastcgi_buffers", Some("8 16k")).unwrap().texts.len(), 13);
    let unread = of("fastcgi_buffers", Some("16 16k")).unwrap_err().to_string();
    assert_eq!(unread, "the value \"16 16k\" of fastcgi_buffers is not understood: it is left as it is");
    let pool = of("innodb_buffer_pool_size", Some("8M")).unwrap();
    assert_eq!((pool.original, &*pool.texts[0]), (0, "8M"));
    assert!(pool.texts[1..].iter().all(|text| text.ends_with('m')), "{pool:?}");
    let switch = of("opcache.enable", Some("On")).unwrap();
    assert_eq!((switch.texts, switch.original, switch.is_ordered), (vec!["0".into(), "On".into()], 1, false));
    assert_eq!(of("pm", Some("static")).unwrap().original, 0);
}

/// Nothing that could lose data, hide what happened or show old pages is tried without being allowed.
#[test]
fn dangerous_ones_are_proposals() {
    for (name, risk) in [
        ("innodb_flush_log_at_trx_commit", Risk::Durability),
        ("fastcgi_cache_valid", Risk::Correctness),
        ("opcache.validate_timestamps", Risk::Correctness),
        ("access_log", Risk::Security),
        ("pm.max_children", Risk::Safe),
    ] {
        assert_eq!(find(name).unwrap().risk, risk, "{name}");
    }
}

/// Under real traffic nothing jumps: each value is within a quarter of its neighbour, or one more or less.
#[test]
fn a_ladder_has_small_steps() {
    let machine = Machine { cpus: 2, memory: 4 << 30, ..Machine::default() };
    let numbers = |name: &str, now: &str| -> (Vec<f64>, usize) {
        let levels = find(name).unwrap().ladder(Some(now), &machine).unwrap();
        assert_eq!(levels.places, (0..levels.texts.len()).map(|index| index as f64).collect::<Vec<_>>());
        (levels.texts.iter().map(|text| text.parse().unwrap()).collect(), levels.original)
    };
    for (name, now) in [("pm.max_children", "40"), ("pm.max_children", "2"), ("gzip_comp_level", "6")] {
        let (numbers, original) = numbers(name, now);
        assert_eq!(numbers[original].to_string(), now);
        assert!(numbers.len() > 3, "{name}: {numbers:?}");
        assert!(
            numbers.windows(2).all(|two| two[1] / two[0] <= 1.26 || two[1] - two[0] <= 1.0),
            "{name}: {numbers:?}"
        );
    }
    let choice = find("opcache.enable").unwrap();
    assert_eq!(choice.ladder(Some("0"), &machine), choice.levels(Some("0"), &machine));
}
