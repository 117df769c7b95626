//! `brisk serve [DIR]`: a folder on the web without a configuration.

use crate::cli::Options;
use crate::config::Paths;
use crate::launch;
use crate::local_certificate::{self, Local};
use brisk_cli::terminal::has_color;
use brisk_cli::{Call, Entry};
use brisk_load::output;
use clap::{CommandFactory as _, Parser, ValueHint};

/// `brisk serve`.
pub const SERVE: Entry = Entry { name: "serve", define: Args::command, run: main, inner: &[], usage_code: 1 };

/// Serves a folder at once: index.html, or a listing of the files.
#[derive(Debug, Parser)]
#[command(after_help = "A line per request is written to the terminal. Ends with Ctrl-C.")]
struct Args {
    /// The folder
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    folder: String,
    /// Address, port or unix:PATH [default: 127.0.0.1:8080, with --tls 127.0.0.1:8443]
    #[arg(short, long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// HTTPS, with a certificate of its own that is made at the first time and kept
    #[arg(long)]
    tls: bool,
}

fn main(call: &Call<'_>) -> i32 {
    match call.parse::<Args>() {
        Ok(args) => run(args).unwrap_or_else(|message| call.refuse(message)),
        Err(code) => code,
    }
}

/// Serves; the error says why it cannot.
fn run(Args { folder, listen, tls }: Args) -> Result<i32, String> {
    let complain = |message: &str| Err(message.to_owned());
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
    paths.inline = Some(configuration(path, &listen, has_color(&std::io::stderr()), local.as_ref()));
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
    Ok(launch::run(&paths))
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
