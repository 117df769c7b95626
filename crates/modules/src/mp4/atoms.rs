//! Atoms (ISO/IEC 14496-12 calls them boxes): a length, a name, data.
//!
//! Whatever a file says of lengths and numbers is held against what there is before it is used. Nothing here or in its
//! neighbours indexes by such a number without a check, and sums are made so that they cannot wrap.

use std::fmt;

/// Why a file cannot be cut, in nginx's words where it has some. The caller adds the file's name when it logs this.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken(pub String);

impl Broken {
    pub fn new(text: impl Into<String>) -> Broken {
        Broken(text.into())
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An atom's name.
pub type Name = [u8; 4];

/// What stands before an atom's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub name: Name,
    /// 8, or 16 with a length of 64 bits.
    pub bytes: u64,
    pub data_bytes: u64,
}

impl Header {
    /// Reads the header at the beginning of `input`, which has up to 16 bytes of the `left` that there are. `None`: a
    /// length of 0 ends the list of atoms.
    pub fn read(input: &[u8], left: u64) -> Result<Option<Header>, Broken> {
        let truncated = || Broken::new("mp4 file truncated");
        let size = u64::from(u32_at(input, 0).ok_or_else(truncated)?);
        if size == 0 {
            return Ok(None);
        }
        let name = *input.get(4..).and_then(<[u8]>::first_chunk).ok_or_else(truncated)?;
        let (bytes, size) = match size {
            1 => (16, u64_at(input, 8).ok_or_else(truncated)?),
            size => (8, size),
        };
        if size < bytes {
            return Err(Broken(format!("mp4 atom is too small:{size}")));
        }
        if size > left {
            return Err(Broken(format!("mp4 atom too large:{size}")));
        }
        Ok(Some(Header { name, bytes, data_bytes: size - bytes }))
    }
}

/// The atoms in the data of another one.
pub struct Atoms<'a>(&'a [u8]);

impl<'a> Atoms<'a> {
    pub fn new(data: &'a [u8]) -> Atoms<'a> {
        Atoms(data)
    }

    /// The next atom: its name and data.
    pub fn read(&mut self) -> Result<Option<(Name, &'a [u8])>, Broken> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let Some(header) = Header::read(self.0, self.0.len() as u64)? else {
            self.0 = &[];
            return Ok(None);
        };
        let (atom, rest) = self.0.split_at((header.bytes + header.data_bytes) as usize);
        self.0 = rest;
        Ok(Some((header.name, &atom[header.bytes as usize..])))
    }
}

/// Puts an atom into its slot: there is one of each (nginx's CVE-2022-41741 and CVE-2022-41742 were two of one).
pub fn once<T>(slot: &mut Option<T>, value: T, name: &str) -> Result<(), Broken> {
    if slot.replace(value).is_some() {
        return Err(Broken(format!("duplicate mp4 {name} atom")));
    }
    Ok(())
}

pub fn too_small(name: &str) -> Broken {
    Broken(format!("mp4 {name} atom too small"))
}

pub fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

pub fn u64_at(data: &[u8], at: usize) -> Option<u64> {
    data.get(at..)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

/// The entries behind version, flags and their number: `N` numbers of 32 bits each. `at` is where the number of entries
/// stands.
pub fn table<const N: usize>(data: &[u8], at: usize, name: &str) -> Result<Vec<[u32; N]>, Broken> {
    let count = u32_at(data, at).ok_or_else(|| too_small(name))? as usize;
    let bytes = count.checked_mul(4 * N).ok_or_else(|| too_small(name))?;
    let entries = data.get(at + 4..).and_then(|rest| rest.get(..bytes)).ok_or_else(|| too_small(name))?;
    let number = |bytes: &[u8]| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let entry = |bytes: &[u8]| std::array::from_fn(|n| number(&bytes[n * 4..]));
    Ok(entries.chunks_exact(4 * N).map(entry).collect())
}

/// Writes atoms in each other: lengths are filled in when an atom ends.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// Begins an atom; gives what [`Writer::end`] needs.
    pub fn begin(&mut self, name: &[u8; 4]) -> usize {
        let at = self.0.len();
        self.0.extend_from_slice(&[0; 4]);
        self.0.extend_from_slice(name);
        at
    }

    pub fn end(&mut self, at: usize) {
        // Tables are bounded by `mp4_max_buffer_size`, and that by `TABLES_BYTES_MAX`.
        let size = (self.0.len() - at) as u32;
        self.0[at..at + 4].copy_from_slice(&size.to_be_bytes());
    }

    /// A whole atom with this data.
    pub fn atom(&mut self, name: &[u8; 4], data: &[u8]) {
        let at = self.begin(name);
        self.0.extend_from_slice(data);
        self.end(at);
    }

    pub fn numbers(&mut self, numbers: &[u32]) {
        numbers.iter().for_each(|number| self.0.extend_from_slice(&number.to_be_bytes()));
    }

    /// An atom of version, flags, a number of entries, and entries.
    pub fn table<const N: usize>(&mut self, name: &[u8; 4], entries: &[[u32; N]]) {
        let at = self.begin(name);
        self.numbers(&[0, entries.len() as u32]);
        self.numbers(entries.as_flattened());
        self.end(at);
    }
}
