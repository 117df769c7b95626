//! Variables by an address from databases that are written here.

use brisk_testkit::{Builder, Server, wait};
use std::net::Ipv4Addr;
use std::path::PathBuf;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// A value of a database.
enum Value {
    Text(&'static str),
    /// A number of at most 16, 32 or 64 bits.
    Short(u16),
    Word(u32),
    Number(u64),
    Big(u128),
    Double(f64),
    Bool(bool),
    Map(Vec<(&'static str, Value)>),
    Array(Vec<Value>),
}

use Value::{Array, Big, Bool, Double, Map, Number, Short, Text, Word};

/// Appends a control byte: kind and size (MaxMind DB format 2.0, "Data Section").
fn control(kind: u8, size: usize, out: &mut Vec<u8>) {
    assert!(size < 29 + 256);
    let (short, more) = if size < 29 { (size as u8, None) } else { (29, Some((size - 29) as u8)) };
    if kind < 8 {
        out.push(kind << 5 | short);
    } else {
        out.extend([short, kind - 7]);
    }
    out.extend(more);
}

fn write(value: &Value, out: &mut Vec<u8>) {
    let trimmed = |bytes: &[u8]| bytes.iter().copied().skip_while(|byte| *byte == 0).collect::<Vec<_>>();
    match value {
        Text(text) => {
            control(2, text.len(), out);
            out.extend(text.bytes());
        }
        Short(number) => {
            let bytes = trimmed(&number.to_be_bytes());
            control(5, bytes.len(), out);
            out.extend(bytes);
        }
        Word(number) => {
            let bytes = trimmed(&number.to_be_bytes());
            control(6, bytes.len(), out);
            out.extend(bytes);
        }
        Number(number) => {
            let bytes = trimmed(&number.to_be_bytes());
            control(9, bytes.len(), out);
            out.extend(bytes);
        }
        Big(number) => {
            let bytes = trimmed(&number.to_be_bytes());
            control(10, bytes.len(), out);
            out.extend(bytes);
        }
        Double(number) => {
            control(3, 8, out);
            out.extend(number.to_be_bytes());
        }
        Bool(on) => control(14, usize::from(*on), out),
        Map(entries) => {
            control(7, entries.len(), out);
            for (name, value) in entries {
                write(&Text(name), out);
                write(value, out);
            }
        }
        Array(values) => {
            control(11, values.len(), out);
            values.iter().for_each(|value| write(value, out));
        }
    }
}

/// A database of IPv4 networks that do not overlap: a tree of records of 24 bits, the values, and what is said of both.
fn database(built: u64, networks: &[(&str, Value)]) -> Vec<u8> {
    // Each node has two ways on: none, another node, or a value.
    #[derive(Clone, Copy)]
    enum Way {
        None,
        Node(usize),
        Data(usize),
    }
    let (mut nodes, mut data) = (vec![[Way::None; 2]], Vec::new());
    for (network, value) in networks {
        let (address, bits) = network.split_once('/').expect("a network");
        let (address, bits) =
            (address.parse::<Ipv4Addr>().unwrap().to_bits(), bits.parse::<usize>().unwrap());
        let mut node = 0;
        for bit in 0..bits {
            let side = (address >> (31 - bit) & 1) as usize;
            if bit + 1 == bits {
                nodes[node][side] = Way::Data(data.len());
            } else {
                let next = nodes.len();
                node = match nodes[node][side] {
                    Way::Node(next) => next,
                    _ => {
                        nodes.push([Way::None; 2]);
                        nodes[node][side] = Way::Node(next);
                        next
                    }
                };
            }
        }
        write(value, &mut data);
    }
    let count = nodes.len();
    let mut out = Vec::new();
    for way in nodes.as_flattened() {
        let record = match way {
            Way::None => count,
            Way::Node(node) => *node,
            Way::Data(at) => count + 16 + at,
        };
        out.extend(&(record as u32).to_be_bytes()[1..]);
    }
    out.extend([0; 16]);
    out.extend(data);
    out.extend(b"\xab\xcd\xefMaxMind.com");
    let metadata = Map(vec![
        ("binary_format_major_version", Short(2)),
        ("binary_format_minor_version", Short(0)),
        ("build_epoch", Number(built)),
        ("database_type", Text("Test")),
        ("description", Map(vec![("en", Text("of a test"))])),
        ("ip_version", Short(4)),
        ("languages", Array(vec![Text("en")])),
        ("node_count", Word(count as u32)),
        ("record_size", Short(24)),
    ]);
    write(&metadata, &mut out);
    out
}

fn country(code: &'static str) -> Value {
    Map(vec![
        ("country", Map(vec![("iso_code", Text(code)), ("geoname_id", Number(2_921_044))])),
        (
            "subdivisions",
            Array(vec![Map(vec![("iso_code", Text("A1"))]), Map(vec![("iso_code", Text("B2"))])]),
        ),
        ("location", Map(vec![("latitude", Double(52.5))])),
        ("is_anycast", Bool(true)),
        ("7", Text("seven")),
        ("big", Big(1 << 100)),
    ])
}

fn server(lines: &str, answer: &str, more: &str, bytes: &[u8]) -> (Server, PathBuf) {
    let builder = Builder::new(BIN).file("geo.mmdb", bytes);
    let path = builder.dir().join("geo.mmdb");
    std::fs::set_permissions(builder.dir(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let text = format!(
        "geoip2 {{{{DIR}}}}/geo.mmdb {{ {lines} }} {more}
        server {{ listen 127.0.0.1:{{{{PORT}}}}; location / {{ return 200 \"{answer}\"; }} }}"
    );
    (builder.http(&text).start(), path)
}

fn ask(server: &Server, target: &str, fields: &str) -> String {
    server.request(format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n")).text()
}

#[test]
fn values_are_found_by_their_paths() {
    let networks = [("192.0.2.0/24", country("DE")), ("198.51.100.7/32", country("FR"))];
    let (server, _) = server(
        "$code source=$arg_ip country iso_code; $id source=$arg_ip country geoname_id;
        $first source=$arg_ip subdivisions 0 iso_code; $last source=$arg_ip subdivisions -1 iso_code;
        $latitude source=$arg_ip location latitude; $anycast source=$arg_ip is_anycast; $seven source=$arg_ip 7;
        $big source=$arg_ip big; $map source=$arg_ip country; $none default=- source=$arg_ip country nothing;
        $built metadata build_epoch;",
        "$code $id $first $last $latitude $anycast $seven $big [$map] $none $built",
        "",
        &database(1_700_000_000, &networks),
    );
    let big = format!("0x{:032x}", 1u128 << 100);
    let of = |code: &str| format!("{code} 2921044 A1 B2 52.50000 1 seven {big} [] - 1700000000");
    assert_eq!(ask(&server, "/?ip=192.0.2.200", ""), of("DE"));
    assert_eq!(ask(&server, "/?ip=198.51.100.7", ""), of("FR"));
    for unknown in ["198.51.100.8", "2001:db8::1", "nonsense", ""] {
        assert_eq!(ask(&server, &format!("/?ip={unknown}"), ""), "        [] - 1700000000", "{unknown}");
    }
}

/// Two requests with the same target from different addresses never share an answer.
#[test]
fn the_clients_address_is_what_trusted_proxies_say() {
    let networks =
        [("127.0.0.0/8", country("XX")), ("192.0.2.0/24", country("DE")), ("203.0.113.0/24", country("FR"))];
    let bytes = database(1, &networks);
    let lines = "$code default=?? country iso_code;";
    let from = |address: &str| format!("X-Forwarded-For: {address}\r\n");
    let (plain, _) = server(lines, "$code", "", &bytes);
    assert_eq!(ask(&plain, "/", &from("192.0.2.1")), "XX");
    let (trusting, _) = server(lines, "$code", "geoip2_proxy 127.0.0.1; geoip2_proxy 192.0.2.0/24;", &bytes);
    for _ in 0..3 {
        assert_eq!(ask(&trusting, "/", ""), "XX");
        assert_eq!(ask(&trusting, "/", &from("203.0.113.9")), "FR");
        assert_eq!(ask(&trusting, "/", &from("203.0.113.9, 192.0.2.1")), "DE");
        assert_eq!(ask(&trusting, "/", &from("198.51.100.1")), "??");
    }
    let more = "geoip2_proxy_recursive on; geoip2_proxy 127.0.0.1; geoip2_proxy 192.0.2.0/24;";
    let (recursive, _) = server(lines, "$code", more, &bytes);
    assert_eq!(ask(&recursive, "/", &from("203.0.113.9, 192.0.2.1")), "FR");
}

/// In `stream`: by the session's client, and by what a PROXY header has told.
#[test]
fn sessions_are_looked_up_too() {
    let networks = [("192.0.2.0/24", country("DE")), ("127.0.0.0/8", country("XX"))];
    let stream = "stream { geoip2 {{DIR}}/geo.mmdb { $code country iso_code; $told source=$proxy_protocol_addr country iso_code; }
        server { listen 127.0.0.1:{{PORT}} proxy_protocol; return '$code $told.'; } }";
    let server = Builder::new(BIN).main(stream).http("").file("geo.mmdb", database(1, &networks)).start();
    let mut client = server.client();
    client.send("PROXY TCP4 192.0.2.9 192.0.2.1 1 2\r\n");
    assert_eq!(client.wait_for("."), "XX DE.");
}

#[test]
fn a_changed_file_is_read_again() {
    let networks = |code| [("127.0.0.0/8", country(code))];
    let lines = "auto_reload 1s; $code country iso_code; $built metadata build_epoch;
        $checked metadata last_check; $changed metadata last_change;";
    let (server, path) = server(lines, "$code $built $checked $changed", "", &database(1, &networks("DE")));
    let before = ask(&server, "/", "");
    assert!(before.starts_with("DE 1 "), "{before}");
    // What is no database does not replace one.
    std::fs::write(&path, "broken").unwrap();
    server.wait_for_log("MMDB_open");
    assert!(ask(&server, "/", "").starts_with("DE 1 "));
    let replaced = path.with_extension("new");
    std::fs::write(&replaced, database(2, &networks("FR"))).unwrap();
    std::fs::rename(&replaced, &path).unwrap();
    wait::holds("the new database", || ask(&server, "/", "").starts_with("FR 2 "));
    let after: Vec<u64> =
        ask(&server, "/", "").split(' ').skip(2).map(|text| text.parse().unwrap()).collect();
    assert!(after[0] > 1_700_000_000 && after[1] > 1_700_000_000, "{after:?}");
}

#[test]
fn files_that_are_no_databases_are_refused() {
    let prepared = Builder::new(BIN)
        .file("geo.mmdb", "nothing of that kind")
        .http("geoip2 {{DIR}}/geo.mmdb { $code country iso_code; } server { listen 127.0.0.1:{{PORT}}; }")
        .prepare();
    let output = prepared.run(&["-t"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("MMDB_open("), "{text}");
}
