//! What the server's own steps say of a request to whom asks why.

use super::{Kind, Note, Source, is_on, keep};
use crate::conf::ids::LocationId;
use crate::conf::snapshot::{Listen, Location, Snapshot};
use crate::core::http_conf::PageTarget;
use crate::limits::TRACED_LOCATIONS_MAX;
use crate::location::Written;
use crate::request::Request;

/// Keeps a note of a module, where somebody asks why. Callers ask [`may_debug`](crate::log::may_debug) before they make the text.
pub fn say(r: &Request, module: &'static str, kind: Kind, text: String, source: Source) {
    if is_on() {
        keep(Note { module, source, ..Note::new(&r.route, kind, text) });
    }
}

/// A request begins: which server it has, and why.
#[cold]
pub(crate) fn begun(r: &Request) {
    let Some(listen) = r.conn().listener.id.get().map(|id| r.snap().listen(id)) else { return };
    let name = String::from_utf8_lossy(&r.head.host).into_owned();
    let local = listen.local(|| r.conn().local());
    let names = local.map_or(&listen.names, |local| &local.names);
    let text = if names.is_empty() {
        "the only one here: names are not asked".into()
    } else if matches!(names.find(r, &r.head.host), Ok(Some(_))) {
        format!("its server_name has \"{name}\"")
    } else {
        format!("no server_name has \"{name}\", and it is the default server here")
    };
    say(
        r,
        "",
        Kind::Server,
        format!("{text} ({})", shown(listen, local.map(|local| &local.address))),
        Source::Unknown,
    );
}

fn shown(listen: &Listen, local: Option<&brisk_net::listen::Address>) -> String {
    local.unwrap_or(&listen.address).to_string()
}

/// A location was looked for: which one the request has, and why not the others.
#[cold]
pub(crate) fn located(r: &Request, outer: LocationId) {
    if !is_on() {
        return;
    }
    let snap = r.snap();
    let outer_location = snap.location(outer);
    let uri = String::from_utf8_lossy(&r.route.uri).into_owned();
    let mut said = 0;
    let how = among(r, snap, outer_location, &mut said);
    let text = match how {
        Some(how) if r.route.loc != outer => how,
        _ => format!("no location matches {uri}: the server itself serves it"),
    };
    say(r, "", Kind::Location, text, Source::Unknown);
}

/// Notes those of a block that do not serve the request. Gives why the one that does was chosen.
fn among(r: &Request, snap: &Snapshot, outer: &Location, said: &mut usize) -> Option<String> {
    let all = outer.tree.as_ref()?.written();
    let uri = &r.route.uri[..];
    let longest = all
        .iter()
        .filter(|(_, written)| written.is_prefix_of(uri))
        .max_by_key(|(_, written)| written.bytes());
    let facts = Facts {
        longest: longest.map(|(id, _)| *id),
        is_exact: all.iter().any(|(_, written)| written.is(uri)),
        stops: longest.is_some_and(|(_, written)| matches!(written, Written::Prefix { no_regex: true, .. })),
        regex: all.iter().find(|(_, written)| written.is_matched_by(uri)).map(|(id, _)| *id),
    };
    let mut how = None;
    for (id, written) in &all {
        let why = facts.why(*id, written, uri);
        if leads_to(snap, *id, r.route.loc) {
            let inner = among(r, snap, snap.location(*id), said);
            how = Some(inner.unwrap_or_else(|| format!("{} {why}", written.shown())));
        } else if *said < TRACED_LOCATIONS_MAX {
            *said += 1;
            let text = format!("{} {why}", written.shown());
            keep(Note { location: *id, ..Note::new(&r.route, Kind::Candidate, text) });
        }
    }
    how
}

/// Whether a location is another one, or has it inside.
fn leads_to(snap: &Snapshot, from: LocationId, to: LocationId) -> bool {
    let location = snap.location(from);
    from == to
        || location.core.limit_except.as_ref().is_some_and(|limit| limit.block == to)
        || location.tree.iter().flat_map(|tree| tree.written()).any(|(id, _)| leads_to(snap, id, to))
}

/// What the locations of one block say of a path.
struct Facts {
    /// The longest prefix.
    longest: Option<LocationId>,
    /// A location is the path itself.
    is_exact: bool,
    /// The longest prefix keeps regular expressions out.
    stops: bool,
    /// The first regular expression that matches.
    regex: Option<LocationId>,
}

impl Facts {
    fn why(&self, id: LocationId, written: &Written<'_>, uri: &[u8]) -> &'static str {
        match written {
            Written::Exact(_) if written.is(uri) => "is the path itself",
            Written::Prefix { .. } if !written.is_prefix_of(uri) => "does not match",
            Written::Regex(_) if !written.is_matched_by(uri) => "does not match",
            Written::Exact(_) => "does not match",
            _ if self.is_exact => "matches, but another location is the path itself",
            Written::Prefix { .. } if self.longest != Some(id) => "matches, but a longer one does, too",
            Written::Prefix { no_regex: true, .. } => {
                "is the longest that matches, and ^~ keeps regular expressions out"
            }
            Written::Prefix { .. } if self.regex.is_some() => {
                "is the longest that matches, but regular expressions go before it"
            }
            Written::Prefix { .. } => "is the longest that matches",
            Written::Regex(_) if self.stops => {
                "matches, but ^~ of the longest prefix keeps regular expressions out"
            }
            Written::Regex(_) if self.regex != Some(id) => {
                "matches, but an earlier regular expression does, too"
            }
            Written::Regex(_) => "is the first regular expression that matches",
        }
    }
}

/// The core itself decides.
#[cold]
pub(crate) fn decided(r: &Request, text: &str) {
    say(r, "", Kind::Rule { applies: true }, text.into(), Source::Unknown);
}

/// A request ends with this status, unless an error page takes its place.
#[cold]
pub(crate) fn refused(r: &Request, status: u16) {
    say(r, "", Kind::Refused(status), String::new(), Source::Unknown);
}

/// `error_page` has a page for this status.
#[cold]
pub(crate) fn page(r: &Request, status: u16, target: &PageTarget) {
    let text = match target {
        PageTarget::Named(name) => format!("location {}", String::from_utf8_lossy(name)),
        PageTarget::Uri(template) => String::from_utf8_lossy(&template.eval(r)).into_owned(),
    };
    say(r, "", Kind::Page, format!("for {status}: {text}"), Source::Nth(&["error_page"], usize::MAX));
}
