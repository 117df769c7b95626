//! PHP and its pools.

use super::forms::{number, php, pool};
use crate::knob::row::Bound::{Fixed, PerCpu};
use crate::knob::row::Domain::Choice;
use crate::knob::row::Scale::{Linear, Logarithmic};
use crate::knob::row::Unit::{Bytes, Count, Megabytes, Seconds};
use crate::knob::row::{Knob, Needs, Risk};

/// Its rows.
pub(super) const ROWS: &[Knob] = &[
    Knob {
        default: "5",
        domain: number(Fixed(2), PerCpu(64), Logarithmic, Count),
        usual: Some(PerCpu(8)),
        causes: &["pool-too-small", "pool-too-large", "php-one-process", "php-cpu", "database-connections"],
        findings: &["pool-as-delivered", "pool-beyond-cpus"],
        source: "PHP manual, install.fpm.configuration",
        ..pool("pm.max_children")
    },
    Knob {
        default: "dynamic",
        domain: Choice(&["static", "dynamic", "ondemand"]),
        causes: &["pool-too-small"],
        source: "PHP manual, install.fpm.configuration",
        ..pool("pm")
    },
    Knob {
        default: "2",
        domain: number(Fixed(1), PerCpu(16), Logarithmic, Count),
        source: "PHP manual, install.fpm.configuration",
        ..pool("pm.start_servers")
    },
    Knob {
        default: "3",
        domain: number(Fixed(2), PerCpu(32), Logarithmic, Count),
        source: "PHP manual, install.fpm.configuration",
        ..pool("pm.max_spare_servers")
    },
    Knob {
        default: "0",
        domain: Choice(&["0", "500", "5000"]),
        findings: &["pool-restarted-often"],
        source: "PHP manual, install.fpm.configuration",
        ..pool("pm.max_requests")
    },
    Knob {
        default: "10s",
        domain: number(Fixed(5), Fixed(300), Logarithmic, Seconds),
        form: "{}s",
        source: "PHP manual, install.fpm.configuration",
        ..pool("pm.process_idle_timeout")
    },
    Knob {
        default: "511",
        domain: number(Fixed(128), Fixed(8192), Logarithmic, Count),
        needs: Needs::Restart,
        causes: &["backlog-small"],
        findings: &["pool-backlog"],
        never_less: true,
        source: "PHP manual, install.fpm.configuration",
        ..pool("listen.backlog")
    },
    Knob {
        default: "1",
        domain: Choice(&["0", "1"]),
        settled: Some("1"),
        needs: Needs::Restart,
        causes: &["opcache-off", "php-cpu", "php-one-process"],
        findings: &["opcache-off"],
        source: "PHP manual, opcache.configuration",
        ..php("opcache.enable")
    },
    Knob {
        default: "8",
        domain: number(Fixed(4), Fixed(128), Logarithmic, Megabytes),
        needs: Needs::Restart,
        findings: &["opcache-strings"],
        source: "PHP manual, opcache.configuration",
        ..php("opcache.interned_strings_buffer")
    },
    Knob {
        default: "10000",
        domain: number(Fixed(2000), Fixed(100_000), Logarithmic, Count),
        needs: Needs::Restart,
        findings: &["opcache-files"],
        source: "PHP manual, opcache.configuration",
        ..php("opcache.max_accelerated_files")
    },
    Knob {
        default: "2",
        domain: number(Fixed(0), Fixed(60), Linear, Seconds),
        findings: &["opcache-looks-always"],
        // Changed scripts are seen so much later.
        risk: Risk::Correctness,
        source: "PHP manual, opcache.configuration",
        ..php("opcache.revalidate_freq")
    },
    Knob {
        default: "1",
        domain: Choice(&["0", "1"]),
        settled: Some("0"),
        risk: Risk::Correctness,
        causes: &["php-cpu"],
        source: "PHP manual, opcache.configuration",
        ..php("opcache.validate_timestamps")
    },
    Knob {
        default: "0",
        domain: Choice(&["0", "64M", "128M"]),
        needs: Needs::Restart,
        causes: &["php-cpu", "php-one-process"],
        source: "PHP manual, opcache.configuration",
        ..php("opcache.jit_buffer_size")
    },
    Knob {
        default: "disable",
        domain: Choice(&["disable", "tracing", "function"]),
        needs: Needs::Restart,
        causes: &["php-cpu", "php-one-process"],
        idle_with: Some(("opcache.jit_buffer_size", "0")),
        source: "PHP manual, opcache.configuration",
        ..php("opcache.jit")
    },
    Knob {
        default: "128",
        domain: number(Fixed(32), Fixed(1024), Logarithmic, Megabytes),
        needs: Needs::Restart,
        findings: &["opcache-memory"],
        source: "PHP manual, opcache.configuration",
        ..php("opcache.memory_consumption")
    },
    Knob {
        default: "1",
        domain: Choice(&["0", "1"]),
        needs: Needs::Restart,
        risk: Risk::Correctness,
        source: "PHP manual, opcache.configuration",
        ..php("opcache.save_comments")
    },
    Knob {
        default: "0",
        domain: Choice(&["0", "1"]),
        needs: Needs::Restart,
        source: "PHP manual, opcache.configuration",
        ..php("opcache.huge_code_pages")
    },
    Knob {
        default: "4096k",
        domain: number(Fixed(65_536), Fixed(16_777_216), Logarithmic, Bytes),
        findings: &["realpath-cache"],
        source: "PHP manual, ini.core",
        ..php("realpath_cache_size")
    },
    Knob {
        default: "120",
        domain: number(Fixed(30), Fixed(3600), Logarithmic, Seconds),
        // A link that points elsewhere after a deployment is seen so much later.
        risk: Risk::Correctness,
        source: "PHP manual, ini.core",
        ..php("realpath_cache_ttl")
    },
    Knob {
        default: "4096",
        domain: number(Fixed(0), Fixed(65_536), Linear, Count),
        findings: &["output-unbuffered"],
        // Pages that send fields after their first output need it, and those that send parts at once need none.
        risk: Risk::Correctness,
        source: "PHP manual, outcontrol.configuration",
        ..php("output_buffering")
    },
    Knob {
        default: "-1",
        domain: Choice(&["-1", "0", "1"]),
        findings: &["assertions"],
        source: "PHP manual, ini.core",
        ..php("zend.assertions")
    },
    Knob {
        default: "32M",
        domain: number(Fixed(16_777_216), Fixed(536_870_912), Logarithmic, Bytes),
        needs: Needs::Restart,
        never_less: true,
        source: "PHP manual, apcu.configuration",
        ..php("apc.shm_size")
    },
    Knob {
        default: "0",
        domain: Choice(&["0", "1"]),
        // Where nothing else deletes old sessions, they hold for ever.
        risk: Risk::Security,
        source: "PHP manual, session.configuration",
        ..php("session.gc_probability")
    },
];
