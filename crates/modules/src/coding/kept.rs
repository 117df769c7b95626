//! What the pool has compressed of small files, for the next requests of the same files.
//!
//! A level that takes its time is not carried out on the event loop, so that the first answer is compressed while it is sent. What
//! came of it is kept here: later answers have it as a whole, with a length, and may become prepared answers like those that were
//! compressed at once.
//!
//! What it is kept by is the file as this thread's cache of files has it, with its content. A file that has changed is another one there, so
//! nothing here is ever compared with the disk.

use super::encoder::Params;
use crate::limits::{KEPT_BODIES_BYTES_MAX, KEPT_BODIES_MAX};
use brisk_server::files::OpenFile;
use brisk_server::response::{Body, Piece};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;

thread_local! {
    static KEPT: RefCell<Kept> = const { RefCell::new(Kept { bodies: VecDeque::new(), bytes: 0 }) };
}

/// The file that is all of a body, if its content is in memory.
pub fn whole_file(body: &Body) -> Option<&Rc<OpenFile>> {
    // Of a part nothing is kept: the next request may ask for another.
    let Body::One(Piece::File { file, range }) = body else { return None };
    let length = file.content.as_ref()?.len() as u64;
    (*range == (0..length)).then_some(file)
}

/// What was kept of a file for an encoder with these parameters.
pub fn find(file: &Rc<OpenFile>, params: Params) -> Option<Arc<[u8]>> {
    // By its address: two files of the same content are two.
    KEPT.with_borrow(|kept| kept.find(&Rc::downgrade(file), params))
}

/// Gathers what is made of a file while it is sent.
pub struct Draft {
    file: Weak<OpenFile>,
    params: Params,
    coded: Vec<u8>,
}

impl Draft {
    /// Nothing has been made yet.
    pub fn of(file: &Rc<OpenFile>, params: Params) -> Draft {
        // (Weak here as well: a slow client must not keep a file that has changed.)
        Draft { file: Rc::downgrade(file), params, coded: Vec::new() }
    }

    /// More has been made.
    pub fn push(&mut self, coded: &[u8]) {
        self.coded.extend_from_slice(coded);
    }

    /// All has been made: it is kept, if the cache of files still has the file.
    pub fn keep(self) {
        KEPT.with_borrow_mut(|kept| kept.put(self));
    }
}

/// What one thread keeps, the oldest first.
struct Kept {
    bodies: VecDeque<Coded>,
    bytes: usize,
}

struct Coded {
    /// Weak: the cache of files decides how long a content stays. What is left of a file is its address, which no other file gets
    /// meanwhile.
    file: Weak<OpenFile>,
    params: Params,
    bytes: Arc<[u8]>,
}

impl Kept {
    fn find(&self, file: &Weak<OpenFile>, params: Params) -> Option<Arc<[u8]>> {
        let is_it = |coded: &&Coded| coded.params == params && coded.file.ptr_eq(file);
        self.bodies.iter().find(is_it).map(|coded| coded.bytes.clone())
    }

    fn put(&mut self, draft: Draft) {
        let Draft { file, params, coded } = draft;
        // Several requests may have compressed it at the same time.
        // A file that was dropped meanwhile will not be asked for by this address again.
        let is_of_use = file.strong_count() > 0 && coded.len() <= KEPT_BODIES_BYTES_MAX;
        if !is_of_use || self.find(&file, params).is_some() {
            return;
        }
        // Gone files first, so that no living one is dropped for them.
        self.bodies.retain(|body| body.file.strong_count() > 0);
        self.bytes = self.bodies.iter().map(|body| body.bytes.len()).sum::<usize>() + coded.len();
        while self.bodies.len() >= KEPT_BODIES_MAX || self.bytes > KEPT_BODIES_BYTES_MAX {
            let Some(oldest) = self.bodies.pop_front() else { break };
            self.bytes -= oldest.bytes.len();
        }
        self.bodies.push_back(Coded { file, params, bytes: coded.into() });
    }
}

#[cfg(test)]
mod tests {
    use super::super::encoder::tests::params;
    use super::*;
    use brisk_http::negotiate::Coding;
    use brisk_net::file;

    fn file(content: &[u8]) -> Rc<OpenFile> {
        // Tests run beside each other.
        let name = format!("brisk-kept-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, content).unwrap();
        let info = file::info(file::open(&path).unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        Rc::new(OpenFile { info, fd: None, content: Some(std::sync::Arc::new(content.to_vec().into())) })
    }

    fn keep(file: &Rc<OpenFile>, params: Params, coded: &[u8]) {
        let mut draft = Draft::of(file, params);
        coded.chunks(2).for_each(|part| draft.push(part));
        draft.keep();
    }

    #[test]
    fn a_body_is_found_by_its_file_and_by_how_it_was_made() {
        let (one, other) = (file(b"the same"), file(b"the same"));
        let six = params(Coding::Gzip);
        let nine = Params { level: 9, ..six };
        keep(&one, six, b"level six");
        keep(&one, nine, b"level nine");
        keep(&one, nine, b"made at the same time");
        assert_eq!(find(&one, six).as_deref(), Some(&b"level six"[..]));
        assert_eq!(find(&one, nine).as_deref(), Some(&b"level nine"[..]));
        assert_eq!(find(&one, Params { window: 9, ..nine }), None);
        assert_eq!(find(&one, params(Coding::Br)), None);
        // As it is after a change.
        assert_eq!(find(&other, six), None);
    }

    #[test]
    fn what_no_request_can_ask_for_is_not_kept() {
        let gone = file(b"x");
        let params = params(Coding::Br);
        let draft = Draft::of(&gone, params);
        drop(gone);
        draft.keep();
        KEPT.with_borrow(|kept| assert!(kept.bodies.is_empty()));
        let kept_for_a_while = file(b"x");
        keep(&kept_for_a_while, params, b"y");
        drop(kept_for_a_while);
        let stays = file(b"z");
        keep(&stays, params, b"z");
        KEPT.with_borrow(|kept| assert_eq!((kept.bodies.len(), kept.bytes), (1, 1)));
    }

    #[test]
    fn the_oldest_makes_room() {
        let params = params(Coding::Zstd);
        let files: Vec<_> = (0..KEPT_BODIES_MAX + 3).map(|_| file(b"x")).collect();
        files.iter().for_each(|file| keep(file, params, b"coded"));
        assert!(find(&files[2], params).is_none() && find(&files[3], params).is_some());
        KEPT.with_borrow(|kept| assert_eq!(kept.bytes, kept.bodies.len() * 5));
        let large = vec![0; KEPT_BODIES_BYTES_MAX];
        keep(&files[0], params, &large);
        KEPT.with_borrow(|kept| assert_eq!((kept.bodies.len(), kept.bytes), (1, large.len())));
        keep(&files[1], params, &[large, vec![0]].concat());
        assert!(find(&files[0], params).is_some() && find(&files[1], params).is_none());
    }

    #[test]
    fn parts_of_a_file_and_files_that_are_not_in_memory_are_none() {
        let whole = file(b"content");
        let on_disk = Rc::new(OpenFile { info: whole.info, fd: None, content: None });
        let body = |file: &Rc<OpenFile>, range| Body::One(Piece::File { file: file.clone(), range });
        assert!(whole_file(&body(&whole, 0..7)).is_some());
        for other in [
            body(&whole, 1..7),
            body(&whole, 0..6),
            body(&on_disk, 0..7),
            Body::bytes("content"),
            Body::Empty,
        ] {
            assert!(whole_file(&other).is_none());
        }
    }
}
