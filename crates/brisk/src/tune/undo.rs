//! `brisk tune undo`, and the watchdog, which is the same when the tuner dies.

use super::store::{FOLDER, Restored, Store};
use super::tier::Tier;
use brisk_cli::{Call, Entry};
use brisk_load::output;
use brisk_net::sys;
use clap::{CommandFactory as _, Parser, ValueHint};
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// `brisk tune undo`.
pub const UNDO: Entry = Entry { name: "undo", define: Args::command, run: main, inner: &[], usage_code: 1 };

/// Takes back what "brisk tune --apply" has changed, byte for byte
#[derive(Debug, Parser)]
#[command(
    after_help = "A file that somebody else has changed since stays as it is; its original is written beside the journal, and the exit code is 1. So it is \
    where a program that runs has not taken its original back: it says which, and what MariaDB has not taken back is undone by calling this again."
)]
struct Args {
    /// The folder of the tuner's journal
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = FOLDER)]
    state: PathBuf,
    /// Wait for the end of the standard input first, and for a word that spares it all; only what this process has left is undone
    #[arg(long, hide = true, value_name = "PID")]
    guard: Option<u32>,
}

/// Between two looks at whether the tuner that has died has let its lock go.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The word by which a tuner that has come to its end lets its watchdog go.
const DONE: &[u8] = b"done";

fn main(call: &Call<'_>) -> i32 {
    let args: Args = match call.parse() {
        Ok(args) => args,
        Err(code) => return code,
    };
    if args.guard.is_some() && !tuner_has_died() {
        return 0;
    }
    call.carry_out(undo(&args.state, args.guard))
}

/// Waits for the tuner's end; whether it has ended without the word.
fn tuner_has_died() -> bool {
    let mut said = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut said);
    said != DONE
}

/// Restores, reloads, forgets; gives the exit code. `tuner`: the one that this process has watched, which has died.
fn undo(folder: &Path, tuner: Option<u32>) -> Result<i32, String> {
    let mut store = Store::open(folder)?;
    if store.is_empty() {
        output::line("There is nothing to undo.");
        return Ok(0);
    }
    // Meanwhile another tuner may have begun, or the changes may have been undone by hand.
    let is_meant = |store: &Store| tuner.is_none_or(|tuner| tuner == store.journal.owner);
    if !is_meant(&store) {
        return Ok(0);
    }
    while !store.lock()? {
        if tuner.is_none() {
            return Err(match store.journal.owner {
                0 => "another process is tuning or undoing: wait for its end".to_owned(),
                owner => {
                    format!("process {owner} is still tuning: end it, and it restores everything itself")
                }
            });
        }
        // A process that dies lets its files go one by one: the lock may be the last.
        std::thread::sleep(LOCK_PAUSE);
        store = Store::open(folder)?;
        if !is_meant(&store) {
            return Ok(0);
        }
    }
    let mut code = 0;
    // Behind a run that has failed come those that were kept. They are no process's, so a watchdog leaves them.
    while !store.is_empty() && is_meant(&store) {
        code = code.max(take_back_one(&mut store)?);
    }
    Ok(code)
}

/// Takes one run back and says so; gives the exit code.
fn take_back_one(store: &mut Store) -> Result<i32, String> {
    let back = take_back(store);
    for path in &back.restored.files {
        output::line(format_args!("{} is as it was.", path.display()));
    }
    if !back.errors.is_empty() {
        return Err(format!("{}: mend that, and \"brisk tune undo\" again", back.errors.join("; ")));
    }
    if back.restored.files.is_empty() && back.restored.kept.is_empty() {
        output::line("Everything is as it was already.");
    }
    Ok(i32::from(back.is_unread || !back.restored.kept.is_empty()))
}

/// What came of taking a run back.
pub struct Back {
    pub restored: Restored,
    /// Why it is not all taken back: the journal is as it was, so that it can be done again.
    pub errors: Vec<String>,
    /// A program that runs has not read its originals.
    is_unread: bool,
}

/// Brings the originals back, has the programs read them, and forgets the run. What others have changed is named.
pub fn take_back(store: &mut Store) -> Back {
    let mut restored = store.restore();
    let mut back = Back { errors: std::mem::take(&mut restored.errors), restored, is_unread: false };
    for tier in back.restored.commands.iter().filter_map(|words| Tier::of(words)) {
        let Err(error) = tier.take_back() else { continue };
        let is_running = tier.master().is_ok();
        // What was set while it runs stands in no file: nobody else could take it back.
        if is_running && matches!(tier, Tier::Database(_)) {
            back.errors.push(error);
            continue;
        }
        // A program that does not run needs no reload.
        back.is_unread |= is_running;
        output::note(format_args!("the original is written, and does not hold yet: {error}"));
    }
    if back.errors.is_empty() {
        match store.forget(&back.restored) {
            Ok(aside) => aside.iter().for_each(|one| {
                output::note(format_args!(
                    "{} was changed by somebody else meanwhile: it is left as it is; what stood there before the tuner is in {}",
                    one.path.display(),
                    one.original.display()
                ));
            }),
            Err(error) => back.errors.push(error),
        }
    }
    back
}

/// A process that outlives the tuner and undoes what it has left when it dies.
pub struct Watchdog {
    child: Child,
}

impl Watchdog {
    /// Starts it, before the first change.
    pub fn start(folder: &Path) -> Result<Watchdog, String> {
        let own =
            std::env::current_exe().map_err(|error| format!("the own program is not found: {error}"))?;
        let mut command = Command::new(own);
        command.args(["tune", "undo", "--guard", &std::process::id().to_string(), "--state"]).arg(folder);
        // In a group of its own: what ends the tuner from a terminal does not end it.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        sys::unblock_signals_in(&mut command);
        let child = command.spawn().map_err(|error| format!("the watchdog cannot be started: {error}"))?;
        Ok(Watchdog { child })
    }

    /// The tuner has come to its end. If what is there is what is wanted, the watchdog has nothing to do; what could not be taken back it tries
    /// once more, as soon as this process ends.
    pub fn end(mut self, store: &Store) {
        if !store.is_empty() && store.journal.owner != 0 {
            return;
        }
        let input = self.child.stdin.take();
        let told = input.map_or(Ok(()), |mut input| input.write_all(DONE));
        // A watchdog that has died changes nothing of what has come of the run.
        if let Err(error) = told.and_then(|()| self.child.wait().map(|_| ())) {
            output::note(format_args!("the watchdog has gone: {error}"));
        }
    }
}
