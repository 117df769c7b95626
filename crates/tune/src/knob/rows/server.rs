//! nginx, Brisk and Apache.

use super::forms::{FASTCGI, PROXY, apache, listen, nginx, number};
use crate::knob::row::Bound::{Fixed, PerCpu};
use crate::knob::row::Domain::Choice;
use crate::knob::row::Scale::{Linear, Logarithmic};
use crate::knob::row::Unit::{Bytes, Count, Seconds};
use crate::knob::row::{Knob, Needs, Risk};

/// Its rows.
pub(super) const ROWS: &[Knob] = &[
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
        never_less: true,
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
        never_less: true,
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
        // What it saves is on visitors' lines: a copy without such a line would only see what it costs.
        causes: &["page-weight"],
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
        // A file that was compressed before the last change is still sent.
        risk: Risk::Correctness,
        source: "nginx documentation; needs files made beforehand",
        ..nginx("gzip_static", "http")
    },
    Knob {
        default: "off",
        domain: Choice(&["off", "max=1000 inactive=60s", "max=10000 inactive=60s"]),
        is_for_brisk: false,
        causes: &["server-cpu", "disk-busy"],
        findings: &["files-opened-anew"],
        // A file that was changed is seen up to `open_file_cache_valid` later.
        risk: Risk::Correctness,
        source: "nginx documentation",
        ..nginx("open_file_cache", "http")
    },
    Knob {
        default: "60",
        domain: number(Fixed(10), Fixed(600), Logarithmic, Seconds),
        is_for_brisk: false,
        risk: Risk::Correctness,
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
        needs_any: FASTCGI,
        source: "nginx documentation",
        ..nginx("fastcgi_buffers", "http")
    },
    Knob {
        default: "4k",
        domain: number(Fixed(4096), Fixed(65_536), Logarithmic, Bytes),
        needs_any: FASTCGI,
        never_less: true,
        source: "nginx documentation",
        ..nginx("fastcgi_buffer_size", "http")
    },
    Knob {
        default: "off",
        domain: Choice(&["off", "on"]),
        causes: &["server-cpu"],
        findings: &["back-end-connections", "fastcgi-connections"],
        needs_any: FASTCGI,
        source: "nginx documentation",
        ..nginx("fastcgi_keep_conn", "http")
    },
    Knob {
        default: "8 4k",
        domain: number(Fixed(4096), Fixed(65_536), Logarithmic, Bytes),
        form: "8 {}",
        causes: &["disk-busy", "server-cpu"],
        needs_any: PROXY,
        source: "nginx documentation",
        ..nginx("proxy_buffers", "http")
    },
    Knob {
        default: "4k",
        domain: number(Fixed(4096), Fixed(65_536), Logarithmic, Bytes),
        needs_any: PROXY,
        never_less: true,
        source: "nginx documentation",
        ..nginx("proxy_buffer_size", "http")
    },
    Knob {
        default: "on",
        domain: Choice(&["off", "on"]),
        findings: &["buffering-off"],
        // It is off where parts of an answer must arrive at once.
        risk: Risk::Correctness,
        needs_any: PROXY,
        source: "nginx documentation",
        ..nginx("proxy_buffering", "http")
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
        // A session's key opens what was said for so long.
        risk: Risk::Security,
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
        never_less: true,
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
        never_less: true,
        source: "Apache documentation",
        ..apache("ListenBacklog")
    },
];
