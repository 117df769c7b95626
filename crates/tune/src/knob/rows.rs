//! The rows.

use super::Bound::{Fixed, OfMemory, PerCpu};
use super::Domain::Choice;
use super::Scale::{Linear, Logarithmic};
use super::Unit::{Bytes, Count, Megabytes, Seconds};
use super::{Bound, Domain, Knob, Needs, Risk, Scale, Unit};
use crate::audit::Tier;
use crate::edit::Language;

const fn number(low: Bound, high: Bound, scale: Scale, unit: Unit) -> Domain {
    Domain::Number { low, high, scale, unit }
}

const fn knob(name: &'static str, tier: Tier, language: Language, needs: Needs) -> Knob {
    Knob {
        name,
        tier,
        language,
        default: "",
        domain: Choice(&[]),
        form: "",
        words: &[],
        needs,
        risk: Risk::Safe,
        is_for_brisk: true,
        causes: &[],
        findings: &[],
        source: "",
    }
}

/// A directive of nginx's language, written into this block where it stands nowhere.
const fn nginx(name: &'static str, block: &'static str) -> Knob {
    knob(name, Tier::Server, Language::Nginx { block }, Needs::Reload)
}

const fn listen(name: &'static str, prefix: &'static str) -> Knob {
    let language = Language::NginxParameter { directive: "listen", prefix };
    knob(name, Tier::Server, language, Needs::Restart)
}

const fn pool(name: &'static str) -> Knob {
    knob(name, Tier::Php, Language::Pool, Needs::Reload)
}

const fn php(name: &'static str) -> Knob {
    knob(name, Tier::Php, Language::Php, Needs::Reload)
}

const fn apache(name: &'static str) -> Knob {
    Knob { is_for_brisk: false, ..knob(name, Tier::Server, Language::Apache, Needs::Reload) }
}

const fn database(name: &'static str) -> Knob {
    knob(name, Tier::Database, Language::Database, Needs::Restart)
}

const fn sysctl(name: &'static str) -> Knob {
    knob(name, Tier::Machine, Language::Sysctl, Needs::Reload)
}

/// All knobs, those first that change most where they matter.
pub const ROWS: &[Knob] = &[
    Knob {
        default: "5",
        domain: number(Fixed(2), PerCpu(64), Logarithmic, Count),
        causes: &["pool-too-small", "php-one-process"],
        findings: &["pool-as-delivered"],
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
        source: "PHP manual, install.fpm.configuration",
        ..pool("listen.backlog")
    },
    Knob {
        default: "1",
        domain: Choice(&["0", "1"]),
        needs: Needs::Restart,
        causes: &["php-cpu", "php-one-process"],
        findings: &["opcache-off"],
        source: "PHP manual, opcache.configuration",
        ..php("opcache.enable")
    },
    Knob {
        default: "128",
        domain: number(Fixed(32), Fixed(1024), Logarithmic, Megabytes),
        needs: Needs::Restart,
        causes: &["php-cpu"],
        findings: &["opcache-memory"],
        source: "PHP manual, opcache.configuration",
        ..php("opcache.memory_consumption")
    },
    Knob {
        default: "8",
        domain: number(Fixed(4), Fixed(128), Logarithmic, Megabytes),
        needs: Needs::Restart,
        causes: &["php-cpu"],
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
        causes: &["php-cpu"],
        findings: &["opcache-looks-always"],
        source: "PHP manual, opcache.configuration",
        ..php("opcache.revalidate_freq")
    },
    Knob {
        default: "1",
        domain: Choice(&["0", "1"]),
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
        source: "PHP manual, opcache.configuration",
        ..php("opcache.jit")
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
        causes: &["php-cpu"],
        source: "PHP manual, opcache.configuration",
        ..php("opcache.huge_code_pages")
    },
    Knob {
        default: "4096k",
        domain: number(Fixed(65_536), Fixed(16_777_216), Logarithmic, Bytes),
        causes: &["php-cpu"],
        findings: &["realpath-cache"],
        source: "PHP manual, ini.core",
        ..php("realpath_cache_size")
    },
    Knob {
        default: "120",
        domain: number(Fixed(30), Fixed(3600), Logarithmic, Seconds),
        causes: &["php-cpu"],
        source: "PHP manual, ini.core",
        ..php("realpath_cache_ttl")
    },
    Knob {
        default: "4096",
        domain: number(Fixed(0), Fixed(65_536), Linear, Count),
        findings: &["output-unbuffered"],
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
        source: "PHP manual, apcu.configuration",
        ..php("apc.shm_size")
    },
    Knob {
        default: "0",
        domain: Choice(&["0", "1"]),
        source: "PHP manual, session.configuration",
        ..php("session.gc_probability")
    },
    Knob {
        default: "1",
        domain: number(Fixed(1), PerCpu(2), Linear, Count),
        words: &[("auto", PerCpu(1))],
        needs: Needs::Restart,
        causes: &["server-one-thread", "server-cpu"],
        findings: &["workers-one", "workers-many"],
        source: "nginx documentation",
        ..nginx("worker_processes", "")
    },
    Knob {
        default: "512",
        domain: number(Fixed(512), Fixed(65_536), Logarithmic, Count),
        findings: &["connections-few"],
        source: "nginx documentation",
        ..nginx("worker_connections", "events")
    },
    Knob {
        default: "off",
        domain: Choice(&["off", "on"]),
        is_for_brisk: false,
        causes: &["server-cpu"],
        source: "article 004 for it, nginx documentation neither",
        ..nginx("multi_accept", "events")
    },
    Knob {
        default: "off",
        domain: Choice(&["off", "on"]),
        is_for_brisk: false,
        causes: &["server-cpu"],
        source: "nginx documentation",
        ..nginx("accept_mutex", "events")
    },
    Knob {
        default: "1024",
        domain: number(Fixed(1024), Fixed(1_048_576), Logarithmic, Count),
        findings: &["descriptors-few"],
        source: "nginx documentation",
        ..nginx("worker_rlimit_nofile", "")
    },
    Knob {
        default: "off",
        domain: Choice(&["off", "on"]),
        causes: &["server-cpu"],
        findings: &["sendfile-off"],
        source: "nginx documentation",
        ..nginx("sendfile", "http")
    },
    Knob {
        default: "off",
        domain: Choice(&["off", "on"]),
        causes: &["server-cpu"],
        source: "nginx documentation",
        ..nginx("tcp_nopush", "http")
    },
    Knob {
        default: "on",
        domain: Choice(&["off", "on"]),
        findings: &["nodelay-off"],
        source: "nginx documentation",
        ..nginx("tcp_nodelay", "http")
    },
    Knob {
        default: "off",
        domain: Choice(&["off", "threads"]),
        is_for_brisk: false,
        causes: &["disk-busy"],
        source: "nginx documentation",
        ..nginx("aio", "http")
    },
    Knob {
        default: "2m",
        domain: number(Fixed(131_072), Fixed(16_777_216), Logarithmic, Bytes),
        source: "nginx documentation",
        ..nginx("sendfile_max_chunk", "http")
    },
    Knob {
        default: "75",
        domain: number(Fixed(5), Fixed(300), Logarithmic, Seconds),
        causes: &["server-cpu"],
        findings: &["keepalive-off"],
        source: "nginx documentation",
        ..nginx("keepalive_timeout", "http")
    },
    Knob {
        default: "1000",
        domain: number(Fixed(100), Fixed(100_000), Logarithmic, Count),
        findings: &["keepalive-few-requests"],
        source: "nginx documentation",
        ..nginx("keepalive_requests", "http")
    },
    Knob {
        default: "off",
        domain: Choice(&["off", "on"]),
        findings: &["compression-off"],
        source: "nginx documentation",
        ..nginx("gzip", "http")
    },
    Knob {
        default: "1",
        domain: number(Fixed(1), Fixed(9), Linear, Count),
        causes: &["server-cpu", "server-one-thread"],
        findings: &["compression-level"],
        source: "nginx documentation",
        ..nginx("gzip_comp_level", "http")
    },
    Knob {
        default: "20",
        domain: number(Fixed(20), Fixed(16_384), Logarithmic, Count),
        causes: &["server-cpu"],
        findings: &["compression-of-little"],
        source: "nginx documentation",
        ..nginx("gzip_min_length", "http")
    },
    Knob {
        default: "off",
        domain: Choice(&["off", "on"]),
        causes: &["server-cpu"],
        source: "nginx documentation; needs files made beforehand",
        ..nginx("gzip_static", "http")
    },
    Knob {
        default: "off",
        domain: Choice(&["off", "max=1000 inactive=60s", "max=10000 inactive=60s"]),
        is_for_brisk: false,
        causes: &["server-cpu", "disk-busy"],
        findings: &["files-opened-anew"],
        source: "nginx documentation",
        ..nginx("open_file_cache", "http")
    },
    Knob {
        default: "60",
        domain: number(Fixed(10), Fixed(600), Logarithmic, Seconds),
        is_for_brisk: false,
        source: "nginx documentation",
        ..nginx("open_file_cache_valid", "http")
    },
    Knob {
        default: "logs/access.log combined",
        domain: Choice(&["off"]),
        risk: Risk::Security,
        causes: &["server-cpu", "disk-busy"],
        findings: &["access-log-unbuffered"],
        source: "articles 000 and 004",
        ..nginx("access_log", "http")
    },
    Knob {
        default: "2 32k",
        domain: number(Fixed(16_384), Fixed(524_288), Logarithmic, Bytes),
        form: "2 {}",
        is_for_brisk: false,
        source: "nginx documentation",
        ..nginx("output_buffers", "http")
    },
    Knob {
        default: "16k",
        domain: number(Fixed(8192), Fixed(1_048_576), Logarithmic, Bytes),
        causes: &["disk-busy"],
        source: "nginx documentation",
        ..nginx("client_body_buffer_size", "http")
    },
    Knob {
        default: "8 4k",
        domain: number(Fixed(4096), Fixed(65_536), Logarithmic, Bytes),
        form: "8 {}",
        causes: &["disk-busy"],
        source: "nginx documentation",
        ..nginx("fastcgi_buffers", "http")
    },
    Knob {
        default: "4k",
        domain: number(Fixed(4096), Fixed(65_536), Logarithmic, Bytes),
        source: "nginx documentation",
        ..nginx("fastcgi_buffer_size", "http")
    },
    Knob {
        default: "off",
        domain: Choice(&["off", "on"]),
        causes: &["server-cpu"],
        findings: &["back-end-connections", "fastcgi-connections"],
        source: "nginx documentation",
        ..nginx("fastcgi_keep_conn", "http")
    },
    Knob {
        default: "",
        domain: Choice(&["", "200 1s", "200 10s"]),
        risk: Risk::Correctness,
        causes: &["php-cpu", "pool-too-small", "php-one-process", "database-cpu"],
        source: "articles 001 and 004",
        ..nginx("fastcgi_cache_valid", "http")
    },
    Knob {
        default: "8 4k",
        domain: number(Fixed(4096), Fixed(65_536), Logarithmic, Bytes),
        form: "8 {}",
        causes: &["disk-busy"],
        source: "nginx documentation",
        ..nginx("proxy_buffers", "http")
    },
    Knob {
        default: "4k",
        domain: number(Fixed(4096), Fixed(65_536), Logarithmic, Bytes),
        source: "nginx documentation",
        ..nginx("proxy_buffer_size", "http")
    },
    Knob {
        default: "on",
        domain: Choice(&["off", "on"]),
        findings: &["buffering-off"],
        source: "nginx documentation",
        ..nginx("proxy_buffering", "http")
    },
    Knob {
        default: "",
        domain: Choice(&["", "200 1s", "200 10s"]),
        risk: Risk::Correctness,
        source: "article 002",
        ..nginx("proxy_cache_valid", "http")
    },
    Knob {
        default: "none",
        domain: Choice(&["none", "shared:brisk:10m"]),
        causes: &["server-cpu"],
        findings: &["tls-no-resumption"],
        source: "nginx documentation",
        ..nginx("ssl_session_cache", "http")
    },
    Knob {
        default: "5m",
        domain: number(Fixed(60), Fixed(86_400), Logarithmic, Seconds),
        source: "nginx documentation",
        ..nginx("ssl_session_timeout", "http")
    },
    Knob {
        default: "16k",
        domain: number(Fixed(4096), Fixed(16_384), Logarithmic, Bytes),
        source: "nginx documentation",
        ..nginx("ssl_buffer_size", "http")
    },
    Knob {
        default: "128",
        domain: number(Fixed(32), Fixed(512), Logarithmic, Count),
        findings: &["http2-few-streams"],
        source: "nginx documentation",
        ..nginx("http2_max_concurrent_streams", "http")
    },
    Knob {
        default: "",
        domain: Choice(&["", "Options KTLS"]),
        needs: Needs::Restart,
        is_for_brisk: false,
        causes: &["server-cpu"],
        source: "nginx documentation",
        ..nginx("ssl_conf_command", "http")
    },
    Knob {
        default: "511",
        domain: number(Fixed(128), Fixed(65_536), Logarithmic, Count),
        causes: &["backlog-small"],
        findings: &["backlog-small"],
        source: "nginx documentation",
        ..listen("listen backlog", " backlog=")
    },
    Knob {
        default: "150",
        domain: number(Fixed(8), Fixed(2048), Logarithmic, Count),
        needs: Needs::Restart,
        causes: &["server-one-thread", "pool-too-small"],
        source: "Apache documentation",
        ..apache("MaxRequestWorkers")
    },
    Knob {
        default: "25",
        domain: number(Fixed(8), Fixed(128), Logarithmic, Count),
        needs: Needs::Restart,
        causes: &["server-cpu"],
        source: "Apache documentation",
        ..apache("ThreadsPerChild")
    },
    Knob {
        default: "16",
        domain: number(Fixed(4), Fixed(256), Logarithmic, Count),
        needs: Needs::Restart,
        source: "Apache documentation",
        ..apache("ServerLimit")
    },
    Knob {
        default: "3",
        domain: number(Fixed(1), Fixed(32), Logarithmic, Count),
        source: "Apache documentation",
        ..apache("StartServers")
    },
    Knob {
        default: "0",
        domain: Choice(&["0", "10000"]),
        source: "Apache documentation",
        ..apache("MaxConnectionsPerChild")
    },
    Knob {
        default: "On",
        domain: Choice(&["Off", "On"]),
        causes: &["server-cpu"],
        findings: &["keepalive-off"],
        source: "Apache documentation",
        ..apache("KeepAlive")
    },
    Knob {
        default: "5",
        domain: number(Fixed(1), Fixed(60), Logarithmic, Seconds),
        causes: &["server-cpu"],
        source: "Apache documentation",
        ..apache("KeepAliveTimeout")
    },
    Knob {
        default: "Off",
        domain: Choice(&["Off", "On"]),
        causes: &["server-cpu"],
        source: "Apache documentation",
        ..apache("EnableSendfile")
    },
    Knob {
        default: "511",
        domain: number(Fixed(128), Fixed(8192), Logarithmic, Count),
        needs: Needs::Restart,
        causes: &["backlog-small"],
        source: "Apache documentation",
        ..apache("ListenBacklog")
    },
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
