//! Our files against libwebp's: its decoder reads each of them, and at the same quality its encoder makes files of
//! about the same size and error. Needs Debian's package `webp`.
#![forbid(unsafe_code)]

use brisk_webp::{Picture, encode};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// A small generator with a fixed seed, so that a failure can be repeated.
struct Random(u32);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0 >> 8
    }

    fn below(&mut self, end: u32) -> u32 {
        self.next() % end
    }
}

/// Runs a program of libwebp and gives its output.
fn run(program: &str, args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}: scripts/setup.sh test installs it"));
    let mut stdin = child.stdin.take().expect("it was piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("it can be waited for");
    writer.join().expect("the writer does not panic").expect("the program reads its input");
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The picture that libwebp's decoder makes of a file, as RGBA: its PAM output is a head of text and the pixels.
fn dwebp(file: &[u8], (width, height): (u32, u32)) -> Vec<u8> {
    let pam = run("dwebp", &["-quiet", "-pam", "-o", "-", "--", "-"], file);
    let head = format!("P7\nWIDTH {width}\nHEIGHT {height}\n");
    assert!(pam.starts_with(head.as_bytes()), "{}", String::from_utf8_lossy(&pam[..40.min(pam.len())]));
    let pixels = pam[pam.len() - (width * height * 4) as usize..].to_vec();
    assert!(pam[..pam.len() - pixels.len()].ends_with(b"ENDHDR\n"));
    pixels
}

/// What libwebp's encoder makes of a picture, with all of its defaults but the quality.
fn cwebp(rgba: &[u8], (width, height): (u32, u32), quality: u8) -> Vec<u8> {
    let mut pam =
        format!("P7\nWIDTH {width}\nHEIGHT {height}\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n")
            .into_bytes();
    pam.extend_from_slice(rgba);
    run("cwebp", &["-quiet", "-q", &quality.to_string(), "-o", "-", "--", "-"], &pam)
}

/// The peak signal-to-noise ratio of colours, in dB.
fn psnr(a: &[u8], b: &[u8]) -> f64 {
    let pairs = a.chunks_exact(4).zip(b.chunks_exact(4));
    let sum: u64 = pairs.flat_map(|(a, b)| (0..3).map(move |n| u64::from(a[n].abs_diff(b[n])).pow(2))).sum();
    let mean = sum as f64 / (a.len() as f64 * 0.75);
    10.0 * (255.0 * 255.0 / mean.max(1e-9)).log10()
}

/// Smooth noise of the wavelengths of a photograph: each octave has half the strength of the one below it.
struct Texture {
    grid: Vec<f32>,
}

impl Texture {
    const SIDE: usize = 64;

    fn new(random: &mut Random) -> Texture {
        let grid = (0..Self::SIDE * Self::SIDE).map(|_| random.below(2001) as f32 / 1000.0 - 1.0).collect();
        Texture { grid }
    }

    /// Between -1 and 1.
    fn octave(&self, x: f32, y: f32) -> f32 {
        let (column, row) = (x.floor(), y.floor());
        let smooth = |t: f32| t * t * (3.0 - 2.0 * t);
        let (dx, dy) = (smooth(x - column), smooth(y - row));
        let at = |dx: usize, dy: usize| {
            let (x, y) = ((column as usize + dx) % Self::SIDE, (row as usize + dy) % Self::SIDE);
            self.grid[y * Self::SIDE + x]
        };
        let above = at(0, 0) * (1.0 - dx) + at(1, 0) * dx;
        let below = at(0, 1) * (1.0 - dx) + at(1, 1) * dx;
        above * (1.0 - dy) + below * dy
    }

    fn at(&self, x: f32, y: f32, roughness: f32) -> f32 {
        let octaves = (0..7u8).map(|n| {
            let scale = f32::from(1u8 << n);
            self.octave(x * scale / 128.0, y * scale / 128.0) * roughness.powi(n.into())
        });
        octaves.sum()
    }
}

/// A landscape: sky with clouds, hills before it that end in sharp edges, a sun, and a sensor's noise.
fn landscape(width: u32, height: u32, seed: u32) -> Vec<u8> {
    let mut random = Random(seed);
    let (light, colour, ridge) =
        (Texture::new(&mut random), Texture::new(&mut random), Texture::new(&mut random));
    let (sun_x, sun_y) = (random.below(width) as f32, random.below(height / 3 + 1) as f32);
    let mut rgba = Vec::with_capacity((width * height * 4) as usize);
    for y in 0..height {
        for x in 0..width {
            let (x, y) = (x as f32, y as f32);
            let horizon = height as f32 * (0.5 + 0.2 * ridge.at(x, 7.0, 0.55));
            let shade = if y < horizon {
                let sun = if (x - sun_x).hypot(y - sun_y) < 20.0 { 90.0 } else { 0.0 };
                let cloud = 50.0 * light.at(x, y, 0.4);
                [110.0 + cloud + sun, 140.0 + cloud + sun, 200.0 + 0.5 * cloud]
            } else {
                let grass = 45.0 * light.at(x * 2.0, y * 2.0, 0.75);
                let hue = 25.0 * colour.at(x, y, 0.5);
                [80.0 + grass + hue, 100.0 + grass, 50.0 + 0.6 * grass - hue]
            };
            let noise = random.below(5) as f32 - 2.0;
            rgba.extend(shade.map(|value| (value + noise).clamp(0.0, 255.0) as u8));
            rgba.push(255);
        }
    }
    rgba
}

/// README.md states these bounds, over all pictures of one quality: how much larger than libwebp's files of the same
/// error ours may be, and how far size and error may be from those of libwebp at the same quality.
const SHARE_AT_SAME_ERROR_MAX: f64 = 1.05;
const SIZE_SHARE: std::ops::RangeInclusive<f64> = 0.75..=1.15;
const PSNR_DISTANCE_MAX: f64 = 0.6;

/// The bytes and the mean PSNR of all pictures at a quality.
fn total(pictures: &[Vec<u8>], size: (u32, u32), encode: impl Fn(&[u8]) -> Vec<u8>) -> (f64, f64) {
    let (mut bytes, mut decibels) = (0, 0.0);
    for picture in pictures {
        let file = encode(picture);
        bytes += file.len();
        decibels += psnr(picture, &dwebp(&file, size)) / pictures.len() as f64;
    }
    (bytes as f64, decibels)
}

/// The bytes of a curve of rising (bytes, PSNR) at a PSNR: the logarithm of the size is nearly linear in it.
fn bytes_at(curve: &[(f64, f64)], decibels: f64) -> f64 {
    let above = curve.iter().position(|(_, db)| *db > decibels).unwrap_or(curve.len() - 1).max(1);
    let ((low, low_db), (high, high_db)) = (curve[above - 1], curve[above]);
    let part = (decibels - low_db) / (high_db - low_db);
    (low.ln() + part * (high.ln() - low.ln())).exp()
}

#[test]
fn photographs_are_about_as_large_and_as_good_as_libwebp_makes_them() {
    let size = (320, 240);
    let pictures: Vec<_> = (1..=6).map(|seed| landscape(size.0, size.1, seed)).collect();
    let libwebp = |quality: u8| total(&pictures, size, |picture| cwebp(picture, size, quality));
    let curve: Vec<_> = [2, 10, 20, 30, 40, 50, 60, 70, 76, 82, 88, 92, 96, 100].map(libwebp).into();
    println!("quality  ours: bytes, PSNR   libwebp: bytes, PSNR   size   size at the same PSNR");
    let mut wrong = Vec::new();
    for quality in [10, 30, 50, 70, 80, 90, 97] {
        let ours = total(&pictures, size, |picture| {
            encode(&Picture::new(size.0, size.1, picture).unwrap(), quality).unwrap()
        });
        let theirs = libwebp(quality);
        let (share, fair) = (ours.0 / theirs.0, ours.0 / bytes_at(&curve, ours.1));
        println!(
            "{quality:7}  {:11} {:6.2}   {:14} {:6.2}  {share:5.3}   {fair:5.3}",
            ours.0, ours.1, theirs.0, theirs.1
        );
        let is_near = SIZE_SHARE.contains(&share) && (ours.1 - theirs.1).abs() <= PSNR_DISTANCE_MAX;
        if !is_near || fair > SHARE_AT_SAME_ERROR_MAX {
            wrong.push(quality);
        }
    }
    assert!(wrong.is_empty(), "at these qualities files are too large or too bad: {wrong:?}");
}

/// Any size, quality and content: both decoders read the file, and what they get is the picture.
#[test]
fn every_size_and_quality_can_be_read_by_libwebp() {
    let mut random = Random(20);
    let fixed = [(1, 1), (1, 2), (2, 1), (15, 17), (16, 16), (17, 15), (1, 300), (300, 1), (33, 33)];
    let random_sizes: Vec<_> = (0..90).map(|_| (1 + random.below(70), 1 + random.below(70))).collect();
    for (width, height) in fixed.into_iter().chain(random_sizes) {
        let quality = random.below(101) as u8;
        let content = random.below(4);
        let mut rgba = landscape(width, height, random.next());
        match content {
            0 => rgba.iter_mut().for_each(|byte| *byte = random.next() as u8),
            1 => rgba.chunks_exact_mut(4).for_each(|pixel| pixel[3] = random.next() as u8),
            2 => rgba.chunks_exact_mut(4).for_each(|pixel| pixel.copy_from_slice(&[255, 0, 255, 255])),
            _ => {}
        }
        let what = format!("{width}x{height}, quality {quality}, content {content}");
        let file = encode(&Picture::new(width, height, &rgba).unwrap(), quality).expect(&what);
        let back = dwebp(&file, (width, height));
        let alphas = |rgba: &[u8]| rgba.iter().skip(3).step_by(4).copied().collect::<Vec<_>>();
        assert!(alphas(&back) == alphas(&rgba), "{what}: the transparency is another");
        let least = if content == 0 { 5.0 } else { 14.0 };
        let psnr = psnr(&rgba, &back);
        assert!(psnr > least, "{what}: {psnr:.1} dB");
    }
}

/// A file is what it says it is: libwebp's own tool finds the same size and nothing behind the picture.
#[test]
fn a_file_for_a_browser_is_a_whole_file() {
    let rgba = landscape(101, 67, 3);
    let file = encode(&Picture::new(101, 67, &rgba).unwrap().with_icc(b"a profile"), 75).unwrap();
    let length = u32::from_le_bytes(file[4..8].try_into().unwrap()) as usize;
    assert_eq!(length + 8, file.len());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("webp-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("picture.webp");
    std::fs::write(&path, &file).unwrap();
    let info = run("webpinfo", &["-diag", path.to_str().unwrap()], b"");
    std::fs::remove_dir_all(&folder).unwrap();
    let info = String::from_utf8_lossy(&info);
    assert!(info.contains("No error detected") && !info.contains("Warning"), "{info}");
    assert!(info.contains("Width: 101") && info.contains("Height: 67"), "{info}");
}
