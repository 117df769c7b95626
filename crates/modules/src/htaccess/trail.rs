//! What a request's files were judged by, and whether that still holds for what is answered with.
//!
//! Paths are looked at one after the other, so a folder that is renamed meanwhile shows a file without the `.htaccess` that closes it.
//! That is found by walking once more after the file was opened, from folder to folder by descriptors: each `.htaccess` is looked for in
//! the very folder that leads on, wherever that is by then.

use super::local::FILE;
use super::place::Place;
use crate::directory_overrides::files::shown;
use brisk_net::file::Kind;
use brisk_server::flow::Flow;
use brisk_server::plan::{Declared, Filter};
use brisk_server::request::Request;
use brisk_server::response::{Body, Piece};
use brisk_server::rlog;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
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
}

#[derive(Default)]
struct Slot(Option<Trail>);

impl Trail {
    /// Access was judged to the end, and is allowed.
    pub fn has_judged(r: &Request) {
        if let Some(trail) = Trail::of(r) {
            trail.is_judged.set(true);
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
                            return false;
                        }
                    }
                    (folder, from) = (Some(next), end);
                }
                // Folders that only a back end has are in order as long as nothing is there.
                Err(error) => return is_missing(error) && place.kind.is_none(),
            }
        }
        let Some(folder) = folder else { return true };
        match place.file.get(from..).unwrap_or_default() {
            // The place is the last folder.
            [] => place.kind == Some(Kind::Directory),
            name => identity(folder.as_fd(), name).is_ok_and(|found| found.is_some() == place.kind.is_some()),
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
        let is_file = matches!(r.resp.body, Body::One(Piece::File { .. }));
        if !is_file && r.resp.status != 200 {
            return None;
        }
        let trail = Trail::of(r)?;
        // A compressed file may stand for one that is not there.
        let is_there = trail.place.kind.is_some() || !is_file || r.resp.content_encoding.is_some();
        if is_there && trail.holds() {
            return None;
        }
        let refused = changed(r, &trail.place);
        // The page of the refusal is not of the place.
        r.state.visit.get_mut::<Slot>().0 = None;
        Some(Box::new(move |_| Box::pin(async move { refused })))
    }
}

/// The answer where folders have changed while they were looked at.
pub fn changed(r: &Request, place: &Place) -> Flow {
    rlog!(r, Error, "\"{}\" was moved or created while its .htaccess files were read", shown(&place.file));
    Flow::Status(503)
}
