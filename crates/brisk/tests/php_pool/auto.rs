//! `pm auto`: the number of workers is found while requests wait, and told with its reason.

use crate::site::Site;
use brisk_testkit::{Builder, wait};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Asks for a script with so many clients at once, until `is_enough` says so.
fn ask_until(site: &Site, clients: usize, script: &str, what: &str, is_enough: impl Fn() -> bool) {
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(site.get(script).status, 200, "{}", site.server.error_log());
                }
            });
        }
        let _ends = Ends(&is_over);
        wait::holds(what, is_enough);
    });
}

fn status(site: &Site) -> serde_json::Value {
    let output = site.php(&["status", "www", "--json"]);
    serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["www"].clone()
}

#[test]
fn work_that_waits_gets_more_workers_and_work_that_runs_does_not() {
    let site = Site::new("max_children 16; queue 100 timeout=60s; status_path /pool;", "");
    site.script("wait.php", "<?php usleep(20000); echo 'ok';");
    site.script("run.php", "<?php for ($i = 0; $i < 400000; $i++) { $x = md5((string) $i); } echo 'ok';");
    let cores = thread::available_parallelism().unwrap().get() as u64;
    let wanted = || status(&site)["wanted"].as_u64().unwrap_or(0);
    let why = || status(&site)["why"].as_str().unwrap_or_default().to_string();
    ask_until(&site, 2 * cores as usize + 6, "/run.php", "full processors", || {
        assert!(wanted() <= cores + 1, "{}", why());
        why().contains("the processors are full")
    });
    ask_until(&site, 12, "/wait.php", "more workers", || wanted() >= 2 * cores + 2);
    assert!(status(&site)["total processes"].as_u64().unwrap() > cores);
    brisk_testkit::server::check(&site.php(&["status"]), 0, &["at most \\d+ workers now: "]);
}

/// A control group with a limit of memory, of the version that has this machine's memory controller.
struct Group(PathBuf);

impl Group {
    fn new(limit_bytes: u64) -> Group {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mount = |is_it: fn(&str) -> bool| {
            let line =
                mounts.lines().find(|line| line.split_once(" - ").is_some_and(|(_, rest)| is_it(rest)))?;
            Some(PathBuf::from(line.split(' ').nth(4)?))
        };
        let first = mount(|rest| rest.starts_with("cgroup ") && rest.ends_with(",memory"));
        let second = mount(|rest| rest.starts_with("cgroup2 "));
        let (root, limit) = match (first, second) {
            (Some(root), _) => (root, "memory.limit_in_bytes"),
            (None, Some(root)) => {
                fs::write(root.join("cgroup.subtree_control"), "+memory").expect("a memory controller");
                (root, "memory.max")
            }
            (None, None) => panic!("no control groups for memory are mounted: mount /sys/fs/cgroup"),
        };
        let folder = root.join(format!("brisk-test-{}", std::process::id()));
        fs::create_dir(&folder).expect("a control group of our own");
        fs::write(folder.join(limit), limit_bytes.to_string()).expect("a limit of memory");
        Group(folder)
    }

    /// Starts a site as its member: no process of it begins outside, and no memory is another group's.
    fn start(&self, builder: Builder) -> Site {
        let prepared = builder.prepare();
        let server = prepared.command(&["-e", "error.log"]);
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.0.join("cgroup.procs"));
        shell.arg(server.get_program()).args(server.get_args()).stdin(Stdio::null());
        Site { server: prepared.start_with(shell) }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its members go back to the group above it.
        let members = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        let above = self.0.parent().unwrap_or(Path::new("/"));
        members.lines().for_each(|pid| drop(fs::write(above.join("cgroup.procs"), pid)));
        let _ = fs::remove_dir(&self.0);
    }
}

/// What the machine has left is not what a container or a service has.
#[test]
fn the_memory_limit_of_a_control_group_bounds_a_pool() {
    let group = Group::new(240 << 20);
    let conf = crate::site::conf("max_children 24; queue 100 timeout=60s;", "");
    let site = group.start(crate::site::builder().http(&conf));
    // Each request holds 20 MB until the gate opens: how much is served in a second, which other programs change, decides nothing.
    let gate = File::create(site.server.dir().join("gate")).unwrap();
    gate.lock().unwrap();
    let wait = format!("flock(fopen('{}/gate', 'r'), LOCK_SH);", site.server.dir().display());
    site.script("hold.php", &format!("<?php $a = str_repeat('x', 20 << 20); {wait} echo strlen($a);"));
    let wanted = || status(&site)["wanted"].as_u64().unwrap_or(0);
    let why = || status(&site)["why"].as_str().unwrap_or_default().to_string();
    ask_until(&site, 30, "/hold.php", "a lack of memory", || {
        // Eleven of them fill the group.
        assert!(wanted() < 12, "{}", status(&site));
        why().contains("more would not fit into memory") && gate.unlock().is_ok()
    });
}

#[test]
fn numbers_of_pools_are_among_the_metrics() {
    let text = crate::site::conf("pm static; max_children 2;", "")
        .replace("location / ", "location /api { api; } location = /metrics { metrics; } location / ");
    let site = Site::of(crate::site::builder().http(&text));
    site.script("a.php", "<?php echo 'a';");
    assert_eq!(site.get("/a.php").text(), "a");
    wait::holds("the pool's numbers", || {
        let text = site.get("/metrics").text();
        text.contains("\nbrisk_php_requests_total{pool=\"www\"} 1\n")
            && text.contains("\nbrisk_php_workers{pool=\"www\"} 2\n")
            && text.contains("\nbrisk_php_queue{pool=\"www\"} 0\n")
    });
    let json: serde_json::Value = serde_json::from_str(&site.get("/api/9/http/php").text()).unwrap();
    assert_eq!((&json["www"]["workers"]["total"], &json["www"]["requests"]["total"]), (&2.into(), &1.into()));
    assert_eq!(json["www"]["manager"], "static");
}
