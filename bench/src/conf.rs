//! Configurations of the servers under test.

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// What varies between set-ups; everything else is the same for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conf {
    /// `sendfile on; tcp_nopush on;` rather than `sendfile off;`.
    pub sendfile: bool,
    /// `open_file_cache max=1000;`.
    pub file_cache: bool,
    /// Whether requests are logged, to a file.
    pub access_log: bool,
    /// Worker processes.
    pub workers: usize,
    /// Modules that nginx must load.
    pub modules: Vec<&'static str>,
    /// Directives of `http` beside the site.
    pub http: String,
    /// Whether it speaks HTTP/2: without TLS if there is no certificate.
    pub http2: bool,
    /// Whether it speaks HTTP/3, too.
    pub http3: bool,
    /// Directives of the site beside its root and `location /`.
    pub site: String,
    /// Directives of Apache's site, for Apache alone.
    pub apache: String,
    /// Served over TLS with the certificate `a.crt` and its key `a.key` in this folder.
    pub tls: Option<PathBuf>,
    /// The port of the back end that requests are passed on to, for servers with a configuration language of their own.
    pub back_end: Option<u16>,
    /// Connections are passed on to the back end as they are: `stream`, HAProxy's mode tcp.
    pub is_stream: bool,
    /// Sessions with these databases are split.
    pub splitting: Option<Splitting>,
    /// Further servers.
    pub vhosts: Option<Vhosts>,
}

/// `mysql_split`, for Brisk alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splitting {
    /// Ports of the databases, the primary's first.
    pub servers: Vec<u16>,
    /// Who asks them what they are, and the file with its password.
    pub probe: (&'static str, PathBuf),
    /// Where the API listens.
    pub api: u16,
    /// `mysql_pool`.
    pub pool: usize,
}

/// Many named servers in one configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vhosts {
    /// How many; each has two names.
    pub count: usize,
    /// Whether each has a root of its own, which need not exist.
    pub own_roots: bool,
}

impl Default for Conf {
    fn default() -> Self {
        Self {
            sendfile: true,
            file_cache: false,
            access_log: false,
            workers: 1,
            modules: Vec::new(),
            http: String::new(),
            http2: false,
            http3: false,
            site: String::new(),
            apache: String::new(),
            tls: None,
            back_end: None,
            is_stream: false,
            splitting: None,
            vhosts: None,
        }
    }
}

/// Where Debian has Apache's modules.
pub const APACHE_MODULES: &str = "/usr/lib/apache2/modules";

/// The place that a configuration is written for.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Port on 127.0.0.1.
    pub port: u16,
    /// The server's own directory.
    pub dir: &'a Path,
    /// What is served.
    pub docroot: &'a Path,
}

/// The name of the nth of many servers.
pub fn vhost_name(index: usize) -> String {
    format!("host{index}.example.com")
}

impl Conf {
    /// In nginx's language, for nginx and Brisk.
    pub fn nginx(&self, place: Place<'_>) -> String {
        let Place { port, dir, docroot } = place;
        if self.is_stream {
            return self.stream(port);
        }
        let docroot = docroot.display();
        let log = if self.access_log { format!("{}/access.log", dir.display()) } else { "off".to_owned() };
        let mut text = String::new();
        self.modules.iter().for_each(|module| text.extend(["load_module ", module, ";\n"]));
        let _ = write!(
            text,
            "daemon off;\n\
             worker_processes {};\n\
             pid nginx.pid;\n\
             error_log error.log;\n\
             events {{ worker_connections 16384; }}\n\
             http {{\n\
             types {{ text/plain txt; text/html html; }}\n\
             default_type application/octet-stream;\n\
             {}\n\
             keepalive_timeout 300s;\n\
             keepalive_requests 1000000000;\n\
             access_log {log};\n",
            self.workers,
            if self.sendfile { "sendfile on; tcp_nopush on;" } else { "sendfile off;" },
        );
        let ssl = if self.tls.is_some() { " ssl" } else { "" };
        let certificates = self.tls.as_ref().map_or_else(String::new, |folder| {
            let folder = folder.display();
            // nginx before 1.23.4 has TLS 1.3 off by default: every server is asked for the same work.
            format!(
                "ssl_protocols TLSv1.3;\nssl_certificate {folder}/a.crt;\nssl_certificate_key {folder}/a.key;\n"
            )
        });
        if self.file_cache {
            text.push_str("open_file_cache max=1000;\n");
        }
        if self.vhosts.is_some() {
            text.push_str("server_names_hash_max_size 65536;\nserver_names_hash_bucket_size 128;\n");
        }
        // The parameter that nginx of all ages knows.
        let http2 = if self.http2 { " http2" } else { "" };
        let quic = if self.http3 { format!("listen 127.0.0.1:{port} quic;\n") } else { String::new() };
        text.push_str(&self.http);
        text.extend([
            &*format!(
                "server {{\nlisten 127.0.0.1:{port}{ssl}{http2};\n{quic}server_name localhost;\nroot {docroot};\n"
            ),
            &*certificates,
            &*self.site,
            "location / { }\n}\n",
        ]);
        if let Some(vhosts) = self.vhosts {
            for index in 0..vhosts.count {
                let name = vhost_name(index);
                let root = if vhosts.own_roots { format!("{docroot}/{name}") } else { docroot.to_string() };
                // Writing to a String cannot fail.
                let _ = writeln!(
                    text,
                    "server {{ listen 127.0.0.1:{port}; server_name {name} www.{name}; root {root}; \
                     location / {{ index index.html; }} }}"
                );
            }
        }
        text.push_str("}\n");
        text
    }

    /// Connections are passed on as they are: for nginx, Brisk and HAProxy.
    #[must_use]
    pub fn streamed(mut self, port: u16) -> Conf {
        self.back_end = Some(port);
        self.is_stream = true;
        self
    }

    fn stream(&self, port: u16) -> String {
        let load = |module: &&str| format!("load_module {module};\n");
        let modules: String = self.modules.iter().map(load).collect();
        let workers = self.workers;
        let (http, stream) = match &self.splitting {
            Some(splitting) => (splitting.http(), splitting.stream(port)),
            None => {
                let back_end = self.back_end.unwrap_or_default();
                let pass = format!("listen 127.0.0.1:{port};\nproxy_pass 127.0.0.1:{back_end};");
                (String::new(), format!("server {{\n{pass}\n}}\n"))
            }
        };
        format!(
            "{modules}daemon off;\nworker_processes {workers};\npid nginx.pid;\nerror_log error.log;\n\
             events {{ worker_connections 16384; }}\n{http}stream {{\n{stream}}}\n"
        )
    }

    /// Sessions are split between databases.
    #[must_use]
    pub fn split(mut self, splitting: Splitting) -> Conf {
        self.splitting = Some(splitting);
        self.is_stream = true;
        self
    }

    /// Everything is passed on to the back end, over connections that are kept: for nginx and Brisk.
    #[must_use]
    pub fn proxied(mut self, port: u16) -> Conf {
        self.http = format!(
            "upstream back {{ server 127.0.0.1:{port}; keepalive 256; keepalive_requests 1000000000; }}\n"
        );
        "location = /small.txt { proxy_pass http://back; proxy_http_version 1.1; proxy_set_header Connection \"\"; }\n"
            .clone_into(&mut self.site);
        self.back_end = Some(port);
        self
    }

    /// As [`Conf::proxied`], with a cache that holds the answers.
    #[must_use]
    pub fn cached(self, port: u16) -> Conf {
        let mut conf = self.proxied(port);
        conf.http.push_str("proxy_cache_path cache levels=1:2 keys_zone=bench:10m inactive=1h;\n");
        "location = /small.txt { proxy_pass http://back; proxy_http_version 1.1; proxy_set_header Connection \"\"; \
         proxy_cache bench; proxy_cache_valid 200 1h; }\n"
            .clone_into(&mut conf.site);
        conf
    }

    /// More directives for the location that passes requests on.
    #[must_use]
    pub fn with_location(mut self, directives: &str) -> Conf {
        self.site = self.site.replacen("proxy_pass", &format!("{directives} proxy_pass"), 1);
        self
    }

    /// Varnish's command line: it caches whatever the back end does not forbid, in memory.
    pub fn varnish(&self, place: Place<'_>) -> Vec<String> {
        let dir = place.dir.display();
        let back_end = self.back_end.unwrap_or_default();
        let text = format!(
            "-F -a 127.0.0.1:{} -b 127.0.0.1:{back_end} -s malloc,256m -t 3600 -n {dir} -p timeout_idle=300",
            place.port
        );
        text.split(' ').map(str::to_owned).collect()
    }

    /// In HAProxy's language: it has nothing else to do than to pass requests on.
    pub fn haproxy(&self, place: Place<'_>) -> String {
        let (port, back_end) = (place.port, self.back_end.unwrap_or_default());
        if self.is_stream {
            return format!(
                "global\n  maxconn 4000\n  nbthread {}\n\
                 defaults\n  mode tcp\n  timeout connect 10s\n  timeout client 300s\n  timeout server 300s\n\
                 frontend front\n  bind 127.0.0.1:{port}\n  default_backend back\n\
                 backend back\n  server one 127.0.0.1:{back_end}\n",
                self.workers
            );
        }
        format!(
            "global\n  maxconn 4000\n  nbthread {}\n\
             defaults\n  mode http\n  timeout connect 10s\n  timeout client 300s\n  timeout server 300s\n  \
             timeout http-keep-alive 300s\n  option http-keep-alive\n  http-reuse always\n\
             frontend front\n  bind 127.0.0.1:{port}\n  default_backend back\n\
             backend back\n  server one 127.0.0.1:{back_end} pool-max-conn 256\n",
            self.workers
        )
    }

    /// In Apache's language: processes that embed PHP, which the site's directives load.
    pub fn apache(&self, place: Place<'_>) -> String {
        let (port, dir) = (place.port, place.dir.display());
        let mut text = format!(
            "ServerRoot {dir}\nServerName localhost\nListen 127.0.0.1:{port}\nPidFile {dir}/apache.pid\nErrorLog {dir}/error.log\n\
             KeepAlive On\nKeepAliveTimeout 300\nMaxKeepAliveRequests 0\n"
        );
        let modules = ["mpm_prefork", "authz_core", "dir", "headers"];
        let load = |module: &str| format!("LoadModule {module}_module {APACHE_MODULES}/mod_{module}.so\n");
        text.extend(modules.map(load));
        text.extend([
            "<FilesMatch \\.php$>\nSetHandler application/x-httpd-php\n</FilesMatch>\n",
            &self.apache,
        ]);
        if rustix::process::geteuid().is_root() {
            text.push_str("User nobody\nGroup nogroup\n");
        }
        text
    }

    /// In h2o's language.
    pub fn h2o(&self, place: Place<'_>) -> String {
        let Place { port, dir, docroot } = place;
        let mut text = format!(
            "num-threads: {}\n\
             max-connections: 20000\n\
             http1-request-timeout: 300\n\
             error-log: {}/error.log\n\
             hosts:\n  default:\n    \
             listen:\n      host: 127.0.0.1\n      port: {port}\n    \
             paths:\n      \"/\":\n        file.dir: {}\n",
            self.workers,
            dir.display(),
            docroot.display(),
        );
        if rustix::process::geteuid().is_root() {
            // It would become another user, and that ends the tie to the harness's life.
            text.push_str("user: root\n");
        }
        if self.access_log {
            text.extend(["access-log: ", &dir.display().to_string(), "/access.log\n"]);
        }
        text
    }
}

impl Splitting {
    /// Who asks after roles, statements and accounts.
    fn http(&self) -> String {
        let api = self.api;
        format!("http {{ access_log off; server {{ listen 127.0.0.1:{api}; location /api {{ api; }} }} }}\n")
    }

    fn stream(&self, port: u16) -> String {
        let Splitting { servers, probe: (user, password), pool, .. } = self;
        let servers = servers.iter().fold(String::new(), |mut text, port| {
            // Writing to a String cannot fail.
            let _ = write!(text, " server 127.0.0.1:{port};");
            text
        });
        let check = format!("mysql_check user={user} password_file={};", password.display());
        format!(
            "upstream db {{ zone db 64k;{servers} {check} }}\n\
             server {{\nlisten 127.0.0.1:{port};\nproxy_pass db;\nmysql_split on;\nmysql_pool {pool};\n}}\n"
        )
    }
}

/// `count` regex locations that a request for a plain file falls through.
pub fn regex_locations(count: usize) -> String {
    (0..count).fold(String::new(), |mut text, index| {
        let pattern = match index % 4 {
            0 => format!(r"~ \.ext{index}$"),
            1 => format!(r"~ ^/app{index}/(.+)\.php$"),
            2 => format!(r"~* /img{index}/.*\.(?:png|jpe?g)$"),
            _ => format!(r"~ ^/api/v[0-9]+/item{index}/([a-z0-9-]+)/?$"),
        };
        let _ = writeln!(text, "location {pattern} {{ return 403; }}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_ups_differ_where_they_should() {
        let place = Place { port: 81, dir: Path::new("/d"), docroot: Path::new("/r") };
        let usual = Conf::default().nginx(place);
        assert!(usual.contains("sendfile on; tcp_nopush on;") && usual.contains("access_log off;"));
        assert!(!usual.contains("open_file_cache") && usual.contains("listen 127.0.0.1:81;"));
        let other = Conf { sendfile: false, file_cache: true, access_log: true, ..Conf::default() };
        let text = other.nginx(place);
        assert!(text.contains("sendfile off;") && text.contains("access_log /d/access.log;"));
        assert!(text.contains("open_file_cache max=1000;"));
        assert!(other.h2o(place).contains("access-log: /d/access.log"));
        let many = Conf { vhosts: Some(Vhosts { count: 3, own_roots: true }), ..Conf::default() };
        assert_eq!(many.nginx(place).matches("server_name ").count(), 4);
        assert!(many.nginx(place).contains("root /r/host2.example.com;"));
        let cached = Conf::default().cached(90);
        assert!(cached.nginx(place).contains("proxy_cache bench;"));
        assert!(cached.varnish(place).join(" ").starts_with("-F -a 127.0.0.1:81 -b 127.0.0.1:90 "));
        let stream = Conf { modules: vec!["m.so"], ..Conf::default() }.streamed(90);
        let text = stream.nginx(place);
        assert!(text.starts_with("load_module m.so;\n") && text.contains("proxy_pass 127.0.0.1:90;"));
        assert!(!text.contains("http") && stream.haproxy(place).contains("mode tcp"));
        let splitting = Splitting { servers: vec![90, 91], probe: ("p", "/pw".into()), api: 92, pool: 4 };
        let text = Conf::default().split(splitting).nginx(place);
        assert!(text.contains("zone db 64k; server 127.0.0.1:90; server 127.0.0.1:91; mysql_check user=p"));
        assert!(text.contains("mysql_pool 4;") && text.contains("listen 127.0.0.1:92;"), "{text}");
        let php = Conf { apache: "DocumentRoot /srv\n".to_owned(), ..Conf::default() }.apache(place);
        assert!(php.contains("Listen 127.0.0.1:81\n") && php.contains("DocumentRoot /srv\n"));
        assert_eq!(regex_locations(200).matches("location").count(), 200);
    }
}
