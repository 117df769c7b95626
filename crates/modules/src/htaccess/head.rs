//! `Header`, `ExpiresActive` and its relatives, `AddDefaultCharset`, and the cookies of rules.

use super::carried::{Carried, Present};
use super::facts::{Looked, Seen};
use super::pattern;
use super::place::Place;
use super::plan::{Effective, Settings};
use brisk_apache::Stop;
use brisk_apache::expr::Evaluation;
use brisk_apache::headers::{self, Fields, Table};
use brisk_apache::overrides::Said;
use brisk_apache::ranges::{self, Ranges};
use brisk_apache::rewrite::Cookie;
use brisk_http::{HeaderId, date};
use brisk_net::file::Symlinks;
use brisk_server::plan::{Declared, Filter};
use brisk_server::request::Request;
use brisk_server::response::{AskedRanges, Response};
use brisk_server::rlog;
use brisk_server::text::Text;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

/// Changes the head of a response.
pub struct Head {
    /// What holds in the host of Apache's own files.
    pub host: Option<Arc<Effective>>,
    /// The location's answers are made by scripts of another server. (Those of a pool are in the place of PHP inside of Apache, whose
    /// fields are those of a handler of Apache's own.)
    pub is_of_scripts: bool,
}

impl Filter for Head {
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn filter(&self, r: &mut Request) {
        if let Some(present) = Present::or_of_host(r, self.host.as_ref()) {
            let settings = &present.effective.settings;
            let said = if self.is_of_scripts && !r.reply.is_own() { r.resp.headers.len() } else { 0 };
            charset(r, settings);
            limit_ranges(r, settings);
            expires(r, &present, said);
            log_messages(r, &present);
            if let Err(stop) = fields(r, &present, said) {
                rlog!(r, Error, "a Header line of .htaccess cannot be carried out: {stop:?}");
                r.state.shared.vars.fail();
            }
        }
        let Some(carried) = r.state.own.get::<std::cell::RefCell<Carried>>() else { return };
        let carried = carried.borrow();
        for cookie in &carried.said.cookies {
            let value = written(cookie, r);
            if headers::has_control(&value) {
                rlog!(r, Error, "a cookie of a rule has a control character (flag CO)");
                r.state.shared.vars.fail();
                continue;
            }
            r.resp.add("Set-Cookie", value);
        }
        let mut vary: Vec<&[u8]> = Vec::new();
        for name in &carried.said.vary {
            if !vary.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                vary.push(name);
            }
        }
        if !vary.is_empty() {
            let value = vary.join(&b", "[..]);
            r.resp.add("Vary", value);
        }
    }
}

/// `LogMessage`.
fn log_messages(r: &Request, present: &Present) {
    let messages = &present.effective.settings.log_messages;
    if messages.is_empty() {
        return;
    }
    let carried = Carried::of(r);
    let carried = carried.borrow();
    let looked = Looked::default();
    let place = &present.place;
    let seen = Seen { r, place, carried: &carried, changes: &[], looked: &looked, group_file: None };
    for message in messages {
        let holds = message.condition.as_ref().map_or(Ok(true), |known| Evaluation::new(&seen).holds(known));
        match holds.and_then(|holds| holds.then(|| Evaluation::new(&seen).text(&message.text)).transpose()) {
            Ok(Some(text)) => rlog!(r, Info, "{}", String::from_utf8_lossy(&text)),
            Ok(None) => {}
            Err(stop) => rlog!(r, Error, "a LogMessage of .htaccess cannot be told: {stop:?}"),
        }
    }
}

fn charset(r: &mut Request, settings: &Settings) {
    let Said::Value(charset) = &settings.default_charset else { return };
    let is_text = r.resp.content_type.as_deref().is_some_and(|media| {
        let media = media.split(|&byte| byte == b';').next().unwrap_or_default();
        matches!(media.trim_ascii(), b"text/html" | b"text/plain")
    });
    if is_text && r.resp.charset.is_none() {
        r.resp.charset = Some(charset.clone().into());
    }
}

/// `MaxRanges`: a request for more is answered with the whole.
fn limit_ranges(r: &mut Request, settings: &Settings) {
    let Some(max) = settings.ranges_max.filter(|_| r.resp.allow_ranges) else { return };
    let Some(length) = r.resp.content_length else { return };
    if max == 0 {
        return r.resp.clear_ranges();
    }
    let Some(field) = r.header(HeaderId::Range) else { return };
    match ranges::read(field, length, max) {
        Ranges::Ignored => r.resp.clear_ranges(),
        // Nothing is there, whoever reads the field.
        Ranges::None => {}
        Ranges::Some(all) => r.state.visit.get_mut::<AskedRanges>().0 = Some(all),
    }
}

/// `said`: so many fields, the first, are a script's.
fn expires(r: &mut Request, present: &Present, said: usize) {
    if r.resp.status >= 400 || r.resp.header(b"Expires").is_some() {
        return;
    }
    let media = r.resp.content_type.as_deref().unwrap_or_default();
    let Some(lifetime) = present.effective.settings.expires.lifetime(media) else { return };
    let now = r.this_second();
    let changed = if lifetime.is_from_change { changed(r, &present.place) } else { None };
    let Some(max_age) = lifetime.max_age(now, changed) else { return };
    let text = format!("max-age={max_age}");
    let mut others = r.resp.headers.iter_mut().skip(said);
    match others.find(|(name, _)| name.eq_ignore_ascii_case(b"Cache-Control")) {
        Some((_, value)) => *value = [value, b", ".as_slice(), text.as_bytes()].concat().into(),
        None => r.resp.add("Cache-Control", text.into_bytes()),
    }
    // The last year that the format has room for.
    let end = now.saturating_add(max_age).min(253_402_300_799);
    r.resp.add("Expires", date::format_imf(end).to_vec());
}

/// When the file or folder that a request leads to was changed, whatever the answer is made of: a script's own time, too.
fn changed(r: &mut Request, place: &Place) -> Option<i64> {
    let found = match place.kind {
        Some(_) => r.stat_file(Path::new(OsStr::from_bytes(&place.file)), Symlinks::Follow).ok(),
        None => None,
    };
    // (It was looked at before. If the disk must be asked again, what the answer says is as good.)
    found.and_then(|found| found.info().map(|info| info.mtime)).or(r.resp.last_modified)
}

/// Carries out the lines of `Header`. `said`: so many fields, the first, are a script's.
fn fields(r: &mut Request, present: &Present, said: usize) -> Result<(), Stop> {
    let lines = &present.effective.settings.headers;
    if !lines.iter().any(|line| line.table != Table::Request) {
        return Ok(());
    }
    let carried = Carried::of(r);
    let (usual, always) = {
        let carried = carried.borrow();
        carried.work.renew();
        pattern::take_owed();
        let looked = Looked::default();
        let place = &present.place;
        let seen = Seen { r, place, carried: &carried, changes: &[], looked: &looked, group_file: None };
        let request = || seen.fields();
        let (mut usual, mut always) = read(&r.resp, said);
        for is_early in [true, false] {
            headers::apply(lines, Table::Always, is_early, &mut always, &request, &seen)?;
            if !r.reply.is_own() {
                headers::apply(lines, Table::OnSuccess, is_early, &mut usual, &request, &seen)?;
            }
        }
        (usual, always)
    };
    write(&mut r.resp, usual);
    for (name, value) in always {
        r.resp.add(name, value);
    }
    Ok(())
}

/// Fields that have a place of their own in a response.
const OWN: [&str; 6] = ["Content-Type", "ETag", "Last-Modified", "Content-Encoding", "Location", "Vary"];

/// The values of [`OWN`] that are in their places. Back ends' fields are among the others as they came.
fn own(resp: &Response) -> [Option<Vec<u8>>; 6] {
    let mut media = Vec::new();
    [
        resp.write_content_type(&mut media).then_some(media),
        resp.etag.as_deref().map(<[u8]>::to_vec),
        resp.last_modified.map(|time| date::format_imf(time).to_vec()),
        resp.content_encoding.as_deref().map(<[u8]>::to_vec),
        resp.location.as_deref().map(<[u8]>::to_vec),
        resp.vary.as_deref().map(<[u8]>::to_vec),
    ]
}

/// The fields of a response, those with a place of their own first; and those that are of every response. In Apache the latter are what a
/// script has said (`ap_scan_script_header`), but for what is about its content and where that is.
fn read(resp: &Response, said: usize) -> (Fields, Fields) {
    const OTHERS: [&str; 4] = ["Location", "ETag", "Last-Modified", "Content-Range"];
    let (mut usual, mut always) = (Fields::new(), Fields::new());
    usual.extend(
        OWN.iter().zip(own(resp)).filter_map(|(name, value)| Some((name.as_bytes().to_vec(), value?))),
    );
    for (at, (name, value)) in resp.headers.iter().enumerate() {
        let is_other = OTHERS.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
        let fields = if at < said && !is_other { &mut always } else { &mut usual };
        fields.push((name.to_vec(), value.to_vec()));
    }
    (usual, always)
}

/// Gives a response these fields.
fn write(resp: &mut Response, mut fields: Fields) {
    let before = own(resp);
    let mut take = |name: &str| {
        let at = fields.iter().position(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()))?;
        Some(fields.remove(at).1)
    };
    for (name, was) in OWN.into_iter().zip(before) {
        // A back end's field stays where it is.
        if was.is_none() && resp.header(name.as_bytes()).is_some() {
            continue;
        }
        let value = take(name);
        if value == was {
            continue;
        }
        let text = value.clone().map(Text::from);
        match name {
            "Content-Type" => {
                (resp.content_type, resp.charset, resp.said_type) = (None, None, None);
                if let Some(text) = text {
                    resp.say_content_type(text);
                }
            }
            "ETag" => resp.etag = text,
            "Last-Modified" => resp.last_modified = value.and_then(|value| date::parse_imf(&value)),
            "Content-Encoding" => resp.content_encoding = text,
            "Location" => resp.location = text,
            _ => resp.vary = text,
        }
    }
    // What has no place of its own, and what rules have added to what has one.
    let is_framing = |name: &[u8]| {
        let framing: [&[u8]; 3] = [b"content-length", b"transfer-encoding", b"connection"];
        framing.iter().any(|framing| name.eq_ignore_ascii_case(framing))
    };
    fields.retain(|(name, _)| !is_framing(name));
    resp.headers = fields.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
}

/// A cookie's field.
fn written(cookie: &Cookie, r: &Request) -> Vec<u8> {
    let mut out = [cookie.name.as_slice(), b"=", &cookie.value, b"; path="].concat();
    out.extend_from_slice(cookie.path.as_deref().unwrap_or(b"/"));
    if !cookie.domain.is_empty() {
        out.extend_from_slice(b"; domain=");
        out.extend_from_slice(&cookie.domain);
    }
    if let Some(minutes) = cookie.lifetime_mins {
        let end = r.now().unix_secs.saturating_add(minutes.saturating_mul(60)).clamp(0, 253_402_300_799);
        out.extend_from_slice(b"; expires=");
        date::append_cookie(end, &mut out);
    }
    if let Some(same_site) = &cookie.same_site {
        out.extend_from_slice(b"; SameSite=");
        out.extend_from_slice(same_site);
    }
    for (is_said, word) in [(cookie.is_secure, "; secure"), (cookie.is_http_only, "; HttpOnly")] {
        if is_said {
            out.extend_from_slice(word.as_bytes());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_go_where_they_belong() {
        let mut resp = Response { last_modified: Some(0), ..Response::default() };
        resp.etag = Some(Text::Static(b"\"a\""));
        resp.say_content_type(Text::Static(b"text/html; charset=utf-8"));
        resp.add("X-One", "1");
        let (fields, _) = read(&resp, 0);
        assert_eq!(fields.len(), 4);
        let without = |name: &str| -> Fields {
            fields.iter().filter(|(known, _)| known != name.as_bytes()).cloned().collect()
        };
        write(&mut resp, without("ETag"));
        assert!(resp.etag.is_none() && resp.last_modified == Some(0) && resp.headers.len() == 1);
        let mut changed = without("Last-Modified");
        changed.retain(|(name, _)| name != b"Content-Type");
        changed.push((b"content-type".to_vec(), b"text/css".to_vec()));
        changed.push((b"Content-Length".to_vec(), b"0".to_vec()));
        write(&mut resp, changed);
        assert_eq!((resp.content_type.as_deref(), resp.charset.as_deref()), (Some(&b"text/css"[..]), None));
        assert!(resp.last_modified.is_none() && resp.header(b"Content-Length").is_none());
    }

    #[test]
    fn what_a_script_says_is_of_every_response() {
        let mut resp = Response { last_modified: Some(0), ..Response::default() };
        let sent = [
            ("ETag", "\"a\""),
            ("X-Powered-By", "PHP"),
            ("location", "/x"),
            ("Vary", "Cookie"),
            ("X-Ours", "1"),
        ];
        for (name, value) in sent {
            resp.add(name, value);
        }
        let (usual, always) = read(&resp, 4);
        let names = |fields: &Fields| -> Vec<String> {
            fields.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect()
        };
        assert_eq!(names(&usual), ["Last-Modified", "ETag", "location", "X-Ours"]);
        assert_eq!(names(&always), ["X-Powered-By", "Vary"]);
        write(&mut resp, usual);
        assert_eq!((resp.headers.len(), resp.last_modified), (3, Some(0)));
    }

    #[test]
    fn fields_of_back_ends_are_not_lost() {
        let mut resp = Response::default();
        let sent = [("Location", "/x"), ("Vary", "Cookie"), ("ETag", "\"a\""), ("Content-Encoding", "br")];
        for (name, value) in sent {
            resp.add(name, value);
        }
        let (mut fields, _) = read(&resp, 0);
        fields.push((b"X-New".to_vec(), b"1".to_vec()));
        fields.retain(|(name, _)| name != b"ETag");
        write(&mut resp, fields);
        for (name, value) in
            [("Location", "/x"), ("Vary", "Cookie"), ("Content-Encoding", "br"), ("X-New", "1")]
        {
            let got = resp.header(name.as_bytes()).map(|text| text.to_vec());
            assert_eq!(got.as_deref(), Some(value.as_bytes()), "{name}");
        }
        assert!(resp.header(b"ETag").is_none() && resp.etag.is_none() && resp.location.is_none());
    }
}
