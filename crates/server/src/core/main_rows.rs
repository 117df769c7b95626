//! Directives of `main` and `events`.

use super::main_conf::{CpuAffinity, DebugClient, MainConf, Processes};
use crate::conf::{Cx, invalid_value};
use crate::memory::limit::MemoryLimit;
use crate::module::{Row, Set};
use crate::{ignored, row, simple};
use brisk_conf::cidr::Cidr;
use brisk_conf::{Arity, Context, Default as D, Diag, Directive, value};

const MAIN: Context = Context::MAIN;
const EVENTS: Context = Context::EVENTS;

pub static ROWS: &[Row] = &[
    row!(
        "include",
        Context(u32::MAX),
        Arity::ONE,
        D::Nothing,
        Definition,
        true,
        "Inserts a file, or all files that match a pattern, in its place. A relative path starts at the folder of the main file.",
        Set::Simple(|_, _| Ok(()))
    ),
    simple!(MainConf, flag, "daemon", daemon, MAIN, "on", "Whether to go into the background."),
    simple!(
        MainConf,
        flag,
        "master_process",
        master_process,
        MAIN,
        "on",
        "Whether a master supervises the worker; off runs everything in one process, for debugging."
    ),
    row!(
        "pid",
        MAIN,
        Arity::ONE,
        D::Told("logs/brisk.pid"),
        Replace,
        false,
        "The file that holds the master's process id.",
        Set::Simple(|cx, d| {
            let path = cx.full_path(d.arg(0).str());
            cx.conf::<MainConf>().pid = path;
            Ok(())
        })
    ),
    row!(
        "user",
        MAIN,
        Arity::between(1, 2),
        D::Told("nobody nobody"),
        Replace,
        false,
        "User and group of the worker. The group defaults to one of the user's name. Without root's rights it is ignored with a warning.",
        Set::Simple(user)
    ),
    row!(
        "worker_processes",
        MAIN,
        Arity::ONE,
        D::Value("1"),
        Replace,
        false,
        "Number of event-loop threads in the worker process; auto is the smaller of the CPU affinity and the cgroup's quota.",
        Set::Simple(worker_processes)
    ),
    row!(
        "worker_cpu_affinity",
        MAIN,
        Arity::SOME,
        D::Nothing,
        Replace,
        false,
        "Binds thread after thread to sets of cores given as bit masks, or each to one core (auto [mask]).",
        Set::Simple(worker_cpu_affinity)
    ),
    row!(
        "worker_priority",
        MAIN,
        Arity::ONE,
        D::Value("0"),
        Replace,
        false,
        "Scheduling priority of the worker as nice(1) counts it, -20 to 20.",
        Set::Simple(|cx, d| {
            let parsed = d.arg(0).str().parse::<i32>().ok().filter(|n| (-20..=20).contains(n));
            let value = parsed.ok_or_else(|| {
                Diag::reason(d.arg(0).span, "invalid number").help("it must be from -20 to 20")
            })?;
            cx.conf::<MainConf>().priority = value;
            Ok(())
        })
    ),
    row!(
        "worker_rlimit_nofile",
        MAIN,
        Arity::ONE,
        D::Nothing,
        Replace,
        false,
        "Open files per event-loop thread; the worker's limit is this times the number of threads, so that a file written for many processes keeps its capacity.",
        Set::Simple(|cx, d| {
            cx.conf::<MainConf>().rlimit_nofile = Some(value::number(d.arg(0))?);
            Ok(())
        })
    ),
    row!(
        "worker_rlimit_core",
        MAIN,
        Arity::ONE,
        D::Nothing,
        Replace,
        false,
        "Largest core file of the worker, in bytes.",
        Set::Simple(|cx, d| {
            cx.conf::<MainConf>().rlimit_core = Some(value::offset(d.arg(0))?);
            Ok(())
        })
    ),
    simple!(
        MainConf,
        msec,
        "worker_shutdown_timeout",
        shutdown_timeout,
        MAIN,
        "0",
        "How long requests may take to finish after a graceful stop, and on an old configuration after a reload; 0 is without limit."
    ),
    row!(
        "working_directory",
        MAIN,
        Arity::ONE,
        D::Nothing,
        Replace,
        false,
        "The worker's current folder; core files go there.",
        Set::Simple(|cx, d| {
            cx.conf::<MainConf>().working_directory = Some(d.arg(0).str().to_string());
            Ok(())
        })
    ),
    row!(
        "env",
        MAIN,
        Arity::ONE,
        D::Told("TZ"),
        Replace,
        true,
        "Keeps an environment variable for the worker, or sets it (NAME=value). All others are removed; TZ is always kept.",
        Set::Simple(|cx, d| {
            let text = d.arg(0).str();
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value.to_string())),
                None => (text, None),
            };
            cx.conf::<MainConf>().env.push((name.to_string(), value));
            Ok(())
        })
    ),
    row!(
        "memory_limit",
        MAIN,
        Arity::ONE,
        D::Value("auto"),
        Replace,
        false,
        "Memory that the worker process may hold: a size, auto, or off. From 90 % of it on nothing is accepted, and the connections that hold most for what moves on them are closed (idle ones count four times), until 85 % are in use; together they may always hold a tenth. What counts is anonymous resident memory. auto is 80 % of the machine's memory or of the control group's limit, and no more than half of what the process's own limits allow (ulimit -v, ulimit -d), which a size cannot exceed either.",
        Set::Simple(memory_limit)
    ),
    row!(
        "pcre_jit",
        MAIN,
        Arity::ONE,
        D::Value("off"),
        Replace,
        false,
        "Whether regular expressions that need PCRE become machine code: faster, but in rare cases PCRE's compiler and its interpreter disagree. Most expressions run on a linear-time engine and need no PCRE.",
        Set::Simple(|cx, d| {
            cx.conf::<MainConf>().pcre_jit = value::flag("pcre_jit", d.arg(0))?;
            Ok(())
        })
    ),
    row!(
        "thread_pool",
        MAIN,
        Arity::between(2, 3),
        D::Told("default threads=32 max_queue=65536"),
        Definition,
        true,
        "Sizes the pool of threads for what may block (cold files, temporary files). Brisk has one; where several are named, it is as large as all of them together.",
        Set::Simple(thread_pool)
    ),
    row!(
        "events",
        MAIN,
        Arity::NONE.block(),
        D::Nothing,
        Definition,
        false,
        "Holds the directives about connections.",
        Set::Block(events)
    ),
    row!(
        "worker_connections",
        EVENTS,
        Arity::ONE,
        D::Value("512"),
        Replace,
        false,
        "Connections per event-loop thread, connections to back ends included.",
        Set::Simple(|cx, d| {
            let count = value::number(d.arg(0))?;
            if count == 0 {
                return Err(invalid_value(d, d.arg(0), "at least 1"));
            }
            cx.conf::<MainConf>().connections = count;
            Ok(())
        })
    ),
    simple!(
        MainConf,
        flag,
        "multi_accept",
        multi_accept,
        EVENTS,
        "off",
        "Takes all waiting connections at a wake-up instead of a few."
    ),
    row!(
        "debug_connection",
        EVENTS,
        Arity::ONE,
        D::Nothing,
        Definition,
        true,
        "An address, a network, a host name or unix: of clients about which everything is logged, at every level, in every error log that they reach.",
        Set::Simple(debug_connection)
    ),
    ignored!("use", EVENTS, Arity::ONE, "The connection processing method.", "Brisk always uses epoll"),
    ignored!(
        "accept_mutex",
        EVENTS,
        Arity::ONE,
        "Whether workers take turns in accepting.",
        "threads share connections evenly by themselves"
    ),
    ignored!(
        "accept_mutex_delay",
        EVENTS,
        Arity::ONE,
        "How long to wait for the accept mutex.",
        "there is no accept mutex"
    ),
    ignored!(
        "worker_aio_requests",
        EVENTS,
        Arity::ONE,
        "Outstanding AIO requests of a worker.",
        "files are read by a pool of threads"
    ),
    ignored!("epoll_events", EVENTS, Arity::ONE, "Events per wake-up.", "the number is fixed"),
    ignored!("lock_file", MAIN, Arity::ONE, "The lock file of the accept mutex.", "there is no accept mutex"),
    ignored!(
        "timer_resolution",
        MAIN,
        Arity::ONE,
        "How often the time is read.",
        "it is read once per wake-up, which costs next to nothing"
    ),
    ignored!(
        "debug_points",
        MAIN,
        Arity::ONE,
        "What to do on an internal inconsistency.",
        "those end the connection concerned and are logged as [alert]"
    ),
    ignored!(
        "ssl_object_cache_inheritable",
        MAIN,
        Arity::ONE,
        "Keeps certificates over a reload.",
        "certificates are read again when their files change, at once"
    ),
    ignored!("ssl_engine", MAIN, Arity::ONE, "An OpenSSL engine.", "TLS is done without OpenSSL"),
    row!(
        "load_module",
        MAIN,
        Arity::ONE,
        D::Nothing,
        Definition,
        true,
        "Has no effect: binary modules of nginx cannot be loaded. A notice where the module is built in, else a warning; its directives are refused where they stand.",
        Set::Simple(load_module)
    ),
];

fn events(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    cx.conf::<MainConf>().has_events = true;
    let outer = std::mem::replace(&mut cx.block, EVENTS);
    cx.block_here(d);
    cx.block = outer;
    Ok(())
}

fn debug_connection(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let token = d.arg(0);
    let text = token.str();
    let found = match Cidr::parse(text) {
        _ if text == "unix:" => vec![DebugClient::Unix],
        Some(parsed) => {
            if parsed.is_rough {
                cx.warn(Diag::warn(token.span, format!("low address bits of {text} are meaningless")));
            }
            vec![DebugClient::Net(parsed.cidr)]
        }
        None => {
            let found = cx.global.loader.addresses(text).map_err(|_| {
                Diag::emerg(token.span, format!("host not found in debug_connection \"{text}\""))
                    .help("write an address, a network such as 10.0.0.0/8, a host name or unix:")
            })?;
            let nets = found.into_iter().filter_map(|ip| Cidr::parse(&ip.to_string()));
            nets.map(|parsed| DebugClient::Net(parsed.cidr)).collect()
        }
    };
    cx.conf::<MainConf>().debug_clients.extend(found);
    Ok(())
}

fn user(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let name = d.arg(0).str().to_string();
    let group = d.args.get(1).map(|g| g.str().to_string());
    let conf = cx.conf::<MainConf>();
    conf.user = Some((name, group));
    conf.user_span = Some(d.span);
    Ok(())
}

fn worker_processes(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let value = if d.arg(0).str() == "auto" {
        Processes::Auto
    } else {
        let count = value::number(d.arg(0));
        match count
            .map_err(|_| Diag::reason(d.arg(0).span, "invalid value").help("write a number, or auto"))?
        {
            0 => return Err(invalid_value(d, d.arg(0), "at least 1")),
            // More threads than this are a slip of the keyboard.
            count => Processes::Count(count.min(512) as usize),
        }
    };
    cx.conf::<MainConf>().processes = value;
    Ok(())
}

fn memory_limit(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let limit = match d.arg(0).str() {
        "auto" => MemoryLimit::Auto,
        "off" => MemoryLimit::Off,
        _ => match value::offset(d.arg(0)) {
            Ok(bytes) if bytes > 0 => MemoryLimit::Bytes(bytes),
            _ => return Err(invalid_value(d, d.arg(0), "a size such as 512m, auto or off")),
        },
    };
    cx.conf::<MainConf>().memory_limit = limit;
    Ok(())
}

fn worker_cpu_affinity(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let mask = |token: &brisk_conf::Token| {
        let bits = token.bytes();
        if let Some(other) = token.text().chars().find(|c| !matches!(c, '0' | '1')) {
            return Err(Diag::emerg(
                token.span,
                format!("invalid character \"{other}\" in \"worker_cpu_affinity\""),
            )
            .help("a mask has one 0 or 1 per core, the last for core 0"));
        }
        let cores = bits.iter().rev().enumerate().filter(|(_, b)| **b == b'1').map(|(i, _)| i).collect();
        Ok::<Vec<usize>, Diag>(cores)
    };
    let affinity = if d.arg(0).str() == "auto" {
        CpuAffinity::Auto(d.args.get(1).map(mask).transpose()?)
    } else {
        CpuAffinity::Masks(d.args.iter().map(mask).collect::<Result<_, _>>()?)
    };
    cx.conf::<MainConf>().affinity = affinity;
    Ok(())
}

fn thread_pool(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let (mut threads, mut queue) = (None, 65_536);
    for token in &d.args[1..] {
        let number = |text: &str| text.parse::<usize>().ok().filter(|&n| n > 0);
        if let Some(text) = token.str().strip_prefix("threads=") {
            threads = number(text);
        } else if let Some(text) = token.str().strip_prefix("max_queue=") {
            queue = text.parse().map_err(|_| crate::conf::invalid_parameter(token))?;
        } else {
            return Err(crate::conf::invalid_parameter(token));
        }
    }
    let threads = threads.ok_or_else(|| {
        Diag::emerg(d.span, "missing \"threads\" parameter").help("thread_pool NAME threads=N")
    })?;
    let name = d.arg(0).str().to_string();
    cx.conf::<MainConf>().thread_pools.push((name, threads, queue));
    Ok(())
}

/// Modules that others make for nginx and that are built in here, by the names of their files.
const BUILT_IN: [&str; 4] = ["brotli_filter", "brotli_static", "zstd_filter", "zstd_static"];

fn load_module(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let path = d.arg(0).text().into_owned();
    let file = path.rsplit('/').next().unwrap_or_default();
    let module = file.trim_end_matches(".so");
    let name = module.trim_start_matches("ngx_http_").trim_end_matches("_module");
    let has_directive_of = |module: &str| {
        brisk_conf::nginx::directives().any(|known| known.module == module && cx.knows(known.name))
    };
    let diag = if BUILT_IN.contains(&name)
        || cx.global.modules.iter().any(|m| m.name == name)
        || has_directive_of(module)
    {
        let text = format!("the \"load_module\" directive has no effect here: \"{name}\" is built in");
        Diag::notice(d.span, text)
    } else {
        Diag::warn(d.arg(0).span, format!("module \"{path}\" cannot be loaded")).help(
            "modules compiled for nginx do not run in Brisk: remove the line; the module's directives are refused",
        )
    };
    cx.warn(diag);
    Ok(())
}
