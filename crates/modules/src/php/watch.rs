//! What a pool's processes do, asked of its pool master beside requests: for metrics, and to find the number of workers (`pm auto`).

use super::PoolSpec;
use super::backend::Pool;
use brisk_net::connect::unix_at_once;
use brisk_net::{blocking, clock, sleep};
use brisk_php::{Bounds, Load, Manager, Memory, Sizer, memory_groups, pressure_percent};
use brisk_server::conf::{Cx, Snapshot};
use brisk_server::metrics::Scrape;
use brisk_server::service::{Service, Work};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// How often a pool that answers requests is asked; a pool master needs some 10 microseconds per worker for its answer.
const ASK_BUSY: Duration = Duration::from_millis(250);
/// How often one is asked that has had no request lately.
const ASK_IDLE: Duration = Duration::from_secs(1);
/// A pool is idle after this time without a request.
const IDLE_MS: u64 = 5000;
/// A pool that has told nothing for so long from the start on is no pool master's.
const SILENT_MS: u64 = 5000;
/// How long a pool master may take to answer.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// What is known of a pool's processes. It outlives a reload, so that the number of workers that was found is kept.
pub(super) struct State {
    places: AtomicU32,
    inner: Mutex<Inner>,
}

struct Inner {
    /// `None`: the number is not ours to find.
    sizer: Option<Sizer>,
    load: Load,
    /// The number and the reason that the pool master was told last.
    told: (u32, String),
}

static STATES: LazyLock<Mutex<HashMap<PathBuf, Weak<State>>>> = LazyLock::new(Mutex::default);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// That of the pool with this socket.
    pub fn of(spec: &PoolSpec) -> Arc<State> {
        let most = spec.settings.children_max();
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let bounds = Bounds { cores, most };
        let is_auto = spec.settings.manager() == Manager::Auto;
        let mut states = lock(&STATES);
        states.retain(|_, state| state.strong_count() > 0);
        let state = states.get(&spec.socket).and_then(Weak::upgrade).unwrap_or_else(|| {
            let inner = Inner { sizer: None, load: Load::default(), told: (0, String::new()) };
            Arc::new(State { places: AtomicU32::new(most), inner: Mutex::new(inner) })
        });
        states.insert(spec.socket.clone(), Arc::downgrade(&state));
        let mut inner = lock(&state.inner);
        match (&mut inner.sizer, is_auto) {
            (Some(sizer), true) => sizer.rebound(bounds),
            (sizer, _) => *sizer = is_auto.then(|| Sizer::new(bounds)),
        }
        let places = inner.sizer.as_ref().map_or(most, Sizer::size);
        // The next answer is for another pool master, perhaps.
        inner.told = (0, String::new());
        drop(inner);
        state.places.store(places, Ordering::Relaxed);
        state
    }

    /// How many requests the pool may have at once.
    pub fn places(&self) -> u32 {
        self.places.load(Ordering::Relaxed)
    }

    /// Another number from now on.
    pub fn set_places(&self, places: u32) {
        self.places.store(places, Ordering::Relaxed);
    }

    /// What the pool master said last.
    fn load(&self) -> Load {
        lock(&self.inner).load
    }
}

impl Service for Pool {
    fn start(self: Arc<Self>, work: &Work) {
        work.spawn(async move {
            let began_ms = clock::mono_ms();
            let mut asked_ms = began_ms;
            let mut waited_ms = self.line().waited_ms;
            let mut busy_ms = 0;
            loop {
                let is_busy = asked_ms < busy_ms + IDLE_MS;
                sleep(if is_busy { ASK_BUSY } else { ASK_IDLE }).await;
                let Some(look) = ask(self.spec().control.clone()).await else {
                    // PHP-FPM and php-cgi tell nothing, and make their workers themselves.
                    if asked_ms == began_ms && clock::mono_ms() >= began_ms + SILENT_MS {
                        self.resize(self.spec().settings.children_max());
                    }
                    continue;
                };
                let now_ms = clock::mono_ms();
                let line = self.line();
                let requests = self.state().load().requests;
                let since = Since {
                    now_ms,
                    window: Duration::from_millis(now_ms - asked_ms),
                    waited: Duration::from_millis(line.waited_ms - waited_ms),
                };
                let order = self.state().take(look, since);
                (asked_ms, waited_ms) = (now_ms, line.waited_ms);
                if look.load.requests != requests || line.waiting > 0 {
                    busy_ms = now_ms;
                }
                if let Some((size, why)) = order {
                    self.resize(size);
                    tell(self.spec().control.clone(), size, &why).await;
                }
            }
        });
    }
}

/// When it was asked, and what has happened here since it was asked before.
struct Since {
    now_ms: u64,
    window: Duration,
    waited: Duration,
}

impl State {
    /// Takes what a pool master has said; gives the number of workers and its reason if it is to be told.
    fn take(&self, look: Look, since: Since) -> Option<(u32, String)> {
        let mut inner = lock(&self.inner);
        let before = std::mem::replace(&mut inner.load, look.load);
        let mut sample = look.load.since(&before);
        sample.window_ms = since.window.as_millis() as u64;
        sample.waited_ms = since.waited.as_millis() as u64;
        sample.memory = look.memory;
        let sizer = inner.sizer.as_mut()?;
        let order = (sizer.observe(since.now_ms, &sample), sizer.why().to_string());
        // One that was replaced knows nothing.
        let is_new = look.load.requests < before.requests || look.load.wanted != u64::from(order.0);
        if order == inner.told && !is_new {
            return None;
        }
        inner.told.clone_from(&order);
        Some(order)
    }
}

/// What was found out at one time.
#[derive(Clone, Copy)]
struct Look {
    load: Load,
    memory: Memory,
}

/// `None`: there is no answer, as while a pool master is replaced.
async fn ask(control: PathBuf) -> Option<Look> {
    let look = blocking::run(move || {
        let load = Load::parse(&order(&control, "load\n").ok()?);
        let memory = memory(load.worker_bytes);
        Some(Look { load, memory })
    });
    look.ok()?.await
}

async fn tell(control: PathBuf, size: u32, why: &str) {
    let line = format!("size {size} {why}\n");
    // It is told again with the next answer if it was not heard.
    if let Ok(told) = blocking::run(move || order(&control, &line).is_ok()) {
        told.await;
    }
}

/// One order and its answer.
fn order(control: &Path, line: &str) -> io::Result<String> {
    let mut stream = unix_at_once(control)?;
    stream.set_read_timeout(Some(ANSWER_TIME))?;
    stream.set_write_timeout(Some(ANSWER_TIME))?;
    stream.write_all(line.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Where control groups are mounted: that does not change while the process lives.
static MOUNTS: LazyLock<String> =
    LazyLock::new(|| std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());

/// What the machine and the control groups of this process, which are those of its pools, have left, and how short memory is.
fn memory(worker_bytes: u64) -> Memory {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let text = read(Path::new("/proc/meminfo")).unwrap_or_default();
    let available = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = available.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    let groups = memory_groups(&read(Path::new("/proc/self/cgroup")).unwrap_or_default(), &MOUNTS);
    let left = groups.iter().filter_map(|group| group.left(read)).chain(kib.map(|kib| kib << 10)).min();
    // Kernels without PSI tell of no pressure; memory that is left is a bound there, too.
    let machine = read(Path::new("/proc/pressure/memory")).and_then(|text| pressure_percent(&text));
    let pressures = groups.iter().filter_map(|group| group.pressure_percent(read)).chain(machine);
    Memory {
        worker_bytes: if left.is_some() { worker_bytes } else { 0 },
        available_bytes: left.unwrap_or(0),
        pressure_percent: pressures.fold(0.0, f64::max),
    }
}

/// The pools of a configuration, for metrics.
#[derive(Default)]
struct Registry(Vec<Arc<Pool>>);

/// Lets metrics find a pool.
pub(super) fn register(cx: &mut Cx<'_, '_>, pool: &Arc<Pool>) {
    let have = cx.global.data.iter().position(|data| data.is::<Registry>());
    let mut all = have
        .and_then(|at| cx.global.data.remove(at).downcast::<Registry>().ok())
        .map(|registry| registry.0.clone())
        .unwrap_or_default();
    all.push(pool.clone());
    cx.global.data.push(Arc::new(Registry(all)));
}

fn pools(snap: &Snapshot) -> Vec<Arc<Pool>> {
    snap.data::<Registry>().map(|registry| registry.0.clone()).unwrap_or_default()
}

/// How the pools of a configuration stand, by their names.
pub(crate) fn status(snap: &Snapshot) -> Value {
    let one = |pool: &Arc<Pool>| {
        let (load, line) = (pool.state().load(), pool.line());
        let why = lock(&pool.state().inner).sizer.as_ref().map(|sizer| sizer.why().to_string());
        let settings = &pool.spec().settings;
        let json = json!({
            "manager": settings.manager().name(),
            "workers": { "total": load.workers, "idle": load.idle, "wanted": pool.places(), "most": settings.children_max(), "why": why },
            "requests": { "total": load.requests, "waiting": line.waiting, "refused": line.refused, "gone": load.gone_clients,
                "slow": load.slow_requests, "timeouts": load.timeouts },
            "time_ms": { "busy": load.busy_us / 1000, "cpu": load.cpu_us / 1000, "runnable": load.runnable_us / 1000 },
            "worker_bytes": load.worker_bytes,
            "crashes": load.crashes,
            "restarts": load.restarts,
        });
        (settings.pool.clone(), json)
    };
    pools(snap).iter().map(one).collect()
}

/// Numbers of pools, with the name of each.
pub(super) fn metrics(to: &mut Scrape) {
    for pool in pools(&to.snap()) {
        let labels = [("pool", pool.spec().settings.pool.as_str())];
        let (load, line) = (pool.state().load(), pool.line());
        for (name, help, value) in [
            ("brisk_php_requests_total", "Requests that PHP has begun.", load.requests),
            (
                "brisk_php_refused_total",
                "Requests that were refused: too many waited, or the pool did not run.",
                line.refused,
            ),
            (
                "brisk_php_gone_total",
                "Requests whose client had gone before PHP saw them.",
                load.gone_clients,
            ),
            (
                "brisk_php_slow_total",
                "Requests that took longer than request_slowlog_timeout.",
                load.slow_requests,
            ),
            (
                "brisk_php_timeouts_total",
                "Requests that were ended by request_terminate_timeout.",
                load.timeouts,
            ),
            ("brisk_php_crashes_total", "Workers that ended by a signal.", load.crashes),
            ("brisk_php_restarts_total", "Workers that have ended, for whatever reason.", load.restarts),
            (
                "brisk_php_limit_reached_total",
                "How often max_children was reached.",
                load.max_children_reached,
            ),
        ] {
            to.counter(name, help, &labels, value);
        }
        let seconds = |us: u64| us as f64 / 1e6;
        for (name, help, value) in [
            ("brisk_php_workers", "Workers that there are.", load.workers as f64),
            ("brisk_php_workers_idle", "Workers without a request.", load.idle as f64),
            ("brisk_php_workers_wanted", "The most workers that there may be now.", pool.places() as f64),
            ("brisk_php_queue", "Requests that wait for a worker.", line.waiting as f64),
            ("brisk_php_worker_bytes", "Memory of the largest worker.", load.worker_bytes as f64),
            (
                "brisk_php_busy_seconds",
                "How long workers were busy with requests, since the pool began.",
                seconds(load.busy_us),
            ),
            ("brisk_php_cpu_seconds", "How long they ran for them.", seconds(load.cpu_us)),
            (
                "brisk_php_runnable_seconds",
                "How long they waited for a processor.",
                seconds(load.runnable_us),
            ),
        ] {
            to.gauge(name, help, &labels, value);
        }
    }
}
