//! Files of the site that are replaced as a whole, with all that the old one has beside its bytes: owner, permissions, ACLs.

use crate::limits::TUNE_ATTRIBUTE_BYTES_MAX;
use brisk_net::replace::draft_of;
use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::Path;

/// The attribute that holds a file's POSIX ACL (acl(5)).
const ACL: &[u8] = b"system.posix_acl_access";

/// Replaces a file, with its owner and its permissions.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = draft_of(path);
    let written = fill(path, &draft, bytes).and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
        return written;
    }
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// The same for an original. On a full disk there is no room for a draft: the original is written over what is there, which is never
/// shorter by more than a block's rest. A power failure in that moment is the one that leaves a file that the journal does not know.
pub fn restore(path: &Path, original: &[u8]) -> io::Result<()> {
    match write(path, original) {
        Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            let mut file = OpenOptions::new().write(true).open(path)?;
            file.write_all(original)?;
            file.set_len(original.len() as u64)?;
            file.sync_all()
        }
        other => other,
    }
}

fn fill(path: &Path, draft: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    file.write_all(bytes)?;
    if let Ok(old) = File::open(path) {
        let there = old.metadata()?;
        fchown(&file, Some(there.uid()), Some(there.gid()))?;
        attributes(&old, &file)?;
        file.set_permissions(fs::Permissions::from_mode(there.mode() & 0o7777))?;
    }
    file.sync_all()
}

/// Copies the extended attributes of the old file to the new one. An ACL must be copied: with one, the group's bits of the mode are the mask of
/// all its entries, so without it the group would get the rights of the mask. An error of any other attribute is ignored.
fn attributes(old: &File, new: &File) -> io::Result<()> {
    let wanted = names(old)?;
    // A folder may give new files an ACL.
    for name in names(new)?.difference(&wanted).filter(|name| *name == ACL) {
        fremovexattr(new, &name[..])?;
    }
    let mut value = vec![0; TUNE_ATTRIBUTE_BYTES_MAX];
    for name in &wanted {
        let given = fgetxattr(old, &name[..], &mut value[..])
            .and_then(|length| fsetxattr(new, &name[..], &value[..length], XattrFlags::empty()));
        if name == ACL {
            given?;
        }
    }
    Ok(())
}

fn names(file: &File) -> io::Result<BTreeSet<Vec<u8>>> {
    let mut all = vec![0; TUNE_ATTRIBUTE_BYTES_MAX];
    match flistxattr(file, &mut all[..]) {
        Ok(length) => {
            let names = all[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
            Ok(names.map(<[u8]>::to_vec).collect())
        }
        // The file system has none.
        Err(rustix::io::Errno::OPNOTSUPP) => Ok(BTreeSet::new()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ACL as the kernel has it: the owner, `user` and others, each with what it may.
    fn acl(user: u32) -> Vec<u8> {
        let entry = |tag: u16, may: u16, id: u32| {
            [&tag.to_le_bytes()[..], &may.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let nobody = u32::MAX;
        let entries = [
            entry(0x01, 6, nobody),
            entry(0x02, 4, user),
            entry(0x04, 0, nobody),
            entry(0x10, 4, nobody),
            entry(0x20, 0, nobody),
        ];
        [&2u32.to_le_bytes()[..], &entries.concat()].concat()
    }

    fn acl_of(path: &Path) -> Option<Vec<u8>> {
        let mut value = vec![0; TUNE_ATTRIBUTE_BYTES_MAX];
        let length = fgetxattr(File::open(path).unwrap(), ACL, &mut value[..]).ok()?;
        Some(value[..length].to_vec())
    }

    #[test]
    fn who_may_read_a_file_stays() {
        let folder = std::env::temp_dir().join(format!("brisk-tune-acl-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let conf = folder.join("a.conf");
        fs::write(&conf, "one\n").unwrap();
        fs::set_permissions(&conf, fs::Permissions::from_mode(0o600)).unwrap();
        let file = File::open(&conf).unwrap();
        fsetxattr(&file, ACL, &acl(33), XattrFlags::empty()).unwrap();
        let mode = fs::metadata(&conf).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o640, "the group's bits are the ACL's limit");
        write(&conf, b"two\n").unwrap();
        assert_eq!((acl_of(&conf), fs::metadata(&conf).unwrap().mode() & 0o777), (Some(acl(33)), mode));
        // What a folder gives to new files is not the old one's.
        fremovexattr(File::open(&conf).unwrap(), ACL).unwrap();
        fs::set_permissions(&conf, fs::Permissions::from_mode(0o600)).unwrap();
        let default = b"system.posix_acl_default";
        fsetxattr(File::open(&folder).unwrap(), &default[..], &acl(34), XattrFlags::empty()).unwrap();
        write(&conf, b"three\n").unwrap();
        assert_eq!((acl_of(&conf), fs::metadata(&conf).unwrap().mode() & 0o777), (None, 0o600));
        assert_eq!(fs::read(&conf).unwrap(), b"three\n");
        fs::remove_dir_all(&folder).unwrap();
    }
}
