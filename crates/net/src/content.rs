//! Bytes in memory that may stand in an open file, too: a plain socket is sent them from there without a copy.
//!
//! Memory stays what counts: the file is only a faster way to the same bytes. In each second in which it is used it is compared with them
//! first. Where it is no way to them (a session that seals, a part that is not in the kernel's memory, a file that was changed), the bytes
//! are sent.

use crate::limits::{PLACE_USES_MIN, PLACED_BYTES_MIN, PLACES_MAX};
use crate::{blocking, file};
use rustix::process::{Resource, getrlimit};
use std::fmt;
use std::ops::{Deref, Range};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Descriptors that all places of the process hold.
static PLACES: AtomicUsize = AtomicUsize::new(0);

/// [`PLACES_MAX`], or an eighth of the files that the process may open: connections come first.
fn places_max() -> usize {
    static MAX: OnceLock<usize> = OnceLock::new();
    *MAX.get_or_init(|| {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        PLACES_MAX.min(usize::try_from(files / 8).unwrap_or(PLACES_MAX))
    })
}

/// See the module's head.
pub struct Content {
    bytes: Arc<[u8]>,
    place: OnceLock<Place>,
}

/// Where the bytes stand in a file.
struct Place {
    /// Taken out by `Drop` alone.
    fd: Option<Arc<OwnedFd>>,
    offset: u64,
    /// The second (since 1970) that the next field is about.
    second: AtomicI64,
    /// How often it was asked for in it, or what a look at the file has come to.
    uses: AtomicU32,
}

/// In this second the file has the bytes, in the kernel's memory.
const IS_WHOLE: u32 = u32::MAX;
/// It has not.
const IS_NOT: u32 = u32::MAX - 1;

impl Place {
    /// Whether what is asked for so often that the look pays can be sent from the file in the second `now`: it has the same bytes, and no
    /// disk is waited for.
    fn is_whole(&self, bytes: &[u8], now: i64) -> bool {
        // Only read where nothing changes: threads share it.
        if self.second.load(Ordering::Relaxed) != now {
            self.second.store(now, Ordering::Relaxed);
            self.uses.store(0, Ordering::Relaxed);
        }
        // (Two threads may count one use, which does not matter.)
        match self.uses.load(Ordering::Relaxed) {
            IS_WHOLE => true,
            IS_NOT => false,
            uses if uses < PLACE_USES_MIN => {
                self.uses.store(uses + 1, Ordering::Relaxed);
                false
            }
            _ => {
                let is_whole = self.has(bytes);
                self.uses.store(if is_whole { IS_WHOLE } else { IS_NOT }, Ordering::Relaxed);
                is_whole
            }
        }
    }

    fn has(&self, bytes: &[u8]) -> bool {
        let Some(fd) = &self.fd else { return false };
        let (mut room, mut at) = ([0; 16 * 1024], self.offset);
        bytes.chunks(room.len()).all(|part| {
            let read = file::read_at_once(fd, &mut room[..part.len()], at);
            at += part.len() as u64;
            read.is_ok_and(|count| room[..count] == *part)
        })
    }
}

/// The last one to close a file that has no name any more has its blocks given back, which may take time: the pool does that.
impl Drop for Place {
    fn drop(&mut self) {
        PLACES.fetch_sub(1, Ordering::Relaxed);
        let Some(fd) = self.fd.take().and_then(Arc::into_inner) else { return };
        if rustix::fs::fstat(&fd).is_ok_and(|stat| stat.st_nlink == 0) {
            let _ = blocking::run(move || drop(fd));
        }
    }
}

impl Content {
    /// Bytes that stand in no file.
    pub fn new(bytes: Arc<[u8]>) -> Content {
        Content { bytes, place: OnceLock::new() }
    }

    /// The same bytes begin at `offset` of a file. It is kept open where that pays: from [`PLACED_BYTES_MIN`] on, and for [`PLACES_MAX`]
    /// at most. A change of the file in its place may reach clients in the same second, as with every file that sendfile(2)
    /// sends.
    pub fn stands_in(&self, fd: impl Into<Arc<OwnedFd>>, offset: u64) {
        if self.bytes.len() < PLACED_BYTES_MIN || self.place.get().is_some() {
            return;
        }
        // Counted before it is kept: several threads may do so at once.
        if PLACES.fetch_add(1, Ordering::Relaxed) >= places_max() {
            PLACES.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        // One that another thread has set meanwhile stays; this one is given back by its `Drop`.
        let place =
            Place { fd: Some(fd.into()), offset, second: AtomicI64::new(i64::MIN), uses: AtomicU32::new(0) };
        let _ = self.place.set(place);
    }

    /// The file and where `range` begins in it, if that can be sent without waiting for the disk; looked at in each second `now`.
    pub(crate) fn in_file(&self, range: &Range<usize>, now: i64) -> Option<(BorrowedFd<'_>, u64)> {
        let place = self.place.get()?;
        let is_in_file = range.len() >= PLACED_BYTES_MIN && place.is_whole(&self.bytes, now);
        Some((place.fd.as_ref().filter(|_| is_in_file)?.as_fd(), place.offset + range.start as u64))
    }
}

impl Deref for Content {
    type Target = Arc<[u8]>;

    #[inline]
    fn deref(&self) -> &Arc<[u8]> {
        &self.bytes
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Content {
        Content::new(bytes.into())
    }
}

/// By the bytes: where they stand does not matter.
impl PartialEq for Content {
    fn eq(&self, other: &Content) -> bool {
        self.bytes == other.bytes
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

/// Part of a content.
#[derive(Clone, Debug)]
pub struct Slice {
    of: Arc<Content>,
    range: Range<u32>,
}

impl Slice {
    /// Beyond the end of `of`, or of 4 GiB, there is nothing.
    pub fn new(of: Arc<Content>, range: Range<usize>) -> Slice {
        let at = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Slice { of, range: at(range.start)..at(range.end) }
    }

    /// All of a content.
    pub fn whole(of: Arc<Content>) -> Slice {
        let end = of.len();
        Slice::new(of, 0..end)
    }

    /// Part of this part.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Slice {
        let own = self.range();
        let at = |at: usize| own.end.min(own.start.saturating_add(at));
        Slice::new(self.of.clone(), at(range.start)..at(range.end))
    }

    fn range(&self) -> Range<usize> {
        self.range.start as usize..self.range.end as usize
    }

    /// As [`Content::in_file`].
    pub(crate) fn in_file(&self, now: i64) -> Option<(BorrowedFd<'_>, u64)> {
        self.of.in_file(&self.range(), now)
    }
}

impl Deref for Slice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.of.get(self.range()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Io, Stream};
    use std::fs::File;
    use std::io::{self, Read as _, Write as _};
    use std::os::unix::fs::FileExt as _;
    use std::os::unix::net::UnixStream;
    use std::sync::Mutex;

    const HEADER: u64 = 7;
    const LEN: usize = 3 * PLACED_BYTES_MIN;
    /// The places are the process's: one test at a time counts them.
    static ALONE: Mutex<()> = Mutex::new(());

    fn bytes() -> Vec<u8> {
        (0..LEN as u32).map(|at| (at / 7) as u8).collect()
    }

    /// A file without a name that holds the bytes behind a header.
    fn file(name: &str) -> File {
        let path = std::env::temp_dir().join(format!("brisk-content-{name}-{}", std::process::id()));
        let open = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let mut file = open.unwrap();
        file.write_all(&[&[0; HEADER as usize][..], &bytes()].concat()).unwrap();
        std::fs::remove_file(&path).unwrap();
        file
    }

    fn content(file: &File) -> Arc<Content> {
        let content = Content::from(bytes());
        content.stands_in(OwnedFd::from(file.try_clone().unwrap()), HEADER);
        Arc::new(content)
    }

    /// What arrives of a head and a slice that are sent in as many calls as it takes.
    fn sent(head: &[u8], body: &Slice) -> Vec<u8> {
        let (socket, mut peer) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let stream = Stream::from(Io::local(socket.into()));
        let now = crate::clock::now().unix_secs;
        (0..PLACE_USES_MIN).for_each(|_| _ = body.in_file(now));
        let (mut got, mut at) = (Vec::new(), 0);
        let mut room = vec![0; 64 * 1024];
        while got.len() < head.len() + body.len() {
            let rest = &head[at.min(head.len())..];
            let end = body.len().min(at.saturating_sub(head.len()));
            match stream.try_write_slice(rest, &body.part(end..body.len()), true) {
                Ok(count) => at += count,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            if got.len() < at {
                let count = peer.read(&mut room).unwrap();
                got.extend_from_slice(&room[..count]);
            }
        }
        assert_eq!(at, got.len());
        got
    }

    #[test]
    fn a_slice_arrives_from_where_it_stands() {
        let _alone = ALONE.lock().unwrap();
        let file = file("stands");
        let content = content(&file);
        // Looking costs more than a few copies.
        (0..PLACE_USES_MIN).for_each(|_| assert!(content.in_file(&(0..LEN), 1).is_none()));
        assert!(content.in_file(&(0..LEN), 1).is_some_and(|(_, at)| at == HEADER));
        assert!(content.in_file(&(5..LEN), 1).is_some_and(|(_, at)| at == HEADER + 5));
        // What is small is copied sooner.
        assert!(content.in_file(&(0..PLACED_BYTES_MIN - 1), 1).is_none());
        let part = Slice::new(content.clone(), 100..LEN).part(10..LEN);
        assert_eq!(part.len(), LEN - 110);
        assert!(sent(b"head", &part) == [b"head", &bytes()[110..]].concat());
        assert!(sent(b"", &Slice::whole(content)) == bytes());
    }

    #[test]
    fn what_the_file_has_lost_is_sent_from_memory() {
        let _alone = ALONE.lock().unwrap();
        let file = file("lost");
        let content = content(&file);
        let look = |now| (0..=PLACE_USES_MIN).any(|_| content.in_file(&(0..LEN), now).is_some());
        // It was seen whole in this second.
        assert!(look(crate::clock::now().unix_secs));
        file.set_len(HEADER + LEN as u64 / 2).unwrap();
        assert!(sent(b"head", &Slice::whole(content.clone())) == [b"head", &bytes()[..]].concat());
        // In the next one it is seen that it is not, nor when other bytes have come.
        assert!(!look(1));
        file.set_len(HEADER + LEN as u64).unwrap();
        assert!(!look(2));
        file.write_all_at(&bytes(), HEADER).unwrap();
        assert!(look(3));
    }

    #[test]
    fn no_more_files_are_kept_open_than_may_be() {
        let _alone = ALONE.lock().unwrap();
        let file = Arc::new(OwnedFd::from(file("many")));
        let place = |_| {
            let content = Content::from(bytes());
            content.stands_in(file.clone(), HEADER);
            content
        };
        let before = PLACES.load(Ordering::Relaxed);
        let many: Vec<Content> = (before..places_max() + 3).map(place).collect();
        assert_eq!(
            many.iter().filter(|content| content.place.get().is_some()).count(),
            places_max() - before
        );
        drop(many);
        assert_eq!(PLACES.load(Ordering::Relaxed), before);
        assert!(place(0).place.get().is_some());
    }
}
