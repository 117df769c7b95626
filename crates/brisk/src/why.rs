//! `brisk why URL`: which server, location, file and line decided what about a request.
//!
//! The answer is found by a request: this process loads the configuration, becomes what a worker would be, and serves one request
//! that comes over a pair of sockets. It binds nothing, writes no log and starts nothing beside. What would do more than answer
//! (asking a back end, a subrequest) is left out unless `--run` wants it. So the running server is not asked, and nobody who may
//! not read the configuration and its files can ask.

mod ask;
mod places;
mod show;
mod story;

use crate::config::{self, Paths};
use crate::host;
use crate::httpd;
use crate::site::Site;
use ask::Question;
use brisk_cli::{Call, Entry, terminal};
use brisk_load::output;
use brisk_load::url::{Place, Url};
use brisk_net::listen::Address;
use brisk_server::conf::{ListenId, LogTarget, Snapshot};
use brisk_server::log::LogFile;
use brisk_server::trace;
use brisk_server::worker::Worker;
use clap::{CommandFactory as _, Parser, ValueHint};
use places::Places;
use rustix::fd::OwnedFd;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use story::Story;

/// `brisk why`.
pub const WHY: Entry = Entry { name: "why", define: Args::command, run: main, inner: &[], usage_code: 1 };

/// Modules whose handlers do nothing but answer, as far as others can tell: what they count and keep is this process's own.
/// Handlers of all others are left out without `--run`.
const HARMLESS: &[&str] = &[
    "access",
    "addition",
    "auth_basic",
    "auth_jwt",
    "autoindex",
    "brotli",
    "browser",
    "charset",
    "core",
    "dictionary",
    "directory_overrides",
    "directory_overrides_again",
    "empty_gif",
    "flv",
    "geo",
    "gunzip",
    "gzip",
    "gzip_static",
    "headers",
    "hide_files",
    "http_core",
    "image_filter",
    "index",
    "limit_conn",
    "limit_req",
    "mp4",
    "otel",
    "overload",
    "random_index",
    "realip",
    "referer",
    "rewrite",
    "secure_link",
    "ssi",
    "static",
    "stub_status",
    "sub",
    "try_files",
    "userid",
    "zstd",
];

/// Says why a URL gets the answer that it gets: which server, location, file and line decided
#[derive(Debug, Parser)]
#[command(
    after_help = "The request is answered by a private process with the same configuration, so the running server is not asked, its logs \
    and counters do not change, and limits and caches begin empty. As root it becomes the user that workers have. Without --run no back \
    end, script or subrequest is asked: the trace says where it ends. Values of fields that are secrets (Authorization, Cookie) are not \
    printed."
)]
struct Args {
    /// The URL that gets the answer
    #[arg(value_name = "URL", value_parser = given)]
    url: Url,
    #[command(flatten)]
    site: Site,
    /// A configuration of Apache's, in place of Brisk's own
    #[arg(short = 'f', long = "httpd", value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<String>,
    /// Further header line of the request
    #[arg(short = 'H', long = "header", value_name = "LINE", value_parser = field)]
    headers: Vec<(String, String)>,
    /// Method [default: GET]
    #[arg(short = 'X', long, value_name = "NAME", value_parser = method, default_value = "GET", hide_default_value = true)]
    method: String,
    /// The client's address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    from: IpAddr,
    /// Carry the request out as a whole: ask back ends, scripts and subrequests
    #[arg(long)]
    run: bool,
    /// Show every step, and what a log at level debug would have
    #[arg(long)]
    steps: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn given(text: &str) -> Result<Url, String> {
    let url = Url::given(text).map_err(|error| error.to_string())?;
    match url.origin.place {
        Place::Name(..) => Ok(url),
        Place::Unix(_) => Err("a URL with a host is expected".into()),
    }
}

fn field(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once(':').filter(|(name, _)| !name.is_empty());
    let parts = parts.filter(|_| !text.contains(['\r', '\n', '\0']));
    let (name, value) = parts.ok_or("a field is \"NAME: VALUE\"")?;
    Ok((name.trim().into(), value.trim().into()))
}

fn method(text: &str) -> Result<String, String> {
    let is_token = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_token { Ok(text.into()) } else { Err("a method is a word such as GET".into()) }
}

fn main(call: &Call<'_>) -> i32 {
    match call.parse::<Args>() {
        Ok(args) => call.carry_out(run(&args).map(|text| {
            output::print(text);
            0
        })),
        Err(code) => code,
    }
}

fn run(args: &Args) -> Result<String, String> {
    let paths = match &args.file {
        Some(file) => httpd::of_file(file).ok_or_else(|| format!("there is no file \"{file}\""))?,
        None => args.site.paths(),
    };
    // Before the environment becomes a worker's.
    let color = terminal::has_color(&std::io::stdout());
    trace::begin(if args.run { |_| true } else { |module| HARMLESS.contains(&module) });
    let (outcome, tree) = config::load_with_tree(&paths);
    let Some(loaded) = outcome.loaded else {
        let errors = outcome.diags.iter().filter(|diag| diag.is_error());
        let errors: Vec<String> = errors.map(|diag| diag.render(&outcome.sources)).collect();
        return Err(format!("{} is refused, so no server has it:\n{}", paths.conf, errors.join("\n")));
    };
    let mut snap = loaded.snap;
    let door = Door::of(&snap, &args.url, args.from)?;
    snap.trace();
    let user = become_user(&paths, &snap)?;
    let logs = silent(&snap.logs)?;
    let snap = Arc::new(snap);
    let worker = Worker::start(snap.clone(), logs, &[], 1, 1, brisk_server::news::News::default(), |_| {})
        .map_err(|error| format!("starting a thread failed ({error})"))?;
    let question = Question { url: &args.url, method: &args.method, headers: &args.headers, from: args.from };
    let answer = ask::ask(&worker, &door, &question)?;
    let places = Places { tree: &tree, sources: &outcome.sources };
    let story = Story::of(&question, &snap, &places, trace::take(), answer, user);
    Ok(if args.json { format!("{:#}\n", story.as_json()) } else { show::text(&story, args.steps, color) })
}

/// Where the request comes in.
struct Door {
    listen: ListenId,
    /// The address that it has connected to.
    local: SocketAddr,
    tls: bool,
    /// A PROXY header is expected first.
    proxy: bool,
}

impl Door {
    /// The listening socket that a connection to a URL's host and port would come to. A name could have any address: then a socket
    /// for all goes before one for a single address.
    fn of(snap: &Snapshot, url: &Url, from: IpAddr) -> Result<Door, String> {
        let Place::Name(host, port) = &url.origin.place else {
            return Err("a URL with a host is expected".into());
        };
        let asked: Option<IpAddr> = host.parse().ok();
        let rank = |address: SocketAddr| match asked {
            Some(asked) if address.ip() == asked => Some(0),
            Some(asked) if address.ip().is_unspecified() => {
                Some(1 + u8::from(address.is_ipv4() != asked.is_ipv4()))
            }
            Some(_) => None,
            None => Some(
                3 * u8::from(!address.ip().is_unspecified()) + u8::from(address.is_ipv4() != from.is_ipv4()),
            ),
        };
        let sockets = snap.listens.iter().enumerate().filter_map(|(at, listen)| match listen.address {
            Address::Ip(address) if address.port() == *port => Some((rank(address)?, at, address)),
            _ => None,
        });
        let Some((_, at, address)) = sockets.min() else {
            return Err(format!("nothing listens there: {}", listening(snap)));
        };
        let usual = if from.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
        let ip = if address.ip().is_unspecified() { asked.unwrap_or(usual) } else { address.ip() };
        let local = SocketAddr::new(ip, *port);
        let listen = &snap.listens[at];
        let prefix = listen.local(|| Some(local)).map_or(listen.prefix, |local| local.prefix);
        if url.origin.secure && !prefix.tls {
            return Err(format!(
                "{address} speaks plain HTTP, so the handshake of an https URL fails there: add ssl to its listen directives"
            ));
        }
        let number = u32::try_from(at).map_err(|error| error.to_string())?;
        Ok(Door { listen: ListenId(number), local, tls: url.origin.secure, proxy: prefix.proxy_protocol })
    }
}

fn listening(snap: &Snapshot) -> String {
    let all: Vec<String> = snap.listens.iter().map(|listen| listen.address.to_string()).collect();
    if all.is_empty() {
        "the configuration has no server".into()
    } else {
        format!("the servers have {}", all.join(", "))
    }
}

/// Becomes what a worker is, so that files are seen with a worker's rights. Gives the user by whom they are looked at, and what is
/// to be said of it.
fn become_user(paths: &Paths, snap: &Snapshot) -> Result<String, String> {
    let identity = host::identity(&snap.main).map_err(|diag| diag.message)?;
    host::become_worker(snap, identity.as_ref())?;
    Ok(match (&identity, &snap.main.user) {
        (Some(identity), _) => format!("as the user \"{}\", as workers", identity.name()),
        (None, Some((name, _))) if paths.inline.is_none() => {
            format!("as the present user; workers have the user \"{name}\" if the server is started as root")
        }
        _ => "as the present user".into(),
    })
}

/// Logs into which nothing is written.
fn silent(targets: &[LogTarget]) -> Result<Vec<Arc<LogFile>>, String> {
    let open = |target: &LogTarget| {
        let null = std::fs::File::options().write(true).open("/dev/null");
        let null = null.map_err(|error| format!("/dev/null: {}", brisk_conf::os_text(&error)))?;
        Ok(Arc::new(LogFile::new(target.clone(), OwnedFd::from(null))))
    };
    targets.iter().map(open).collect()
}
