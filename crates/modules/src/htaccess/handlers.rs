//! Which handler answers with a file, and what its name says of it. The source of a script is never served.

use super::before::Before;
use super::carried::{Carried, Handed, Present};
use super::local::Local;
use super::negotiate;
use super::place::Place;
use super::plan::Settings;
use crate::directory_overrides::files::{refuse, shown};
use crate::static_files;
use brisk_apache::overrides::{Etag, FileType, PathInfo, Said};
use brisk_http::Method;
use brisk_net::file::{Kind, Symlinks};
use brisk_server::files::Found;
use brisk_server::flow::Flow;
use brisk_server::plan::{Declared, Handler};
use brisk_server::request::Request;
use brisk_server::response::{Body, Piece};
use brisk_server::rlog;
use brisk_server::text::Text;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::rc::Rc;

/// What a handler's name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Php,
    /// The file itself.
    Default,
    Unknown,
}

fn named(name: &[u8]) -> Named {
    let name = name.to_ascii_lowercase();
    let has = |part: &str| memchr::memmem::find(&name, part.as_bytes()).is_some();
    let is_source = name.ends_with(b"-source");
    match name.as_slice() {
        b"" | b"none" | b"default-handler" => Named::Default,
        b"application/x-lsphp" => Named::Php,
        // What Drupal and its relatives write into folders of uploads so that nothing in them is run: a handler that nobody has.
        _ if name.starts_with(b"drupal_security_do_not_remove") => Named::Default,
        _ if !is_source && name.starts_with(b"application/x-httpd-") && has("php") => Named::Php,
        _ if name.starts_with(b"php") && name.ends_with(b"-script") => Named::Php,
        _ => Named::Unknown,
    }
}

/// Whether a file's name is a script's, whatever settings say.
pub fn is_script(name: &[u8]) -> bool {
    let Some(dot) = memchr::memrchr(b'.', name) else { return false };
    let ending = name[dot + 1..].to_ascii_lowercase();
    matches!(ending.as_slice(), b"phtml" | b"phar" | b"pht" | b"phps")
        || ending.strip_prefix(b"php").is_some_and(|rest| rest.iter().all(u8::is_ascii_digit))
}

/// What is said of a file: by rules, by settings, by the endings of its name.
struct Described {
    file: FileType,
    /// Its handler, if one is named; one that is taken away is [`Named::Default`].
    handler: Option<Named>,
    /// As it was written, for messages.
    name: Vec<u8>,
}

fn said(r: &Request, settings: &Settings, name: &[u8], rules: Rules<'_>) -> Described {
    let types = r.core().types.clone();
    let usual = |ending: &[u8]| types.get(ending).map(|media| media.to_vec());
    let mut file = settings.mime.of(name, &usual);
    let forced = settings.force_type.as_ref().filter(|forced| !forced.is_empty());
    if let Some(content_type) = rules.content_type.or(forced.map(Vec::as_slice)) {
        file.content_type = Some(content_type.to_vec());
    }
    let by_name = file.handler.as_deref();
    let mut handler = rules.handler.or(settings.handler.as_deref()).or(by_name).map(<[u8]>::to_vec);
    // Apache asks a handler that is called as the type.
    let of_type = file.content_type.clone().filter(|media| named(media) == Named::Php);
    if handler.is_none() {
        handler = of_type;
    }
    if handler.is_none() && is_taken_away(settings, name, forced.is_some() || rules.content_type.is_some()) {
        handler = Some(Vec::new());
    }
    let name = handler.clone().unwrap_or_default();
    Described { file, handler: handler.map(|handler| named(&handler)), name }
}

/// Whether settings say that PHP is not to run a file that is a script by its name.
fn is_taken_away(settings: &Settings, name: &[u8], is_forced: bool) -> bool {
    let ending = name.rsplit(|&byte| byte == b'.').next().unwrap_or_default().to_ascii_lowercase();
    let is_removed = settings
        .mime
        .endings
        .get(&ending)
        .is_some_and(|said| said.handler == Said::Removed || said.content_type != Said::Nothing);
    is_script(name) && (is_removed || is_forced)
}

/// `php_flag engine off`.
fn is_engine_off(settings: &Settings) -> bool {
    let engine = settings.php.iter().rev().find(|setting| setting.name == b"engine");
    // As PHP reads it: a number other than 0 and these words are on, anything else is off.
    let is_word =
        |value: &[u8]| ["on", "yes", "true"].iter().any(|on| value.eq_ignore_ascii_case(on.as_bytes()));
    let is_number = |value: &[u8]| {
        let is_digit = |byte: &u8| byte.is_ascii_digit();
        value.iter().all(is_digit) && value.iter().any(|&digit| digit != b'0')
    };
    engine.is_some_and(|setting| !is_word(&setting.value) && !is_number(&setting.value))
}

/// What rewrite rules have said (flags T and H).
#[derive(Clone, Copy, Default)]
pub struct Rules<'a> {
    /// The type.
    pub content_type: Option<&'a [u8]>,
    /// The handler.
    pub handler: Option<&'a [u8]>,
}

/// Leads a request for a file to the handler that is said, and sets what its name says.
pub fn choose(r: &mut Request, local: &Local, present: &Present, rules: Rules<'_>) -> Flow {
    let place = &present.place;
    let settings = &present.effective.settings;
    let is_file = place.kind == Some(Kind::File);
    let said = said(r, settings, place.name(), rules);
    let handler = local.ground.site.as_ref().and_then(|site| site.handler(&said.name));
    let is_run = local.runs_scripts || is_file && (handler.is_some() || said.handler == Some(Named::Php));
    // Before anything else: however the request would come to PHP. (For a folder FastCGI may run the index file.)
    if is_run && is_engine_off(settings) {
        return refuse(r, &place.file, "is not run (php_flag engine off)", 403);
    }
    if !is_file {
        return Flow::Next;
    }
    if let Some(location) = handler {
        if local.runs_scripts {
            return Flow::Next;
        }
        hand_on(r, Some(place.clone()));
        return Flow::Named(location.clone());
    }
    if said.name.eq_ignore_ascii_case(b"type-map") && !local.runs_scripts {
        return negotiate::type_map(r, present);
    }
    match (said.handler, local.runs_scripts) {
        (Some(Named::Unknown), _) => {
            let name = String::from_utf8_lossy(&said.name);
            rlog!(
                r,
                Error,
                "Brisk has no handler \"{name}\", which .htaccess gives to \"{}\"",
                shown(&place.file)
            );
            Flow::Status(500)
        }
        (Some(Named::Default), true) => {
            refuse(r, &place.file, "is not run as .htaccess takes its handler away", 403)
        }
        (_, true) => Flow::Next,
        (Some(Named::Php), false) => to_php(r, local, &place.file),
        (_, false) if is_script(place.name()) => no_source(r, &place.file),
        (_, false) => {
            describe(r, said.file);
            Flow::Next
        }
    }
}

/// Remembers that the script is another location's to run, and who has said so.
fn hand_on(r: &Request, place: Option<Rc<Place>>) {
    let handed = Handed { uri: r.route.uri.clone(), place, from: Before::unjudged(r) };
    Carried::of(r).borrow_mut().say().handed = Some(handed);
}

/// Goes on in the location that runs PHP.
fn to_php(r: &Request, local: &Local, file: &[u8]) -> Flow {
    match &local.htaccess.php {
        Some((name, _)) => {
            hand_on(r, None);
            Flow::Named(name.to_vec())
        }
        None => {
            let file = shown(file);
            rlog!(
                r,
                Error,
                "\"{file}\" is PHP's by .htaccess, but no location is named that runs PHP (directory_overrides on php=@NAME)"
            );
            Flow::Status(500)
        }
    }
}

/// Refuses to give out a script.
pub fn no_source(r: &Request, file: &[u8]) -> Flow {
    rlog!(r, Error, "\"{}\" is a script, and its location runs none: its source is not served", shown(file));
    Flow::Status(500)
}

/// Sets what is known of a file by its name.
fn describe(r: &mut Request, file: FileType) {
    let text = |value: Vec<u8>| Some(value.into());
    if let Some(media) = file.content_type {
        r.resp.say_content_type(media.into());
        r.resp.said_type = None;
    }
    if let Some(charset) = file.charset {
        r.resp.charset = text(charset);
    }
    if let Some(encoding) = file.encoding {
        r.resp.content_encoding = text(encoding);
    }
    if let Some(language) = file.language {
        r.resp.add("Content-Language", language);
    }
}

/// Serves a file where `FileETag` says how it is tagged, and one with more of a path behind it where `AcceptPathInfo` allows that.
pub struct File {
    /// POST is answered with the file, as Apache does.
    pub answers_post: bool,
}

impl Handler for File {
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn handle(&self, r: &mut Request) -> Flow {
        let Some(present) = Present::of(r) else { return Flow::Next };
        let settings = &present.effective.settings;
        let etag = settings.etag.of();
        let has_more = !present.place.path_info.is_empty()
            && present.place.kind == Some(Kind::File)
            && settings.path_info == Some(PathInfo::Accepted);
        let is_post = self.answers_post
            && r.route.method == Method::Post
            && present.place.kind == Some(Kind::File)
            && present.place.path_info.is_empty();
        let flow = match (has_more || is_post, etag) {
            (true, _) => at_place(r, &present.place),
            (false, Some(_)) => static_files::handle(r),
            (false, None) => return Flow::Next,
        };
        if let (Flow::Done, Some(etag)) = (&flow, etag) {
            r.resp.etag = tag(r, etag);
        }
        flow
    }
}

/// Serves the file of a place, whatever the method or the rest of the path.
fn at_place(r: &mut Request, place: &Place) -> Flow {
    if !matches!(r.route.method, Method::Get | Method::Head | Method::Post) {
        return Flow::Status(405);
    }
    let path = Path::new(OsStr::from_bytes(&place.file));
    match r.open_file(path, Symlinks::Follow) {
        Ok(Found::File(file)) => {
            static_files::respond_with(r, file);
            Flow::Done
        }
        Ok(_) => Flow::Status(404),
        Err(flow) => flow,
    }
}

/// Apache's entity tag: those of inode, size and time that are wanted, in this order.
fn tag(r: &Request, wanted: Etag) -> Option<Text> {
    let Body::One(Piece::File { file, .. }) = &r.resp.body else {
        return r.resp.etag.clone().filter(|_| wanted.mtime && wanted.size && !wanted.inode);
    };
    let info = &file.info;
    let time_us = info.mtime.saturating_mul(1_000_000).saturating_add(i64::from(info.mtime_nsec) / 1000);
    let parts =
        [(wanted.inode, info.inode), (wanted.size, info.size), (wanted.mtime, time_us.unsigned_abs())];
    let parts: Vec<String> =
        parts.iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, value)| format!("{value:x}")).collect();
    (!parts.is_empty()).then(|| format!("\"{}\"", parts.join("-")).into_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_handlers() {
        for (name, wanted) in [
            ("application/x-httpd-php", Named::Php),
            ("application/x-httpd-php74", Named::Php),
            ("application/x-httpd-ea-php82", Named::Php),
            ("application/x-httpd-alt-php80___lsphp", Named::Php),
            ("php8.2-script", Named::Php),
            ("application/x-httpd-php-source", Named::Unknown),
            ("cgi-script", Named::Unknown),
            ("proxy:unix:/run/php.sock|fcgi://localhost", Named::Unknown),
            ("text/plain", Named::Unknown),
            ("default-handler", Named::Default),
            ("none", Named::Default),
            ("Drupal_Security_Do_Not_Remove_See_SA_2006_006", Named::Default),
        ] {
            assert_eq!(named(name.as_bytes()), wanted, "{name}");
        }
    }

    #[test]
    fn scripts_are_known_by_their_names() {
        for name in ["a.php", "a.PHP", "a.php5", "a.b.phtml", ".php", "x.phar", "x.phps"] {
            assert!(is_script(name.as_bytes()), "{name}");
        }
        for name in ["php", "a.phpx", "a.php.bak", "a.html", "a."] {
            assert!(!is_script(name.as_bytes()), "{name}");
        }
    }
}
