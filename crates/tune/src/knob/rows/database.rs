//! MariaDB, MySQL and the kernel.

use super::forms::{database, number, sysctl};
use crate::knob::row::Bound::{Fixed, OfMemory};
use crate::knob::row::Domain::Choice;
use crate::knob::row::Scale::{Linear, Logarithmic};
use crate::knob::row::Unit::{Bytes, Count};
use crate::knob::row::{Knob, Risk};

/// Its rows.
pub(super) const ROWS: &[Knob] = &[
    Knob {
        default: "128m",
        domain: number(Fixed(8_388_608), OfMemory(70), Logarithmic, Bytes),
        causes: &["disk-busy", "database-cpu"],
        findings: &["database-pool-small", "database-pool-large"],
        source: "MariaDB documentation",
        ..database("innodb_buffer_pool_size")
    },
    Knob {
        default: "96m",
        domain: number(Fixed(16_777_216), Fixed(2_147_483_648), Logarithmic, Bytes),
        causes: &["disk-busy"],
        findings: &["database-log-small"],
        source: "MariaDB documentation",
        ..database("innodb_log_file_size")
    },
    Knob {
        default: "O_DIRECT",
        domain: Choice(&["O_DIRECT", "fsync"]),
        causes: &["disk-busy"],
        findings: &["database-buffered-twice"],
        source: "MariaDB documentation",
        ..database("innodb_flush_method")
    },
    Knob {
        default: "1",
        domain: Choice(&["1", "2"]),
        risk: Risk::Durability,
        causes: &["disk-busy"],
        source: "MariaDB documentation",
        ..database("innodb_flush_log_at_trx_commit")
    },
    Knob {
        default: "200",
        domain: number(Fixed(100), Fixed(10_000), Logarithmic, Count),
        causes: &["disk-busy"],
        source: "MariaDB documentation",
        ..database("innodb_io_capacity")
    },
    Knob {
        default: "16m",
        domain: number(Fixed(8_388_608), Fixed(134_217_728), Logarithmic, Bytes),
        causes: &["disk-busy"],
        source: "MariaDB documentation",
        ..database("innodb_log_buffer_size")
    },
    Knob {
        default: "151",
        domain: number(Fixed(50), Fixed(2000), Logarithmic, Count),
        causes: &["database-connections"],
        findings: &["database-connections-few"],
        never_less: true,
        source: "MariaDB documentation",
        ..database("max_connections")
    },
    Knob {
        default: "151",
        domain: number(Fixed(8), Fixed(512), Logarithmic, Count),
        findings: &["database-threads-few"],
        source: "MariaDB documentation",
        ..database("thread_cache_size")
    },
    Knob {
        default: "2000",
        domain: number(Fixed(400), Fixed(16_384), Logarithmic, Count),
        causes: &["database-cpu"],
        findings: &["database-tables-few"],
        source: "MariaDB documentation",
        ..database("table_open_cache")
    },
    Knob {
        default: "16m",
        domain: number(Fixed(4_194_304), Fixed(268_435_456), Logarithmic, Bytes),
        causes: &["disk-busy"],
        findings: &["database-temporary-tables"],
        source: "MariaDB documentation",
        ..database("tmp_table_size")
    },
    Knob {
        default: "16m",
        domain: number(Fixed(4_194_304), Fixed(268_435_456), Logarithmic, Bytes),
        causes: &["disk-busy"],
        findings: &["database-temporary-tables"],
        never_less: true,
        source: "MariaDB documentation",
        ..database("max_heap_table_size")
    },
    Knob {
        default: "OFF",
        domain: Choice(&["OFF", "ON"]),
        causes: &["database-cpu"],
        findings: &["database-query-cache"],
        source: "MariaDB documentation",
        ..database("query_cache_type")
    },
    Knob {
        default: "256k",
        domain: number(Fixed(131_072), Fixed(8_388_608), Logarithmic, Bytes),
        causes: &["database-cpu", "database-one-thread"],
        source: "MariaDB documentation",
        ..database("join_buffer_size")
    },
    Knob {
        default: "2m",
        domain: number(Fixed(262_144), Fixed(16_777_216), Logarithmic, Bytes),
        causes: &["database-cpu"],
        source: "MariaDB documentation",
        ..database("sort_buffer_size")
    },
    Knob {
        default: "0",
        domain: Choice(&["0", "1"]),
        findings: &["database-names-resolved"],
        // Accounts that are named by host are refused.
        risk: Risk::Correctness,
        source: "MariaDB documentation",
        ..database("skip-name-resolve")
    },
    Knob {
        default: "4096",
        domain: number(Fixed(128), Fixed(65_536), Logarithmic, Count),
        causes: &["backlog-small"],
        findings: &["kernel-backlog"],
        source: "Linux, Documentation/admin-guide/sysctl",
        ..sysctl("net.core.somaxconn")
    },
    Knob {
        default: "1024",
        domain: number(Fixed(256), Fixed(65_536), Logarithmic, Count),
        causes: &["backlog-small"],
        findings: &["kernel-syn-backlog"],
        source: "Linux, Documentation/admin-guide/sysctl",
        ..sysctl("net.ipv4.tcp_max_syn_backlog")
    },
    Knob {
        default: "1",
        domain: Choice(&["0", "1"]),
        findings: &["kernel-slow-start-after-idle"],
        source: "Linux, Documentation/admin-guide/sysctl",
        ..sysctl("net.ipv4.tcp_slow_start_after_idle")
    },
    Knob {
        default: "212992",
        domain: number(Fixed(212_992), Fixed(16_777_216), Logarithmic, Count),
        source: "Linux, Documentation/admin-guide/sysctl",
        ..sysctl("net.core.rmem_max")
    },
    Knob {
        default: "212992",
        domain: number(Fixed(212_992), Fixed(16_777_216), Logarithmic, Count),
        source: "Linux, Documentation/admin-guide/sysctl",
        ..sysctl("net.core.wmem_max")
    },
    Knob {
        default: "60",
        domain: number(Fixed(1), Fixed(100), Linear, Count),
        findings: &["memory-swapped"],
        source: "Linux, Documentation/admin-guide/sysctl",
        ..sysctl("vm.swappiness")
    },
];
