//! What the `*_cache*` directives of a block say.

use super::path::{self, Zones};
use super::prefix::{PREFIXES, PROXY};
use super::purging::Purging;
use brisk_cachepolicy::reuse::Mode;
use brisk_conf::{Context, Diag, Directive, Span, value};
use brisk_server::conf::Cx;
use brisk_server::module::ModuleConf;
use brisk_server::request::Request;
use brisk_server::vars::{Part, Template};
use std::sync::Arc;
use std::time::Duration;

type Done = Result<(), Diag>;

/// The directives under one prefix.
#[derive(Clone, Default)]
pub struct Conf<const P: usize> {
    /// What they say.
    pub rules: Rules,
}

impl<const P: usize> ModuleConf for Conf<P> {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }

    fn must_enter(&self, into: Context) -> bool {
        Context::LOCATION.has(into) && (self.rules.is_own || self.rules.purge.span.is_some())
    }

    fn enter(&mut self, _: Context) -> bool {
        // Inherited rules do not count as written here: warnings are for where the words stand.
        self.rules.is_own = false;
        // A zone and a key are of the very location; conditions and methods are inherited.
        (self.rules.purge.span, self.rules.purge.key) = (None, None);
        true
    }
}

/// Which cache.
#[derive(Clone, Default)]
pub enum Zone {
    /// None.
    #[default]
    Off,
    /// The one of this name, and where it is named.
    Named(Box<str>, Span),
    /// The name follows from the request.
    Computed(Arc<Template>),
}

impl Zone {
    pub(super) fn resolve(&self, cx: &Cx<'_, '_>) -> Option<Zones> {
        match self {
            Zone::Off => None,
            Zone::Named(name, _) => path::find(cx, name).map(Zones::One),
            Zone::Computed(name) => Some(Zones::Any(name.clone(), path::all(cx))),
        }
    }

    /// The name of a request's cache.
    pub(super) fn name(&self, r: &Request) -> Vec<u8> {
        match self {
            Zone::Off => Vec::new(),
            Zone::Named(name, _) => name.as_bytes().to_vec(),
            Zone::Computed(name) => name.eval(r),
        }
    }
}

/// Conditions of `*_cache_use_stale`.
pub mod stale {
    /// A connection fails, or a part of the answer is missing.
    pub const ERROR: u32 = 1 << 0;
    /// The back end takes too long.
    pub const TIMEOUT: u32 = 1 << 1;
    /// The answer is no answer.
    pub const INVALID_HEADER: u32 = 1 << 2;
    /// Another request brings the entry up to date.
    pub const UPDATING: u32 = 1 << 3;
    /// 500.
    pub const HTTP_500: u32 = 1 << 4;
    /// 502.
    pub const HTTP_502: u32 = 1 << 5;
    /// 503.
    pub const HTTP_503: u32 = 1 << 6;
    /// 504.
    pub const HTTP_504: u32 = 1 << 7;
    /// 403.
    pub const HTTP_403: u32 = 1 << 8;
    /// 404.
    pub const HTTP_404: u32 = 1 << 9;
    /// 429.
    pub const HTTP_429: u32 = 1 << 10;
    /// Never.
    /// As in nginx a bit beside the others, so that `off` can be seen to stand among them.
    pub const OFF: u32 = 1 << 31;

    /// The words of `*_cache_use_stale`.
    pub const NAMES: &[(&str, u32)] = &[
        ("error", ERROR),
        ("timeout", TIMEOUT),
        ("invalid_header", INVALID_HEADER),
        ("updating", UPDATING),
        ("http_500", HTTP_500),
        ("http_502", HTTP_502),
        ("http_503", HTTP_503),
        ("http_504", HTTP_504),
        ("http_403", HTTP_403),
        ("http_404", HTTP_404),
        ("http_429", HTTP_429),
        ("off", OFF),
    ];

    /// The condition of a status.
    pub fn of_status(status: u16) -> u32 {
        match status {
            500 => HTTP_500,
            502 => HTTP_502,
            503 => HTTP_503,
            504 => HTTP_504,
            403 => HTTP_403,
            404 => HTTP_404,
            429 => HTTP_429,
            _ => 0,
        }
    }
}

/// Methods that are cached.
pub const GET: u32 = 1;
/// HEAD.
pub const HEAD: u32 = 2;
/// POST.
pub const POST: u32 = 4;

/// Everything that the directives of a block come to.
#[derive(Clone)]
pub struct Rules {
    /// `*_cache`.
    /// By name until the end of the reading: the cache may be declared further on.
    pub zone: Zone,
    /// `*_cache_key`; `None`: the module's own.
    pub key: Option<Arc<Template>>,
    /// Status (0: any) and seconds.
    /// Kept in the file's order: the first that fits decides.
    pub valid: Vec<(u16, u64)>,
    /// `*_cache_methods`: [`GET`], [`HEAD`], [`POST`].
    pub methods: u32,
    /// `*_cache_min_uses`.
    pub min_uses: u64,
    /// `*_cache_bypass`: strings of which one that is neither empty nor "0" counts.
    pub bypass: Vec<Arc<Template>>,
    /// The conditions of `*_cache_bypass` and `*_no_cache` as they are written, for messages.
    bypass_text: Vec<String>,
    no_cache_text: Vec<String>,
    /// `*_no_cache`: likewise.
    pub no_cache: Vec<Arc<Template>>,
    /// `*_cache_purge`.
    pub purge: Purging,
    /// `*_cache_use_stale`: bits of [`stale`].
    pub use_stale: u32,
    /// `*_cache_background_update`.
    pub background_update: bool,
    /// `*_cache_lock`.
    pub lock: bool,
    /// `*_cache_lock_age`.
    pub lock_age: Duration,
    /// `*_cache_lock_timeout`.
    pub lock_timeout: Duration,
    /// `*_cache_revalidate`.
    pub revalidate: bool,
    /// `*_cache_convert_head`.
    pub convert_head: bool,
    /// `*_cache_max_range_offset`, in bytes.
    pub max_range_offset: Option<u64>,
    /// `*_cache_mode`.
    pub mode: Mode,
    /// The key tells clients with credentials apart.
    pub key_has_credentials: bool,
    /// The key tells ranges apart: a 206 under it is the answer to just the range that was asked for.
    pub key_has_range: bool,
    /// The key tells methods apart.
    pub key_has_method: bool,
    /// The key tells bodies of requests apart.
    pub key_has_body: bool,
    /// Written in this very block.
    is_own: bool,
    /// Where it is written.
    span: Option<Span>,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            zone: Zone::Off,
            key: None,
            valid: Vec::new(),
            methods: GET | HEAD,
            min_uses: 1,
            bypass: Vec::new(),
            bypass_text: Vec::new(),
            no_cache_text: Vec::new(),
            no_cache: Vec::new(),
            purge: Purging::default(),
            use_stale: 0,
            background_update: false,
            lock: false,
            lock_age: Duration::from_secs(5),
            lock_timeout: Duration::from_secs(5),
            revalidate: false,
            convert_head: true,
            max_range_offset: None,
            mode: Mode::Nginx,
            key_has_credentials: false,
            key_has_range: false,
            key_has_method: false,
            key_has_body: false,
            is_own: false,
            span: None,
        }
    }
}

fn rules<'c, const P: usize>(cx: &'c mut Cx<'_, '_>) -> &'c mut Rules {
    &mut cx.conf::<Conf<P>>().rules
}

/// `*_cache`.
pub fn zone<const P: usize>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    let token = d.arg(0);
    let zone = match token.bytes() {
        b"off" => Zone::Off,
        _ => {
            let template = cx.template(token)?;
            match template.as_literal() {
                Some(_) => Zone::Named(token.str().into(), token.span),
                None => Zone::Computed(Arc::new(template)),
            }
        }
    };
    let rules = rules::<P>(cx);
    rules.is_own = !matches!(zone, Zone::Off);
    rules.zone = zone;
    rules.span = Some(token.span);
    Ok(())
}

/// Variables by which a key tells clients with credentials apart. `$remote_user` does not: it is what a client says of itself, is empty for all
/// schemes but Basic, and is the same with a wrong password.
const CREDENTIALS: &[&str] = &["http_authorization"];
/// Variables by which a key tells ranges apart.
const RANGES: &[&str] = &["slice_range", "http_range"];
/// Variables by which a key tells methods apart.
const METHODS: &[&str] = &["request_method", "request"];
/// Variables by which a key tells bodies of requests apart.
const BODIES: &[&str] = &["request_body"];

/// `*_cache_key`.
pub fn key<const P: usize>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    let template = cx.template(d.arg(0))?;
    // Only variables that stand in the key itself: what a `map` makes of one may leave it out.
    let has = |names: &[&str]| {
        let is_one = |part: &Part| match part {
            Part::Var(id) => names.contains(&&*cx.global.vars.get(*id).name),
            _ => false,
        };
        template.parts().iter().any(is_one)
    };
    let (has_credentials, has_range, has_method) = (has(CREDENTIALS), has(RANGES), has(METHODS));
    let has_body = has(BODIES);
    let rules = rules::<P>(cx);
    rules.key_has_body = has_body;
    rules.key_has_credentials = has_credentials;
    rules.key_has_range = has_range;
    rules.key_has_method = has_method;
    rules.key = Some(Arc::new(template));
    Ok(())
}

/// `*_cache_valid [CODE …] TIME`.
pub fn valid<const P: usize>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    let Some((time, codes)) = d.args.split_last() else { return Ok(()) };
    let seconds = value::seconds(time)?;
    let mut statuses = Vec::new();
    for token in codes {
        statuses.push(match token.bytes() {
            b"any" => 0,
            _ => match token.str().parse() {
                Ok(status @ 100..=599) => status,
                _ => {
                    return Err(Diag::emerg(token.span, format!("invalid status \"{}\"", token.text()))
                        .help("write statuses from 100 to 599, or any, and then a time"));
                }
            },
        });
    }
    if statuses.is_empty() {
        // nginx's: a time alone must not keep errors.
        statuses = vec![200, 301, 302];
    }
    let is_first = cx.first;
    let valid = &mut rules::<P>(cx).valid;
    if is_first {
        valid.clear();
    }
    valid.extend(statuses.into_iter().map(|status| (status, seconds)));
    Ok(())
}

/// `*_cache_methods`: GET and HEAD always are.
pub fn methods<const P: usize>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    // What an outer block allows is not taken away by an inner one that allows more.
    let before = rules::<P>(cx).methods & !(GET | HEAD);
    let methods = cx.bits(d, &[("GET", GET), ("HEAD", HEAD), ("POST", POST)], before)?;
    rules::<P>(cx).methods = methods | GET | HEAD;
    Ok(())
}

/// `*_cache_use_stale`. `off` stays, whatever stands beside it or follows.
pub fn use_stale<const P: usize>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    let before = rules::<P>(cx).use_stale;
    let set = cx.bits(d, stale::NAMES, before)?;
    rules::<P>(cx).use_stale = if set & stale::OFF == 0 { set } else { stale::OFF };
    Ok(())
}

/// Sets a list of conditions: strings of which one that is neither empty nor "0" makes the condition true.
fn conditions(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<Vec<Arc<Template>>, Diag> {
    d.args.iter().map(|token| cx.template(token).map(Arc::new)).collect()
}

fn written(d: &Directive) -> Vec<String> {
    d.args.iter().map(|token| token.text().into_owned()).collect()
}

fn extend<T>(list: &mut Vec<T>, is_first: bool, more: Vec<T>) {
    if is_first {
        list.clear();
    }
    list.extend(more);
}

/// `*_cache_bypass`.
pub fn bypass<const P: usize>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    let (more, is_first) = (conditions(cx, d)?, cx.first);
    extend(&mut rules::<P>(cx).bypass, is_first, more);
    extend(&mut rules::<P>(cx).bypass_text, is_first, written(d));
    Ok(())
}

/// `*_no_cache`.
pub fn no_cache<const P: usize>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    let (more, is_first) = (conditions(cx, d)?, cx.first);
    extend(&mut rules::<P>(cx).no_cache, is_first, more);
    extend(&mut rules::<P>(cx).no_cache_text, is_first, written(d));
    Ok(())
}

/// `*_cache_purge`.
pub fn purge<const P: usize>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    let mut purging = std::mem::take(&mut rules::<P>(cx).purge);
    purging.read(cx, d)?;
    rules::<P>(cx).purge = purging;
    Ok(())
}

/// The words of `*_cache_mode`.
pub const MODES: [(&str, Mode); 2] = [("nginx", Mode::Nginx), ("rfc9111", Mode::Rfc9111)];

/// `*_cache_mode`.
pub fn mode<const P: usize>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    rules::<P>(cx).mode = value::choice(d.arg(0), &MODES)?;
    Ok(())
}

macro_rules! setters {
    ($($name:ident: $type:ty,)*) => {
        $(
            pub fn $name<const P: usize>(cx: &mut Cx<'_, '_>, value: $type) {
                rules::<P>(cx).$name = value;
            }
        )*
    };
}

setters! {
    min_uses: u64,
    background_update: bool,
    lock: bool,
    lock_age: Duration,
    lock_timeout: Duration,
    revalidate: bool,
    convert_head: bool,
}

/// `*_cache_max_range_offset`.
pub fn max_range_offset<const P: usize>(cx: &mut Cx<'_, '_>, bytes: u64) {
    rules::<P>(cx).max_range_offset = Some(bytes);
}

/// Checks that concern several directives of a block.
pub fn finish<const P: usize>(cx: &mut Cx<'_, '_>) -> Done {
    let conf = cx.shared::<Conf<P>>();
    let rules = &conf.rules;
    let prefix = PREFIXES[P];
    // Checked here and not when it is read: the zone may be declared behind it.
    if let Some(key) = &rules.purge.key {
        let zone = key.zone.str();
        if cx.block != Context::LOCATION {
            return Err(Diag::emerg(key.zone.span, "a zone and a key make every request a purge")
                .help(format!("write {prefix}_cache_purge {zone} … in a location of its own")));
        }
        if path::find(cx, zone).is_none() {
            return Err(unknown(key.zone.span, &format!("{prefix}_cache_purge"), prefix, zone));
        }
    }
    let Zone::Named(name, span) = &rules.zone else { return Ok(()) };
    // In `http` it may be meant for blocks that are not there; where it is used it is missed.
    if rules.is_own && path::find(cx, name).is_none() && cx.block != Context::HTTP {
        return Err(unknown(*span, &format!("{prefix}_cache"), prefix, name));
    }
    Ok(())
}

fn unknown(span: Span, directive: &str, prefix: &str, zone: &str) -> Diag {
    Diag::emerg(span, format!("\"{directive}\" zone \"{zone}\" is unknown"))
        .help(format!("declare it in http: {prefix}_cache_path PATH keys_zone={zone}:10m;"))
        .once()
}

/// When it is known whether a block passes its requests on.
pub fn check<const P: usize>(cx: &mut Cx<'_, '_>, passes: bool) -> Done {
    let conf = cx.shared::<Conf<P>>();
    let rules = &conf.rules;
    let prefix = PREFIXES[P];
    match &rules.purge.key {
        Some(key) if passes => {
            let text = format!("a location with \"{prefix}_pass\" is not all purges");
            return Err(Diag::emerg(key.zone.span, text).help(format!(
                "write the zone and the key in a location of its own, or here: {prefix}_cache_purge PURGE from 127.0.0.1;"
            )));
        }
        _ if cx.block == Context::LOCATION => {
            let is_used = passes && !matches!(rules.zone, Zone::Off);
            rules.purge.check(cx, prefix, is_used);
        }
        _ => {}
    }
    warn::<P>(cx, rules, passes);
    Ok(())
}

fn warn<const P: usize>(cx: &mut Cx<'_, '_>, rules: &Rules, passes: bool) {
    let prefix = PREFIXES[P];
    let Some(span) = rules.span else { return };
    // Nothing is stored, so nothing can be stored wrongly.
    if matches!(rules.zone, Zone::Off) {
        return;
    }
    if !passes {
        // What is inherited may be meant for inner blocks.
        if rules.is_own && cx.block == Context::LOCATION {
            cx.warn(
                Diag::notice(span, format!("\"{prefix}_cache\" has no effect without \"{prefix}_pass\""))
                    .help(format!(
                        "add {prefix}_pass to this location, or move {prefix}_cache to where it is"
                    )),
            );
        }
        return;
    }
    // `brisk cache why` needs the reason, and in RFC 9111's mode the client has a say (§5.2.1, §5.4).
    cx.is_unusual("Pragma");
    if rules.mode == Mode::Rfc9111 {
        cx.is_unusual("Cache-Control");
    }
    // nginx's default key for these is empty: all requests would have one answer.
    if rules.key.is_none() && P != PROXY {
        cx.warn(Diag::warn(span, format!("no \"{prefix}_cache_key\" for \"{prefix}_cache\"")).help(format!(
            "write for example: {prefix}_cache_key \"$scheme$request_method$host$request_uri\";"
        )));
    }
    if rules.methods & POST != 0 && !rules.key_has_body {
        let text = format!(
            "\"{prefix}_cache_methods POST\" without $request_body in \"{prefix}_cache_key\": the answer to one POST is given to all"
        );
        cx.warn(Diag::warn(span, text).help(format!(
            "write for example: {prefix}_cache_key \"$request_method$request_uri|$request_body\";"
        )));
    }
    // By the words, not by what they come to: the same condition is written the same in both.
    if rules.bypass.iter().any(|bypass| !rules.no_cache.contains(bypass)) {
        let text = format!(
            "\"{prefix}_cache_bypass\" without the same condition in \"{prefix}_no_cache\": answers that bypass the cache are stored"
        );
        cx.warn(Diag::warn(span, text).help(format!(
            "what one visitor gets that way is given to the next. Corrected:\n{}",
            corrected(prefix, rules)
        )));
    }
}

/// The rules with every condition of `*_cache_bypass` in `*_no_cache`, too.
/// With what is written for `*_no_cache` first: the correction is to be pasted over the two lines.
fn corrected(prefix: &str, rules: &Rules) -> String {
    let zone = if let Zone::Named(name, _) = &rules.zone { &**name } else { "…" };
    let mut no_cache = rules.no_cache_text.clone();
    for text in &rules.bypass_text {
        if !no_cache.contains(text) {
            no_cache.push(text.clone());
        }
    }
    let (bypass, no_cache) = (rules.bypass_text.join(" "), no_cache.join(" "));
    format!("{prefix}_cache {zone};\n{prefix}_cache_bypass {bypass};\n{prefix}_no_cache {no_cache};")
}
