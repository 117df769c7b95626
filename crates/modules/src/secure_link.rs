//! `ngx_http_secure_link_module`: links that only their maker could have made, perhaps for a limited time.
//!
//! It refuses nothing itself: the configuration asks `$secure_link` and answers as it likes. MD5 is nginx's
//! choice, which makers of links rely on.

use crate::secret::is_same;
use brisk_conf::{Context, Diag, Directive, Risk};
use brisk_server::base64;
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::Plan;
use brisk_server::request::Request;
use brisk_server::vars::{Template, Variable, VariableGet};
use md5::{Digest as _, Md5};
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "secure_link",
    rows: ROWS,
    variables: VARIABLES,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[
    directive("secure_link")
        .doc("Where the link's MD5 (base64url) is and, after a comma, the time in seconds since 1970 until which it holds.")
        .in_(Context::HSL)
        .takes("VALUE")
        .risk(Risk::Security)
        .example("secure_link $arg_md5,$arg_expires;")
        .set(|cx, d| {
            let template = Arc::new(cx.template(d.arg(0))?);
            checked(cx, d)?.link = Some(template);
            Ok(())
        }),
    // Without the time among what is hashed a client can write another one into its link, which then never ends.
    directive("secure_link_md5")
        .doc("The text whose MD5 the link must carry; it should contain a secret, the URI and the time.")
        .in_(Context::HSL)
        .takes("VALUE")
        .risk(Risk::Security)
        .example("secure_link_md5 \"$secure_link_expires$uri secret\";")
        .set(|cx, d| {
            let template = Arc::new(cx.template(d.arg(0))?);
            checked(cx, d)?.text = Some(template);
            Ok(())
        }),
    directive("secure_link_secret")
        .doc("A secret for links of the form /prefix/MD5/path, where the MD5 (hexadecimal) is of path and secret. Old: prefer secure_link.")
        .in_(Context::HSL)
        .takes("WORD")
        .risk(Risk::Security)
        .example("secure_link_secret secret;")
        .set(|cx, d| {
            let secret = d.arg(0).bytes().into();
            checked(cx, d)?.secret = Some(secret);
            Ok(())
        }),
];

static VARIABLES: &[Variable] = &[
    Variable {
        name: "secure_link",
        get: VariableGet::Once(secure_link),
        doc: "1 if the link is right, 0 if its time is over, empty if it is wrong. With secure_link_secret: the path.",
        ..Variable::SILENT
    },
    Variable {
        name: "secure_link_expires",
        get: VariableGet::Once(secure_link_expires),
        doc: "The time of the link, as it was sent.",
        ..Variable::SILENT
    },
];

#[derive(Clone, Default)]
struct Conf {
    link: Option<Arc<Template>>,
    text: Option<Arc<Template>>,
    secret: Option<Arc<[u8]>>,
    /// Which of the two ways this very block uses.
    here: Option<Way>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    New,
    Old,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }

    /// Mixing is asked per block: an inner one may go the other way.
    fn must_enter(&self, _: Context) -> bool {
        self.here.is_some()
    }

    fn enter(&mut self, _: Context) -> bool {
        self.here = None;
        true
    }
}

/// The configuration, if the directive goes together with those before it. One way ends what is inherited of the other.
fn checked<'c>(cx: &'c mut Cx<'_, '_>, d: &Directive) -> Result<&'c mut Conf, Diag> {
    let way = if d.name() == "secure_link_secret" { Way::Old } else { Way::New };
    let conf = cx.conf::<Conf>();
    if conf.here.is_some_and(|here| here != way) {
        return Err(Diag::emerg(
            d.span,
            "\"secure_link_secret\" cannot be mixed with \"secure_link\" and \"secure_link_md5\"",
        )
        .help("remove secure_link_secret"));
    }
    conf.here = Some(way);
    match way {
        // Else a location with `secure_link` below one with a secret would check both ways.
        Way::New => conf.secret = None,
        Way::Old => (conf.link, conf.text) = (None, None),
    }
    Ok(conf)
}

/// What a location checks.
enum Check {
    New { link: Arc<Template>, text: Arc<Template> },
    Old { secret: Arc<[u8]> },
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf = cx.conf_of::<Conf>();
    if let Some(secret) = &conf.secret {
        plan.put(Arc::new(Check::Old { secret: secret.clone() }));
    // One without the other checks nothing: the variable is not found, as in nginx.
    } else if let (Some(link), Some(text)) = (&conf.link, &conf.text) {
        plan.put(Arc::new(Check::New { link: link.clone(), text: text.clone() }));
    }
}

fn secure_link(r: &Request, out: &mut Vec<u8>) -> bool {
    match r.snap().location(r.route.loc).plan.data::<Check>() {
        Some(Check::New { link, text }) => {
            let verdict = verify(&link.eval(r), || text.eval(r), r.now().unix_secs);
            out.extend(verdict);
            verdict.is_some()
        }
        Some(Check::Old { secret }) => {
            // As it was sent: the hash is of what stands in the link, before decoding.
            let target = r.unparsed_uri();
            let path = path_of(&target, secret);
            out.extend_from_slice(path.unwrap_or_default());
            path.is_some()
        }
        None => false,
    }
}

fn secure_link_expires(r: &Request, out: &mut Vec<u8>) -> bool {
    let Some(Check::New { link, .. }) = r.snap().location(r.route.loc).plan.data::<Check>() else {
        return false;
    };
    let link = link.eval(r);
    match split(&link) {
        Some((_, Some((text, _)))) => {
            out.extend_from_slice(text);
            true
        }
        _ => false,
    }
}

type Expires<'l> = Option<(&'l [u8], i64)>;

/// Hash and time of a link; `None` if the time is nonsense.
fn split(link: &[u8]) -> Option<(&[u8], Expires<'_>)> {
    let Some(at) = memchr::memchr(b',', link) else { return Some((link, None)) };
    let text = &link[at + 1..];
    // Signs and spaces, which parsers take, would be other links with the same meaning.
    let digits = text.iter().all(u8::is_ascii_digit).then(|| std::str::from_utf8(text).ok())??;
    let time = digits.parse().ok().filter(|&time: &i64| time > 0)?;
    Some((&link[..at], Some((text, time))))
}

/// `1`, `0` for a link whose time is over, or nothing.
fn verify(link: &[u8], text: impl FnOnce() -> Vec<u8>, now: i64) -> Option<u8> {
    let (hash, expires) = split(link)?;
    // 16 bytes in base64 have at most 24 characters.
    if hash.len() > 24 {
        return None;
    }
    let hash: [u8; 16] = base64::decode_url(hash)?.try_into().ok()?;
    // In constant time, so that the hash cannot be guessed byte by byte.
    if !is_same(&hash, &Md5::digest(text())) {
        return None;
    }
    // After the hash: a link that is forged is wrong, not over.
    let is_over = expires.is_some_and(|(_, time)| time < now);
    Some(if is_over { b'0' } else { b'1' })
}

/// The path of `/prefix/MD5/path`, if its hash is right.
fn path_of<'u>(uri: &'u [u8], secret: &[u8]) -> Option<&'u [u8]> {
    let rest = uri.get(1..)?;
    let rest = &rest[memchr::memchr(b'/', rest)? + 1..];
    let (hash, path) = rest.split_at(memchr::memchr(b'/', rest)?);
    let path = path.get(1..).filter(|path| !path.is_empty())?;
    // Any other length is no MD5, whatever it holds.
    let hash: [u8; 32] = hash.try_into().ok()?;
    let digit = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    let (pairs, _) = hash.as_chunks::<2>();
    let mut sent = [0; 16];
    for (byte, pair) in sent.iter_mut().zip(pairs) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    is_same(&sent, &Md5::new().chain_update(path).chain_update(secret).finalize()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{accepted, refused};

    #[test]
    fn links_with_and_without_time() {
        // MD5 of "secret".
        let hash = "Xr4ilOzQ4PCOq3aQ0qbuaQ";
        let check = |link: &str, want: Option<u8>| {
            assert_eq!(verify(link.as_bytes(), || b"secret".to_vec(), 1000), want, "{link}");
        };
        check(hash, Some(b'1'));
        check(&format!("{hash}=="), Some(b'1'));
        check(&format!("{hash},1000"), Some(b'1'));
        check(&format!("{hash},999"), Some(b'0'));
        check(&format!("{hash},0"), None);
        check(&format!("{hash},"), None);
        check(&format!("{hash},x"), None);
        check(&format!("{hash}QQQ"), None);
        check("Xr4ilOzQ4PCOq3aQ0qbuaA", None);
        check("BADHASHLENGTH", None);
        check("", None);
    }

    #[test]
    fn links_of_the_old_kind() {
        // MD5 of "test.htmlsecret".
        let hash = format!("{:032x}", u128::from_be_bytes(Md5::digest(b"test.htmlsecret").into()));
        let check = |uri: &str, want: Option<&str>| {
            assert_eq!(path_of(uri.as_bytes(), b"secret"), want.map(str::as_bytes), "{uri}");
        };
        check(&format!("/p/{hash}/test.html"), Some("test.html"));
        check(&format!("/p/{}/test.html", hash.to_uppercase()), Some("test.html"));
        check(&format!("/p/{hash}/other.html"), None);
        check(&format!("/p/{hash}/"), None);
        check(&format!("/p/{hash}"), None);
        check("/p/x/test.html", None);
        check("/p", None);
        check("/", None);
        check("", None);
    }

    #[test]
    fn the_two_ways_are_not_mixed() {
        let mixed = "\"secure_link_secret\" cannot be mixed with \"secure_link\" and \"secure_link_md5\"";
        refused(&[
            ("server { secure_link $arg_a; secure_link_secret x; }", mixed),
            ("server { secure_link_secret x; secure_link_md5 y; }", mixed),
        ]);
        accepted(&[
            "secure_link_secret x; server { secure_link $arg_a; secure_link_md5 y$uri; location / { secure_link_secret z; } }",
        ]);
    }
}
