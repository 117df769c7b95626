//! Files that are made here: a track whose samples say which they are, cut and read again.

use super::atoms::{Broken, Writer};
use super::movie::{Cut, Movie, Source, Wanted, cut, fuzz};
use super::{milliseconds, times};

/// A track of samples of 4 bytes, 100 ms each: its tables as they are to be written.
#[derive(Clone)]
struct Tables {
    /// Samples, and in how many chunks of which number they lie.
    samples: u32,
    per_chunk: u32,
    stts: Vec<[u32; 2]>,
    stss: Vec<[u32; 1]>,
    ctts: Vec<[u32; 2]>,
    stsc: Vec<[u32; 3]>,
    wide: bool,
    uniform: bool,
    /// Another atom in a place that has one.
    twice: Option<&'static [u8; 4]>,
}

impl Tables {
    fn new(samples: u32, per_chunk: u32) -> Tables {
        Tables {
            samples,
            per_chunk,
            stts: vec![[samples, 100]],
            stss: (0..samples).step_by(10).map(|n| [n + 1]).collect(),
            ctts: vec![[samples, 5]],
            stsc: [[1, per_chunk, 1], [samples / per_chunk + 1, samples % per_chunk, 1]]
                .into_iter()
                .filter(|run| run[1] > 0)
                .collect(),
            wide: false,
            uniform: false,
            twice: None,
        }
    }

    fn chunks(&self) -> u32 {
        self.samples.div_ceil(self.per_chunk)
    }

    fn atom(&self, out: &mut Writer, name: &'static [u8; 4], data: &[u8]) {
        out.atom(name, data);
        if self.twice == Some(name) {
            out.atom(name, data);
        }
    }

    /// `moov`, of samples that begin at `data_at`.
    fn moov(&self, data_at: u64, out: &mut Writer) {
        let moov = out.begin(b"moov");
        let mut mvhd = vec![0; 100];
        mvhd[12..20]
            .copy_from_slice(&[&1000u32.to_be_bytes()[..], &(self.samples * 100).to_be_bytes()].concat());
        self.atom(out, b"mvhd", &mvhd);
        let trak = out.begin(b"trak");
        let mut tkhd = vec![0; 84];
        tkhd[20..24].copy_from_slice(&(self.samples * 100).to_be_bytes());
        self.atom(out, b"tkhd", &tkhd);
        let mdia = out.begin(b"mdia");
        let mut mdhd = vec![0; 24];
        mdhd[12..20].copy_from_slice(&mvhd[12..20]);
        self.atom(out, b"mdhd", &mdhd);
        self.atom(out, b"hdlr", &[7; 24]);
        let minf = out.begin(b"minf");
        for name in [b"vmhd", b"smhd", b"dinf"] {
            self.atom(out, name, &[8; 12]);
        }
        let stbl = out.begin(b"stbl");
        self.atom(out, b"stsd", &[9; 16]);
        self.table(out, b"stts", &self.stts);
        self.table(out, b"stss", &self.stss);
        self.table(out, b"ctts", &self.ctts);
        self.table(out, b"stsc", &self.stsc);
        let sizes: Vec<u32> = if self.uniform {
            vec![4, self.samples]
        } else {
            [0, self.samples].into_iter().chain((0..self.samples).map(|_| 4)).collect()
        };
        let bytes: Vec<u8> = [0].into_iter().chain(sizes).flat_map(u32::to_be_bytes).collect();
        self.atom(out, b"stsz", &bytes);
        let offset = |chunk: u32| data_at + u64::from(chunk) * u64::from(self.per_chunk) * 4;
        if self.wide {
            let wide = |chunk| [(offset(chunk) >> 32) as u32, offset(chunk) as u32];
            self.table(out, b"co64", &(0..self.chunks()).map(wide).collect::<Vec<_>>());
        } else {
            self.table(
                out,
                b"stco",
                &(0..self.chunks()).map(|chunk| [offset(chunk) as u32]).collect::<Vec<_>>(),
            );
        }
        [stbl, minf, mdia, trak, moov].into_iter().for_each(|at| out.end(at));
    }

    fn table<const N: usize>(&self, out: &mut Writer, name: &'static [u8; 4], entries: &[[u32; N]]) {
        out.table(name, entries);
        if self.twice == Some(name) {
            out.table(name, entries);
        }
    }

    /// A file whose samples are their numbers.
    fn file(&self, moov_first: bool) -> Vec<u8> {
        let mut out = Writer::default();
        self.atom(&mut out, b"ftyp", b"isom\0\0\0\0");
        let mut moov = Writer::default();
        self.moov(0, &mut moov);
        let data_at = out.0.len() + 8 + if moov_first { moov.0.len() } else { 0 };
        if moov_first {
            self.moov(data_at as u64, &mut out);
        }
        let samples: Vec<u8> = (0..self.samples).flat_map(u32::to_be_bytes).collect();
        self.atom(&mut out, b"mdat", &samples);
        if !moov_first {
            self.moov(data_at as u64, &mut out);
        }
        out.0
    }
}

fn wanted(start_ms: u64, length_ms: u64) -> Wanted {
    Wanted { start_ms, length_ms, key_frame: false, read_bytes: 64, tables_bytes_max: 1 << 20 }
}

fn part(file: &[u8], wanted: &Wanted) -> Result<Cut, Broken> {
    match cut(&Source::Memory(file.into()), wanted)? {
        Movie::Part(part) => Ok(part),
        Movie::Whole => panic!("the whole file"),
    }
}

/// The samples that a player of a part would find by its tables.
fn samples(file: &[u8], part: &Cut) -> Vec<u32> {
    let whole = [&part.head[..], &file[part.samples.start as usize..part.samples.end as usize]].concat();
    let find = |name: &[u8; 4]| {
        let at = whole.windows(4).position(|four| four == name)?;
        let size = u32::from_be_bytes(whole[at - 4..at].try_into().unwrap()) as usize;
        Some(&whole[at + 4..at - 4 + size])
    };
    let numbers = |data: &[u8]| -> Vec<u64> {
        data.chunks_exact(4).map(|four| u32::from_be_bytes(four.try_into().unwrap()).into()).collect()
    };
    let stsc = numbers(&find(b"stsc").unwrap()[8..]);
    let offsets: Vec<u64> = match find(b"stco") {
        Some(data) => numbers(&data[8..]),
        None => numbers(&find(b"co64").unwrap()[8..]).chunks(2).map(|two| two[0] << 32 | two[1]).collect(),
    };
    let stsz = numbers(find(b"stsz").unwrap());
    let count: u64 = numbers(&find(b"stts").unwrap()[8..]).chunks(2).map(|two| two[0]).sum();
    assert_eq!(stsz[2], count, "as many sizes as times");
    let mut found = Vec::new();
    for (chunk, at) in offsets.iter().enumerate() {
        let run = stsc.chunks(3).rev().find(|run| run[0] <= chunk as u64 + 1).expect("each chunk has a run");
        for n in 0..run[1] {
            let at = (at + n * 4) as usize;
            found.push(u32::from_be_bytes(whole[at..at + 4].try_into().unwrap()));
        }
    }
    // Without an end the last chunk is as long as its run says; there may be fewer.
    found.truncate(count as usize);
    found
}

#[test]
fn parts_have_the_samples_of_their_time() {
    for per_chunk in [1, 3, 7, 10, 50, 100] {
        for (wide, uniform, moov_first) in
            [(false, false, true), (true, false, false), (false, true, true), (true, true, false)]
        {
            let tables = Tables { wide, uniform, ..Tables::new(100, per_chunk) };
            let file = tables.file(moov_first);
            for (start, length) in [
                (0, 100),
                (100, 0),
                (150, 0),
                (2000, 1000),
                (2050, 1000),
                (0, 9950),
                (9900, 0),
                (700, 1),
                (2100, 20_000),
            ] {
                let what = format!("{per_chunk} in a chunk, {wide} {uniform}, from {start} for {length}");
                let first = start / 100;
                let end = if length == 0 { 100 } else { (first + length / 100).min(100) };
                let want: Vec<u32> = (first as u32..end as u32).collect();
                match part(&file, &wanted(start, length)) {
                    Ok(part) => assert_eq!(samples(&file, &part), want, "{what}"),
                    Err(error) => {
                        assert!(want.is_empty(), "{what}: {error}");
                        assert_eq!(error, Broken::new("no data between start time and end time"));
                    }
                }
            }
        }
    }
}

#[test]
fn parts_may_begin_with_a_key_frame() {
    let file = Tables { stts: vec![[25, 100], [25, 100], [50, 100]], ..Tables::new(100, 7) }.file(true);
    let key = Wanted { key_frame: true, ..wanted(2650, 1000) };
    let cut = part(&file, &key).unwrap();
    assert_eq!(samples(&file, &cut), (20..36).collect::<Vec<_>>());
    let at = cut.head.windows(4).position(|four| four == b"elst").expect("an edit list");
    // The six samples from the key frame on, and the part's length.
    assert_eq!(cut.head[at + 12..at + 28], [1000u64.to_be_bytes(), 600u64.to_be_bytes()].concat());
    assert!(!part(&file, &wanted(2650, 1000)).unwrap().head.windows(4).any(|four| four == b"elst"));
}

#[test]
fn a_file_that_is_wanted_as_a_whole_is_sent_as_it_is_if_its_tables_are_first() {
    let tables = Tables::new(10, 2);
    let whole = |file: Vec<u8>| cut(&Source::Memory(file.into()), &wanted(0, 0));
    assert_eq!(whole(tables.file(true)), Ok(Movie::Whole));
    assert!(matches!(whole(tables.file(false)), Ok(Movie::Part(_))));
}

fn error(tables: &Tables) -> String {
    part(&tables.file(true), &wanted(200, 300)).unwrap_err().0
}

/// CVE-2022-41741 and CVE-2022-41742 were two atoms where one belongs.
#[test]
fn no_atom_stands_twice() {
    for name in [
        b"ftyp", b"mvhd", b"tkhd", b"mdhd", b"hdlr", b"vmhd", b"smhd", b"dinf", b"stsd", b"stts", b"stss",
        b"ctts", b"stsc", b"stsz",
    ] {
        let tables = Tables { twice: Some(name), ..Tables::new(10, 2) };
        let name = std::str::from_utf8(name).unwrap();
        assert_eq!(error(&tables), format!("duplicate mp4 {name} atom"));
    }
    for (name, wide) in [(b"stco", false), (b"co64", true)] {
        let tables = Tables { twice: Some(name), wide, ..Tables::new(10, 2) };
        assert_eq!(error(&tables), "duplicate mp4 stco/co64 atom");
    }
    let samples = Tables { twice: Some(b"mdat"), ..Tables::new(10, 2) }.file(false);
    assert_eq!(part(&samples, &wanted(200, 300)).unwrap_err().0, "duplicate mp4 mdat atom");
    let twice = [Tables::new(10, 2).file(false), Tables::new(10, 2).file(false)[16..].to_vec()].concat();
    assert!(part(&twice, &wanted(200, 300)).is_ok(), "what stands behind both is not looked at");
}

/// CVE-2024-7347 was about chunks that go down; others were about zeros and sums that wrap.
#[test]
fn tables_that_contradict_themselves_are_refused() {
    let tables = Tables::new(10, 2);
    let of = |stsc: &[[u32; 3]]| error(&Tables { stsc: stsc.to_vec(), ..tables.clone() });
    assert_eq!(of(&[[1, 2, 1], [4, 2, 1], [3, 2, 1]]), "unordered mp4 stsc chunks");
    assert_eq!(of(&[[1, 2, 1], [9, 2, 1]]), "unordered mp4 stsc chunks");
    assert_eq!(of(&[[0, 2, 1]]), "zero chunk");
    assert_eq!(of(&[]), "zero number of entries in stsc atom");
    assert_eq!(of(&[[1, 0, 1]]), "start time is out mp4 stsc chunks");
    assert_eq!(of(&[[1, 1, 1], [2, 0, 1]]), "start time is out mp4 stsc chunks");
    let stts = |stts: &[[u32; 2]]| error(&Tables { stts: stts.to_vec(), ..tables.clone() });
    assert_eq!(stts(&[]), "start time is out mp4 stts samples");
    assert_eq!(stts(&[[u32::MAX, 0]]), "start time is out mp4 stts samples");
    assert_eq!(stts(&[[u32::MAX, 0], [u32::MAX, u32::MAX]]), "start time is out mp4 stsc chunks");
    let zero = Tables { stss: vec![[0]], ..tables.clone() };
    let key = Wanted { key_frame: true, ..wanted(200, 300) };
    assert_eq!(part(&zero.file(true), &key).unwrap_err().0, "zero sync sample");
    assert!(part(&tables.file(true), &wanted(u64::MAX, u64::MAX)).is_err());
    assert!(part(&tables.file(true), &wanted(200, u64::MAX)).is_ok());
}

#[test]
fn sizes_are_held_against_what_there_is() {
    let file = Tables::new(10, 2).file(true);
    let at = |name: &[u8; 4]| file.windows(4).position(|four| four == name).unwrap();
    let with = |at: usize, bytes: &[u8]| {
        let mut file = file.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        part(&file, &wanted(200, 300)).map(drop).map_err(|error| error.0)
    };
    let broken = |text: &str| Err(text.to_string());
    assert_eq!(with(at(b"moov") - 4, &[0, 0, 0, 5]), broken("mp4 atom is too small:5"));
    assert_eq!(with(at(b"moov") - 4, &[0x7f, 0, 0, 0]), broken("mp4 atom too large:2130706432"));
    assert_eq!(with(at(b"trak") - 4, &[0, 0xff, 0, 0]), broken("mp4 atom too large:16711680"));
    assert_eq!(with(at(b"trak") - 4, &[0; 4]), broken("no mp4 trak atoms were found"));
    assert_eq!(with(at(b"mdat") - 4, &[0; 4]), broken("no mp4 mdat atom was found"));
    assert_eq!(with(at(b"trak"), b"cmov"), broken("mp4 compressed moov atom (cmov) is not supported"));
    for name in [b"stts", b"stss", b"ctts", b"stsc", b"stco"] {
        let text = format!("mp4 {} atom too small", std::str::from_utf8(name).unwrap());
        assert_eq!(with(at(name) + 8, &[0xff; 4]), broken(&text));
    }
    assert_eq!(with(at(b"stsz") + 12, &[0x40, 0, 0, 0]), broken("mp4 stsz atom too small"));
    assert_eq!(with(at(b"stco") + 16, &[0xff; 4]), broken("too large chunk offset"));
    let small = Wanted { tables_bytes_max: 100, ..wanted(200, 300) };
    assert!(part(&file, &small).unwrap_err().0.contains("you may want to increase mp4_max_buffer_size"));
    for end in 0..file.len() {
        let _ = cut(&Source::Memory(file[..end].into()), &wanted(200, 300));
    }
}

/// Many tiny atoms at the top of a file would be read for a long time.
#[test]
fn files_of_tiny_atoms_are_given_up() {
    let file = [0, 0, 0, 8, b'f', b'r', b'e', b'e'].repeat(2000);
    assert_eq!(part(&file, &wanted(200, 300)).unwrap_err().0, "too many mp4 atoms");
}

#[test]
fn fuzzing_starts_from_files() {
    for file in [Tables::new(20, 3).file(true), Tables { wide: true, ..Tables::new(20, 3) }.file(false)] {
        fuzz(&[&[0, 200, 3, 0, 0xf9][..], &file].concat());
    }
}

#[test]
fn arguments() {
    for (text, want) in [
        ("1", Some(1000)),
        ("1.5", Some(1500)),
        ("0.0009999999", Some(0)),
        (".5", Some(500)),
        ("1.23456", Some(1234)),
        ("", None),
        ("-1", None),
        ("1.2.3", None),
        ("1e3", None),
        ("9223372036854775807", None),
    ] {
        assert_eq!(milliseconds(text.as_bytes()), want, "{text}");
    }
    assert_eq!(times(b"start=1&end=3"), Some((1000, 2000)));
    assert_eq!(times(b"end=3"), Some((0, 3000)));
    assert_eq!(times(b"start=3&end=1"), Some((3000, 0)));
    assert_eq!(times(b"end=0"), None);
    assert_eq!(times(b"a=1"), None);
}
