//! `ngx_http_image_filter_module`: images are tested, measured, made smaller, cut and turned while they are served.
//!
//! The whole image is read before the head of the response is known; the pool of threads works on it, at most as many
//! at a time as there are cores. What is no image, or too large a one, is a 415.
//!
//! Decoders read strangers' bytes: what an image may cost is known before it is decoded (bytes by
//! `image_filter_buffer`, pixels by `image_filter_max_pixels`), and a decoder that panics costs its request
//! alone.

use crate::coding::rules::weaken_etag;
use crate::gate::{Busy, Gate};
use brisk_conf::{Arity, Context, Diag, Directive, Risk, Token};
use brisk_http::status;
use brisk_image::{Format, Made, Shape, Turn, Wish};
use brisk_net::Failure;
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::directive::directive;
use brisk_server::flow::{Flow, Waiter};
use brisk_server::gather;
use brisk_server::in_memory::InMemory;
use brisk_server::limits::{IMAGE_HEAD_BYTES, IMAGES_WAITING_MAX};
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::{Filter, Plan, Stage};
use brisk_server::request::Request;
use brisk_server::response::{Body, BodyStream as _, Chunk, Piece, Response};
use brisk_server::text::Text;
use brisk_server::vars::Template;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "image_filter",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[
    directive("image_filter")
        .doc("What is done with images (JPEG, GIF, PNG, WebP): test lets only images pass, size answers with their size as JSON, resize WIDTH HEIGHT makes them smaller, crop WIDTH HEIGHT cuts off what is left over, rotate 90|180|270 turns them against the clock, alone or after resize or before crop. A - leaves a side open; numbers may come from variables. What is no image is a 415.")
        .in_(Context::LOCATION)
        .arity(Arity::between(1, 3))
        .takes("off | test | size | rotate 90|180|270 | resize WIDTH HEIGHT | crop WIDTH HEIGHT")
        .default_told("off")
        .many()
        .example("image_filter resize 320 -;")
        .set(image_filter),
    directive("image_filter_avif_quality")
        .doc("The quality of AVIF images, from 1 to 100; may be a variable.")
        .in_(Context::HSL)
        .takes("QUALITY")
        .default("60")
        .example("image_filter_avif_quality 50;")
        .set(|cx, d| {
            cx.conf::<Conf>().avif_quality = number(cx, d.arg(0), 1)?;
            Ok(())
        }),
    // An image is worked on as a whole, so this bounds the memory of a request before it is decoded.
    directive("image_filter_buffer")
        .doc("The longest image in bytes; a longer one is a 415.")
        .in_(Context::HSL)
        .takes_size()
        .default("1m")
        .risk(Risk::Resource)
        .example("image_filter_buffer 20m;")
        .sets(|cx, bytes| cx.conf::<Conf>().buffer = bytes),
    directive("image_filter_formats")
        .doc("Formats in which images that are resized, cropped or rotated are sent to clients whose Accept names them, the first that it does: avif, webp, or off. AVIF takes half a second of CPU for a thumbnail: keep the results in a cache. Responses get Vary: Accept. Images that could stay as they are change their format only if that makes them smaller.")
        .in_(Context::HSL)
        .arity(Arity::SOME)
        .takes("avif | webp ... | off")
        .default("off")
        .example("image_filter_formats webp;")
        .set(formats),
    directive("image_filter_interlace")
        .doc("Whether images are made so that they can be shown before all of them has come: progressive JPEG, interlaced GIF and PNG.")
        .in_(Context::HSL)
        .takes_flag()
        .default("off")
        .example("image_filter_interlace on;")
        .sets(|cx, on| cx.conf::<Conf>().interlace = on),
    directive("image_filter_jpeg_quality")
        .doc("The quality of JPEG images, from 1 to 100; may be a variable.")
        .in_(Context::HSL)
        .takes("QUALITY")
        .default("75")
        .many()
        .example("image_filter_jpeg_quality 85;")
        .set(|cx, d| {
            cx.conf::<Conf>().jpeg_quality = number(cx, d.arg(0), 1)?;
            Ok(())
        }),
    // A few kilobytes of PNG may decode to gigabytes: pixels are counted before there is memory for them.
    directive("image_filter_max_pixels")
        .doc("The most pixels of an image that is worked on (four bytes of memory each); a larger one is a 415.")
        .in_(Context::HSL)
        .takes_size()
        .default("32m")
        .risk(Risk::Resource)
        .example("image_filter_max_pixels 64m;")
        .sets(|cx, bytes| cx.conf::<Conf>().max_pixels = bytes),
    directive("image_filter_sharpen")
        .doc("How much images are sharpened, in per cent; more than 100 is possible, 0 is off. May be a variable.")
        .in_(Context::HSL)
        .takes("PERCENT")
        .default("0")
        .many()
        .example("image_filter_sharpen 20;")
        .set(|cx, d| {
            cx.conf::<Conf>().sharpen = number(cx, d.arg(0), 0)?;
            Ok(())
        }),
    directive("image_filter_transparency")
        .doc("Whether transparency of GIF images, and of PNG images with a palette, is kept. That of other images always is.")
        .in_(Context::HSL)
        .takes_flag()
        .default("on")
        .example("image_filter_transparency off;")
        .sets(|cx, on| cx.conf::<Conf>().transparency = on),
    directive("image_filter_webp_quality")
        .doc("The quality of WebP images, from 1 to 99; 100 is without loss. May be a variable.")
        .in_(Context::HSL)
        .takes("QUALITY")
        .default("80")
        .many()
        .example("image_filter_webp_quality 75;")
        .set(|cx, d| {
            cx.conf::<Conf>().webp_quality = number(cx, d.arg(0), 1)?;
            Ok(())
        }),
];

/// A number, perhaps from a variable. `-` is as much as one likes.
#[derive(Clone)]
enum Number {
    Fixed(u32),
    Template(Arc<Template>),
}

impl Number {
    /// 0: it is none.
    fn get(&self, r: &Request) -> u32 {
        match self {
            Number::Fixed(number) => *number,
            Number::Template(template) => parse(&template.eval(r)),
        }
    }
}

fn parse(text: &[u8]) -> u32 {
    if text == b"-" {
        return u32::MAX;
    }
    // 0 is what stands for "no number": nothing can be made that is 0 pixels wide.
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// A parameter; `None`: it is written out and no number.
fn parameter(cx: &mut Cx<'_, '_>, token: &Token) -> Result<Option<Number>, Diag> {
    let template = cx.template(token)?;
    Ok(match template.as_literal() {
        Some(text) => match parse(text) {
            0 => None,
            number => Some(Number::Fixed(number)),
        },
        None => Some(Number::Template(Arc::new(template))),
    })
}

fn number(cx: &mut Cx<'_, '_>, token: &Token, least: u32) -> Result<Number, Diag> {
    match parameter(cx, token)? {
        Some(number) => Ok(number),
        None if least == 0 && token.bytes() == b"0" => Ok(Number::Fixed(0)),
        None => Err(Diag::emerg(token.span, format!("invalid value \"{}\"", token.text()))
            .help(format!("a number from {least} on, or a variable, is expected"))),
    }
}

/// `image_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Off,
    Test,
    Size,
    Resize,
    Crop,
    Rotate,
}

#[derive(Clone)]
struct Conf {
    action: Action,
    avif_quality: Number,
    width: Number,
    height: Number,
    angle: Option<Number>,
    buffer: u64,
    /// The formats that may take the place of an image's own, the best first.
    formats: Arc<[Format]>,
    interlace: bool,
    jpeg_quality: Number,
    max_pixels: u64,
    sharpen: Number,
    transparency: bool,
    webp_quality: Number,
}

impl Default for Conf {
    fn default() -> Conf {
        Conf {
            action: Action::Off,
            avif_quality: Number::Fixed(60),
            width: Number::Fixed(u32::MAX),
            height: Number::Fixed(u32::MAX),
            angle: None,
            buffer: 1 << 20,
            formats: Arc::new([]),
            interlace: false,
            jpeg_quality: Number::Fixed(75),
            max_pixels: 32 << 20,
            sharpen: Number::Fixed(0),
            transparency: true,
            webp_quality: Number::Fixed(80),
        }
    }
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

fn image_filter(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    if cx.first {
        let conf = cx.conf::<Conf>();
        (conf.action, conf.angle) = (Action::Off, None);
    }
    let what = d.arg(0);
    let action = match (what.bytes(), d.args.len()) {
        (b"off", 1) => Action::Off,
        (b"test", 1) => Action::Test,
        (b"size", 1) => Action::Size,
        (b"rotate", 2) => {
            let angle = parameter(cx, d.arg(1))?;
            if !matches!(angle, Some(Number::Template(_) | Number::Fixed(90 | 180 | 270))) {
                return Err(invalid_parameter(d.arg(1)).help("images are turned by 90, 180 or 270 degrees"));
            }
            let conf = cx.conf::<Conf>();
            conf.angle = angle;
            // `rotate` beside these is a step of theirs, in whatever order they are written.
            if !matches!(conf.action, Action::Resize | Action::Crop) {
                conf.action = Action::Rotate;
            }
            return Ok(());
        }
        (b"resize" | b"crop", 3) => {
            let size = |cx: &mut Cx<'_, '_>, token: &Token| {
                parameter(cx, token)?
                    .ok_or_else(|| invalid_parameter(token).help("a number or - is expected"))
            };
            let (width, height) = (size(cx, d.arg(1))?, size(cx, d.arg(2))?);
            let conf = cx.conf::<Conf>();
            (conf.width, conf.height) = (width, height);
            if what.bytes() == b"crop" { Action::Crop } else { Action::Resize }
        }
        _ => {
            return Err(invalid_parameter(what).help(
                "off, test, size, rotate 90|180|270, resize WIDTH HEIGHT or crop WIDTH HEIGHT is expected",
            ));
        }
    };
    cx.conf::<Conf>().action = action;
    Ok(())
}

fn formats(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let mut formats = Vec::new();
    for token in &d.args {
        match token.bytes() {
            b"off" if d.args.len() == 1 => {}
            b"webp" => formats.push(Format::WebP),
            b"avif" if brisk_image::CAN_AVIF => formats.push(Format::Avif),
            name => {
                let help = if name == b"avif" {
                    "this build writes no AVIF: it was made with --no-default-features"
                } else {
                    "avif, webp or off is expected"
                };
                let message = format!("invalid value \"{}\"", token.text());
                return Err(Diag::emerg(token.span, message).help(help));
            }
        }
    }
    cx.conf::<Conf>().formats = formats.into();
    Ok(())
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf: &Conf = cx.conf_of();
    if conf.action != Action::Off {
        // Not declared: what comes of it follows from the body, and is worth caching, not preparing.
        plan.add_filter(Stage::Content, Arc::new(ImageFilter(Arc::new(conf.clone()))));
    }
}

struct ImageFilter(Arc<Conf>);

/// The filter has seen this request's response: the page of an error that it made is let through. Otherwise its
/// own 415 would be refused as no image.
#[derive(Default)]
struct Seen(bool);

impl Filter for ImageFilter {
    fn filter(&self, _: &mut Request) {}

    fn wait(&self, r: &mut Request) -> Option<Waiter> {
        if status::is_bodiless(r.resp.status)
            || std::mem::replace(&mut r.state.visit.get_mut::<Seen>().0, true)
        {
            return None;
        }
        // Ranges would be of the source.
        r.resp.allow_ranges = false;
        if r.is_head() && r.resp.body.is_empty() && r.resp.content_length != Some(0) {
            // What a GET would have given is not known.
            r.resp.content_length = None;
            return None;
        }
        let conf = self.0.clone();
        Some(Box::new(move |r| Box::pin(async move { conf.apply(r).await })))
    }
}

/// Why a response is not an image that can be worked on: a status and a line for the log.
struct Refused(u16, String);

fn unsupported(message: impl Into<String>) -> Refused {
    Refused(415, message.into())
}

impl Conf {
    async fn apply(&self, r: &mut Request) -> Flow {
        let result = if self.action == Action::Test { self.test(r).await } else { self.work(r).await };
        match result {
            Ok(()) => Flow::Next,
            Err(Refused(status, message)) => {
                brisk_server::rlog!(r, Error, "image filter: {message}");
                Flow::Status(status)
            }
        }
    }

    fn check_head(&self, r: &Request) -> Result<(), Refused> {
        let media = r.resp.content_type.as_deref().unwrap_or_default();
        // A camera's stream of images has no end that could be waited for.
        const MIXED: &[u8] = b"multipart/x-mixed-replace";
        if media.get(..MIXED.len()).is_some_and(|head| head.eq_ignore_ascii_case(MIXED)) {
            return Err(unsupported("multipart/x-mixed-replace response"));
        }
        match r.resp.content_length {
            // By the length that was announced, before anything is read.
            Some(length) if length > self.buffer => Err(unsupported(format!("too big response: {length}"))),
            _ => Ok(()),
        }
    }

    /// Lets images pass, as they are.
    async fn test(&self, r: &mut Request) -> Result<(), Refused> {
        self.check_head(r)?;
        // The beginning says what it is; the rest goes to the client as it comes.
        let (head, body) = peek(std::mem::take(&mut r.resp.body)).await.map_err(broken)?;
        let format = Format::of(&head).ok_or_else(|| unsupported("not an image"))?;
        r.resp.content_type = Some(format.media_type().into());
        r.resp.body = body;
        Ok(())
    }

    async fn work(&self, r: &mut Request) -> Result<(), Refused> {
        self.check_head(r)?;
        let body = std::mem::take(&mut r.resp.body);
        let bytes = collect(body, self.buffer).await?;
        let format = Format::of(&bytes);
        // Of what is no image the answer is `{}`, not an error: that is what was asked.
        if self.action == Action::Size {
            let probe = format.and_then(|format| Some((format, brisk_image::probe(format, &bytes)?)));
            let text = probe.map_or_else(
                || "{}\r\n".to_string(),
                |(format, probe)| {
                    format!(
                        "{{ \"img\" : {{ \"width\": {}, \"height\": {}, \"type\": \"{}\" }} }}\r\n",
                        probe.width,
                        probe.height,
                        format.name()
                    )
                },
            );
            // Fields about the image are not about the JSON.
            r.resp = Response::default();
            r.resp.text(200, Text::Static(b"application/json"), text);
            return Ok(());
        }
        let format = format.ok_or_else(|| unsupported("not an image"))?;
        let wish = self.wish(r, format).ok_or_else(|| unsupported("invalid size, angle or quality"))?;
        let (bytes, made) = transform(bytes, format, wish).await?;
        let (format, body) = match made {
            Made::AsIs => (format, bytes),
            Made::Image { format, bytes } => {
                weaken_etag(&mut r.resp);
                // Another image than the one that the tag was of.
                (format, bytes)
            }
        };
        r.resp.content_type = Some(format.media_type().into());
        r.resp.content_length = Some(body.len() as u64);
        r.resp.body = Body::bytes(body);
        Ok(())
    }

    /// What is to be made of an image for this request; `None`: a variable's value is of no use.
    fn wish(&self, r: &mut Request, format: Format) -> Option<Wish> {
        let angle = self.angle.as_ref().map_or(0, |angle| angle.get(r));
        let turn = match angle {
            // Counter-clockwise, as in nginx.
            90 => Turn::Left,
            180 => Turn::Half,
            270 => Turn::Right,
            _ => Turn::None,
        };
        let shape = if self.action == Action::Rotate {
            // `rotate` alone by no angle that is known: 415, as in nginx.
            Some(Shape::Keep).filter(|_| turn != Turn::None)?
        } else {
            let (width, height) = (self.width.get(r), self.height.get(r));
            // A variable may be anything that a client writes.
            if width == 0 || height == 0 {
                return None;
            }
            if self.action == Action::Crop {
                Shape::Fill { width, height }
            } else {
                Shape::Fit { width, height }
            }
        };
        let quality = |number: &Number, r: &Request| {
            let quality = number.get(r).min(100) as u8;
            Some(quality).filter(|quality| *quality > 0)
        };
        let (jpeg_quality, webp_quality) = (quality(&self.jpeg_quality, r), quality(&self.webp_quality, r));
        let avif_quality = quality(&self.avif_quality, r);
        // After the values were read: they may hang on variables, but not on the format.
        let format = self.negotiate(r, format);
        // A quality that is not used may be nonsense.
        let needs = |wanted, quality| if format == wanted { quality } else { Some(1) };
        Some(Wish {
            shape,
            turn,
            format,
            jpeg_quality: needs(Format::Jpeg, jpeg_quality)?,
            webp_quality: needs(Format::WebP, webp_quality)?,
            avif_quality: needs(Format::Avif, avif_quality)?,
            sharpen: self.sharpen.get(r),
            transparency: self.transparency,
            interlace: self.interlace,
            pixels_max: self.max_pixels,
        })
    }

    /// The format that suits the client best.
    fn negotiate(&self, r: &mut Request, own: Format) -> Format {
        if self.formats.is_empty() {
            return own;
        }
        // Also when the client gets the image's own format: a cache must ask again for the next one.
        r.resp.add("Vary", "Accept");
        let accept = r.header_named(b"Accept").unwrap_or_default();
        let better = self.formats.iter().find(|format| accepts(accept, format.media_type().as_bytes()));
        better.copied().unwrap_or(own)
    }
}

/// Whether `Accept` names a media type itself (RFC 9110 §12.5.1): what all browsers write for anything says nothing.
fn accepts(accept: &[u8], media: &[u8]) -> bool {
    accept.split(|b| *b == b',').any(|range| {
        let mut parts = range.split(|b| *b == b';').map(<[u8]>::trim_ascii);
        let is_named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(media));
        let is_refused = |part: &[u8]| {
            let weight = part.strip_prefix(b"q=").or_else(|| part.strip_prefix(b"Q="));
            // `q=0`, `q=0.0` and so on (RFC 9110 §12.4.2).
            weight.is_some_and(|weight| weight.iter().all(|b| matches!(b, b'0' | b'.')))
        };
        is_named && !parts.any(is_refused)
    })
}

fn broken(error: Failure) -> Refused {
    Refused(502, format!("the image could not be read: {}", error.text()))
}

async fn next(body: &mut InMemory) -> Option<Result<Chunk, Failure>> {
    std::future::poll_fn(|cx| body.poll_chunk(cx)).await
}

/// The first bytes of a body, and the body.
async fn peek(body: Body) -> Result<(Vec<u8>, Body), Failure> {
    // What is not made while it is sent can be looked at without being taken.
    let front = match &body {
        Body::Empty => Body::Empty,
        Body::One(piece) => Body::One(piece.clone()),
        Body::Many(pieces) => Body::Many(pieces.clone()),
        // A stream can be read once: what was looked at is put in front of the rest.
        Body::Stream(_) => {
            let Body::Stream(stream) = body else { return Ok((Vec::new(), Body::Empty)) };
            let mut body = InMemory::new(Body::Stream(stream));
            let (head, pieces) = pull(&mut body, IMAGE_HEAD_BYTES).await?;
            return Ok((head, gather::behind(pieces, Box::new(body))));
        }
    };
    let (head, _) = pull(&mut InMemory::new(front), IMAGE_HEAD_BYTES).await?;
    Ok((head, body))
}

/// Pulls pieces until there are so many bytes.
async fn pull(body: &mut InMemory, bytes: usize) -> Result<(Vec<u8>, Vec<Piece>), Failure> {
    let (mut head, mut pieces) = (Vec::new(), Vec::new());
    while head.len() < bytes {
        match next(body).await {
            Some(chunk) => {
                if let Chunk::Piece(piece) = chunk? {
                    let bytes_left = bytes - head.len();
                    let part = piece.in_memory().unwrap_or_default();
                    head.extend_from_slice(&part[..part.len().min(bytes_left)]);
                    pieces.push(piece);
                }
            }
            None => break,
        }
    }
    Ok((head, pieces))
}

/// All of a body, if it is not longer than that.
async fn collect(body: Body, bytes_max: u64) -> Result<Vec<u8>, Refused> {
    let mut body = InMemory::new(body);
    let mut bytes = Vec::new();
    while let Some(chunk) = next(&mut body).await {
        if let Chunk::Piece(piece) = chunk.map_err(broken)? {
            // The length may not have been announced, or be wrong.
            if piece.len() > bytes_max - bytes.len() as u64 {
                return Err(unsupported("too big response"));
            }
            bytes.extend_from_slice(piece.in_memory().unwrap_or_default());
        }
    }
    Ok(bytes)
}

static GATE: Gate = Gate::new();

/// Works on an image on the pool, when it is its turn. Gives the source back.
async fn transform(bytes: Vec<u8>, format: Format, wish: Wish) -> Result<(Vec<u8>, Made), Refused> {
    // Each of them is in memory while it waits, and a decoded image is many times its file.
    let done = GATE.run(IMAGES_WAITING_MAX, move || {
        // What a decoder did not expect must not harm more than its request.
        let made = catch_unwind(AssertUnwindSafe(|| brisk_image::transform(&bytes, format, &wish)));
        (bytes, made)
    });
    let done = done.await.map_err(|busy| match busy {
        Busy::Line => Refused(503, "too many images are waiting".into()),
        Busy::Pool => Refused(503, "the queue of the thread pool is full".into()),
    })?;
    match done {
        (bytes, Ok(Ok(made))) => Ok((bytes, made)),
        (_, Ok(Err(error))) => Err(unsupported(error.to_string())),
        // 415, not 500: it was the image, and the next one is served.
        (_, Err(_)) => Err(unsupported("the image broke its decoder")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{http, messages_in_location};

    #[test]
    fn parameters_are_checked() {
        for good in [
            "image_filter off;",
            "image_filter test; image_filter_buffer 10m; image_filter_max_pixels 1m;",
            "image_filter size;",
            "image_filter resize 10 -; image_filter rotate 90; image_filter_interlace on;",
            "image_filter crop $arg_w $arg_h; image_filter rotate $arg_r; image_filter_transparency off;",
            "image_filter_jpeg_quality 95; image_filter_webp_quality $arg_q; image_filter_sharpen 0;",
            "image_filter_sharpen 150; image_filter_formats webp; image_filter_avif_quality 50;",
        ] {
            messages_in_location(good, &[]);
        }
        for (bad, what) in [
            ("image_filter resize;", "parameter \"resize\""),
            ("image_filter bigger;", "parameter \"bigger\""),
            ("image_filter rotate 45;", "parameter \"45\""),
            ("image_filter resize 0 10;", "parameter \"0\""),
            ("image_filter crop 10 x;", "parameter \"x\""),
            ("image_filter_jpeg_quality 0;", "value \"0\""),
            ("image_filter_sharpen -1;", "value \"-1\""),
            ("image_filter_formats jpeg;", "value \"jpeg\""),
        ] {
            messages_in_location(bad, &[&format!("invalid {what}")]);
        }
    }

    #[test]
    fn avif_is_refused_by_builds_without_it() {
        let wrong = ["invalid value \"avif\""];
        let want = if brisk_image::CAN_AVIF { &[][..] } else { &wrong };
        messages_in_location("image_filter_formats avif webp;", want);
    }

    #[test]
    fn a_nested_location_begins_anew() {
        let text = "server { location /a { image_filter resize 1 1; image_filter rotate 90; \
                    location /a/b { image_filter off; } location /a/c { } } }";
        let snap = http(text).unwrap();
        let has = |name: &[u8]| {
            let location = snap.locations.iter().find(|l| *l.name == *name).unwrap();
            location.plan.filters.iter().any(|(stage, _)| *stage == Stage::Content)
        };
        assert!(has(b"/a") && !has(b"/a/b") && has(b"/a/c"));
    }

    #[test]
    fn only_what_accept_names_is_sent() {
        let check =
            |accept: &str, want| assert_eq!(accepts(accept.as_bytes(), b"image/webp"), want, "{accept}");
        check("image/avif,image/webp,image/*,*/*;q=0.8", true);
        check("text/html, Image/WebP;q=0.1", true);
        check("image/webp;q=0", false);
        check("image/webp; q=0.000", false);
        check("image/*,*/*", false);
        check("", false);
    }
}
