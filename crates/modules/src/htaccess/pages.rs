//! `INCLUDES`: pages with commands (mod_include), carried out by the server's own includes in Apache's dialect.

use super::carried::{Carried, Present};
use super::facts::{Looked, Seen};
use super::pattern::Pcre;
use super::place::Place;
use super::plan::Effective;
use crate::coding::Named;
use crate::ssi::{Apache, carry_out_as_apache};
use brisk_apache::expr::{Condition, Evaluation, Place as Standing};
use brisk_apache::options::Options;
use brisk_apache::{Facts as _, Stop, Variable};
use brisk_http::date;
use brisk_http::negotiate::Coding;
use brisk_net::file::Kind;
use brisk_server::plan::{Declared, Filter};
use brisk_server::request::Request;
use brisk_server::rlog;
use std::rc::Rc;

/// Carries out the commands of a file to which settings give the filter.
pub struct Pages;

impl Pages {
    /// The settings for the file that is sent, if they name the filter for it.
    fn of(r: &Request) -> Option<Present> {
        let present = Present::of(r).filter(|present| present.effective.has_filters)?;
        let is_named =
            || filters(&present.effective, &present.place).iter().any(|filter| filter == b"includes");
        (present.place.kind == Some(Kind::File) && is_named()).then_some(present)
    }
}

impl Filter for Pages {
    fn reads(&self, r: &Request) -> bool {
        Pages::of(r).is_some()
    }

    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn filter(&self, r: &mut Request) {
        let Some(present) = Pages::of(r).filter(|_| r.resp.status == 200) else { return };
        if !present.effective.options.has(Options::INCLUDES) {
            rlog!(r, Warn, "Options have no Includes: the commands of the page are not carried out");
            return;
        }
        carry_out_as_apache(r, Rc::new(PageFacts { place: present.place }));
    }
}

/// The filters that are named for a file, in small letters: `SetOutputFilter`, and by the endings of its name.
fn filters(effective: &Effective, place: &Place) -> Vec<Vec<u8>> {
    let settings = &effective.settings;
    let by_name = settings.mime.of(place.name(), &|_| None).output_filter.unwrap_or_default();
    let all = [by_name.as_slice(), b";", settings.output_filter.as_deref().unwrap_or_default()].concat();
    all.split(|&byte| byte == b';').map(<[u8]>::to_ascii_lowercase).collect()
}

/// Compresses answers to which settings give a filter that does.
pub struct Compression(pub Named);

impl Filter for Compression {
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn filter(&self, r: &mut Request) {
        let Some(present) = Present::of(r).filter(|present| present.effective.has_filters) else { return };
        let carried = Carried::of(r);
        let is_set = |name: &[u8]| carried.borrow().said.env.iter().any(|(known, _)| known == name);
        let codings: Vec<Coding> = filters(&present.effective, &present.place)
            .iter()
            .filter_map(|filter| match filter.as_slice() {
                b"brotli_compress" if !is_set(b"no-brotli") => Some(Coding::Br),
                b"deflate" if !is_set(b"no-gzip") => Some(Coding::Gzip),
                _ => None,
            })
            .collect();
        self.0.compress(r, &codings);
    }
}

/// What a page may ask of its request.
struct PageFacts {
    place: Rc<Place>,
}

/// CGI's names of what the server's variables are.
const BUILT_IN: [(&str, &str); 12] = [
    ("DATE_LOCAL", "date_local"),
    ("DATE_GMT", "date_gmt"),
    ("REMOTE_ADDR", "remote_addr"),
    ("REMOTE_PORT", "remote_port"),
    ("SERVER_ADDR", "server_addr"),
    ("SERVER_PORT", "server_port"),
    ("SERVER_PROTOCOL", "server_protocol"),
    ("REQUEST_METHOD", "request_method"),
    ("REQUEST_SCHEME", "scheme"),
    ("REQUEST_URI", "request_uri"),
    ("CONTENT_TYPE", "content_type"),
    ("CONTENT_LENGTH", "content_length"),
];

impl PageFacts {
    fn ask<T>(&self, r: &Request, ask: impl FnOnce(&Seen<'_>) -> T) -> T {
        let carried = Carried::of(r);
        let carried = carried.borrow();
        let looked = Looked::default();
        let place = &*self.place;
        ask(&Seen { r, place, carried: &carried, changes: &[], looked: &looked, group_file: None })
    }

    /// What is no variable of the environment.
    fn known(&self, r: &Request, name: &[u8]) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(name).ok()?;
        if let Some((_, own)) = BUILT_IN.iter().find(|(known, _)| *known == text) {
            let mut out = Vec::new();
            return r.var_named(own, &mut out).then_some(out);
        }
        let variable = |variable: Variable| {
            self.ask(r, |seen| seen.variable(&variable).map(std::borrow::Cow::into_owned)).ok()
        };
        let filled = |value: Option<Vec<u8>>| value.filter(|value| !value.is_empty());
        match text {
            "DOCUMENT_NAME" => Some(self.place.name().to_vec()),
            "DOCUMENT_URI" | "SCRIPT_NAME" => {
                let asked = Carried::asked(r);
                let name = asked.strip_suffix(self.place.path_info.as_slice()).map(<[u8]>::to_vec);
                Some(name.unwrap_or(asked))
            }
            "PATH_INFO" => filled(Some(self.place.path_info.clone())),
            "SCRIPT_FILENAME" => Some(self.place.file.clone()),
            "QUERY_STRING" => Some(r.route.args.clone()),
            "QUERY_STRING_UNESCAPED" => {
                let text = brisk_apache::escape::decode_keeping_slashes(&r.route.args);
                Some(text.unwrap_or_else(|| r.route.args.clone()))
            }
            "LAST_MODIFIED" => r.resp.last_modified.map(|time| date::format_imf(time).to_vec()),
            "USER_NAME" | "REMOTE_USER" => filled(variable(Variable::RemoteUser)),
            "AUTH_TYPE" => filled(variable(Variable::AuthType)),
            "SERVER_NAME" => variable(Variable::ServerName),
            "SERVER_SOFTWARE" => variable(Variable::ServerSoftware),
            "DOCUMENT_ROOT" => variable(Variable::DocumentRoot),
            "HTTPS" => variable(Variable::Https).filter(|value| value == b"on"),
            "GATEWAY_INTERFACE" => Some(b"CGI/1.1".to_vec()),
            _ => {
                let field = text.strip_prefix("HTTP_")?.replace('_', "-");
                // As for applications: passwords are for the server.
                if field.eq_ignore_ascii_case("Authorization")
                    || field.eq_ignore_ascii_case("Proxy-Authorization")
                {
                    return None;
                }
                self.ask(r, |seen| seen.request_field(field.as_bytes()).map(std::borrow::Cow::into_owned))
            }
        }
    }
}

impl Apache for PageFacts {
    fn variable(&self, r: &Request, name: &[u8], out: &mut Vec<u8>) -> bool {
        let of_env = {
            let carried = Carried::of(r);
            let carried = carried.borrow();
            carried.said.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        };
        let found = of_env.or_else(|| self.known(r, name));
        found.inspect(|value| out.extend_from_slice(value)).is_some()
    }

    fn all(&self, r: &Request) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut all = Carried::of(r).borrow().said.env.clone();
        let others = ["DOCUMENT_NAME", "DOCUMENT_URI", "QUERY_STRING", "LAST_MODIFIED", "SERVER_NAME"];
        for name in BUILT_IN.iter().map(|(name, _)| *name).chain(others) {
            if let Some(value) = self.known(r, name.as_bytes()) {
                all.push((name.as_bytes().to_vec(), value));
            }
        }
        all
    }

    fn holds(&self, r: &Request, expression: &[u8]) -> Result<bool, String> {
        let condition = Condition::parse(expression, Standing::Override, &Pcre::default())?;
        self.ask(r, |seen| Evaluation::new(seen).holds(&condition)).map_err(|stop| match stop {
            Stop::Failed(why) => why,
            Stop::Wait => "an expression of a page may not look at files".into(),
        })
    }
}
