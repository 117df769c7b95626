//! Where a run took place.

use std::fs;

/// The machine and the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// This program's version.
    pub version: String,
    /// The machine's name.
    pub host: String,
    /// The kernel's release.
    pub kernel: String,
    /// The processor.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cpus: usize,
    /// Memory of the machine, in bytes.
    pub memory_bytes: u64,
}

impl Environment {
    /// Here and now.
    pub fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let value = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':'))
                .map(|(_, value)| value.trim().to_owned())
                .unwrap_or_default()
        };
        let memory = value(&read("/proc/meminfo"), "MemTotal");
        let kib: u64 = memory.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: read("/proc/sys/kernel/hostname").trim().to_owned(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cpu: value(&read("/proc/cpuinfo"), "model name"),
            cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_bytes: kib * 1024,
        }
    }

    /// Names and values for people.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        vec![
            ("brisk", self.version.clone()),
            ("machine", self.host.clone()),
            ("kernel", self.kernel.clone()),
            ("processor", format!("{} ({} CPUs)", self.cpu, self.cpus)),
            ("memory", format!("{:.1} GiB", self.memory_bytes as f64 / f64::from(1 << 30))),
        ]
    }
}
