//! The public x509-limbo corpus against Brisk and `openssl verify`: `limbo BRISK LIMBO.JSON RESULTS.TSV`.
//!
//! Certificates of servers are shown to Brisk by a TLS server of this program, behind `proxy_ssl_verify on`; those of clients
//! by a TLS client, to `ssl_verify_client on`. Where a case sets the time, which no server can be told, the handshake is
//! made in memory by the same contexts, which are given the time. Where it has no key, nobody can shake hands: the verifier is
//! called. OpenSSL is asked for the same purpose at security level 2.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use brisk_testkit::{Builder, Client, Server, TlsClient};
use brisk_tls::{
    Certified, ClientContext, ClientOptions, Fixed, Offered, PrivateKey, Purpose, ServerContext,
    ServerOptions, Session, Trust, Verification, is_for_host,
};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where a case does not say how long a chain may be.
const DEPTH: u64 = 32;

/// How a case was put to Brisk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Proxy,
    Client,
    Memory,
    Call,
}

impl How {
    fn text(self) -> &'static str {
        match self {
            How::Proxy => "back end",
            How::Client => "client",
            How::Memory => "in memory",
            How::Call => "call",
        }
    }
}

/// One case of the corpus.
struct Case {
    id: String,
    is_client: bool,
    is_good: bool,
    leaf: String,
    key: Option<String>,
    extra: String,
    anchors: String,
    crls: String,
    /// The name that is asked for, and whether it is an address.
    name: Option<(String, bool)>,
    time: Option<i64>,
    depth: u64,
}

/// A verdict with its reason.
type Verdict = Result<(), String>;

impl Case {
    fn read(value: &Value) -> Option<Case> {
        let text = |name: &str| value[name].as_str().map(str::to_string);
        let list = |name: &str| -> String {
            let items = value[name].as_array().into_iter().flatten().filter_map(Value::as_str);
            items.map(str::trim_end).flat_map(|item| [item, "\n"]).collect()
        };
        let name = &value["expected_peer_name"];
        let name = name["value"].as_str().map(|text| (text.to_string(), name["kind"] == "IP"));
        Some(Case {
            id: text("id")?,
            is_client: value["validation_kind"] == "CLIENT",
            is_good: value["expected_result"] == "SUCCESS",
            leaf: text("peer_certificate")?,
            key: text("peer_certificate_key"),
            extra: list("untrusted_intermediates"),
            anchors: list("trusted_certs"),
            crls: list("crls"),
            name,
            time: text("validation_time").map(|time| seconds(&time)),
            depth: value["max_chain_depth"].as_u64().unwrap_or(DEPTH),
        })
    }

    fn chain(&self) -> Option<Vec<Vec<u8>>> {
        brisk_tls::chain(format!("{}\n{}", self.leaf.trim_end(), self.extra).as_bytes()).ok()
    }

    fn certified(&self) -> Option<Certified> {
        let key = PrivateKey::from_pem(self.key.as_ref()?.as_bytes(), &[]).ok()?;
        Certified::new(self.chain()?, &key, None).ok()
    }

    fn trust(&self) -> Result<Trust, String> {
        let mut trust = Trust::default();
        if !self.anchors.is_empty() {
            trust.add(self.anchors.as_bytes())?;
        }
        if !self.crls.is_empty() {
            trust.add_crls(self.crls.as_bytes())?;
        }
        Ok(trust)
    }

    fn how(&self) -> How {
        match (self.certified().is_some(), self.time, self.is_client, &self.name) {
            (false, ..) => How::Call,
            (true, None, true, _) => How::Client,
            (true, None, false, Some(_)) => How::Proxy,
            (true, Some(_), false, Some(_)) => How::Memory,
            _ => How::Call,
        }
    }

    fn now(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() as i64);
        self.time.unwrap_or(now)
    }

    fn host(&self) -> Option<String> {
        let (name, is_address) = self.name.as_ref()?;
        Some(if *is_address && name.contains(':') { format!("[{name}]") } else { name.clone() })
    }

    /// What the verifier says when it is called.
    fn call(&self) -> Verdict {
        let trust = self.trust()?;
        let chain = self.chain().ok_or("a certificate that cannot be read")?;
        let (leaf, extra) = chain.split_first().ok_or("no certificate")?;
        let purpose = if self.is_client { Purpose::Client } else { Purpose::Server };
        let depth = u32::try_from(self.depth).unwrap_or(u32::MAX);
        trust.verify(leaf, extra, purpose, depth, self.now()).map_err(|refusal| refusal.to_string())?;
        match self.host() {
            Some(host) if !is_for_host(leaf, &host) => Err(format!("not for {host}")),
            _ => Ok(()),
        }
    }

    /// A handshake in memory, checked at the case's time.
    fn memory(&self) -> Verdict {
        let text = |error: &dyn std::fmt::Display| format!("handshake: {error}");
        let (certified, name) = (self.certified().ok_or("no key")?, self.host().ok_or("no name")?);
        let server = server_context(&certified).map_err(|error| text(&error))?;
        let depth = u32::try_from(self.depth).unwrap_or(u32::MAX);
        let verification = Verification::On { trust: Arc::new(self.trust()?), depth };
        let context = ClientContext::new(&ClientOptions::new(verification))?;
        let mut client = context.session(&name, false).map_err(|error| text(&error))?;
        let mut server = server.session(Offered::default()).map_err(|error| text(&error))?;
        let mut bytes = Vec::new();
        for _ in 0..8 {
            bytes = turn(&mut client, bytes)?;
            bytes = turn(&mut server, bytes)?;
            if client.is_established() && server.is_established() {
                return context.check(&client, &name, self.now()).map_err(|distrust| distrust.to_string());
            }
        }
        Err("the handshake does not end".to_string())
    }

    /// What OpenSSL says. An address may be a name or an address of the certificate: nginx asks for names only.
    fn openssl(&self, dir: &Path) -> Verdict {
        let Some((name, is_address)) = &self.name else { return self.openssl_for(dir, &[]) };
        let as_name = self.openssl_for(dir, &["-verify_hostname", name]);
        if *is_address { as_name.or_else(|_| self.openssl_for(dir, &["-verify_ip", name])) } else { as_name }
    }

    fn openssl_for(&self, dir: &Path, name: &[&str]) -> Verdict {
        let file = |name: &str, text: &str| {
            std::fs::write(dir.join(name), text).expect("a file in our own folder");
            dir.join(name).display().to_string()
        };
        let mut command = Command::new("openssl");
        command.args(["verify", "-no-CApath", "-no-CAstore", "-auth_level", "2", "-purpose"]);
        command.arg(if self.is_client { "sslclient" } else { "sslserver" });
        command.args(["-verify_depth", &self.depth.to_string(), "-attime", &self.now().to_string()]);
        command.args(["-CAfile", &file("anchors.pem", &self.anchors)]);
        if !self.extra.is_empty() {
            command.args(["-untrusted", &file("extra.pem", &self.extra)]);
        }
        if !self.crls.is_empty() {
            command.args(["-crl_check", "-crl_check_all", "-CRLfile", &file("crls.pem", &self.crls)]);
        }
        command.args(name).arg(file("leaf.pem", &self.leaf));
        let output = command.output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        let all = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = all.lines().find(|line| line.contains("error") || line.contains("Unable"));
        Err(line.unwrap_or("no message").to_string())
    }
}

/// The time of `YYYY-MM-DDTHH:MM:SS…` in UTC, as seconds since 1970, by `date`.
fn seconds(time: &str) -> i64 {
    let output = Command::new("date").args(["-u", "-d", time, "+%s"]).output().expect("date");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a time")
}

fn turn(session: &mut Session, mut bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    session.receive(&mut bytes, &mut |_| (), &mut out).map_err(|error| format!("handshake: {error}"))?;
    Ok(out)
}

fn server_context(certified: &Certified) -> Result<ServerContext, String> {
    ServerContext::new(&ServerOptions::default(), Arc::new(Fixed([certified.clone()].into())))
}

/// A back end that shows this certificate; gives its port.
fn back_end(certified: &Certified) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    let context = server_context(certified).expect("a context");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = serve(stream, &context);
        }
    });
    port
}

/// Shakes hands and answers one request.
fn serve(mut stream: TcpStream, context: &ServerContext) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(text)?;
    let mut session = context.session(Offered::default()).map_err(|error| error.to_string())?;
    let (mut plain, mut buf) = (Vec::new(), vec![0; 64 << 10]);
    while !plain.ends_with(b"\r\n\r\n") {
        let count = stream.read(&mut buf).map_err(text)?;
        if count == 0 {
            return Ok(());
        }
        let mut out = Vec::new();
        let taken = session.receive(&mut buf[..count], &mut |text| plain.extend_from_slice(text), &mut out);
        stream.write_all(&out).map_err(text)?;
        taken.map_err(|error| error.to_string())?;
    }
    let mut out = Vec::new();
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    session.seal(answer, &mut out).map_err(|error| error.to_string())?;
    stream.write_all(&out).map_err(text)
}

/// One Brisk for all cases that it can be asked about over sockets. Each client's case has the port of its place.
fn start(binary: &str, cases: &[Case]) -> (Server, Vec<usize>) {
    let mut builder = Builder::new(binary).certificate("server.test");
    let (mut locations, mut servers, mut places) = (String::new(), String::new(), vec![1; cases.len()]);
    let mut place = 1;
    for (at, case) in cases.iter().enumerate().filter(|(_, case)| case.trust().is_ok()) {
        let prefix = match case.how() {
            How::Proxy => "proxy_ssl",
            How::Client => "ssl",
            How::Memory | How::Call => continue,
        };
        builder = builder.file(&format!("ca{at}.pem"), &case.anchors);
        let crl = if case.crls.is_empty() {
            String::new()
        } else {
            builder = builder.file(&format!("crl{at}.pem"), &case.crls);
            format!("{prefix}_crl crl{at}.pem;")
        };
        let rules =
            format!("{prefix}_trusted_certificate ca{at}.pem; {prefix}_verify_depth {}; {crl}", case.depth);
        if case.is_client {
            place += 1;
            places[at] = place;
            let _ = writeln!(
                servers,
                "server {{ listen 127.0.0.1:{{{{PORT{place}}}}} ssl; ssl_verify_client on; {rules} return 200; }}"
            );
        } else {
            let (Some(certified), Some(host)) = (case.certified(), case.host()) else { continue };
            let port = back_end(&certified);
            let _ = writeln!(
                locations,
                "location = /{at} {{ proxy_pass https://127.0.0.1:{port}; proxy_ssl_verify on; proxy_ssl_name {host}; {rules} }}"
            );
        }
    }
    let http = format!(
        "ssl_certificate a.crt; ssl_certificate_key a.key; proxy_ssl_session_reuse off; \
         server {{ listen 127.0.0.1:{{{{PORT}}}}; {locations} }} {servers}"
    );
    (builder.http(&http).start(), places)
}

/// What Brisk does with a case that reaches it over a socket.
fn ask(server: &Server, at: usize, place: usize, case: &Case) -> Verdict {
    case.trust()?;
    let status = if case.is_client {
        let options = ClientOptions { certificate: case.certified(), ..ClientOptions::unverified() };
        let context = ClientContext::new(&options)?;
        let answer = TlsClient::get(server.port_of(place), &context, "server.test", "/")?;
        answer.get(9..12).unwrap_or("none").to_string()
    } else {
        Client::connect(server.port()).get(&format!("/{at}")).status.to_string()
    };
    if status == "200" { Ok(()) } else { Err(format!("status {status}")) }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [binary, corpus, results] = &args[..] else { panic!("usage: limbo BRISK LIMBO.JSON RESULTS.TSV") };
    let corpus: Value = serde_json::from_slice(&std::fs::read(corpus).expect("the corpus")).expect("JSON");
    let cases: Vec<Case> =
        corpus["testcases"].as_array().into_iter().flatten().filter_map(Case::read).collect();
    assert!(!cases.is_empty(), "no cases");
    let (server, places) = start(binary, &cases);
    let dir = server.dir().join("openssl");
    std::fs::create_dir_all(&dir).expect("a folder");
    let mut out = String::from("id\thow\texpected\topenssl\tbrisk\topenssl says\tbrisk says\n");
    for (at, case) in cases.iter().enumerate() {
        let (how, called) = (case.how(), case.call());
        let brisk = match how {
            How::Proxy | How::Client => ask(&server, at, places[at], case),
            How::Memory => case.memory(),
            How::Call => called.clone(),
        };
        let reason = match (&brisk, &called) {
            // The status says less than the verifier does.
            (Err(_), Err(why)) => why.clone(),
            (Err(why), Ok(())) => why.clone(),
            (Ok(()), _) => String::new(),
        };
        assert!(
            brisk.is_err() || called.is_ok(),
            "{}: accepted, but refused when called: {called:?}",
            case.id
        );
        let openssl = case.openssl(&dir);
        let word = |is_good: bool| if is_good { "accepts" } else { "refuses" };
        let _ = writeln!(
            out,
            "{}\t{}\t{}\t{}\t{}\t{}\t{reason}",
            case.id,
            how.text(),
            word(case.is_good),
            word(openssl.is_ok()),
            word(brisk.is_ok()),
            openssl.err().unwrap_or_default().replace('\t', " "),
        );
    }
    std::fs::write(results, out).expect("the results can be written");
}
