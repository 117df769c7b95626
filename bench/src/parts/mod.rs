//! The parts of the benchmark: each brings up its servers, measures, and holds the figures
//! against its targets. One line in [`ALL`] makes a part.

mod cached;
mod compression;
mod entries;
mod http1;
mod http2;
mod http3;
mod idle;
mod large;
mod load;
mod memory;
mod mysql;
mod observe;
mod overrides;
mod php;
mod pools;
mod proxied;
mod routing;
mod slow;
mod spread;
mod start;
mod stream;
mod tls;

use std::io;

use crate::conf::Conf;
use crate::lab::Lab;
use crate::results::{Check, Row, Target};
use crate::rounds::{Samples, cpu, rates};
use crate::server::{Program, Spec};
use crate::stats::{Summary, median};

/// A part of the benchmark.
#[derive(Debug)]
pub struct Definition {
    /// Its name on the command line.
    pub name: &'static str,
    /// One sentence on what it does.
    pub about: &'static str,
    /// How.
    pub run: fn(&Lab) -> io::Result<Findings>,
}

/// What a part has found.
#[derive(Debug, Default)]
pub struct Findings {
    /// Figures against targets.
    pub checks: Vec<Check>,
    /// All figures.
    pub rows: Vec<Row>,
    /// How long others kept server or generator waiting for a core, relative to the time measured:
    /// the worst case's median.
    pub waited_share: f64,
}

impl Findings {
    /// Adds one server's samples in one case.
    fn add(&mut self, case: &str, measured: &Measured) {
        let waited = measured.samples.iter().map(|sample| sample.waited_share);
        self.waited_share = self.waited_share.max(median(&waited.collect::<Vec<_>>()));
        self.rows.push(measured.row(case));
    }
}

/// Every part, in the order in which they run and are shown.
pub const ALL: &[Definition] = &[
    Definition {
        name: "small",
        about: "A file of 100 bytes over keep-alive connections, with the access log off and on (to a file).",
        run: http1::small,
    },
    Definition {
        name: "medium",
        about: "A file of 10 KiB over 64 keep-alive connections.",
        run: http1::medium,
    },
    Definition { name: "large", about: "A file of 10 MiB over 8 keep-alive connections.", run: large::run },
    Definition {
        name: "compression",
        about: "A page of 20 KiB in gzip and Brotli of level 6: made for each request, of a file that does not change, and \
                compressed before (gzip_static, Brisk's compress_static). nginx has its own module and that of Debian.",
        run: compression::run,
    },
    Definition {
        name: "return",
        about: "`return 200 \"ok\";` over 64 keep-alive connections.",
        run: http1::returned,
    },
    Definition {
        name: "tls",
        about: "TLS 1.3 with an ECDSA certificate on P-256: 100 bytes over keep-alive connections, a full and a resumed handshake \
                for each request of 100 bytes, and a file of 10 MiB.",
        run: tls::run,
    },
    Definition {
        name: "proxied",
        about: "100 bytes from a back end that costs next to nothing, over connections that are kept on both sides. \
                *floor* passes bytes on over epoll without a look at them: nobody can cost less.",
        run: proxied::run,
    },
    Definition {
        name: "stream",
        about: "Connections passed on as they are (`stream`, HAProxy in TCP mode) to a server of files: 100 bytes over connections that \
                are kept, 100 bytes over a connection each, and 10 MiB.",
        run: stream::run,
    },
    Definition {
        name: "mysql",
        about: "Queries to a MariaDB (sysbench with 16 connections: point selects and the reads of `oltp_read_only`, as text and prepared): CPU of what stands \
                between, passing sessions on or, *split*, sending reads to two replicas. Sessions of one query each, as PHP has them: CPU of server and \
                databases together; *pool* is with `mysql_pool` before the primary alone; *floor* lets everybody in, and sends each command over a kept connection behind a reset, without a look at either: nobody can cost less. sysbench and databases share the generator's core.",
        run: mysql::run,
    },
    Definition {
        name: "http2",
        about: "A file of 100 bytes over HTTP/2 without TLS (h2load): 16 connections with 16 requests at a time each, and 64 \
                connections with one.",
        run: http2::run,
    },
    Definition {
        name: "http3",
        about: "HTTP/3 beside our own HTTP/2, both by our own generator: a file of 100 bytes on 16 connections with 16 requests at a time each, \
                and on 64 with one; a file of 10 MiB; a full handshake for each request of 100 bytes; memory of idle connections; the 99th percentile of others while \
                50,000 first packets per second come from clients that never go on, beside that while they go to a socket that nobody reads; and, with root's \
                rights, MB/s over loopback, a network that loses 1 %, and a policer (scripts/http3_goodput.py).",
        run: http3::run,
    },
    Definition {
        name: "cached",
        about: "100 bytes and 20 KB from a cache that is warm, over keep-alive connections.",
        run: cached::run,
    },
    Definition {
        name: "entries",
        about: "A cache folder with 1,000,000 files, found by a server that has just been started, and what its index takes.",
        run: entries::run,
    },
    Definition {
        name: "php",
        about: "A script of one line through PHP-FPM over a unix socket, CPU of server and PHP together; *kept* is with \
                `fastcgi_keep_conn` and as many connections as clients.",
        run: php::hello,
    },
    Definition {
        name: "wordpress",
        about: "WordPress's front page (examples/wordpress) through PHP-FPM, CPU of server and PHP together: made for each \
                request, and with a micro-cache of 1 s.",
        run: php::wordpress,
    },
    Definition {
        name: "pool",
        about: "A script of one line in a pool of Brisk's, by nginx and PHP-FPM, and by Apache and mod_php: 8 processes and 4 clients, \
                CPU of server and PHP together.",
        run: pools::hello,
    },
    Definition {
        name: "pool-bank",
        about: "The page of an account (examples/bank) in the same ways, with the CPU of its database. *PHP and database alone* is php-cgi that \
                carries out request after request: no server costs less.",
        run: pools::bank,
    },
    Definition {
        name: "pool-wp",
        about: "WordPress's front page (examples/wordpress) in the same ways, with the CPU of its database: made for each request, \
                and with a micro-cache of 1 s. *PHP and database alone* is php-cgi that carries out request after request: no server \
                costs less. Beside it the memory of 8 workers.",
        run: pools::wordpress,
    },
    Definition {
        name: "slow",
        about: "50 users and a back end that works on 5 requests at a time, for 50 ms each: pages of 100 KiB straight from it, \
                passed on, from a cache, and from one with larger buffers.",
        run: slow::run,
    },
    Definition {
        name: "idle",
        about: "Memory that 10,000 keep-alive connections hold that have had one response each.",
        run: idle::run,
    },
    Definition {
        name: "memory",
        about: "Memory of a server that has answered one request: with one site, and with 10,000 virtual hosts of two \
                names each.",
        run: memory::run,
    },
    Definition {
        name: "start",
        about: "From starting the process to its first answer, and `-t`, with one site and with 10,000 virtual hosts. \
                The start of the process includes about 1 ms of the harness's own.",
        run: start::run,
    },
    Definition {
        name: "routing",
        about: "A 100-byte file behind 200 regex locations that do not match, for one URI and for 5,000 in turn; and on a \
                server among 10,000 named ones.",
        run: routing::run,
    },
    Definition {
        name: "htaccess",
        about: "A file of 100 bytes on the seventh level of folders with a `.htaccess` each, WordPress's the first, relative to the \
                same without, and Apache both ways.",
        run: overrides::run,
    },
    Definition {
        name: "observe",
        about: "A file of 100 bytes over 64 keep-alive connections: with the default access log, and with numbers of \
                requests recorded for `metrics`, relative to neither.",
        run: observe::run,
    },
    Definition {
        name: "spread",
        about: "200 keep-alive connections on two workers that are free to move, 1,000 requests on each: CPU of the busiest \
                worker relative to the mean.",
        run: spread::run,
    },
    Definition {
        name: "load",
        about: "What load generators cost: CPU per request on nginx's file of 100 bytes, of `brisk bench`, wrk, ab, h2load, \
                oha and k6; *floor* sends a request for each read, whatever was read. The last case is HTTP/2.",
        run: load::run,
    },
];

/// Unit of CPU figures.
const CPU_UNIT: &str = "µs CPU/request";

/// Brisk as it is meant to be used.
fn brisk(conf: Conf) -> Spec {
    Spec::new("brisk", Program::Brisk, conf)
}

/// nginx as most people use it.
fn nginx(conf: Conf) -> Spec {
    Spec::new("nginx usual", Program::Nginx, conf)
}

/// The four set-ups of nginx, the usual one first.
fn nginx_setups(conf: &Conf) -> Vec<Spec> {
    let setup = |name: &str, sendfile: bool, file_cache: bool| {
        Spec::new(name, Program::Nginx, Conf { sendfile, file_cache, ..conf.clone() })
    };
    vec![
        setup("nginx usual", true, false),
        setup("nginx usual+cache", true, true),
        setup("nginx off", false, false),
        setup("nginx off+cache", false, true),
    ]
}

/// The samples of one server in one case.
struct Measured {
    server: String,
    samples: Samples,
}

impl Measured {
    fn cpu(&self) -> Vec<f64> {
        cpu(&self.samples)
    }

    fn row(&self, case: &str) -> Row {
        Row {
            case: case.to_owned(),
            server: self.server.clone(),
            figure: Summary::of(&self.cpu()),
            unit: CPU_UNIT.to_owned(),
            rate: Some(median(&rates(&self.samples))),
        }
    }
}

/// The cheapest of the servers whose name starts so.
fn best<'a>(measured: &'a [Measured], prefix: &str) -> Option<&'a Measured> {
    let candidates = measured.iter().filter(|one| one.server.starts_with(prefix));
    candidates.min_by(|a, b| median(&a.cpu()).total_cmp(&median(&b.cpu())))
}

/// The server of exactly this name.
fn named<'a>(measured: &'a [Measured], name: &str) -> Option<&'a Measured> {
    measured.iter().find(|one| one.server == name)
}

/// `peer / ours` must be at least so much.
fn peer_over_ours(what: String, ours: &Measured, peer: &Measured, at_least: f64) -> Check {
    ratio_check(what, ours, peer, Summary::of_ratio(&peer.cpu(), &ours.cpu()), Target::AtLeast(at_least))
}

/// `ours / peer` must be at most so much.
fn ours_over_peer(what: String, ours: &Measured, peer: &Measured, at_most: f64) -> Check {
    ratio_check(what, ours, peer, Summary::of_ratio(&ours.cpu(), &peer.cpu()), Target::AtMost(at_most))
}

fn ratio_check(what: String, ours: &Measured, peer: &Measured, figure: Summary, target: Target) -> Check {
    Check {
        what,
        ours: median(&ours.cpu()),
        peer: Some(median(&peer.cpu())),
        unit: CPU_UNIT.to_owned(),
        figure,
        target,
    }
}

/// A figure with an absolute target, and a peer's beside it.
fn absolute(what: &str, ours: &[f64], peer: &[f64], unit: &str, target: Target) -> Check {
    let figure = Summary::of(ours);
    Check {
        what: what.to_owned(),
        ours: figure.median,
        peer: (!peer.is_empty()).then(|| median(peer)),
        unit: unit.to_owned(),
        figure,
        target,
    }
}

/// A figure without a rate.
fn plain_row(case: &str, server: &str, values: &[f64], unit: &str) -> Row {
    Row {
        case: case.to_owned(),
        server: server.to_owned(),
        figure: Summary::of(values),
        unit: unit.to_owned(),
        rate: None,
    }
}
