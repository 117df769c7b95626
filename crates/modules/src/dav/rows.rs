//! The rows of `ngx_http_dav_module`.

use super::{Conf, method};
use brisk_conf::{Arity, Context, Diag, Directive, Risk};
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::module::Row;

pub(super) static ROWS: &[Row] = &[
    // Off: what may be written through HTTP is for the configuration to say, location by location.
    directive("dav_methods")
        .doc("The methods of WebDAV that change files here: PUT, DELETE, MKCOL, COPY, MOVE; off for none.")
        .in_(Context::HSL)
        .arity(Arity::SOME)
        .takes("PUT | DELETE | MKCOL | COPY | MOVE | off ...")
        .default("off")
        .many()
        .risk(Risk::Security)
        .example("dav_methods PUT DELETE;")
        .set(methods),
    // Set explicitly and not left to the umask of the worker: the files are often read by another user's programs.
    directive("dav_access")
        .doc("Rights of new files and folders: user:, group: and all: with r or rw.")
        .in_(Context::HSL)
        .arity(Arity::between(1, 3))
        .takes("user:RIGHTS [group:RIGHTS] [all:RIGHTS]")
        .default("user:rw")
        .risk(Risk::Security)
        .example("dav_access user:rw group:rw all:r;")
        .set(|cx, d| {
            cx.conf::<Conf>().access = brisk_upstream::rows::access(d)?;
            Ok(())
        }),
    // Off, as RFC 4918 §9.7.1 has it: a PUT without its collection is 409, so a mistyped path makes no tree.
    directive("create_full_put_path")
        .doc("Whether PUT creates the folders that its URI lies in.")
        .in_(Context::HSL)
        .takes_flag()
        .default("off")
        .risk(Risk::Security)
        .example("create_full_put_path on;")
        .sets(|cx, on| cx.conf::<Conf>().create_full_put_path = on),
    // 0 protects nothing; with it a mistake can remove a branch and not the whole.
    directive("min_delete_depth")
        .doc("How many segments a URI must have to be deleted.")
        .in_(Context::HSL)
        .takes_number()
        .unit("segments")
        .default("0")
        .risk(Risk::Security)
        .example("min_delete_depth 2;")
        .sets(|cx, depth| cx.conf::<Conf>().min_delete_depth = depth),
];

fn methods(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let words = [
        ("off", method::OFF),
        ("put", method::PUT),
        ("delete", method::DELETE),
        ("mkcol", method::MKCOL),
        ("copy", method::COPY),
        ("move", method::MOVE),
    ];
    // Several directives of a block add up.
    let before = cx.conf::<Conf>().methods;
    cx.conf::<Conf>().methods = cx.bits(d, &words, before)?;
    Ok(())
}
