//! `ngx_http_uwsgi_module`: requests are answered by uWSGI.

use super::plain::{Plain, Question};
use super::{Conf, Location, Own};
use crate::address::Schemes;
use crate::ssl::peer::{self, PeerTls};
use brisk_conf::{Arity, Context, Default as D, Diag, Token, value};
use brisk_gateway::uwsgi::RequestWriter;
use brisk_http::Method;
use brisk_server::conf::Cx;
use brisk_server::flow::Flow;
use brisk_server::module::{Module, Row, Set};
use brisk_server::request::Request;
use brisk_server::row;
use brisk_upstream::codec::Codec;
use brisk_upstream::conf::Settings;
use brisk_upstream::origin::Ask;
use brisk_upstream::protocol::{BodyShape, Protocol, Target, wants_upgrade};
use brisk_upstream::settings_rows;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "uwsgi",
    rows: ROWS,
    conf: Conf::<Uwsgi>::initial,
    finish: Some(super::finish::<Uwsgi>),
    install: Some(super::install::<Uwsgi>),
    ..Module::EMPTY
};

static ROWS: &[Row] = settings_rows!(
    "uwsgi",
    Conf<Uwsgi>,
    [
        row!(
            "uwsgi_modifier1",
            Context::HSL,
            Arity::ONE,
            D::Value("0"),
            Replace,
            false,
            "The first modifier of the packet, from 0 to 255: which plug-in of uWSGI answers.",
            Set::Simple(|cx, d| {
                cx.conf::<Conf<Uwsgi>>().own.modifier1 = modifier(d.arg(0))?;
                Ok(())
            })
        ),
        row!(
            "uwsgi_modifier2",
            Context::HSL,
            Arity::ONE,
            D::Value("0"),
            Replace,
            false,
            "The second modifier of the packet, from 0 to 255.",
            Set::Simple(|cx, d| {
                cx.conf::<Conf<Uwsgi>>().own.modifier2 = modifier(d.arg(0))?;
                Ok(())
            })
        ),
        row!(
            "uwsgi_param",
            Context::HSL,
            Arity::between(2, 3),
            D::Nothing,
            Replace,
            true,
            "A parameter for the application; with if_not_empty only if it has a value. Inherited where no uwsgi_param is written.",
            Set::Simple(super::param::<Uwsgi>)
        ),
        row!(
            "uwsgi_pass",
            Context::LOCATION.or(Context::LOCATION_IF),
            Arity::ONE,
            D::Nothing,
            No,
            false,
            "The application's address (host:port, unix:/path, with uwsgi:// before it if you like, or suwsgi:// for TLS) or an upstream; may contain variables.",
            Set::Simple(super::pass::<Uwsgi>)
        ),
        row!(
            "uwsgi_string",
            Context::HSL,
            Arity::ONE,
            D::Nothing,
            Replace,
            false,
            "Bytes that are put behind the parameters as they are.",
            Set::Simple(|cx, d| {
                cx.conf::<Conf<Uwsgi>>().own.string = d.arg(0).bytes().into();
                Ok(())
            })
        ),
    ]
);

/// What the module has beside the common settings.
#[derive(Clone)]
pub struct Uwsgi {
    modifier1: u8,
    modifier2: u8,
    string: Arc<[u8]>,
}

impl Own for Uwsgi {
    const PREFIX: &'static str = "uwsgi";
    const TEMP: &'static str = "uwsgi_temp";
    const SCHEMES: Schemes = Schemes { plain: "uwsgi://", tls: Some("suwsgi://") };

    fn new() -> Uwsgi {
        Uwsgi { modifier1: 0, modifier2: 0, string: Arc::default() }
    }

    fn tls(cx: &mut Cx<'_, '_>) -> Result<Option<Arc<PeerTls>>, Diag> {
        peer::build::<{ peer::UWSGI }>(cx, false).map(Some)
    }
}

fn modifier(token: &Token) -> Result<u8, Diag> {
    u8::try_from(value::number(token)?).map_err(|_| {
        Diag::emerg(token.span, "value must be between 0 and 255").help("a modifier is one byte")
    })
}

impl Protocol for Location<Uwsgi> {
    type Way = ();

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn target(&self, r: &mut Request, _: &Ask) -> Result<Target<()>, Flow> {
        self.target(r)
    }

    fn codec(&self, r: &Request, (): &(), ask: &Ask, _: BodyShape) -> Result<Box<dyn Codec>, Flow> {
        let mut head = Vec::with_capacity(2048);
        let mut writer = RequestWriter::new(self.own.modifier1, self.own.modifier2, &mut head);
        self.params.write(r, ask.cacheable, &ask.fields, &mut writer);
        writer.raw(&self.own.string);
        if let Err(size) = writer.finish() {
            brisk_server::rlog!(r, Error, "uwsgi request is too big: {size}");
            return Err(Flow::Status(500));
        }
        Ok(Box::new(Plain::new(Question {
            head,
            is_head: r.method == Method::Head,
            cacheable: ask.cacheable,
            upgrade: wants_upgrade(r),
        })))
    }

    fn streams_unknown_length(&self) -> bool {
        false
    }
}
