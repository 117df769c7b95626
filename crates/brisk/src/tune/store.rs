//! The journal on the disk, and files that are changed under it.
//!
//! The journal is written and synced before each change, and files are replaced as a whole: whenever the tuner or the power fails, each
//! file is one that the journal knows, and [`Store::restore`] brings the originals back byte for byte. What others have written
//! meanwhile is kept and named.

use super::{replaced, tier};
use brisk_net::replace::replace;
use brisk_tune::journal::{Entry, Foreign, Journal, Restore};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The folder of the journal, unless `--state` names another one.
pub const FOLDER: &str = "/var/lib/brisk/tune";

/// The journal of one folder.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// What this run has changed, or, while none works, what the last one that was kept has.
    pub journal: Journal,
    /// What earlier runs have changed and kept, while another one works.
    earlier: Option<Journal>,
    /// Taken before files or the journal are changed.
    lock: Option<File>,
}

/// What came of a restoring.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Files that have their originals again.
    pub files: Vec<PathBuf>,
    /// Files that others have changed: they are as they were left.
    pub kept: Vec<PathBuf>,
    /// What must be done for it to count; nothing where no file was changed.
    pub commands: Vec<Vec<String>>,
    /// Why others do not have their originals.
    pub errors: Vec<String>,
}

/// A file that was changed by hand between two runs, and the copy of the text that it had before the first one.
#[derive(Debug, PartialEq, Eq)]
pub struct Aside {
    pub path: PathBuf,
    pub original: PathBuf,
}

fn failed(what: &str, path: &Path) -> impl FnOnce(io::Error) -> String {
    let text = format!("{what} \"{}\" failed", path.display());
    move |error| format!("{text} ({})", brisk_conf::os_text(&error))
}

impl Store {
    /// The folder's journal; an empty one where there is none.
    pub fn open(folder: &Path) -> Result<Store, String> {
        let mut store =
            Store { folder: folder.to_owned(), journal: Journal::default(), earlier: None, lock: None };
        store.read()?;
        Ok(store)
    }

    fn read(&mut self) -> Result<(), String> {
        self.journal = read(&self.path())?.unwrap_or_default();
        self.earlier = read(&self.earlier_path())?;
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.folder.join("journal")
    }

    fn earlier_path(&self) -> PathBuf {
        self.folder.join("journal.earlier")
    }

    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.journal.files.is_empty() && self.earlier.is_none()
    }

    /// Keeps others from changing files under this journal until it is dropped, or the process dies; false: another one has it. What is known
    /// of the journal is read again.
    pub fn lock(&mut self) -> Result<bool, String> {
        self.make_folder()?;
        let path = self.folder.join("lock");
        let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = open.map_err(failed("open()", &path))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(error) => return Err(failed("flock()", &path)(error.into())),
        }
        self.lock = Some(file);
        // A run that has died before its first change has left the earlier ones set apart.
        if !self.path().exists() && self.earlier_path().exists() {
            fs::rename(self.earlier_path(), self.path()).map_err(failed("renaming", &self.earlier_path()))?;
        }
        self.read()?;
        Ok(true)
    }

    /// Begins a run of this process, which has the lock: what earlier ones have kept is set apart, so that this one's failure leaves it.
    pub fn begin(&mut self, commands: Vec<Vec<Vec<u8>>>) -> Result<(), String> {
        if self.journal.owner != 0 && !self.journal.files.is_empty() {
            return Err("an earlier tuner has ended before it was done: \"brisk tune undo\" first".to_owned());
        }
        if !self.journal.files.is_empty() {
            let (earlier, _) = self.merged();
            // Its copy first: at no moment is it in neither file.
            save(&self.folder, &self.earlier_path(), &earlier)?;
            self.earlier = Some(earlier);
            fs::remove_file(self.path()).map_err(failed("removing", &self.path()))?;
        }
        self.journal = Journal { owner: std::process::id(), files: Vec::new(), commands };
        Ok(())
    }

    /// What this run has changed stays until `brisk tune undo`, which takes it back together with what earlier runs have changed. Gives files
    /// that were changed by hand between two runs: undoing brings the text back that they had then.
    pub fn keep(&mut self) -> Result<Vec<Aside>, String> {
        let (merged, theirs) = self.merged();
        let aside = theirs.into_iter().filter_map(|entry| self.put_aside(entry).transpose());
        let aside = aside.collect::<Result<_, _>>()?;
        save(&self.folder, &self.path(), &merged)?;
        self.journal = merged;
        // Both files say the same for a moment, which undoes the same.
        if self.earlier.take().is_some() {
            let _ = fs::remove_file(self.earlier_path());
        }
        Ok(aside)
    }

    /// This run's changes and the earlier ones, as one journal; and the earlier entries whose files were changed by hand afterwards: for
    /// those the changed text is the original.
    fn merged(&self) -> (Journal, Vec<&Entry>) {
        let mut merged = Journal { owner: 0, ..self.journal.clone() };
        let Some(earlier) = &self.earlier else { return (merged, Vec::new()) };
        let mut theirs = Vec::new();
        for entry in &earlier.files {
            match merged.files.iter_mut().find(|have| have.path == entry.path) {
                Some(have) if entry.restore(have.original.as_deref()) == Restore::Keep => theirs.push(entry),
                Some(have) => have.original.clone_from(&entry.original),
                None => merged.files.push(entry.clone()),
            }
        }
        // The newest is taken back first. What the database had before an earlier run counts no more where somebody has changed its file since:
        // it would run with other values than the file says.
        let is_theirs = |words: &[Vec<u8>]| {
            !theirs.is_empty() && words.first().is_some_and(|kind| kind == tier::DATABASE)
        };
        let others = earlier.commands.iter().filter(|words| !self.journal.commands.contains(words));
        merged.commands.extend(others.filter(|words| !is_theirs(words)).cloned());
        (merged, theirs)
    }

    /// Writes what a file held before the tuner beside the journal, under a name that nothing else has.
    fn put_aside(&self, entry: &Entry) -> Result<Option<Aside>, String> {
        let Some(original) = &entry.original else { return Ok(None) };
        let path = path_of(entry);
        let name = path.display().to_string().trim_start_matches('/').replace('/', "-");
        let names = (2..).map(|number| format!("{name}-{number}.original"));
        let copies = std::iter::once(format!("{name}.original")).chain(names);
        let is_free = |copy: &PathBuf| fs::read(copy).map_or(true, |have| have == *original);
        let copy = copies.map(|name| self.folder.join(name)).find(is_free).unwrap_or_default();
        replace(&copy, original, 0o600).map_err(failed("writing", &copy))?;
        Ok(Some(Aside { path, original: copy }))
    }

    fn make_folder(&self) -> Result<(), String> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        made.map_err(failed("mkdir()", &self.folder))
    }

    /// Writes the journal to the disk.
    pub fn save(&self) -> Result<(), String> {
        self.make_folder()?;
        save(&self.folder, &self.path(), &self.journal)
    }

    /// Changes a file that held `known` when it was read: the journal first. Links are followed.
    pub fn put(&mut self, name: &str, known: &[u8], next: &[u8]) -> Result<(), String> {
        let path = fs::canonicalize(name).map_err(failed("open()", Path::new(name)))?;
        let present = fs::read(&path).map_err(failed("open()", &path))?;
        if present == next {
            return Ok(());
        }
        // What an administrator has written since is never taken for the original.
        if !self.has_changed(&path) && present != known {
            return Err(Foreign { path: path.as_os_str().as_bytes().to_vec() }.to_string());
        }
        let mode = fs::metadata(&path).map_err(failed("stat()", &path))?.mode();
        let noted = self.journal.note(path.as_os_str().as_bytes(), mode, Some(&present), next);
        noted.map_err(|foreign| foreign.to_string())?;
        self.save()?;
        replaced::write(&path, next).map_err(failed("writing", &path))
    }

    /// Whether this run has changed the file; its links are followed already.
    pub fn has_changed(&self, path: &Path) -> bool {
        self.journal.files.iter().any(|entry| entry.path == path.as_os_str().as_bytes())
    }

    /// Brings this run's originals back: whatever becomes of one file, the others have theirs. The journal stays until [`Self::forget`], so that
    /// this can be done again.
    pub fn restore(&mut self) -> Restored {
        let mut restored = Restored::default();
        for entry in &self.journal.files {
            let path = path_of(entry);
            match restore(entry, &path) {
                Ok(Restore::Nothing) => {}
                Ok(Restore::Write(_) | Restore::Remove) => restored.files.push(path),
                Ok(Restore::Keep) => restored.kept.push(path),
                Err(error) => restored.errors.push(error),
            }
        }
        if !self.journal.files.is_empty() {
            let words = |command: &Vec<Vec<u8>>| {
                command.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
            };
            restored.commands = self.journal.commands.iter().map(words).collect();
        }
        restored
    }

    /// Forgets what was restored; what was kept, too, with its original written beside the journal. The journal is that of earlier runs then, if
    /// any was kept.
    pub fn forget(&mut self, restored: &Restored) -> Result<Vec<Aside>, String> {
        let kept = self.journal.files.iter().filter(|entry| restored.kept.contains(&path_of(entry)));
        let aside = kept.filter_map(|entry| self.put_aside(entry).transpose());
        let aside = aside.collect::<Result<_, _>>()?;
        let path = self.path();
        let ended = match &self.earlier {
            Some(_) => fs::rename(self.earlier_path(), &path),
            None => fs::remove_file(&path),
        };
        self.journal = self.earlier.take().unwrap_or_default();
        match ended {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("removing", &path)(error)),
            _ => Ok(aside),
        }
    }
}

fn path_of(entry: &Entry) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(entry.path.clone()))
}

/// Brings one file's original back; says what was done.
fn restore<'a>(entry: &'a Entry, path: &Path) -> Result<Restore<'a>, String> {
    let present = match fs::read(path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(failed("open()", path)(error)),
    };
    let wanted = entry.restore(present.as_deref());
    match wanted {
        Restore::Nothing | Restore::Keep => {}
        Restore::Write(original) => {
            replaced::restore(path, original).map_err(failed("writing", path))?;
        }
        Restore::Remove => fs::remove_file(path).map_err(failed("removing", path))?,
    }
    Ok(wanted)
}

/// A journal's file, if there is one.
fn read(path: &Path) -> Result<Option<Journal>, String> {
    match fs::read(path) {
        Ok(bytes) => match Journal::parse(&bytes) {
            Ok(journal) => Ok(Some(journal)),
            Err(damaged) => Err(format!("\"{}\": {damaged}", path.display())),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("open()", path)(error)),
    }
}

fn save(folder: &Path, path: &Path, journal: &Journal) -> Result<(), String> {
    replace(path, &journal.to_bytes(), 0o600)
        .and_then(|()| File::open(folder)?.sync_all())
        .map_err(failed("writing", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("brisk-tune-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn changes_are_taken_back_byte_for_byte() {
        let folder = folder("store");
        let conf = folder.join("a.conf");
        fs::write(&conf, b"one\n\xff").unwrap();
        fs::set_permissions(&conf, fs::Permissions::from_mode(0o640)).unwrap();
        let link = folder.join("link.conf");
        std::os::unix::fs::symlink(&conf, &link).unwrap();
        let mut store = Store::open(&folder.join("state")).unwrap();
        assert!(store.is_empty());
        store.put(&link.to_string_lossy(), b"one\n\xff", b"two\n").unwrap();
        store.put(&conf.to_string_lossy(), b"one\n", b"three\n").unwrap();
        assert_eq!(fs::read(&conf).unwrap(), b"three\n");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&conf).unwrap().mode() & 0o777, 0o640);
        // Another process, later.
        let mut store = Store::open(&folder.join("state")).unwrap();
        let restored = store.restore();
        assert_eq!(restored.files, std::slice::from_ref(&conf));
        assert_eq!(fs::read(&conf).unwrap(), b"one\n\xff");
        assert_eq!(store.forget(&restored), Ok(Vec::new()));
        assert!(Store::open(&folder.join("state")).unwrap().is_empty());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_others_have_written_is_kept_and_its_original_is_not_lost() {
        let folder = folder("kept");
        let conf = folder.join("a.conf");
        fs::write(&conf, "one\n").unwrap();
        let mut store = Store::open(&folder.join("state")).unwrap();
        store.put(&conf.to_string_lossy(), b"one\n", b"two\n").unwrap();
        fs::write(&conf, "two\n# mine\n").unwrap();
        let refused = store.put(&conf.to_string_lossy(), b"one\n", b"three\n").unwrap_err();
        assert!(refused.contains("was changed by somebody else"), "{refused}");
        let restored = store.restore();
        assert_eq!(restored.kept, std::slice::from_ref(&conf));
        assert_eq!(fs::read(&conf).unwrap(), b"two\n# mine\n");
        let aside = store.forget(&restored).unwrap();
        assert_eq!((&aside[0].path, fs::read(&aside[0].original).unwrap()), (&conf, b"one\n".to_vec()));
        fs::remove_dir_all(&folder).unwrap();
    }

    /// The first change, too: between reading a site and changing it there may be minutes.
    #[test]
    fn what_others_have_written_before_the_first_change_is_no_original() {
        let folder = folder("first");
        let conf = folder.join("a.conf");
        fs::write(&conf, "one\n# mine\n").unwrap();
        let mut store = Store::open(&folder.join("state")).unwrap();
        let refused = store.put(&conf.to_string_lossy(), b"one\n", b"two\n").unwrap_err();
        assert!(refused.contains("was changed by somebody else"), "{refused}");
        assert!(store.is_empty() && fs::read(&conf).unwrap() == b"one\n# mine\n");
        fs::remove_dir_all(&folder).unwrap();
    }

    /// The failure of a later run takes back what this run has changed, and undoing takes back all of it.
    #[test]
    fn what_an_earlier_run_has_kept_stays() {
        let folder = folder("earlier");
        let conf = folder.join("a.conf");
        let (name, state) = (conf.display().to_string(), folder.join("state"));
        fs::write(&conf, "one\n").unwrap();
        let is_there = |text: &str| fs::read(&conf).unwrap() == text.as_bytes();
        let run = |known: &str, next: &str, is_kept: bool| {
            let mut store = Store::open(&state).unwrap();
            assert_eq!(store.lock(), Ok(true));
            store.begin(vec![vec![next.as_bytes().to_vec()]]).unwrap();
            store.put(&name, known.as_bytes(), next.as_bytes()).unwrap();
            if is_kept {
                assert_eq!(store.keep(), Ok(Vec::new()));
                return;
            }
            let restored = store.restore();
            store.forget(&restored).unwrap();
            assert!(!store.is_empty());
        };
        run("one\n", "two\n", true);
        run("two\n", "three\n", false);
        assert!(is_there("two\n"));
        // One that dies is undone by its watchdog alone.
        let mut dying = Store::open(&state).unwrap();
        assert_eq!(dying.lock(), Ok(true));
        assert_eq!(Store::open(&state).unwrap().lock(), Ok(false), "one at a time");
        dying.begin(Vec::new()).unwrap();
        dying.put(&name, b"two\n", b"four\n").unwrap();
        drop(dying);
        let mut store = Store::open(&state).unwrap();
        assert_eq!(store.lock(), Ok(true));
        assert!(store.begin(Vec::new()).unwrap_err().contains("undo"), "it has not ended");
        let restored = store.restore();
        store.forget(&restored).unwrap();
        assert!(is_there("two\n"));
        drop(store);
        run("two\n", "five\n", true);
        let mut store = Store::open(&state).unwrap();
        let restored = store.restore();
        assert_eq!(restored.commands, [["five\n"], ["two\n"]]);
        store.forget(&restored).unwrap();
        assert!(store.is_empty() && is_there("one\n"));
        fs::remove_dir_all(&folder).unwrap();
    }

    /// What an administrator writes between two runs is what undoing leaves.
    #[test]
    fn what_was_written_between_two_runs_comes_back() {
        let folder = folder("between");
        let conf = folder.join("a.conf");
        let (name, state) = (conf.display().to_string(), folder.join("state"));
        let run = |known: &[u8], next: &[u8]| {
            let mut store = Store::open(&state).unwrap();
            assert_eq!(store.lock(), Ok(true));
            store.begin(Vec::new()).unwrap();
            store.put(&name, known, next).unwrap();
            store.keep().unwrap()
        };
        fs::write(&conf, "one\n").unwrap();
        assert_eq!(run(b"one\n", b"two\n"), []);
        fs::write(&conf, "two\n# mine\n").unwrap();
        let aside = run(b"two\n# mine\n", b"three\n# mine\n");
        assert_eq!((aside.len(), &aside[0].path), (1, &conf));
        // A third run, behind another edit, keeps both apart.
        fs::write(&conf, "four\n").unwrap();
        let more = run(b"four\n", b"five\n");
        assert_eq!(fs::read(&more[0].original).unwrap(), b"two\n# mine\n");
        assert_eq!(fs::read(&aside[0].original).unwrap(), b"one\n");
        let mut store = Store::open(&state).unwrap();
        let restored = store.restore();
        assert_eq!(restored.files, std::slice::from_ref(&conf));
        assert_eq!(fs::read(&conf).unwrap(), b"four\n");
        assert_eq!(store.forget(&restored), Ok(Vec::new()));
        fs::remove_dir_all(&folder).unwrap();
    }

    /// One file that cannot be written keeps no other one from its original.
    #[test]
    fn a_file_that_cannot_be_restored_leaves_the_others() {
        let folder = folder("broken");
        let mut store = Store::open(&folder.join("state")).unwrap();
        store.begin(vec![vec![b"php".to_vec(), b"/x".to_vec()]]).unwrap();
        assert_eq!(store.restore().commands.len(), 0, "nothing was changed");
        let files = ["a.conf", "b/b.conf", "c.conf"].map(|name| folder.join(name));
        fs::create_dir(folder.join("b")).unwrap();
        for file in &files {
            fs::write(file, "one\n").unwrap();
            store.put(&file.to_string_lossy(), b"one\n", b"two\n").unwrap();
        }
        // In its place is a folder.
        fs::rename(&files[1], folder.join("moved")).unwrap();
        fs::create_dir(&files[1]).unwrap();
        let restored = store.restore();
        assert_eq!(restored.files, [&files[0], &files[2]].map(Clone::clone));
        assert_eq!((restored.errors.len(), restored.commands.len()), (1, 1));
        assert!(restored.errors[0].contains("b.conf"), "{:?}", restored.errors);
        // Somebody mends that.
        fs::remove_dir(&files[1]).unwrap();
        fs::rename(folder.join("moved"), &files[1]).unwrap();
        let restored = store.restore();
        assert_eq!((&restored.files[..], restored.errors.len()), (&files[1..2], 0));
        assert!(files.iter().all(|file| fs::read(file).unwrap() == b"one\n"));
        fs::remove_dir_all(&folder).unwrap();
    }

    /// A full disk, or a folder that is none: without a journal nothing is changed.
    #[test]
    fn without_a_journal_nothing_is_changed() {
        let folder = folder("nowhere");
        let conf = folder.join("a.conf");
        fs::write(&conf, "one\n").unwrap();
        let mut store = Store::open(&folder.join("state")).unwrap();
        store.folder = conf.join("state");
        let error = store.put(&conf.to_string_lossy(), b"one\n", b"two\n").unwrap_err();
        assert!(error.contains("mkdir()"), "{error}");
        assert_eq!(fs::read(&conf).unwrap(), b"one\n");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_damaged_journal_is_said() {
        let folder = folder("damaged");
        fs::write(folder.join("journal"), "brisk").unwrap();
        let error = Store::open(&folder).unwrap_err();
        assert!(error.contains("the journal is damaged"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
