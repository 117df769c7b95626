//! What this machine must have for a program: its file and its user.

use brisk_conf::Diag;
use brisk_modules::supervise::{ProgramSpec, Programs};
use brisk_net::sys::{self, Account};
use brisk_server::conf::Snapshot;
use brisk_server::core::MainConf;
use rustix::fs::{Access, access};
use std::path::{Path, PathBuf};

/// What is missing, over all programs of a configuration.
pub fn unknown(snap: &Snapshot) -> Vec<Diag> {
    let wanted = snap.data::<Programs>().map(|wanted| wanted.0.as_slice()).unwrap_or_default();
    let faults = wanted.iter().flat_map(|spec| [program(spec).err(), of(spec, &snap.main).err()]);
    faults.flatten().collect()
}

/// Where programs are looked for, and their `PATH`. Not what the environment of whoever has started the server says: root's folders are not
/// for other users, and the service must run what was tested by hand.
pub const PLACES: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The file of a program: as it is written, or in the system's folders.
pub fn program(spec: &ProgramSpec) -> Result<PathBuf, Diag> {
    let name = spec.command.first().map(String::as_str).unwrap_or_default();
    let is_program = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    let missing = |place: String| {
        Diag::global(format!("there is no program \"{name}\"{place} for supervise \"{}\"", spec.name))
            .help("write the whole path of a file that may be executed")
    };
    if name.contains('/') {
        let path = Path::new(spec.directory.as_deref().unwrap_or("/")).join(name);
        return if is_program(&path) { Ok(path) } else { Err(missing(String::new())) };
    }
    let found = PLACES.split(':').map(|place| Path::new(place).join(name)).find(|path| is_program(path));
    found.ok_or_else(|| missing(format!(" in {PLACES}")))
}

/// The user that a program is started as; `None`: that of this process, which is not root.
pub fn of(spec: &ProgramSpec, main: &MainConf) -> Result<Option<Account>, Diag> {
    let Some(worker) = crate::host::identity(main)? else { return Ok(None) };
    let name = spec.user.as_deref().unwrap_or(worker.name());
    let unknown = |kind: &str, name: &str, add: &str| {
        Diag::global(format!("there is no {kind} \"{name}\", whom supervise \"{}\" names", spec.name))
            .help(format!("name another one, or make it ({add} --system {name})"))
    };
    let user = sys::user(name).ok_or_else(|| unknown("user", name, "useradd"))?;
    let gid = match &spec.group {
        Some(group) => sys::group(group).ok_or_else(|| unknown("group", group, "groupadd"))?,
        None if spec.user.is_none() => worker.ids().1,
        None => user.gid,
    };
    if user.uid == 0 {
        return Err(Diag::global(format!("supervise \"{}\" would run as root", spec.name)).help(
            "name a \"user\" in its block; what needs root's rights is for the system's service manager",
        ));
    }
    Ok(Some(Account { uid: user.uid, gid, groups: sys::groups(name, gid) }))
}
