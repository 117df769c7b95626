//! `MultiViews` and type maps: which file stands for a name, by what the client likes.

use super::carried::{Carried, Present};
use super::look_up::beside;
use super::plan::Settings;
use super::redirects::lead_to;
use crate::directory;
use crate::index::StandIn;
use crate::limits::FOLDER_NAMES_MAX;
use brisk_apache::negotiation::{self, Choice, Variant, Wishes};
use brisk_apache::options::Options;
use brisk_net::file::Symlinks;
use brisk_server::files::Found;
use brisk_server::flow::Flow;
use brisk_server::request::Request;
use brisk_server::response::Body;
use brisk_server::rlog;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::rc::Rc;

/// Names of a folder that begin with one that is not there, with their sizes in bytes.
type Names = Rc<[(Vec<u8>, u64)]>;

/// What was found in folders for a request, by the path that is not there.
#[derive(Default)]
struct Listed(Vec<(Vec<u8>, Names)>);

/// Goes on with the file that stands for `name`, which is not in the folder; nothing happens where none does.
pub fn look(r: &mut Request, present: &Present, name: &[u8]) -> Result<(), Flow> {
    let place = &present.place;
    if !present.effective.options.has(Options::MULTI_VIEWS) || name.is_empty() || name.starts_with(b".") {
        return Ok(());
    }
    let is_index = r.route.uri.ends_with(b"/");
    let folder = if is_index { &place.file[..] } else { &place.file[..place.file.len() - name.len()] };
    let missing = [folder, name].concat();
    let known = r.state.visit.get::<Listed>().and_then(|listed| {
        let found = listed.0.iter().find(|(path, _)| *path == missing);
        found.map(|(_, names)| names.clone())
    });
    let Some(names) = known else { return Err(list(folder, name, missing)) };
    let variants: Vec<Variant> = names
        .iter()
        .filter_map(|(file, bytes)| variant(r, &present.effective.settings, name, file, *bytes))
        .collect();
    if variants.is_empty() {
        return Ok(());
    }
    let settings = &present.effective.settings;
    match choose(r, settings, &variants) {
        Choice::NotAcceptable => {
            rlog!(r, Error, "no acceptable variant: \"{}\"", String::from_utf8_lossy(&missing));
            Err(Flow::Status(406))
        }
        Choice::One(index) => {
            let base = if is_index { Some(&r.route.uri[..]) } else { r.route.uri.strip_suffix(name) };
            // An alias of a pattern leads to names that the URI does not end with.
            let Some(base) = base else { return Ok(()) };
            let chosen = &variants[index].name;
            Err(go_on(r, &[base, chosen].concat(), chosen, is_index))
        }
    }
}

/// Goes on with the file that was chosen, at this path. Apache asks for it by a subrequest.
fn go_on(r: &Request, uri: &[u8], name: &[u8], is_index: bool) -> Flow {
    let asked = Carried::asked(r);
    let is_led = asked != r.route.uri;
    let counts_as = if is_led { beside(&asked, name) } else { uri.to_vec() };
    if is_index {
        StandIn::is_at(r, &counts_as);
    }
    Carried::of(r).borrow_mut().say().chosen = is_led.then(|| (uri.to_vec(), counts_as));
    lead_to(r, uri, None)
}

/// Reads the folder on the pool, and has the handler asked again.
fn list(folder: &[u8], name: &[u8], missing: Vec<u8>) -> Flow {
    let path = directory::named_by(Path::new(OsStr::from_bytes(folder)));
    let beginning = [name, b"."].concat();
    Flow::Wait(Box::new(move |r| {
        Box::pin(async move {
            let found = directory::on_pool(path, move |path| {
                let mut names = Vec::new();
                directory::each(path, |entry| {
                    let name = entry.file_name();
                    if name.as_bytes().starts_with(&beginning) && names.len() < FOLDER_NAMES_MAX {
                        let info = directory::metadata(entry)?;
                        if info.is_file() {
                            names.push((name.as_bytes().to_vec(), info.len()));
                        }
                    }
                    Ok(())
                })?;
                names.sort();
                Ok(names)
            });
            let names: Names = found.await.unwrap_or_default().into();
            r.state.visit.get_mut::<Listed>().0.push((missing, names));
            Flow::Again
        })
    }))
}

/// What a file is by its name, if all endings behind `name` say something of it.
fn variant(r: &Request, settings: &Settings, name: &[u8], file: &[u8], bytes: u64) -> Option<Variant> {
    let types = r.core().types.clone();
    let usual = |ending: &[u8]| types.get(ending).map(|media| media.to_vec());
    let is_known = |ending: &[u8]| {
        let ending = ending.to_ascii_lowercase();
        settings.mime.endings.contains_key(&ending) || usual(&ending).is_some()
    };
    let endings = file.get(name.len() + 1..)?;
    if endings.is_empty() || !endings.split(|&byte| byte == b'.').all(is_known) {
        return None;
    }
    let of = settings.mime.of(file, &usual);
    // Scripts and maps are asked for by their names.
    if of.handler.is_some() {
        return None;
    }
    let languages = of.language.as_deref().map(|list| {
        list.split(|&byte| byte == b',').map(|language| language.trim_ascii().to_vec()).collect()
    });
    Some(Variant {
        name: file.to_vec(),
        media: of.content_type?,
        languages: languages.unwrap_or_default(),
        encoding: of.encoding,
        bytes,
        ..Variant::default()
    })
}

fn choose(r: &Request, settings: &Settings, variants: &[Variant]) -> Choice {
    let field = |name: &str| {
        let values: Vec<&[u8]> = r.headers_named(name.as_bytes()).map(|value| value as &[u8]).collect();
        (!values.is_empty()).then(|| values.join(&b", "[..]))
    };
    let (media, languages, encodings) = (field("Accept"), field("Accept-Language"), field("Accept-Encoding"));
    let wishes =
        Wishes { media: media.as_deref(), languages: languages.as_deref(), encodings: encodings.as_deref() };
    let carried = Carried::of(r);
    let mut carried = carried.borrow_mut();
    let said = carried.say();
    said.vary.push(b"negotiate".to_vec());
    let differ = |of: fn(&Variant) -> Vec<u8>| variants.iter().any(|variant| of(variant) != of(&variants[0]));
    if differ(|variant| variant.media.clone()) {
        said.vary.push(b"accept".to_vec());
    }
    if differ(|variant| variant.languages.join(&b","[..])) {
        said.vary.push(b"accept-language".to_vec());
    }
    if differ(|variant| variant.encoding.clone().unwrap_or_default()) {
        said.vary.push(b"accept-encoding".to_vec());
    }
    let priority = settings.language_priority.as_deref().unwrap_or_default();
    negotiation::choose(variants, wishes, priority, settings.language_falls_back == Some(true))
}

/// Answers with what a type map names (`AddHandler type-map .var`).
pub fn type_map(r: &mut Request, present: &Present) -> Flow {
    let path = Path::new(OsStr::from_bytes(&present.place.file));
    let text = match r.read_text(path, Symlinks::Follow) {
        Ok(Found::File(file)) => file.content.clone(),
        Ok(_) => None,
        Err(flow) => return flow,
    };
    let Some(text) = text else {
        rlog!(r, Error, "the type map \"{}\" cannot be read", path.display());
        return Flow::Status(500);
    };
    let mut variants = negotiation::type_map(&text);
    let Choice::One(index) = choose(r, &present.effective.settings, &variants) else {
        rlog!(r, Error, "no acceptable variant: \"{}\"", path.display());
        return Flow::Status(406);
    };
    let chosen = variants.swap_remove(index);
    match chosen.body {
        Some(body) => {
            r.resp.status = 200;
            r.resp.say_content_type(chosen.media.into());
            r.resp.content_length = Some(body.len() as u64);
            r.resp.body = Body::bytes(body);
            Flow::Done
        }
        None => {
            let is_whole = chosen.name.starts_with(b"/");
            let uri = if is_whole { chosen.name } else { beside(&Carried::asked(r), &chosen.name) };
            lead_to(r, &uri, None)
        }
    }
}
