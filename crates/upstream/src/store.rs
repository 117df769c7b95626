//! `*_store`: an answer becomes a file while it is passed on.
//!
//! It changes no answer: what cannot be stored is passed on all the same, with a line in the log.

use crate::conf::{Settings, Store};
use crate::origin::Fetched;
use brisk_http::{HeaderId, date};
use brisk_net::Failure;
use brisk_net::blocking;
use brisk_net::replace::draft_of;
use brisk_server::core::LogLevel;
use brisk_server::in_memory::InMemory;
use brisk_server::log::Witness;
use brisk_server::path;
use brisk_server::request::Request;
use brisk_server::response::{Body, BodyStream, Chunk};
use brisk_server::temp_file::{Fate, TempError, TempFile};
use std::ffi::OsStr;
use std::future::{Future, poll_fn};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

/// Where a file goes and what it gets.
struct Place {
    path: PathBuf,
    access: u32,
    /// Seconds since 1970.
    modified: Option<i64>,
}

/// The same answer, with a body that also goes into a file, if it is to be stored.
pub(crate) fn wrap(settings: &Settings, r: &Request, mut fetched: Fetched) -> Fetched {
    // Only whole representations; a HEAD has none.
    // A part (206) or an error stored under the page's name would be served as the page.
    if fetched.head.status != 200 || fetched.tunnel || r.is_head() {
        return fetched;
    }
    // Found out now, while the request has its variables; the body outlives it.
    let path = match &settings.store {
        Store::Off => return fetched,
        // Where a static location of the same tree looks: the next request finds the file, and no back end is asked.
        Store::On => match path::map(r, 0) {
            Some(mapped) => mapped.path().to_path_buf(),
            None => return fetched,
        },
        // As the configuration writes it: variables in it are the administrator's responsibility, as in nginx.
        Store::Path(template) => PathBuf::from(OsStr::from_bytes(&template.eval(r))),
    };
    // An empty variable stores nothing for this request.
    if path.as_os_str().is_empty() {
        return fetched;
    }
    // Relative paths are below the prefix.
    let path = Path::new(&*r.snap().prefix).join(path);
    let modified = fetched.head.get(HeaderId::LastModified).and_then(date::parse_http_date);
    let place = Place { path, access: settings.store_access, modified };
    let temp = settings.temp_path(&r.snap().state_folder);
    let body = std::mem::take(&mut fetched.body);
    let storing = Storing {
        // The file needs bytes; a body that is a file itself is read for it.
        inner: InMemory::new(body),
        // The file is made when the body is first pulled, on the pool: nothing here waits for a disk.
        work: Some(Work::Make(Box::pin(async move { TempFile::create(&temp, Fate::Removed).await }))),
        place: Some(place),
        witness: Some(Witness::of(r)),
        given: None,
        over: false,
    };
    fetched.body = Body::Stream(Box::new(storing));
    fetched
}

type Job<T> = Pin<Box<dyn Future<Output = T>>>;

/// What is being done with the file. One thing at a time: each step takes the file and gives it back.
enum Work {
    Make(Job<Result<TempFile, TempError>>),
    Idle(TempFile),
    Write(Job<(TempFile, Result<(), TempError>)>),
    /// The file gets its name.
    /// On the pool: chmod, rename and mkdir may wait for a disk.
    Finish(Job<io::Result<()>>),
}

/// A body that is stored while it is pulled. If it is not pulled to its end, it pulls itself.
struct Storing {
    inner: InMemory,
    /// `None`: nothing is stored (any more).
    work: Option<Work>,
    place: Option<Place>,
    witness: Option<Witness>,
    /// Given to the file, not yet to the client.
    /// The file comes first, so that it never has less than the client.
    given: Option<Chunk>,
    over: bool,
}

impl Storing {
    /// Gives up storing.
    fn fail(&mut self, text: &dyn std::fmt::Display) {
        // Dropping the work removes the draft; the answer goes on without it.
        self.work = None;
        if let Some(witness) = &self.witness {
            witness.log(LogLevel::Crit, format_args!("{text} while reading upstream"));
        }
    }

    /// Drives what is being done with the file.
    fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.work {
            None | Some(Work::Idle(_)) => {}
            Some(Work::Make(job)) => match ready!(job.as_mut().poll(cx)) {
                Ok(file) => self.work = Some(Work::Idle(file)),
                Err(error) => self.fail(&error),
            },
            Some(Work::Write(job)) => {
                let (file, result) = ready!(job.as_mut().poll(cx));
                match result {
                    Ok(()) => self.work = Some(Work::Idle(file)),
                    Err(error) => self.fail(&error),
                }
            }
            Some(Work::Finish(job)) => {
                let result = ready!(job.as_mut().poll(cx));
                self.work = None;
                if let Err(error) = result {
                    self.fail(&error);
                }
            }
        }
        Poll::Ready(())
    }

    /// The file's content is complete: it gets its name.
    fn finish(&mut self) {
        let (Some(Work::Idle(file)), Some(place)) = (self.work.take(), self.place.take()) else { return };
        self.work = Some(Work::Finish(Box::pin(async move {
            let from = file.path().to_path_buf();
            let job = blocking::run(move || give_name(&from, &place));
            let result = match job {
                Ok(done) => done.await,
                Err(blocking::QueueFull) => Err(io::Error::other("the queue of the thread pool is full")),
            };
            // Held until here: dropping it removes the draft, which a copy to another disk has left.
            drop(file);
            result
        })));
    }
}

/// Moves a file to its place; folders are made as needed.
fn give_name(from: &Path, place: &Place) -> io::Result<()> {
    let named = |call: &str, path: &Path, error: &io::Error| {
        io::Error::other(format!("{call}() \"{}\" failed ({})", path.display(), brisk_conf::os_text(error)))
    };
    let rights = std::fs::Permissions::from_mode(place.access);
    // Before the rename: the file has its rights when it appears.
    std::fs::set_permissions(from, rights).map_err(|error| named("chmod", from, &error))?;
    if let Some(secs) = place.modified.and_then(|secs| u64::try_from(secs).ok()) {
        // nginx sets the back end's time, so that the file's validators are those of the answer.
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(secs);
        let file = std::fs::File::options().write(true).open(from);
        // Its time is no reason to have no file.
        let _ = file.and_then(|file| file.set_modified(time));
    }
    // rename(2) replaces the old file in one step: a reader sees one or the other.
    match std::fs::rename(from, &place.path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(folder) = place.path.parent() {
                // Only when the rename has failed for want of them: folders are mostly there.
                std::fs::create_dir_all(folder).map_err(|error| named("mkdir", folder, &error))?;
            }
            match std::fs::rename(from, &place.path) {
                Ok(()) => return Ok(()),
                // That the folder is on another disk is found only now: before, the call failed for want of it.
                Err(error) if error.kind() != io::ErrorKind::CrossesDevices => {
                    return Err(named("rename", &place.path, &error));
                }
                Err(_) => {}
            }
        }
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
        Err(error) => return Err(named("rename", &place.path, &error)),
    }
    // Another disk: the copy gets its name in one step too.
    // In the target's folder, so that the last step is a rename on one disk.
    let copy = draft_of(&place.path);
    let copied = std::fs::copy(from, &copy).map_err(|error| named("copy", &copy, &error));
    let placed = copied.and_then(|_| {
        std::fs::rename(&copy, &place.path).map_err(|error| named("rename", &place.path, &error))
    });
    if placed.is_err() {
        let _ = std::fs::remove_file(&copy);
    }
    placed
}

async fn write(mut file: TempFile, bytes: Vec<u8>) -> (TempFile, Result<(), TempError>) {
    let result = file.append(bytes).await.map(drop);
    (file, result)
}

impl BodyStream for Storing {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, Failure>>> {
        loop {
            // A slow disk holds the client up here: the answer is pulled no faster than it is stored.
            ready!(self.poll_work(cx));
            if let Some(chunk) = self.given.take() {
                return Poll::Ready(Some(Ok(chunk)));
            }
            if self.over {
                return Poll::Ready(None);
            }
            match ready!(self.inner.poll_chunk(cx)) {
                Some(Ok(chunk)) => {
                    let bytes = match &chunk {
                        Chunk::Piece(piece) => piece.in_memory().map(<[u8]>::to_vec),
                        // A flush is about the client's connection.
                        Chunk::Flush => None,
                    };
                    self.given = Some(chunk);
                    self.work = match (self.work.take(), bytes) {
                        (Some(Work::Idle(file)), Some(bytes)) => {
                            Some(Work::Write(Box::pin(write(file, bytes))))
                        }
                        (work, _) => work,
                    };
                }
                Some(Err(error)) => {
                    // A truncated answer is no file.
                    // Dropping the work removes the draft.
                    (self.work, self.over) = (None, true);
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    self.over = true;
                    // The loop goes on: the end is told only when the file has its name, so a client that asks next finds it.
                    self.finish();
                }
            }
        }
    }

    fn poll_ahead(&mut self, cx: &mut Context<'_>) {
        self.inner.poll_ahead(cx);
    }
}

impl Drop for Storing {
    fn drop(&mut self) {
        // Nothing to be done for a file that is complete, or will never be.
        if self.work.is_none() || self.over && !matches!(self.work, Some(Work::Finish(_))) {
            return;
        }
        // The thread is ending: no task would run.
        if brisk_net::Loop::try_current().is_none() {
            return;
        }
        // The client has gone: the rest is read for the file, as nginx does.
        let mut rest = Storing {
            inner: std::mem::replace(&mut self.inner, InMemory::new(Body::Empty)),
            work: self.work.take(),
            place: self.place.take(),
            witness: self.witness.take(),
            given: None,
            over: self.over,
        };
        brisk_net::spawn(async move { while let Some(Ok(_)) = poll_fn(|cx| rest.poll_chunk(cx)).await {} });
    }
}
