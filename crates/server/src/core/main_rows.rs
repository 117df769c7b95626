//! Directives of `main` and `events`.
//!
//! `applies` says what a change needs: a reload, a new worker, or a start. The master compares configurations
//! by it, so it must be true.

use crate::conf::cx::{Cx, invalid_value};
use crate::directive::directive;
use crate::module::Row;
use brisk_conf::cidr::Cidr;
use brisk_conf::{Applies, Arity, Context, Diag, Directive, Risk, value};
use brisk_host::main_conf::{CpuAffinity, DebugClient, MainConf, Processes};
use brisk_host::memory::limit::MemoryLimit;

const MAIN: Context = Context::MAIN;
const EVENTS: Context = Context::EVENTS;

/// The rows of `main` and `events`.
pub static ROWS: &[Row] = &[
    directive("include")
        .doc("Inserts a file, or all files that match a pattern, in its place. A relative path starts at the folder of the main file.")
        // The parser has put the files in place already; the row is for documents, completion and the list of
        // known names.
        .in_(Context(u32::MAX))
        .takes("FILE | PATTERN")
        .many()
        .definition()
        .example("include conf.d/*.conf;")
        .set(|_, _| Ok(())),
    // `Applies::Start`: which process is whose parent cannot be changed while it runs.
    directive("daemon")
        .doc("Whether to go into the background.")
        .in_(MAIN)
        .takes_flag()
        .default("on")
        .applies(Applies::Start)
        .example("daemon off;")
        .sets(|cx, on| cx.conf::<MainConf>().daemon = on),
    // `off` has no process that could restart the worker, so it is for a debugger.
    directive("master_process")
        .doc("Whether a master supervises the worker; off runs everything in one process, for debugging.")
        .in_(MAIN)
        .takes_flag()
        .default("on")
        .applies(Applies::Start)
        .example("master_process off;")
        .sets(|cx, on| cx.conf::<MainConf>().master_process = on),
    // A reload that changes it writes the new file and opens another control socket beside it (`Master::adopt`); a start is what is promised.
    directive("pid")
        .doc("The file that holds the master's process id.")
        .in_(MAIN)
        .takes("FILE")
        .default_told("logs/brisk.pid")
        .applies(Applies::Start)
        .example("pid /run/brisk/brisk.pid;")
        .set(|cx, d| {
            let path = cx.full_path(d.arg(0).str());
            cx.conf::<MainConf>().pid = path;
            Ok(())
        }),
    // `Applies::Worker`: a process that has given up root's rights cannot get them back to become another user.
    directive("user")
        .doc("User and group of the worker. The group defaults to one of the user's name. Without root's rights it is ignored with a warning.")
        .in_(MAIN)
        .arity(Arity::between(1, 2))
        .takes("USER [GROUP]")
        .default_told("nobody nobody")
        .applies(Applies::Worker)
        .risk(Risk::Security)
        .example("user www-data;")
        .set(user),
    // 1, as in nginx: a configuration that says nothing is for a test or a small machine.
    directive("worker_processes")
        .doc("Number of event-loop threads in the worker process; auto is the smaller of the CPU affinity and the cgroup's quota.")
        .in_(MAIN)
        .takes("NUMBER | auto")
        .default("1")
        .applies(Applies::Worker)
        .risk(Risk::Resource)
        .example("worker_processes auto;")
        .set(worker_processes),
    // By threads, where nginx binds processes: the masks of a file written for nginx mean the same cores.
    directive("worker_cpu_affinity")
        .doc("Binds thread after thread to sets of cores given as bit masks, or each to one core (auto [mask]).")
        .in_(MAIN)
        .arity(Arity::SOME)
        .takes("MASK ... | auto [MASK]")
        .applies(Applies::Worker)
        .risk(Risk::Safe)
        .example("worker_cpu_affinity 0001 0010;")
        .set(worker_cpu_affinity),
    // The worker's and not the master's: the master must be able to act while the worker uses up a core.
    directive("worker_priority")
        .doc("Scheduling priority of the worker as nice(1) counts it.")
        .in_(MAIN)
        .takes_signed()
        .range(-20, 20)
        .unit("niceness")
        .default("0")
        .applies(Applies::Worker)
        .risk(Risk::Safe)
        .example("worker_priority -5;")
        .sets(|cx, niceness| cx.conf::<MainConf>().priority = niceness as i32),
    // nginx's number is per process, and each of its processes is a thread here.
    directive("worker_rlimit_nofile")
        .doc("Open files per event-loop thread; the worker's limit is this times the number of threads, so that a file written for many processes keeps its capacity.")
        .in_(MAIN)
        .takes_number()
        .unit("open files per thread")
        .applies(Applies::Worker)
        .risk(Risk::Resource)
        .example("worker_rlimit_nofile 65536;")
        .sets(|cx, count| cx.conf::<MainConf>().rlimit_nofile = Some(count)),
    // A core file holds whatever was in memory, keys included, so nothing is changed unless somebody asks for
    // it.
    directive("worker_rlimit_core")
        .doc("Largest core file of the worker, in bytes.")
        .in_(MAIN)
        .takes_offset()
        .applies(Applies::Worker)
        .risk(Risk::Resource)
        .example("worker_rlimit_core 500m;")
        .sets(|cx, bytes| cx.conf::<MainConf>().rlimit_core = Some(bytes)),
    // Without limit a single client that takes nothing keeps an old configuration, and in a stop the process, for as long as it likes.
    directive("worker_shutdown_timeout")
        .doc("How long requests may take to finish after a graceful stop, and on an old configuration after a reload; 0 is without limit.")
        .in_(MAIN)
        .takes_time()
        .default("0")
        .risk(Risk::Resource)
        .example("worker_shutdown_timeout 30s;")
        .sets(|cx, time| cx.conf::<MainConf>().shutdown_timeout = time),
    // Core files are written there, and the worker's user must be allowed to.
    directive("working_directory")
        .doc("The worker's current folder; core files go there.")
        .in_(MAIN)
        .takes("DIR")
        .applies(Applies::Worker)
        .example("working_directory /var/lib/brisk;")
        .set(|cx, d| {
            cx.conf::<MainConf>().working_directory = Some(d.arg(0).str().to_string());
            Ok(())
        }),
    // The worker's environment is emptied but for these: what root's shell had (proxies, preloads, credentials) is nothing to a process that talks
    // to strangers.
    directive("env")
        .doc("Keeps an environment variable for the worker, or sets it (NAME=value). All others are removed; TZ is always kept.")
        .in_(MAIN)
        .takes("NAME[=VALUE]")
        .default_told("TZ")
        .many()
        .applies(Applies::Worker)
        .example("env MALLOC_ARENA_MAX=2;")
        .set(|cx, d| {
            let text = d.arg(0).str();
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value.to_string())),
                None => (text, None),
            };
            cx.conf::<MainConf>().env.push((name.to_string(), value));
            Ok(())
        }),
    // Not in nginx. The kernel's killer would end the whole worker with all its clients; closing the dearest connections first costs only those who
    // hold the most.
    directive("memory_limit")
        .doc("Memory that the worker process may hold: a size, auto, or off. From 90 % of it on nothing is accepted, and the connections that hold most for what moves on them are closed (idle ones count four times), until 85 % are in use; together they may always hold a tenth. What counts is anonymous resident memory. auto is 80 % of the machine's memory or of the control group's limit, and no more than half of what the process's own limits allow (ulimit -v, ulimit -d), which a size cannot exceed either.")
        .in_(MAIN)
        .takes("SIZE | auto | off")
        .default("auto")
        .risk(Risk::Resource)
        .example("memory_limit 2g;")
        .set(memory_limit),
    // Off, unlike in many nginx builds: of 815,000 random pairs its compiler found something else than PCRE's interpreter in 59 (docs/decisions.md).
    directive("pcre_jit")
        .doc("Whether regular expressions that need PCRE become machine code: faster, but in rare cases PCRE's compiler and its interpreter disagree. Most expressions run on a linear-time engine and need no PCRE.")
        .in_(MAIN)
        .takes_flag()
        .default("off")
        .example("pcre_jit on;")
        .sets(|cx, on| cx.conf::<MainConf>().pcre_jit = on),
    // What waits in the queue holds a request's memory, so the queue has an end; what comes then is refused instead of waiting.
    directive("thread_pool")
        .doc("Sizes the pool of threads for what may block (cold files, temporary files). Brisk has one; where several are named, it is as large as all of them together.")
        .in_(MAIN)
        .arity(Arity::between(2, 3))
        .takes("NAME threads=NUMBER [max_queue=NUMBER]")
        .default_told("default threads=32 max_queue=65536")
        .many()
        .definition()
        .applies(Applies::Worker)
        .risk(Risk::Resource)
        .example("thread_pool default threads=32 max_queue=65536;")
        .set(thread_pool),
    // Its directives are those of `main`, so that a setting means the same wherever a file puts it.
    directive("events")
        .doc("Holds the directives about connections.")
        .in_(MAIN)
        .arity(Arity::NONE.block())
        .definition()
        .example("events { worker_connections 1024; }")
        .block(events),
    // 512 is nginx's default. Back ends count too, since a limit of descriptors is what stands behind it.
    directive("worker_connections")
        .doc("Connections per event-loop thread, connections to back ends included.")
        .in_(EVENTS)
        .takes_number()
        .at_least(1)
        .unit("connections per thread")
        .default("512")
        .risk(Risk::Resource)
        .example("worker_connections 4096;")
        .sets(|cx, count| cx.conf::<MainConf>().connections = count),
    // Off: a burst is spread over the threads instead of being taken by the first one.
    directive("multi_accept")
        .doc("Takes all waiting connections at a wake-up instead of a few.")
        .in_(EVENTS)
        .takes_flag()
        .default("off")
        .risk(Risk::Safe)
        .example("multi_accept on;")
        .sets(|cx, on| cx.conf::<MainConf>().multi_accept = on),
    // Messages at debug level hold heads with cookies and passwords, so a wrong network here writes strangers' secrets into a log.
    directive("debug_connection")
        .doc("An address, a network, a host name or unix: of clients about which everything is logged, at every level, in every error log that they reach.")
        .in_(EVENTS)
        .takes("ADDRESS | CIDR | unix:")
        .many()
        .definition()
        .risk(Risk::Security)
        .example("debug_connection 192.0.2.0/24;")
        .set(debug_connection),
    // Others (select, poll, kqueue) belong to other systems or to old ones.
    directive("use")
        .doc("The connection processing method.")
        .in_(EVENTS)
        .takes("METHOD")
        .example("use epoll;")
        .ignored("Brisk always uses epoll"),
    // nginx lets one process at a time accept. Here the kernel wakes one thread, and a connection is given to
    // the thread with the fewest.
    directive("accept_mutex")
        .doc("Whether workers take turns in accepting.")
        .in_(EVENTS)
        .takes("on | off")
        .example("accept_mutex off;")
        .ignored("threads share connections evenly by themselves"),
    directive("accept_mutex_delay")
        .doc("How long to wait for the accept mutex.")
        .in_(EVENTS)
        .takes("TIME")
        .example("accept_mutex_delay 500ms;")
        .ignored("there is no accept mutex"),
    // Linux' AIO works with O_DIRECT only, which bypasses the page cache.
    directive("worker_aio_requests")
        .doc("Outstanding AIO requests of a worker.")
        .in_(EVENTS)
        .takes("NUMBER")
        .example("worker_aio_requests 32;")
        .ignored("files are read by a pool of threads"),
    // What one look at the kernel may give is bounded by a limit of the loop, so that a turn stays short.
    directive("epoll_events")
        .doc("Events per wake-up.")
        .in_(EVENTS)
        .takes("NUMBER")
        .example("epoll_events 512;")
        .ignored("the number is fixed"),
    // A lock between processes; threads of one process need none.
    directive("lock_file")
        .doc("The lock file of the accept mutex.")
        .in_(MAIN)
        .takes("FILE")
        .example("lock_file /run/brisk/brisk.lock;")
        .ignored("there is no accept mutex"),
    // gettimeofday(2) was a system call when nginx got this directive. It is read from memory that the kernel
    // shares (vdso(7)).
    directive("timer_resolution")
        .doc("How often the time is read.")
        .in_(MAIN)
        .takes("TIME")
        .example("timer_resolution 100ms;")
        .ignored("it is read once per wake-up, which costs next to nothing"),
    // A broken invariant ends the one connection that has met it. Ending the process would end all others,
    // too.
    directive("debug_points")
        .doc("What to do on an internal inconsistency.")
        .in_(MAIN)
        .takes("abort | stop")
        .example("debug_points abort;")
        .ignored("those end the connection concerned and are logged as [alert]"),
    // The master watches the files, so what was inherited would be older than what is there.
    directive("ssl_object_cache_inheritable")
        .doc("Keeps certificates over a reload.")
        .in_(MAIN)
        .takes("on | off")
        .example("ssl_object_cache_inheritable on;")
        .ignored("certificates are read again when their files change, at once"),
    // Keys in hardware are what it was for; there is no way to them here, so it is told and not silently
    // kept.
    directive("ssl_engine")
        .doc("An OpenSSL engine.")
        .in_(MAIN)
        .takes("DEVICE")
        .example("ssl_engine dynamic;")
        .ignored("TLS is done without OpenSSL"),
    // Accepted, as every distribution's configuration has such lines; a binary made for nginx's structures cannot run in another program.
    directive("load_module")
        .doc("Has no effect: binary modules of nginx cannot be loaded. A notice where the module is built in, else a warning; its directives are refused where they stand.")
        .in_(MAIN)
        .takes("FILE")
        .many()
        .definition()
        .risk(Risk::Safe)
        .example("load_module modules/ngx_http_geoip2_module.so;")
        .set(load_module),
];

fn events(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    cx.conf::<MainConf>().has_events = true;
    // `events` has no configuration of its own: its settings are the process's, and are written into those of `main`.
    let outer = std::mem::replace(&mut cx.block, EVENTS);
    cx.block_here(d);
    cx.block = outer;
    Ok(())
}

fn debug_connection(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let token = d.arg(0);
    let text = token.str();
    // `unix:` first: it is no address, and would be looked up as a name.
    let found = match Cidr::parse(token.bytes()) {
        _ if text == "unix:" => vec![DebugClient::Unix],
        Some(parsed) => {
            if parsed.is_rough {
                // nginx's warning, and no error: 192.0.2.1/24 is often written for the network of that host.
                cx.warn(Diag::warn(token.span, format!("low address bits of {text} are meaningless")));
            }
            vec![DebugClient::Net(parsed.cidr)]
        }
        None => {
            // By the loader and not by the system: a worker that builds the same configuration gets the addresses that the master has seen.
            let found = cx.global.loader.addresses(text).map_err(|_| {
                Diag::emerg(token.span, format!("host not found in debug_connection \"{text}\""))
                    .help("write an address, a network such as 10.0.0.0/8, a host name or unix:")
            })?;
            found.into_iter().map(|ip| DebugClient::Net(Cidr::one(ip))).collect()
        }
    };
    cx.conf::<MainConf>().debug_clients.extend(found);
    Ok(())
}

// Whether the user exists is asked when the worker starts: `-t` may run on another machine.
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
            // One thread per core is the most that is of use.
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
        // A mask of another base would bind to other cores than its author thinks.
        let bits = token.bytes();
        if let Some(other) = token.text().chars().find(|c| !matches!(c, '0' | '1')) {
            return Err(Diag::emerg(
                token.span,
                format!("invalid character \"{other}\" in \"worker_cpu_affinity\""),
            )
            .help("a mask has one 0 or 1 per core, the last for core 0"));
        }
        // The last digit is core 0, as in a binary number.
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
    // nginx's default for the queue.
    let (mut threads, mut queue) = (None, 65_536);
    for token in &d.args[1..] {
        let number = |text: &str| text.parse::<usize>().ok().filter(|&n| n > 0);
        if let Some(text) = token.str().strip_prefix("threads=") {
            threads = number(text);
            if threads.is_some_and(|threads| threads > crate::limits::POOL_THREADS_MAX) {
                let text = format!("\"{}\" is too many", token.text());
                let help =
                    format!("at most {}: a disk serves no more at once", crate::limits::POOL_THREADS_MAX);
                return Err(Diag::emerg(token.span, text).help(help));
            }
        } else if let Some(text) = token.str().strip_prefix("max_queue=") {
            queue = text.parse().map_err(|_| crate::conf::cx::invalid_parameter(token))?;
        } else {
            return Err(crate::conf::cx::invalid_parameter(token));
        }
    }
    let threads = threads.ok_or_else(|| {
        Diag::emerg(d.span, "missing \"threads\" parameter").help("thread_pool NAME threads=N")
    })?;
    let name = d.arg(0).str().to_string();
    // The pools are added up when the worker starts: there is one, since a disk does not get faster by having
    // two.
    cx.conf::<MainConf>().thread_pools.push((name, threads, queue));
    Ok(())
}

/// Modules that others make for nginx and that are built in here, by the names of their files.
const BUILT_IN: [&str; 4] = ["brotli_filter", "brotli_static", "zstd_filter", "zstd_static"];

fn load_module(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let path = d.arg(0).text().into_owned();
    let file = path.rsplit('/').next().unwrap_or_default();
    // Modules are found by the names of their files, which packages for nginx have made.
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
