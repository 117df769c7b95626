//! PHP in pools that Brisk runs, beside nginx with PHP-FPM and Apache with mod_php: a script of one line, the bank's page of an account, and
//! WordPress's front page. All that works for a request counts: server, PHP and database.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::php::{CHILDREN, Fpm, KEPT, PARAMS, Responder};
use super::{CPU_UNIT, Findings, Measured, best, brisk, named, nginx, ours_over_peer, plain_row};
use crate::conf::{APACHE_MODULES, Conf};
use crate::lab::Lab;
use crate::process;
use crate::results::{Check, Target};
use crate::rounds::{Case, Request, Tls, interleave};
use crate::server::{Prepared, Program, Server, Spec, free_port};
use crate::stats::{Summary, median};
use brisk_load::output;
use rustix::process::{Pid, WaitId, WaitIdOptions};

const POOL: &str = "brisk pool";
const APACHE: &str = "apache mod_php";
const FLOOR: &str = "brisk, no PHP";
/// Requests of a run without a server before those that count.
const WARM_UP: u32 = 5;
const ALONE: &str = "PHP and database alone";
/// Clients, but of pages from a cache.
const CLIENTS: usize = 4;
const READERS: usize = 64;
/// What fills all workers before their memory is looked at.
const FILLING_CLIENTS: usize = 16;
const FILLING_REQUESTS: usize = 40;
const MIB: f64 = 1024.0 * 1024.0;

/// What all servers are asked for.
struct Site {
    /// The folder of `script`.
    root: PathBuf,
    script: &'static str,
    /// The URI that PHP sees.
    uri: &'static str,
    ini: PathBuf,
    /// Further parameters of requests.
    params: String,
    /// The same in Apache's language.
    apache: String,
    /// The database.
    beside: Vec<u32>,
    /// Requests of a run without a server; 0: there is none.
    alone: u32,
}

impl Site {
    /// `pass` leads to PHP. The page is `/page`.
    fn conf(&self, http: &str, pass: &str, has_cache: bool) -> Conf {
        let (root, script, uri, params) = (self.root.display(), self.script, self.uri, &self.params);
        let mut conf = Conf { http: http.to_owned(), ..Conf::default() };
        let mut cache = "";
        if has_cache {
            conf.http.push_str("fastcgi_cache_path cache levels=1:2 keys_zone=pages:10m inactive=10m;\n");
            cache = "fastcgi_cache pages;\nfastcgi_cache_key $request_method$host$request_uri;\n\
                     fastcgi_cache_valid 200 1s;\nfastcgi_cache_lock on;\nfastcgi_cache_use_stale updating;\n\
                     fastcgi_cache_background_update on;\n";
        }
        conf.site = format!(
            "location = /page {{\n{PARAMS}fastcgi_param SCRIPT_FILENAME {root}/{script};\n\
             fastcgi_param SCRIPT_NAME /{script};\nfastcgi_param REQUEST_URI {uri};\n{params}{pass}\n\
             fastcgi_buffers 16 16k;\nfastcgi_buffer_size 32k;\n{cache}}}\n"
        );
        conf
    }

    fn pool(&self, has_cache: bool) -> Spec {
        let pool = format!(
            "php_pool bench {{ php_ini {}; pm static; max_children {CHILDREN}; }}\n",
            self.ini.display()
        );
        let conf = self.conf(&pool, "php_pass bench;", has_cache);
        Spec { name: POOL.to_owned(), ..brisk(conf) }.with(&self.beside).unpinned()
    }

    fn nginx(&self, fpm: &Fpm, keeps: bool, has_cache: bool) -> Spec {
        let (block, kept) =
            if keeps { (format!("keepalive {KEPT};"), "fastcgi_keep_conn on;") } else { <_>::default() };
        let upstream = format!("upstream php {{ server unix:{}; {block} }}\n", fpm.socket.display());
        let conf = self.conf(&upstream, &format!("fastcgi_pass php; {kept}"), has_cache);
        let name = if keeps { "nginx + fpm kept" } else { "nginx + fpm" };
        let beside: Vec<u32> = self.beside.iter().copied().chain([fpm.pid()]).collect();
        Spec { name: name.to_owned(), ..nginx(conf) }.with(&beside).unpinned()
    }

    /// Ours, before processes that answer without PHP: what a server and its processes can cost at least by this wire.
    fn without_php(&self, responder: &Responder) -> Spec {
        let upstream =
            format!("upstream php {{ server unix:{}; keepalive {KEPT}; }}\n", responder.socket.display());
        let conf = self.conf(&upstream, "fastcgi_pass php; fastcgi_keep_conn on;", false);
        Spec { name: FLOOR.to_owned(), ..brisk(conf) }.with(&[responder.pid()]).unpinned()
    }

    fn apache(&self) -> io::Result<Spec> {
        let modules = fs::read_dir(APACHE_MODULES).into_iter().flatten().flatten().map(|entry| entry.path());
        let php = modules.filter(|path| path.to_string_lossy().contains("/libphp")).max();
        let php =
            php.ok_or_else(|| io::Error::other("mod_php is missing: run \"scripts/setup.sh bench\""))?;
        let mut text = format!("LoadModule php_module {}\n{}", php.display(), self.apache);
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "DocumentRoot {}\nPHPIniDir {}\nStartServers {CHILDREN}\nMinSpareServers {CHILDREN}\nMaxSpareServers {CHILDREN}\n\
             MaxRequestWorkers {CHILDREN}\n",
            self.root.display(),
            self.ini.parent().unwrap_or(Path::new("/")).display(),
        );
        let conf = Conf { apache: text, ..Conf::default() };
        Ok(Spec::new(APACHE, Program::Apache, conf).with(&self.beside).unpinned())
    }
}

/// Measures servers, each with the path that it knows the page by.
fn measure(
    lab: &Lab,
    findings: &mut Findings,
    case: &str,
    specs: &[(Spec, &str)],
    connections: usize,
) -> io::Result<Vec<Measured>> {
    let servers: Vec<(Prepared, &str)> =
        specs.iter().map(|(spec, path)| Ok((spec.prepare(lab)?, *path))).collect::<io::Result<_>>()?;
    let cases: Vec<Case<'_>> = servers
        .iter()
        .map(|(server, path)| Case {
            server,
            requests: vec![Request::path(path)],
            connections,
            unit_bytes: None,
            tls: Tls::Off,
            streams: None,
        })
        .collect();
    let samples = interleave(lab, &cases)?;
    let names = servers.iter().map(|(server, _)| server.name.clone());
    let measured: Vec<Measured> =
        names.zip(samples).map(|(server, samples)| Measured { server, samples }).collect();
    measured.iter().for_each(|one| findings.add(case, one));
    Ok(measured)
}

/// Ours beside the better of nginx's two ways, and beside Apache.
fn compare(findings: &mut Findings, case: &str, measured: &[Measured], at_most: f64) {
    let Some(ours) = named(measured, POOL) else { return };
    if let Some(peer) = best(measured, "nginx") {
        findings.checks.push(ours_over_peer(format!("{case}: pool / {}", peer.server), ours, peer, at_most));
    }
    if let Some(peer) = named(measured, APACHE) {
        findings.checks.push(ours_over_peer(format!("{case}: pool / {APACHE}"), ours, peer, 1.0));
    }
}

/// `more` is measured beside the servers.
fn uncached(
    lab: &Lab,
    findings: &mut Findings,
    case: &str,
    site: &Site,
    more: Vec<(Spec, &str)>,
    at_most: f64,
) -> io::Result<()> {
    let fpm = Fpm::start(&lab.server_dir("php-fpm")?, Some(&site.ini))?;
    let servers = [
        (site.pool(false), "/page"),
        (site.nginx(&fpm, false, false), "/page"),
        (site.nginx(&fpm, true, false), "/page"),
        (site.apache()?, site.uri),
    ];
    let specs: Vec<(Spec, &str)> = servers.into_iter().chain(more).collect();
    let measured = measure(lab, findings, case, &specs, CLIENTS)?;
    compare(findings, case, &measured, at_most);
    if site.alone > 0 {
        findings.rows.push(plain_row(case, ALONE, &alone(lab, site)?, CPU_UNIT));
    }
    Ok(())
}

/// What the page costs at least: PHP and the database alone. php-cgi carries out request after request, without a server, a wire or other
/// processes.
fn alone(lab: &Lab, site: &Site) -> io::Result<Vec<f64>> {
    let params = site.params.lines().filter_map(|line| {
        line.trim_end_matches(';').strip_prefix("fastcgi_param ").and_then(|line| line.split_once(' '))
    });
    let script = site.root.join(site.script);
    let run = |requests: u32| {
        let mut php = Command::new("php-cgi");
        php.args(["-n", "-c"]).arg(&site.ini).args(["-T", &requests.to_string()]);
        php.env_clear().envs(params.clone()).envs([
            ("REQUEST_METHOD", "GET"),
            ("REQUEST_URI", site.uri),
            ("SERVER_PROTOCOL", "HTTP/1.1"),
            ("GATEWAY_INTERFACE", "CGI/1.1"),
            ("REDIRECT_STATUS", "200"),
            ("QUERY_STRING", ""),
        ]);
        php.env("SCRIPT_NAME", format!("/{}", site.script)).env("SCRIPT_FILENAME", &script);
        let before: Vec<_> = site.beside.iter().map(|pid| process::thread_cpu(*pid)).collect();
        let mut php = php.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let pid = php.id();
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // Not taken away yet: what it has used is known so long.
        rustix::process::waitid(WaitId::Pid(Pid::from_child(&php)), ended)?;
        let own = process::between(&process::ThreadCpu::default(), &process::tasks_of(pid)).ran_ns;
        if !php.wait()?.success() {
            return Err(io::Error::other("php-cgi failed: run \"scripts/setup.sh bench\""));
        }
        let beside = site.beside.iter().zip(&before);
        let beside = beside.map(|(pid, before)| process::between(before, &process::thread_cpu(*pid)).ran_ns);
        Ok(own + beside.sum::<u64>())
    };
    // PHP's start and what compiling takes count for neither.
    let of_one = || {
        let (begun, all) = (run(WARM_UP)?, run(WARM_UP + site.alone)?);
        Ok(all.saturating_sub(begun) as f64 / 1000.0 / f64::from(site.alone))
    };
    (1..=lab.options.rounds).map(|_| of_one()).collect()
}

/// More clients than processes. nginx that keeps connections to FPM, and Apache that keeps its clients', would let those that are left
/// wait until a time-out is over: they have no row here.
fn crowded(lab: &Lab, findings: &mut Findings, case: &str, site: &Site, at_most: f64) -> io::Result<()> {
    let fpm = Fpm::start(&lab.server_dir("php-fpm")?, Some(&site.ini))?;
    let specs = [(site.pool(false), "/page"), (site.nginx(&fpm, false, false), "/page")];
    let measured = measure(lab, findings, case, &specs, READERS)?;
    compare(findings, case, &measured, at_most);
    Ok(())
}

/// One line of PHP.
pub fn hello(lab: &Lab) -> io::Result<Findings> {
    let folder = lab.server_dir("php")?;
    let ini = folder.join("php.ini");
    fs::write(&ini, "zend_extension=opcache\n")?;
    fs::write(lab.docroot.join("hello.php"), "<?php echo \"Hello, world!\\n\";\n")?;
    let site = Site {
        root: lab.docroot.clone(),
        script: "hello.php",
        uri: "/hello.php",
        ini,
        params: String::new(),
        apache: String::new(),
        beside: Vec::new(),
        alone: 0,
    };
    let mut findings = Findings::default();
    let responder = Responder::start(&lab.server_dir("responder")?)?;
    uncached(lab, &mut findings, "hello.php", &site, vec![(site.without_php(&responder), "/page")], 0.45)?;
    drop(responder);
    crowded(lab, &mut findings, &format!("hello.php, {READERS} clients"), &site, 0.45)?;
    Ok(findings)
}

/// An example whose pages and database are there; its PHP and web server are ours.
struct Example {
    script: PathBuf,
    name: &'static str,
    dir: PathBuf,
    port: u16,
}

impl Example {
    fn up(name: &'static str) -> io::Result<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name);
        let dir = PathBuf::from(format!("/var/tmp/brisk-bench-pool-{name}"));
        let port = match fs::read_to_string(dir.join("bench-port")) {
            // Its pages name their own address.
            Ok(text) => text.trim().parse().map_err(io::Error::other)?,
            Err(_) => free_port()?,
        };
        let this = Self { script: folder.join(format!("{name}.sh")), name, dir, port };
        this.run(&["up", "database"])?;
        fs::write(this.dir.join("bench-port"), port.to_string())?;
        Ok(this)
    }

    fn run(&self, words: &[&str]) -> io::Result<()> {
        let name = self.name.to_uppercase();
        let mut command = Command::new(&self.script);
        command.args(words).env(format!("{name}_DIR"), &self.dir);
        command.env(format!("{name}_PORT"), self.port.to_string()).stdin(Stdio::null());
        if command.status()?.success() {
            return Ok(());
        }
        Err(io::Error::other(format!("{} {} failed", self.script.display(), words.join(" "))))
    }

    fn database(&self) -> io::Result<u32> {
        let text = fs::read_to_string(self.dir.join("mysql.pid"))?;
        text.trim().parse().map_err(io::Error::other)
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        if let Err(error) = self.run(&["down"]) {
            output::note(format_args!("  {error}"));
        }
    }
}

/// The page of an account, for a client that is logged in.
pub fn bank(lab: &Lab) -> io::Result<Findings> {
    let example = Example::up("bank")?;
    let site = example.dir.join("site");
    let token = format!(
        "require '{0}/src/token.php'; echo Token::write(1, time() + 86400, (require '{0}/config.php')['secret']);",
        site.display()
    );
    let written = Command::new("php").args(["-n", "-r", &token]).output()?;
    let token = String::from_utf8_lossy(&written.stdout).into_owned();
    if !written.status.success() || token.split('.').count() != 3 {
        let text = String::from_utf8_lossy(&written.stderr);
        return Err(io::Error::other(format!("the bank's token cannot be made: {text}{token}")));
    }
    let site = Site {
        root: site.join("public"),
        script: "index.php",
        uri: "/account",
        ini: example.dir.join("php.ini"),
        params: format!("fastcgi_param HTTP_COOKIE token={token};\n"),
        apache: format!("FallbackResource /index.php\nRequestHeader set Cookie token={token} early\n"),
        beside: vec![example.database()?],
        alone: 1000,
    };
    let mut findings = Findings::default();
    uncached(lab, &mut findings, "an account's page", &site, Vec::new(), 0.9)?;
    Ok(findings)
}

/// WordPress's front page, and the memory of its workers.
pub fn wordpress(lab: &Lab) -> io::Result<Findings> {
    let example = Example::up("wordpress")?;
    let host = format!("127.0.0.1:{}", example.port);
    let site = Site {
        root: example.dir.join("site"),
        script: "index.php",
        uri: "/",
        ini: example.dir.join("php.ini"),
        params: format!("fastcgi_param HTTP_HOST {host};\nfastcgi_param SERVER_PORT {};\n", example.port),
        apache: format!("DirectoryIndex index.php\nRequestHeader set Host {host} early\n"),
        beside: vec![example.database()?],
        alone: 40,
    };
    let mut findings = Findings::default();
    uncached(lab, &mut findings, "front page", &site, Vec::new(), 0.97)?;
    let case = "front page, micro-cache of 1 s";
    let fpm = Fpm::start(&lab.server_dir("php-fpm")?, Some(&site.ini))?;
    let specs = [
        (site.pool(true), "/page"),
        (site.nginx(&fpm, false, true), "/page"),
        (site.nginx(&fpm, true, true), "/page"),
    ];
    let measured = measure(lab, &mut findings, case, &specs, READERS)?;
    compare(&mut findings, case, &measured, 0.75);
    drop(fpm);
    memory(lab, &mut findings, &site)?;
    Ok(findings)
}

/// What the master of PHP and its workers take together when each has answered some requests; pages that they share count once (PSS).
fn memory(lab: &Lab, findings: &mut Findings, site: &Site) -> io::Result<()> {
    let case = format!("memory of {CHILDREN} workers");
    let (mut ours, mut peer) = (Vec::new(), Vec::new());
    for round in 1..=lab.options.rounds {
        output::note(format_args!("  {case}: round {round} of {}", lab.options.rounds));
        let server = site.pool(false).prepare(lab)?.start()?;
        fill(server.address)?;
        ours.push(process::memory(pool_master(&server)?).pss / MIB);
        drop(server);
        let fpm = Fpm::start(&lab.server_dir("php-fpm")?, Some(&site.ini))?;
        let server = site.nginx(&fpm, false, false).prepare(lab)?.start()?;
        fill(server.address)?;
        peer.push(process::memory(fpm.pid()).pss / MIB);
    }
    let unit = "MiB PSS, PHP's processes";
    findings.rows.push(plain_row(&case, POOL, &ours, unit));
    findings.rows.push(plain_row(&case, "php-fpm", &peer, unit));
    findings.checks.push(Check {
        what: format!("{case}: pool / php-fpm"),
        ours: median(&ours),
        peer: Some(median(&peer)),
        unit: unit.to_owned(),
        figure: Summary::of_ratio(&ours, &peer),
        target: Target::AtMost(1.0),
    });
    Ok(())
}

/// Asks until every worker has answered.
fn fill(address: SocketAddr) -> io::Result<()> {
    let ask = || -> io::Result<()> {
        for _ in 0..FILLING_REQUESTS {
            let mut socket = TcpStream::connect(address)?;
            socket.write_all(b"GET /page HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
            let mut answer = Vec::new();
            socket.read_to_end(&mut answer)?;
            if !answer.starts_with(b"HTTP/1.1 200 ") {
                let head = String::from_utf8_lossy(&answer[..answer.len().min(80)]).into_owned();
                return Err(io::Error::other(format!("the page is answered with {head}")));
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..FILLING_CLIENTS).map(|_| scope.spawn(ask)).collect();
        let ended = clients
            .into_iter()
            .map(|one| one.join().map_err(|_| io::Error::other("a client has panicked"))?);
        ended.collect()
    })
}

fn pool_master(server: &Server) -> io::Result<u32> {
    let is_master = |pid: &u32| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|text| text.starts_with(b"brisk: php pool"))
    };
    let found = process::tree(server.pid()).into_iter().find(is_master);
    found.ok_or_else(|| io::Error::other("Brisk has no pool: is the program of \"make php\" there?"))
}
