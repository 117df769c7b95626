//! `brisk serve [DIR]`: a folder on the web without a configuration.

use crate::cli::Options;
use crate::config::Paths;
use crate::launch;
use crate::local_certificate::{self, Local};
use brisk_load::output;
use std::io::IsTerminal as _;

const HELP: &str = "\
Usage: brisk serve [DIR] [--listen ADDR] [--tls]

Serves a folder (the current one by default): index.html, or a listing of the files.
A line per request is written to the terminal. Ends with Ctrl-C.

  --listen ADDR : address, port or unix:PATH (default: 127.0.0.1:8080, with --tls 127.0.0.1:8443)
  --tls         : HTTPS, with a certificate of its own that is made at the first time and kept
";

/// Runs it; gives the exit code.
pub fn main(args: &[String]) -> i32 {
    let mut folder = None;
    let mut listen: Option<String> = None;
    let mut tls = false;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-h" | "--help" => {
                output::print(HELP);
                return 0;
            }
            "--listen" | "-l" => match args.next() {
                Some(address) => listen = Some(address.clone()),
                None => return complain("option \"--listen\" requires an address"),
            },
            text if text.starts_with("--listen=") => listen = Some(text["--listen=".len()..].to_string()),
            "--tls" => tls = true,
            text if text.starts_with('-') => return complain(&format!("unknown option \"{text}\"")),
            text if folder.is_none() => folder = Some(text.to_string()),
            text => return complain(&format!("one folder at a time; what is \"{text}\"?")),
        }
    }
    let folder = folder.unwrap_or_else(|| ".".into());
    let path = match std::fs::canonicalize(&folder) {
        Ok(path) if path.is_dir() => path,
        Ok(_) => return complain(&format!("\"{folder}\" is not a folder")),
        Err(error) => return complain(&format!("\"{folder}\": {}", brisk_conf::os_text(&error))),
    };
    let Some(path) = path.to_str() else { return complain("the folder's name is not valid UTF-8") };
    let mut paths = Paths::new(&Options { prefix: Some(path.to_string()), ..Options::default() });
    paths.conf = "brisk serve".into();
    let usual = if tls { "127.0.0.1:8443" } else { "127.0.0.1:8080" };
    let listen = listen.unwrap_or_else(|| usual.to_string());
    let local = if tls { local_certificate::local() } else { None };
    if tls && local.is_none() {
        return complain("a certificate cannot be made: the system gives no random bytes");
    }
    paths.inline = Some(configuration(path, &listen, wants_color(), local.as_ref()));
    let shown =
        if listen.bytes().all(|b| b.is_ascii_digit()) { format!("127.0.0.1:{listen}") } else { listen };
    let scheme = if tls { "https" } else { "http" };
    output::note(format_args!("serving {path} on {scheme}://{shown} (Ctrl-C ends)"));
    if let Some(place) = local.and_then(|local| local.place) {
        output::note(format_args!(
            "the certificate is its own authority, browsers will ask: {}",
            place.display()
        ));
    }
    launch::run(&paths)
}

fn complain(message: &str) -> i32 {
    output::note(format_args!("brisk serve: {message}\n{HELP}"));
    1
}

fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "${brisk_dollar}"))
}

/// Colours are for terminals, and for those who have not said no (no-color.org).
fn wants_color() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    std::io::stderr().is_terminal() && !is_set("NO_COLOR") && !is_dumb
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

fn configuration(folder: &str, listen: &str, color: bool, tls: Option<&Local>) -> String {
    let root = quote(folder);
    let listen = quote(listen);
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
    let types = include_str!("mime.types");
    let access_logs = access_logs(color);
    let errors = if color { " format=color" } else { "" };
    format!(
        "daemon off; worker_processes auto; error_log stderr warn{errors};\n\
         events {{ worker_connections 10240; }}\n\
         http {{\n\
         geo $brisk_dollar {{ default \"$\"; }}\n\
         {types}\n\
         default_type application/octet-stream; charset utf-8; sendfile on; tcp_nopush on; server_tokens off;\n\
         {access_logs}\
         server {{ listen {listen}{ssl}; {certificate} root {root}; index index.html index.htm; autoindex on; autoindex_exact_size off; }}\n\
         }}\n"
    )
}
