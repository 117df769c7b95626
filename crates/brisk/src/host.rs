//! What a worker process takes from the machine: user, limits, environment, cores.

use crate::refusal;
use brisk_conf::Diag;
use brisk_net::sys;
use brisk_server::conf::Snapshot;
use brisk_server::core::{CpuAffinity, MainConf};
use brisk_server::threads::affinity_cores;
pub use brisk_server::threads::count as threads;
use rustix::fs::Access;
use rustix::process::{Resource, Rlimit, WaitOptions, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, CpuSet, sched_setaffinity, set_capabilities};
use std::fs::{DirBuilder, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The user that workers run as; `None` where we are not root and cannot change.
pub struct Identity {
    name: String,
    uid: u32,
    gid: u32,
}

impl Identity {
    /// The user's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The ids of user and group.
    pub fn ids(&self) -> (u32, u32) {
        (self.uid, self.gid)
    }
}

/// The user of the configuration, `nobody` by default.
pub fn identity(main: &MainConf) -> Result<Option<Identity>, Diag> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let (name, group) = main.user.clone().unwrap_or(("nobody".into(), None));
    let user = sys::user(&name).ok_or_else(|| refusal::account(main.user_span, "getpwnam", &name))?;
    let gid = match group {
        Some(group) => {
            sys::group(&group).ok_or_else(|| refusal::account(main.user_span, "getgrnam", &group))?
        }
        // As nginx: the group of the same name if there is one, else the user's own.
        None => sys::group(&name).unwrap_or(user.gid),
    };
    Ok(Some(Identity { name, uid: user.uid, gid }))
}

/// Whether this process can start none as this user, a name or a number: it is not root, and has another one.
pub fn is_out_of_reach(user: &str) -> bool {
    let own = rustix::process::geteuid();
    let uid = user.parse().ok().or_else(|| sys::user(user).map(|user| user.uid));
    !own.is_root() && uid != Some(own.as_raw())
}

/// What a process that makes folders for another user needs: to enter folders that only root may write to.
const MAKING: CapabilitySet = CapabilitySet::DAC_OVERRIDE;

/// Creates the folders that workers write into, as their user, so that no ownership is to be changed. One that is there is
/// left as it is: it is not ours to give away. Gives warnings about those that workers may not write to.
pub fn make_folders(snap: &Snapshot) -> Result<Vec<String>, Diag> {
    let missing: Vec<&Path> = snap.folders.iter().map(PathBuf::as_path).filter(|f| !f.exists()).collect();
    // All users may pass through the folders above them, whatever the umask.
    for folder in &missing {
        folder.parent().map_or(Ok(()), make_way).map_err(|error| refused(unmade(folder, &error)))?;
    }
    let work = || -> Result<(), String> {
        missing.iter().try_for_each(|folder| make(folder).map_err(|error| unmade(folder, &error)))
    };
    let Some(id) = identity(&snap.main)?.filter(|id| id.uid != 0) else {
        return work().map(|()| Vec::new()).map_err(refused);
    };
    if snap.folders.is_empty() {
        return Ok(Vec::new());
    }
    let failed = |error: io::Error| format!("making folders for \"{}\" failed ({error})", id.name);
    let told = in_child(|| {
        sys::drop_privileges(&id.name, id.uid, id.gid, MAKING).map_err(failed)?;
        work()?;
        // From here on with the rights that workers have.
        let none = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
            .map_err(|error| failed(error.into()))?;
        Ok(snap
            .folders
            .iter()
            .filter_map(|folder| unwritable(folder, &id.name))
            .collect::<Vec<_>>()
            .join("\n"))
    });
    let warnings = told.map_err(|error| refused(failed(error)))?.map_err(refused)?;
    Ok(warnings.lines().map(str::to_string).collect())
}

/// The same for a process that serves by itself, as the user that it has.
pub fn make_own_folders(snap: &Snapshot) -> Result<(), Diag> {
    for folder in snap.folders.iter().filter(|folder| !folder.exists()) {
        let way = folder.parent().map_or(Ok(()), make_way);
        way.and_then(|()| make(folder)).map_err(|error| refused(unmade(folder, &error)))?;
    }
    Ok(())
}

/// A folder that cannot be made, with what helps.
fn refused(message: String) -> Diag {
    Diag::global(message)
        .help("Brisk writes into this folder: make it, or name another one (*_temp_path, *_cache_path, -p)")
}

fn unmade(folder: &Path, error: &io::Error) -> String {
    let remedy = match error.raw_os_error() {
        Some(libc::EROFS) => {
            "; a systemd unit with ProtectSystem needs ReadWritePaths= for it, or a folder in /var/cache/brisk"
        }
        _ => "",
    };
    format!("mkdir() \"{}\" failed ({}){remedy}", folder.display(), brisk_conf::os_text(error))
}

fn unwritable(folder: &Path, user: &str) -> Option<String> {
    let error = rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK).err()?;
    let (folder, why) = (folder.display(), brisk_conf::os_text(&error.into()));
    Some(format!("the user \"{user}\" may not write to \"{folder}\" ({why}); chown {user} {folder}"))
}

/// Runs `work` in another process and gives what it gives.
fn in_child(work: impl FnOnce() -> Result<String, String>) -> io::Result<Result<String, String>> {
    let (mut reader, mut writer) = io::pipe()?;
    match sys::fork()? {
        sys::Fork::Child => {
            drop(reader);
            let (code, text) = match work() {
                Ok(text) => (0, text),
                Err(text) => (1, text),
            };
            let sent = writer.write_all(text.as_bytes());
            sys::exit_now(if sent.is_ok() { code } else { 2 })
        }
        sys::Fork::Parent(pid) => {
            drop(writer);
            let mut text = String::new();
            reader.read_to_string(&mut text)?;
            let pid = rustix::process::Pid::from_raw(pid).ok_or_else(|| io::Error::other("no pid"))?;
            let status = rustix::process::waitpid(Some(pid), WaitOptions::empty())?;
            match status.and_then(|(_, status)| status.exit_status()) {
                Some(0) => Ok(Ok(text)),
                Some(1) if !text.is_empty() => Ok(Err(text)),
                // Killed, or ended by what it ran under: nothing is known of the folders.
                _ => Err(io::Error::other("its process ended")),
            }
        }
    }
}

fn make_way(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    folder.parent().map_or(Ok(()), make_way)?;
    match DirBuilder::new().create(folder) {
        Ok(()) => std::fs::set_permissions(folder, Permissions::from_mode(0o755)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes a folder that all users may pass through and none may look into, whatever the umask. One that is there is an error.
pub fn make_passage(folder: &Path) -> io::Result<()> {
    folder.parent().map_or(Ok(()), make_way)?;
    DirBuilder::new().create(folder)?;
    std::fs::set_permissions(folder, Permissions::from_mode(0o711))
}

fn make(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        // Another Brisk with the same prefix is starting, too.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        made => made,
    }
}

/// Makes this process a worker: environment, limits, priority, user, folder.
pub fn become_worker(snap: &Snapshot, identity: Option<&Identity>) -> Result<(), String> {
    let main = &*snap.main;
    let fail = |what: &str, error: &io::Error| Err(format!("{what} failed ({})", brisk_conf::os_text(error)));
    sys::set_environment(&environment(main));
    // `env TZ=…` may have changed it.
    sys::load_time_zone();
    if main.priority != 0
        && let Err(error) = sys::set_priority(main.priority)
    {
        return fail("setpriority()", &error);
    }
    limits(main);
    // With it connections may have any address at this end.
    let keep = if snap.uses_raw_sockets { CapabilitySet::NET_RAW } else { CapabilitySet::empty() };
    if let Some(id) = identity
        && let Err(error) = sys::drop_privileges(&id.name, id.uid, id.gid, keep)
    {
        return fail(&format!("changing to user \"{}\"", id.name), &error);
    }
    if main.rlimit_core.is_some() {
        sys::set_dumpable();
    }
    if let Some(folder) = &main.working_directory
        && let Err(error) = rustix::process::chdir(folder.as_str())
    {
        return fail(&format!("chdir(\"{folder}\")"), &error.into());
    }
    Ok(())
}

/// Open files: what the configuration says per thread, else enough for its connections as far as we may.
fn limits(main: &MainConf) {
    if let Some(bytes) = main.rlimit_core {
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(bytes), maximum: Some(bytes) });
    }
    let threads = threads(main) as u64;
    let current = getrlimit(Resource::Nofile);
    let wanted = match main.rlimit_nofile {
        Some(count) => count.saturating_mul(threads),
        // A connection may need a second descriptor (its file, its back end); files and stored answers are kept open, too.
        None => main.connections.saturating_mul(threads).saturating_mul(2).saturating_add(1024),
    };
    if current.current.is_none_or(|have| have >= wanted) && main.rlimit_nofile.is_none() {
        return;
    }
    let maximum = current.maximum.map_or(wanted, |max| max.max(wanted));
    let raised = Rlimit { current: Some(wanted), maximum: Some(maximum) };
    if setrlimit(Resource::Nofile, raised).is_err() {
        // Not ours to raise beyond the hard limit: take all there is.
        let all = Rlimit { current: current.maximum, maximum: current.maximum };
        let _ = setrlimit(Resource::Nofile, all);
    }
}

/// For messages about a start that has failed: the limit of the address space, if there is one. Empty without.
pub fn memory_hint() -> String {
    match getrlimit(Resource::As).current {
        Some(bytes) => format!(
            ". The address space is limited to {} MiB (ulimit -v), which may be too little: raise that limit, or lower worker_processes",
            bytes >> 20
        ),
        None => String::new(),
    }
}

/// Binds the calling thread to the cores that `worker_cpu_affinity` gives thread `index`.
pub fn pin(affinity: &CpuAffinity, index: usize) {
    let cores = match affinity {
        CpuAffinity::None => return,
        CpuAffinity::Auto(mask) => {
            let all = affinity_cores();
            let usable: Vec<usize> = match mask {
                Some(mask) => all.into_iter().filter(|cpu| mask.contains(cpu)).collect(),
                None => all,
            };
            match usable.get(index % usable.len().max(1)) {
                Some(&cpu) => vec![cpu],
                None => return,
            }
        }
        CpuAffinity::Masks(masks) => match masks.get(index).or(masks.last()) {
            Some(cores) => cores.clone(),
            None => return,
        },
    };
    let mut set = CpuSet::new();
    cores.into_iter().filter(|&cpu| cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
    // A core that does not exist here is no reason not to serve.
    let _ = sched_setaffinity(None, &set);
}

/// The environment of workers: only what `env` names, and TZ.
fn environment(main: &MainConf) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut names: Vec<(&str, Option<&str>)> = vec![("TZ", None)];
    names.extend(main.env.iter().map(|(name, value)| (name.as_str(), value.as_deref())));
    for (name, value) in names {
        let value = value.map(str::to_string).or_else(|| std::env::var(name).ok());
        if let Some(value) = value {
            out.retain(|(have, _): &(String, String)| have != name);
            out.push((name.to_string(), value));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_can_start_others_than_its_own_user() {
        let reach = || ["root", "nobody", "0", "65534", "no-such-user"].map(|user| !is_out_of_reach(user));
        assert!(rustix::process::geteuid().is_root(), "users are changed: run this as root");
        assert_eq!(reach(), [true; 5], "whether there is such a user is asked elsewhere");
        let as_nobody = move || {
            let nobody = rustix::process::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            reach()
        };
        let reached = std::thread::spawn(as_nobody).join().unwrap();
        assert_eq!(reached, [false, true, false, true, false]);
    }

    #[test]
    fn folders_are_made_by_one_of_many() {
        let base = std::env::temp_dir().join(format!("brisk-folders-{}", std::process::id()));
        for round in 0..20 {
            let folder = base.join(round.to_string()).join("temp");
            std::thread::scope(|scope| {
                let starts: Vec<_> = (0..8)
                    .map(|_| scope.spawn(|| make_way(folder.parent().unwrap()).and_then(|()| make(&folder))))
                    .collect();
                starts.into_iter().for_each(|start| start.join().unwrap().unwrap());
            });
        }
        std::fs::write(base.join("file"), "").unwrap();
        let in_the_way = make(&base.join("file"));
        std::fs::remove_dir_all(&base).unwrap();
        assert_eq!(in_the_way.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
}
