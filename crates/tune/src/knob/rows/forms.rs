//! How each kind of row begins.

use crate::audit::Tier;
use crate::edit::Language;
use crate::knob::row::{Bound, Companion, Domain, Knob, Needs, Risk, Scale, Unit};

/// What asks back ends by FastCGI.
pub(super) const FASTCGI: &[&str] = &["fastcgi_pass", "php_pass"];
/// What asks them by HTTP.
pub(super) const PROXY: &[&str] = &["proxy_pass"];

pub(super) const fn number(low: Bound, high: Bound, scale: Scale, unit: Unit) -> Domain {
    Domain::Number { low, high, scale, unit }
}

const fn knob(name: &'static str, tier: Tier, language: Language, needs: Needs) -> Knob {
    Knob {
        name,
        tier,
        language,
        default: "",
        domain: Domain::Choice(&[]),
        usual: None,
        settled: None,
        never_less: false,
        form: "",
        words: &[],
        needs,
        risk: Risk::Safe,
        is_for_brisk: true,
        causes: &[],
        findings: &[],
        companions: &[],
        needs_any: &[],
        not_with: &[],
        idle_with: None,
        source: "",
    }
}

/// A directive of nginx's language, written into this block where it stands nowhere.
pub(super) const fn nginx(name: &'static str, block: &'static str) -> Knob {
    knob(name, Tier::Server, Language::Nginx { block }, Needs::Reload)
}

/// A companion that stands once in a block.
pub(super) const fn beside(name: &'static str, value: &'static str) -> Companion {
    Companion { name, value, repeats: false }
}

pub(super) const fn listen(name: &'static str, prefix: &'static str) -> Knob {
    let language = Language::NginxParameter { directive: "listen", prefix };
    knob(name, Tier::Server, language, Needs::Restart)
}

pub(super) const fn pool(name: &'static str) -> Knob {
    knob(name, Tier::Php, Language::Pool, Needs::Reload)
}

pub(super) const fn php(name: &'static str) -> Knob {
    knob(name, Tier::Php, Language::Php, Needs::Reload)
}

pub(super) const fn apache(name: &'static str) -> Knob {
    Knob { is_for_brisk: false, ..knob(name, Tier::Server, Language::Apache, Needs::Reload) }
}

pub(super) const fn database(name: &'static str) -> Knob {
    knob(name, Tier::Database, Language::Database, Needs::Restart)
}

pub(super) const fn sysctl(name: &'static str) -> Knob {
    knob(name, Tier::Machine, Language::Sysctl, Needs::Reload)
}
