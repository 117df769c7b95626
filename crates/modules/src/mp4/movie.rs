//! A file as a whole: its tables are found, cut for each track, and put before the samples that are left.

use super::atoms::{Atoms, Broken, Header, Name, Writer, once, too_small, u32_at, u64_at};
use super::track::{Crop, Span, Track};
use crate::limits::{MP4_BRANDS_BYTES_MAX, MP4_TABLES_BYTES_MAX, MP4_TOP_ATOMS_MAX};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Where a file's bytes are.
pub enum Source {
    /// Small files that the thread keeps whole.
    Memory(Arc<[u8]>),
    /// With the size that the answer was begun with: a file that grows meanwhile is cut as it was.
    File { fd: OwnedFd, size: u64 },
}

/// What is wanted of a file.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub start_ms: u64,
    /// 0: up to the end.
    pub length_ms: u64,
    /// The part begins with a key frame.
    pub key_frame: bool,
    /// Bytes that are read at a time.
    pub read_bytes: u64,
    /// The longest tables that are read.
    pub tables_bytes_max: u64,
}

/// What is to be sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Movie {
    /// The file as it is.
    Whole,
    Part(Cut),
}

/// A part of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Cut {
    /// Brands, tables, and the header of the samples.
    pub head: Vec<u8>,
    /// Where the samples are in the file.
    pub samples: Range<u64>,
}

impl Source {
    fn len(&self) -> u64 {
        match self {
            Source::Memory(bytes) => bytes.len() as u64,
            Source::File { size, .. } => *size,
        }
    }

    /// Exactly so many bytes.
    fn read(&self, at: u64, bytes: u64) -> Result<Vec<u8>, Broken> {
        let truncated = || Broken::new("mp4 file truncated");
        let (from, count) = (usize::try_from(at).ok(), usize::try_from(bytes).ok());
        let (Some(from), Some(count)) = (from, count) else { return Err(truncated()) };
        match self {
            Source::Memory(content) => {
                let part = content.get(from..).and_then(|rest| rest.get(..count));
                part.map(<[u8]>::to_vec).ok_or_else(truncated)
            }
            Source::File { fd, size } => {
                if at > *size || bytes > size - at {
                    return Err(truncated());
                }
                let mut buf = vec![0; count];
                let read = brisk_net::file::read_cold(fd, &mut buf, at);
                match read {
                    Ok(read) if read == count => Ok(buf),
                    Ok(read) => Err(Broken(format!("read only {read} of {count}"))),
                    Err(error) => Err(Broken(format!("pread() failed ({})", brisk_conf::os_text(&error)))),
                }
            }
        }
    }
}

/// The atoms at the top of a file, read ahead as far as `mp4_buffer_size` says.
struct Top<'a> {
    source: &'a Source,
    read_bytes: u64,
    /// What was read last, and where it is in the file.
    buf: Vec<u8>,
    buf_at: u64,
}

impl Top<'_> {
    fn header(&mut self, at: u64) -> Result<Option<Header>, Broken> {
        let left = self.source.len() - at;
        // The longest header: size, name, and a 64-bit size (ISO 14496-12 §4.2).
        let wanted = left.min(16);
        let is_there = at >= self.buf_at && at + wanted <= self.buf_at + self.buf.len() as u64;
        if !is_there {
            self.buf = self.source.read(at, left.min(self.read_bytes.max(16)))?;
            self.buf_at = at;
        }
        let from = (at - self.buf_at) as usize;
        Header::read(&self.buf[from..from + wanted as usize], left)
    }
}

/// What is found at the top of a file.
#[derive(Default)]
struct Parts {
    brands: Option<Vec<u8>>,
    tables: Option<Vec<u8>>,
    samples: Option<Range<u64>>,
}

/// Finds the parts of a file; `None` if it is to be sent as it is.
fn find(source: &Source, wanted: &Wanted) -> Result<Option<Parts>, Broken> {
    let mut top = Top { source, read_bytes: wanted.read_bytes, buf: Vec::new(), buf_at: 0 };
    let (mut parts, mut at) = (Parts::default(), 0);
    // Bounded: a file of empty atoms of 8 bytes would otherwise take a read for each buffer of them.
    for _ in 0..MP4_TOP_ATOMS_MAX {
        if at >= source.len() {
            return Ok(Some(parts));
        }
        let Some(header) = top.header(at)? else { return Ok(Some(parts)) };
        let data_at = at + header.bytes;
        at = data_at + header.data_bytes;
        let size = header.data_bytes;
        match &header.name {
            b"ftyp" if size > MP4_BRANDS_BYTES_MAX => {
                // Its size is a stranger's number, and memory of this size would be allocated.
                return Err(Broken(format!("mp4 ftyp atom is too large:{size}")));
            }
            b"ftyp" => once(&mut parts.brands, source.read(data_at, size)?, "ftyp")?,
            b"moov" => {
                // Tables that stand in front already suit a player that wants everything.
                if parts.samples.is_none() && wanted.start_ms == 0 && wanted.length_ms == 0 {
                    return Ok(None);
                }
                if size > wanted.tables_bytes_max.min(MP4_TABLES_BYTES_MAX) {
                    let hint = "you may want to increase mp4_max_buffer_size";
                    return Err(Broken(format!("mp4 moov atom is too large:{size}, {hint}")));
                }
                once(&mut parts.tables, source.read(data_at, size)?, "moov")?;
            }
            // Only where it is: samples are gigabytes and go from the file to the socket.
            b"mdat" => once(&mut parts.samples, data_at..at, "mdat")?,
            _ => {}
        }
        // What lies behind is not looked at: reading on would cost a seek for each atom.
        if parts.tables.is_some() && parts.samples.is_some() {
            return Ok(Some(parts));
        }
    }
    Err(Broken::new("too many mp4 atoms"))
}

/// Cuts a file. Reads from the disk: call it on the pool of threads.
pub fn cut(source: &Source, wanted: &Wanted) -> Result<Movie, Broken> {
    let Some(parts) = find(source, wanted)? else { return Ok(Movie::Whole) };
    let tables = parts.tables.unwrap_or_default();
    let (header, mut tracks) = read_tables(&tables, wanted)?;
    if tracks.is_empty() {
        return Err(Broken::new("no mp4 trak atoms were found"));
    }
    let Some(samples) = parts.samples else { return Err(Broken::new("no mp4 mdat atom was found")) };
    let crop = Crop { wanted: *wanted, file_bytes: source.len(), samples_end: samples.end };
    // Tracks are interleaved: one piece from the first sample of any to the last of any. Samples in between
    // that no table names are sent along.
    let mut span = Span { start: source.len(), end: 0 };
    for track in &mut tracks {
        let of_track = track.crop(&crop)?;
        span = Span { start: span.start.min(of_track.start), end: span.end.max(of_track.end) };
    }
    // An empty part would be a file without samples, which players refuse in ways of their own.
    if span.end <= span.start {
        return Err(Broken::new("no data between start time and end time"));
    }
    if span.start >= samples.end {
        return Err(Broken::new("start time is out mp4 mdat atom"));
    }
    let head = write(parts.brands.as_deref(), header.as_deref(), &tracks, &span)?;
    Ok(Movie::Part(Cut { head, samples: span.start..span.end }))
}

/// The movie's header, with its new duration, and the tracks that go on beyond the start.
fn read_tables<'a>(data: &'a [u8], wanted: &Wanted) -> Result<(Option<Vec<u8>>, Vec<Track<'a>>), Broken> {
    let (mut header, mut found) = (None, Vec::new());
    let mut atoms = Atoms::new(data);
    while let Some((name, data)) = atoms.read()? {
        match &name {
            b"mvhd" => once(&mut header, data, "mvhd")?,
            // Read when the header is known: a track's header counts in the movie's units, and the two may
            // stand in any order.
            b"trak" => found.push(data),
            b"cmov" => return Err(Broken::new("mp4 compressed moov atom (cmov) is not supported")),
            _ => {}
        }
    }
    let (header, timescale) = match header {
        None => (None, 0),
        Some(data) => {
            let mut clock = Clock::read(data, 12, "mvhd", 100)?;
            if clock.duration < clock.units(wanted.start_ms) {
                return Err(Broken::new("mp4 start time exceeds file duration"));
            }
            clock.cut(wanted);
            (Some(clock.rewritten(data)), clock.timescale)
        }
    };
    let mut tracks = Vec::new();
    for data in found {
        tracks.extend(Track::read(data, timescale, wanted)?);
    }
    Ok((header, tracks))
}

/// A duration in an atom of version 0 or 1, and in which units it is.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    pub timescale: u32,
    pub duration: u64,
    is_wide: bool,
    at: usize,
}

impl Clock {
    /// Of an atom whose units stand at `at` in version 0, with the duration behind them; `bytes` is how long its data is
    /// at least. In version 1 two times before it are twice as long, and so is the duration.
    pub fn read(data: &[u8], at: usize, name: &str, bytes: usize) -> Result<Clock, Broken> {
        let small = || too_small(name);
        let is_wide = *data.first().ok_or_else(small)? != 0;
        if data.len() < if is_wide { bytes + 12 } else { bytes } {
            return Err(small());
        }
        let at = if is_wide { at + 8 } else { at };
        let timescale = u32_at(data, at).ok_or_else(small)?;
        let at = at + 4;
        let duration =
            if is_wide { u64_at(data, at) } else { u32_at(data, at).map(u64::from) }.ok_or_else(small)?;
        Ok(Clock { timescale, duration, is_wide, at })
    }

    /// The same for an atom whose duration is in another one's units, `at` bytes from its beginning.
    pub fn read_in(
        timescale: u32,
        data: &[u8],
        at: usize,
        name: &str,
        bytes: usize,
    ) -> Result<Clock, Broken> {
        Ok(Clock { timescale, ..Clock::read(data, at, name, bytes)? })
    }

    /// Milliseconds in these units.
    pub fn units(&self, milliseconds: u64) -> u64 {
        // In 128 bits: milliseconds times units of a 32-bit scale exceed 64.
        let units = u128::from(milliseconds) * u128::from(self.timescale) / 1000;
        u64::try_from(units).unwrap_or(u64::MAX)
    }

    /// Takes what is before the start off, and what is behind the end.
    pub fn cut(&mut self, wanted: &Wanted) {
        self.duration = self.duration.saturating_sub(self.units(wanted.start_ms));
        if wanted.length_ms > 0 {
            self.duration = self.duration.min(self.units(wanted.length_ms));
        }
    }

    /// The atom's data with this duration.
    pub fn rewritten(&self, data: &[u8]) -> Vec<u8> {
        let mut data = data.to_vec();
        if self.is_wide {
            // In place, at the same width: nothing else of the atom is understood, so nothing of it moves.
            data[self.at..self.at + 8].copy_from_slice(&self.duration.to_be_bytes());
        } else {
            let duration = u32::try_from(self.duration).unwrap_or(u32::MAX);
            data[self.at..self.at + 4].copy_from_slice(&duration.to_be_bytes());
        }
        data
    }
}

/// Brands, tables and the header of the samples, which are moved to where they end.
fn write(
    brands: Option<&[u8]>,
    header: Option<&[u8]>,
    tracks: &[Track<'_>],
    span: &Span,
) -> Result<Vec<u8>, Broken> {
    let mut out = Writer::default();
    if let Some(brands) = brands {
        out.atom(b"ftyp", brands);
    }
    let tables = out.begin(b"moov");
    if let Some(header) = header {
        out.atom(b"mvhd", header);
    }
    // Offsets are left blank: they count from the file's beginning, and the length of the tables is not known
    // before all are written.
    let offsets: Vec<usize> = tracks.iter().map(|track| track.write(&mut out)).collect();
    out.end(tables);
    let bytes = span.end - span.start;
    // Size 1 says that 64 bits follow the name (ISO 14496-12 §4.2).
    match u32::try_from(bytes + 8) {
        Ok(size) => out.0.extend_from_slice(&size.to_be_bytes()),
        Err(_) => out.0.extend_from_slice(&1u32.to_be_bytes()),
    }
    out.0.extend_from_slice(b"mdat");
    if u32::try_from(bytes + 8).is_err() {
        out.0.extend_from_slice(&(bytes + 16).to_be_bytes());
    }
    // Where the samples' first byte will be is known only now.
    let moved = out.0.len() as i128 - i128::from(span.start);
    for (track, at) in tracks.iter().zip(offsets) {
        track.write_offsets(&mut out.0[at..], moved)?;
    }
    Ok(out.0)
}

/// Any bytes as a file, and any times: what comes of it is a file whose samples are within the one that was given.
pub fn fuzz(data: &[u8]) {
    let Some((times, file)) = data.split_first_chunk::<5>() else { return };
    let wanted = Wanted {
        start_ms: u64::from(u16::from_be_bytes([times[0], times[1]])),
        length_ms: u64::from(u16::from_be_bytes([times[2], times[3]])),
        key_frame: times[4] & 1 != 0,
        read_bytes: u64::from(times[4]),
        tables_bytes_max: if times[4] & 2 != 0 { 100 } else { 1 << 20 },
    };
    let size = file.len() as u64;
    let Ok(Movie::Part(part)) = cut(&Source::Memory(file.into()), &wanted) else { return };
    assert!(part.samples.start < part.samples.end && part.samples.end <= size);
    // Each track grows by an edit list and two runs at most, which is less than it has.
    assert!(part.head.len() <= 2 * file.len() + 200);
    let samples = &file[part.samples.start as usize..part.samples.end as usize];
    let whole = [&part.head[..], samples].concat();
    let (mut atoms, mut names) = (Atoms::new(&whole), Vec::<Name>::new());
    while let Some((name, data)) = atoms.read().expect("what was written is made of atoms") {
        names.push(name);
        if name == *b"moov" {
            read_tables(data, &Wanted { start_ms: 0, length_ms: 0, ..wanted }).expect("tables can be read");
        }
    }
    assert!(names.ends_with(&[*b"moov", *b"mdat"]), "{names:?}");
}
