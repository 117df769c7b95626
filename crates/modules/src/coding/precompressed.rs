//! `ngx_http_gzip_static_module`, and the same for Brotli and Zstandard: files that lie compressed beside the originals.
//!
//! Nothing is compared with the original, as in nginx: whoever puts `FILE.gz` there keeps it up to date. A
//! folder that does this by itself is `compress_static`.

use super::gzip;
use super::rules::Rules;
use crate::static_files::respond_with;
use brisk_conf::{Context, value};
use brisk_http::Method;
use brisk_http::negotiate::Coding;
use brisk_net::file::Kind;
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::files::{Found, reason};
use brisk_server::flow::Flow;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::path;
use brisk_server::plan::{Declared, Handler, Plan};
use brisk_server::request::Request;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "gzip_static",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

// One row for each coding: they differ in a name and a field.
// (In `if` blocks of a location none, as in nginx.)
macro_rules! static_row {
    ($name:literal, $field:ident, $doc:literal) => {
        directive($name)
            .doc($doc)
            .in_(Context::HSL)
            .takes_one_of(&MODES)
            .default("off")
            .example(concat!($name, " on;"))
            .set(|cx, d| {
                cx.conf::<Conf>().$field = value::choice(d.arg(0), &MODES)?;
                Ok(())
            })
    };
}

static ROWS: &[Row] = &[
    static_row!(
        "gzip_static",
        gzip,
        "Serves FILE.gz, if there is one, for FILE: on to clients that accept gzip, always to all. Where several codings are on and the client weighs them the same, br comes before zstd before gzip: of files made once the smallest is best."
    ),
    static_row!("brotli_static", br, "As gzip_static, with FILE.br for clients that accept br."),
    static_row!("zstd_static", zstd, "As gzip_static, with FILE.zst for clients that accept zstd."),
];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Off,
    On,
    Always,
}

const MODES: [(&str, Mode); 3] = [("off", Mode::Off), ("on", Mode::On), ("always", Mode::Always)];

#[derive(Clone, Default)]
struct Conf {
    gzip: Mode,
    br: Mode,
    zstd: Mode,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

/// A coding that is looked for.
#[derive(Clone, Copy)]
struct Variant {
    coding: Coding,
    mode: Mode,
    extension: &'static [u8],
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf: &Conf = cx.conf_of();
    let variants = [
        // The smallest first: they are made once, so what they cost to make does not count.
        Variant { coding: Coding::Br, mode: conf.br, extension: b".br" },
        Variant { coding: Coding::Zstd, mode: conf.zstd, extension: b".zst" },
        Variant { coding: Coding::Gzip, mode: conf.gzip, extension: b".gz" },
    ];
    let variants: Vec<Variant> = variants.into_iter().filter(|variant| variant.mode != Mode::Off).collect();
    if !variants.is_empty() {
        // Those of `gzip`: whom a proxy or an old browser keeps from codings gets none of these either.
        let rules = cx.conf_of::<gzip::Conf>().rules.clone();
        // Before the handler of plain files, behind those that make something of a directory.
        plan.add_content(50, Arc::new(Precompressed { variants: variants.into(), rules }));
    }
}

struct Precompressed {
    /// In the order of preference.
    variants: Box<[Variant]>,
    rules: Rules,
}

impl Handler for Precompressed {
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn handle(&self, r: &mut Request) -> Flow {
        // What else may be said of the request (405 for POST, an index) the handler of plain files says.
        if !matches!(r.route.method, Method::Get | Method::Head) || r.route.uri.ends_with(b"/") {
            return Flow::Next;
        }
        // With nothing but `always` the request is not looked at: the answer is the same for everybody, and no
        // `Vary` is due.
        let wants = if self.variants.iter().all(|variant| variant.mode == Mode::Always) {
            self.variants.iter().map(|variant| (0, *variant)).collect()
        } else {
            self.wanted(r)
        };
        if wants.is_empty() {
            return Flow::Next;
        }
        // Room for the longest extension, so that the path is not copied for it.
        let Some(mut mapped) = path::map(r, 4) else { return Flow::Status(404) };
        let length = mapped.bytes.len();
        for (rank, variant) in wants {
            // From the path's own end: each is tried on the bare name.
            mapped.bytes.truncate(length);
            mapped.bytes.extend_from_slice(variant.extension);
            match self.look(r, &mapped, rank, variant) {
                Flow::Next => {}
                flow => return flow,
            }
        }
        Flow::Next
    }
}

/// The rank of a variant that is looked for only to say `Vary`.
const NOT_WANTED: u8 = u8::MAX;

impl Precompressed {
    /// What is looked for, best first.
    fn wanted(&self, r: &mut Request) -> Vec<(u8, Variant)> {
        let preference = self.rules.preference(r);
        let rank = |variant: &Variant| match (preference.rank(variant.coding), variant.mode) {
            (Some(rank), _) => rank,
            // Given to clients that do not take it, but after all that they do.
            (None, Mode::Always) => NOT_WANTED - 1,
            (None, _) => NOT_WANTED,
        };
        // Stable, so that among equals the smallest stays first.
        let mut wants: Vec<_> = self.variants.iter().map(|variant| (rank(variant), *variant)).collect();
        // Where `Vary` is said, a file that this client does not want is looked for all the same: whether it is
        // there decides about the field.
        wants.retain(|(rank, _)| *rank != NOT_WANTED || self.rules.vary());
        wants.sort_by_key(|(rank, _)| *rank);
        wants
    }

    fn look(&self, r: &mut Request, mapped: &path::Mapped, rank: u8, variant: Variant) -> Flow {
        let symlinks = path::symlinks(r, mapped);
        let file = match r.open_file(mapped.path(), symlinks) {
            Ok(Found::File(file)) => file,
            // A folder `x.gz` is nobody's compressed `x`.
            Ok(Found::Other(info)) if info.kind == Kind::Directory => return Flow::Next,
            Ok(Found::Other(_)) => {
                brisk_server::rlog!(r, Crit, "\"{}\" is not a regular file", mapped.path().display());
                return Flow::Status(404);
            }
            Ok(Found::Missing(error)) => {
                // That there is no such file is the usual case, and no line in the log.
                let path = Path::new(OsStr::from_bytes(&mapped.bytes)).display();
                match error.raw_os_error() {
                    Some(2 | 20 | 36) => {} // ENOENT, ENOTDIR, ENAMETOOLONG
                    Some(13 | 31 | 40) => {
                        brisk_server::rlog!(r, Error, "open() \"{path}\" failed ({})", reason(&error));
                    }
                    _ => brisk_server::rlog!(r, Crit, "open() \"{path}\" failed ({})", reason(&error)),
                }
                return Flow::Next;
            }
            Err(flow) => return flow,
        };
        // Not with `always`, whose answer does not depend on the client.
        if variant.mode == Mode::On {
            self.rules.set_vary(&mut r.resp);
        }
        if rank == NOT_WANTED {
            return Flow::Next;
        }
        respond_with(r, file);
        r.resp.content_encoding = Some(variant.coding.name().into());
        Flow::Done
    }
}

#[cfg(test)]
mod tests {
    use crate::check::messages_in_location;

    #[test]
    fn parameters_are_checked() {
        messages_in_location("gzip_static on; brotli_static always; zstd_static off;", &[]);
        messages_in_location("gzip_static yes;", &["invalid value \"yes\""]);
    }
}
