//! `SystemCallFilter=` and `RestrictAddressFamilies=` as a program for the kernel (seccomp(2), classic BPF).

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

/// The words of `linux/bpf_common.h` and `linux/seccomp.h`.
const LOAD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const NUMBER: u32 = 0;
const FIRST_ARGUMENT: u32 = 16;
const ALLOW: u32 = 0x7fff_0000;
const ERRNO: u32 = 0x0005_0000;
const EPERM: u32 = 1;
const EAFNOSUPPORT: u32 = 97;

/// The bytes of a `struct sock_filter` array: calls of the sets are allowed, `socket()` for these families only.
///
/// # Panics
/// If a tool is missing, or a word is not known.
pub fn program(sets: &[&str], families: &[&str]) -> Vec<u8> {
    let numbers = numbers();
    let mut names = Vec::new();
    sets.iter().for_each(|set| expand(set, &mut names));
    let socket = numbers["socket"];
    let mut allowed: Vec<u32> = names.iter().filter_map(|name| numbers.get(name.as_str()).copied()).collect();
    allowed.sort_unstable();
    allowed.dedup();
    assert!(allowed.len() > 100 && allowed.contains(&socket), "{sets:?}");

    let mut out = Vec::new();
    let mut put = |code: u16, then: u8, other: u8, value: u32| {
        out.extend_from_slice(&code.to_ne_bytes());
        out.extend_from_slice(&[then, other]);
        out.extend_from_slice(&value.to_ne_bytes());
    };
    put(LOAD, 0, 0, NUMBER);
    for number in allowed.into_iter().filter(|&number| number != socket) {
        put(JUMP_EQUAL, 0, 1, number);
        put(RETURN, 0, 0, ALLOW);
    }
    put(JUMP_EQUAL, 1, 0, socket);
    put(RETURN, 0, 0, ERRNO | EPERM);
    put(LOAD, 0, 0, FIRST_ARGUMENT);
    for family in families {
        let number = match *family {
            "AF_UNIX" => 1,
            "AF_INET" => 2,
            "AF_INET6" => 10,
            "AF_NETLINK" => 16,
            other => panic!("the number of {other} is not known here"),
        };
        put(JUMP_EQUAL, 0, 1, number);
        put(RETURN, 0, 0, ALLOW);
    }
    put(RETURN, 0, 0, if families.is_empty() { ALLOW } else { ERRNO | EAFNOSUPPORT });
    out
}

/// The calls of a set, as systemd itself lists them.
fn expand(set: &str, names: &mut Vec<String>) {
    if !set.starts_with('@') {
        names.push(set.to_string());
        return;
    }
    let output = Command::new("systemd-analyze").args(["syscall-filter", set]).output();
    let output = output.expect("systemd-analyze is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "systemd does not know {set}");
    for line in text.lines().skip(1).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        expand(line, names);
    }
}

/// The numbers of this machine's system calls, as the C headers have them.
fn numbers() -> BTreeMap<String, u32> {
    let mut command = Command::new("cc");
    command.args(["-E", "-dM", "-include", "sys/syscall.h", "-xc", "/dev/null"]).stderr(Stdio::inherit());
    let output = command.output().expect("a C compiler is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = |line: &str| {
        let (name, value) = line.strip_prefix("#define __NR_")?.split_once(' ')?;
        Some((name.to_string(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(number).collect()
}
