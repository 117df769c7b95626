//! `ngx_http_empty_gif_module`: a transparent pixel from memory.

use crate::own_handler::{self, OwnHandler};
use brisk_http::Method;
use brisk_server::conf::Cx;
use brisk_server::flow::Flow;
use brisk_server::module::{Module, Row};
use brisk_server::plan::{Declared, Declaring, Plan};
use brisk_server::request::Request;
use brisk_server::text::Text;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "empty_gif",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[own_handler::row::<Settings>(
    "empty_gif",
    "Answers GET and HEAD with a transparent GIF of one pixel.",
    "empty_gif;",
)];

/// One transparent pixel in 43 bytes.
const GIF: &[u8] = b"GIF89a\
    \x01\0\x01\0\x80\x01\0\
    \0\0\0\xff\xff\xff\
    \x21\xf9\x04\x01\0\0\x01\0\
    \x2c\0\0\0\0\x01\0\x01\0\0\
    \x02\x02\x4c\x01\0\x3b";

/// Mon, 28 Sep 1970 06:00:00 GMT, as nginx has it.
const MODIFIED: i64 = 23_349_600;

/// There are none: the type stands for the module.
#[derive(Clone, Default)]
struct Settings;

type Conf = OwnHandler<Settings>;

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    if cx.conf_of::<Conf>().is_on {
        plan.content = Some(Arc::new(Declaring(Declared::RECORDED, handle)));
    }
}

fn handle(r: &mut Request) -> Flow {
    if !matches!(r.route.method, Method::Get | Method::Head) {
        return Flow::Status(405);
    }
    // Static: no byte of it is copied.
    r.resp.text(200, Text::Static(b"image/gif"), Text::Static(GIF));
    r.resp.last_modified = Some(MODIFIED);
    Flow::Done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{http, messages_in_location};

    #[test]
    fn the_picture_is_whole() {
        assert_eq!(GIF.len(), 43);
        assert_eq!(brisk_http::date::format_imf(MODIFIED), *b"Mon, 28 Sep 1970 06:00:00 GMT");
    }

    #[test]
    fn inner_locations_have_their_own_handler() {
        messages_in_location("empty_gif;", &[]);
        messages_in_location("empty_gif on;", &["invalid number of arguments in \"empty_gif\" directive"]);
        let text = "server { location /a { empty_gif; location /a/b { } limit_except GET { } } }";
        let snapshot = http(text).unwrap();
        let owned: Vec<_> = snapshot.locations.iter().map(|l| l.plan.content.is_some()).collect();
        // The server, /a, /a/b, limit_except.
        assert_eq!(owned, [false, true, false, true]);
    }
}
