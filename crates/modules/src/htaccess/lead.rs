//! What Apache's own files do before a location is looked for: `SetEnvIf`, `RewriteRule` and `Redirect` of the server.

use super::access::{refuse_encoded_slashes, set_env_if};
use super::before::{self, Step};
use super::carried::{Carried, Present};
use super::facts::{Seen, is_rewriting_over, is_subrequest, settled, stands_in};
use super::place::Place;
use super::plan::DirPlan;
use super::redirects::{ask_back_end, leads_to_back_end, redirect, ruled, ruled_away};
use super::site::Site;
use brisk_apache::EnvChange;
use brisk_apache::rewrite::{Action, Effects, Meaning, Target, per_server};
use brisk_http::uri::resolved;
use brisk_server::flow::Flow;
use brisk_server::plan::{Declared, Handler};
use brisk_server::request::{Purpose, Request};
use brisk_server::rlog;
use std::rc::Rc;
use std::sync::Arc;

/// The first step in a host.
pub struct Lead {
    site: Arc<Site>,
    plan: DirPlan,
}

impl Handler for Lead {
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn handle(&self, r: &mut Request) -> Flow {
        before::begin(r, Step::Lead);
        match self.lead(r) {
            Ok(()) => Flow::Next,
            Err(flow) => flow,
        }
    }
}

impl Lead {
    /// For a host.
    pub fn of(site: Arc<Site>) -> Lead {
        let plan = DirPlan::of_site(&site);
        Lead { site, plan }
    }

    fn lead(&self, r: &mut Request) -> Result<(), Flow> {
        refuse_encoded_slashes(r, Some(&self.site))?;
        // As in Apache, slashes at the beginning are one, also where others stay (`MergeSlashes Off`): rules are written for that.
        let slashes = r.route.uri.iter().take_while(|&&byte| byte == b'/').count();
        if slashes > 1 {
            r.route.uri.drain(..slashes - 1);
        }
        {
            let carried = Carried::of(r);
            let mut carried = carried.borrow_mut();
            carried.log_out();
            let said = carried.say();
            let chosen = said.chosen.take().filter(|(path, _)| *path == r.route.uri);
            said.asked = chosen.map(|(_, asked)| asked);
            carried.maps = Some(self.site.maps().clone());
        }
        self.enter(r)?;
        if Carried::of(r).borrow().said.asked.is_some() {
            return Ok(());
        }
        if r.route.purpose == Purpose::LookUp && Carried::of(r).borrow().looks_for_file() {
            return Ok(());
        }
        let (action, effects) = self.rewritten(r)?;
        let is_stand_in = stands_in(r);
        Carried::of(r).borrow_mut().say().keep(effects, is_stand_in);
        match action {
            Action::Status(status) => return Err(ruled(r, status)),
            Action::Redirect { status, location } => return Err(ruled_away(r, status, location)),
            Action::Continue { query } => set_query(r, query),
            Action::Path { path, query, meaning } => {
                if meaning == Meaning::File {
                    rlog!(
                        r,
                        Error,
                        "RewriteRule leads to a file outside of DocumentRoot, which Brisk does not support"
                    );
                    return Err(Flow::Status(500));
                }
                let path = resolved(&path).map_err(|error| {
                    rlog!(r, Error, "RewriteRule leads to no path of this server ({error})");
                    Flow::Status(400)
                })?;
                let asked = std::mem::replace(&mut r.route.uri, path);
                r.route.unparsed_uri_valid = false;
                set_query(r, query);
                if meaning == Meaning::DocumentRoot {
                    Carried::of(r).borrow_mut().say().asked = Some(asked);
                    // The path is found: as in Apache no `Redirect` is asked for it any more.
                    return Ok(());
                }
            }
            Action::Proxy { url, query, is_raw } => {
                return Err(ask_back_end(r, Some(&self.site), url, query, is_raw));
            }
            Action::Internal { .. } => return Err(Flow::Status(500)),
        }
        // Apache looks for a back end before it looks at these lines.
        let path = r.route.uri.clone();
        if self.site.redirects().is_empty() || leads_to_back_end(r, &path) {
            return Ok(());
        }
        redirect(r, self.site.redirects(), &Place::nowhere(r))
    }

    /// Sets the host's variables, which rules and conditions may ask for, and keeps what holds for the path: an answer from here has
    /// its fields and pages.
    fn enter(&self, r: &mut Request) -> Result<(), Flow> {
        let place = Rc::new(Place::nowhere(r));
        let lines = &self.site.base().settings.set_env_if;
        let carried = Carried::of(r);
        let (effective, changes) = settled(r, |r, looked| {
            let carried = carried.borrow();
            let mut changes: Vec<EnvChange> = Vec::new();
            let seen = Seen { r, place: &place, carried: &carried, changes: &[], looked, group_file: None };
            set_env_if(lines.iter(), &seen, &mut changes)?;
            let mut matched = Vec::new();
            let effective = self.plan.of_path(&Seen { changes: &changes, ..seen }, &mut matched)?;
            changes.extend(matched);
            Ok((effective, changes))
        })?;
        {
            let mut carried = carried.borrow_mut();
            let said = carried.say();
            said.change(changes);
            said.led = lines.len();
        }
        Present { place, effective }.keep(r);
        Ok(())
    }

    fn rewritten(&self, r: &mut Request) -> Result<(Action, Effects), Flow> {
        let query = (!r.route.args.is_empty()).then(|| r.route.args.clone());
        let carried = Carried::of(r);
        let Some(rewriting) = self.site.rewriting().filter(|_| !is_rewriting_over(r)) else {
            return Ok((Action::Continue { query }, Effects::default()));
        };
        let place = Place::nowhere(r);
        settled(r, |r, looked| {
            let carried = carried.borrow();
            let seen = Seen { r, place: &place, carried: &carried, changes: &[], looked, group_file: None };
            let target = Target {
                path: r.route.uri.clone(),
                query: query.clone(),
                path_info: Vec::new(),
                is_subrequest: is_subrequest(r),
                is_proxied: false,
            };
            per_server(&rewriting.rules, target, &seen)
        })
    }
}

fn set_query(r: &mut Request, query: Option<Vec<u8>>) {
    let query = query.unwrap_or_default();
    if query != r.route.args {
        r.route.args = query;
        r.route.unparsed_uri_valid = false;
    }
}
