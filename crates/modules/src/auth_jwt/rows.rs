//! The directives.

use super::keys::KeySet;
use super::source::{KEY_SET_BYTES_MAX, KeyFile};
use super::variables::Member;
use super::{AuthJwt, Check, Conf, Require};
use crate::computed::{define_of_request, variable_name};
use brisk_conf::{Arity, Context, Diag, Directive, Risk, Token};
use brisk_server::conf::{Cx, invalid_parameter, invalid_value};
use brisk_server::directive::directive;
use brisk_server::module::Row;
use brisk_server::plan::Plan;
use brisk_server::vars::Template;
use std::sync::Arc;

// As for auth_basic: `limit_except` may ask for a token for some methods alone.
const CONTEXTS: Context = Context::HSL.or(Context::LIMIT_EXCEPT);

pub static ROWS: &[Row] = &[
    // Without TLS a token can be read on its way and used by anybody until it runs out.
    directive("auth_jwt")
        .doc("Asks for a signed JSON Web Token, in Authorization: Bearer or where token=$variable says. Realm, which may contain variables, is told to clients without one. off ends what is inherited.")
        .in_(CONTEXTS)
        .arity(Arity::between(1, 2))
        .takes("REALM [token=$VARIABLE] | off")
        .default("off")
        .risk(Risk::Security)
        .example("auth_jwt \"members\" token=$cookie_token;")
        .set(auth_jwt),
    // Other kinds are refused when the configuration is read, see [`auth_jwt_type`].
    directive("auth_jwt_type")
        .doc("What kind of tokens is expected: signed. Encrypted and nested tokens are not supported.")
        .in_(CONTEXTS)
        .takes("signed")
        .default("signed")
        .risk(Risk::Security)
        .example("auth_jwt_type signed;")
        .set(auth_jwt_type),
    // A key set is public but for `oct` keys, which are secrets: whoever can read the file can sign.
    directive("auth_jwt_key_file")
        .doc("A file with a JSON Web Key Set, relative to the main file's folder; may contain variables. A changed file counts at once; while it is broken, the keys of before stay in force. With several files (and auth_jwt_key_request) all keys count.")
        .in_(CONTEXTS)
        .takes("FILE")
        .many()
        .risk(Risk::Security)
        .example("auth_jwt_key_file /etc/brisk/keys.jwks;")
        .set(key_file),
    // Keys that turn without anybody's doing: the issuer publishes them, and a location of this server
    // fetches them.
    directive("auth_jwt_key_request")
        .doc("A URI of this server whose answer is a JSON Web Key Set; may contain variables. See auth_jwt_key_cache.")
        .in_(CONTEXTS)
        .takes("URI")
        .many()
        .risk(Risk::Security)
        .example("auth_jwt_key_request /_keys;")
        .set(|cx, d| {
            let uri = Arc::new(cx.template(d.arg(0))?);
            let is_first = cx.first;
            let conf = cx.conf::<Conf>();
            if is_first {
                conf.requests.clear();
            }
            conf.requests.push(uri);
            Ok(())
        }),
    // Of subrequests only: files are watched, so their keys need no time.
    directive("auth_jwt_key_cache")
        .doc("For how long keys from auth_jwt_key_request may be used again; 0: each request asks. Keys from files are kept as long as their file does not change.")
        .in_(Context::HSL)
        .takes_time()
        .default("0")
        .risk(Risk::Security)
        .example("auth_jwt_key_cache 10m;")
        .sets(|cx, time| cx.conf::<Conf>().cache = time),
    // For clocks that differ: RFC 7519 §4.1.4 allows some leeway, and none is the strict reading.
    directive("auth_jwt_leeway")
        .doc("How far clocks may differ when the claims exp and nbf are checked.")
        .in_(Context::HSL)
        .takes_seconds()
        .default("0s")
        .risk(Risk::Security)
        .example("auth_jwt_leeway 30s;")
        .sets(|cx, secs| cx.conf::<Conf>().leeway_secs = secs),
    // A signature says who has issued a token, not what for. A token for another application of the same
    // issuer passes without it.
    directive("auth_jwt_require")
        .doc("Further conditions for a token: none of these values, each of which begins with a variable, may be empty or 0. error=403 refuses with that status instead of 401.")
        .in_(CONTEXTS)
        .arity(Arity::SOME)
        .takes("$VALUE ... [error=401 | error=403]")
        .many()
        .risk(Risk::Security)
        .example("auth_jwt_require $jwt_claim_admin error=403;")
        .set(require),
    // In `http` only, since a variable's definition is the same everywhere.
    directive("auth_jwt_claim_set")
        .doc("Defines a variable as a claim of the token, by the names of the members that lead to it.")
        .in_(Context::HTTP)
        .arity(Arity::at_least(2))
        .takes("$VARIABLE NAME ...")
        .many()
        .definition()
        .risk(Risk::Security)
        .example("auth_jwt_claim_set $mail user mail;")
        .set(|cx, d| member_set(cx, d, false)),
    // `kid` and `alg` are read before the signature is checked, so a name of a claim is never one of the
    // header.
    directive("auth_jwt_header_set")
        .doc("Defines a variable as a member of the token's header, by the names of the members that lead to it.")
        .in_(Context::HTTP)
        .arity(Arity::at_least(2))
        .takes("$VARIABLE NAME ...")
        .many()
        .definition()
        .risk(Risk::Security)
        .example("auth_jwt_header_set $key_id kid;")
        .set(|cx, d| member_set(cx, d, true)),
];

fn auth_jwt(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let realm = Arc::new(cx.template(d.arg(0))?);
    let token = match d.args.get(1) {
        None => None,
        Some(given) => match given.bytes().strip_prefix(b"token=") {
            Some(text) if text.starts_with(b"$") => {
                Some(Arc::new(Template::parse_bytes(&mut cx.global.vars, text, given)?))
            }
            Some(_) => {
                return Err(Diag::emerg(given.span, format!("no variable in \"{}\"", given.text()))
                    .help("write token=$arg_token, token=$cookie_token or the like"));
            }
            None => return Err(invalid_parameter(given)),
        },
    };
    // There is nothing to read a token for.
    if realm.as_literal() == Some(b"off") && token.is_some() {
        return Err(invalid_parameter(d.arg(1)));
    }
    let conf = cx.conf::<Conf>();
    (conf.realm, conf.token) = (Some(realm), token);
    Ok(())
}

fn auth_jwt_type(_: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    match d.arg(0).str() {
        "signed" => Ok(()),
        kind @ ("encrypted" | "nested") => {
            // Refused when the configuration is read: otherwise every token would be refused, or worse, taken
            // for another kind.
            Err(Diag::emerg(d.arg(0).span, format!("auth_jwt_type {kind} is not supported"))
                .help("Brisk checks signed tokens (JWS) only"))
        }
        _ => Err(invalid_value(d, d.arg(0), "signed")),
    }
}

fn key_file(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let token = d.arg(0);
    let path = cx.template(token)?;
    let initial = match path.as_literal() {
        // A fixed file is read now: a server does not start with keys that cannot be used.
        Some(_) => Some(Arc::new(read(cx, token)?)),
        None => None,
    };
    let prefix = cx.global.env.conf_prefix.as_str().into();
    let is_first = cx.first;
    let conf = cx.conf::<Conf>();
    // The first directive of a block replaces what was inherited: keys of two sites must not add up by
    // accident.
    if is_first {
        conf.files.clear();
    }
    conf.files.push(Arc::new(KeyFile { path, prefix, initial }));
    Ok(())
}

fn read(cx: &mut Cx<'_, '_>, token: &Token) -> Result<KeySet, Diag> {
    let text = cx.read_file(token)?;
    let bad =
        |why: String| Diag::emerg(token.span, format!("invalid JWT key file \"{}\": {why}", token.text()));
    if text.len() > KEY_SET_BYTES_MAX {
        let why = format!("it is larger than {KEY_SET_BYTES_MAX} bytes");
        return Err(bad(why).help("a JSON Web Key Set is expected: remove keys that no token is signed with"));
    }
    KeySet::parse(&text).map_err(|error| {
        bad(error.to_string()).help("a JSON Web Key Set is expected: {\"keys\":[…]} (RFC 7517)")
    })
}

fn require(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let mut status = 401;
    let mut values = Vec::new();
    for token in &d.args {
        match token.str().strip_prefix("error=") {
            Some("401") => status = 401,
            Some("403") => status = 403,
            Some(code) => {
                return Err(Diag::emerg(token.span, format!("invalid error code \"{code}\""))
                    .help("it is 401 or 403"));
            }
            None if token.bytes().starts_with(b"$") => values.push(cx.template(token)?),
            None => {
                return Err(Diag::emerg(token.span, format!("no variable in \"{}\"", token.text()))
                    .help("a value of auth_jwt_require begins with a variable"));
            }
        }
    }
    // Without a condition it would look like one that always holds.
    if values.is_empty() {
        return Err(Diag::emerg(d.span, "no variables in \"auth_jwt_require\""));
    }
    let is_first = cx.first;
    let conf = cx.conf::<Conf>();
    if is_first {
        conf.requires.clear();
    }
    conf.requires.push(Arc::new(Require { values, status }));
    Ok(())
}

fn member_set(cx: &mut Cx<'_, '_>, d: &Directive, of_header: bool) -> Result<(), Diag> {
    // The name must be one that the configuration may define.
    variable_name(d.arg(0))?;
    let path = d.args[1..].iter().map(|token| token.text().into_owned()).collect();
    // Volatile: before the token was accepted there is nothing to keep.
    define_of_request(cx, d.arg(0), Arc::new(Member { of_header, path }), true)?;
    Ok(())
}

pub fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf = cx.conf_of::<Conf>();
    if let Some(realm) = conf.realm.as_ref().filter(|realm| realm.as_literal() != Some(b"off")) {
        plan.access.push(Arc::new(Check(Arc::new(AuthJwt { realm: realm.clone(), conf: conf.clone() }))));
    }
}
