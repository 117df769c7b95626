//! `compress_static`: static files are compressed once, in the background, as well as it goes, and served from a cache
//! folder from then on.
//!
//! The variant's name holds what identifies the file's content ([`Source`]), so a file that has changed asks for
//! another variant. Variants are opened through the thread's cache of files like any other file: when one appears, the
//! file events tell, and answers that were prepared without it are dropped.

mod store;

use crate::coding::gzip;
use crate::coding::rules::Rules;
use crate::limits::{FOLDER_BYTES_MAX, SOURCE_BYTES_MIN};
use crate::media_types::{MediaTypes, types_row};
use crate::static_files::{etag, respond_with};
use brisk_conf::{Arity, Context, Diag, Directive, Risk, value};
use brisk_http::Method;
use brisk_http::negotiate::{Coding, Preference};
use brisk_net::file::Symlinks;
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::directive::directive;
use brisk_server::files::{Found, OpenFile};
use brisk_server::flow::Flow;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::path;
use brisk_server::plan::{Declared, Handler, Plan};
use brisk_server::request::Request;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use store::{SOURCE_BYTES_MAX, Source, Store};

pub static MODULE: Module = Module {
    name: "compress_static",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    finish: Some(finish),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

/// What browsers ask for and what compression makes smaller.
const TYPES: &str = "text/html text/css text/plain text/xml text/javascript text/markdown text/csv \
    application/javascript application/json application/ld+json application/manifest+json application/xml \
    application/rss+xml application/atom+xml application/xhtml+xml application/wasm image/svg+xml font/ttf font/otf \
    application/vnd.ms-fontobject image/bmp image/x-icon";

/// The folder where none is named.
/// In the folder for caches, which may be emptied at any time: everything in it can be made anew.
const FOLDER: &str = "compress_static";

/// The words of `compress_static`.
const WHETHER: [(&str, bool); 2] = [("off", false), ("auto", true)];

static ROWS: &[Row] = &[
    directive("compress_static")
        .doc("auto: the first time a static file is asked for by a client that accepts br, zstd or gzip (among equals in this order, since the smallest is best), it is compressed in the background at the highest level, kept in the folder of compress_static_path, and served from there until it changes. Until then, and for files that do not become smaller, everything is as without it. Files of 512 bytes to 32 MiB. gzip_vary and its kin hold here too.")
        .in_(Context::HSL)
        .takes_one_of(&WHETHER)
        .default("off")
        .risk(Risk::Resource)
        .example("compress_static auto;")
        .set(|cx, d| {
            cx.conf::<Conf>().on = value::choice(d.arg(0), &WHETHER)?;
            Ok(())
        }),
    directive("compress_static_path")
        .doc("The folder for compressed files and the most bytes that they may take: max_size=SIZE. If there is no room, those not made lately go first. If it is not there it is created for the user that workers run as.")
        .in_(Context::HSL)
        .arity(Arity::between(1, 2))
        .takes("DIR [max_size=SIZE]")
        .default_told("compress_static max_size=256m")
        .risk(Risk::Resource)
        .example("compress_static_path /var/cache/brisk/compressed max_size=1g;")
        .set(set_path),
    types_row!(Conf, "compress_static_types", TYPES, "that are compressed"),
];

#[derive(Clone)]
struct Conf {
    on: bool,
    store: Option<Arc<Store>>,
    types: Arc<MediaTypes>,
}

impl Default for Conf {
    // Without a folder until `finish`: where it is depends on how the server was built and started.
    fn default() -> Conf {
        Conf { on: false, store: None, types: Arc::new(MediaTypes::of(TYPES)) }
    }
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

/// The setter of `compress_static_path`.
fn set_path(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let mut bytes_max = FOLDER_BYTES_MAX;
    if let Some(token) = d.args.get(1) {
        let text = token.bytes().strip_prefix(b"max_size=").ok_or_else(|| invalid_parameter(token))?;
        let size = brisk_conf::Token { value: text.into(), ..token.clone() };
        bytes_max = value::offset(&size)?;
    }
    let folder = cx.full_path(d.arg(0).str());
    // (Each block that names one has a store of its own: its limit is counted by itself.)
    cx.conf::<Conf>().store = Some(Store::new(folder.into(), bytes_max));
    Ok(())
}

/// Chooses the folder where none is named, and has it created.
fn finish(cx: &mut Cx<'_, '_>) -> Result<(), Diag> {
    let conf: &Conf = cx.conf_of();
    if !conf.on {
        return Ok(());
    }
    let store = match &conf.store {
        Some(store) => store.clone(),
        None => {
            let store = Store::new(format!("{}{FOLDER}", cx.places().cache).into(), FOLDER_BYTES_MAX);
            cx.conf_of_mut::<Conf>().store = Some(store.clone());
            store
        }
    };
    // Created and given to the worker's user while the master still may.
    cx.writes_into(store.folder());
    Ok(())
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf: &Conf = cx.conf_of();
    if let (true, Some(store)) = (conf.on, &conf.store) {
        let rules = cx.conf_of::<gzip::Conf>().rules.clone();
        let handler = CompressStatic { store: store.clone(), types: conf.types.clone(), rules };
        // Behind files that somebody has compressed by hand (50): they are as that person wants them.
        plan.add_content(55, Arc::new(handler));
    }
}

struct CompressStatic {
    store: Arc<Store>,
    types: Arc<MediaTypes>,
    rules: Rules,
}

/// In the order of preference.
const CODINGS: [Coding; 3] = [Coding::Br, Coding::Zstd, Coding::Gzip];

impl Handler for CompressStatic {
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn handle(&self, r: &mut Request) -> Flow {
        if !matches!(r.route.method, Method::Get | Method::Head) || r.route.uri.ends_with(b"/") {
            // A folder's index comes here by its own name.
            return Flow::Next;
        }
        // By the name: the type of the original, whose name the variant does not have.
        if r.resp.content_type.is_none() {
            r.set_content_type_by_extension();
        }
        if !r.resp.content_type.as_deref().is_some_and(|media| self.types.has(media)) {
            return Flow::Next;
        }
        // Variants are of the file as it is: commands, texts to be replaced and what is put around it would stay as they are.
        let live = r.live.clone();
        if live.snap.location(r.route.loc).plan.reads_content(r) {
            return Flow::Next;
        }
        // What is wrong with the path or the file the static handler says.
        // As the static handler would, so that links are followed by the same rules.
        let Some(mapped) = path::map(r, 0) else { return Flow::Next };
        let symlinks = path::symlinks(r, &mapped);
        let file = match r.open_file(mapped.path(), symlinks) {
            Ok(Found::File(file)) => file,
            Ok(_) => return Flow::Next,
            Err(flow) => return flow,
        };
        // Small files gain nothing; large ones would keep the pool busy for minutes.
        if !(SOURCE_BYTES_MIN..=SOURCE_BYTES_MAX).contains(&file.info.size) {
            return Flow::Next;
        }
        // Before it is known whether there is a variant: caches in front must keep the answers apart from the
        // first on.
        self.rules.set_vary(&mut r.resp);
        let preference = self.rules.preference(r);
        // Nothing is accepted: neither looked for nor made.
        if preference == Preference::default() {
            return Flow::Next;
        }
        self.serve(r, mapped.path(), &file, preference)
    }
}

impl CompressStatic {
    /// Serves the best variant that there is, and has the best that there could be made.
    fn serve(&self, r: &mut Request, path: &Path, file: &Rc<OpenFile>, preference: Preference) -> Flow {
        let source = Source::new(path, &file.info);
        let mut codings: Vec<_> =
            CODINGS.iter().filter_map(|&coding| Some((preference.rank(coding)?, coding))).collect();
        // Stable, so that among equals the order of preference stays.
        codings.sort_by_key(|(rank, _)| *rank);
        for (at, (_, coding)) in codings.into_iter().enumerate() {
            // (In the server's own folder: no link there is a stranger's.)
            let variant = match r.open_file(&self.store.path(&source, coding), Symlinks::Follow) {
                Ok(Found::File(variant)) => variant,
                Ok(_) => {
                    // Only the best for this client is made: others are for clients that ask for them.
                    if at == 0 && r.route.method == Method::Get {
                        self.store.request(source.clone(), coding, r);
                    }
                    continue;
                }
                // The disk must be asked first, or there are no descriptors left: it concerns the original as well.
                Err(flow) => return flow,
            };
            // An empty file says that compression is no gain.
            if variant.info.size == 0 {
                continue;
            }
            let length = variant.info.size;
            respond_with(r, variant);
            // The original's: when the variant was made says nothing about the content.
            r.resp.last_modified = Some(file.info.mtime);
            if r.core().etag {
                let mut tag = etag(file.info.mtime, file.info.size).to_vec();
                // The quote at its end; the length and coding make it the variant's own tag.
                tag.pop();
                tag.extend_from_slice(format!("-{length:x}{}\"", coding.name()).as_bytes());
                r.resp.etag = Some(tag.into());
            }
            r.resp.content_encoding = Some(coding.name().into());
            return Flow::Done;
        }
        Flow::Next
    }
}

#[cfg(test)]
mod tests {
    use crate::check::messages_in_location;

    #[test]
    fn parameters_are_checked() {
        messages_in_location("compress_static auto; compress_static_path /var/cache/x max_size=1g;", &[]);
        messages_in_location("compress_static off; compress_static_types text/css;", &[]);
        messages_in_location("compress_static on;", &["invalid value \"on\""]);
        messages_in_location("compress_static_path a size=1;", &["invalid parameter \"size=1\""]);
        messages_in_location(
            "compress_static_path a max_size=x;",
            &["\"compress_static_path\" directive invalid value"],
        );
    }
}
