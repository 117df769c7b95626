//! Names of back ends, looked up while the server runs.

use crate::{BACKENDS, BIN};
use brisk_testkit::{Builder, wait};
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};

/// A name server on 127.0.0.1 that knows one address for every name, or none, or says nothing.
struct NameServer {
    address: Arc<Mutex<Option<[u8; 4]>>>,
    port: u16,
}

const SILENT: [u8; 4] = [0; 4];

impl NameServer {
    fn start(address: Option<[u8; 4]>) -> NameServer {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let address = Arc::new(Mutex::new(address));
        let known = address.clone();
        std::thread::spawn(move || {
            let mut buf = [0; 512];
            while let Ok((count, from)) = socket.recv_from(&mut buf) {
                let address = *known.lock().unwrap();
                if address != Some(SILENT) {
                    let _ = socket.send_to(&answer(&buf[..count], address), from);
                }
            }
        });
        NameServer { address, port }
    }

    fn set(&self, address: Option<[u8; 4]>) {
        *self.address.lock().unwrap() = address;
    }
}

fn answer(query: &[u8], address: Option<[u8; 4]>) -> Vec<u8> {
    let mut out = query.to_vec();
    let is_a = query[query.len() - 3] == 1;
    (out[2], out[3]) = (0x81, if address.is_some() { 0x80 } else { 0x83 });
    if let Some(address) = address.filter(|_| is_a) {
        out[7] = 1;
        out.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
        out.extend_from_slice(&address);
    }
    out
}

#[test]
fn a_name_put_together_at_run_time_is_looked_up() {
    let names = NameServer::start(Some([127, 0, 0, 1]));
    let server = Builder::new(BIN)
        .http(&format!(
            "upstream block {{ server 127.0.0.1:{{{{PORT3}}}}; }}
             server {{ listen 127.0.0.1:{{{{PORT}}}}; resolver 127.0.0.1:{} ipv6=off; resolver_timeout 5s;
                 location /at {{ proxy_pass http://$arg_h:{{{{PORT2}}}}/; }}
                 location /block {{ proxy_pass http://$arg_h/; }} }}
             server {{ listen 127.0.0.1:{{{{PORT4}}}};
                 location / {{ proxy_pass http://$arg_h:{{{{PORT2}}}}/; }} }} {BACKENDS}",
            names.port
        ))
        .start();
    assert_eq!(server.get("/at?h=some.example").text(), "one");
    assert_eq!(server.get("/block?h=block").text(), "two");
    names.set(None);
    assert_eq!(server.get("/at?h=other.example").status, 502);
    server.wait_for_log("other.example could not be resolved \\(3: Host not found\\)");
    let mut without = brisk_testkit::Client::connect(server.port_of(4));
    assert_eq!(without.get("/?h=some.example").status, 502);
    server.wait_for_log("no resolver defined to resolve some.example");
}

#[test]
fn addresses_of_a_group_follow_its_names() {
    let names = NameServer::start(None);
    let server = Builder::new(BIN)
        .http(&format!(
            "upstream u {{ zone z 64k; resolver 127.0.0.1:{} valid=1s ipv6=off; server back.example:{{{{PORT2}}}} resolve; }}
             server {{ listen 127.0.0.1:{{{{PORT}}}}; location / {{ proxy_pass http://u; }} }} {BACKENDS}",
            names.port
        ))
        .start();
    assert_eq!(server.get("/").status, 502);
    server.wait_for_log("back.example could not be resolved \\(3: Host not found\\)");
    names.set(Some([127, 0, 0, 1]));
    wait::holds("the name is found", || server.get("/").status == 200);
    // What is known outlives a reload: nobody waits for the name server.
    names.set(Some(SILENT));
    server.reload();
    assert_eq!(server.get("/").text(), "one");
    names.set(None);
    server.reload();
    wait::holds("the name is gone", || server.get("/").status == 502);
}

#[test]
fn a_name_nobody_knows_costs_only_its_own_routes() {
    let prepared = Builder::new(BIN)
        .http(&format!(
            "upstream u {{ server no-such-host.invalid; }}
             server {{ listen 127.0.0.1:{{{{PORT}}}};
                 location /u {{ proxy_pass http://u; }}
                 location /implicit {{ proxy_pass http://nor-this.invalid:8080; }}
                 location / {{ proxy_pass http://127.0.0.1:{{{{PORT2}}}}; }} }} {BACKENDS}"
        ))
        .prepare();
    let tested = prepared.run(&["-t"]);
    let text = String::from_utf8_lossy(&tested.stderr).into_owned();
    assert!(tested.status.success(), "{text}");
    for name in ["no-such-host.invalid", "nor-this.invalid"] {
        assert!(
            text.contains(&format!("host not found in upstream \"{name}")) || text.contains(name),
            "{text}"
        );
    }
    let server = prepared.start();
    assert_eq!(server.get("/").text(), "one");
    assert_eq!(server.get("/u").status, 502);
    assert_eq!(server.get("/implicit").status, 502);
}
