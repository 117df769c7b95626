//! `brisk serve [DIR]`: a folder on the web without a configuration.

mod listen;
mod php;

use crate::config::{Inline, Paths};
use crate::launch;
use crate::local_certificate::{self, Local};
use crate::options::Options;
use brisk_cli::terminal::has_color;
use brisk_cli::{Call, Entry};
use brisk_load::output;
use brisk_net::listen::Address;
use clap::{CommandFactory as _, Parser, ValueHint};
use listen::Problem;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// `brisk serve`.
pub const SERVE: Entry =
    Entry { name: "serve", define: Wishes::command, run: main, inner: &[], usage_code: 1 };

/// Serves a folder without a configuration: index.html, or a list of its files.
#[derive(Debug, Parser)]
#[command(after_help = "A line per request is written to the terminal. Ends with Ctrl-C.\n\n\
        Hidden files (.git, .env ...), backups, databases and keys are never given out, nor are sources \
        of programs: docs/running.md has the list. PHP is run where it is installed, but not in folders that hold uploads.")]
struct Wishes {
    /// The folder
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    folder: String,
    /// Port, address, address:port or unix:PATH; a port alone is for this machine only [default: 127.0.0.1:8080, with --tls 127.0.0.1:8443]
    #[arg(short, long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Listen on all addresses, for other machines too
    #[arg(long)]
    public: bool,
    /// HTTPS, with a certificate of its own that is made at the first time and kept
    #[arg(long)]
    tls: bool,
}

fn main(call: &Call<'_>) -> i32 {
    let wishes = match call.parse::<Wishes>() {
        Ok(wishes) => wishes,
        Err(code) => return code,
    };
    match prepare(&wishes) {
        Ok(paths) => {
            let code = launch::run(&paths);
            php::remove_own_folder(&paths);
            code
        }
        Err(problem) => {
            output::note(format_args!("brisk serve: {problem}"));
            1
        }
    }
}

/// Everything that can go wrong by what was given is looked at here, so that messages are about the command line and not
/// about the configuration that is made of it.
fn prepare(wishes: &Wishes) -> Result<Paths, Problem> {
    let path = folder(&wishes.folder)?;
    let (scheme, port) = if wishes.tls { ("https", 8443) } else { ("http", 8080) };
    let addresses = listen::addresses(&wishes.listen, wishes.public, port)?;
    addresses.iter().try_for_each(listen::check)?;
    let local = if wishes.tls {
        let why = "a certificate cannot be made: the system gives no random bytes";
        Some(local_certificate::local().ok_or_else(|| Problem::new(why, "serve without --tls"))?)
    } else {
        None
    };
    let mut paths = Paths::new(&Options { prefix: Some(path.clone()), ..Options::default() });
    paths.conf = "brisk serve".into();
    let site = php::look(&path);
    if matches!(site, php::Site::Run { .. }) {
        let own = php::own_folder()?;
        let places = &mut paths.env.places;
        (places.run, places.state) = (own.clone(), own.clone());
        (places.cache, places.logs) = (own.clone(), own);
    }
    paths.inline = Some(Inline {
        text: configuration(&path, &addresses, has_color(&std::io::stderr()), local.as_ref(), &site),
        welcome: welcome(&path, &addresses, scheme, local.as_ref(), &site),
    });
    Ok(paths)
}

/// The folder's full path.
fn folder(given: &str) -> Result<String, Problem> {
    let refused = |error: &std::io::Error| {
        let help = match error.kind() {
            std::io::ErrorKind::NotFound => "give the folder that is to be served: brisk serve DIR",
            _ => "the folder must be readable for the user that serves it",
        };
        Problem::new(format!("\"{given}\": {}", brisk_conf::os_text(error)), help)
    };
    let path = std::fs::canonicalize(given).map_err(|error| refused(&error))?;
    if !path.is_dir() {
        let parent = path.parent().unwrap_or(&path).display();
        let help = format!("serve the folder that it is in: brisk serve {parent}");
        return Err(Problem::new(format!("\"{given}\" is not a folder"), help));
    }
    std::fs::read_dir(&path).map_err(|error| refused(&error))?;
    match path.to_str() {
        Some(path) => Ok(path.to_string()),
        None => Err(Problem::new(
            "the folder's name is not valid UTF-8",
            "rename it, or go there and serve \".\"",
        )),
    }
}

/// What is said once the server serves.
fn welcome(
    folder: &str,
    addresses: &[Address],
    scheme: &str,
    tls: Option<&Local>,
    site: &php::Site,
) -> String {
    let mut lines = vec![format!("serving {folder} (Ctrl-C ends)")];
    lines.extend(listen::urls(addresses, scheme).into_iter().map(|url| format!("  {url}")));
    if listen::is_local(addresses) {
        lines.push("reachable from this machine only; --public is for others".into());
    }
    if let Some(place) = tls.and_then(|local| local.place.as_ref()) {
        let place = place.display();
        lines.push(format!("the certificate is its own authority, browsers will ask: {place}"));
    }
    lines.extend(site.hint());
    if let Some(closed) = closed_to_worker(folder) {
        lines.push(format!(
            "requests are answered by the user \"nobody\", who may not enter {closed}: run it without root's rights"
        ));
    }
    brisk_conf::escape_controls(&(lines.join("\n") + "\n"))
}

/// Workers of a server that root starts have the rights of the account `nobody`. Gives the first folder on the way to `folder`
/// that this account may not enter.
fn closed_to_worker(folder: &str) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let is_closed =
        |path: &&Path| std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o001 == 0);
    let mut way: Vec<&Path> = Path::new(folder).ancestors().collect();
    way.reverse();
    way.into_iter().find(is_closed).map(|path| path.display().to_string())
}

fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "${brisk_dollar}"))
}

/// The access log: one format per colour. Escapes stand in formats only; in values they would be made harmless.
fn access_logs(color: bool) -> String {
    let format = |name: &str, before: &str, after: &str| {
        format!(
            "log_format {name} '$time_local  {before}$status{after}  $request_method $request_uri  \
             $body_bytes_sent B  $request_time s';\n"
        )
    };
    if !color {
        return format("terminal", "", "") + "access_log stderr terminal;\n";
    }
    let colors = [("ok", "2", 32), ("elsewhere", "3", 36), ("client", "4", 33), ("server", "5", 31)];
    let one = |(name, class, color): (&str, &str, u8)| {
        let lines = format(name, &format!("\x1b[{color}m"), "\x1b[0m");
        format!(
            "{lines}map $status $brisk_{name} {{ ~^{class} 1; }}\naccess_log stderr {name} if=$brisk_{name};\n"
        )
    };
    let rest =
        "map $status $brisk_other { ~^[2-5] 0; default 1; }\naccess_log stderr other if=$brisk_other;\n";
    colors.map(one).concat() + &format("other", "", "") + rest
}

/// The names of a server that only this machine reaches, and a server that refuses all others. A page from elsewhere can have its
/// own name resolved to 127.0.0.1 (DNS rebinding), and its scripts would read the folder: the browser takes it for their own site.
/// Addresses cannot be turned so, and a server for other machines cannot know its names.
fn names(addresses: &[Address], listens: &str, ssl: &str, certificate: &str) -> (&'static str, String) {
    if !listen::is_local(addresses) {
        return ("", String::new());
    }
    let names = "server_name localhost *.localhost $hostname \"\" ~^[0-9.]+$ ~^\\[; ";
    let default = format!("{ssl}; ");
    let listens = listens.replace(&default, &format!("{ssl} default_server; "));
    let listens = listens.replace(" quic; ", " quic default_server; ");
    let text = "brisk serve: this name is not this machine's; use localhost, or serve with --public\\n";
    let refusal =
        format!("server {{ {listens}{certificate} default_type text/plain; return 421 \"{text}\"; }}\n");
    (names, refusal)
}

/// HTTP/3 beside HTTP/2, on those addresses whose UDP ports can be had, and the field that tells browsers of it. They remember it for
/// a minute: the port may be another program's next time.
fn http3(addresses: &[Address]) -> (String, String) {
    let can_be_had = |address: &&Address| match address {
        Address::Ip(ip) => {
            brisk_net::listen::bind(&Address::Udp(*ip), &brisk_net::listen::Options::default()).is_ok()
        }
        _ => false,
    };
    let found: Vec<&Address> = addresses.iter().filter(can_be_had).collect();
    let listens = found.iter().map(|address| format!("listen {} quic; ", quote(&address.to_string())));
    let port = found.iter().find_map(|address| match address {
        Address::Ip(ip) => Some(ip.port()),
        _ => None,
    });
    let offer = port.map(|port| format!(" add_header Alt-Svc 'h3=\":{port}\"; ma=60' always;"));
    (listens.collect(), offer.unwrap_or_default())
}

fn configuration(
    folder: &str,
    addresses: &[Address],
    color: bool,
    tls: Option<&Local>,
    site: &php::Site,
) -> String {
    let root = site.root(folder);
    // A site of Apache's says by itself what is not to be given out.
    let has_htaccess = std::path::Path::new(&root).join(".htaccess").exists();
    let overrides = if has_htaccess { " directory_overrides on;" } else { "" };
    let root = quote(&root);
    let (pool, scripts) = site.configuration();
    let (ssl, certificate) = match tls {
        Some(local) => (
            " ssl",
            format!(
                "http2 on; ssl_certificate {}; ssl_certificate_key {};",
                quote(&format!("data:{}", local.certificate)),
                quote(&format!("data:{}", local.key))
            ),
        ),
        None => ("", String::new()),
    };
    let one = |address: &Address| format!("listen {}{ssl}; ", quote(&address.to_string()));
    let listens = addresses.iter().map(one).collect::<Vec<_>>().concat();
    let (quic, offer) = if tls.is_some() { http3(addresses) } else { Default::default() };
    let listens = listens + &quic;
    let types = include_str!("mime.types");
    let (names, strangers) = names(addresses, &listens, ssl, &certificate);
    let access_logs = access_logs(color);
    let errors = if color { " format=color" } else { "" };
    format!(
        "daemon off; worker_processes auto; error_log stderr warn{errors};\n\
         events {{ worker_connections 10240; }}\n\
         http {{\n\
         geo $brisk_dollar {{ default \"$\"; }}\n\
         {types}\n\
         default_type application/octet-stream; charset utf-8; sendfile on; tcp_nopush on; server_tokens off;\n\
         {access_logs}{pool}\
         hide_files on; autoindex on; autoindex_format page; autoindex_localtime on;\n\
         server {{ {listens}{names}{certificate}{offer} root {root};{overrides} {scripts} }}\n\
         {strangers}}}\n"
    )
}
