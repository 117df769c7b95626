//! Active health checks: `health_check` in a location asks each server of the group that the location passes to, and
//! those that do not answer as `match` wants get no requests.

mod ask;
pub(super) mod check;
mod dial;
mod http2;
mod matching;
pub(super) mod pace;
mod probe;
mod round;
pub(super) mod session;
mod talk;

pub(super) use matching::block as match_block;
pub(super) use talk::block as talk_block;

use super::conf::Conf;
use super::implicit::Registry;
use brisk_conf::{Diag, Directive, Span, Token, value};
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::core::LogLevel;
use brisk_server::plan::Plan;
use brisk_server::service::{Service, Work};
use brisk_server::worker::log_error;
use brisk_upstream::backend::Passes;
use check::{Check, Grpc, Target};
use matching::Match;
use pace::Pace;
use probe::Probes;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

/// The setter.
pub(super) fn set(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let mut check = Check {
        pace: Pace::default(),
        uri: "/".into(),
        wanted: Arc::default(),
        is_matched: false,
        grpc: None,
        target: OnceLock::new(),
    };
    for token in &d.args {
        parameter(cx, &mut check, token)?;
    }
    check.pace.check(d)?;
    let check = Arc::new(check);
    // Pushed before it knows whom to ask: services start when the configuration is in force, and by then
    // `install` has said it.
    cx.global.services.push(check.clone());
    cx.conf::<Conf>().check = Some(check);
    Ok(())
}

fn parameter(cx: &Cx<'_, '_>, check: &mut Check, token: &Token) -> Result<(), Diag> {
    let invalid = || invalid_parameter(token);
    if check.pace.parameter(token)? {
        return Ok(());
    }
    match token.str().split_once('=') {
        Some(("uri" | "match", _)) if check.grpc.is_some() => {
            return Err(Diag::emerg(token.span, "\"type=grpc\" is incompatible with \"uri\" and \"match\"")
                .help("remove these: gRPC's health protocol asks for a service, by grpc_service=NAME"));
        }
        Some(("uri", text)) if text.starts_with('/') && !text.contains([' ', '\r', '\n']) => {
            check.uri = text.to_string();
        }
        Some(("match", name)) => {
            check.wanted = found(cx, name, token.span)?;
            check.is_matched = true;
        }
        // Each check has a connection of its own.
        Some(("keepalive_time", text)) => {
            value::parse_time(text.as_bytes(), false).ok_or_else(invalid)?;
        }
        Some(("type", "grpc")) if check.uri != "/" || check.is_matched => {
            return Err(Diag::emerg(token.span, "\"type=grpc\" is incompatible with \"uri\" and \"match\"")
                .help("remove these: gRPC's health protocol asks for a service, by grpc_service=NAME"));
        }
        Some(("type", "grpc")) => check.grpc = Some(Grpc::default()),
        Some((name @ ("grpc_service" | "grpc_status"), text)) => {
            let Some(grpc) = &mut check.grpc else {
                return Err(Diag::emerg(token.span, format!("\"{name}\" must follow \"type=grpc\""))
                    .help(format!("write: health_check type=grpc {name}=...;")));
            };
            match name {
                "grpc_service" => grpc.service = text.to_string(),
                _ => grpc.status = text.parse().map_err(|_| invalid())?,
            }
        }
        _ => return Err(invalid()),
    }
    Ok(())
}

fn found(cx: &Cx<'_, '_>, name: &str, span: Span) -> Result<Arc<Match>, Diag> {
    let have = cx.global.named.get(&("match", name.to_string()));
    have.and_then(|have| have.downcast_ref::<Arc<Match>>()).cloned().ok_or_else(|| {
        Diag::emerg(span, format!("match \"{name}\" not found")).help("define it in http: match NAME { … }")
    })
}

/// Tells a location's check whom to ask.
pub(super) fn install(cx: &Cx<'_, '_>, plan: &Plan) {
    let Some(check) = &cx.conf_of::<Conf>().check else { return };
    let registry = cx.global.data.iter().find_map(|data| data.downcast_ref::<Registry>());
    let passes = plan.shared_data::<Passes>();
    if let (Some(registry), Some(passes)) = (registry, passes)
        && let Some(upstream) = registry.by_id(passes.group)
    {
        // Before any request: with `mandatory` its servers get none until they were asked.
        check.target.get_or_init(|| {
            let id = upstream.will_be_checked(&check.pace);
            Target { id, upstream, passes }
        });
    }
}

impl Service for Check {
    fn start(self: Arc<Self>, work: &Work) {
        match self.target.get() {
            Some(Target { id, upstream, passes }) => {
                let asks = Rc::new(Probes { check: self.clone(), passes: passes.clone() });
                round::start(*id, &self.pace, upstream, asks, work);
            }
            None => log_error(
                &work.live,
                LogLevel::Error,
                format_args!("health_check stands in a location that passes requests to no group"),
            ),
        }
    }
}
