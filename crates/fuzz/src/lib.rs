//! Everything that parses what strangers send, as functions over arbitrary bytes that panic if an invariant breaks.
//!
//! Tests replay the corpora, `brisk-fuzz` explores from them on stable Rust, and `fuzz/` hands the same functions to
//! libFuzzer. An input that broke something goes into the corpus of its target.
#![forbid(unsafe_code)]

mod config;
pub mod mutate;

use brisk_modules::reference::directives;
use std::path::{Path, PathBuf};

/// One of them.
pub struct Target {
    pub name: &'static str,
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
        name: "chunked",
        run: brisk_http::fuzz::fuzz_chunked,
        seeds: &["crates/http/corpus/chunked"],
        dictionary: HTTP,
        bytes_max: 300,
    },
    Target {
        name: "uri",
        run: brisk_http::fuzz::fuzz_uri,
        seeds: &["crates/http/corpus/uri"],
        dictionary: HTTP,
        bytes_max: 300,
    },
    Target {
        name: "proxy_protocol",
        run: brisk_http::fuzz::fuzz_proxy_protocol,
        seeds: &["crates/http/corpus/proxy_protocol"],
        dictionary: HTTP,
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
        name: "jwt",
        run: brisk_modules::auth_jwt::fuzz,
        seeds: &["crates/modules/corpus/jwt"],
        dictionary: JWT,
        bytes_max: 600,
    },
];

const PAGES: &[&[u8]] = &[
    b"<!--#",
    b"-->",
    b"<!--",
    b"<",
    b"-",
    b"'",
    b"\"",
    b"\\",
    b"=",
    b" ",
    b"\n",
    b"echo",
    b" var=\"a\"",
    b"include virtual=\"/x\"",
    b"if expr=\"$a = /x/\"",
    b"block name='b'",
    b"endblock",
];

const CONFIGURATIONS: &[&str] = &[
    "crates/conf/corpus",
    "crates/fuzz/corpus/config",
    "crates/brisk/tests/rewrite/http.conf",
    "examples/site/brisk.conf",
    "packaging/brisk.conf",
    "packaging/default.conf",
];

const CONF: &[&[u8]] = &[
    b";",
    b"{",
    b"}",
    b"\"",
    b"'",
    b"\\",
    b"$",
    b"${",
    b"$1",
    b"#",
    b"\n",
    b" ",
    b"\t",
    b"\r\n",
    b"\0",
    b"\xff",
    b"~",
    b"~*",
    b"^~",
    b"=",
    b"@",
    b"*",
    b".",
    b"!-f",
    b"include ",
    b"${a}",
    b"$uri",
    b" on;",
    b" off;",
    b" 0;",
    b" 10k;",
    b" 5s;",
    b" -1;",
    b" 1y1y;",
    b"99999999999999999999",
    b"(",
    b"(?<n>",
    b"[a-z]{2,3}",
    b"\\d+",
    b" last;",
    b" default ",
    b"volatile;",
    b"ranges;",
    b"10.0.0.0/8",
    b"::1/128",
    b"127.0.0.1:80",
    b"unix:/x",
    b"[::]:80",
    b"50%",
    b"max=",
    b" a b;",
    b"{ }",
];

const HTTP: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b": ",
    b"0\r\n",
    b"5\r\n",
    b";",
    b"//",
    b"/./",
    b"/../",
    b"%2e",
    b"%2F",
    b"%00",
    b"%",
    b"?",
    b"#",
    b"+",
    b"..",
    b"http://",
    b"[::1]",
    b"HTTP/1.1",
    b"HTTP/1.0",
    b"GET ",
    b"Host: a",
    b"Content-Length: 5",
    b"Transfer-Encoding: chunked",
    b"x_y: z",
    b"ffffffffffffffff",
    b"\x7f",
    b"\xff",
    b"PROXY ",
    b"TCP4 ",
    b"192.0.2.1 ",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0",
    b"\x20\0\x05",
];

const GATEWAY: &[&[u8]] = &[
    b"\x01\x01\0\x01\0\x08\0\0\0\x01\x01\0\0\0\0\0",
    b"\x01\x03\0\x01\0\x08\0\0\0\0\0\0\0\0\0\0",
    b"\x01\x04\0\x01\0\x04\x04\0\x01\x01Ab\0\0\0\0",
    b"\x01\x04\0\x01\0\0\0\0",
    b"\x01\x05\0\x01\0\0\0\0",
    b"\x01\x05\0\x01\0\x01\x07\0",
    b"\x01\x06\0\x01\0\x05\x03\0hello",
    b"\x01\x06\0\x01\0\0\0\0",
    b"\x01\x07\0\x01\0\x05\0\0error",
    b"\x01\x02\0\x01\0\0\0\0",
    b"\x80\0\0\x01",
    b"\xff\xff\xff\xff",
    b"\0",
    b"\x01",
    b"17:CONTENT_LENGTH\x000\0,",
    b"CONTENT_LENGTH\0",
    b"SCGI\x001\0",
    b",",
    b":",
    b"\x01\0A",
    b"\0\x06\0\0",
];

/// Whole frames, heads of frames, and pieces of header blocks.
const FRAMES: &[&[u8]] = &[
    b"\0\0\x03\x01\x05\0\0\0\x01\x82\x86\x84",
    b"\0\0\x03\x01\x04\0\0\0\x03\x83\x86\x84",
    b"\0\0\x03\x01\0\0\0\0\x05\x82\x86\x84",
    b"\0\0\x01\x09\x04\0\0\0\x05\x84",
    b"\0\0\x04\0\0\0\0\0\x03abcd",
    b"\0\0\x06\0\x09\0\0\0\x03\x02abc\0\0",
    b"\0\0\x05\x02\0\0\0\0\x03\x80\0\0\x01\x0f",
    b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08",
    b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\x05",
    b"\0\0\x06\x04\0\0\0\0\0\0\x01\0\0\0\x40",
    b"\0\0\0\x04\x01\0\0\0\0",
    b"\0\0\x08\x06\0\0\0\0\0abcdefgh",
    b"\0\0\x08\x07\0\0\0\0\0\0\0\0\x01\0\0\0\0",
    b"\0\0\x04\x08\0\0\0\0\0\0\0\x10\0",
    b"\0\0\x04\x08\0\0\0\0\x01\0\0\0\x20",
    b"\0\0\x07\x10\0\0\0\0\0\0\0\0\x01u=1",
    b"\x40\x01a\x01b",
    b"\x60\x03a=b",
    b"\xbe",
    b"\x3f\x61",
    b"\x20",
    b"\0\x81\x1f\x81\x1f",
    b"\x7f\xff\xff\xff\xff\x07",
    b"\xff",
];

const CACHE: &[&[u8]] = &[
    b"\n",
    b"\n-\n",
    b", ",
    b"=",
    b"\"",
    b";",
    b"*",
    b"@",
    b"Cache-Control: ",
    b"CDN-Cache-Control: ",
    b"Surrogate-Control: ",
    b"max-age=60",
    b"s-maxage=5",
    b"no-store",
    b"no-cache",
    b"private",
    b"public",
    b"must-revalidate",
    b"must-understand",
    b"immutable",
    b"max-stale",
    b"min-fresh=9",
    b"stale-if-error=9",
    b"Expires: ",
    b"Date: ",
    b"Last-Modified: ",
    b"Sun, 06 Nov 1994 08:49:37 GMT",
    b"Age: ",
    b"Vary: ",
    b"Accept-Language: en;q=0.5",
    b"ETag: \"a\"",
    b"Set-Cookie: a=b",
    b"Authorization: x",
    b"X-Accel-Expires: ",
    b"Content-Range: bytes 0-4/10",
    b"Range: bytes=0-4",
    b"99999999999999999999",
    b"http://h/x",
    b"Location: ",
];

const JWT: &[&[u8]] = &[
    b".",
    b"..",
    b"=",
    b"-_",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b":",
    b",",
    b"\\u0061",
    b"1e400",
    b"-1",
    b"null",
    b"eyJhbGciOiJIUzI1NiJ9",
    b"eyJhbGciOiJub25lIn0",
    b"e30",
    b"\"keys\"",
    b"\"kty\"",
    b"\"oct\"",
    b"\"RSA\"",
    b"\"EC\"",
    b"\"P-256\"",
    b"\"k\"",
    b"\"n\"",
    b"\"x\"",
    b"\"exp\"",
    b"\"nbf\"",
];

impl Target {
    pub fn find(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// The corpus.
    ///
    /// # Panics
    /// If it is missing.
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
