//! `ngx_http_uwsgi_module`: requests are answered by uWSGI.

use super::plain::{Plain, Question};
use super::{Conf, Location, Own, initial};
use crate::address::Schemes;
use crate::ssl::peer::{self, PeerTls};
use brisk_conf::{Arity, Context, Diag};
use brisk_gateway::uwsgi::RequestWriter;
use brisk_http::Method;
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::flow::Flow;
use brisk_server::module::{Module, Row};
use brisk_server::request::Request;
use brisk_upstream::codec::Codec;
use brisk_upstream::conf::Settings;
use brisk_upstream::origin::Ask;
use brisk_upstream::protocol::{BodyShape, Protocol, Target, wants_upgrade};
use brisk_upstream::settings_rows;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "uwsgi",
    rows: ROWS,
    conf: initial::<Uwsgi>,
    finish: Some(super::finish::<Uwsgi>),
    install: Some(super::install::<Uwsgi>),
    ..Module::EMPTY
};

static ROWS: &[Row] = settings_rows!(
    "uwsgi",
    Conf<Uwsgi>,
    [
        // Numbers of uWSGI's protocol: 0 is Python's plug-in, 5 Perl's.
        directive("uwsgi_modifier1")
            .doc("The first modifier of the packet, from 0 to 255: which plug-in of uWSGI answers.")
            .in_(Context::HSL)
            .takes_number()
            .range(0, 255)
            .unit("modifier")
            .default("0")
            .example("uwsgi_modifier1 14;")
            .sets(|cx, modifier| cx.conf::<Conf<Uwsgi>>().module.own.modifier1 = modifier as u8),
        directive("uwsgi_modifier2")
            .doc("The second modifier of the packet, from 0 to 255.")
            .in_(Context::HSL)
            .takes_number()
            .range(0, 255)
            .unit("modifier")
            .default("0")
            .example("uwsgi_modifier2 1;")
            .sets(|cx, modifier| cx.conf::<Conf<Uwsgi>>().module.own.modifier2 = modifier as u8),
        // (As with `scgi_param`.)
        directive("uwsgi_param")
            .doc("A parameter for the application; with if_not_empty only if it has a value. Inherited where no uwsgi_param is written.")
            .in_(Context::HSL)
            .arity(Arity::between(2, 3))
            .takes("NAME VALUE [if_not_empty]")
            .many()
            .example("uwsgi_param REQUEST_URI $request_uri;")
            .set(super::param::<Uwsgi>),
        directive("uwsgi_pass")
            .doc("The application's address (host:port, unix:/path, with uwsgi:// before it if you like, or suwsgi:// for TLS) or an upstream; may contain variables.")
            .in_(Context::LOCATION.or(Context::LOCATION_IF))
            .takes("[uwsgi:// | suwsgi://]ADDRESS")
            .not_inherited()
            .example("uwsgi_pass unix:/run/app.sock;")
            .set(super::pass::<Uwsgi>),
        // Such as a key that uWSGI's internal routing asks for.
        directive("uwsgi_string")
            .doc("Bytes that are put behind the parameters as they are.")
            .in_(Context::HSL)
            .takes("TEXT")
            .example("uwsgi_string 'extra';")
            .set(|cx, d| {
                cx.conf::<Conf<Uwsgi>>().module.own.string = d.arg(0).bytes().into();
                Ok(())
            }),
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
        // Without HTTP/2: the protocol has no form for it.
        peer::build::<{ peer::UWSGI }>(cx, false).map(Some)
    }
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
        // Parameters of an ordinary request fit without growing.
        let mut head = Vec::with_capacity(2048);
        let mut writer = RequestWriter::new(self.own.modifier1, self.own.modifier2, &mut head);
        self.params.write(r, ask.cacheable, &ask.fields, &mut writer);
        // Behind the parameters, as it is: whoever writes it makes it fit.
        writer.raw(&self.own.string);
        // The packet's length is 16 bits, so all parameters together have a limit.
        if let Err(size) = writer.finish() {
            brisk_server::rlog!(r, Error, "uwsgi request is too big: {size}");
            return Err(Flow::Status(500));
        }
        Ok(Box::new(Plain::new(Question {
            head,
            is_head: r.route.method == Method::Head,
            cacheable: ask.cacheable,
            // uWSGI answers WebSockets itself: behind its 101 the connection is a tunnel.
            upgrade: wants_upgrade(r),
        })))
    }

    /// The protocol has no end of a body but its length, which parameters must say before it: a chunked one is
    /// read first.
    fn streams_unknown_length(&self) -> bool {
        false
    }
}
