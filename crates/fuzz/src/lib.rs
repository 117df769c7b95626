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
