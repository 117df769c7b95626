//! What this machine must have for a program: its file and its user.

use crate::host::is_out_of_reach;
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
    let Some(worker) = crate::host::identity(main)? else { return own(spec).map(|()| None) };
    let name = spec.user.as_deref().unwrap_or(worker.name());
    let user = sys::user(name).ok_or_else(|| unknown_name(spec, "user", name, "useradd"))?;
    let gid = match &spec.group {
        Some(group) => sys::group(group).ok_or_else(|| unknown_name(spec, "group", group, "groupadd"))?,
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

/// Where this process is not root: a program that is to have another user or group must not run as this one's.
fn own(spec: &ProgramSpec) -> Result<(), Diag> {
    let foreign = |kind: &str, name: &str| {
        let text = format!(
            "supervise \"{}\" names the {kind} \"{name}\", and a master process that is not root can start it as no other {kind} than its own",
            spec.name
        );
        Diag::global(text).help("leave it out of \"user\", or start the server as root")
    };
    if let Some(name) = &spec.user {
        sys::user(name).ok_or_else(|| unknown_name(spec, "user", name, "useradd"))?;
        if is_out_of_reach(name) {
            return Err(foreign("user", name));
        }
    }
    if let Some(name) = &spec.group {
        let gid = sys::group(name).ok_or_else(|| unknown_name(spec, "group", name, "groupadd"))?;
        if gid != rustix::process::getegid().as_raw() {
            return Err(foreign("group", name));
        }
    }
    Ok(())
}

fn unknown_name(spec: &ProgramSpec, kind: &str, name: &str, add: &str) -> Diag {
    Diag::global(format!("there is no {kind} \"{name}\", whom supervise \"{}\" names", spec.name))
        .help(format!("name another one, or make it ({add} --system {name})"))
}
