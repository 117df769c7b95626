//! The exporter: what sends batches, beside requests.
//!
//! The task that sends belongs to the queue and not to a configuration: spans of requests that go on under an old one are sent, too. It
//! ends when no configuration has the queue any more and nothing is left in it.

use super::block::Draft;
use super::channel::{Channel, Refused};
use super::queue::{Batch, Queue};
use crate::limits::{OTEL_BATCH_BYTES_MAX, OTEL_LOG_TIME_MIN, OTEL_TRIES_MAX};
use brisk_host::live::{Live, log_error};
use brisk_net::{clock, sleep, timeout};
use brisk_otlp::Pair;
use brisk_otlp::span::export;
use brisk_server::core::LogLevel;
use brisk_server::metrics::Counter;
use brisk_server::service::{Service, Work};
use std::cell::RefCell;
use std::collections::HashMap;
use std::future::{pending, poll_fn};
use std::rc::{Rc, Weak as LocalWeak};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

static EXPORTED: Counter = Counter::new();
static DROPPED: Counter = Counter::new();
static FAILED: Counter = Counter::new();

/// Spans by their outcome.
pub(super) static COUNTERS: [(&str, &Counter); 3] =
    [("exported", &EXPORTED), ("dropped", &DROPPED), ("failed", &FAILED)];

/// Outlives configurations: a configuration with an equal exporter goes on with its queue.
static TARGETS: Mutex<Option<HashMap<String, Weak<Target>>>> = Mutex::new(None);

thread_local! {
    /// The configuration whose logs get the sender's messages: the last one that had an exporter.
    static LIVE: RefCell<LocalWeak<Live>> = const { RefCell::new(LocalWeak::new()) };
}

/// A collector, and what waits to be sent there.
struct Target {
    draft: Draft,
    resource: Vec<Pair>,
    queue: Queue,
    has_sender: AtomicBool,
}

impl Target {
    /// Whether another configuration of the same text leads to the same collector.
    fn goes_on_as(&self, draft: &Draft) -> bool {
        self.draft.place.is_still(&draft.place) && self.draft.authorities == draft.authorities
    }
}

/// See the module's head.
pub(super) struct Exporter(Arc<Target>);

impl Exporter {
    pub(super) fn new(draft: Draft, resource: Vec<Pair>) -> Exporter {
        let key = format!("{}{resource:?}", draft.key);
        let mut targets = TARGETS.lock().unwrap_or_else(PoisonError::into_inner);
        let targets = targets.get_or_insert_default();
        targets.retain(|_, target| target.strong_count() > 0);
        // The text may be the same and lead elsewhere: a name has another address, a file another certificate.
        if let Some(target) = targets.get(&key).and_then(Weak::upgrade).filter(|have| have.goes_on_as(&draft))
        {
            return Exporter(target);
        }
        let queue = Queue::new(draft.batch_size, OTEL_BATCH_BYTES_MAX, draft.batch_count);
        let target = Arc::new(Target { draft, resource, queue, has_sender: AtomicBool::new(false) });
        targets.insert(key, Arc::downgrade(&target));
        Exporter(target)
    }

    /// Takes a span to be sent, or counts it as dropped.
    pub(super) fn add(&self, span: &[u8]) {
        if !self.0.queue.add(span) {
            DROPPED.add(1);
        }
    }
}

/// Before the process ends: waits until the spans of requests that have ended are sent or given up, no longer than this. Not for a thread that
/// serves: one of those sends them. Gives how many are lost.
pub fn settle(limit: Duration) -> u64 {
    let until = Instant::now() + limit;
    let present: Vec<_> = {
        let targets = TARGETS.lock().unwrap_or_else(PoisonError::into_inner);
        targets.iter().flat_map(HashMap::values).filter_map(Weak::upgrade).collect()
    };
    // Without the lock, which senders want.
    present.iter().map(|target| target.queue.settle(until)).sum()
}

/// For as long as the configuration is live.
struct Using(Arc<Target>);

impl Drop for Using {
    fn drop(&mut self) {
        self.0.queue.end();
    }
}

impl Service for Exporter {
    fn start(self: Arc<Self>, work: &Work) {
        LIVE.set(Rc::downgrade(&work.live));
        self.0.queue.begin();
        let using = Using(self.0.clone());
        work.spawn(async move {
            let _using = using;
            pending::<()>().await;
        });
        if !self.0.has_sender.swap(true, Ordering::AcqRel) {
            brisk_net::spawn(send_all(self.0.clone()));
        }
    }
}

impl Target {
    /// Whether its sender, who asks, is to end: no configuration has it and nothing waits. Configurations find targets under the same lock, so
    /// none can take it in this moment and rely on a sender that ends.
    fn ends(self: &Arc<Self>) -> bool {
        let _targets = TARGETS.lock().unwrap_or_else(PoisonError::into_inner);
        // The sender has one itself.
        let is_over = Arc::strong_count(self) == 1 && self.queue.is_empty();
        if is_over {
            self.has_sender.store(false, Ordering::Release);
        }
        is_over
    }
}

/// Sends whatever comes.
async fn send_all(target: Arc<Target>) {
    let (mut channel, mut logged_ms) = (None, None);
    loop {
        let next = poll_fn(|cx| target.queue.poll_batch(cx));
        let Ok(batch) = timeout(target.draft.interval, next).await else {
            target.queue.flush();
            if target.ends() {
                return;
            }
            continue;
        };
        let sent = send(&target, &mut channel, &batch).await;
        target.queue.done(&batch);
        match sent {
            Ok(()) => EXPORTED.add(batch.spans as u64),
            Err(why) => {
                FAILED.add(batch.spans as u64);
                let now_ms = clock::mono_ms();
                let is_due = |last: u64| now_ms - last >= OTEL_LOG_TIME_MIN.as_millis() as u64;
                if logged_ms.is_none_or(is_due) {
                    logged_ms = Some(now_ms);
                    complain(&target, &why, batch.spans);
                }
            }
        }
    }
}

fn complain(target: &Target, why: &str, spans: usize) {
    if let Some(live) = LIVE.with_borrow(LocalWeak::upgrade) {
        let host = &target.draft.host;
        let text = format_args!("OTel export failure: {why}, {spans} spans are lost, endpoint: \"{host}\"");
        log_error(&live, LogLevel::Error, text);
    }
}

async fn send(target: &Target, channel: &mut Option<Channel>, batch: &Batch) -> Result<(), String> {
    let message = export(&target.resource, ("brisk", env!("CARGO_PKG_VERSION")), &batch.bytes);
    let mut tries = 0;
    loop {
        let was_used = channel.as_ref().is_some_and(Channel::is_used);
        let Err(Refused { why, is_passing }) = once(target, channel, &message).await else { return Ok(()) };
        // A collector may close an idle connection: that is no failure of the collector.
        if was_used && is_passing {
            continue;
        }
        tries += 1;
        if !is_passing || tries >= OTEL_TRIES_MAX {
            return Err(why);
        }
        sleep(Duration::from_secs(u64::from(tries))).await;
    }
}

/// One call, on the connection that is there or a new one.
async fn once(target: &Target, channel: &mut Option<Channel>, message: &[u8]) -> Result<(), Refused> {
    let mut open = match channel.take().filter(Channel::is_used) {
        Some(open) => open,
        None => Channel::open(&target.draft).await?,
    };
    open.export(&target.draft, message).await?;
    *channel = Some(open);
    Ok(())
}
