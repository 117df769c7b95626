//! Spans that wait to be sent: batches of a bounded number and size, shared by all threads.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// Spans as they are sent, one behind the other.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    pub bytes: Vec<u8>,
    pub spans: usize,
}

#[derive(Default)]
struct State {
    current: Batch,
    full: VecDeque<Batch>,
    /// The sender has it.
    is_sending: bool,
    /// Configurations that are live and have it; during a reload there are two, in any order.
    users: usize,
    /// The last of them has ended: each span is sent at once.
    is_hurried: bool,
    /// Spans that were ever added.
    added: u64,
    /// Of these, those that the sender has done with, in the same order.
    done: u64,
    waker: Option<Waker>,
}

/// See the module's head.
pub(super) struct Queue {
    size: usize,
    /// Bytes of a batch.
    bytes_max: usize,
    /// Batches at a time, those that are filled and sent included.
    count: usize,
    state: Mutex<State>,
    /// Rings when the sender has done with a batch.
    progress: Condvar,
}

impl Queue {
    pub(super) fn new(size: usize, bytes_max: usize, count: usize) -> Queue {
        Queue { size, bytes_max, count, state: Mutex::default(), progress: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // It holds complete spans only, even if a thread has panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a span; false: there is no room for it.
    pub(super) fn add(&self, span: &[u8]) -> bool {
        if span.len() > self.bytes_max {
            return false;
        }
        let mut state = self.lock();
        if state.current.bytes.len() + span.len() > self.bytes_max {
            state.close();
        }
        let others = state.full.len() + usize::from(state.is_sending);
        if state.current.spans == 0 && others >= self.count {
            return false;
        }
        state.current.bytes.extend_from_slice(span);
        state.current.spans += 1;
        state.added += 1;
        if state.current.spans >= self.size || state.is_hurried {
            state.close();
        }
        true
    }

    /// A configuration that has it has become live.
    pub(super) fn begin(&self) {
        let mut state = self.lock();
        state.users += 1;
        state.is_hurried = false;
    }

    /// Such a configuration ends. If it was the last one, what waits is sent now, and from here on each span at once: the server may be
    /// about to end.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.users = state.users.saturating_sub(1);
        if state.users == 0 {
            state.is_hurried = true;
            state.close();
        }
    }

    /// For the sender: the next batch that is full.
    pub(super) fn poll_batch(&self, cx: &mut Context<'_>) -> Poll<Batch> {
        let mut state = self.lock();
        if let Some(batch) = state.full.pop_front() {
            state.is_sending = true;
            return Poll::Ready(batch);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// What waits is sent, however little it is.
    pub(super) fn flush(&self) {
        self.lock().close();
    }

    /// For the sender: it has done with a batch.
    pub(super) fn done(&self, batch: &Batch) {
        let mut state = self.lock();
        state.is_sending = false;
        state.done += batch.spans as u64;
        self.progress.notify_all();
    }

    /// Waits until the sender has done with all that is here, but not beyond `until`. For a thread that is not the sender's. Gives how many are
    /// left.
    pub(super) fn settle(&self, until: Instant) -> u64 {
        let mut state = self.lock();
        state.close();
        let wanted = state.added;
        let left = until.saturating_duration_since(Instant::now());
        let waited = self.progress.wait_timeout_while(state, left, |state| state.done < wanted);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        wanted.saturating_sub(state.done)
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        let state = self.lock();
        state.current.spans == 0 && state.full.is_empty()
    }
}

impl State {
    /// The present batch takes no more.
    fn close(&mut self) {
        if self.current.spans == 0 {
            return;
        }
        self.full.push_back(std::mem::take(&mut self.current));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn next(queue: &Queue) -> Option<Batch> {
        match queue.poll_batch(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(batch) => Some(batch),
            Poll::Pending => None,
        }
    }

    #[test]
    fn batches_are_full_and_few() {
        let queue = Queue::new(2, 100, 2);
        assert!(queue.add(b"a") && next(&queue).is_none());
        assert!(queue.add(b"b"));
        let first = next(&queue).unwrap();
        assert_eq!(first, Batch { bytes: b"ab".to_vec(), spans: 2 });
        // One is being sent, one is filled: there is no third.
        assert!(queue.add(b"c") && queue.add(b"d") && !queue.add(b"e"));
        queue.done(&first);
        assert!(queue.add(b"f") && !queue.is_empty());
        assert_eq!(next(&queue).map(|batch| batch.bytes), Some(b"cd".to_vec()));
        assert!(next(&queue).is_none());
        queue.done(&Batch::default());
        queue.flush();
        assert_eq!(next(&queue), Some(Batch { bytes: b"f".to_vec(), spans: 1 }));
        queue.done(&Batch::default());
        // A reload, then the end.
        queue.begin();
        queue.begin();
        queue.end();
        assert!(queue.add(b"g") && next(&queue).is_none());
        queue.end();
        assert_eq!(next(&queue).map(|batch| batch.bytes), Some(b"g".to_vec()));
        queue.done(&Batch::default());
        assert!(queue.is_empty() && queue.add(b"h"));
        assert_eq!(next(&queue).map(|batch| batch.bytes), Some(b"h".to_vec()));
        assert!(queue.is_empty());
    }

    /// Large spans would otherwise be as much memory as a batch has spans times what a client sends.
    #[test]
    fn a_batch_is_bounded_in_bytes() {
        let queue = Queue::new(100, 4, 2);
        assert!(queue.add(b"abc") && next(&queue).is_none());
        assert!(queue.add(b"de"));
        assert_eq!(next(&queue), Some(Batch { bytes: b"abc".to_vec(), spans: 1 }));
        assert!(queue.add(b"fg") && !queue.add(b"hijkl"), "one that is too large alone closes nothing");
        // One is being sent, one is full: there is no third.
        assert!(!queue.add(b"h"));
        assert_eq!(next(&queue), Some(Batch { bytes: b"defg".to_vec(), spans: 2 }));
        queue.done(&Batch::default());
        assert!(queue.add(b"h") && !queue.is_empty());
    }

    /// Found by reading: the process ended while spans waited, or were on their way.
    #[test]
    fn who_ends_waits_for_the_spans_that_are_there() {
        let queue = Queue::new(2, 100, 4);
        let later = || Instant::now() + Duration::from_mins(1);
        queue.settle(later());
        assert!(queue.add(b"a") && queue.add(b"b") && queue.add(b"c"));
        std::thread::scope(|scope| {
            let settled = scope.spawn(|| queue.settle(later()));
            let mut sent = 0;
            while sent < 3 {
                // A moment for it to give up too soon.
                std::thread::yield_now();
                assert!(!settled.is_finished(), "{sent}");
                if let Some(batch) = next(&queue) {
                    sent += batch.spans;
                    if sent == 3 {
                        assert!(queue.add(b"d"), "what comes later is not waited for");
                    }
                    queue.done(&batch);
                }
            }
            settled.join().unwrap();
        });
        // A collector that does not answer holds nobody up for ever.
        queue.settle(Instant::now() + Duration::from_millis(10));
        assert!(!queue.is_empty());
    }
}
