//! `ngx_http_scgi_module`: requests are answered by SCGI applications.

use super::plain::{Plain, Question};
use super::{Conf, Location, Own, initial};
use crate::address::Schemes;
use brisk_conf::{Arity, Context};
use brisk_gateway::scgi::RequestWriter;
use brisk_http::Method;
use brisk_server::directive::directive;
use brisk_server::flow::Flow;
use brisk_server::module::{Module, Row};
use brisk_server::request::Request;
use brisk_upstream::codec::Codec;
use brisk_upstream::conf::Settings;
use brisk_upstream::origin::Ask;
use brisk_upstream::protocol::{BodyShape, Protocol, Target, wants_upgrade};
use brisk_upstream::settings_rows;

pub static MODULE: Module = Module {
    name: "scgi",
    rows: ROWS,
    conf: initial::<Scgi>,
    finish: Some(super::finish::<Scgi>),
    install: Some(super::install::<Scgi>),
    ..Module::EMPTY
};

static ROWS: &[Row] = settings_rows!(
    "scgi",
    Conf<Scgi>,
    [
        // nginx has no default for these: without any the application gets no method and no path.
        directive("scgi_param")
            .doc("A parameter for the application; with if_not_empty only if it has a value. Inherited where no scgi_param is written. CONTENT_LENGTH is always sent.")
            .in_(Context::HSL)
            .arity(Arity::between(2, 3))
            .takes("NAME VALUE [if_not_empty]")
            .many()
            .example("scgi_param REQUEST_URI $request_uri;")
            .set(super::param::<Scgi>),
        // A location, not a server: nothing is passed on by accident.
        directive("scgi_pass")
            .doc("The application's address (host:port, unix:/path) or an upstream; may contain variables.")
            .in_(Context::LOCATION.or(Context::LOCATION_IF))
            .takes("ADDRESS")
            .not_inherited()
            .example("scgi_pass unix:/run/app.sock;")
            .set(super::pass::<Scgi>),
    ]
);

/// Nothing beside the common settings.
#[derive(Clone)]
pub struct Scgi;

impl Own for Scgi {
    const PREFIX: &'static str = "scgi";
    const TEMP: &'static str = "scgi_temp";
    // The protocol has no form over TLS.
    const SCHEMES: Schemes = Schemes { plain: "scgi://", tls: None };

    fn new() -> Scgi {
        Scgi
    }
}

impl Protocol for Location<Scgi> {
    type Way = ();

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn target(&self, r: &mut Request, _: &Ask) -> Result<Target<()>, Flow> {
        self.target(r)
    }

    fn codec(&self, r: &Request, (): &(), ask: &Ask, body: BodyShape) -> Result<Box<dyn Codec>, Flow> {
        // SCGI wants CONTENT_LENGTH as its first header, "0" included, so it is not left to the configuration.
        let length = if let BodyShape::Length(length) = body { length } else { 0 };
        // Parameters of an ordinary request fit without growing.
        let mut head = Vec::with_capacity(2048);
        let mut writer = RequestWriter::new(length, &mut head);
        self.params.write(r, ask.cacheable, &ask.fields, &mut writer);
        writer.finish();
        Ok(Box::new(Plain::new(Question {
            head,
            is_head: r.route.method == Method::Head,
            cacheable: ask.cacheable,
            // An application can take a WebSocket over: behind its 101 the connection is a tunnel.
            upgrade: wants_upgrade(r),
        })))
    }

    /// CONTENT_LENGTH stands before the body: a chunked one is read first.
    fn streams_unknown_length(&self) -> bool {
        false
    }
}
