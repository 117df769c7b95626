//! The load that the tuner puts on a site: a page asked for by users, or a scenario.

use crate::doctor::measure::WARMUP;
use brisk_drive::scenario::course::Course;
use brisk_drive::scenario::model::{Scenario, Stage};
use brisk_drive::scenario::{read, run};
use brisk_load::arrivals::Rate;
use brisk_load::cli::tls;
use brisk_load::plan::{Endpoint, Place, Plan, RequestOptions, Resolve, Site, Stop, Version, sites};
use brisk_load::report::{Beside, RunReport};
use brisk_load::url::Url;
use brisk_load::watch::{self, Tier, Watch};
use brisk_load::{beside, engine, system};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Who asks.
pub enum Kind {
    /// Users who ask for one page, or requests at a rate.
    Page { users: usize, rate: Option<Rate> },
    /// The users of a scenario's file; so many, if that is given.
    Scenario { file: String, users: Option<usize> },
}

/// A load.
pub struct Traffic {
    pub kind: Kind,
    /// The page; of a scenario, its target.
    pub url: Url,
    /// Where the URL's name is, in place of what a look-up would say.
    pub address: Option<IpAddr>,
}

impl Traffic {
    /// Where the site is asked.
    pub fn place(&self) -> &Place {
        &self.url.origin.place
    }

    /// How many users ask.
    pub fn users(&self) -> Result<usize, String> {
        match &self.kind {
            Kind::Page { users, .. } => Ok(*users),
            Kind::Scenario { users: Some(users), .. } => Ok(*users),
            Kind::Scenario { file, users: None } => Ok(scenario_of(file)?.users_max()),
        }
    }

    /// Whether a user may have no request under way: those of a page without a rate ask again at once, and so do those of a scenario without pauses.
    pub fn has_pauses(&self) -> bool {
        match &self.kind {
            Kind::Page { rate, .. } => rate.is_some(),
            Kind::Scenario { file, .. } => scenario_of(file).map_or(true, |scenario| scenario.has_pauses()),
        }
    }

    /// The same of so many users, without a rate.
    pub fn of_users(&self, users: usize) -> Traffic {
        let kind = match &self.kind {
            Kind::Page { .. } => Kind::Page { users, rate: None },
            Kind::Scenario { file, .. } => Kind::Scenario { file: file.clone(), users: Some(users) },
        };
        Traffic { kind, url: self.url.clone(), address: self.address }
    }

    fn resolve(&self) -> Vec<Resolve> {
        match (self.place(), self.address) {
            (Place::Name(host, port), Some(address)) => {
                vec![Resolve { host: host.clone(), port: *port, address }]
            }
            _ => Vec::new(),
        }
    }

    fn sites(&self) -> Result<Vec<Site>, String> {
        let options = RequestOptions { resolve: self.resolve(), ..RequestOptions::default() };
        sites(std::slice::from_ref(&self.url), &options).map_err(|error| error.to_string())
    }

    fn plan(&self, users: usize, stop: Stop) -> Result<Plan, String> {
        // What certificate a copy of the site has is none of the tuner's business.
        let tls = tls(std::slice::from_ref(&self.url), Version::H1, true)?;
        Ok(Plan { tls, ..Plan::new(self.sites()?, users, stop) })
    }

    /// One request; whether it was answered, and not by an error of the server.
    pub fn is_answered(&self) -> Result<bool, String> {
        let plan = Plan { timeout: Duration::from_secs(2), ..self.plan(1, Stop::Requests(1))? };
        let stats = engine::run(plan).map_err(|error| error.to_string())?.stats;
        Ok(stats.responses() == 1 && stats.by_status.keys().all(|status| *status < 500))
    }

    /// What goes ahead of a look at the tiers: a pool that starts its processes when they are wanted has some from here on. A page is asked for once,
    /// the users of a scenario are there for so long.
    pub fn wake(&self, time: Duration) -> Result<(), String> {
        match &self.kind {
            Kind::Page { .. } => self.is_answered().map(drop),
            Kind::Scenario { file, users } => self.scenario(file, *users, time, &[]).map(drop),
        }
    }

    /// The load for so long, after a part that does not count.
    pub fn run(&self, warmup: Duration, time: Duration, tiers: &[Tier]) -> Result<RunReport, String> {
        if matches!(self.kind, Kind::Scenario { .. }) && !warmup.is_zero() {
            self.wake(warmup)?;
        }
        self.run_awake(warmup, time, tiers)
    }

    /// The load for so long, with the tiers watched meanwhile, behind [`Self::wake`]: the users of a page have a part that does not count yet.
    pub fn run_awake(&self, warmup: Duration, time: Duration, tiers: &[Tier]) -> Result<RunReport, String> {
        match &self.kind {
            Kind::Page { users, rate } => {
                let plan = self.plan(*users, Stop::After(time))?;
                let plan = Plan { warmup, rate: *rate, ..plan };
                beside::run(&plan, tiers).map_err(|error| error.to_string())
            }
            Kind::Scenario { file, users } => self.scenario(file, *users, time, tiers),
        }
    }

    fn scenario(
        &self,
        file: &str,
        users: Option<usize>,
        time: Duration,
        tiers: &[Tier],
    ) -> Result<RunReport, String> {
        let mut scenario = scenario_of(file)?;
        let users = users.unwrap_or(scenario.users_max());
        scenario.users.iter_mut().for_each(|user| user.stages.clear());
        scenario.stages = vec![Stage { users, over: Duration::ZERO, hold: time }];
        scenario.resolve = self.resolve();
        scenario.insecure = true;
        let scenario = Arc::new(scenario);
        let course = Arc::new(Course::new(&scenario, false));
        let watch = Watch::start(tiers, watch::EVERY).map_err(|error| error.to_string())?;
        let at = watch.so_far().origin.elapsed();
        let done = run::run(&scenario, system::half_of_the_cpus(), &course)?;
        course.used_cpu(done.effort.cpu_ns);
        let outcome = course.end(done.planned, done.elapsed);
        let watched = watch.finish();
        Ok(RunReport {
            label: String::new(),
            users,
            depth: 0,
            threads: done.effort.threads.max(1),
            rate: None,
            outcome,
            steady: None,
            watched: Some(Beside { watched, begun: at, from: at, to: at + done.elapsed }),
        })
    }

    /// What is run before a look that is not one of many.
    pub fn usual_warmup() -> Duration {
        WARMUP
    }

    /// The address of the URL's host, looked up here; `None`: it is a unix socket.
    pub fn look_up(url: &Url) -> Result<Option<IpAddr>, String> {
        match url.endpoint().map_err(|error| error.to_string())? {
            Endpoint::Tcp(address) => Ok(Some(address.ip())),
            Endpoint::Unix(_) => Ok(None),
        }
    }
}

/// A scenario that can be cut into slices: one of users who are there.
pub fn scenario_of(file: &str) -> Result<Scenario, String> {
    let scenario = read::file(file)?;
    if scenario.arrivals.is_some() || scenario.replay.is_some() {
        return Err(format!(
            "{file}: a scenario of arrivals or of a log cannot be cut into slices: give it users"
        ));
    }
    Ok(scenario)
}

/// What paths of a scenario are relative to.
pub fn target_of(file: &str) -> Result<Url, String> {
    let target = scenario_of(file)?.target;
    target.ok_or_else(|| format!("{file}: there is no target: write target = \"http://host:port\""))
}
