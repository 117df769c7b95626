//! `fastcgi_param`, `scgi_param`, `uwsgi_param`: what an application is told about a request.

use brisk_conf::{Diag, Directive, Token};
use brisk_gateway::Params;
use brisk_gateway::headers::{Taken, write_headers};
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::environment::{self, Environment};
use brisk_server::path;
use brisk_server::request::Request;
use brisk_server::rlog;
use brisk_server::vars::{Target as _, Template};
use std::sync::Arc;

/// One directive.
pub struct Param {
    name: Box<[u8]>,
    value: Template,
    if_not_empty: bool,
}

/// `*_param NAME VALUE [if_not_empty]`.
pub fn parse(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<Arc<Param>, Diag> {
    let if_not_empty = match d.args.get(2) {
        None => false,
        Some(token) if token.bytes() == b"if_not_empty" => true,
        Some(token) => return Err(invalid_parameter(token).help("the only parameter is if_not_empty")),
    };
    let value = cx.template(d.arg(1))?;
    Ok(Arc::new(Param { name: d.arg(0).bytes().into(), value, if_not_empty }))
}

/// One that is no directive's.
pub fn usual(cx: &mut Cx<'_, '_>, d: &Directive, (name, value): (&str, &str)) -> Result<Arc<Param>, Diag> {
    let value = cx.template(&Token { value: value.as_bytes().into(), span: d.span, quoted: true })?;
    // `HTTPS` alone: applications take it for set if it is there at all.
    Ok(Arc::new(Param { name: name.as_bytes().into(), value, if_not_empty: name == "HTTPS" }))
}

/// What is sent as `HTTP_HOST` if the configuration does not say otherwise: the host as the server understood it.
pub fn host(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<Arc<Param>, Diag> {
    let value = b"$host$is_request_port$request_port".as_slice().into();
    let value = cx.template(&Token { value, span: d.span, quoted: true })?;
    Ok(Arc::new(Param { name: HOST.into(), value, if_not_empty: true }))
}

const HOST: &[u8] = b"HTTP_HOST";

/// Settings of PHP that a site may change, as FPM takes them.
/// (`php_value` of `.htaccess`.)
const PHP_VALUE: &[u8] = b"PHP_VALUE";

/// PHP takes a request that has this for one of mod_cgi's: it throws its PATH_INFO away, and takes PATH_TRANSLATED for the script.
const REDIRECT_URL: &[u8] = b"REDIRECT_URL";
const PATHS: [&[u8]; 2] = [b"PATH_INFO", b"PATH_TRANSLATED"];

/// How many lines at the beginning of `PHP_VALUE` come from a site's own files, for a pool of this server's: it takes them as PHP takes those of
/// a folder's file.
const SITE_VALUES: &[u8] = b"BRISK_SITE_VALUES";

/// What a stored answer must not depend on: conditions and ranges of one client. The cache sends its own.
const CACHED: &[&str] = &[
    "HTTP_IF_MODIFIED_SINCE",
    "HTTP_IF_UNMODIFIED_SINCE",
    "HTTP_IF_NONE_MATCH",
    "HTTP_IF_MATCH",
    "HTTP_RANGE",
    "HTTP_IF_RANGE",
];

/// All parameters of a location.
pub struct List {
    params: Box<[Arc<Param>]>,
    taken: Taken,
    /// As `taken`, for answers that may be stored.
    taken_cached: Taken,
    pass_headers: bool,
    /// Of a pool of this server's.
    is_pool: bool,
}

impl List {
    /// `own` is what the directives say; `pass_headers` whether the client's header fields follow. `is_pool`: they are for a pool of this
    /// server's.
    pub fn new(own: &[Arc<Param>], host: &Arc<Param>, pass_headers: bool, is_pool: bool) -> List {
        let mut params = own.to_vec();
        // The client's own Host may be one that the server has not understood.
        if !own.iter().any(|param| param.name.eq_ignore_ascii_case(HOST)) {
            params.push(host.clone());
        }
        let names: Vec<&[u8]> = params.iter().map(|param| &*param.name).collect();
        let cached = names.iter().copied().chain(CACHED.iter().map(|name| name.as_bytes()));
        let (taken, taken_cached) = (Taken::new(names.iter().copied()), Taken::new(cached));
        // A header that is set to nothing is not sent at all.
        // It stays among the names that are taken: the client's field of that name is left out.
        params.retain(|param| !(param.value.is_empty() && is_header(&param.name)));
        List { params: params.into(), taken, taken_cached, pass_headers, is_pool }
    }

    /// Gives everything to `out`. `cacheable`: the answer may be stored; `fields` are what the cache asks with.
    pub fn write(
        &self,
        r: &Request,
        cacheable: bool,
        fields: &[(&'static str, Vec<u8>)],
        out: &mut impl Params,
    ) {
        let mut value = Vec::new();
        let has_php_values =
            r.state.visit.get::<Environment>().is_some_and(|environment| !environment.php_values.is_empty());
        let mut has_path = false;
        for param in &self.params {
            // Joined with what files of folders say, below.
            if has_php_values && param.name.eq_ignore_ascii_case(PHP_VALUE) {
                continue;
            }
            if let Some(text) = param.value.as_literal() {
                if !(text.is_empty() && param.if_not_empty) {
                    out.pair(&param.name, &[text]);
                }
                continue;
            }
            value.clear();
            // RFC 3875 has decoded paths everywhere but here: applications take it apart at its `?`.
            if *param.name == *b"REQUEST_URI" {
                param.value.append_target(r, &mut value);
            } else {
                param.value.append(r, &mut value);
            }
            has_path |= !value.is_empty() && PATHS.contains(&&*param.name);
            if !(value.is_empty() && param.if_not_empty) {
                out.pair(&param.name, &[&value]);
            }
        }
        let environment = r.state.visit.get::<Environment>();
        if let Some(environment) = environment {
            self.write_environment(r, environment, has_path, out);
        }
        for (field, text) in fields {
            let name: Vec<u8> =
                // RFC 3875 §4.1.18: upper case, and an underscore for each hyphen.
                field.bytes().map(|b| if b == b'-' { b'_' } else { b.to_ascii_uppercase() }).collect();
            let name = [&b"HTTP_"[..], &name].concat();
            if !self.params.iter().any(|param| *param.name == *name) {
                out.pair(&name, &[text]);
            }
        }
        if self.pass_headers {
            let taken = if cacheable { &self.taken_cached } else { &self.taken };
            let (head, buf) = r.sent_head();
            match environment.filter(|environment| environment.names_fields()) {
                // (Made when the location was: most requests have nothing to add.)
                None => write_headers(buf, head, taken, out),
                Some(environment) => {
                    let names = self.params.iter().map(|param| param.name.to_vec());
                    let cached = CACHED.iter().filter(|_| cacheable).map(|name| name.as_bytes().to_vec());
                    let own = environment.field_names();
                    let all: Vec<Vec<u8>> = names.chain(cached).chain(own).collect();
                    write_headers(buf, head, &Taken::new(all.iter().map(Vec::as_slice)), out);
                }
            }
        }
    }

    /// What handlers say beside the configuration, which counts more.
    fn write_environment(
        &self,
        r: &Request,
        environment: &Environment,
        has_path: bool,
        out: &mut impl Params,
    ) {
        let is_own = |name: &[u8]| self.params.iter().any(|param| param.name.eq_ignore_ascii_case(name));
        for (name, value) in &environment.variables {
            // `HTTP_PROXY` and its kin change what programs do.
            let is_kept = !Environment::is_reserved(name) && !is_own(name);
            if is_kept && !(has_path && name.eq_ignore_ascii_case(REDIRECT_URL)) {
                out.pair(name, &[value]);
            }
        }
        for (name, value) in environment.fields.iter().filter_map(|(n, v)| Some((n, v.as_ref()?))) {
            let name = environment::parameter(name);
            if !is_own(&name) {
                out.pair(&name, &[value]);
            }
        }
        let mut values: Vec<&[u8]> = environment.php_values.iter().map(Vec::as_slice).collect();
        if !self.is_pool {
            values.retain(|value| is_within(r, value));
        }
        if !environment.php_values.is_empty() {
            // The last one counts: what the configuration says comes behind what files of folders say.
            // FPM takes several settings in one, a line for each.
            let mut value = values.join(&b'\n');
            let own = self.params.iter().filter(|param| param.name.eq_ignore_ascii_case(PHP_VALUE));
            for param in own {
                if !value.is_empty() {
                    value.push(b'\n');
                }
                param.value.append(r, &mut value);
            }
            if !value.is_empty() {
                out.pair(PHP_VALUE, &[&value]);
            }
            if self.is_pool {
                out.pair(SITE_VALUES, &[values.len().to_string().as_bytes()]);
            }
        }
    }
}

/// Whether another server's PHP may be told a setting of a site's file, `name='value'`: PHP-FPM does not ask its `open_basedir` about paths that
/// a request's parameters name, as PHP itself does for a folder's file. So these stay within the site.
fn is_within(r: &Request, setting: &[u8]) -> bool {
    const PATHS: [&[u8]; 4] = [b"error_log", b"mail.log", b"session.save_path", b"soap.wsdl_cache_dir"];
    let at = setting.iter().position(|&byte| byte == b'=').unwrap_or(setting.len());
    let (name, value) = setting.split_at(at);
    let value = value.strip_prefix(b"='").and_then(|value| value.strip_suffix(b"'")).unwrap_or(value);
    if !PATHS.contains(&name) || value.is_empty() || value == b"syslog" {
        return true;
    }
    // (The depth and the mode of session.save_path stand before its path.)
    let path = value.rsplit(|&byte| byte == b';').next().unwrap_or(value);
    let mut root = Vec::new();
    path::document_root(r, &mut root);
    let inner = path.strip_prefix(root.strip_suffix(b"/").unwrap_or(&root));
    let is_within = inner.is_some_and(|inner| inner.is_empty() || inner.starts_with(b"/"))
        && !path.split(|&byte| byte == b'/').any(|part| part == b"..");
    if !is_within {
        rlog!(
            r,
            Warn,
            "\"php_value {}\" of a site's file is left out, since \"{}\" is outside of its root: say it in the pool of PHP-FPM, or run the site \
             in a php_pool",
            String::from_utf8_lossy(name),
            String::from_utf8_lossy(value)
        );
    }
    is_within
}

fn is_header(name: &[u8]) -> bool {
    name.len() > 5 && name.starts_with(b"HTTP_")
}
