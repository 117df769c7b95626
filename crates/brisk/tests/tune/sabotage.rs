//! Whatever goes wrong while a change is on the site: the original is back, byte for byte, within five seconds.

use super::site::{Site, WAITING, json, of_site, undo};
use brisk_testkit::server::text;
use brisk_testkit::{TempDir, process, wait};
use brisk_tune::knob;
use brisk_tune::patch;
use brisk_tune::site::Machine;
use rustix::process::Signal;
use serde_json::json as value;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const POOL: &str = "pm = static\npm.max_children = 2";

/// What a search would have printed that has found more processes to be better.
fn found(site: &Site) -> String {
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    let knob = knob::find("pm.max_children").unwrap();
    let levels = knob.levels(Some("2"), &Machine { cpus, ..Machine::default() }).unwrap();
    let to = levels.texts.iter().find(|text| text.parse::<u32>().unwrap() >= 8).unwrap();
    let name = site.at("pool.conf");
    let old = fs::read_to_string(&name).unwrap();
    let new = old.replace("pm.max_children = 2", &format!("pm.max_children = {to}"));
    let result = value!({
        "steps": [], "final": { "outcome": "kept", "settings": [{ "knob": "pm.max_children", "from": "2", "to": to }] },
        "patches": [{ "file": name, "patch": patch::unified(&name, old.as_bytes(), new.as_bytes()) }],
    });
    site.dir.write("found.json", result.to_string()).display().to_string()
}

/// A tuner that applies it.
fn apply(site: &Site, state: &str, watch: &str) -> Child {
    let found = found(site);
    let more = ["--users", "12", "--budget", "50s", "--json", "--apply", "--found", &found, "--state", state];
    let mut command = site.command(&more);
    command.args(["--observe", watch]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until the files were changed so many times, and back again, and changed once more.
fn changed(site: &Site, child: &mut Child, before: &[Vec<u8>], times: usize) {
    for is_changed in [true, false].repeat(times).into_iter().chain([true]) {
        let seen = wait::within(Duration::from_mins(1), || {
            if child.try_wait().unwrap().is_some() {
                let mut said = String::new();
                child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
                panic!("it ended before it was killed: {said}");
            }
            ((site.configuration() != before) == is_changed).then_some(())
        });
        assert!(seen.is_some(), "nothing was changed");
    }
}

fn is_back(site: &Site, before: &[Vec<u8>]) {
    // Within five seconds, where nobody else wants the machine.
    wait::holds("the original", || site.configuration() == before);
}

/// What a tuner has said in the end.
fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    let found = json(&output);
    let why = found["not_applied"].as_str().unwrap_or_default().to_owned();
    (output.status.code(), format!("{why} {}", text(&output.stderr)))
}

/// How many times: a few here, 20 where BRISK_SABOTAGE says so.
fn rounds() -> usize {
    std::env::var("BRISK_SABOTAGE").map_or(2, |count| count.parse().expect("BRISK_SABOTAGE is a number"))
}

/// The tuner dies with the change on the site, after some steps of the proof.
#[test]
fn a_tuner_killed_at_any_step_leaves_the_original() {
    for round in 0..rounds() {
        let site = Site::new(POOL, WAITING);
        let _running = site.start();
        let (before, state) = (site.configuration(), site.at("state"));
        let mut child = apply(&site, &state, "0");
        changed(&site, &mut child, &before, round % 10);
        process::signal(child.id(), Signal::KILL);
        child.wait().unwrap();
        is_back(&site, &before);
        wait::holds("the end of the watchdog", || !Path::new(&state).join("journal").exists());
        assert_eq!(text(&undo(&state).stdout), "There is nothing to undo.\n");
    }
}

/// The site's PHP-FPM or its web server dies.
#[test]
fn a_server_killed_at_any_step_leaves_the_original() {
    for round in 0..rounds() {
        let site = Site::new(POOL, WAITING);
        let running = site.start();
        let (before, state) = (site.configuration(), site.at("state"));
        let mut child = apply(&site, &state, "0");
        changed(&site, &mut child, &before, round % 10);
        let program = running.0[1 - round % 2].id();
        let mut all = vec![program];
        if round % 2 == 1 {
            // nginx's processes go on without their master.
            all.extend(process::children(program));
        }
        all.into_iter().for_each(|pid| process::signal(pid, Signal::KILL));
        // The tuner sees it by itself, restores, and ends.
        wait::until("its end", || child.try_wait().unwrap());
        assert_eq!(site.configuration(), before);
        let (code, said) = ended(child);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("taken back"), "{said}");
        // Processes of a master that was killed have no parent that would end them.
        drop(running);
        of_site(&site).into_iter().for_each(|pid| process::signal(pid, Signal::KILL));
    }
}

/// What was better when it was proved gets worse: the page becomes three times as slow while the change is watched.
#[test]
fn a_change_that_gets_worse_later_is_taken_back() {
    let site = Site::new(POOL, "<?php usleep(file_exists(__DIR__ . '/spoil') ? 60000 : 20000); echo 'ok';");
    let _running = site.start();
    let (before, state) = (site.configuration(), site.at("state"));
    let mut child = apply(&site, &state, "1m");
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let is_watched = said.by_ref().map_while(Result::ok).any(|line| line.contains("it is watched for 60 s"));
    assert!(is_watched);
    assert_ne!(site.configuration(), before);
    site.dir.write("spoil", "");
    is_back(&site, &before);
    drop(said);
    let (code, said) = ended(child);
    assert!(
        code == Some(2) && said.contains("after the proof 1 % of the requests waited"),
        "{code:?} {said}"
    );
}

/// Somebody edits a file that the tuner has changed: it is left, and what stood there before is kept beside the journal.
#[test]
fn an_admin_s_edit_is_left_as_it_is() {
    let site = Site::new(POOL, WAITING);
    let _running = site.start();
    let (before, state) = (site.configuration(), site.at("state"));
    let mut child = apply(&site, &state, "0");
    changed(&site, &mut child, &before, 1);
    let mut own = site.configuration()[1].clone();
    own.extend(b"pm.max_requests = 900\n");
    // As an editor does it: a new file in the old one's place.
    let draft = site.dir.write("pool.conf.draft", &own);
    fs::rename(draft, site.at("pool.conf")).unwrap();
    let (code, said) = ended(child);
    assert!(code == Some(2) && said.contains("changed by somebody else"), "{code:?} {said}");
    let now = site.configuration();
    assert_eq!((&now[0], &now[2]), (&before[0], &before[2]));
    assert_eq!(now[1], own);
    let kept = fs::read_dir(&state).unwrap().flatten().map(|entry| entry.path());
    let kept: Vec<_> = kept.filter(|path| path.extension().is_some_and(|kind| kind == "original")).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(fs::read(&kept[0]).unwrap(), before[1]);
}

/// The first line of an answer of the site.
fn status(site: &Site) -> String {
    let mut answer = String::new();
    let mut stream = TcpStream::connect(("127.0.0.1", site.port.number)).unwrap();
    stream.write_all(b"GET /page.php HTTP/1.0\r\n\r\n").unwrap();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

/// Somebody is writing another pool's file: PHP-FPM would end if it were told to read it.
#[test]
fn a_half_written_file_of_another_pool_ends_nothing() {
    let site = Site::new(POOL, WAITING);
    let _running = site.start();
    let (before, state) = (site.configuration(), site.at("state"));
    let mut child = apply(&site, &state, "0");
    changed(&site, &mut child, &before, 1);
    let other = site.dir.write("others/other.conf", "[other]\nuser = nobody\n");
    let (code, said) = ended(child);
    assert!(
        code == Some(2) && said.contains("not reloaded") && said.contains("[pool other]"),
        "{code:?} {said}"
    );
    assert_eq!(site.configuration(), before);
    assert!(status(&site).contains(" 200 "), "{}", status(&site));
    // Nothing was left to undo, and nothing to reload.
    fs::remove_file(other).unwrap();
    assert_eq!(text(&undo(&state).stdout), "There is nothing to undo.\n");
    assert!(status(&site).contains(" 200 "), "{}", status(&site));
}

/// A small file system in a folder.
struct Mounted(String);

impl Mounted {
    fn over(folder: &Path) -> Mounted {
        let at = folder.display().to_string();
        let status =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m,mode=777", "tmpfs", &at]).status();
        assert!(status.unwrap().success(), "{at} cannot be mounted over");
        Mounted(at)
    }

    /// Leaves no byte of it free.
    fn fill(&self) {
        let mut file = fs::File::create(format!("{}/full", self.0)).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", &self.0]).status();
    }
}

/// The disk of the site's files is full with the change on it: there is room for the original nevertheless.
#[test]
fn a_full_disk_leaves_the_original() {
    let dir = TempDir::new();
    let mounted = Mounted::over(dir.path());
    let site = Site::within(dir, POOL, WAITING);
    let running = site.start();
    let before = site.configuration();
    let elsewhere = TempDir::new();
    let mut child = apply(&site, &elsewhere.path().display().to_string(), "0");
    changed(&site, &mut child, &before, 1);
    mounted.fill();
    is_back(&site, &before);
    let (code, said) = ended(child);
    assert!(
        code == Some(2) && said.contains("taken back") && said.contains("No space left"),
        "{code:?} {said}"
    );
    assert_eq!(site.configuration(), before);
    drop((running, mounted));
}

/// No room for the journal: nothing is changed.
#[test]
fn a_full_disk_of_the_journal_changes_nothing() {
    let site = Site::new(POOL, WAITING);
    let _running = site.start();
    let before = site.configuration();
    let state = TempDir::new();
    let mounted = Mounted::over(state.path());
    mounted.fill();
    let child = apply(&site, &state.path().display().to_string(), "0");
    let (code, said) = ended(child);
    assert!(code == Some(2) && said.contains("No space left"), "{code:?} {said}");
    assert_eq!(site.configuration(), before);
    drop(mounted);
}
