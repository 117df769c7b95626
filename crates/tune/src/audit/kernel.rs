//! The kernel's settings and the machine.

use super::check::{Check, Seen, Tier, Weight};
use crate::site::Site;

fn below(site: &Site, name: &str, least: u64) -> Vec<Seen> {
    let small = site.machine.sysctl(name).filter(|value| *value < least);
    small.map(|value| Seen::nowhere(format!("{name} = {value}"))).into_iter().collect()
}

fn somaxconn(site: &Site) -> Vec<Seen> {
    below(site, "net.core.somaxconn", 1024)
}

fn syn_backlog(site: &Site) -> Vec<Seen> {
    below(site, "net.ipv4.tcp_max_syn_backlog", 1024)
}

fn files(site: &Site) -> Vec<Seen> {
    below(site, "fs.file-max", 65_536)
}

fn watches(site: &Site) -> Vec<Seen> {
    below(site, "fs.inotify.max_user_watches", 65_536)
}

fn ports(site: &Site) -> Vec<Seen> {
    let range = site.machine.sysctls.iter().find(|(name, _)| name == "net.ipv4.ip_local_port_range");
    let Some((name, value)) = range else { return Vec::new() };
    let mut numbers = value.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(low), Some(high)) if high.saturating_sub(low) < 20_000 => {
            vec![Seen::nowhere(format!("{name} = {low} {high}"))]
        }
        _ => Vec::new(),
    }
}

fn conntrack(site: &Site) -> Vec<Seen> {
    let (Some(used), Some(most)) = (
        site.machine.sysctl("net.netfilter.nf_conntrack_count"),
        site.machine.sysctl("net.netfilter.nf_conntrack_max"),
    ) else {
        return Vec::new();
    };
    if most > 0 && used >= most / 10 * 7 {
        return vec![Seen::nowhere(format!("net.netfilter.nf_conntrack_max = {most}, {used} in use"))];
    }
    Vec::new()
}

fn swap(site: &Site) -> Vec<Seen> {
    /// What lies there for long without harm.
    const HARMLESS: u64 = 64 << 20;
    let used = site.machine.swap_used;
    if used > HARMLESS {
        vec![Seen::nowhere(format!("{} MiB of swap in use", used >> 20))]
    } else {
        Vec::new()
    }
}

fn slow_start(site: &Site) -> Vec<Seen> {
    let on = site.machine.sysctl("net.ipv4.tcp_slow_start_after_idle").filter(|value| *value == 1);
    on.map(|_| Seen::nowhere("net.ipv4.tcp_slow_start_after_idle = 1")).into_iter().collect()
}

const fn row(
    slug: &'static str,
    weight: Weight,
    why: &'static str,
    line: &'static str,
    look: fn(&Site) -> Vec<Seen>,
) -> Check {
    Check { slug, tier: Tier::Machine, weight, why, gain: None, line, look }
}

#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    row("kernel-backlog", Weight::Large, "No program's backlog can be longer: connections that come at once are dropped and tried again a second later.",
        "net.core.somaxconn = 4096", somaxconn),
    row("kernel-syn-backlog", Weight::Small, "Connections that are being made are dropped in a rush.",
        "net.ipv4.tcp_max_syn_backlog = 4096", syn_backlog),
    row("kernel-files", Weight::Large, "All programs together may open no more files and connections.",
        "fs.file-max = 1000000", files),
    row("kernel-watches", Weight::Small, "Brisk looks at each file for each request where the kernel tells of no more changes.",
        "fs.inotify.max_user_watches = 524288", watches),
    row("kernel-ports", Weight::Small, "Connections to one back end over TCP run out of ports.",
        "net.ipv4.ip_local_port_range = 10240 65535", ports),
    row("kernel-conntrack", Weight::Danger, "When the firewall's table is full, packets of new connections are dropped.",
        "net.netfilter.nf_conntrack_max twice as large, or no tracking for the web server's ports", conntrack),
    row("memory-swapped", Weight::Large, "What was swapped out is read from the disk before it can work: requests take seconds.",
        "fewer processes, smaller buffers, or more memory", swap),
    row("kernel-slow-start-after-idle", Weight::Small, "A kept connection begins slowly again after each pause.",
        "net.ipv4.tcp_slow_start_after_idle = 0", slow_start),
];
