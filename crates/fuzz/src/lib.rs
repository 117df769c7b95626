//! Everything that parses what strangers send, as functions over arbitrary bytes that panic if an invariant breaks.
//!
//! Tests replay the corpora, `brisk-fuzz` explores from them on stable Rust, and `fuzz/` hands the same functions to
//! libFuzzer. An input that broke something goes into the corpus of its target.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod config;
mod dictionary;
pub mod mutate;
mod quic;

use brisk_modules::reference::directives;
use dictionary::{
    APACHE, CACHE, CONF, CONFIGURATIONS, FRAMES, FRAMES3, GATEWAY, HTML, HTTP, JWT, LOCUST, MP4, MYSQL,
    PAGES, QUIC, SCENARIO, SQL, URLS,
};
use std::path::{Path, PathBuf};

/// One of them.
pub struct Target {
    /// As it is named on the command line.
    pub name: &'static str,
    /// Panics if something is wrong.
    pub run: fn(&[u8]),
    /// Files, and folders with files, below the repository's root.
    seeds: &'static [&'static str],
    /// Pieces that matter to the parser.
    dictionary: &'static [&'static [u8]],
    /// Inputs are cut to this.
    pub bytes_max: usize,
}

/// All of them.
pub static TARGETS: &[Target] = &[
    Target {
        name: "conf",
        run: brisk_conf::fuzz::fuzz_conf,
        seeds: CONFIGURATIONS,
        dictionary: CONF,
        bytes_max: 400,
    },
    Target {
        name: "htaccess",
        run: brisk_apache::fuzz::fuzz_htaccess,
        seeds: &["crates/apache/corpus/htaccess"],
        dictionary: APACHE,
        bytes_max: 500,
    },
    Target {
        name: "config",
        run: config::fuzz_config,
        seeds: CONFIGURATIONS,
        dictionary: CONF,
        bytes_max: 600,
    },
    Target {
        name: "head",
        run: brisk_http::fuzz::fuzz_head,
        seeds: &["crates/http/corpus/head"],
        dictionary: HTTP,
        bytes_max: 300,
    },
    Target {
        name: "regex",
        run: brisk_server::regex::fuzz::fuzz_regex,
        seeds: &["crates/fuzz/corpus/regex"],
        dictionary: &[b"\x00\x01", b"\x05", b"\xff"],
        bytes_max: 200,
    },
    Target {
        name: "chunked",
        run: brisk_http::fuzz::fuzz_chunked,
        seeds: &["crates/http/corpus/chunked"],
        dictionary: HTTP,
        bytes_max: 300,
    },
    Target {
        name: "h1",
        run: brisk_http::fuzz::fuzz_h1,
        seeds: &["crates/http/corpus/head", "crates/http/corpus/h1", "crates/load/corpus/response"],
        dictionary: HTTP,
        bytes_max: 400,
    },
    Target {
        name: "uri",
        run: brisk_http::fuzz::fuzz_uri,
        seeds: &["crates/http/corpus/uri"],
        dictionary: HTTP,
        bytes_max: 300,
    },
    Target {
        name: "pgsql",
        run: brisk_pgsql::fuzz::fuzz_client,
        seeds: &["crates/pgsql/corpus"],
        dictionary: HTTP,
        bytes_max: 1000,
    },
    Target {
        name: "proxy_protocol",
        run: brisk_proxy_protocol::fuzz::fuzz_proxy_protocol,
        seeds: &["crates/proxy_protocol/corpus"],
        dictionary: HTTP,
        bytes_max: 300,
    },
    Target {
        name: "mysql_messages",
        run: brisk_mysql::fuzz::fuzz_mysql_messages,
        seeds: &["crates/mysql/corpus/messages"],
        dictionary: MYSQL,
        bytes_max: 300,
    },
    Target {
        name: "mysql_answer",
        run: brisk_mysql::fuzz::fuzz_mysql_answer,
        seeds: &["crates/mysql/corpus/answer"],
        dictionary: MYSQL,
        bytes_max: 300,
    },
    Target {
        name: "mysql_statement",
        run: brisk_mysql::fuzz::fuzz_mysql_statement,
        seeds: &["crates/mysql/corpus/statement"],
        dictionary: SQL,
        bytes_max: 300,
    },
    Target {
        name: "mysql_prepared",
        run: brisk_mysql::fuzz::fuzz_mysql_prepared,
        seeds: &["crates/mysql/corpus/prepared"],
        dictionary: MYSQL,
        bytes_max: 300,
    },
    Target {
        name: "mysql_compressed",
        run: brisk_mysql::fuzz::fuzz_mysql_compressed,
        seeds: &["crates/mysql/corpus/compressed"],
        dictionary: &[
            b"\x01\0\0\0\0\0\0\x0e",
            b"\xff\xff\xff",
            b"\x78\x9c",
            b"\x78\x01\x01\x01\0\xfe\xff",
            b"\x63\x60\x18\x05",
            b"\x03\0\0\0\0\x01",
        ],
        bytes_max: 300,
    },
    Target {
        name: "hello",
        run: brisk_tls::fuzz::fuzz_hello,
        seeds: &["crates/tls/corpus/hello"],
        dictionary: &[b"\x16\x03\x01", b"\x00\x00", b"\x00\x10", b"\xff\xff"],
        bytes_max: 700,
    },
    Target {
        name: "certificate",
        run: brisk_tls::fuzz::fuzz_certificate,
        seeds: &["crates/tls/corpus/certificate"],
        dictionary: &[
            b"\x30\x82",
            b"\x30\x80",
            b"\x06\x03\x55\x1d",
            b"\xa3",
            b"-----BEGIN A-----\n",
            b"\x17\x0d",
        ],
        bytes_max: 1200,
    },
    Target {
        name: "answer",
        run: brisk_upstream::fuzz::fuzz_answer,
        seeds: &["crates/upstream/corpus/answer"],
        dictionary: HTTP,
        bytes_max: 400,
    },
    Target {
        name: "http2_answer",
        run: brisk_upstream::fuzz::fuzz_http2,
        seeds: &["crates/upstream/corpus/http2"],
        dictionary: &[
            b"\x00\x00\x01\x01\x05\x00\x00\x00\x01\x88",
            b"\x00\x00\x00\x00\x01\x00\x00\x00\x01",
            b"\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x00",
            b"\x00\x00\x00\x04\x01\x00\x00\x00\x00",
            b"\x00\x00\x08\x07\x00\x00\x00\x00\x00",
            b"\x0f\x0d\x011",
        ],
        bytes_max: 400,
    },
    Target {
        name: "image",
        run: brisk_image::fuzz_image,
        seeds: &["crates/image/corpus"],
        dictionary: &[
            b"\xff\xd8",
            b"\xff\xc0",
            b"\xff\xe1",
            b"\xff\xda",
            b"IHDR",
            b"IDAT",
            b"VP8 ",
            b"VP8L",
            b"\x2c",
            b"\x21\xf9",
        ],
        bytes_max: 1000,
    },
    Target {
        name: "cgi_head",
        run: brisk_http::fuzz::fuzz_cgi_head,
        seeds: &["crates/http/corpus/cgi_head"],
        dictionary: HTTP,
        bytes_max: 300,
    },
    Target {
        name: "fastcgi",
        run: brisk_gateway::fuzz::fuzz_fastcgi,
        seeds: &["crates/gateway/corpus/fastcgi"],
        dictionary: GATEWAY,
        bytes_max: 300,
    },
    Target {
        name: "cgi_requests",
        run: brisk_gateway::fuzz::fuzz_cgi_requests,
        seeds: &["crates/gateway/corpus/cgi_requests"],
        dictionary: GATEWAY,
        bytes_max: 300,
    },
    Target {
        name: "h2",
        run: brisk_h2::fuzz::fuzz_connection,
        seeds: &["crates/h2/corpus/h2"],
        dictionary: FRAMES,
        bytes_max: 600,
    },
    Target {
        name: "hpack",
        run: brisk_h2::fuzz::fuzz_hpack,
        seeds: &["crates/h2/corpus/hpack"],
        dictionary: FRAMES,
        bytes_max: 300,
    },
    Target {
        name: "huffman",
        run: brisk_h2::fuzz::fuzz_huffman,
        seeds: &["crates/h2/corpus/huffman"],
        dictionary: FRAMES,
        bytes_max: 100,
    },
    Target {
        name: "h3",
        run: brisk_h3::fuzz::fuzz_connection,
        seeds: &["crates/h3/corpus/h3"],
        dictionary: FRAMES3,
        bytes_max: 600,
    },
    Target {
        name: "qpack",
        run: brisk_h3::fuzz::fuzz_qpack,
        seeds: &["crates/h3/corpus/qpack"],
        dictionary: FRAMES3,
        bytes_max: 300,
    },
    Target {
        name: "quic",
        run: quic::fuzz_connection,
        seeds: &["crates/quic/corpus/quic"],
        dictionary: QUIC,
        bytes_max: 400,
    },
    Target {
        name: "quic_parameters",
        run: quic::fuzz_parameters,
        seeds: &["crates/quic/corpus/parameters"],
        dictionary: QUIC,
        bytes_max: 120,
    },
    Target {
        name: "cache_policy",
        run: brisk_cachepolicy::fuzz::fuzz_cache_policy,
        seeds: &["crates/cachepolicy/corpus"],
        dictionary: CACHE,
        bytes_max: 500,
    },
    Target {
        name: "cache_file",
        run: brisk_cache::fuzz::fuzz_cache_file,
        seeds: &["crates/cache/corpus"],
        dictionary: &[b"\nKEY: ", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x01\0\0\0"],
        bytes_max: 700,
    },
    Target {
        name: "dns",
        run: brisk_resolver::message::fuzz,
        seeds: &["crates/resolver/corpus"],
        dictionary: &[b"\xc0\x0c", b"\0\x01\0\x01", b"\0\x1c", b"\0\x21", b"\0\x05", b"\x3f", b"\0\x04"],
        bytes_max: 600,
    },
    Target {
        name: "ssi",
        run: brisk_modules::fuzz::fuzz_ssi,
        seeds: &["crates/modules/corpus/ssi"],
        dictionary: PAGES,
        bytes_max: 400,
    },
    Target {
        name: "sub_filter",
        run: brisk_modules::fuzz::fuzz_sub_filter,
        seeds: &["crates/modules/corpus/sub_filter"],
        dictionary: &[b"\n", b"a", b"A", b"ab", b"aab", b"abc", b"ABAB", b"aaa"],
        bytes_max: 120,
    },
    Target {
        name: "memcached",
        run: brisk_modules::fuzz::fuzz_memcached,
        seeds: &["crates/modules/corpus/memcached"],
        dictionary: &[b"VALUE /k 0 3\r\n", b"/k ", b"END\r\n", b"18446744073709551615"],
        bytes_max: 200,
    },
    Target {
        name: "mp4",
        run: brisk_modules::fuzz::fuzz_mp4,
        seeds: &["crates/modules/corpus/mp4"],
        dictionary: MP4,
        bytes_max: 1500,
    },
    Target {
        name: "load_responses",
        run: brisk_load::fuzz::fuzz_responses,
        seeds: &["crates/load/corpus/response"],
        dictionary: HTTP,
        bytes_max: 300,
    },
    Target {
        name: "load_url",
        run: brisk_load::fuzz::fuzz_url,
        seeds: &["crates/load/corpus/url"],
        dictionary: URLS,
        bytes_max: 200,
    },
    Target {
        name: "har",
        run: brisk_drive::fuzz::fuzz_har,
        seeds: &["crates/drive/corpus/har"],
        dictionary: JWT,
        bytes_max: 800,
    },
    Target {
        name: "access_log",
        run: brisk_drive::fuzz::fuzz_log,
        seeds: &["crates/drive/corpus/log"],
        dictionary: &[b"\"", b"[", b"]", b"GET ", b" - ", b"+0000", b"/Nov/", b":", b"\n", b"\xff", b"%20"],
        bytes_max: 400,
    },
    Target {
        name: "locustfile",
        run: brisk_drive::fuzz::fuzz_locust,
        seeds: &["crates/drive/corpus/locust"],
        dictionary: LOCUST,
        bytes_max: 700,
    },
    Target {
        name: "page",
        run: brisk_drive::fuzz::fuzz_page,
        seeds: &["crates/drive/corpus/page"],
        dictionary: HTML,
        bytes_max: 600,
    },
    Target {
        name: "urls_txt",
        run: brisk_drive::fuzz::fuzz_urls,
        seeds: &["crates/drive/corpus/urls"],
        dictionary: URLS,
        bytes_max: 300,
    },
    Target {
        name: "scenario",
        run: brisk_drive::fuzz::fuzz_scenario,
        seeds: &["crates/drive/corpus/scenario"],
        dictionary: SCENARIO,
        bytes_max: 900,
    },
    Target {
        name: "jwt",
        run: brisk_modules::auth_jwt::fuzz,
        seeds: &["crates/modules/corpus/jwt"],
        dictionary: JWT,
        bytes_max: 600,
    },
];

impl Target {
    /// How many random inputs tests give it: those of QUIC begin with a handshake each.
    pub fn rounds(&self) -> usize {
        if self.name.starts_with("quic") { 100 } else { 2000 }
    }

    /// The target of this name.
    pub fn find(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// The corpus. Panics if it is missing.
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut paths: Vec<PathBuf> = Vec::new();
        for seed in self.seeds {
            let path = root.join(seed);
            match std::fs::read_dir(&path) {
                Ok(entries) => {
                    paths.extend(entries.map(|entry| entry.expect("the folder can be read").path()));
                }
                Err(_) => paths.push(path),
            }
        }
        paths.sort();
        let read = |path: PathBuf| {
            std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        paths.into_iter().map(read).collect()
    }

    /// The dictionary; for configurations it has the names of all directives.
    pub fn tokens(&self) -> Vec<Vec<u8>> {
        let mut tokens: Vec<Vec<u8>> = self.dictionary.iter().map(|token| token.to_vec()).collect();
        if self.name.starts_with("conf") {
            tokens.extend(directives::all().map(|(_, row)| format!("{} ", row.name).into_bytes()));
        }
        tokens
    }
}
