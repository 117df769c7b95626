//! `ngx_http_access_module`: who may come in, by address.
//!
//! Only the address counts. What a proxy in front has said of it is decided before (`realip`).

use brisk_conf::cidr::Cidr;
use brisk_conf::{Context, Diag, Directive, Risk};
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::core::LogLevel;
use brisk_server::core::Satisfy;
use brisk_server::directive::directive;
use brisk_server::flow::Flow;
use brisk_server::log::may_debug;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::{Declared, Dependencies, Handler, Plan};
use brisk_server::request::Request;
use brisk_server::trace::{self, Source};
use brisk_server::vars::Context as _;
use brisk_stream::conf::Check;
use brisk_stream::{FORBIDDEN, Session, Status};
use std::net::IpAddr;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "access",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

const CONTEXTS: Context = Context::HSL.or(Context::LIMIT_EXCEPT).or(crate::stream::part::BLOCKS);

static ROWS: &[Row] = &[
    // In the order of the file: what stands behind a rule for all is never reached.
    directive("allow")
        .doc("Lets clients with this address or network in: IPv4, IPv6, unix: or all. The first of allow and deny that matches decides.")
        .in_(CONTEXTS)
        .takes("ADDRESS | CIDR | unix: | all")
        .many()
        .risk(Risk::Security)
        .example("allow 192.0.2.0/24;")
        .set(|cx, d| add(cx, d, Verdict::Allow)),
    // A 403 that other access modules may overrule (`satisfy any`): a password can let in whom an address does not.
    directive("deny")
        .doc("Answers clients with this address or network with 403: IPv4, IPv6, unix: or all.")
        .in_(CONTEXTS)
        .takes("ADDRESS | CIDR | unix: | all")
        .many()
        .risk(Risk::Security)
        .example("deny all;")
        .set(|cx, d| add(cx, d, Verdict::Deny)),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Allow,
    Deny,
}

/// Whom a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    All,
    Unix,
    Net(Cidr),
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    who: Who,
    verdict: Verdict,
}

#[derive(Clone, Default)]
struct Conf {
    rules: Vec<Rule>,
    /// The rules are this block's own, not the outer one's.
    /// Rules of an outer block hold as a whole or not at all.
    own: bool,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }

    /// Only where there are rules of one's own is there something to reset.
    fn must_enter(&self, _: Context) -> bool {
        self.own
    }

    fn enter(&mut self, _: Context) -> bool {
        self.own = false;
        true
    }
}

/// `all` is a rule of its own and no network: it also means clients of unix sockets, which have no address.
fn add(cx: &mut Cx<'_, '_>, d: &Directive, verdict: Verdict) -> Result<(), Diag> {
    let token = d.arg(0);
    let who = match token.bytes() {
        b"all" => Who::All,
        b"unix:" => Who::Unix,
        _ => {
            let parsed = Cidr::parse(token.bytes()).ok_or_else(|| {
                invalid_parameter(token).help("write an address, a network such as 10.0.0.0/8, unix: or all")
            })?;
            // Such as 10.0.0.1/8: it works, but somebody may have meant one address.
            if parsed.is_rough {
                let text = format!("low address bits of {} are meaningless", token.text());
                cx.warn(Diag::warn(token.span, text));
            }
            Who::Net(parsed.cidr)
        }
    };
    let conf = cx.conf::<Conf>();
    // A block's first rule replaces what is inherited: rules of two levels would have no order (nginx).
    if !std::mem::replace(&mut conf.own, true) {
        conf.rules.clear();
    }
    conf.rules.push(Rule { who, verdict });
    Ok(())
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf: &Conf = cx.conf_of();
    if !conf.rules.is_empty() {
        plan.access.push(Arc::new(Access { rules: conf.rules.as_slice().into() }));
    }
}

struct Access {
    rules: Box<[Rule]>,
}

/// What the present block of `stream` asks of sessions.
pub fn of_sessions(cx: &Cx<'_, '_>) -> Option<Arc<dyn Check>> {
    let conf: &Conf = cx.conf_of();
    (!conf.rules.is_empty())
        .then(|| -> Arc<dyn Check> { Arc::new(Access { rules: conf.rules.as_slice().into() }) })
}

impl Check for Access {
    fn check(&self, session: &Session) -> Result<(), Status> {
        let found = deciding(&self.rules, session.client.get().ip());
        match found.map(|at| self.rules[at].verdict) {
            None | Some(Verdict::Allow) => Ok(()),
            Some(Verdict::Deny) => {
                session.log(LogLevel::Error, format_args!("access forbidden by rule"));
                Err(FORBIDDEN)
            }
        }
    }
}

impl Handler for Access {
    fn declares(&self) -> Declared {
        // By address: the answer is for this client only.
        Declared::RECORDED.depends_on(Dependencies::CLIENT)
    }

    fn decides(&self, r: &Request) -> bool {
        deciding(&self.rules, r.client_addr().ip()).is_some()
    }

    fn handle(&self, r: &mut Request) -> Flow {
        let found = deciding(&self.rules, r.client_addr().ip());
        let verdict = found.map(|at| self.rules[at].verdict);
        if may_debug() {
            brisk_server::dlog!(r, "access: {verdict:?}");
            tell(r, found);
        }
        match verdict {
            // No rule matched, which is no permission: with `satisfy any` others decide.
            None => Flow::Next,
            Some(Verdict::Allow) => Flow::Allowed,
            Some(Verdict::Deny) => {
                // With `satisfy any` another handler may still let the client in; then the phase logs the refusal.
                if r.core().satisfy == Satisfy::All {
                    brisk_server::rlog!(r, Error, "access forbidden by rule");
                }
                Flow::Status(403)
            }
        }
    }
}

/// Says which rule decides to whom asks why.
#[cold]
fn tell(r: &Request, found: Option<usize>) {
    let client = String::from_utf8_lossy(r.client_text()).into_owned();
    let (text, source) = match found {
        Some(at) => (format!("the first rule for {client}"), Source::Nth(&["allow", "deny"], at)),
        None => (format!("no rule is for {client}"), Source::Unknown),
    };
    trace::say(r, MODULE.name, trace::Kind::Rule { applies: found.is_some() }, text, source);
}

/// The place of the first rule that matches an address; `None` is a unix socket.
fn deciding(rules: &[Rule], address: Option<IpAddr>) -> Option<usize> {
    // An IPv4 client of an IPv6 socket is an IPv4 client, as far as there are rules for such.
    let has_v4 = rules.iter().any(|rule| matches!(rule.who, Who::All | Who::Net(Cidr::V4(..))));
    let address = address.map(|ip| if has_v4 { ip.to_canonical() } else { ip });
    let matches = |who: Who| match (who, address) {
        (Who::All, _) | (Who::Unix, None) => true,
        (Who::Net(net), Some(ip)) => net.contains(ip),
        // A client of a unix socket has no address that a network could hold: only `all` and `unix:` are for
        // it.
        (Who::Unix, Some(_)) | (Who::Net(_), None) => false,
    };
    rules.iter().position(|rule| matches(rule.who))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{http, messages_in_location};
    use brisk_server::plan::Purity;

    #[test]
    fn parameters_are_checked() {
        messages_in_location("allow 10.0.0.0/8; allow ::1; allow unix:; deny all;", &[]);
        messages_in_location("allow 10.0.0.1/8;", &["low address bits of 10.0.0.1/8 are meaningless"]);
        messages_in_location("deny ALL;", &["invalid parameter \"ALL\""]);
        messages_in_location("allow localhost;", &["invalid parameter \"localhost\""]);
        messages_in_location("deny 10.0.0.0/33;", &["invalid parameter \"10.0.0.0/33\""]);
        messages_in_location("limit_except GET { deny all; }", &[]);
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let check = |text: &str, address: Option<&str>, want: Option<Verdict>| {
            let rules: Vec<Rule> = text
                .split(' ')
                .map(|word| {
                    let (sign, who) = word.split_at(1);
                    let verdict = if sign == "+" { Verdict::Allow } else { Verdict::Deny };
                    let who = match who {
                        "all" => Who::All,
                        "unix:" => Who::Unix,
                        net => Who::Net(Cidr::parse(net.as_bytes()).unwrap().cidr),
                    };
                    Rule { who, verdict }
                })
                .collect();
            let found = deciding(&rules, address.map(|a| a.parse().unwrap()));
            assert_eq!(found.map(|at| rules[at].verdict), want, "{text}: {address:?}");
        };
        let (allow, deny) = (Some(Verdict::Allow), Some(Verdict::Deny));
        check("-10.0.0.1 +10.0.0.0/8 -all", Some("10.0.0.1"), deny);
        check("-10.0.0.1 +10.0.0.0/8 -all", Some("10.0.0.2"), allow);
        check("-10.0.0.1 +10.0.0.0/8 -all", Some("11.0.0.2"), deny);
        check("-10.0.0.1 +10.0.0.0/8 -all", Some("::1"), deny);
        check("-10.0.0.1 +10.0.0.0/8 -all", None, deny);
        check("+unix:", None, allow);
        check("+unix:", Some("10.0.0.1"), None);
        check("+10.0.0.0/8", Some("::ffff:10.1.1.1"), allow);
        check("-::/0", Some("::ffff:10.1.1.1"), deny);
        check("-::/0", Some("10.1.1.1"), None);
        check("-::/0 +10.0.0.0/8", Some("::ffff:10.1.1.1"), allow);
    }

    #[test]
    fn own_rules_replace_those_of_the_outer_block() {
        let text = "deny all; server { location /a { } location /b { allow 10.0.0.1; deny 10.0.0.2; } \
                    location /c { allow unix:; location /c/d { deny all; allow unix:; } } }";
        let snapshot = http(text).unwrap();
        let counts: Vec<_> = snapshot.locations.iter().map(|l| l.plan.access.len()).collect();
        assert_eq!(counts, [1, 1, 1, 1, 1]);
        assert!(snapshot.locations.iter().all(|l| l.plan.purity() == Purity::Impure));
    }
}
