//! One track: its tables are read, cut to the samples of a time, and written.
//!
//! Samples lie in chunks, and four tables say where: `stts` how long each sample is in time, `stsz` in bytes, `stsc` how
//! many are in each chunk, and `stco` or `co64` where the chunks begin. `stss` lists key frames, `ctts` shifts.
//!
//! All numbers are a stranger's: sums saturate or are checked, and nothing is allocated by a count before as
//! many entries were seen.
//! Errors are in nginx's words.

use super::atoms::{Atoms, Broken, Writer, once, table, too_small, u32_at};
use super::movie::{Clock, Wanted};
use std::ops::Range;

/// What a track is cut to.
pub struct Crop {
    pub wanted: Wanted,
    pub file_bytes: u64,
    /// Where the samples of the file end.
    pub samples_end: u64,
}

/// The bytes of a track's samples in the file.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub start: u64,
    pub end: u64,
}

/// Where a part's samples are. Chunks are counted from 0.
#[derive(Default)]
struct Place {
    samples: Range<u64>,
    chunks: Range<u64>,
    /// Samples of the first chunk that are left out.
    skipped: u64,
    /// Samples that are left of the last chunk.
    last: u64,
}

/// How many bytes samples have.
enum Sizes {
    Uniform { size: u32, count: u32 },
    Each(Vec<[u32; 1]>),
}

/// Where chunks begin.
struct Offsets {
    of: Vec<u64>,
    /// `co64`.
    is_wide: bool,
}

/// See the module's head. What is not cut is kept as it stands in the file.
#[derive(Default)]
pub struct Track<'a> {
    header: Option<Vec<u8>>,
    /// In the movie's units.
    movie_duration: u64,
    media_header: Option<&'a [u8]>,
    clock: Option<Clock>,
    /// `hdlr`; `vmhd`, `smhd`, `dinf`; `stsd`.
    handler: Option<&'a [u8]>,
    information: [Option<&'a [u8]>; 3],
    description: Option<&'a [u8]>,
    /// Number of samples, and how long each is.
    times: Option<Vec<[u32; 2]>>,
    keys: Option<Vec<[u32; 1]>>,
    shifts: Option<Vec<[u32; 2]>>,
    /// First chunk from 1, samples in each, description.
    runs: Option<Vec<[u32; 3]>>,
    sizes: Option<Sizes>,
    offsets: Option<Offsets>,
    /// Media units before the start that a player is not to show.
    prefix: u64,
}

const INFORMATION: [&[u8; 4]; 3] = [b"vmhd", b"smhd", b"dinf"];

impl<'a> Track<'a> {
    /// Reads a track; `None` if it is over before the start.
    pub fn read(data: &'a [u8], timescale: u32, wanted: &Wanted) -> Result<Option<Track<'a>>, Broken> {
        let mut track = Track::default();
        let (mut header, mut media) = (None, None);
        let mut atoms = Atoms::new(data);
        while let Some((name, data)) = atoms.read()? {
            match &name {
                b"tkhd" => once(&mut header, data, "tkhd")?,
                b"mdia" => once(&mut media, data, "mdia")?,
                _ => {}
            }
        }
        if let Some(data) = header {
            let mut clock = Clock::read_in(timescale, data, 16, "tkhd", 84)?;
            if clock.duration <= clock.units(wanted.start_ms) {
                return Ok(None);
            }
            clock.cut(wanted);
            // An audio track may be shorter than the film: it is left out, and the others are sent.
            track.movie_duration = clock.duration;
            track.header = Some(clock.rewritten(data));
        }
        if let Some(media) = media {
            track.read_media(media)?;
        }
        if let Some(clock) = &mut track.clock {
            if clock.duration <= clock.units(wanted.start_ms) {
                return Ok(None);
            }
            clock.cut(wanted);
        }
        Ok(Some(track))
    }

    fn read_media(&mut self, data: &'a [u8]) -> Result<(), Broken> {
        let mut information = None;
        let mut atoms = Atoms::new(data);
        while let Some((name, data)) = atoms.read()? {
            match &name {
                b"mdhd" => once(&mut self.media_header, data, "mdhd")?,
                b"hdlr" => once(&mut self.handler, data, "hdlr")?,
                b"minf" => once(&mut information, data, "minf")?,
                _ => {}
            }
        }
        self.clock = self.media_header.map(|data| Clock::read(data, 12, "mdhd", 24)).transpose()?;
        let mut tables = None;
        let mut atoms = Atoms::new(information.unwrap_or_default());
        while let Some((name, data)) = atoms.read()? {
            if name == *b"stbl" {
                once(&mut tables, data, "stbl")?;
            }
            if let Some(n) = INFORMATION.iter().position(|have| **have == name) {
                once(
                    &mut self.information[n],
                    data,
                    std::str::from_utf8(INFORMATION[n]).unwrap_or_default(),
                )?;
            }
        }
        self.read_tables(tables.unwrap_or_default())
    }

    fn read_tables(&mut self, data: &'a [u8]) -> Result<(), Broken> {
        let mut atoms = Atoms::new(data);
        while let Some((name, data)) = atoms.read()? {
            match &name {
                // Its first description begins behind the number of them.
                b"stsd" if data.len() < 16 => return Err(too_small("stsd")),
                // An atom that stands twice is an error: which of the two a player takes is not known.
                b"stsd" => once(&mut self.description, data, "stsd")?,
                b"stts" => once(&mut self.times, table(data, 4, "stts")?, "stts")?,
                b"stss" => once(&mut self.keys, table(data, 4, "stss")?, "stss")?,
                b"ctts" => once(&mut self.shifts, table(data, 4, "ctts")?, "ctts")?,
                b"stsc" => once(&mut self.runs, table(data, 4, "stsc")?, "stsc")?,
                b"stsz" => {
                    let (size, count) = (u32_at(data, 4), u32_at(data, 8));
                    let (Some(size), Some(count)) = (size, count) else { return Err(too_small("stsz")) };
                    let sizes = match size {
                        0 => Sizes::Each(table(data, 8, "stsz")?),
                        size => Sizes::Uniform { size, count },
                    };
                    once(&mut self.sizes, sizes, "stsz")?;
                }
                b"stco" => {
                    let of = table(data, 4, "stco")?.into_iter().map(|[at]| u64::from(at)).collect();
                    once(&mut self.offsets, Offsets { of, is_wide: false }, "stco/co64")?;
                }
                b"co64" => {
                    // Read as two numbers: the table is cut into words of 32 bits.
                    let wide = |[high, low]: [u32; 2]| u64::from(high) << 32 | u64::from(low);
                    let of = table(data, 4, "co64")?.into_iter().map(wide).collect();
                    once(&mut self.offsets, Offsets { of, is_wide: true }, "stco/co64")?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Cuts the track; gives where in the file its samples are.
    pub fn crop(&mut self, crop: &Crop) -> Result<Span, Broken> {
        // In this order: `stts` turns time into samples, `stsc` samples into chunks, and only then sizes and
        // offsets can be cut.
        let start = self.crop_start(&crop.wanted)?;
        let end = self.crop_end(start, &crop.wanted);
        self.crop_keys(start, end);
        self.crop_shifts(start, end);
        let place = self.crop_runs(start, end)?;
        let skipped_bytes = self.crop_sizes(&place, crop)?;
        self.crop_offsets(&place, end.is_some(), skipped_bytes, crop)
    }

    fn units(&self, milliseconds: u64) -> u64 {
        self.clock.as_ref().map_or(0, |clock| clock.units(milliseconds))
    }

    /// Cuts `stts` at its beginning; gives the first sample that is left.
    fn crop_start(&mut self, wanted: &Wanted) -> Result<u64, Broken> {
        let mut left = self.units(wanted.start_ms);
        let times = self.times.as_mut().ok_or_else(|| Broken::new("no mp4 stts atoms were found"))?;
        let mut sample = 0;
        let mut found = None;
        for (index, [count, duration]) in times.iter().enumerate() {
            let (count, duration) = (u64::from(*count), u64::from(*duration));
            if left < count * duration {
                // `left < count * duration`, so `duration` is not 0.
                found = Some((index, left / duration));
                break;
            }
            sample += count;
            left -= count * duration;
        }
        let Some((mut index, mut rest)) = found else {
            return Err(Broken::new("start time is out mp4 stts samples"));
        };
        sample += rest;
        // Decoders begin at a key frame: the part grows to the one before, and an edit list tells players to
        // skip what is too early.
        let before = if wanted.key_frame { key_prefix(self.keys.as_deref(), sample)? } else { 0 };
        let mut back = before;
        // A key frame has a number from 1 on, so this ends before the table's beginning.
        while rest < back && index > 0 {
            self.prefix = self.prefix.saturating_add(rest * u64::from(times[index][1]));
            back -= rest;
            index -= 1;
            rest = times[index][0].into();
        }
        self.prefix = self.prefix.saturating_add(back * u64::from(times[index][1]));
        rest = rest.saturating_sub(back);
        times.drain(..index);
        // What is left out of an entry is less than it has.
        times[0][0] -= rest as u32;
        if let Some(clock) = &mut self.clock {
            clock.duration = clock.duration.saturating_add(self.prefix);
        }
        Ok(sample - before)
    }

    /// Cuts `stts` at its end; gives the first sample that is left out, if there is an end.
    fn crop_end(&mut self, start: u64, wanted: &Wanted) -> Option<u64> {
        if wanted.length_ms == 0 {
            return None;
        }
        // The length counts from the time that was asked for, and the prefix comes before it.
        let mut left = self.units(wanted.length_ms).saturating_add(self.prefix);
        let mut sample = start;
        let times = self.times.as_mut()?;
        for (index, entry) in times.iter_mut().enumerate() {
            let (count, duration) = (u64::from(entry[0]), u64::from(entry[1]));
            if left < count * duration {
                let rest = left / duration;
                entry[0] = rest as u32;
                times.truncate(index + 1);
                return Some(sample + rest);
            }
            sample += count;
            left -= count * duration;
        }
        Some(sample)
    }

    /// Cuts `stss`; its numbers begin with 1.
    fn crop_keys(&mut self, start: u64, end: Option<u64>) {
        let Some(keys) = &mut self.keys else { return };
        let from = keys.iter().position(|[key]| u64::from(*key) > start).unwrap_or(keys.len());
        keys.drain(..from);
        if let Some(end) = end {
            let to = keys.iter().position(|[key]| u64::from(*key) > end).unwrap_or(keys.len());
            keys.truncate(to);
        }
        // A table that is out of order may have lower ones behind.
        keys.iter_mut().for_each(|[key]| *key = u64::from(*key).saturating_sub(start) as u32);
    }

    /// Cuts `ctts`.
    fn crop_shifts(&mut self, start: u64, end: Option<u64>) {
        let Some(shifts) = &mut self.shifts else { return };
        // A part beyond the table has no shifts: `ctts` may be shorter than the track.
        let mut left = start;
        let mut from = shifts.len();
        for (index, [count, _]) in shifts.iter_mut().enumerate() {
            if left < u64::from(*count) {
                *count -= left as u32;
                from = index;
                break;
            }
            left -= u64::from(*count);
        }
        shifts.drain(..from);
        let Some(end) = end else { return };
        let mut left = end - start;
        let mut to = shifts.len();
        for (index, [count, _]) in shifts.iter_mut().enumerate() {
            if left < u64::from(*count) {
                *count = left as u32;
                to = index + usize::from(left > 0);
                break;
            }
            left -= u64::from(*count);
        }
        shifts.truncate(to);
    }

    /// Cuts `stsc`.
    fn crop_runs(&mut self, start: u64, end: Option<u64>) -> Result<Place, Broken> {
        let chunks = match &self.offsets {
            Some(offsets) => offsets.of.len() as u64,
            None => return Err(Broken::new("no mp4 stco atoms were found")),
        };
        let runs = self.runs.as_mut().ok_or_else(|| Broken::new("no mp4 stsc atoms were found"))?;
        let runs_read = Runs::new(runs, chunks)?;
        let (start_chunk, skipped) = runs_read.locate(start, "start")?;
        // `locate` gives the chunk behind the last for the sample behind the last.
        if start_chunk >= chunks {
            return Err(Broken::new("start time is out mp4 stco chunks"));
        }
        let (end_chunk, end_sample, last) = match end {
            None => (chunks, u64::MAX, runs_read.samples(chunks - 1)),
            // Nothing is left of this track; others may still have samples in the same time.
            Some(end) if end == start => (start_chunk, end, 0),
            Some(end) => match runs_read.locate(end, "end")? {
                (chunk, 0) => (chunk, end, chunk.checked_sub(1).map_or(0, |chunk| runs_read.samples(chunk))),
                (chunk, within) => (chunk + 1, end, within),
            },
        };
        if end_chunk > chunks {
            return Err(Broken::new("end time is out mp4 stco chunks"));
        }
        let is_one = end_chunk == start_chunk + 1;
        // One chunk that is cut at both ends.
        let last = if is_one { last.saturating_sub(skipped) } else { last };
        let place = Place {
            samples: start..end_sample,
            chunks: start_chunk..end_chunk.max(start_chunk),
            skipped,
            last,
        };
        *runs = runs_read.cut(&place);
        Ok(place)
    }

    /// Cuts `stsz`; gives the bytes of those samples of the first chunk that are left out.
    fn crop_sizes(&mut self, place: &Place, crop: &Crop) -> Result<u64, Broken> {
        let (start, end) = (place.samples.start, place.samples.end);
        // `stsc` and `stsz` may disagree about how many samples there are; neither is believed further than it
        // reaches.
        let skipped = start.saturating_sub(place.skipped)..start;
        let bytes = match &mut self.sizes {
            None => 0,
            Some(Sizes::Uniform { size, count }) => {
                let left = u64::from(*count).saturating_sub(start).min(end - start);
                *count = left as u32;
                u64::from(*size).saturating_mul(place.skipped)
            }
            Some(Sizes::Each(sizes)) => {
                if start >= sizes.len() as u64 {
                    return Err(Broken::new("start time is out mp4 stsz samples"));
                }
                if end != u64::MAX && end > sizes.len() as u64 {
                    return Err(Broken::new("end time is out mp4 stsz samples"));
                }
                let bytes = sum(&sizes[skipped.start as usize..skipped.end as usize]);
                sizes.truncate(usize::try_from(end).unwrap_or(usize::MAX));
                sizes.drain(..start as usize);
                bytes
            }
        };
        // Sizes that add up to more than the file would move the first chunk behind its end.
        if bytes > crop.file_bytes {
            return Err(Broken::new("too large mp4 start samples size"));
        }
        Ok(bytes)
    }

    /// Cuts `stco` or `co64`.
    fn crop_offsets(
        &mut self,
        place: &Place,
        has_end: bool,
        skipped_bytes: u64,
        crop: &Crop,
    ) -> Result<Span, Broken> {
        let last_bytes = match &self.sizes {
            None => 0,
            Some(Sizes::Uniform { size, .. }) => u64::from(*size).saturating_mul(place.last),
            Some(Sizes::Each(sizes)) => {
                let from = (sizes.len() as u64).saturating_sub(place.last);
                sum(&sizes[from as usize..])
            }
        };
        if has_end && last_bytes > crop.file_bytes {
            return Err(Broken::new("too large mp4 end samples size"));
        }
        let Some(Offsets { of, is_wide }) = &mut self.offsets else { return Ok(Span { start: 0, end: 0 }) };
        // A 32-bit table cannot say more, and must not wrap.
        let largest = if *is_wide { u64::MAX } else { u32::MAX.into() };
        let behind = |offset: u64, bytes: u64| {
            let at = offset.checked_add(bytes).filter(|at| *at <= crop.file_bytes.min(largest));
            at.ok_or_else(|| Broken::new("too large chunk offset"))
        };
        of.truncate(place.chunks.end as usize);
        of.drain(..place.chunks.start as usize);
        let Some(first) = of.first_mut() else { return Ok(Span { start: crop.file_bytes, end: 0 }) };
        *first = behind(*first, skipped_bytes)?;
        let start = *first;
        let end = match of.last() {
            Some(last) if has_end => behind(*last, last_bytes)?,
            // Without an end all samples to the end of `mdat` are sent, without adding up what they come to.
            _ => crop.samples_end,
        };
        Ok(Span { start, end })
    }

    /// Writes the track; gives where the beginnings of its chunks are to be written.
    pub fn write(&self, out: &mut Writer) -> usize {
        let track = out.begin(b"trak");
        if let Some(header) = &self.header {
            out.atom(b"tkhd", header);
        }
        // nginx writes the same list, so that players treat both servers' parts alike.
        if self.prefix > 0 {
            let edits = out.begin(b"edts");
            let list = out.begin(b"elst");
            // Version 1, one entry: how long, from where on, at the usual speed.
            out.numbers(&[1 << 24, 1]);
            out.0.extend_from_slice(&self.movie_duration.to_be_bytes());
            out.0.extend_from_slice(&self.prefix.to_be_bytes());
            out.numbers(&[1 << 16]);
            out.end(list);
            out.end(edits);
        }
        let media = out.begin(b"mdia");
        if let (Some(data), Some(clock)) = (self.media_header, &self.clock) {
            out.atom(b"mdhd", &clock.rewritten(data));
        }
        if let Some(data) = self.handler {
            out.atom(b"hdlr", data);
        }
        let information = out.begin(b"minf");
        for (name, data) in INFORMATION.iter().zip(self.information) {
            data.into_iter().for_each(|data| out.atom(name, data));
        }
        let offsets = self.write_tables(out);
        [information, media, track].into_iter().for_each(|at| out.end(at));
        offsets
    }

    fn write_tables(&self, out: &mut Writer) -> usize {
        let tables = out.begin(b"stbl");
        if let Some(data) = self.description {
            out.atom(b"stsd", data);
        }
        out.table(b"stts", self.times.as_deref().unwrap_or_default());
        if let Some(keys) = &self.keys {
            out.table(b"stss", keys);
        }
        if let Some(shifts) = self.shifts.as_ref().filter(|shifts| !shifts.is_empty()) {
            out.table(b"ctts", shifts);
        }
        out.table(b"stsc", self.runs.as_deref().unwrap_or_default());
        match &self.sizes {
            None => {}
            Some(Sizes::Uniform { size, count }) => {
                let at = out.begin(b"stsz");
                out.numbers(&[0, *size, *count]);
                out.end(at);
            }
            Some(Sizes::Each(sizes)) => {
                let at = out.begin(b"stsz");
                out.numbers(&[0, 0, sizes.len() as u32]);
                out.numbers(sizes.as_flattened());
                out.end(at);
            }
        }
        let (count, is_wide) = self.offsets.as_ref().map_or((0, false), |have| (have.of.len(), have.is_wide));
        let at = out.begin(if is_wide { b"co64" } else { b"stco" });
        out.numbers(&[0, count as u32]);
        let offsets = out.0.len();
        // Blank until [`Self::write_offsets`].
        out.0.resize(offsets + count * if is_wide { 8 } else { 4 }, 0);
        out.end(at);
        out.end(tables);
        offsets
    }

    /// Writes where chunks begin, now that it is known how far they have moved.
    pub fn write_offsets(&self, out: &mut [u8], moved: i128) -> Result<(), Broken> {
        let Some(Offsets { of, is_wide }) = &self.offsets else { return Ok(()) };
        let out_of_order = || Broken::new("unordered mp4 chunk offsets");
        let mut pieces = out.chunks_exact_mut(if *is_wide { 8 } else { 4 });
        for (offset, piece) in of.iter().zip(&mut pieces) {
            // Signed: the tables of the part may be longer or shorter than what stood before the samples.
            let at = i128::from(*offset) + moved;
            if *is_wide {
                piece.copy_from_slice(&u64::try_from(at).map_err(|_| out_of_order())?.to_be_bytes());
            } else {
                piece.copy_from_slice(&u32::try_from(at).map_err(|_| out_of_order())?.to_be_bytes());
            }
        }
        Ok(())
    }
}

fn sum(sizes: &[[u32; 1]]) -> u64 {
    sizes.iter().map(|[size]| u64::from(*size)).sum()
}

/// Samples from the key frame at or before one (counted from 0) up to it.
fn key_prefix(keys: Option<&[[u32; 1]]>, sample: u64) -> Result<u64, Broken> {
    let mut prefix = 0;
    for [key] in keys.unwrap_or_default() {
        let before = u64::from(*key).checked_sub(1).ok_or_else(|| Broken::new("zero sync sample"))?;
        if before > sample {
            break;
        }
        prefix = sample - before;
    }
    Ok(prefix)
}

/// `stsc` as it is read: runs of chunks with as many samples each.
struct Runs {
    /// First chunk, first chunk behind, samples in each, description.
    of: Vec<(Range<u64>, u64, u32)>,
}

impl Runs {
    /// Chunks are numbered from 1 in the table, and go up (nginx's CVE-2024-7347 was about others).
    fn new(table: &[[u32; 3]], chunks: u64) -> Result<Runs, Broken> {
        if table.is_empty() {
            return Err(Broken::new("zero number of entries in stsc atom"));
        }
        let mut of = Vec::with_capacity(table.len());
        for (index, [chunk, samples, description]) in table.iter().enumerate() {
            let first = u64::from(*chunk).checked_sub(1).ok_or_else(|| Broken::new("zero chunk"))?;
            let end = table.get(index + 1).map_or(Some(chunks), |next| u64::from(next[0]).checked_sub(1));
            // Descending chunks would give a negative number of samples.
            let end = end.filter(|end| *end >= first);
            let end = end.ok_or_else(|| Broken::new("unordered mp4 stsc chunks"))?;
            of.push((first..end, u64::from(*samples), *description));
        }
        Ok(Runs { of })
    }

    /// The chunk that a sample is in, and how many of that chunk's are before it. One behind the last sample is in the
    /// chunk behind the last.
    fn locate(&self, sample: u64, what: &str) -> Result<(u64, u64), Broken> {
        let mut left = sample;
        for (index, (chunks, samples, _)) in self.of.iter().enumerate() {
            let total = (chunks.end - chunks.start) * samples;
            // A part may end with the track: its end is then one behind the last sample.
            let is_last = index + 1 == self.of.len();
            if left < total || is_last && left == total {
                // Dividing by it would panic.
                if *samples == 0 {
                    return Err(Broken::new("zero number of samples"));
                }
                return Ok((chunks.start + left / samples, left % samples));
            }
            left = left.saturating_sub(total);
        }
        Err(Broken(format!("{what} time is out mp4 stsc chunks")))
    }

    /// The samples in a chunk.
    fn samples(&self, chunk: u64) -> u64 {
        self.of.iter().find(|(chunks, ..)| chunks.contains(&chunk)).map_or(0, |(_, samples, _)| *samples)
    }

    /// The table of a part.
    fn cut(&self, place: &Place) -> Vec<[u32; 3]> {
        let (start, end) = (place.chunks.start, place.chunks.end);
        let mut table: Vec<[u32; 3]> = Vec::new();
        for (chunks, samples, description) in &self.of {
            let (from, to) = (chunks.start.max(start), chunks.end.min(end));
            if from >= to {
                continue;
            }
            // The first and the last chunk of the part may have fewer.
            let is_one = end == start + 1;
            let first = if is_one { place.last } else { samples - place.skipped.min(*samples) };
            let mut push = |chunk: u64, samples: u64| {
                let entry = [(chunk - start + 1) as u32, samples as u32, *description];
                // Equal neighbours are one run, as the format has it.
                if table.last().is_none_or(|last| last[1..] != entry[1..]) {
                    table.push(entry);
                }
            };
            let mut at = from;
            if at == start {
                push(at, first);
                at += 1;
            }
            let whole_end = if to == end { to - 1 } else { to };
            if at < whole_end {
                push(at, *samples);
                at = whole_end;
            }
            if at < to {
                push(at, if to == end { place.last } else { *samples });
            }
        }
        table
    }
}
