//! `ngx_http_headers_module`: header fields and trailers that the configuration adds, `expires`.

mod expires;

use brisk_conf::{Arity, Context, Diag, Directive, Risk, Token, value};
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::directive::directive;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::{Declared, Filter, Plan, Stage, Trailers};
use brisk_server::request::Request;
use brisk_server::response::Response;
use brisk_server::text::Text;
use brisk_server::vars::Template;
use expires::Expires;
use std::rc::Rc;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "headers",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[
    // A security matter: policies of browsers (CSP, HSTS) are set here, and an inner block's first one ends those of the outer.
    directive("add_header")
        .doc("Adds a header field to responses with status 200, 201, 204, 206, 301, 302, 303, 304, 307 or 308, with always to any. Inherited only where no add_header is written, unless add_header_inherit says otherwise. An empty value adds nothing; Last-Modified and ETag are replaced.")
        .in_(Context::HSLI)
        .arity(Arity::between(2, 3))
        .takes("NAME VALUE [always]")
        .many()
        .risk(Risk::Security)
        .example("add_header X-Content-Type-Options nosniff always;")
        .set(|cx, d| {
            // Known when it is read, so that no name is compared for each answer.
            let field = field(cx, d, Kind::of(d.arg(0)))?;
            cx.conf::<Conf>().headers.own.push(field);
            Ok(())
        }),
    directive("add_trailer")
        .doc("Adds a field behind the body, computed when the body is complete; for the same statuses as add_header. HTTP/1.1 responses are chunked then.")
        .in_(Context::HSLI)
        .arity(Arity::between(2, 3))
        .takes("NAME VALUE [always]")
        .many()
        .example("add_trailer Server-Timing $request_time;")
        .set(|cx, d| {
            let field = field(cx, d, Kind::Add)?;
            cx.conf::<Conf>().trailers.own.push(field);
            Ok(())
        }),
    // `on` by default, as in nginx, although `merge` is what most people expect.
    directive("add_header_inherit")
        .doc("Whether header fields of the outer block are added where the inner one has none (on), never (off), or always, after the inner one's (merge).")
        .in_(Context::HSLI)
        .takes_one_of(&INHERIT)
        .default("on")
        .risk(Risk::Security)
        .example("add_header_inherit merge;")
        .set(|cx, d| {
            cx.conf::<Conf>().headers.inherit = value::choice(d.arg(0), &INHERIT)?;
            Ok(())
        }),
    directive("add_trailer_inherit")
        .doc("As add_header_inherit, for trailers.")
        .in_(Context::HSLI)
        .takes_one_of(&INHERIT)
        .default("on")
        .example("add_trailer_inherit merge;")
        .set(|cx, d| {
            cx.conf::<Conf>().trailers.inherit = value::choice(d.arg(0), &INHERIT)?;
            Ok(())
        }),
    // Computed for each answer; what it depends on (the time) is recorded, and bounds how long an answer is prepared.
    directive("expires")
        .doc("Sets Expires and Cache-Control: a time from now (negative: no-cache), modified TIME from the file's own time, @TIME of the day, epoch, max or off. May contain variables.")
        .in_(Context::HSLI)
        .arity(Arity::between(1, 2))
        .takes("[modified] TIME | epoch | max | off")
        .default("off")
        .example("expires 30d;")
        .set(|cx, d| {
            let expires = expires::parse(cx, d)?;
            cx.conf::<Conf>().expires = expires;
            Ok(())
        }),
];

/// `add_header_inherit`, `add_trailer_inherit`.
#[derive(Clone, Copy, Default)]
enum Inherit {
    Off,
    #[default]
    On,
    Merge,
}

/// A directive that adds fields: what is written here and what the outer block has.
#[derive(Clone, Default)]
struct Fields {
    own: Vec<Arc<Field>>,
    outer: Vec<Arc<Field>>,
    inherit: Inherit,
}

impl Fields {
    /// What applies in this block.
    fn effective(&self) -> Vec<Arc<Field>> {
        match self.inherit {
            Inherit::Off => self.own.clone(),
            Inherit::On if self.own.is_empty() => self.outer.clone(),
            // Any field of its own ends the inheritance: one cannot take a single one away otherwise.
            Inherit::On => self.own.clone(),
            // The inner block's first, as in nginx.
            Inherit::Merge => self.own.iter().chain(&self.outer).cloned().collect(),
        }
    }

    /// An inner block begins with nothing of its own; what applied outside is what it may inherit.
    fn enter(&mut self) {
        // What the outer block would add and not only what it says: `off` there ends the chain.
        self.outer = self.effective();
        self.own.clear();
    }
}

#[derive(Clone, Default)]
struct Conf {
    headers: Fields,
    trailers: Fields,
    expires: Expires,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }

    /// Blocks without fields share their parent's configuration: only where there are some is a copy made.
    fn must_enter(&self, _: Context) -> bool {
        // What was inherited moves too: of an outer block's own it becomes the outer's.
        let moves = |fields: &Fields| !fields.own.is_empty() || !fields.outer.is_empty();
        moves(&self.headers) || moves(&self.trailers)
    }

    fn enter(&mut self, _: Context) -> bool {
        self.headers.enter();
        self.trailers.enter();
        true
    }
}

/// What a field does to those that are there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Add,
    SetLastModified,
    SetEtag,
}

impl Kind {
    fn of(name: &Token) -> Kind {
        match name.bytes().to_ascii_lowercase().as_slice() {
            // A second one of these would contradict the first: clients compare them when they revalidate.
            b"last-modified" => Kind::SetLastModified,
            b"etag" => Kind::SetEtag,
            _ => Kind::Add,
        }
    }
}

/// One `add_header` or `add_trailer`.
struct Field {
    name: Text,
    value: Value,
    always: bool,
    kind: Kind,
}

enum Value {
    Literal(Text),
    Template(Template),
}

impl Field {
    fn value(&self, r: &Request) -> Text {
        match &self.value {
            Value::Literal(text) => text.clone(),
            Value::Template(template) => template.eval(r).into(),
        }
    }
}

fn field(cx: &mut Cx<'_, '_>, d: &Directive, kind: Kind) -> Result<Arc<Field>, Diag> {
    let template = cx.template(d.arg(1))?;
    let always = match d.args.get(2) {
        None => false,
        Some(token) if token.bytes() == b"always" => true,
        Some(token) => return Err(invalid_parameter(token).help("the only parameter is always")),
    };
    let value = match template.as_literal() {
        // Shared with all answers: no copy per request.
        Some(text) => Value::Literal(Arc::<[u8]>::from(text).into()),
        None => Value::Template(template),
    };
    let name = Arc::<[u8]>::from(d.arg(0).bytes()).into();
    Ok(Arc::new(Field { name, value, always, kind }))
}

/// The words of `add_header_inherit` and `add_trailer_inherit`.
const INHERIT: [(&str, Inherit); 3] = [("off", Inherit::Off), ("on", Inherit::On), ("merge", Inherit::Merge)];

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf: &Conf = cx.conf_of();
    let headers = conf.headers.effective();
    let trailers = conf.trailers.effective();
    // Without anything to do there is no filter, and a request costs nothing for the module.
    if headers.is_empty() && trailers.is_empty() && conf.expires.is_off() {
        return;
    }
    let filter = Headers { fields: headers.into(), trailers: trailers.into(), expires: conf.expires.clone() };
    plan.add_filter(Stage::Headers, Arc::new(filter));
}

struct Headers {
    fields: Box<[Arc<Field>]>,
    trailers: Arc<[Arc<Field>]>,
    expires: Expires,
}

/// Whether fields without `always` are added.
/// nginx's list. An error's page is not what `expires` and the fields of the location were written for.
fn is_safe(status: u16) -> bool {
    matches!(status, 200 | 201 | 204 | 206 | 301 | 302 | 303 | 304 | 307 | 308)
}

impl Filter for Headers {
    /// Trailers are made when the body has been sent, so what they read is not known before.
    fn declares(&self) -> Declared {
        if self.trailers.is_empty() { Declared::RECORDED } else { Declared::ANYTHING }
    }

    fn filter(&self, r: &mut Request) {
        let safe = is_safe(r.resp.status);
        if safe {
            // Before the fields: `add_header Cache-Control` adds to what `expires` has set, as in nginx.
            self.expires.apply(r);
        }
        for field in self.fields.iter().filter(|field| safe || field.always) {
            let value = field.value(r);
            match field.kind {
                // An empty value is how a `map` says "no field".
                Kind::Add if value.is_empty() => {}
                Kind::Add => r.resp.add(field.name.clone(), value),
                // An empty one removes the tag.
                Kind::SetEtag => r.resp.etag = Some(value).filter(|value| !value.is_empty()),
                Kind::SetLastModified => set_last_modified(&mut r.resp, &field.name, value),
            }
        }
        if self.trailers.iter().any(|field| safe || field.always) {
            // Evaluated when the body is complete: variables such as $request_time are known only then.
            r.resp.trailers.push(Rc::new(AddTrailers(self.trailers.clone())));
        }
    }
}

/// A time in the usual form is the response's own; any other text is sent as it is.
fn set_last_modified(resp: &mut Response, name: &Text, value: Text) {
    resp.clear_last_modified();
    if !value.is_empty() {
        resp.say_last_modified(name.clone(), value, resp.status);
    }
}

struct AddTrailers(Arc<[Arc<Field>]>);

impl Trailers for AddTrailers {
    fn append(&self, r: &Request) {
        let safe = is_safe(r.resp.status);
        // The status is judged again: it is the one that was sent.
        for field in self.0.iter().filter(|field| safe || field.always) {
            let value = field.value(r);
            if !value.is_empty() {
                r.resp.sent_trailers.borrow_mut().push((field.name.clone(), value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::messages_in_location;

    #[test]
    fn parameters_are_checked() {
        messages_in_location(
            "add_header X-A b; add_header X-A $uri always; add_trailer X ''; expires 1d;",
            &[],
        );
        messages_in_location("add_header_inherit merge; add_trailer_inherit off; add_header A '';", &[]);
        messages_in_location("add_header A b often;", &["invalid parameter \"often\""]);
        messages_in_location("add_header A;", &["invalid number of arguments in \"add_header\" directive"]);
        messages_in_location("add_header_inherit all;", &["invalid value \"all\""]);
    }

    #[test]
    fn fields_are_inherited_as_told() {
        let field = |name: &'static str| {
            Arc::new(Field {
                name: name.into(),
                value: Value::Literal("x".into()),
                always: false,
                kind: Kind::Add,
            })
        };
        let names = |fields: &Fields| {
            let list = fields.effective();
            let names = list.iter().map(|f| String::from_utf8(f.name.to_vec()).unwrap());
            names.collect::<Vec<_>>().join(" ")
        };
        let check = |inherit, own: &[&'static str], want: &str, inner: &str| {
            let mut fields = Fields { own: vec![field("Outer")], ..Fields::default() };
            fields.enter();
            fields.inherit = inherit;
            fields.own.extend(own.iter().map(|name| field(name)));
            assert_eq!(names(&fields), want);
            fields.enter();
            assert_eq!(names(&fields), inner, "inside of {want}");
        };
        check(Inherit::On, &[], "Outer", "Outer");
        check(Inherit::On, &["A", "B"], "A B", "A B");
        check(Inherit::Merge, &["A", "B"], "A B Outer", "A B Outer");
        check(Inherit::Off, &[], "", "");
        check(Inherit::Off, &["A"], "A", "");
    }

    #[test]
    fn last_modified_is_replaced() {
        let check = |value: &'static str, time: Option<i64>, sent: Option<&str>| {
            let mut resp = Response { status: 200, last_modified: Some(7), ..Response::default() };
            set_last_modified(&mut resp, &"Last-Modified".into(), value.into());
            assert_eq!(resp.last_modified, time, "{value}");
            assert_eq!(resp.header(b"Last-Modified").map(|text| &text[..]), sent.map(str::as_bytes));
        };
        check("Thu, 01 Jan 1970 00:00:10 GMT", Some(10), None);
        check("Thursday, 01-Jan-70 00:00:10 GMT", None, Some("Thursday, 01-Jan-70 00:00:10 GMT"));
        check("yesterday", None, Some("yesterday"));
        check("", None, None);
    }
}
