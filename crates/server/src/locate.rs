//! Finding the location for a URI, as nginx does: the longest prefix, then regular expressions in their order,
//! each level looking into its inner locations.

use crate::body;
use crate::conf::ids::LocationId;
use crate::conf::snapshot::{Location, Snapshot};
use crate::flow::Flow;
use crate::location::Step;
use crate::regex::MatchError;
use crate::request::Request;
use crate::request::route::{Cursor, Phase};

/// What was found for a URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// This location applies.
    Location(LocationId),
    /// The URI lacks the slash of this location.
    Slash(LocationId),
    /// No location matches: the server block itself.
    Nothing,
}

/// Finds the location of the request's URI inside `outer`.
pub fn find(snap: &Snapshot, r: &Request, outer: &Location) -> Result<Found, MatchError> {
    search(snap, r, outer).map(|(found, _)| found)
}

/// Goes on in the server's own block, as if no location matched the URI: for requests to which the location that was found must not apply. A
/// handler of that location returns the result.
pub fn leave(r: &mut Request) -> Flow {
    r.leave_late();
    r.route.loc = r.snap().server(r.route.server).root;
    crate::dlog!(r, "using the configuration of the server");
    r.state.visit.clear();
    // The server has a limit of its own, and its rewrites have run.
    r.route.cursor = Cursor::at(Phase::PreAccess);
    body::check_length(r).err().unwrap_or(Flow::Again)
}

/// The location and whether the search ends there: exact matches and regular expressions are final, prefixes can
/// still lose to a regular expression further out.
/// nginx's rule: a regular expression beats a prefix unless the longest prefix says `^~`. Within the location
/// that was found the same is done again.
fn search(snap: &Snapshot, r: &Request, outer: &Location) -> Result<(Found, bool), MatchError> {
    let Some(tree) = &outer.tree else { return Ok((Found::Nothing, false)) };
    let (mut best, mut no_regex) = (Found::Nothing, false);
    match tree.step(&r.route.uri) {
        Step::Exact(id) => {
            crate::dlog!(r, "test location: = \"{}\"", String::from_utf8_lossy(&snap.location(id).name));
            return Ok((Found::Location(id), true));
        }
        // Only where no location has the path itself.
        Step::Slash(id) => return Ok((Found::Slash(id), true)),
        Step::Prefix { id, no_regex: stop } => {
            no_regex = stop;
            crate::dlog!(r, "test location: \"{}\"", String::from_utf8_lossy(&snap.location(id).name));
            match search(snap, r, snap.location(id))? {
                (inner, true) => return Ok((inner, true)),
                // The location has no inner one that matches: it is the one.
                (Found::Nothing, false) => best = Found::Location(id),
                (inner, false) => best = inner,
            }
        }
        Step::None => {}
    }
    // In the order of the text; the first one that matches decides.
    if !no_regex {
        let candidates = tree.candidates(&r.route.uri);
        for (index, (regex, id)) in tree.regexes.iter().enumerate() {
            crate::dlog!(r, "test location: ~ \"{}\"", regex.pattern());
            // The set says which cannot match. What may match is tried by its own expression, which also
            // captures.
            if candidates.as_ref().is_none_or(|c| c.has(index)) && regex.exec(r, &r.route.uri)? {
                let (inner, _) = search(snap, r, snap.location(*id))?;
                return Ok((if inner == Found::Nothing { Found::Location(*id) } else { inner }, true));
            }
        }
    }
    Ok((best, false))
}
