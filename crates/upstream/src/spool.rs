//! An answer that waits for its client: in memory, then in a temporary file.
//!
//! It knows neither back end nor client, only bytes in order. The disk is never waited for in a poll.

use crate::limits::TOGETHER_BYTES_MAX;
use brisk_server::core::TempPath;
use brisk_server::temp_file::{Fate, TempError, TempFile};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Bytes read back from the file at a time.
const READ_BYTES: usize = 64 * 1024;

/// How much may wait where.
#[derive(Clone)]
pub struct SpoolLimits {
    /// Bytes that may wait in memory.
    pub memory_bytes_max: usize,
    /// 0: no file.
    pub file_bytes_max: u64,
    /// Bytes that are written to the file at a time.
    pub write_bytes: usize,
    /// Where the file is made.
    pub place: Arc<TempPath>,
}

type Written = (Option<TempFile>, Result<(), TempError>);
type ReadBack = (TempFile, Result<Vec<u8>, TempError>);

/// One job at a time: the file travels with the job and comes back with its result.
enum Disk {
    /// There is no file.
    None,
    Idle(TempFile),
    Writing(Pin<Box<dyn Future<Output = Written>>>),
    Reading(Pin<Box<dyn Future<Output = ReadBack>>>),
    Failed,
}

/// Bytes in the order they came: `front`, then what is in the file, then `tail`.
/// The file never has a gap: while part of it was not read back, new bytes go to `tail`, which is written behind it.
pub struct Spool {
    limits: SpoolLimits,
    front: VecDeque<Vec<u8>>,
    front_bytes: usize,
    disk: Disk,
    /// Bytes in the file, and how many of them were read back.
    /// Bytes that were read back are not freed in the file: it grows up to `*_max_temp_file_size`, as nginx's.
    written: u64,
    read: u64,
    tail: Vec<u8>,
}

/// What [`Spool::poll_next`] gives.
pub enum Next {
    /// These bytes, in memory.
    Bytes(Vec<u8>),
    /// There is nothing.
    Empty,
}

impl Spool {
    /// Empty.
    pub fn new(limits: SpoolLimits) -> Spool {
        Spool {
            limits,
            front: VecDeque::new(),
            front_bytes: 0,
            disk: Disk::None,
            written: 0,
            read: 0,
            tail: Vec::new(),
        }
    }

    /// Whether bytes that come now must stay behind what is in the file, or on its way there.
    pub fn is_on_disk(&self) -> bool {
        self.read < self.written || matches!(self.disk, Disk::Writing(_) | Disk::Reading(_))
    }

    /// Takes bytes that have come.
    pub fn push(&mut self, bytes: Vec<u8>) {
        // Behind what is on the disk, or bytes would overtake others.
        if self.is_on_disk() || !self.tail.is_empty() {
            self.tail.extend_from_slice(&bytes);
        } else {
            self.front_bytes += bytes.len();
            match self.front.back_mut() {
                // Small parts leave in one write.
                Some(last) if last.len() + bytes.len() <= TOGETHER_BYTES_MAX => {
                    last.extend_from_slice(&bytes);
                }
                _ => self.front.push_back(bytes),
            }
        }
    }

    /// Bytes that wait in memory.
    pub fn memory(&self) -> usize {
        self.front_bytes + self.tail.len()
    }

    /// Whether no more should be taken now.
    pub fn is_full(&self) -> bool {
        self.memory() >= self.limits.memory_bytes_max
    }

    /// Makes room by writing to the file; true if something has been begun.
    pub fn spill(&mut self) -> bool {
        // Only what lies behind the file's end can be added to it; the front leaves before that.
        let waiting = if self.is_on_disk() { self.tail.len() } else { self.front_bytes };
        // Against the sum ever written, since what was read back is not freed.
        let fits = self.written + waiting as u64 <= self.limits.file_bytes_max;
        // Not for a few bytes: each write is a job of the pool.
        if waiting == 0 || !fits || waiting < self.limits.write_bytes.min(self.limits.memory_bytes_max) {
            return false;
        }
        let file = match std::mem::replace(&mut self.disk, Disk::None) {
            Disk::None => None,
            Disk::Idle(file) => Some(file),
            // One job at a time: each takes the file along.
            busy => {
                self.disk = busy;
                return false;
            }
        };
        let bytes = if self.read < self.written {
            std::mem::take(&mut self.tail)
        } else {
            // The front leaves first, so all of it goes; what is being sent at this moment is with the sender.
            self.front_bytes = 0;
            let mut all = Vec::with_capacity(waiting);
            self.front.drain(..).for_each(|part| all.extend_from_slice(&part));
            all.append(&mut self.tail);
            all
        };
        // Counted when it is begun: `is_on_disk` keeps order from here on.
        self.written += bytes.len() as u64;
        let place = self.limits.place.clone();
        self.disk = Disk::Writing(Box::pin(write(file, place, bytes)));
        true
    }

    /// Drives what was begun. Ready when nothing is being done.
    pub fn poll_disk(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TempError>> {
        match &mut self.disk {
            Disk::Writing(work) => {
                let (file, result) = ready!(work.as_mut().poll(cx));
                self.disk = match (file, &result) {
                    // Bytes behind the gap are never given out: `poll_next` says that nothing is left, and
                    // the error ends the answer.
                    (Some(file), Ok(())) => Disk::Idle(file),
                    // A file of which a part could not be written has a gap.
                    _ => Disk::Failed,
                };
                Poll::Ready(result)
            }
            Disk::Reading(work) => {
                let (file, result) = ready!(work.as_mut().poll(cx));
                // The file itself is whole: only this read has failed.
                self.disk = Disk::Idle(file);
                let bytes = result?;
                self.read += bytes.len() as u64;
                self.front_bytes += bytes.len();
                self.front.push_back(bytes);
                Poll::Ready(Ok(()))
            }
            Disk::None | Disk::Idle(_) | Disk::Failed => Poll::Ready(Ok(())),
        }
    }

    /// The oldest bytes.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Next, TempError>> {
        loop {
            if let Some(bytes) = self.front.pop_front() {
                self.front_bytes -= bytes.len();
                return Poll::Ready(Ok(Next::Bytes(bytes)));
            }
            ready!(self.poll_disk(cx))?;
            if !self.front.is_empty() {
                continue;
            }
            // Everything from the file was given out: what waits behind it is in memory.
            if self.read == self.written {
                let tail = std::mem::take(&mut self.tail);
                return Poll::Ready(Ok(if tail.is_empty() { Next::Empty } else { Next::Bytes(tail) }));
            }
            match std::mem::replace(&mut self.disk, Disk::Failed) {
                Disk::Idle(file) => self.disk = Disk::Reading(Box::pin(read_back(file, self.read))),
                // A failed disk has told of it when it failed.
                _ => return Poll::Ready(Ok(Next::Empty)),
            }
        }
    }

    /// The path of the file, once it was written.
    pub fn path(&self) -> Option<String> {
        match &self.disk {
            Disk::Idle(file) => Some(file.path().display().to_string()),
            _ => None,
        }
    }
}

async fn write(file: Option<TempFile>, place: Arc<TempPath>, bytes: Vec<u8>) -> Written {
    let mut file = match file {
        Some(file) => file,
        // Unlinked at once: nobody else is to read it, and a process that dies leaves nothing behind.
        None => match TempFile::create(&place, Fate::Unlinked).await {
            Ok(file) => file,
            Err(error) => return (None, Err(error)),
        },
    };
    let result = file.append(bytes).await.map(drop);
    (Some(file), result)
}

async fn read_back(file: TempFile, at: u64) -> ReadBack {
    let result = match file.read(at, READ_BYTES).await {
        // More was written than is there: an end here would look like the end of the answer.
        Ok(bytes) if bytes.is_empty() => Err(std::io::ErrorKind::UnexpectedEof.into()),
        result => result,
    };
    let result = result.map_err(TempError::reading(&file));
    (file, result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    fn parts_of(pushed: &[usize]) -> Vec<usize> {
        let place = TempPath { path: String::new(), levels: Vec::new() };
        let limits =
            SpoolLimits { memory_bytes_max: 1 << 20, file_bytes_max: 0, write_bytes: 1, place: place.into() };
        let mut spool = Spool::new(limits);
        pushed.iter().for_each(|count| spool.push(vec![0; *count]));
        assert_eq!(spool.memory(), pushed.iter().sum());
        let mut cx = Context::from_waker(Waker::noop());
        std::iter::from_fn(|| match spool.poll_next(&mut cx) {
            Poll::Ready(Ok(Next::Bytes(bytes))) => Some(bytes.len()),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn small_parts_are_put_together_and_large_ones_are_not_copied() {
        assert_eq!(parts_of(&[10, 20, 30]), [60]);
        assert_eq!(parts_of(&[8192; 5]), [4 * 8192, 8192]);
        assert_eq!(parts_of(&[8192, 65536, 10, 10]), [8192, 65536, 20]);
    }
}
