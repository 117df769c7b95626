//! `ngx_http_autoindex_module`: listings of directories.

mod page;
mod render;

use crate::charset;
use crate::directory::{self, Failure};
use crate::directory_overrides;
use crate::hide_files;
use brisk_apache::glob;
use brisk_conf::{Context, Diag, Directive, Risk, value};
use brisk_http::Method;
use brisk_net::clock;
use brisk_net::sys::local_time;
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::flow::Flow;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::path;
use brisk_server::plan::{Declared, Handler, Plan};
use brisk_server::request::Request;
use brisk_server::text::Text;
use brisk_server::vars::{Template, builtin};

use page::{Page, Sorting};
use render::{Entry, Html, Kind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

pub static MODULE: Module = Module {
    // The last resort for a folder: an index file goes before it.
    name: "autoindex",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    ..Module::EMPTY
};

static ROWS: &[Row] = &[
    // Off: names alone tell much (backups, versions), so showing them takes a word of the configuration.
    directive("autoindex")
        .doc("Whether directories without an index file are listed. Names that begin with a dot are left out.")
        .in_(Context::HSL)
        .takes_flag()
        .default("off")
        .risk(Risk::Security)
        .example("autoindex on;")
        .sets(|cx, on| cx.conf::<Conf>().on = on),
    directive("autoindex_format")
        .doc("The form of a listing: html (nginx's), page (for people: sorting, search, dark mode, small screens; needs nothing from elsewhere), xml, json, or jsonp with the function's name in the argument callback.")
        .in_(Context::HSL)
        .takes_one_of(&FORMATS)
        .default("html")
        .example("autoindex_format json;")
        .set(format),
    directive("autoindex_localtime")
        .doc("Whether times of an HTML listing are in the local zone instead of UTC.")
        .in_(Context::HSL)
        .takes_flag()
        .default("off")
        .example("autoindex_localtime on;")
        .sets(|cx, on| cx.conf::<Conf>().local_time = on),
    // For HTML alone: programs that read XML and JSON want bytes.
    directive("autoindex_exact_size")
        .doc("Whether sizes of an HTML listing are in bytes; off rounds them to K, M and G.")
        .in_(Context::HSL)
        .takes_flag()
        .default("on")
        .example("autoindex_exact_size off;")
        .sets(|cx, on| cx.conf::<Conf>().exact_size = on),
];

/// `autoindex_format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Format {
    #[default]
    Html,
    Json,
    Jsonp,
    Page,
    Xml,
}

#[derive(Clone, Default)]
struct Conf {
    on: bool,
    format: Format,
    local_time: bool,
    exact_size: bool,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

/// The words of `autoindex_format`.
const FORMATS: [(&str, Format); 5] = [
    ("html", Format::Html),
    ("json", Format::Json),
    ("jsonp", Format::Jsonp),
    ("page", Format::Page),
    ("xml", Format::Xml),
];

fn format(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    cx.conf::<Conf>().format = value::choice(d.arg(0), &FORMATS)?;
    Ok(())
}

/// Whether folders of the present block are listed.
pub fn is_on(cx: &Cx<'_, '_>) -> bool {
    cx.conf_of::<Conf>().on
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf: &Conf = cx.conf_of();
    // Files of folders may ask for listings; whether there is one is theirs to say.
    // (The files are read when a request comes; the plan is made before.)
    if conf.on || directory_overrides::is_apache(cx) {
        // Names are cut by characters only if the page will be declared as UTF-8.
        let charset = charset::of_type(cx, b"text/html");
        // The rule that refuses files also keeps their names out of listings.
        let hidden = hide_files::filter(cx);
        // Behind `index` (20) and before files (60).
        plan.add_content(30, Arc::new(Autoindex { conf: conf.clone(), charset, hidden }));
    }
}

struct Autoindex {
    conf: Conf,
    /// The charset that an HTML listing will have, if any.
    charset: Option<Template>,
    hidden: hide_files::Filter,
}

/// Kept in [`State::visit`](brisk_server::request::State::visit): names with wildcards that are not to be listed.
#[derive(Clone)]
pub struct LeftOut(pub Arc<[Vec<u8>]>);

impl Default for LeftOut {
    fn default() -> LeftOut {
        LeftOut(Arc::new([]))
    }
}

impl LeftOut {
    fn has(&self, name: &[u8]) -> bool {
        self.0.iter().any(|pattern| glob::matches(pattern, name, glob::Options::default()))
    }
}

/// What is to be made of a directory.
enum Output {
    Html(Html),
    Page(Page),
    Xml,
    Json { callback: Option<Vec<u8>> },
}

impl Handler for Autoindex {
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn handle(&self, r: &mut Request) -> Flow {
        // Names without a slash are files, or redirects to the name with one: both are of those behind.
        if !r.route.uri.ends_with(b"/") || !matches!(r.route.method, Method::Get | Method::Head) {
            return Flow::Next;
        }
        // A name that cannot be a path, such as one with a zero byte, names nothing.
        let Some(mapped) = path::map(r, 0) else { return Flow::Status(404) };
        let path = directory::named_by(mapped.path());
        let output = match self.output(r) {
            Ok(output) => output,
            Err(status) => return Flow::Status(status),
        };
        // The job runs on another thread: it takes what it needs along.
        let uri = r.route.uri.clone();
        let hidden = self.hidden;
        let left_out = r.state.visit.get::<LeftOut>().cloned().unwrap_or_default();
        Flow::Wait(Box::new(move |r| {
            Box::pin(async move {
                let media = output.media_type();
                let is_page = matches!(output, Output::Page(_));
                let job = move |path: &Path| {
                    let mut listing = list(path, |name| hidden.hides(&uri, name) || left_out.has(name))?;
                    // Also on the pool: a folder of a hundred thousand names is megabytes of text.
                    listing.body = output.render(&uri, &listing);
                    Ok(listing)
                };
                match directory::on_pool(path, job).await {
                    Ok(listing) => {
                        // After the listing, in the request's own thread: the pool has no request to name in
                        // the log.
                        listing.denied.iter().for_each(|failure| {
                            failure.report(r);
                        });
                        if is_page {
                            page_headers(r);
                        }
                        respond(r, media, listing.body)
                    }
                    Err(failure) => Flow::Status(failure.report(r)),
                }
            })
        }))
    }
}

impl Autoindex {
    fn output(&self, r: &Request) -> Result<Output, u16> {
        Ok(match self.conf.format {
            Format::Html => {
                // Only now, since a variable may give it.
                let charset = self.charset.as_ref().map(|template| template.eval(r));
                Output::Html(Html {
                    utf8: charset.is_some_and(|name| name.eq_ignore_ascii_case(b"utf-8")),
                    exact_size: self.conf.exact_size,
                    utc_offset: self.utc_offset(),
                })
            }
            Format::Page => {
                let sorting = Sorting::of(&r.route.args);
                Output::Page(Page { sorting, utc_offset: self.utc_offset() })
            }
            Format::Xml => Output::Xml,
            Format::Json => Output::Json { callback: None },
            Format::Jsonp => Output::Json { callback: callback(r)? },
        })
    }

    /// Seconds east of UTC for the times of a listing for people.
    fn utc_offset(&self) -> i64 {
        let minutes =
            if self.conf.local_time { local_time(clock::now().unix_secs).offset_minutes } else { 0 };
        i64::from(minutes) * 60
    }
}

/// The name of the function that a JSONP listing calls; an error is the status.
fn callback(r: &Request) -> Result<Option<Vec<u8>>, u16> {
    const LENGTH_MAX: usize = 128;
    let Some(name) = builtin::find_arg(&r.route.args, b"callback").filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let shown = String::from_utf8_lossy(name);
    if name.len() > LENGTH_MAX {
        // A name is code in the page that loads it: its length and alphabet are bounded.
        brisk_server::rlog!(r, Info, "client sent too long callback name: \"{shown}\"");
        return Err(400);
    }
    if !name.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.')) {
        brisk_server::rlog!(r, Info, "client sent invalid callback name: \"{shown}\"");
        return Err(400);
    }
    Ok(Some(name.to_vec()))
}

/// A directory's entries, and what they look like.
#[derive(Default)]
struct Listing {
    entries: Vec<Entry>,
    /// Entries that could not be looked at.
    denied: Vec<Failure>,
    /// The number of entries that `hide_files` leaves out.
    left_out: usize,
    body: Vec<u8>,
}

fn list(path: &Path, is_hidden: impl Fn(&[u8]) -> bool) -> Result<Listing, Failure> {
    let mut listing = Listing::default();
    directory::each(path, |entry| {
        // By its name alone: what is hidden is not even looked at.
        if is_hidden(entry.file_name().as_bytes()) {
            listing.left_out += 1;
            return Ok(());
        }
        let metadata = match directory::metadata(entry) {
            Ok(metadata) => metadata,
            // An entry that may not be looked at is left out; others are listed.
            Err(failure) if failure.is_denied() => {
                listing.denied.push(failure);
                return Ok(());
            }
            Err(failure) => return Err(failure),
        };
        let kind = match () {
            () if metadata.is_dir() => Kind::Directory,
            () if metadata.is_file() => Kind::File,
            // Sockets, pipes and devices: listed, with nothing that could be got.
            () => Kind::Other,
        };
        let name = entry.file_name().as_bytes().to_vec();
        listing.entries.push(Entry { name, kind, modified: metadata.mtime(), size: metadata.len() });
        Ok(())
    })?;
    // The order of a folder is its file system's: sorted, the same folder gives the same bytes.
    listing.entries.sort_unstable_by(Entry::order);
    Ok(listing)
}

impl Output {
    fn media_type(&self) -> &'static str {
        match self {
            Output::Html(_) | Output::Page(_) => "text/html",
            Output::Xml => "text/xml",
            Output::Json { callback: None } => "application/json",
            // It is run, not read.
            Output::Json { callback: Some(_) } => "application/javascript",
        }
    }

    fn render(&self, uri: &[u8], listing: &Listing) -> Vec<u8> {
        let entries = &listing.entries;
        match self {
            Output::Html(html) => html.render(uri, entries),
            Output::Page(page) => page.render(uri, entries, listing.left_out),
            Output::Xml => render::xml(entries),
            Output::Json { callback } => render::json(entries, callback.as_deref()),
        }
    }
}

/// What keeps a page of names that are anybody's from being more than that.
fn page_headers(r: &mut Request) {
    r.resp.set("Content-Security-Policy", page::POLICY.as_str().to_owned());
    // Names and titles could be made to look like another type.
    r.resp.set("X-Content-Type-Options", "nosniff");
    r.resp.set("Referrer-Policy", "same-origin");
    r.resp.charset = Some(Text::from("utf-8"));
}

fn respond(r: &mut Request, media: &'static str, body: Vec<u8>) -> Flow {
    r.resp.text(200, media, body);
    if media == "text/xml" {
        r.resp.charset = Some(Text::from("utf-8"));
    }
    Flow::Done
}

#[cfg(test)]
mod tests {
    use crate::check::messages_in_location;

    #[test]
    fn parameters_are_checked() {
        messages_in_location(
            "autoindex on; autoindex_format jsonp; autoindex_localtime on; autoindex_exact_size off;",
            &[],
        );
        messages_in_location("autoindex_format text;", &["invalid value \"text\""]);
    }
}
