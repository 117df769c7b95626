//! PHP behind FastCGI: a page of one line, and WordPress's front page. What PHP-FPM costs counts, too: how it is spoken to
//! decides about that.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Findings, Measured, brisk, named, nginx, ours_over_peer};
use crate::conf::Conf;
use crate::lab::Lab;
use crate::rounds::{Case, Request, Tls, interleave};
use crate::server::{Prepared, Spec, end, free_port};
use brisk_load::output;

/// PHP's processes, connections that are kept to them, and clients: with as many connections kept as there are processes,
/// nginx would stall.
pub(super) const CHILDREN: usize = 8;
pub(super) const KEPT: usize = 4;
const CLIENTS: usize = 4;
/// Clients of the front page, without and with a cache.
const READERS: [usize; 2] = [4, 64];
const START_MAX: Duration = Duration::from_secs(30);

/// What Debian's `fastcgi.conf` says, without what names the script.
pub(super) const PARAMS: &str = "fastcgi_param QUERY_STRING $query_string;
fastcgi_param REQUEST_METHOD $request_method;
fastcgi_param CONTENT_TYPE $content_type;
fastcgi_param CONTENT_LENGTH $content_length;
fastcgi_param DOCUMENT_ROOT $document_root;
fastcgi_param SERVER_PROTOCOL $server_protocol;
fastcgi_param REQUEST_SCHEME $scheme;
fastcgi_param GATEWAY_INTERFACE CGI/1.1;
fastcgi_param SERVER_SOFTWARE server;
fastcgi_param REMOTE_ADDR $remote_addr;
fastcgi_param REMOTE_PORT $remote_port;
fastcgi_param SERVER_ADDR $server_addr;
fastcgi_param SERVER_NAME $server_name;
fastcgi_param REDIRECT_STATUS 200;
";

/// A PHP-FPM of our own.
pub(super) struct Fpm {
    child: Child,
    /// Where it listens.
    pub(super) socket: PathBuf,
}

impl Fpm {
    /// With this php.ini, or with OPcache alone.
    pub(super) fn start(folder: &Path, ini: Option<&Path>) -> io::Result<Self> {
        let root = rustix::process::geteuid().is_root();
        let user = if root { "user = nobody\ngroup = nogroup\n" } else { "" };
        let socket = folder.join("php.sock");
        let conf = format!(
            "[global]\nerror_log = {}\ndaemonize = no\n[www]\n{user}listen = {}\nlisten.mode = 0666\n\
             listen.backlog = 511\npm = static\npm.max_children = {CHILDREN}\n",
            folder.join("fpm.log").display(),
            socket.display(),
        );
        fs::write(folder.join("fpm.conf"), conf)?;
        let mut command = Command::new("/proc/self/exe");
        command.args(["exec", &std::process::id().to_string(), "any"]).arg(fpm_program()?);
        // No configuration of the machine, but what Debian has on by default.
        match ini {
            Some(ini) => command.args(["-n", "-c"]).arg(ini),
            None => command.args(["-n", "-d", "zend_extension=opcache"]),
        };
        command.args(["-F", "-R", "-y"]).arg(folder.join("fpm.conf"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let fpm = Self { child: command.spawn()?, socket };
        wait_for(&fpm.socket, "PHP-FPM does not come up")?;
        Ok(fpm)
    }

    /// Its master.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Fpm {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Processes that answer without PHP, in its place.
pub(super) struct Responder {
    child: Child,
    pub(super) socket: PathBuf,
}

impl Responder {
    pub(super) fn start(folder: &Path) -> io::Result<Self> {
        let socket = folder.join("responder.sock");
        let mut command = Command::new("/proc/self/exe");
        command.args(["exec", &std::process::id().to_string(), "any"]).arg(env::current_exe()?);
        command.arg("responder").arg(&socket).arg(CHILDREN.to_string()).stdin(Stdio::null());
        let responder = Self { child: command.spawn()?, socket };
        wait_for(&responder.socket, "the responder does not come up")?;
        Ok(responder)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Waits until something takes connections there.
fn wait_for(socket: &Path, otherwise: &'static str) -> io::Result<()> {
    let limit = Instant::now() + START_MAX;
    while std::os::unix::net::UnixStream::connect(socket).is_err() {
        if Instant::now() > limit {
            return Err(io::Error::other(otherwise));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn fpm_program() -> io::Result<PathBuf> {
    let entries = fs::read_dir("/usr/sbin")?.flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> =
        entries.filter(|path| path.to_string_lossy().starts_with("/usr/sbin/php-fpm")).collect();
    found.sort();
    found.pop().ok_or_else(|| io::Error::other("PHP-FPM is missing: run \"scripts/setup.sh bench\""))
}

/// One line of PHP.
pub fn hello(lab: &Lab) -> io::Result<Findings> {
    let folder = lab.server_dir("php-fpm")?;
    let fpm = Fpm::start(&folder, None)?;
    fs::write(lab.docroot.join("hello.php"), "<?php echo \"Hello, world!\\n\";\n")?;
    let conf = |keeps: bool| {
        let (block, kept) =
            if keeps { (format!("keepalive {KEPT};"), "fastcgi_keep_conn on;") } else { <_>::default() };
        let socket = &fpm.socket;
        Conf {
            http: format!("upstream php {{ server unix:{}; {block} }}\n", socket.display()),
            site: format!(
                "location = /hello.php {{\n{PARAMS}fastcgi_param SCRIPT_FILENAME $document_root/hello.php;\n\
                 fastcgi_param SCRIPT_NAME /hello.php;\nfastcgi_param REQUEST_URI $request_uri;\n\
                 fastcgi_pass php;\n{kept}\n}}\n"
            ),
            ..Conf::default()
        }
    };
    let kept = |spec: Spec| Spec { name: format!("{} kept", spec.name), ..spec };
    let specs = [brisk(conf(false)), kept(brisk(conf(true))), nginx(conf(false)), kept(nginx(conf(true)))];
    let specs = specs.map(|spec| spec.with(&[fpm.pid()]));
    let mut findings = Findings::default();
    let case = "hello.php";
    let measured = measure(lab, &mut findings, case, &specs, "/hello.php", CLIENTS)?;
    let pairs = [("brisk kept", "nginx usual"), ("brisk kept", "nginx usual kept"), ("brisk", "nginx usual")];
    for (ours, peer) in pairs {
        if let (Some(one), Some(other)) = (named(&measured, ours), named(&measured, peer)) {
            findings.checks.push(ours_over_peer(format!("{case}: {ours} / {peer}"), one, other, 0.8));
        }
    }
    Ok(findings)
}

fn measure(
    lab: &Lab,
    findings: &mut Findings,
    case: &str,
    specs: &[Spec],
    path: &str,
    connections: usize,
) -> io::Result<Vec<Measured>> {
    let servers: Vec<Prepared> = specs.iter().map(|spec| spec.prepare(lab)).collect::<io::Result<_>>()?;
    let of = |server| Case {
        server,
        requests: vec![Request::path(path)],
        connections,
        unit_bytes: None,
        tls: Tls::Off,
        streams: None,
    };
    let samples = interleave(lab, &servers.iter().map(of).collect::<Vec<_>>())?;
    let names = servers.iter().map(|server| server.name.clone());
    let measured: Vec<Measured> =
        names.zip(samples).map(|(server, samples)| Measured { server, samples }).collect();
    measured.iter().for_each(|one| findings.add(case, one));
    Ok(measured)
}

/// WordPress as `examples/wordpress` sets it up.
struct WordPress {
    dir: PathBuf,
    port: u16,
    brisk: PathBuf,
}

impl WordPress {
    fn up(lab: &Lab) -> io::Result<Self> {
        let dir = env::var_os("WORDPRESS_DIR")
            .map_or_else(|| "/var/tmp/brisk-bench-wordpress".into(), PathBuf::from);
        let port = match fs::read_to_string(dir.join("bench-port")) {
            // Its pages name their own address.
            Ok(text) => text.trim().parse().map_err(io::Error::other)?,
            Err(_) => free_port()?,
        };
        let this = Self { dir, port, brisk: lab.options.brisk.clone() };
        this.script("up")?;
        fs::write(this.dir.join("bench-port"), port.to_string())?;
        Ok(this)
    }

    fn script(&self, what: &str) -> io::Result<()> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/wordpress/wordpress.sh");
        let mut command = Command::new(script);
        command.arg(what).env("WORDPRESS_DIR", &self.dir).env("WORDPRESS_PORT", self.port.to_string());
        // Both servers ask the same PHP-FPM.
        command.env("EXAMPLE_PHP", "fpm");
        if !command.env("BRISK", &self.brisk).stdin(Stdio::null()).status()?.success() {
            return Err(io::Error::other(format!("{script} {what} failed")));
        }
        Ok(())
    }

    fn fpm(&self) -> io::Result<u32> {
        let text = fs::read_to_string(self.dir.join("php-fpm.pid"))?;
        text.trim().parse().map_err(io::Error::other)
    }

    /// The front page at `/front`.
    fn conf(&self, micro_cache: bool) -> Conf {
        let (dir, port) = (self.dir.display(), self.port);
        let mut conf = Conf::default();
        let cache = if micro_cache {
            "fastcgi_cache_path cache levels=1:2 keys_zone=pages:10m inactive=10m;\n"
                .clone_into(&mut conf.http);
            "fastcgi_cache pages;\nfastcgi_cache_key $request_method$host$request_uri;\n\
             fastcgi_cache_valid 200 1s;\nfastcgi_cache_lock on;\n\
             fastcgi_cache_use_stale updating;\nfastcgi_cache_background_update on;\n"
        } else {
            ""
        };
        conf.site = format!(
            "location = /front {{\n{PARAMS}fastcgi_param SCRIPT_FILENAME {dir}/site/index.php;\n\
             fastcgi_param SCRIPT_NAME /index.php;\nfastcgi_param REQUEST_URI /;\n\
             fastcgi_param HTTP_HOST 127.0.0.1:{port};\nfastcgi_param SERVER_PORT {port};\n\
             fastcgi_pass unix:{dir}/php.sock;\nfastcgi_buffers 16 16k;\nfastcgi_buffer_size 32k;\n{cache}}}\n"
        );
        conf
    }
}

impl Drop for WordPress {
    fn drop(&mut self) {
        if let Err(error) = self.script("down") {
            output::note(format_args!("  {error}"));
        }
    }
}

/// The front page of WordPress.
pub fn wordpress(lab: &Lab) -> io::Result<Findings> {
    let site = WordPress::up(lab)?;
    let beside = [site.fpm()?];
    let mut findings = Findings::default();
    let cases = [("front page", false, 1.0), ("front page, micro-cache of 1 s", true, 0.95)];
    for ((case, micro_cache, at_most), readers) in cases.into_iter().zip(READERS) {
        let conf = site.conf(micro_cache);
        let specs = [brisk(conf.clone()), nginx(conf)].map(|spec| spec.with(&beside));
        let measured = measure(lab, &mut findings, case, &specs, "/front", readers)?;
        if let (Some(ours), Some(peer)) = (named(&measured, "brisk"), named(&measured, "nginx usual")) {
            findings.checks.push(ours_over_peer(format!("{case}: ours / nginx"), ours, peer, at_most));
        }
    }
    Ok(findings)
}
