//! Names of back ends, looked up while the server runs.

use crate::{BACKENDS, BIN};
use brisk_testkit::process::is_root;
use brisk_testkit::{Builder, wait};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
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
    for name in ["no-such-host.invalid\"", "http://nor-this.invalid:8080\""] {
        assert!(text.contains(&format!("host not found in upstream \"{name}")), "{text}");
    }
    let server = prepared.start();
    assert_eq!(server.get("/").text(), "one");
    assert_eq!(server.get("/u").status, 502);
    assert_eq!(server.get("/implicit").status, 502);
}

/// The system's own names are asked, in a mount namespace with a hosts file of this test's.
#[test]
fn a_name_that_turns_up_is_found() {
    let prepared = Builder::new(BIN)
        .http(&format!(
            "upstream u {{ server late.brisk-test.invalid:{{{{PORT2}}}}; }}
             server {{ listen 127.0.0.1:{{{{PORT}}}}; location / {{ proxy_pass http://u; }} }} {BACKENDS}"
        ))
        .prepare();
    let hosts = prepared.write("hosts", "127.0.0.1 localhost\n");
    let namespaces: &[&str] =
        if is_root() { &["--mount"] } else { &["--user", "--map-root-user", "--mount"] };
    let plain = prepared.command(&["-e", "error.log"]);
    let mut command = Command::new("unshare");
    command.args(namespaces).args(["sh", "-c", "mount --bind \"$HOSTS\" /etc/hosts && exec \"$0\" \"$@\""]);
    command.env("HOSTS", &hosts).arg(plain.get_program()).args(plain.get_args());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let server = prepared.start_with(command);
    assert_eq!(server.get("/").status, 502);
    std::fs::write(&hosts, "127.0.0.1 localhost late.brisk-test.invalid\n").unwrap();
    wait::holds("the name is found", || server.get("/").status == 200);
    server.wait_for_log("host late.brisk-test.invalid in upstream \"u\" was found");
}

/// One SRV record, of whatever service: its target has the address, its port is the back end's.
fn service(query: &[u8], port: u16) -> Vec<u8> {
    let mut out = query.to_vec();
    (out[2], out[3]) = (0x81, 0x80);
    // 33: SRV.
    if query[query.len() - 3] != 33 {
        return answer(query, Some([127, 0, 0, 1]));
    }
    out[7] = 1;
    out.extend_from_slice(&[0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 1, 0, 16, 0, 1, 0, 5]);
    out.extend_from_slice(&port.to_be_bytes());
    out.extend_from_slice(b"\x04node\x03tst\x00");
    out
}

#[test]
fn a_service_says_where_its_servers_are() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let names = socket.local_addr().unwrap().port();
    let server = Builder::new(BIN)
        .http(&format!(
            "upstream u {{ zone z 64k; resolver 127.0.0.1:{names} valid=1s ipv6=off;
                 server back.example service=http resolve; }}
             server {{ listen 127.0.0.1:{{{{PORT}}}}; location / {{ proxy_pass http://u; }} }} {BACKENDS}"
        ))
        .start();
    let port = server.port_of(2);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let questions = asked.clone();
    std::thread::spawn(move || {
        let mut buf = [0; 512];
        while let Ok((count, from)) = socket.recv_from(&mut buf) {
            questions.lock().unwrap().push(String::from_utf8_lossy(&buf[12..count]).into_owned());
            let _ = socket.send_to(&service(&buf[..count], port), from);
        }
    });
    wait::holds("the service is found", || server.get("/").text() == "one");
    assert!(
        asked.lock().unwrap().iter().any(|name| name.starts_with("\u{5}_http\u{4}_tcp\u{4}back\u{7}example"))
    );
}
