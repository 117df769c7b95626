//! Each kind of change to real files, and what is given back.

use super::*;
use std::fs;
use std::io::Write as _;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("brisk-watch-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(fs::canonicalize(path).unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Each change must lower the flag of `a/file` by the next sync.
#[test]
fn every_kind_of_change_is_seen() {
    let folder = Folder::new("changes");
    let root = &folder.0;
    let watcher = Watcher::new().unwrap();
    let check = |what: &str, prepare: &dyn Fn(&Path), change: &dyn Fn(&Path)| {
        let _ = fs::remove_dir_all(root.join("a"));
        let _ = fs::remove_dir_all(root.join("b"));
        fs::create_dir(root.join("a")).unwrap();
        fs::write(root.join("a/file"), "1").unwrap();
        prepare(root);
        watcher.sync();
        let Ok(watch) = watcher.watch(&root.join("a/file")) else {
            panic!("{what}: temp dir cannot be watched")
        };
        watcher.sync();
        assert!(watch.is_up(), "{what}: before");
        change(root);
        watcher.sync();
        assert!(!watch.is_up(), "{what}: after");
    };
    let none = |_: &Path| {};
    check("write", &none, &|r| fs::write(r.join("a/file"), "2").unwrap());
    check("delete", &none, &|r| fs::remove_file(r.join("a/file")).unwrap());
    check("replace", &none, &|r| {
        fs::write(r.join("a/new"), "3").unwrap();
        fs::rename(r.join("a/new"), r.join("a/file")).unwrap();
    });
    check("chmod", &none, &|r| {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(r.join("a/file"), fs::Permissions::from_mode(0o600)).unwrap();
    });
    check("parent renamed", &none, &|r| fs::rename(r.join("a"), r.join("b")).unwrap());
    check("appears", &|r| fs::remove_file(r.join("a/file")).unwrap(), &|r| {
        fs::write(r.join("a/file"), "4").unwrap();
    });
    check(
        "link retargeted",
        &|r| {
            fs::rename(r.join("a"), r.join("b")).unwrap();
            std::os::unix::fs::symlink("b", r.join("a")).unwrap();
        },
        &|r| {
            fs::remove_file(r.join("a")).unwrap();
            std::os::unix::fs::symlink("/", r.join("a")).unwrap();
        },
    );
    let _ = fs::remove_file(root.join("a"));
    check(
        "target of a linked file written",
        &|r| {
            fs::rename(r.join("a/file"), r.join("a/target")).unwrap();
            std::os::unix::fs::symlink("target", r.join("a/file")).unwrap();
        },
        &|r| fs::write(r.join("a/target"), "5").unwrap(),
    );
}

/// The folder hears of another name, or nothing.
#[test]
fn a_file_is_watched_itself() {
    use rustix::fs::{AtFlags, CWD, Mode, OFlags};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::FileExt as _;
    let folder = Folder::new("itself");
    let watcher = Watcher::new().unwrap();
    fs::create_dir(folder.0.join("other")).unwrap();
    for from in ["", "other"] {
        let file = folder.0.join("file");
        let flags = OFlags::TMPFILE | OFlags::RDWR;
        let unnamed = rustix::fs::open(folder.0.join(from), flags, Mode::from_raw_mode(0o600)).unwrap();
        let own = format!("/proc/self/fd/{}", unnamed.as_raw_fd());
        rustix::fs::linkat(CWD, own.as_str(), CWD, &file, AtFlags::SYMLINK_FOLLOW).unwrap();
        let unnamed = fs::File::from(unnamed);
        for _ in 0..3 {
            watcher.sync();
            let watch = watcher.watch(&file).unwrap();
            watcher.sync();
            assert!(watch.is_up());
            unnamed.write_all_at(b"2", 0).unwrap();
            watcher.sync();
            assert!(!watch.is_up());
        }
        // A name that it gets later.
        watcher.sync();
        let watch = watcher.watch(&file).unwrap();
        watcher.sync();
        fs::hard_link(&file, folder.0.join("other/later")).unwrap();
        watcher.sync();
        assert!(!watch.is_up());
        fs::remove_file(folder.0.join("other/later")).unwrap();
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn a_writer_is_followed_until_it_closes_the_file() {
    let folder = Folder::new("writers");
    let file = folder.0.join("file");
    fs::write(&file, "1").unwrap();
    let watcher = Watcher::new().unwrap();
    let writing = || {
        watcher.sync();
        watcher.writing(&file)
    };
    // Other tests lower flags of this process meanwhile: the counter alone says nothing of this one.
    let watch = watcher.watch_writers(&file).unwrap();
    assert_eq!(writing(), Writing::Unknown);
    assert!(watch.is_up());
    let before = lowered();
    let mut writer = fs::File::create(&file).unwrap();
    assert_eq!(writing(), Writing::Open);
    assert!(!watch.is_up() && lowered() > before);
    let watch = watcher.watch_writers(&file).unwrap();
    writer.write_all(b"2").unwrap();
    assert_eq!(writing(), Writing::Open);
    assert!(!watch.is_up());
    let watch = watcher.watch_writers(&file).unwrap();
    drop(writer);
    // It was told of the text before.
    assert_eq!(writing(), Writing::Closed);
    assert!(watch.is_up());
    fs::write(folder.0.join("new"), "3").unwrap();
    fs::rename(folder.0.join("new"), &file).unwrap();
    assert_eq!(writing(), Writing::Renamed);
    let _ = watcher.watch_writers(&file).unwrap();
    fs::write(&file, "4").unwrap();
    assert_eq!(writing(), Writing::Closed);
    watcher.distrust();
    let _ = watcher.watch_writers(&file).unwrap();
    assert_eq!(writing(), Writing::Unknown);
}

#[test]
fn a_file_with_two_names_is_watched_itself() {
    let folder = Folder::new("names");
    let watcher = Watcher::new().unwrap();
    fs::create_dir(folder.0.join("other")).unwrap();
    fs::write(folder.0.join("file"), "1").unwrap();
    fs::hard_link(folder.0.join("file"), folder.0.join("other/name")).unwrap();
    for _ in 0..3 {
        let watch = watcher.watch(&folder.0.join("file")).unwrap();
        watcher.sync();
        assert!(watch.is_up());
        fs::write(folder.0.join("other/name"), "2").unwrap();
        watcher.sync();
        assert!(!watch.is_up());
    }
}

/// What is asked for once must not be watched for ever: watches are memory of the kernel, and counted.
#[test]
fn watches_that_nobody_holds_are_given_back() {
    let folder = Folder::new("sweep");
    let watcher = Watcher::new().unwrap();
    for number in 0..100 {
        fs::create_dir(folder.0.join(number.to_string())).unwrap();
        fs::write(folder.0.join(format!("{number}/file")), "1").unwrap();
    }
    let watch = |number: u32| watcher.watch(&folder.0.join(format!("{number}/file"))).unwrap();
    let kept = watch(7);
    (0..100).for_each(|number| drop(watch(number)));
    let mut state = watcher.lock();
    assert!(state.names.len() > 100);
    // Not all at once.
    let before = state.names.len();
    watcher.sweep(&mut state, 10);
    assert_eq!(state.names.len(), before - 10);
    watcher.sweep(&mut state, usize::MAX);
    // The way to the one that is kept, and the file itself.
    assert_eq!(state.names.len(), folder.0.components().count() + 2);
    assert_eq!(state.directories.len(), 1);
    drop(state);
    watcher.sync();
    assert!(kept.is_up());
    fs::write(folder.0.join("7/file"), "2").unwrap();
    watcher.sync();
    assert!(!kept.is_up());
    let again = watch(8);
    watcher.sync();
    assert!(again.is_up());
    fs::write(folder.0.join("8/file"), "2").unwrap();
    watcher.sync();
    assert!(!again.is_up());
}

/// A link to a folder has a watch on that, which nothing but its number was known of.
#[test]
fn a_folder_behind_a_link_is_given_back() {
    let folder = Folder::new("linked");
    let watcher = Watcher::new().unwrap();
    for name in ["target", "links"] {
        fs::create_dir(folder.0.join(name)).unwrap();
    }
    let link = folder.0.join("links/link");
    std::os::unix::fs::symlink("../target", &link).unwrap();
    let watch = watcher.watch(&link).unwrap();
    let mut state = watcher.lock();
    let target = watcher.add(&folder.0.join("target"), Events::Names).unwrap();
    assert!(state.names.contains_key(&target));
    drop(watch);
    watcher.sweep(&mut state, usize::MAX);
    assert!(state.names.is_empty());
    drop(state);
    // What was queued before it was given back leaves nothing behind.
    watcher.sync();
    assert!(watcher.lock().writing.is_empty());
}

/// By its own watch, whatever its parent was told.
#[test]
fn a_directory_that_is_gone_is_noticed_by_its_own_watch() {
    let folder = Folder::new("gone");
    let watcher = Watcher::new().unwrap();
    fs::create_dir(folder.0.join("a")).unwrap();
    let watch = watcher.watch(&folder.0.join("a/none")).unwrap();
    let wd = watcher.lock().directories[folder.0.join("a").as_path()].wd;
    watcher.lock().apply(wd, ReadFlags::IGNORED, None);
    assert!(!watch.directory.is_up() && !watch.entry.is_up());
    // What another watch tells concerns others.
    let watch = watcher.watch(&folder.0.join("a/none")).unwrap();
    watcher.lock().apply(wd + 1000, ReadFlags::IGNORED, None);
    watcher.sync();
    assert!(watch.is_up());
}

#[test]
fn other_files_leave_it_up() {
    let folder = Folder::new("others");
    let watcher = Watcher::new().unwrap();
    fs::write(folder.0.join("file"), "1").unwrap();
    let watch = watcher.watch(&folder.0.join("file")).unwrap();
    fs::write(folder.0.join("other"), "2").unwrap();
    watcher.sync();
    assert!(watch.is_up());
}

/// A log that grows beside what is served, in its folder or above, wakes nothing.
#[test]
fn writes_to_other_files_make_no_event() {
    let folder = Folder::new("logs");
    let watcher = Watcher::new().unwrap();
    fs::create_dir(folder.0.join("html")).unwrap();
    let file = folder.0.join("html/file");
    for path in [&file, &folder.0.join("html/log"), &folder.0.join("log")] {
        fs::write(path, "1").unwrap();
    }
    let watch = watcher.watch(&file).unwrap();
    for log in ["html/log", "log"] {
        fs::OpenOptions::new().append(true).open(folder.0.join(log)).unwrap().write_all(b"2").unwrap();
    }
    let mut buf = [MaybeUninit::uninit(); 4096];
    assert_eq!(inotify::Reader::new(&watcher.fd, &mut buf).next().map(|event| event.wd()), Err(Errno::AGAIN));
    // A folder whose writers are asked for later tells of them from then on.
    let text = folder.0.join("html/text");
    fs::write(&text, "1").unwrap();
    let _ = watcher.watch_writers(&text).unwrap();
    let mut writer = fs::File::create(&text).unwrap();
    writer.write_all(b"2").unwrap();
    watcher.sync();
    assert_eq!(watcher.writing(&text), Writing::Open);
    assert!(watch.is_up());
}
