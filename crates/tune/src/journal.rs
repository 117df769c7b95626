//! The journal: what the tuner has changed, and what was there before, so that anyone can put it back.
//!
//! It is on the disk before each change and replaced as a whole, so at any moment it tells the originals and every state in which the
//! tuner may have left a file. What stands in a file and is none of these was written by others: it is kept and named. Here is what
//! it holds and what is to be done; reading and writing files is for others.

use crate::limits::JOURNAL_ITEMS_MAX;
use std::fmt;

/// The first line; a journal of another version is not understood.
const HEAD: &[u8] = b"brisk-tune journal 1\n";
/// One file that was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path, which need not be UTF-8.
    pub path: Vec<u8>,
    /// Its permissions.
    pub mode: u32,
    /// What it held before the first change; `None`: it was not there.
    pub original: Option<Vec<u8>>,
    /// What the tuner wrote last, and what it is about to write.
    pub ours: Vec<Vec<u8>>,
}

/// What is to be done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restore<'a> {
    /// It is as it was.
    Nothing,
    /// The original is to be written.
    Write(&'a [u8]),
    /// It was not there and is to be removed.
    Remove,
    /// Somebody else has changed it meanwhile: it is left as it is, and named.
    Keep,
}

/// Somebody else has changed a file that the tuner was about to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// The file.
    pub path: Vec<u8>,
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = String::from_utf8_lossy(&self.path);
        write!(f, "\"{path}\" was changed by somebody else meanwhile: it is left as it is")
    }
}

impl std::error::Error for Foreign {}

/// A journal that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the journal is damaged or of another version: nothing was changed; the originals are in it as text")
    }
}

impl std::error::Error for Damaged {}

/// What the tuner has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// The process that writes it; while it lives nobody else restores.
    pub owner: u32,
    /// The files, in the order of their first change.
    pub files: Vec<Entry>,
    /// What is run after files were restored, as words: reloads and restarts.
    pub commands: Vec<Vec<Vec<u8>>>,
}

impl Entry {
    /// What brings the original back, by what is there now.
    pub fn restore(&self, present: Option<&[u8]>) -> Restore<'_> {
        if present == self.original.as_deref() {
            return Restore::Nothing;
        }
        let is_ours = present.is_some_and(|have| self.ours.iter().any(|ours| ours == have));
        match &self.original {
            Some(original) if is_ours => Restore::Write(original),
            None if is_ours => Restore::Remove,
            _ => Restore::Keep,
        }
    }
}

impl Journal {
    /// Notes that a file is about to become `next`. Write the journal, then the file.
    ///
    /// # Errors
    /// What is there was written by others: the file must not be changed.
    pub fn note(
        &mut self,
        path: &[u8],
        mode: u32,
        present: Option<&[u8]>,
        next: &[u8],
    ) -> Result<(), Foreign> {
        let Some(entry) = self.files.iter_mut().find(|entry| entry.path == path) else {
            self.files.push(Entry {
                path: path.to_vec(),
                mode,
                original: present.map(<[u8]>::to_vec),
                ours: vec![next.to_vec()],
            });
            return Ok(());
        };
        if entry.restore(present) == Restore::Keep {
            return Err(Foreign { path: path.to_vec() });
        }
        // What it holds now may stay if the write fails.
        let present = present.filter(|have| entry.original.as_deref() != Some(*have)).map(<[u8]>::to_vec);
        entry.ours = present.into_iter().chain([next.to_vec()]).collect();
        Ok(())
    }

    /// As bytes, with a checksum.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = HEAD.to_vec();
        let number =
            |out: &mut Vec<u8>, number: usize| out.extend_from_slice(format!("{number}\n").as_bytes());
        let text = |out: &mut Vec<u8>, text: &[u8]| {
            number(out, text.len());
            out.extend_from_slice(text);
            out.push(b'\n');
        };
        number(&mut out, self.owner as usize);
        number(&mut out, self.files.len());
        for entry in &self.files {
            text(&mut out, &entry.path);
            number(&mut out, entry.mode as usize);
            number(&mut out, usize::from(entry.original.is_some()));
            entry.original.iter().for_each(|original| text(&mut out, original));
            number(&mut out, entry.ours.len());
            entry.ours.iter().for_each(|ours| text(&mut out, ours));
        }
        number(&mut out, self.commands.len());
        for command in &self.commands {
            number(&mut out, command.len());
            command.iter().for_each(|word| text(&mut out, word));
        }
        let sum = checksum(&out);
        out.extend_from_slice(format!("{sum:016x}\n").as_bytes());
        out
    }

    /// Reads what [`Self::to_bytes`] wrote.
    ///
    /// # Errors
    /// Anything else: a part of one, another version, a changed byte.
    pub fn parse(bytes: &[u8]) -> Result<Journal, Damaged> {
        const SUM_BYTES: usize = 17;
        let whole = bytes.len().checked_sub(SUM_BYTES).ok_or(Damaged)?;
        let (body, sum) = bytes.split_at(whole);
        if sum != format!("{:016x}\n", checksum(body)).as_bytes() {
            return Err(Damaged);
        }
        let mut reader = Reader(body.strip_prefix(HEAD).ok_or(Damaged)?);
        let owner = u32::try_from(reader.number()?).map_err(|_| Damaged)?;
        let files = reader.list(Reader::entry)?;
        let commands = reader.list(|reader| reader.list(Reader::text))?;
        if reader.0.is_empty() { Ok(Journal { owner, files, commands }) } else { Err(Damaged) }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Result<usize, Damaged> {
        let end = self.0.iter().position(|byte| *byte == b'\n').ok_or(Damaged)?;
        let digits = std::str::from_utf8(&self.0[..end]).map_err(|_| Damaged)?;
        self.0 = &self.0[end + 1..];
        digits.parse().map_err(|_| Damaged)
    }

    fn text(&mut self) -> Result<Vec<u8>, Damaged> {
        let length = self.number()?;
        let text = self.0.get(..length).ok_or(Damaged)?;
        self.0 = self.0[length..].strip_prefix(b"\n").ok_or(Damaged)?;
        Ok(text.to_vec())
    }

    fn list<T>(&mut self, one: impl Fn(&mut Self) -> Result<T, Damaged>) -> Result<Vec<T>, Damaged> {
        let count = self.number()?;
        if count > JOURNAL_ITEMS_MAX {
            return Err(Damaged);
        }
        (0..count).map(|_| one(self)).collect()
    }

    fn entry(&mut self) -> Result<Entry, Damaged> {
        let path = self.text()?;
        let mode = u32::try_from(self.number()?).map_err(|_| Damaged)?;
        let original = match self.number()? {
            0 => None,
            1 => Some(self.text()?),
            _ => return Err(Damaged),
        };
        Ok(Entry { path, mode, original, ours: self.list(Reader::text)? })
    }
}

/// FNV-1a of 64 bits: it tells damage, not malice.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Journal {
        let mut journal = Journal {
            owner: 77,
            commands: vec![vec![b"nginx".to_vec(), b"-s".to_vec(), b"reload".to_vec()]],
            ..Journal::default()
        };
        journal.note(b"/etc/a\xff", 0o640, Some(b"one\n"), b"two\n").unwrap();
        journal.note(b"/etc/new", 0o644, None, b"x").unwrap();
        journal
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let journal = journal();
        assert_eq!(Journal::parse(&journal.to_bytes()), Ok(journal));
        assert_eq!(Journal::parse(&Journal::default().to_bytes()), Ok(Journal::default()));
    }

    /// Power may fail while it is written, and disks forget.
    #[test]
    fn no_part_and_no_changed_byte_passes() {
        let bytes = journal().to_bytes();
        for end in 0..bytes.len() {
            assert_eq!(Journal::parse(&bytes[..end]), Err(Damaged), "{end}");
            let mut other = bytes.clone();
            other[end] ^= 1;
            assert_eq!(Journal::parse(&other), Err(Damaged), "{end}");
        }
    }

    /// The tuner may die before the file is written, behind it, and between two changes.
    #[test]
    fn whatever_step_it_died_at_the_original_comes_back() {
        let mut journal = journal();
        let original: &[u8] = b"one\n";
        let restore = |journal: &Journal, present: &[u8]| -> Option<Vec<u8>> {
            match journal.files[0].restore(Some(present)) {
                Restore::Nothing => Some(present.to_vec()),
                Restore::Write(bytes) => Some(bytes.to_vec()),
                Restore::Remove | Restore::Keep => None,
            }
        };
        let mut present = original.to_vec();
        for next in [&b"two\n"[..], b"three\n", b"one\n", b"four\n"] {
            journal.note(b"/etc/a\xff", 0o640, Some(&present), next).unwrap();
            assert_eq!(restore(&journal, &present).as_deref(), Some(original));
            present = next.to_vec();
            assert_eq!(restore(&journal, &present).as_deref(), Some(original));
        }
        assert_eq!(journal.files.len(), 2);
        // A file that the tuner has made goes again.
        let made = &journal.files[1];
        assert_eq!((made.restore(None), made.restore(Some(b"x"))), (Restore::Nothing, Restore::Remove));
    }

    #[test]
    fn an_administrator_s_edit_is_kept() {
        let mut journal = journal();
        assert_eq!(journal.files[0].restore(Some(b"two\n; mine\n")), Restore::Keep);
        assert_eq!(journal.files[0].restore(None), Restore::Keep);
        let refused = journal.note(b"/etc/a\xff", 0o640, Some(b"two\n; mine\n"), b"three\n").unwrap_err();
        assert!(refused.to_string().contains("was changed by somebody else"), "{refused}");
        // And it did not become one of ours.
        assert_eq!(journal.files[0].restore(Some(b"three\n")), Restore::Keep);
    }
}
