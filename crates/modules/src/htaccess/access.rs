//! Who may come in, by the files of the folders that lead to what a request is for.

use super::before::{self, Step};
use super::carried::{Carried, Present};
use super::facts::{Looked, OWNER, Seen, settled};
use super::local::{FILE, Local};
use super::login;
use super::pattern::Compiled;
use super::place::Place;
use super::plan::{DirPlan, Effective, Held, Outcome};
use super::site::Site;
use super::trail::{Judged, Trail};
use crate::directory_overrides::files::{Settled, Trouble, again, open, refuse, settle, shown};
use crate::limits::{
    HTACCESS_COMPILED_MAX, OVERRIDES_EMPTY_QUIET_MS_MIN, OVERRIDES_OPEN_SECS_MAX, OVERRIDES_QUIET_MS_MIN,
};
use brisk_apache::decision::{Decision, after_login, before_login};
use brisk_apache::overrides::Reads;
use brisk_apache::{EnvChange, Facts as _, Stop};
use brisk_http::framing::BodyFraming;
use brisk_http::uri::resolved;
use brisk_net::blocking::QueueFull;
use brisk_net::file::{Info, Symlinks};
use brisk_net::watch::Writing;
use brisk_server::conf::Text;
use brisk_server::files::Found;
use brisk_server::flow::Flow;
use brisk_server::locate;
use brisk_server::log::may_debug;
use brisk_server::path::{self, Mapped};
use brisk_server::plan::{Declared, Handler};
use brisk_server::purity::Dependencies;
use brisk_server::request::{Purpose, Request};
use brisk_server::rlog;
use brisk_server::trace;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// A line of `SetEnvIf`.
pub type SetEnvIf = brisk_apache::setenv::Line<Compiled>;

/// The first step of a location.
#[derive(Clone)]
pub struct Access(pub Arc<Local>);

impl Handler for Access {
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn handle(&self, r: &mut Request) -> Flow {
        self.run(r, Step::Access)
    }
}

/// Judges once more what `try_files` has put in the place of the URI, behind it and before there is content.
pub struct Again(pub Access);

impl Handler for Again {
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn handle(&self, r: &mut Request) -> Flow {
        // A judgement that has waited is begun anew.
        let is_judged = Trail::of(r).is_none_or(|trail| trail.uri == r.route.uri && trail.is_judged.get());
        if is_judged { Flow::Next } else { self.0.run(r, Step::AccessBehind) }
    }
}

impl Access {
    /// Judges as this step. What it waits for has the handler that called it asked again, whichever that is.
    pub fn run(&self, r: &mut Request, step: Step) -> Flow {
        before::begin(r, step);
        Carried::of(r).borrow_mut().judged_by = None;
        // A login counts where it was asked for: another folder may have other users. (A rule with the flag P has the same request go on.)
        if !self.0.is_asked_by_rule(r) {
            Carried::of(r).borrow_mut().log_out();
        }
        match self.judge(r) {
            Ok(()) => Flow::Next,
            Err(Trouble::Flow(flow)) => flow,
            Err(Trouble::BeingWritten(rest)) => again(rest),
        }
    }

    fn judge(&self, r: &mut Request) -> Result<(), Trouble> {
        let site = self.0.ground.site.as_deref();
        refuse_encoded_slashes(r, site)?;
        if let Some(maps) = site.map(Site::maps) {
            Carried::of(r).borrow_mut().maps = Some(maps.clone());
        }
        if self.is_led_past(r) {
            return Err(locate::leave(r).into());
        }
        if self.0.asks_back_end(r) {
            return self.judge_for_back_end(r);
        }
        let (mapped, place) = self.place(r)?;
        let symlinks = path::symlinks(r, &mapped);
        let (mut texts, mut infos, mut identities) = (Vec::new(), Vec::new(), Vec::new());
        texts.extend(site.map(Site::first));
        let mut reads = Reads { by_class: site.is_none(), by_name: false };
        for &end in &place.folders {
            let mut file = place.folder(end);
            if let Some(site) = site {
                reads = sections(r, site, &file, reads, &mut texts)?;
            }
            if !reads.is_any() {
                identities.push(Judged::NotAsked);
                continue;
            }
            file.extend_from_slice(FILE);
            let opened = open(r, symlinks, &file)?;
            let identity = opened.as_ref().map(|opened| (opened.info.device, opened.info.inode));
            identities.push(identity.map_or(Judged::Absent, Judged::Found));
            if let Some(opened) = opened {
                let Ok(name) = std::str::from_utf8(&file) else {
                    // Two folders could have one name.
                    return Err(refuse(r, &file, "stands in a folder whose name is no UTF-8", 500).into());
                };
                texts.push(Text { name: name.into(), text: opened.text });
                infos.push((file, opened.info));
            }
        }
        if may_debug() {
            tell_files(r, &texts);
        }
        let is_second = Trail::of(r).is_some_and(|trail| trail.is_second || trail.uri != r.route.uri);
        let trail = Trail {
            uri: r.route.uri.clone(),
            place: place.clone(),
            files: identities.into(),
            is_second,
            is_judged: false.into(),
            links: Vec::new(),
        };
        trail.keep(r);
        if texts.is_empty() {
            Present::forget(r);
            hide(r, &place)?;
            Trail::has_judged(r);
            return Ok(());
        }
        let (plan, before) = self.plans(r, symlinks, texts, &infos)?;
        let Some(before) = before else { return self.admitted(r, place, &plan) };
        // Half of a text may say anything: it can close, and nothing else.
        let carried = Carried::of(r);
        let said = carried.borrow().said.clone();
        let passed = pass(r, place.clone(), &plan);
        carried.borrow_mut().said = said;
        passed?;
        r.depends_on(Dependencies::STATE);
        self.admitted(r, place, &before)
    }

    /// Whether a rule of the server has led the request to a file below `DocumentRoot`, and the location is for something else. As in Apache,
    /// `ProxyPass` and `Alias` are not asked then: sections are about the path that the client has asked for, and those that guard the
    /// location's path would not be met.
    fn is_led_past(&self, r: &Request) -> bool {
        let server = r.snap().server(r.route.server);
        // A handler, a rule with the flag P or a page of an error leads to a named location, and no path does.
        let is_found_by_path =
            r.route.loc != server.root && !server.named.values().any(|&id| id == r.route.loc);
        let is_elsewhere = self.0.asks_back_end(r) || r.core().root.alias.is_some();
        is_elsewhere && is_found_by_path && Carried::of(r).borrow().said.asked.is_some()
    }

    /// Where the request leads: by the location, or to the script that another location has handed over.
    fn place(&self, r: &mut Request) -> Result<(Mapped, Rc<Place>), Flow> {
        if self.0.runs_scripts {
            let carried = Carried::of(r);
            let carried = carried.borrow();
            let handed = carried.said.handed_for(&r.route.uri);
            if let Some(place) = handed.and_then(|handed| handed.place.as_ref()) {
                let bytes = [place.file.as_slice(), &place.path_info].concat();
                return Ok((Mapped { bytes, root_len: place.root_len }, place.clone()));
            }
        }
        let mapped = path::map(r, 0).ok_or(Flow::Status(404))?;
        must_lead_to_file(r, Some(&mapped.bytes))?;
        let place = Rc::new(Place::find(r, &mapped, self.0.ground.site.is_some())?);
        Ok((mapped, place))
    }

    fn admitted(&self, r: &mut Request, place: Rc<Place>, plan: &DirPlan) -> Result<(), Trouble> {
        pass(r, place, plan)?;
        Trail::has_judged(r);
        Ok(())
    }

    /// What a back end answers is no file of a folder: as in Apache, sections of paths and conditions are for it, and those of files and
    /// folders are not.
    fn judge_for_back_end(&self, r: &mut Request) -> Result<(), Trouble> {
        must_lead_to_file(r, None)?;
        let Some(site) = self.0.ground.site.as_deref() else { return Ok(()) };
        let (plan, _) = self.plans(r, Symlinks::Follow, vec![site.first()], &[])?;
        let present = enter(r, Rc::new(Place::nowhere(r)), &plan, false)?;
        present.clone().keep(r);
        Ok(admit(r, &present)?)
    }

    /// The plan that files come to; a second one that holds, too, while a file is being written.
    fn plans(
        &self,
        r: &mut Request,
        symlinks: Symlinks,
        texts: Vec<Text>,
        infos: &[(Vec<u8>, Info)],
    ) -> Result<(Arc<DirPlan>, Option<Arc<DirPlan>>), Trouble> {
        let location = r.snap().at_start(r.route.loc);
        let store = &self.0.htaccess.store;
        let part = match store.find(location, &texts) {
            Some(Held::Whole(outcome)) => return Ok((opened(r, outcome)?, None)),
            Some(Held::Part { now, before }) => Some((now, before)),
            None => None,
        };
        // What is not known to be whole yet.
        let mut being_written = None;
        for (file, info) in infos {
            let writing = r.thread.files.writing(Path::new(OsStr::from_bytes(file)));
            let is_blank = info.size == 0 && writing != Writing::Closed;
            let quiet_ms = if is_blank { OVERRIDES_EMPTY_QUIET_MS_MIN } else { OVERRIDES_QUIET_MS_MIN };
            let settled = settle(r, symlinks, file, info, quiet_ms)?;
            let age_secs = r.now().unix_secs - info.mtime;
            let is_open = writing == Writing::Open && age_secs < OVERRIDES_OPEN_SECS_MAX;
            // What is replaced all the time is whole each time.
            let is_restless = settled == Settled::NeverLeftAlone && writing != Writing::Renamed;
            if is_open || is_restless {
                being_written = Some(file);
            }
        }
        match (part, being_written) {
            (None, being_written) => {
                let (this, is_part) = (self.clone(), being_written.is_some());
                Err(Flow::Wait(Box::new(move |r| {
                    Box::pin(async move { this.make(r, texts, is_part).await })
                }))
                .into())
            }
            (Some((now, _)), None) => {
                store.complete(location, texts, now.clone());
                Ok((opened(r, now)?, None))
            }
            (Some((_, None)), Some(file)) => {
                let why = "is being written, and what was there before is not known";
                Err(refuse(r, file, why, 500).into())
            }
            (Some((now, Some(before))), Some(_)) => Ok((opened(r, now)?, Some(opened(r, before)?))),
        }
    }

    /// Compiles files on the pool, and has the handler asked again.
    async fn make(self, r: &mut Request, texts: Vec<Text>, is_part: bool) -> Flow {
        let compiled = Carried::of(r).borrow().compiled;
        if compiled >= HTACCESS_COMPILED_MAX {
            rlog!(r, Error, "the .htaccess files that lead to this folder change all the time");
            return Flow::Status(503);
        }
        Carried::of(r).borrow_mut().compiled = compiled + 1;
        let location = r.snap().at_start(r.route.loc);
        let (store, ground) = (self.0.htaccess.store.clone(), self.0.ground.clone());
        let job = self.0.htaccess.store.line.ask(move || store.make(location, texts, ground, is_part));
        let Ok(job) = job.map_err(|QueueFull| ()) else {
            rlog!(r, Error, "the queue of the thread pool is full");
            return Flow::Status(503);
        };
        job.await;
        // The texts are looked at once more by this request: that is no reason to watch the folder.
        r.evidence.asks_again = true;
        Flow::Again
    }
}

/// Answers an encoded slash in the path with 404, as Apache does unless `AllowEncodedSlashes` says otherwise: rules and sections are
/// written for paths in which a slash is one.
pub fn refuse_encoded_slashes(r: &Request, site: Option<&Site>) -> Result<(), Flow> {
    if site.is_some_and(Site::allows_encoded_slashes) {
        return Ok(());
    }
    let target = r.unparsed_uri();
    let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
    let is_slash = |at: usize| path.get(at + 1..at + 3).is_some_and(|code| code.eq_ignore_ascii_case(b"2f"));
    if memchr::memchr_iter(b'%', path).any(is_slash) {
        rlog!(r, Info, "found an encoded slash (%2F) in the path, which AllowEncodedSlashes does not allow");
        return Err(Flow::Status(404));
    }
    Ok(())
}

/// Ends a look-up for a file whose URI leads elsewhere, such as to an alias or a back end.
fn must_lead_to_file(r: &Request, mapped: Option<&[u8]>) -> Result<(), Flow> {
    if r.route.purpose != Purpose::LookUp {
        return Ok(());
    }
    let carried = Carried::of(r);
    let carried = carried.borrow();
    let wanted = carried.look_up.as_ref().and_then(|look_up| look_up.file.as_ref());
    let is_there = |file: &[u8]| mapped.is_some_and(|path| resolved(path).is_ok_and(|path| path == file));
    match wanted {
        // (A folder's index file has another URI, and is served for the folder.)
        Some((uri, file)) if *uri == r.route.uri && !is_there(file) => Err(Flow::Status(403)),
        _ => Ok(()),
    }
}

/// Says which files hold to whom asks why.
fn tell_files(r: &Request, texts: &[Text]) {
    for text in texts.iter().filter(|text| !text.name.ends_with('/')) {
        let source = trace::Source::Line(text.name.clone(), 1);
        trace::say(r, OWNER, trace::Kind::Text, "holds for this path".into(), source);
    }
}

/// Adds the sections of a folder. Gives whether its files are read.
fn sections(
    r: &Request,
    site: &Site,
    folder: &[u8],
    mut reads: Reads,
    texts: &mut Vec<Text>,
) -> Result<Reads, Flow> {
    for section in site.sections(folder) {
        let Ok(name) = std::str::from_utf8(folder) else {
            return Err(refuse(r, folder, "is a folder whose name is no UTF-8", 500));
        };
        texts.push(section.text(name));
        reads = reads.with(&section.allow);
    }
    Ok(reads)
}

/// The plan, if the files came to one.
fn opened(r: &Request, outcome: Outcome) -> Result<Arc<DirPlan>, Flow> {
    outcome.map_err(|why| {
        rlog!(r, Error, "{why}");
        Flow::Status(500)
    })
}

/// Judges a request by a plan.
fn pass(r: &mut Request, place: Rc<Place>, plan: &DirPlan) -> Result<(), Flow> {
    follow(r, &place, plan)?;
    let present = enter(r, place, plan, true)?;
    // A refusal has the pages and fields that the files say.
    present.clone().keep(r);
    hide(r, &present.place)?;
    admit(r, &present)
}

/// Refuses the files themselves, and those with passwords: their names begin so.
fn hide(r: &Request, place: &Place) -> Result<(), Flow> {
    if place.name().get(..3).is_some_and(|start| start.eq_ignore_ascii_case(b".ht")) {
        return Err(refuse(r, &place.file, "is never served", 403));
    }
    Ok(())
}

/// Refuses a path with a symbolic link where `Options` forbid it.
fn follow(r: &mut Request, place: &Place, plan: &DirPlan) -> Result<(), Flow> {
    for (symlinks, end) in plan.judged_links(&place.file) {
        let is_whole = end == place.file.len();
        match r.stat_file(Path::new(OsStr::from_bytes(&place.file[..end])), symlinks)? {
            Found::File(_) | Found::Other(_) => {}
            // ENOENT: a link to nothing is there, too: what is missing must be missing when links are followed.
            Found::Missing(error) if error.raw_os_error() == Some(2) => {
                if !is_whole || place.kind.is_some() {
                    return Err(Flow::Status(404));
                }
            }
            // ELOOP and EMLINK are links at the end, ENOTDIR is one on the way: it is opened as a folder.
            Found::Missing(_) => {
                let why = "is reached by a symbolic link, which Options forbid";
                return Err(refuse(r, &place.file, why, 403));
            }
        }
    }
    Trail::links(r, plan.judged_links(&place.file));
    Ok(())
}

/// Carries out `SetEnvIf` and its kin.
pub fn set_env_if<'l>(
    lines: impl Iterator<Item = &'l Arc<SetEnvIf>>,
    seen: &Seen<'_>,
    changes: &mut Vec<EnvChange>,
) -> Result<(), Stop> {
    for line in lines {
        let known = Seen { changes: &*changes, ..*seen };
        for change in line.changes(&|| seen.fields(), &known)? {
            seen.spend(changes.len())?;
            changes.retain(|(known, _)| !known.eq_ignore_ascii_case(&change.0));
            changes.push(change);
        }
    }
    Ok(())
}

/// What holds for the request, and its variables by `SetEnvIf`. Sections of folders and files count if it is for a file.
fn enter(r: &mut Request, place: Rc<Place>, plan: &DirPlan, is_file: bool) -> Result<Present, Flow> {
    let carried = Carried::of(r);
    let (effective, changes) = settled(r, |r, looked| {
        let carried = carried.borrow();
        let seen = Seen { r, place: &place, carried: &carried, changes: &[], looked, group_file: None };
        let mut changes: Vec<EnvChange> = Vec::new();
        let effective = if is_file {
            plan.of(place.name(), &seen, &mut changes)?
        } else {
            plan.of_path(&seen, &mut changes)?
        };
        let lines = effective.settings.set_env_if.iter().skip(carried.said.led);
        set_env_if(lines, &seen, &mut changes)?;
        Ok((effective, changes))
    })?;
    carried.borrow_mut().say().change(changes);
    Ok(Present { place, effective })
}

/// Carries out the rules about addresses and users.
fn admit(r: &mut Request, present: &Present) -> Result<(), Flow> {
    let settings = &present.effective.settings;
    if settings.request_body_bytes_max.is_some_and(|max| max > 0) {
        limit_body(r, &present.effective)?;
    }
    if settings.requires_tls && r.scheme() != "https" {
        return Err(refuse(r, &present.place.file, "is for TLS only (SSLRequireSSL)", 403));
    }
    // As in Apache, the page of an error is not judged anew where the very same holds as for what has failed: nobody would get to see the page
    // of a folder's own refusal.
    let uri = Carried::asked(r);
    if Carried::of(r).borrow_mut().is_page_of_same(&uri, &present.effective) {
        return Ok(());
    }
    Carried::of(r).borrow_mut().judged_by = Some(present.effective.clone());
    match ask(r, present, &|seen| before_login(settings, seen))? {
        Decision::Granted => return Ok(()),
        Decision::Forbidden => return Err(forbid(r, &present.place)),
        Decision::LogIn => {}
    }
    if settings.auth.kind.as_ref().is_none_or(|kind| kind.eq_ignore_ascii_case(b"none")) {
        rlog!(r, Error, ".htaccess requires a user, but there is no AuthType");
        return Err(Flow::Status(500));
    }
    let user = login::user(r, &settings.auth)?;
    Carried::of(r).borrow_mut().say().user = Some(user);
    if ask(r, present, &|seen| after_login(settings, seen))? {
        return Ok(());
    }
    Carried::of(r).borrow_mut().log_out();
    if settings.sends_forbidden == Some(true) {
        return Err(forbid(r, &present.place));
    }
    rlog!(r, Error, "the user may not see \"{}\"", shown(&present.place.file));
    Err(login::challenge(r, &settings.auth))
}

/// Asks a rule of the settings.
fn ask<T>(
    r: &mut Request,
    present: &Present,
    rule: &dyn Fn(&Seen<'_>) -> Result<T, Stop>,
) -> Result<T, Flow> {
    let carried = Carried::of(r);
    let group_file = present.effective.settings.auth.group_file.as_deref();
    settled(r, |r, looked: &Looked| {
        let carried = carried.borrow();
        rule(&Seen { r, place: &present.place, carried: &carried, changes: &[], looked, group_file })
    })
}

fn forbid(r: &Request, place: &Place) -> Flow {
    rlog!(r, Error, "access to \"{}\" is forbidden by .htaccess", shown(&place.file));
    Flow::Status(403)
}

/// `LimitRequestBody`: by how the body comes, which fields alone do not say: a stream of HTTP/2 or HTTP/3 needs none. A body whose length
/// is not told could have any.
fn limit_body(r: &Request, effective: &Effective) -> Result<(), Flow> {
    let max = effective.settings.request_body_bytes_max.unwrap_or_default();
    match r.body_framing() {
        BodyFraming::None => Ok(()),
        BodyFraming::Length(length) if length <= max => Ok(()),
        BodyFraming::Length(_) => Err(Flow::Status(413)),
        BodyFraming::Chunked => Err(Flow::Status(411)),
    }
}
