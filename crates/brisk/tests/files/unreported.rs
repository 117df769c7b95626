//! Changes of which the kernel tells a file's folder nothing: what can be heard of at the file itself is never served stale,
//! and the rest of it for a second at most.

use crate::BIN;
use crate::coherence::{CONF, LARGE, Rig, SMALL, Want, put, version};
use crate::unwatched::{mounts, seen_by, start_in};
use brisk_testkit::unreported::{AIO, MAP, Writer};
use brisk_testkit::{Builder, wait};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, Mode, OFlags, copy_file_range, fallocate, linkat, openat, sendfile,
};
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

/// A file without a name in `folder`, which then gets the name `to`.
fn without_name(folder: &Path, to: &Path, size: usize) -> File {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, folder, flags, Mode::from_raw_mode(0o644)).expect("our own folder"));
    file.write_all_at(&version(0, size), 0).expect("our own file");
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, own.as_str(), CWD, to, AtFlags::SYMLINK_FOLLOW).expect("our own file");
    file
}

/// A file that was opened by a name in `folder`, has the name `to` now, and that one alone.
fn by_another_name(folder: &Path, to: &Path, size: usize) -> File {
    let name = folder.join("first name");
    put(&name, version(0, size));
    let file = File::options().read(true).write(true).open(&name).expect("our own file");
    fs::hard_link(&name, to).expect("our own file");
    fs::remove_file(&name).expect("our own file");
    file
}

/// Every way to write through a descriptor.
fn writes(rig: &mut Rig, file: &File, target: &str, size: usize) {
    let source = rig.html.join("../source");
    rig.rounds("written", target, 50, |round| {
        file.write_all_at(&version(round, size), 0).expect("our own file");
        Want::Body(version(round, size))
    });
    rig.rounds("truncated", target, 20, |round| {
        let length = size - 1 - round as usize;
        file.set_len(length as u64).expect("our own file");
        Want::Body(version(49, size)[..length].to_vec())
    });
    rig.rounds("holes", target, 20, |round| {
        file.write_all_at(&version(round, size), 0).expect("our own file");
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(file, flags, 0, 9).expect("a file system that can");
        Want::Body([&[0; 9], &version(round, size)[9..]].concat())
    });
    rig.rounds("copied by the kernel", target, 20, |round| {
        put(&source, version(round, size));
        let from = File::open(&source).expect("our own file");
        let count = if round % 2 == 0 {
            copy_file_range(&from, Some(&mut 0), file, Some(&mut 0), size).expect("our own files")
        } else {
            std::io::Seek::rewind(&mut &*file).expect("our own file");
            sendfile(file, &from, Some(&mut 0), size).expect("our own files")
        };
        assert_eq!(count, size);
        Want::Body(version(round, size))
    });
}

/// 880 rounds.
#[test]
fn a_descriptor_whose_name_is_gone() {
    let mut rig = Rig::new();
    for size in [SMALL, LARGE] {
        let folder = rig.folder(&format!("gone{size}"));
        let outside = rig.html.join("../outside");
        fs::create_dir_all(&outside).expect("our own folder");
        for (name, from) in [("here", &folder), ("there", &outside)] {
            let unnamed = without_name(from, &folder.join(name), size);
            writes(&mut rig, &unnamed, &format!("/gone{size}/{name}"), size);
            let name = format!("linked {name}");
            let linked = by_another_name(from, &folder.join(&name), size);
            writes(&mut rig, &linked, &format!("/gone{size}/{}", name.replace(' ', "%20")), size);
        }
    }
}

/// 240 rounds.
#[test]
fn a_hard_link_that_is_made_later() {
    let mut rig = Rig::new();
    for size in [SMALL, LARGE] {
        let folder = rig.folder(&format!("later{size}"));
        let (file, link) = (folder.join("file"), rig.html.join("../link"));
        put(&file, version(0, size));
        rig.rounds("written by a link of later", &format!("/later{size}/file"), 120, |round| {
            if round % 40 == 0 {
                let _ = fs::remove_file(&link);
            }
            if round % 40 == 20 {
                fs::hard_link(&file, &link).expect("our own file");
            }
            put(if round % 40 < 20 { &file } else { &link }, version(round, size));
            Want::Body(version(round, size))
        });
    }
}

#[test]
fn what_the_kernel_never_reports_is_seen_within_a_second() {
    let mut rig = Rig::new();
    for (how, script) in [("map", MAP), ("aio", AIO)] {
        for size in [SMALL, LARGE] {
            let file = rig.folder(how).join(format!("file{size}"));
            put(&file, version(0, size));
            let mut writer = Writer::start(script, &file);
            for round in 0..3 {
                // Kept in whatever form, and asked for all the time.
                rig.rounds("as it is", &format!("/{how}/file{size}"), 5, |_| {
                    Want::Body(version(round, size))
                });
                let mut want = version(round, size);
                let next = format!("{:08}", round + 1);
                want[..8].copy_from_slice(next.as_bytes());
                writer.write(next.as_bytes());
                rig.eventually(
                    &format!("{how}, round {round}"),
                    &format!("/{how}/file{size}"),
                    &Want::Body(want),
                );
                put_quietly(&file, round + 1, size);
                rig.eventually(
                    "written anew",
                    &format!("/{how}/file{size}"),
                    &Want::Body(version(round + 1, size)),
                );
            }
        }
    }
}

/// In place: a file that is mapped must not become shorter.
fn put_quietly(path: &Path, round: u32, size: usize) {
    let file = File::options().write(true).open(path).expect("our own file");
    file.write_all_at(&version(round, size), 0).expect("our own file");
}

/// The file lies in the upper folder of somebody's overlay, as those of containers do.
#[test]
fn written_through_an_overlay() {
    let prepared = Builder::new(BIN)
        .http(CONF)
        .file("html/upper/small", version(0, SMALL))
        .file("html/upper/large", version(0, LARGE))
        .file("lower/other", "")
        .file("merged/other", "")
        .prepare();
    let script = r#"mkdir -p "$DIR/work" && mount -t overlay overlay \
        -o "lowerdir=$DIR/lower,upperdir=$DIR/html/upper,workdir=$DIR/work" "$DIR/merged""#;
    let server = start_in(prepared, mounts(), script);
    let html = seen_by(&server);
    let merged = html.join("../merged");
    let mut rig = Rig::of(server, html);
    for (name, size) in [("small", SMALL), ("large", LARGE)] {
        let file = File::options().write(true).open(merged.join(name)).expect("it is mounted");
        let target = format!("/upper/{name}");
        for round in 0..3 {
            rig.rounds("as it is", &target, 5, |_| Want::Body(version(round, size)));
            file.write_all_at(&version(round + 1, size), 0).expect("our own file");
            rig.eventually(&format!("round {round}"), &target, &Want::Body(version(round + 1, size)));
        }
    }
}

/// A mount over a file, a folder, and where there was nothing.
#[test]
fn something_is_mounted_over_it() {
    let prepared = Builder::new(BIN)
        .http(CONF)
        .file("html/folder/file", "covered")
        .file("html/file", "covered")
        .file("html/empty/.keep", "")
        .file("elsewhere/file", "mounted")
        .prepare();
    let server = start_in(prepared, mounts(), "true");
    let html = seen_by(&server);
    let mut rig = Rig::of(server, html);
    for target in ["/folder/file", "/file"] {
        rig.rounds("covered", target, 5, |_| Want::Body(b"covered".to_vec()));
    }
    rig.rounds("missing", "/empty/file", 5, |_| Want::Status(404));
    let script = r#"cd "$DIR" && mount --bind elsewhere html/folder && mount --bind elsewhere html/empty &&
        mount --bind elsewhere/file html/file"#;
    let mut enter = Command::new("nsenter");
    enter.args(["--target", &rig.server.child_pid().to_string()]);
    enter.args(mounts().iter().filter(|name| !name.starts_with("--map")));
    let output = enter.args(["sh", "-c", script]).env("DIR", rig.server.dir()).output();
    let output = output.expect("nsenter, of util-linux");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for target in ["/folder/file", "/file", "/empty/file"] {
        rig.eventually(target, target, &Want::Body(b"mounted".to_vec()));
    }
}

/// The one look per second is shared by all that is kept of a file.
#[test]
fn a_file_in_use_is_looked_at_once_per_second() {
    let server = Builder::new(BIN).http(CONF).main("worker_processes 1;").file("html/file", "file").start();
    let mut client = server.client();
    (0..5).for_each(|_| assert_eq!(client.get("/file").text(), "file"));
    let worker = server.workers()[0];
    let reads = || brisk_testkit::process::number(worker, "io", "syscr:").expect("our own process");
    let start = std::time::Instant::now();
    let before = reads();
    let mut asked = 0;
    wait::holds("more than a second has passed", || {
        (0..200).for_each(|_| assert_eq!(client.get("/file").status, 200));
        asked += 200;
        start.elapsed().as_millis() > 1500
    });
    // One read of the socket and one of the kernel's news for each request, and little more.
    let extra = reads() - before - 2 * asked;
    assert!(extra < 60 + asked / 50, "{extra} reads beyond those of {asked} requests");
}
