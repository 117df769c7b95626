//! The system calls of a process, as strace tells them.

use crate::{TempDir, process, wait};
use rustix::process::Signal;
use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A process that is followed until [`Calls::turns`] is asked.
pub struct Calls {
    tracer: Child,
    file: PathBuf,
    _dir: TempDir,
}

impl Calls {
    /// Follows all threads of a process from here on.
    ///
    /// # Panics
    /// If strace is not installed, or may not follow it.
    pub fn of(pid: u32) -> Calls {
        let dir = TempDir::new();
        let file = dir.path().join("calls");
        let mut command = Command::new("strace");
        command.args(["-f", "-e", "signal=none", "-o"]).arg(&file).args(["-p", &pid.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(dir.path().join("said")).expect("our own file"));
        let mut tracer = crate::children::spawn(&mut command)
            .expect("strace is not installed: scripts/setup.sh does that");
        wait::holds("strace follows the process", || {
            let ended = tracer.try_wait().expect("our own child");
            let said = || fs::read_to_string(dir.path().join("said")).unwrap_or_default();
            assert!(ended.is_none(), "strace does not follow process {pid}: {}", said());
            is_followed(pid)
        });
        Calls { tracer, file, _dir: dir }
    }

    /// Ends, and gives how often the busiest thread has made which calls in a row between two waits for events, the commonest first.
    ///
    /// # Panics
    /// If strace has written nothing.
    pub fn turns(mut self) -> Vec<(Vec<String>, usize)> {
        process::signal(self.tracer.id(), Signal::INT);
        let _ = self.tracer.wait();
        let text = fs::read_to_string(&self.file).expect("strace writes its file");
        let mut counted: HashMap<Vec<String>, usize> = HashMap::new();
        for turn in turns(&text) {
            *counted.entry(turn).or_default() += 1;
        }
        let mut counted: Vec<_> = counted.into_iter().collect();
        counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counted
    }

    /// In how many of its turns the busiest thread has made a call.
    ///
    /// # Panics
    /// As [`Calls::turns`].
    pub fn turns_with(self, name: &str) -> usize {
        let turns = self.turns();
        turns.iter().filter(|(calls, _)| calls.iter().any(|call| call == name)).map(|(_, count)| count).sum()
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        let _ = self.tracer.kill();
        let _ = self.tracer.wait();
    }
}

/// Whether somebody follows each thread of a process.
fn is_followed(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let threads: Vec<String> =
        tasks.filter_map(|task| Some(task.file_name().to_str()?.to_string())).collect();
    let tracer = |thread: &String| process::number(pid, &format!("task/{thread}/status"), "TracerPid:");
    !threads.is_empty() && threads.iter().all(|thread| tracer(thread).is_some_and(|tracer| tracer > 0))
}

/// The calls of the busiest thread, cut where it waits for events.
fn turns(text: &str) -> Vec<Vec<String>> {
    let mut threads: HashMap<&str, Vec<&str>> = HashMap::new();
    for line in text.lines() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        // (What was interrupted is told once more: `<... read resumed>`.)
        let Some((name, _)) = rest.trim_start().split_once('(') else { continue };
        if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            threads.entry(thread).or_default().push(name);
        }
    }
    let busiest = threads.into_values().max_by_key(Vec::len).unwrap_or_default();
    let turns = busiest.split(|name| name.starts_with("epoll_") && name.contains("wait"));
    turns.map(|turn| turn.iter().map(ToString::to_string).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_cut_where_a_thread_waits() {
        let text = "7 epoll_wait(3, [{EPOLLIN}], 8, -1) = 1\n7 recvfrom(5, \"GET / (x)\", 9, 0, NULL, NULL) = 9\n8 futex(0x1, FUTEX_WAIT <unfinished ...>\n7 sendto(5, \"a\", 1, 0, NULL, 0) = 1\n7 epoll_pwait2(3,  <unfinished ...>\n8 <... futex resumed>) = 0\n7 <... epoll_pwait2 resumed>[], 8, NULL, NULL, 8) = 0\n7 read(4, \"\", 1) = 0\n7 +++ exited with 0 +++\n";
        let turns = turns(text);
        let shown: Vec<String> = turns.iter().map(|turn| turn.join(" ")).collect();
        assert_eq!(shown, ["", "recvfrom sendto", "read"]);
    }
}
