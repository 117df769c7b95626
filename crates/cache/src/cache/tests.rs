//! The cache with a disk below it.

use super::*;
use crate::disk::Want;
use crate::disk::tests::Folder;
use crate::fill::{Chunk, Combined, Fill, Merge, Reader};
use crate::format::tests::meta;
use crate::housekeeping::Pace;
use brisk_cachepolicy::partial::{self, Part};
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Instant;

fn settings() -> Settings {
    Settings {
        bytes_max: None,
        entries_max: 100_000,
        inactive: Duration::from_mins(10),
        min_free: 0,
        memory_bytes_max: 1 << 20,
        loader: None,
        manager: None,
        purger: None,
    }
}

fn cache(folder: &Folder, settings: Settings) -> Arc<Cache> {
    clock::refresh();
    let cache = Cache::new(&folder.0, &[1, 2], settings);
    cache.set_warm();
    cache
}

/// Waits for a future that the pool brings on.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}

/// Waits for a condition.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn quiet() -> Report {
    Arc::new(|_: &str| {})
}

fn now() -> i64 {
    disk::unix_now()
}

fn key_meta(cache: &Cache, key: &str) -> Meta {
    Meta { began: cache.stamp(), part: None, ..meta(key.as_bytes()) }
}

/// Everything a reader gives now, and whether it has come to its end.
fn read(reader: &mut Reader) -> (Vec<u8>, Option<io::Result<()>>) {
    let mut out = Vec::new();
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        match reader.poll_chunk(&mut cx) {
            Poll::Ready(Some(Ok(Chunk::Bytes(bytes)))) => out.extend_from_slice(&bytes),
            Poll::Ready(Some(Ok(Chunk::File { fd, start, end }))) => {
                let mut bytes = vec![0; (end - start) as usize];
                assert_eq!(file::read_cold(&*fd, &mut bytes, start).unwrap(), bytes.len());
                out.extend_from_slice(&bytes);
            }
            Poll::Ready(Some(Err(error))) => return (out, Some(Err(error))),
            Poll::Ready(None) => return (out, Some(Ok(()))),
            Poll::Pending => return (out, None),
        }
    }
}

fn store(cache: &Arc<Cache>, key: &str, body: &[u8]) -> Option<Arc<Object>> {
    let (mut fill, _) =
        Fill::begin(cache, Digest::of(key.as_bytes()), Some(key_meta(cache, key)), None, quiet());
    for piece in body.chunks(10_000) {
        if !wait(fill.push(piece.into())) {
            break;
        }
    }
    let object = wait(fill.finish());
    if let Some(object) = &object {
        until("its file", || object.identity.get().is_some());
    }
    object
}

fn body_of(object: &Object) -> Vec<u8> {
    match &object.body {
        Body::Memory(bytes) => bytes.to_vec(),
        Body::File { fd, offset, len } => {
            let mut bytes = vec![0; *len as usize];
            file::read_cold(&**fd, &mut bytes, *offset).unwrap();
            bytes
        }
    }
}

fn text(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n / 7) as u8).collect()
}

#[test]
fn what_is_stored_is_found_in_memory_and_by_the_next_process() {
    let folder = Folder::new("found");
    for (key, size) in [("empty", 0), ("small", 100), ("medium", 70_000), ("large", 3_000_000)] {
        let body = text(size);
        let first = cache(&folder, settings());
        store(&first, key, &body).unwrap();
        let digest = Digest::of(key.as_bytes());
        let Found::Object(object) = first.find(digest, now(), false) else { panic!("{key}") };
        assert!(body_of(&object) == body, "{key}");
        let second = cache(&folder, settings());
        assert!(matches!(second.find(digest, now(), false), Found::Nothing(_)));
        let _held = second.clone();
        second.learn();
        assert!(matches!(second.find(digest, now(), false), Found::Load(_)));
        let object = wait(second.load(digest)).unwrap().unwrap();
        assert!(body_of(&object) == body, "{key}");
        assert!(matches!(second.find(digest, now(), false), Found::Object(_)));
    }
}

#[test]
fn readers_get_everything_whatever_their_pace() {
    let folder = Folder::new("pace");
    let cache = cache(&folder, settings());
    let body = text(2_000_000);
    let (mut fill, mut eager) =
        Fill::begin(&cache, Digest::of(b"a"), Some(key_meta(&cache, "a")), None, quiet());
    let mut have = Vec::new();
    for piece in body.chunks(30_000) {
        wait(fill.push(piece.into()));
        have.extend(read(&mut eager).0);
        assert!(have.len() % 30_000 == 0 || have.len() == body.len(), "each piece comes at once");
    }
    wait(fill.finish()).unwrap();
    have.extend(read(&mut eager).0);
    assert!(have == body);
    let (mut fill, mut lazy) =
        Fill::begin(&cache, Digest::of(b"b"), Some(key_meta(&cache, "b")), Some(2_000_000), quiet());
    for piece in body.chunks(30_000) {
        wait(fill.push(piece.into()));
    }
    let (mut have, end) = read(&mut lazy);
    assert!(have.len() < body.len() && end.is_none(), "the last piece waits until it is stored");
    wait(fill.finish()).unwrap();
    let (rest, end) = read(&mut lazy);
    have.extend(rest);
    assert!(have == body && matches!(end, Some(Ok(()))));
}

#[test]
fn truncated_and_broken_answers_are_not_stored() {
    let folder = Folder::new("truncated");
    let cache = cache(&folder, settings());
    for size in [100, 500_000] {
        let (mut fill, mut reader) = Fill::begin(
            &cache,
            Digest::of(b"a"),
            Some(key_meta(&cache, "a")),
            Some(size as u64 + 1),
            quiet(),
        );
        wait(fill.push(text(size).into()));
        assert!(wait(fill.finish()).is_none());
        assert_eq!(read(&mut reader).0.len(), size);
        let (mut fill, mut reader) =
            Fill::begin(&cache, Digest::of(b"a"), Some(key_meta(&cache, "a")), None, quiet());
        wait(fill.push(text(size).into()));
        fill.fail("gone");
        assert!(matches!(read(&mut reader).1, Some(Err(_))));
        let (mut fill, _) = Fill::begin(&cache, Digest::of(b"a"), Some(key_meta(&cache, "a")), None, quiet());
        wait(fill.push(text(size).into()));
        drop(fill);
    }
    assert!(matches!(cache.find(Digest::of(b"a"), now(), false), Found::Nothing(_)));
    let files = || {
        let mut count = 0;
        disk::scan(&folder.0, 2, Want::Names, &mut |_| {
            count += 1;
            true
        })
        .unwrap();
        count
    };
    until("no file is left", || files() == 0);
}

#[test]
fn what_is_not_stored_waits_for_its_reader() {
    let folder = Folder::new("through");
    let cache = cache(&folder, settings());
    let (mut fill, mut reader) = Fill::begin(&cache, Digest::of(b"a"), None, None, quiet());
    let mut cx = Context::from_waker(Waker::noop());
    let mut pushed = 0;
    loop {
        let mut push = pin!(fill.push(vec![0; 50_000].into()));
        pushed += 50_000;
        if push.as_mut().poll(&mut cx).is_pending() {
            break;
        }
    }
    assert!((200_000..400_000).contains(&pushed), "{pushed} bytes wait");
    assert_eq!(read(&mut reader).0.len(), pushed);
    drop(reader);
    assert!(!wait(fill.push(vec![0; 10].into())), "nobody is left");
}

#[test]
fn removing_the_file_is_a_purge_within_a_second() {
    let folder = Folder::new("unlink");
    let cache = cache(&folder, settings());
    let object = store(&cache, "a", b"hello").unwrap();
    let digest = object.digest;
    std::fs::remove_file(cache.path(digest)).unwrap();
    let later = now() + 2;
    match cache.find(digest, later, false) {
        Found::Nothing(_) => {}
        // The kernel could not say it from its memory: the disk is asked.
        Found::Load(_) => assert!(wait(cache.load(digest)).unwrap().is_none()),
        _ => panic!("the file is gone"),
    }
    assert!(!object.flag.is_up());
    assert_eq!(cache.stats().entries, 0);
}

#[test]
fn a_folder_that_is_gone_is_made_anew() {
    let folder = Folder::new("deleted");
    let cache = cache(&folder, settings());
    for size in [100, 300_000] {
        store(&cache, "a", &text(size)).unwrap();
        std::fs::remove_dir_all(&folder.0).unwrap();
        let digest = Digest::of(b"a");
        assert!(matches!(cache.find(digest, now() + 3, false), Found::Nothing(_) | Found::Load(_)));
        assert!(wait(cache.load(digest)).unwrap().is_none());
        store(&cache, "a", &text(size)).unwrap();
        assert!(cache.path(digest).exists());
    }
}

#[test]
fn purges_hide_at_once() {
    let folder = Folder::new("purge");
    let cache = cache(&folder, settings());
    let found = |cache: &Arc<Cache>, key: &str| {
        let digest = Digest::of(key.as_bytes());
        match cache.find(digest, now(), false) {
            Found::Object(_) => true,
            Found::Load(_) => wait(cache.load(digest)).unwrap().is_some(),
            _ => false,
        }
    };
    let all = ["/a/1", "/a/2", "/b/1"];
    let fill = || all.iter().for_each(|key| drop(store(&cache, key, b"x").unwrap()));
    let have = |cache: &Arc<Cache>| all.map(|key| found(cache, key));
    fill();
    assert!(wait(cache.purge_key(Digest::of(b"/a/1"))) && !wait(cache.purge_key(Digest::of(b"/a/1"))));
    assert_eq!(have(&cache), [false, true, true]);
    fill();
    // What is on disk only is hidden too, also from the next process.
    for key in all {
        cache.index.forget_object(Digest::of(key.as_bytes()));
    }
    cache.purge(Pattern::Prefix(b"/a/"[..].into()));
    assert_eq!(have(&cache), [false, false, true]);
    until("rules are kept", || folder.0.join(".purges").exists());
    let next = super::Cache::new(&folder.0, &[1, 2], settings());
    let _held = next.clone();
    next.load_rules();
    assert_eq!(have(&next), [false, false, true], "while the disk is being read");
    next.learn();
    assert_eq!(have(&next), [false, false, true]);
    fill();
    assert_eq!(have(&cache), [true; 3], "what is stored afterwards is not hidden");
    cache.purge(Pattern::Tag(b"b"[..].into()));
    assert_eq!(have(&cache), [false; 3]);
    fill();
    cache.purge(Pattern::All);
    assert_eq!(have(&cache), [false; 3]);
}

/// They were loaded after the names: until then what was purged came back.
#[test]
fn purges_of_another_process_hold_from_the_start() {
    let folder = Folder::new("rules");
    std::fs::create_dir_all(&folder.0).unwrap();
    let first = cache(&folder, settings());
    first.rules.add(Rule { pattern: Pattern::All, stamp: disk::unix_now_ms() * STAMPS_PER_MS });
    first.save_rules();
    let next = super::Cache::new(&folder.0, &[1, 2], settings());
    next.start();
    assert_eq!(next.rules.count(), 1);
}

/// A file that could not be read was taken for none: what was purged came back.
#[test]
fn purges_that_are_not_known_are_purges_of_everything() {
    let folder = Folder::new("unknown-rules");
    std::fs::create_dir_all(&folder.0).unwrap();
    let path = folder.0.join(".purges");
    let is_empty = || {
        let next = super::Cache::new(&folder.0, &[1, 2], settings());
        next.load_rules();
        next.rules.all().iter().any(|rule| rule.pattern == Pattern::All)
    };
    assert!(!is_empty());
    for (text, want) in [(&b"5 tag 61\n"[..], false), (b"5 tag 61\nwhat\n", true), (b"\xff\n", true)] {
        std::fs::write(&path, text).unwrap();
        assert_eq!(is_empty(), want, "{}", text.escape_ascii());
    }
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(is_empty());
}

/// Their sizes are asked for after their names.
#[test]
fn the_loader_learns_names_and_sizes() {
    let folder = Folder::new("sizes");
    let first = cache(&folder, settings());
    for (key, size) in [("a", 100), ("b", 70_000), ("c", 9000)] {
        store(&first, key, &text(size)).unwrap();
    }
    let want = (first.stats().entries, first.stats().disk_bytes);
    let pace = Pace { files: 2, sleep: Duration::ZERO, threshold: Duration::from_secs(1) };
    for loader in [None, Some(pace)] {
        let next = super::Cache::new(&folder.0, &[1, 2], Settings { loader, ..settings() });
        let _held = next.clone();
        next.learn();
        assert_eq!((next.stats().entries, next.stats().disk_bytes), want);
    }
}

#[test]
fn an_answer_that_was_asked_for_before_the_purge_is_not_stored() {
    let folder = Folder::new("race");
    let cache = cache(&folder, settings());
    let digest = Digest::of(b"a");
    let (fill, _) = Fill::begin(&cache, digest, Some(key_meta(&cache, "a")), None, quiet());
    wait(cache.purge_key(digest));
    assert!(wait(fill.finish()).is_none());
    let (fill, _) = Fill::begin(&cache, digest, Some(key_meta(&cache, "a")), None, quiet());
    cache.purge(Pattern::All);
    assert!(wait(fill.finish()).is_none());
}

/// Between the moment at which a large answer's file has its place and that at which its client is told.
#[test]
fn an_answer_that_is_purged_while_its_file_gets_its_place_is_not_stored() {
    for _ in 0..20 {
        let folder = Folder::new("race-file");
        let cache = cache(&folder, settings());
        let digest = Digest::of(b"a");
        let (mut fill, mut reader) = Fill::begin(&cache, digest, Some(key_meta(&cache, "a")), None, quiet());
        for piece in text(150_000).chunks(50_000) {
            assert!(wait(fill.push(piece.into())));
            read(&mut reader);
        }
        let mut finish = Box::pin(fill.finish());
        let mut cx = Context::from_waker(Waker::noop());
        let mut is_done = false;
        while !is_done && !cache.path(digest).exists() {
            is_done = finish.as_mut().poll(&mut cx).is_ready();
        }
        wait(cache.purge_key(digest));
        if !is_done {
            wait(finish);
        }
        assert!(!matches!(cache.find(digest, now(), false), Found::Object(_)));
        until("its file to go", || !cache.path(digest).exists());
    }
}

/// A purge removes the file of the old entry, not that of an entry which takes its place meanwhile.
#[test]
fn a_purge_never_takes_the_next_entrys_file() {
    for size in [100, 150_000] {
        let folder = Folder::new("race-next");
        let cache = cache(&folder, settings());
        let digest = Digest::of(b"a");
        for _ in 0..200 {
            store(&cache, "a", &text(size)).unwrap();
            cache.purge_key_soon(digest);
            store(&cache, "a", &text(size)).unwrap();
            until("the file of the entry that is there", || cache.path(digest).exists());
            cache.purge(Pattern::All);
        }
        store(&cache, "a", &text(size)).unwrap();
        until("the last file", || cache.path(digest).exists());
    }
}

#[test]
fn byte_limits_are_kept() {
    let folder = Folder::new("limits");
    let limit = 20 * BLOCK_BYTES;
    let cache = cache(&folder, Settings { bytes_max: Some(limit), memory_bytes_max: 20_000, ..settings() });
    for number in 0..100 {
        store(&cache, &format!("/{number}"), &text(3000));
        assert!(cache.stats().disk_bytes <= limit + BLOCK_BYTES, "{:?}", cache.stats());
        assert!(cache.stats().memory_bytes <= 20_000, "{:?}", cache.stats());
    }
    let stats = cache.stats();
    assert!(stats.entries >= 15 && stats.evicted >= 75, "{stats:?}");
    let mut bytes = 0;
    disk::scan(&folder.0, 2, Want::Sizes { temp_age_s: i64::MAX }, &mut |seen| {
        bytes += u64::from(blocks(seen.bytes.unwrap())) * BLOCK_BYTES;
        true
    })
    .unwrap();
    assert!(bytes <= limit + BLOCK_BYTES, "{bytes}");
    // What is larger than all of it passes through.
    assert!(store(&cache, "large", &text(limit as usize + 1)).is_none());
}

#[test]
fn answers_on_their_way_count_too() {
    let folder = Folder::new("on-the-way");
    let cache = cache(&folder, Settings { bytes_max: Some(2 << 20), ..settings() });
    for n in 0..3 {
        store(&cache, &format!("old{n}"), &text(500_000)).unwrap();
    }
    // Eight at once, none of them complete.
    let mut fills = Vec::new();
    for n in 0..8 {
        let key = format!("new{n}");
        let (mut fill, reader) =
            Fill::begin(&cache, Digest::of(key.as_bytes()), Some(key_meta(&cache, &key)), None, quiet());
        for _ in 0..8 {
            if !fill.is_stored() {
                // From here on it would wait for its reader.
                break;
            }
            wait(fill.push(text(64 << 10).into()));
            assert!(cache.index.disk_bytes() + cache.on_the_way.load(Ordering::Relaxed) <= 2 << 20);
        }
        fills.push((fill, reader));
    }
    let stored = fills.iter().filter(|(fill, _)| fill.is_stored()).count();
    assert!((3..=4).contains(&stored), "{stored} of 8 have room, the others only pass through");
    drop(fills);
    until("nothing is on its way", || cache.on_the_way.load(Ordering::Relaxed) == 0);
    assert!(store(&cache, "again", &text(500_000)).is_some());
}

#[test]
fn a_freshened_entry_keeps_its_body() {
    let folder = Folder::new("freshen");
    let first = cache(&folder, settings());
    for size in [100, 300_000] {
        for more_head in [0, 5000] {
            let object = store(&first, "a", &text(size)).unwrap();
            let head = [&object.meta.head[..], &text(more_head)].concat().into();
            let newer = Meta { status: 203, head, ..object.meta.clone() };
            let fresh = first.freshen(&object, newer.clone(), quiet());
            assert!(!object.flag.is_up() && fresh.flag.is_up());
            assert!(body_of(&fresh) == text(size) && fresh.meta == newer);
            let next = || {
                let second = cache(&folder, settings());
                wait(second.load(object.digest)).unwrap().unwrap()
            };
            until("the disk follows", || next().meta == newer);
            assert!(body_of(&next()) == text(size));
        }
    }
}

/// The file was read before the purge, and comes into memory behind it.
#[test]
fn a_purge_while_an_entry_is_loaded_holds() {
    for purges_all in [false, true] {
        let folder = Folder::new("load-purge");
        let digest = store(&cache(&folder, settings()), "a", &text(100)).unwrap().digest;
        let cache = cache(&folder, settings());
        until("its file", || cache.path(digest).exists());
        let mut cx = Context::from_waker(Waker::noop());
        // The pool may be done at once.
        let load = (0..1000).find_map(|_| {
            let mut load = Box::pin(cache.load(digest));
            let is_pending = load.as_mut().poll(&mut cx).is_pending();
            cache.index.forget_object(digest);
            is_pending.then_some(load)
        });
        let load = load.expect("once the pool takes a moment");
        if purges_all {
            cache.purge(Pattern::All);
        } else {
            wait(cache.purge_key(digest));
        }
        assert!(wait(load).unwrap().is_none());
        assert!(!matches!(cache.find(digest, now(), false), Found::Object(_)));
    }
}

/// A 304 that was asked for before a purge does not bring back what was purged, nor what has left its place to another answer.
#[test]
fn a_purge_while_an_entry_is_revalidated_holds() {
    for (size, more_head) in [(100, 0), (100, 5000), (300_000, 0), (300_000, 5000)] {
        let folder = Folder::new("freshen-purge");
        let cache = cache(&folder, settings());
        let digest = Digest::of(b"a");
        for purges_all in [false, true] {
            let object = store(&cache, "a", &text(size)).unwrap();
            let head = [&object.meta.head[..], &text(more_head)].concat().into();
            let newer = Meta { status: 203, head, began: cache.stamp(), ..object.meta.clone() };
            if purges_all {
                cache.purge(Pattern::All);
            } else {
                wait(cache.purge_key(digest));
            }
            let fresh = cache.freshen(&object, newer.clone(), quiet());
            assert!(body_of(&fresh) == text(size) && !fresh.flag.is_up());
            assert!(!matches!(cache.find(digest, now(), false), Found::Object(_)));
            until("its file to go", || !cache.path(digest).exists());

            let next = store(&cache, "a", b"next").unwrap();
            cache.freshen(&object, newer, quiet());
            assert!(
                matches!(cache.find(digest, now(), false), Found::Object(have) if Arc::ptr_eq(&have, &next))
            );
            until("its file", || {
                wait(cache.load(digest)).unwrap().is_some_and(|have| body_of(&have) == b"next")
            });
        }
    }
}

#[test]
fn disk_errors_are_told_and_harm_nobody() {
    let folder = Folder::new("errors");
    // A file where the folder should be.
    std::fs::write(&folder.0, "x").unwrap();
    let cache = cache(&folder, settings());
    for size in [100, 300_000] {
        let told = Arc::new(Mutex::new(String::new()));
        let report: Report = {
            let told = told.clone();
            Arc::new(move |text: &str| told.lock().unwrap().push_str(text))
        };
        let digest = Digest::of(b"a");
        let (mut fill, mut reader) = Fill::begin(&cache, digest, Some(key_meta(&cache, "a")), None, report);
        let mut have = Vec::new();
        for piece in text(size).chunks(10_000) {
            wait(fill.push(piece.into()));
            have.extend(read(&mut reader).0);
        }
        wait(fill.finish());
        let (rest, end) = read(&mut reader);
        have.extend(rest);
        assert!(have == text(size) && matches!(end, Some(Ok(()))));
        until("the error is told", || told.lock().unwrap().contains("failed (20: Not a directory)"));
        until("nothing is found", || matches!(cache.find(digest, now(), false), Found::Nothing(_)));
    }
    std::fs::remove_file(&folder.0).unwrap();
}

#[test]
fn one_asks_and_the_others_know() {
    let folder = Folder::new("lock");
    let cache = cache(&folder, settings());
    let digest = Digest::of(b"a");
    let mut first = cache.lock(digest, Duration::from_secs(5)).unwrap();
    assert!(cache.lock(digest, Duration::from_secs(5)).is_none() && cache.is_locked(digest));
    first.note_unstorable();
    drop(first);
    assert!(!cache.is_locked(digest) && cache.is_unstorable(digest));
    // An answer that was dropped, whatever the reason, leaves nothing locked.
    drop(cache.lock(digest, Duration::from_secs(5)).unwrap());
    assert!(cache.lock(digest, Duration::ZERO).is_some());
}

#[test]
fn housekeeping_ends_with_the_cache() {
    let folder = Folder::new("thread");
    let cache = Cache::new(&folder.0, &[], Settings { inactive: Duration::ZERO, ..settings() });
    cache.start();
    until("it has looked at the disk", || !cache.stats().loading);
    let weak = Arc::downgrade(&cache);
    drop(cache);
    until("nobody holds it", || weak.upgrade().is_none());
}

/// Parts `a..b` of a body of 200,000 bytes, stored one after the other, each joined with what is there.
#[test]
fn an_answer_joins_its_entry() {
    let all: Vec<u8> = (0..200_000u32).map(|n| (n / 3 % 251) as u8).collect();
    let check = |memory: usize, parts: &[(usize, usize)], want: (usize, usize)| {
        let folder = Folder::new("joins");
        let cache = cache(&folder, Settings { memory_bytes_max: memory, ..settings() });
        let digest = Digest::of(b"k");
        for &(start, end) in parts {
            let part = Part { start: start as u64, end: end as u64, total: None };
            let meta = Meta { part: Some(part), ..key_meta(&cache, "k") };
            let (mut fill, mut reader) = Fill::begin(&cache, digest, Some(meta.clone()), None, quiet());
            fill.merge_by(Some(Box::new(move |entry| {
                let have = entry.meta.part.unwrap();
                let Some(both) = partial::combine(&have, &part) else { return Merge::Replace };
                let before = 0..part.start.saturating_sub(have.start);
                let after = (part.end - have.start).min(have.len())..have.len();
                let meta = Meta { part: Some(both), ..meta.clone() };
                Merge::Combine(Box::new(Combined { meta, before, after }))
            })));
            for piece in all[start..end].chunks(10_000) {
                assert!(wait(fill.push(piece.into())));
                read(&mut reader);
            }
            wait(fill.finish());
            until("the file", || cache.path(digest).exists());
        }
        // From the disk, where checksums are looked at.
        until("what was stored last", || {
            cache.index.forget_object(digest);
            let object = wait(cache.load(digest)).unwrap().unwrap();
            let part = object.meta.part.unwrap();
            (part.start as usize, part.end as usize) == want && body_of(&object) == all[want.0..want.1]
        });
    };
    check(1 << 20, &[(100, 200), (200, 300), (50, 120)], (50, 300));
    check(1 << 20, &[(0, 90_000), (80_000, 180_000), (180_000, 200_000)], (0, 200_000));
    check(0, &[(100, 200), (150, 300)], (100, 300));
    check(0, &[(100_000, 200_000), (0, 110_000)], (0, 200_000));
    check(1 << 20, &[(10, 20), (30, 40)], (30, 40));
}

/// What was there before a purge does not come back with what is joined to it.
#[test]
fn a_purge_while_parts_are_joined_holds() {
    for (memory, size) in [(1 << 20, 100), (0, 100), (1 << 20, 150_000)] {
        let folder = Folder::new("purged-join");
        let cache = cache(&folder, Settings { memory_bytes_max: memory, ..settings() });
        let digest = Digest::of(b"k");
        store(&cache, "k", &text(size)).unwrap();
        let meta = key_meta(&cache, "k");
        let (mut fill, mut reader) = Fill::begin(&cache, digest, Some(meta.clone()), None, quiet());
        let purger = cache.clone();
        fill.merge_by(Some(Box::new(move |entry| {
            // Somebody purges now.
            purger.obey(&Purge::Key(b"k"[..].into()));
            let combined = Combined { meta: meta.clone(), before: 0..entry.body.len(), after: 0..0 };
            Merge::Combine(Box::new(combined))
        })));
        for piece in text(size).chunks(10_000) {
            assert!(wait(fill.push(piece.into())));
            read(&mut reader);
        }
        assert!(wait(fill.finish()).is_none(), "{memory} {size}");
        until("its file to go", || !cache.path(digest).exists());
        assert!(!matches!(cache.find(digest, now(), false), Found::Object(_)));
    }
}
