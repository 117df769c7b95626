//! What a request's files were judged by, and whether that still holds for what is answered with.
//!
//! Paths are looked at one after the other, so a folder that is renamed meanwhile shows a file without the `.htaccess` that closes it.
//! That is found by walking once more after the file was opened, from folder to folder by descriptors: each `.htaccess` is looked for in
//! the very folder that leads on, wherever that is by then.
//!
//! What has changed is judged anew, since replacing files is no mistake of anybody's: a bounded number of times, then the answer is 503. The
//! request goes back to where its files were judged ([`Before::unjudged`]) and begins with the rules, behind everything that does not hang on
//! files and was asked before: rewrites, limits, access of the location.

use super::before::Before;
use super::carried::Carried;
use super::local::FILE;
use super::place::Place;
use crate::directory_overrides::files::shown;
use crate::limits::HTACCESS_JUDGED_ANEW_MAX;
use brisk_net::fault;
use brisk_net::file::{Kind, Symlinks, info, open_guarded};
use brisk_server::flow::Flow;
use brisk_server::plan::{Declared, Filter};
use brisk_server::request::Request;
use brisk_server::response::{Body, Piece, Response};
use brisk_server::{rlog, special};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::rc::Rc;

/// A file's file system and its number there.
pub type Identity = (u64, u64);

/// What was found of a folder's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// It was not looked for: files of the folder say nothing (`AllowOverride None`).
    NotAsked,
    /// There is none.
    Absent,
    /// It is this one.
    Found(Identity),
}

/// What was looked at to judge a URI.
#[derive(Clone)]
pub struct Trail {
    /// The URI.
    pub uri: Vec<u8>,
    /// Its judgement has come to its end: one that waits for a file or a compilation has not.
    pub is_judged: std::cell::Cell<bool>,
    /// Where it led.
    pub place: Rc<Place>,
    /// The file of each of the place's folders, in their order.
    pub files: Rc<[Judged]>,
    /// The URI came of `try_files`, after the steps before content.
    pub is_second: bool,
    /// How symbolic links were judged in parts of the place's path, and where each part ends.
    pub links: Vec<(Symlinks, usize)>,
}

/// Whether an answer is made of what was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Judged,
    /// Another file has taken the place since.
    Replaced,
    /// A folder on the way has another `.htaccess`, or is another one.
    Moved,
}

#[derive(Default)]
struct Slot(Option<Trail>);

impl Trail {
    /// Whether the files of what a request is for were judged to the end.
    pub fn was_judged(r: &Request) -> bool {
        Trail::of(r).is_some_and(|trail| trail.is_judged.get())
    }

    /// Access was judged to the end, and is allowed.
    pub fn has_judged(r: &Request) {
        if let Some(trail) = Trail::of(r) {
            trail.is_judged.set(true);
        }
    }

    /// How links were judged.
    pub fn links(r: &mut Request, links: Vec<(Symlinks, usize)>) {
        if let Some(trail) = &mut r.state.visit.get_mut::<Slot>().0 {
            trail.links = links;
        }
    }

    /// That of a request; `None` where nothing of the file system was judged.
    pub fn of(r: &Request) -> Option<&Trail> {
        r.state.visit.get::<Slot>()?.0.as_ref()
    }

    /// Keeps it.
    pub fn keep(self, r: &mut Request) {
        r.state.visit.get_mut::<Slot>().0 = Some(self);
    }

    /// Whether the folders that lead to the place have the files that were judged, and the place is still there or still not there.
    pub fn holds(&self) -> bool {
        self.verdict(None) == Verdict::Judged
    }

    /// The same of an answer that is made of a file, if that is given.
    fn verdict(&self, opened: Option<Identity>) -> Verdict {
        if opened.is_some() && fault::replaced(Path::new(OsStr::from_bytes(&self.place.file))) {
            return Verdict::Replaced;
        }
        let is_as_judged = |found: Option<Identity>| match (opened, found) {
            (Some(opened), Some(found)) if opened != found => Verdict::Replaced,
            _ if found.is_some() == self.place.kind.is_some() => Verdict::Judged,
            _ => Verdict::Moved,
        };
        let walked = self.walk(is_as_judged);
        if walked != Verdict::Judged {
            return walked;
        }
        for &(symlinks, end) in &self.links {
            let path = Path::new(OsStr::from_bytes(&self.place.file[..end]));
            let found = match open_guarded(path, symlinks).and_then(|file| info(&file)) {
                Ok(info) => (end == self.place.file.len()).then_some((info.device, info.inode)),
                // What must not be there is not.
                Err(error) if error.raw_os_error() == Some(2) && self.place.kind.is_none() => None,
                // It may be looked at and not be read, as a script of another user's.
                Err(error) if error.raw_os_error() == Some(13) && opened.is_none() => None,
                Err(_) => return Verdict::Moved,
            };
            if opened.is_some() && found.is_some() && opened != found {
                return Verdict::Replaced;
            }
        }
        Verdict::Judged
    }

    /// From folder to folder by descriptors.
    fn walk(&self, is_as_judged: impl Fn(Option<Identity>) -> Verdict) -> Verdict {
        let place = &self.place;
        let (mut folder, mut from): (Option<OwnedFd>, usize) = (None, 0);
        for (&end, judged) in place.folders.iter().zip(&*self.files) {
            let path = place.folder(end);
            let parent = folder.as_ref().map_or(CWD, AsFd::as_fd);
            match open_folder(parent, &path[from..]) {
                Ok(next) => {
                    if *judged != Judged::NotAsked {
                        let now = identity(next.as_fd(), FILE);
                        if now.map(|found| found.map_or(Judged::Absent, Judged::Found)) != Ok(*judged) {
                            return Verdict::Moved;
                        }
                    }
                    (folder, from) = (Some(next), end);
                }
                // Folders that only a back end has are in order as long as nothing is there.
                Err(error) if is_missing(error) && place.kind.is_none() => return Verdict::Judged,
                Err(_) => return Verdict::Moved,
            }
        }
        let Some(folder) = folder else { return Verdict::Judged };
        match place.file.get(from..).unwrap_or_default() {
            // The place is the last folder.
            [] if place.kind == Some(Kind::Directory) => Verdict::Judged,
            [] => Verdict::Moved,
            name => identity(folder.as_fd(), name).map_or(Verdict::Moved, is_as_judged),
        }
    }
}

fn open_folder(parent: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
    openat(parent, OsStr::from_bytes(path), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn is_missing(error: Errno) -> bool {
    matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG)
}

/// What has a name in a folder; `None`: nothing has.
fn identity(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Option<Identity>, Errno> {
    match statat(folder, OsStr::from_bytes(name), AtFlags::empty()) {
        Ok(found) => Ok(Some((found.st_dev, found.st_ino))),
        Err(error) if is_missing(error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Refuses an answer that was made of something else than what was judged.
pub struct Confirm;

impl Filter for Confirm {
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn filter(&self, _: &mut Request) {}

    fn wait(&self, r: &mut Request) -> Option<brisk_server::flow::Waiter> {
        let file = match &r.resp.body {
            Body::One(Piece::File { file, .. }) => Some((file.info.device, file.info.inode)),
            _ if r.resp.status == 200 => None,
            _ => return None,
        };
        let trail = Trail::of(r)?;
        // A compressed file may stand for the file, or for one that is not there.
        let is_other = r.resp.content_encoding.is_some();
        let verdict = if trail.place.kind.is_some() || file.is_none() || is_other {
            trail.verdict(file.filter(|_| !is_other))
        } else {
            Verdict::Moved
        };
        if verdict == Verdict::Judged {
            return None;
        }
        // What is no file may be what a script has done, which is not to do it twice.
        if file.is_some()
            && may_judge_anew(r)
            && let Some(before) = Before::unjudged(r)
        {
            return Some(Box::new(move |r| Box::pin(async move { judged_anew(r, &before) })));
        }
        let refused = changed(r, &trail.place);
        // The page of the refusal is not of the place.
        r.state.visit.get_mut::<Slot>().0 = None;
        Some(Box::new(move |_| Box::pin(async move { refused })))
    }
}

/// The answer to a script that is yet to be run, of whose folders one has changed.
pub fn changed_before_script(r: &mut Request, place: &Place) -> Flow {
    let own = Before::unjudged(r);
    // Where another location has handed it on, it is for that to say whether it is a script.
    let before = own.map(|own| {
        let carried = Carried::of(r);
        let carried = carried.borrow();
        carried.said.handed_for(own.uri()).and_then(|handed| handed.from.clone()).unwrap_or(own)
    });
    match before.filter(|_| may_judge_anew(r)) {
        Some(before) => judged_anew(r, &before),
        None => changed(r, place),
    }
}

fn may_judge_anew(r: &Request) -> bool {
    Carried::of(r).borrow().judged_anew < HTACCESS_JUDGED_ANEW_MAX
}

/// Has the request judged anew where it was before its files were. What has changed by renaming is whole, so nothing has to be waited for.
fn judged_anew(r: &mut Request, before: &Before) -> Flow {
    Carried::of(r).borrow_mut().judged_anew += 1;
    r.evidence.fetched.clear();
    r.thread.files.must_confirm();
    // A page of an error keeps what is said of the error.
    if r.reply.err_status == 0 {
        r.resp = Response::default();
    } else {
        special::clear(r);
    }
    // What handlers have kept is about what was judged, and so is what was looked up for rules.
    r.state.visit.clear();
    before.restore(r);
    Flow::Anew
}

/// The answer where folders change all the time while they are looked at.
fn changed(r: &Request, place: &Place) -> Flow {
    rlog!(r, Error, "\"{}\" was moved or created while its .htaccess files were read", shown(&place.file));
    Flow::Status(503)
}
