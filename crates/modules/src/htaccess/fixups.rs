//! What happens between access and content: rewriting, redirects, variables, handlers, and which file stands for a folder.

use super::access::Access;
use super::before::{self, Step};
use super::carried::{Carried, Present};
use super::facts::{Seen, is_rewriting_over, is_subrequest, settled, stands_in};
use super::handlers::{self, Rules};
use super::local::Local;
use super::negotiate;
use super::redirects::{ask_back_end, lead_to, leads_to_back_end, redirect, ruled, ruled_away};
use super::secure;
use super::spelling;
use super::trail::{self, Trail};
use crate::autoindex::LeftOut;
use crate::directory_overrides::files::{refuse, shown};
use crate::index::{Replaced, StandIn};
use crate::static_files;
use brisk_apache::headers::{self, Table};
use brisk_apache::options::Options;
use brisk_apache::overrides::PathInfo;
use brisk_apache::rewrite::{Action, Directory, Effects, Target, per_directory};
use brisk_http::uri::resolved;
use brisk_net::file::{Kind, Symlinks};
use brisk_server::environment::Environment;
use brisk_server::files::Found;
use brisk_server::flow::Flow;
use brisk_server::path;
use brisk_server::plan::{Declared, Handler};
use brisk_server::request::Request;
use brisk_server::rlog;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// The first step before content.
pub struct Fixups(pub Arc<Local>);

impl Handler for Fixups {
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn handle(&self, r: &mut Request) -> Flow {
        // Judged anew it is here, behind all others who were asked about it.
        if !self.0.asks_back_end(r) && !Trail::was_judged(r) {
            match Access(self.0.clone()).run(r, Step::Access) {
                Flow::Next => {}
                flow => return flow,
            }
        }
        before::begin(r, Step::Fixups);
        let Some(present) = Present::of(r) else { return self.without_files(r) };
        match self.steps(r, &present) {
            Ok(()) => Flow::Next,
            Err(flow) => flow,
        }
    }
}

/// Behind `try_files`, whose file has a handler of its own; a script is run only if its folders are still as they were judged.
pub struct Again(pub Fixups);

impl Handler for Again {
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn handle(&self, r: &mut Request) -> Flow {
        let Some(trail) = Trail::of(r) else { return Flow::Next };
        let local = &self.0.0;
        if local.runs_scripts && !trail.holds() {
            let place = trail.place.clone();
            return trail::changed_before_script(r, &place);
        }
        if !trail.is_second {
            return Flow::Next;
        }
        before::begin(r, Step::FixupsBehind);
        match Present::of(r) {
            Some(present) => handlers::choose(r, local, &present, Rules::default()),
            None => self.0.without_files(r),
        }
    }
}

impl Fixups {
    /// Where no file holds, a script's source is not served either.
    fn without_files(&self, r: &mut Request) -> Flow {
        let is_plain = r.snap().location(r.route.loc).plan.content.is_none();
        // By the file's own name: an alias may have another.
        match Trail::of(r).map(|trail| &trail.place) {
            Some(place)
                if is_plain
                    && place.kind == Some(Kind::File)
                    && place.path_info.is_empty()
                    && handlers::is_script(place.name()) =>
            {
                handlers::no_source(r, &place.file)
            }
            _ => Flow::Next,
        }
    }

    fn steps(&self, r: &mut Request, present: &Present) -> Result<(), Flow> {
        allow_method(r, present)?;
        // Debian's Apache negotiates before it applies rules.
        if present.place.kind.is_none() && present.place.path_info.is_empty() && !self.0.asks_back_end(r) {
            negotiate::look(r, present, present.place.name())?;
        }
        let is_stand_in = stands_in(r);
        // The rules that have led to a back end (flag P) hold in the location that asks it, too, and are not applied again.
        let (action, effects) = if is_rewriting_over(r) || self.0.is_asked_by_rule(r) {
            (Action::Continue { query: query_of(r) }, Effects::default())
        } else {
            rewrite(r, present, is_subrequest(r))?
        };
        // Variables of rules are there for what follows.
        let carried = Carried::of(r);
        carried.borrow_mut().say().keep(effects, is_stand_in);
        match action {
            Action::Status(status) => return Err(ruled(r, status)),
            Action::Redirect { status, location } => return Err(ruled_away(r, status, location)),
            Action::Continue { ref query } => {
                let query = query.clone().unwrap_or_default();
                if query != r.route.args {
                    r.route.args = query;
                    r.route.unparsed_uri_valid = false;
                }
            }
            _ => {}
        }
        redirect(r, &present.effective.settings.redirects, &present.place)?;
        carried.borrow_mut().say().change(present.effective.settings.env.iter().cloned());
        secure::set_variables(r);
        match action {
            // mod_dir looks for a folder's slash behind the rules, and before what they lead to; what they made of the query stays.
            Action::Internal { query, .. } if lacks_slash(r, present) => {
                r.route.args = query.unwrap_or_default();
                r.route.unparsed_uri_valid = false;
            }
            Action::Internal { uri, query } => return Err(internal(r, &uri, query)),
            Action::Proxy { url, query, is_raw } => {
                return Err(ask_back_end(r, self.0.ground.site.as_deref(), url, query, is_raw));
            }
            Action::Path { .. } => return Err(Flow::Status(500)),
            _ => {}
        }
        if !present.place.path_info.is_empty()
            && present.place.kind == Some(Kind::File)
            && present.effective.settings.path_info == Some(PathInfo::Refused)
        {
            return Err(Flow::Status(404));
        }
        environment(r, present)?;
        if self.0.asks_back_end(r) {
            return Ok(());
        }
        if self.0.ground.site.is_some() && r.method_name() == b"OPTIONS" {
            return Err(options(r, present));
        }
        stand_in(r, present, &self.0)?;
        let (content_type, handler) = {
            let carried = carried.borrow();
            (carried.said.content_type.clone(), carried.said.handler.clone())
        };
        let rules = Rules { content_type: content_type.as_deref(), handler: handler.as_deref() };
        match handlers::choose(r, &self.0, present, rules) {
            Flow::Next => Ok(()),
            flow => Err(flow),
        }
    }
}

/// The answer to OPTIONS for a file or folder: the methods that it has (RFC 9110 §9.3.7).
fn options(r: &mut Request, present: &Present) -> Flow {
    if present.place.kind.is_none() {
        return Flow::Status(404);
    }
    r.resp.status = 200;
    r.resp.content_length = Some(0);
    r.resp.add("Allow", "GET,POST,OPTIONS,HEAD");
    Flow::Done
}

/// `AllowMethods`.
fn allow_method(r: &mut Request, present: &Present) -> Result<(), Flow> {
    let Some(allowed) = present.effective.settings.allowed_methods.as_ref() else { return Ok(()) };
    let method = if r.method_name() == b"HEAD" { &b"GET"[..] } else { r.method_name() };
    if allowed.is_empty() || allowed.iter().any(|name| name == method) {
        return Ok(());
    }
    let mut names: Vec<&[u8]> = allowed.iter().map(Vec::as_slice).collect();
    if names.contains(&&b"GET"[..]) {
        names.push(b"HEAD");
    }
    let names = names.join(&b", "[..]);
    r.resp.add("Allow", names);
    Err(Flow::Status(405))
}

/// Whether a folder is asked for without its slash, which the client is to be told.
fn lacks_slash(r: &Request, present: &Present) -> bool {
    present.place.kind == Some(Kind::Directory)
        && !Carried::asked(r).ends_with(b"/")
        && present.effective.settings.directory_slash != Some(false)
}

fn query_of(r: &Request) -> Option<Vec<u8>> {
    (!r.route.args.is_empty()).then(|| r.route.args.clone())
}

/// Applies the rules of the folder.
fn rewrite(r: &mut Request, present: &Present, is_subrequest: bool) -> Result<(Action, Effects), Flow> {
    let query = query_of(r);
    let carried = Carried::of(r);
    let effective = &present.effective;
    let rewriting = &effective.settings.rewriting;
    if rewriting.is_on != Some(true) || rewriting.rules.is_empty() {
        return Ok((Action::Continue { query }, Effects::default()));
    }
    let options = rewriting.options.unwrap_or_default();
    let directory = Directory {
        folder: &effective.rewrite_folder,
        base: rewriting.base.as_deref(),
        allows_no_slash: options.allows_no_slash,
        ignores_context: options.ignores_context,
        follows_links: effective.follows_links(),
    };
    settled(r, |r, looked| {
        let carried = carried.borrow();
        let place = &present.place;
        let seen = Seen { r, place, carried: &carried, changes: &[], looked, group_file: None };
        let target = Target {
            path: place.file.clone(),
            query: query.clone(),
            path_info: place.path_info.clone(),
            is_subrequest,
            is_proxied: false,
        };
        per_directory(&rewriting.rules, &directory, target, &seen)
    })
}

/// Begins the request anew with another URI.
fn internal(r: &mut Request, uri: &[u8], query: Option<Vec<u8>>) -> Flow {
    let query = query.unwrap_or_default();
    let asked = Carried::asked(r);
    {
        let carried = Carried::of(r);
        let mut carried = carried.borrow_mut();
        if let Some(look_up) = &mut carried.look_up {
            look_up.is_led_on = true;
            return Flow::Done;
        }
        carried.say().redirected(&asked, &query, 200);
    }
    StandIn::forget(r);
    lead_to(r, uri, Some(query))
}

/// What applications are told.
fn environment(r: &mut Request, present: &Present) -> Result<(), Flow> {
    let settings = &present.effective.settings;
    let carried = Carried::of(r);
    let mut fields = if settings.headers.iter().any(|line| line.table == Table::Request) {
        settled(r, |r, looked| {
            let carried = carried.borrow();
            let place = &present.place;
            let seen = Seen { r, place, carried: &carried, changes: &[], looked, group_file: None };
            let sent = seen.fields();
            let mut fields = sent.clone();
            for is_early in [true, false] {
                let request = || seen.fields();
                headers::apply(&settings.headers, Table::Request, is_early, &mut fields, &request, &seen)?;
            }
            Ok(changed(&sent, &fields))
        })?
    } else {
        Vec::new()
    };
    if settings.passes_authorization == Some(false) {
        fields.retain(|(name, _)| !name.eq_ignore_ascii_case(b"Authorization"));
        fields.push((b"Authorization".to_vec(), None));
    }
    let php = |setting: &brisk_apache::overrides::PhpSetting| {
        // In quotation marks, which the value cannot have: without them `(`, `&` and their kin would be php.ini's operators.
        [setting.name.as_slice(), b"='", &setting.value, b"'"].concat()
    };
    let php_values: Vec<_> = settings.php.iter().map(php).collect();
    let variables = carried.borrow().said.env.clone();
    if !(variables.is_empty() && php_values.is_empty() && fields.is_empty()) {
        *r.state.visit.get_mut::<Environment>() = Environment { variables, php_values, fields };
    }
    Ok(())
}

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// Which fields differ: with all their values joined, or gone.
fn changed(before: &Fields, after: &Fields) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let values = |fields: &Fields, name: &[u8]| -> Option<Vec<u8>> {
        let of_name = fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let values: Vec<&[u8]> = of_name.map(|(_, value)| value.as_slice()).collect();
        (!values.is_empty()).then(|| values.join(&b", "[..]))
    };
    let mut out: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
    for (name, _) in before.iter().chain(after) {
        let new = values(after, name);
        if values(before, name) != new && !out.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
            out.push((name.clone(), new));
        }
    }
    out
}

/// What stands for a folder, and for what is not there.
fn stand_in(r: &mut Request, present: &Present, local: &Arc<Local>) -> Result<(), Flow> {
    let settings = &present.effective.settings;
    let asked = Carried::asked(r);
    let has_slash = asked.ends_with(b"/");
    match present.place.kind {
        None => {
            fall_back(r, present)?;
            spelling::look(r, present)
        }
        Some(Kind::Directory) if !has_slash && settings.directory_slash == Some(false) => {
            Err(refuse(r, &present.place.file, "is a folder, and DirectorySlash is off", 403))
        }
        // Rules of the server have led to it: the client is to know the path that it has asked for.
        Some(Kind::Directory) if !has_slash && asked != r.route.uri => {
            Err(static_files::add_slash(r, &asked))
        }
        Some(Kind::Directory) if has_slash && !r.route.uri.ends_with(b"/") => {
            Err(refuse(r, &present.place.file, "is a folder to which a rule has led without its slash", 403))
        }
        Some(Kind::Directory) if has_slash => {
            let Some(names) = &settings.directory_index else {
                // The location's `index` finds it.
                StandIn::expect(r);
                return Ok(());
            };
            for name in names {
                index(r, present, local, name)?;
            }
            r.state.visit.get_mut::<Replaced>();
            no_index(r, present)
        }
        Some(_) => Ok(()),
    }
}

/// Goes on with an index file if it is there.
fn index(r: &mut Request, present: &Present, local: &Arc<Local>, name: &[u8]) -> Result<(), Flow> {
    if name.starts_with(b"/") {
        return Err(stood_for_by(r, name));
    }
    let uri = [Carried::asked(r).as_slice(), name].concat();
    if resolved(&uri).is_err() {
        return Err(lead_to(r, &uri, None));
    }
    let file = [present.place.file.as_slice(), name].concat();
    if file.contains(&0) {
        return Ok(());
    }
    if local.ground.site.is_some() && leads_to_back_end(r, &uri) {
        return Err(stood_for_by(r, &uri));
    }
    match r.stat_file(Path::new(OsStr::from_bytes(&file)), Symlinks::Follow)? {
        // Apache asks for it by a subrequest, for which this holds, too.
        Found::Missing(_) => {
            if !name.contains(&b'/') {
                negotiate::look(r, present, name)?;
            }
            fall_back(r, present)
        }
        found if found.info().is_some_and(|info| info.kind == Kind::File) => Err(stood_for_by(r, &uri)),
        _ => Ok(()),
    }
}

/// Goes on with a file that stands for the one that was asked for.
fn stood_for_by(r: &Request, uri: &[u8]) -> Flow {
    StandIn::is_at(r, uri);
    lead_to(r, uri, None)
}

/// A folder has no index file.
fn no_index(r: &mut Request, present: &Present) -> Result<(), Flow> {
    fall_back(r, present)?;
    let ignored = &present.effective.settings.index_ignore;
    if !ignored.is_empty() {
        r.state.visit.get_mut::<LeftOut>().0 = ignored.clone().into();
    }
    list(r, &present.place.file, present.effective.options)?;
    index_rules(r, present)
}

/// Applies the rules to the index files that a folder does not have. Apache asks for each by a subrequest, and lists nothing if one is
/// refused or leads away.
fn index_rules(r: &mut Request, present: &Present) -> Result<(), Flow> {
    let settings = &present.effective.settings;
    if settings.rewriting.is_on != Some(true) || present.place.kind != Some(Kind::Directory) {
        return Ok(());
    }
    let usual = [b"index.html".to_vec()];
    let names = settings.directory_index.as_deref().unwrap_or(&usual);
    for name in names.iter().filter(|name| !name.starts_with(b"/")) {
        let mut place = present.place.as_ref().clone();
        place.file.extend_from_slice(name);
        place.kind = None;
        let missing = Present { place: Rc::new(place), effective: present.effective.clone() };
        let uri_len = r.route.uri.len();
        let carried = Carried::of(r);
        let said = carried.borrow().said.clone();
        r.route.uri.extend_from_slice(name);
        {
            let mut carried = carried.borrow_mut();
            let said = carried.say();
            said.asked.iter_mut().for_each(|asked| asked.extend_from_slice(name));
        }
        let answer = rewrite(r, &missing, true);
        r.route.uri.truncate(uri_len);
        carried.borrow_mut().said = said;
        match answer?.0 {
            // What is not there is not there in the listing either.
            Action::Status(404) => {}
            Action::Status(status) => return Err(ruled(r, status)),
            Action::Redirect { status, location } => return Err(ruled_away(r, status, location)),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a folder may be listed.
fn list(r: &Request, folder: &[u8], options: Options) -> Result<(), Flow> {
    if options.has(Options::INDEXES) {
        return Ok(());
    }
    rlog!(r, Error, "directory index of \"{}\" is forbidden", shown(folder));
    Err(Flow::Status(403))
}

/// `FallbackResource`.
fn fall_back(r: &mut Request, present: &Present) -> Result<(), Flow> {
    match &present.effective.settings.fallback_resource {
        Some(resource) if !resource.is_empty() && *resource != Carried::asked(r) => {
            Err(stood_for_by(r, resource))
        }
        _ => Ok(()),
    }
}

/// Stands between the location's index files and the listing: whether there may be one is for `Options` to say.
pub struct Folder(pub Arc<Local>);

impl Handler for Folder {
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn handle(&self, r: &mut Request) -> Flow {
        if !r.route.uri.ends_with(b"/") {
            return Flow::Next;
        }
        let listed = match (Present::of(r), path::map(r, 0)) {
            (Some(present), _) => no_index(r, &present),
            // Without any file the location decides.
            (None, Some(mapped)) => list(r, &mapped.bytes, self.0.ground.options),
            (None, None) => Err(Flow::Status(404)),
        };
        match listed {
            Ok(()) => Flow::Next,
            Err(flow) => flow,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_differ() {
        let fields = |text: &str| -> Fields {
            text.split('|').filter_map(|f| f.split_once('=')).map(|(n, v)| (n.into(), v.into())).collect()
        };
        let check = |before: &str, after: &str, wanted: &[(&str, Option<&str>)]| {
            let got = changed(&fields(before), &fields(after));
            let wanted: Vec<_> = wanted.iter().map(|(n, v)| ((*n).into(), v.map(Into::into))).collect();
            assert_eq!(got, wanted, "{before} {after}");
        };
        check("A=1|B=2", "A=1|B=2", &[]);
        check("A=1|B=2", "B=2", &[("A", None)]);
        check("A=1|A=2", "a=3", &[("A", Some("3"))]);
        check("", "C=1|C=2", &[("C", Some("1, 2"))]);
    }
}
