//! An application of the folder `examples`, running in a folder of its own, and people with cookies who use it.

use crate::client::Client;
use crate::ports;
use crate::response::Response;
use crate::temp::TempDir;
use crate::wait;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// See the module's head. It is stopped when it is dropped.
pub struct Example {
    dir: TempDir,
    port: ports::Port,
    name: &'static str,
    brisk: &'static str,
    settings: Vec<(&'static str, String)>,
}

impl Example {
    /// Has the example's own script bring it up, with this program of Brisk's and these variables in its environment.
    pub fn up(brisk: &'static str, name: &'static str, settings: &[(&'static str, &str)]) -> Example {
        let settings = settings.iter().map(|(name, value)| (*name, (*value).to_string())).collect();
        let example = Example { dir: TempDir::new(), port: ports::claim(), name, brisk, settings };
        // The processes are nobody's if the test is root's.
        fs::set_permissions(example.dir.path(), fs::Permissions::from_mode(0o755))
            .expect("a folder of our own");
        let output = example.script("up");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains(&format!("{} is served", example.url())), "{said}");
        example
    }

    /// Where everything of it lies.
    pub fn folder(&self) -> PathBuf {
        self.dir.path().join(self.name)
    }

    /// A place beside it, for what a test needs besides.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// Its address, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port.number)
    }

    /// Runs its script: `up`, `down`, `remove`.
    pub fn script(&self, what: &str) -> Output {
        let name = self.name;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../examples/{name}/{name}.sh"));
        let variables = name.to_uppercase();
        Command::new(script)
            .arg(what)
            .env("BRISK", self.brisk)
            .env(format!("{variables}_DIR"), self.folder())
            .env(format!("{variables}_PORT"), self.port.number.to_string())
            .envs(self.settings.iter().map(|(name, value)| (name, value)))
            .output()
            .expect("the script starts")
    }

    /// What Brisk has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder().join("log/brisk.log")).unwrap_or_default()
    }

    /// Somebody without a cookie yet.
    pub fn visitor(&self) -> Visitor {
        Visitor { port: self.port.number, cookies: BTreeMap::new() }
    }

    /// Stops it, looks whether nothing is left, and removes it.
    pub fn stop_and_remove(&self) {
        let output = self.script("down");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(Client::try_connect(self.port.number).is_err(), "it is stopped");
        assert!(!self.folder().join("mysql.sock").exists());
        assert!(self.script("remove").status.success() && !self.folder().exists());
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- Brisk's log\n{}", self.log());
        }
        if self.folder().exists() {
            self.script("down");
        }
    }
}

/// Somebody with a cookie jar.
pub struct Visitor {
    port: u16,
    /// Names and values.
    pub cookies: BTreeMap<String, String>,
}

impl Visitor {
    /// One request; `fields` are lines of its head.
    pub fn ask(&mut self, method: &str, target: &str, fields: &str, body: &[u8]) -> Response {
        let jar: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookie = if jar.is_empty() { String::new() } else { format!("Cookie: {}\r\n", jar.join("; ")) };
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n{cookie}{length}{fields}\r\n",
            self.port
        );
        // A page may take seconds on a machine that is busy with other tests. A pool that therefore refuses has not seen the request.
        let response = wait::until("a pool that takes a request", || {
            let response = Client::connect(self.port).request([head.as_bytes(), body].concat());
            let is_refused = response.status == 503 && response.header("Retry-After").is_some();
            (!is_refused).then_some(response)
        });
        for set in response.all("Set-Cookie") {
            if let Some((name, value)) = set.split(';').next().and_then(|pair| pair.split_once('=')) {
                self.cookies.insert(name.to_string(), value.to_string());
            }
        }
        response
    }

    /// A page.
    pub fn get(&mut self, target: &str) -> Response {
        self.ask("GET", target, "", b"")
    }

    /// A form, whose values are coded already but for blanks.
    pub fn post(&mut self, target: &str, form: &[(&str, &str)]) -> Response {
        let pairs: Vec<String> =
            form.iter().map(|(name, value)| format!("{name}={}", value.replace(' ', "+"))).collect();
        let fields = "Content-Type: application/x-www-form-urlencoded\r\n";
        self.ask("POST", target, fields, pairs.join("&").as_bytes())
    }
}

/// The text behind `"name":"`, as JSON's own escapes allow.
pub fn json_text(json: &str, name: &str) -> String {
    let (_, rest) = json.split_once(&format!("\"{name}\":\"")).unwrap_or_else(|| panic!("no {name}: {json}"));
    rest.split('"').next().unwrap_or_default().replace("\\/", "/").replace("\\\\", "\\")
}
