//! `ngx_http_charset_module`: names the charset of text and recodes it.

mod map;
mod recode;

use crate::media_types::{MediaTypes, types_row};
use brisk_conf::{Arity, Context, Diag, Directive, Token};
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::{Declared, Filter, Plan, Stage};
use brisk_server::request::Request;
use brisk_server::text::Text;
use brisk_server::vars::Template;

use map::Map;
use recode::Recoder;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "charset",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    finish: Some(finish),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

/// nginx's list: no binary type is in it.
const TYPES: &str =
    "text/html text/xml text/plain text/vnd.wap.wml application/javascript application/rss+xml";

static ROWS: &[Row] = &[
    directive("charset")
        .doc("The charset that is added to the Content-Type of responses; a variable may give it. If source_charset is another one, responses are recoded.")
        .in_(Context::HSLI)
        .takes("CHARSET | $VARIABLE | off")
        .default("off")
        .example("charset utf-8;")
        .set(|cx, d| {
            let charset = if d.arg(0).bytes() == b"off" { None } else { Some(name(cx, d.arg(0))?) };
            cx.conf::<Conf>().charset = charset;
            Ok(())
        }),
    directive("source_charset")
        .doc("The charset in which responses are; a charset_map must connect it with charset.")
        .in_(Context::HSLI)
        .takes("CHARSET")
        .example("source_charset koi8-r;")
        .set(|cx, d| {
            let charset = name(cx, d.arg(0))?;
            cx.conf::<Conf>().source = Some(charset);
            Ok(())
        }),
    // Off: what a back end says of its own answer is believed.
    directive("override_charset")
        .doc("Whether responses that come with a charset of their own are recoded too.")
        .in_(Context::HSLI)
        .takes_flag()
        .default("off")
        .example("override_charset on;")
        .sets(|cx, on| cx.conf::<Conf>().overrides = on),
    types_row!(Conf, "charset_types", TYPES, "to which the module applies"),
    directive("charset_map")
        .doc("A table between two charsets: a byte of the first and the byte (or, for utf-8, the bytes) of the second in hexadecimal per line. Both directions are used.")
        .in_(Context::HTTP)
        .arity(Arity::TWO.block())
        .takes("CHARSET CHARSET")
        .many()
        .definition()
        .example("charset_map koi8-r utf-8 { C0 D18E; C1 D0B0; }")
        .set(charset_map),
];

#[derive(Clone)]
struct Conf {
    /// `None`: off.
    charset: Option<Template>,
    source: Option<Template>,
    overrides: bool,
    types: Arc<MediaTypes>,
    maps: Arc<[Arc<Map>]>,
}

impl Default for Conf {
    fn default() -> Conf {
        Conf {
            charset: None,
            source: None,
            overrides: false,
            types: Arc::new(MediaTypes::of(TYPES)),
            maps: Arc::new([]),
        }
    }
}

impl ModuleConf for Conf {
    // A few pointers: tables and types are shared.
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

/// A charset's name, or the variable that holds it.
fn name(cx: &mut Cx<'_, '_>, token: &Token) -> Result<Template, Diag> {
    // Only a whole variable: a name with a dollar sign in it is a name.
    if token.bytes().starts_with(b"$") { cx.template(token) } else { Ok(Template::literal(token.bytes())) }
}

fn charset_map(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let map = Map::parse(d)?;
    let conf = cx.conf::<Conf>();
    let (a, b) = (d.arg(0), d.arg(1));
    if conf.maps.iter().any(|have| have.connects(a.bytes(), b.bytes()).is_some()) {
        return Err(Diag::emerg(
            d.span,
            format!("duplicate \"charset_map\" between \"{}\" and \"{}\"", a.text(), b.text()),
        )
        .help("one map serves both directions"));
    }
    // Made anew rather than changed: blocks that were entered before share the old list.
    conf.maps = conf.maps.iter().cloned().chain([Arc::new(map)]).collect();
    Ok(())
}

/// Charsets that are known by name must be connected by a map.
fn finish(cx: &mut Cx<'_, '_>) -> Result<(), Diag> {
    let serves = Context::SERVER.or(Context::LOCATION).or(Context::LOCATION_IF);
    let conf: &Conf = cx.conf_of();
    let (Some(charset), Some(source), true) = (&conf.charset, &conf.source, serves.has(cx.block)) else {
        return Ok(());
    };
    // What variables name is looked for when a request comes, and told in the log.
    let (Some(to), Some(from)) = (charset.as_literal(), source.as_literal()) else { return Ok(()) };
    if from.eq_ignore_ascii_case(to) || Recoder::find(&conf.maps, from, to).is_some() {
        return Ok(());
    }
    let message = no_map(from, to);
    // Inner blocks inherit the fault, not the message.
    if cx.global.diags.iter().any(|diag| diag.message == message) {
        return Ok(());
    }
    Err(Diag::global(message).help("add a charset_map to http, or remove source_charset"))
}

fn no_map(from: &[u8], to: &[u8]) -> String {
    let (from, to) = (String::from_utf8_lossy(from), String::from_utf8_lossy(to));
    format!("no \"charset_map\" between the charsets \"{from}\" and \"{to}\"")
}

/// The charset that responses of a media type get in the block that is being installed.
pub fn of_type(cx: &Cx<'_, '_>, media: &[u8]) -> Option<Template> {
    let conf: &Conf = cx.conf_of();
    conf.charset.clone().filter(|_| conf.types.has(media))
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf: &Conf = cx.conf_of();
    // Without a charset there is still what back ends ask for, and that needs a map.
    if conf.charset.is_none() && conf.maps.is_empty() {
        return;
    }
    // What a variable looks at is noted when it is read.
    // Also without a charset of its own: a back end can ask for one (`X-Accel-Charset`).
    plan.add_filter(Stage::Charset, Arc::new(conf.clone()));
}

impl Filter for Conf {
    // A name for what is sent as it is reads nothing.
    fn reads(&self, r: &Request) -> bool {
        let (to, from) = (self.destination(r), self.source_of(r));
        to.zip(from).is_some_and(|(to, from)| !from.eq_ignore_ascii_case(&to))
    }

    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn filter(&self, r: &mut Request) {
        let Some(to) = self.destination(r) else { return };
        let Some(from) = self.source_of(r) else { return set_charset(r, to) };
        if from.eq_ignore_ascii_case(&to) {
            return set_charset(r, to);
        }
        if r.resp.is_coded() {
            // Bytes of a coding are no text; the charset is not named either, as it would be wrong.
            return;
        }
        match Recoder::find(&self.maps, &from, &to) {
            Some(recoder) => {
                set_charset(r, to);
                recode::apply(&mut r.resp, recoder);
            }
            // The back end has named it itself (`X-Accel-Charset`) and is believed.
            None if r.resp.wanted_charset.is_some() => set_charset(r, to),
            None => brisk_server::rlog!(r, Error, "{}", no_map(&from, &to)),
        }
    }
}

impl Conf {
    /// The charset that the response shall have, if the module applies to it.
    fn destination(&self, r: &Request) -> Option<Text> {
        let content_type = r.resp.content_type.as_ref().filter(|media| !media.is_empty())?;
        if r.resp.wanted_charset.is_some() {
            return r.resp.wanted_charset.clone();
        }
        let has_charset = r.resp.charset.as_ref().is_some_and(|name| !name.is_empty());
        // A response that names its charset knows better, unless it is said otherwise.
        let applies = if has_charset { self.overrides } else { self.types.has(content_type) };
        let charset = self.charset.as_ref().filter(|_| applies)?;
        Some(value(charset, r)).filter(|name| !name.is_empty())
    }

    /// The charset that it has.
    fn source_of(&self, r: &Request) -> Option<Text> {
        let own = r.resp.charset.clone().filter(|name| !name.is_empty());
        own.or_else(|| self.source.as_ref().map(|source| value(source, r)))
    }
}

fn value(template: &Template, r: &Request) -> Text {
    template.eval(r).into()
}

fn set_charset(r: &mut Request, name: Text) {
    // Old browsers took the charset of a redirect for that of the next page; nginx spares them, so do we.
    r.resp.charset = (!matches!(r.resp.status, 301 | 302)).then_some(name);
}

#[cfg(test)]
mod tests {
    use crate::check::{messages, messages_in_location};

    fn check_http(directives: &str, want: &[&str]) {
        messages(&format!("{directives} server {{ location / {{}} }}"), want);
    }

    #[test]
    fn parameters_are_checked() {
        messages_in_location("charset utf-8; source_charset utf-8; charset_types text/css *;", &[]);
        messages_in_location("charset off; override_charset on;", &[]);
        messages_in_location("charset $arg_c;", &[]);
        messages_in_location("charset_types text/HTML text/css;", &["duplicate MIME type \"text/html\""]);
        messages_in_location(
            "charset A; source_charset b;",
            &["no \"charset_map\" between the charsets \"b\" and \"A\""],
        );
    }

    #[test]
    fn maps_connect_charsets() {
        check_http("charset_map A B { 58 59; } charset b; source_charset a;", &[]);
        check_http("charset_map A B { 58 59; } charset a; source_charset b;", &[]);
        check_http(
            "charset utf-8; source_charset koi8-r;",
            &["no \"charset_map\" between the charsets \"koi8-r\" and \"utf-8\""],
        );
        check_http(
            "charset_map A B {} charset_map b a {}",
            &["duplicate \"charset_map\" between \"b\" and \"a\""],
        );
    }
}
