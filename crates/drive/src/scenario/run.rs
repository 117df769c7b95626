//! Users at work. Each is a task with connections and cookies of its own; threads share nothing but counters.

use super::model::{Check, Escape, Scenario, Step, User};
use super::tally::Tally;
use crate::client::{Client, Common, Exchange, Fields, Options, Request, Url, block_on, decode};
use brisk_load::jar::Jar;
use brisk_load::plan::Think;
use brisk_load::rng::Rng;
use brisk_load::system;
use brisk_net::{sleep, spawn};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const REDIRECTS_MAX: usize = 10;
/// After a failure on the wire a user waits this long: a server that is gone is not asked as fast as the machine can.
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(20);
/// Of an answer, what is kept to look for values and to check.
const BODY_MAX: usize = 4 << 20;

/// What can be seen while it runs.
#[derive(Debug, Default)]
pub struct Progress {
    /// Responses, those that redirect and those that are bad included.
    pub responses: AtomicU64,
    /// Good answers.
    pub good: AtomicU64,
    /// Bad ones, and none.
    pub bad: AtomicU64,
    /// Users that are there.
    pub users: AtomicU64,
}

/// What the threads share.
struct Shared {
    scenario: Arc<Scenario>,
    progress: Arc<Progress>,
    /// The next row of each data file.
    rows: Vec<AtomicUsize>,
    /// The kind of each user.
    kinds: Vec<usize>,
    began: Instant,
}

/// Runs a scenario on so many threads; gives what was seen and how long it took.
pub fn run(
    scenario: &Arc<Scenario>,
    threads: usize,
    progress: &Arc<Progress>,
) -> Result<(Tally, Duration), String> {
    let users = scenario.users_max();
    system::raise_open_files(users as u64 * 4 + 256).map_err(|error| error.to_string())?;
    let shared = Arc::new(Shared {
        scenario: Arc::clone(scenario),
        progress: Arc::clone(progress),
        rows: scenario.data.iter().map(|_| AtomicUsize::new(0)).collect(),
        kinds: kinds(&scenario.users, users),
        began: Instant::now(),
    });
    let threads: Vec<_> = (0..threads.min(users).max(1))
        .map(|index| {
            let shared = Arc::clone(&shared);
            let of = threads.min(users).max(1);
            std::thread::spawn(move || thread(&shared, index, of))
        })
        .collect();
    let mut all = Tally::default();
    for thread in threads {
        all.merge(&thread.join().map_err(|_| "a thread of the run panicked".to_owned())??);
    }
    Ok((all, shared.began.elapsed()))
}

/// Which kind each user is of, so that any first part of them is mixed as the weights say.
fn kinds(users: &[User], count: usize) -> Vec<usize> {
    let mut given = vec![0u64; users.len()];
    (0..count)
        .map(|_| {
            let share = |at: usize| (given[at] + 1) as f64 / f64::from(users[at].weight);
            let next = (0..users.len()).min_by(|&a, &b| share(a).total_cmp(&share(b))).unwrap_or(0);
            if let Some(given) = given.get_mut(next) {
                *given += 1;
            }
            next
        })
        .collect()
}

fn thread(shared: &Arc<Shared>, index: usize, of: usize) -> Result<Tally, String> {
    let scenario = &shared.scenario;
    let common = Common::new(Options {
        version: scenario.version,
        insecure: scenario.insecure,
        timeout: scenario.timeout,
        body_max: BODY_MAX,
        keep_alive: true,
        resume: true,
    })?;
    let tally = Rc::new(RefCell::new(Tally::default()));
    let active = Rc::new(Cell::new(0usize));
    let (shared, seen) = (Arc::clone(shared), Rc::clone(&tally));
    let work = async move {
        for number in (index..shared.scenario.users_max()).step_by(of) {
            let visitor = Visitor {
                shared: Arc::clone(&shared),
                common: Rc::clone(&common),
                tally: Rc::clone(&seen),
                number,
            };
            let count = Rc::clone(&active);
            count.set(count.get() + 1);
            spawn(async move {
                visitor.visits().await;
                count.set(count.get() - 1);
            });
        }
        let length = shared.scenario.length();
        while active.get() > 0 && shared.began.elapsed() < length && !system::interrupted() {
            sleep(LOOK.min(length.saturating_sub(shared.began.elapsed()) + Duration::from_millis(1))).await;
        }
    };
    block_on(work).map_err(|error| error.to_string())?;
    let result = tally.borrow().clone();
    Ok(result)
}

/// A user.
struct Visitor {
    shared: Arc<Shared>,
    common: Rc<Common>,
    tally: Rc<RefCell<Tally>>,
    number: usize,
}

/// What a user knows and has.
struct Mind {
    client: Client,
    jar: Jar,
    values: HashMap<String, String>,
    rows: Vec<usize>,
    round: u64,
    rng: Rng,
}

/// An answer that was good, or what was wrong with it.
type Judged = Result<(), String>;

impl Visitor {
    /// Comes and goes as the stages say.
    async fn visits(&self) {
        for (from, to) in self.shared.scenario.presence(self.number) {
            sleep(from.saturating_sub(self.shared.began.elapsed())).await;
            self.shared.progress.users.fetch_add(1, Ordering::Relaxed);
            let done = self.visit(to).await;
            self.shared.progress.users.fetch_sub(1, Ordering::Relaxed);
            if done {
                return;
            }
        }
    }

    /// One stay; true when all rounds are done.
    async fn visit(&self, until: Duration) -> bool {
        let scenario = &self.shared.scenario;
        let Some(user) = scenario.users.get(self.shared.kinds[self.number]) else { return true };
        let mut mind = Mind {
            client: Client::new(&self.common),
            jar: Jar::default(),
            values: scenario.variables.iter().cloned().collect(),
            rows: vec![0; scenario.data.len()],
            round: 0,
            rng: Rng::new(Rng::from_clock().next_u64() ^ (self.number as u64) << 20),
        };
        self.draw_rows(&mut mind);
        for step in &user.start {
            self.take(step, user, &mut mind).await;
        }
        let rounds = scenario.iterations.unwrap_or(u64::MAX);
        while mind.round < rounds {
            if mind.round > 0 {
                self.draw_rows(&mut mind);
            }
            if user.random {
                let step = drawn(&user.steps, &mut mind.rng);
                self.take(step, user, &mut mind).await;
            } else {
                for step in &user.steps {
                    if self.shared.began.elapsed() >= until {
                        return false;
                    }
                    self.take(step, user, &mut mind).await;
                }
            }
            mind.round += 1;
            if self.shared.began.elapsed() >= until {
                return false;
            }
        }
        true
    }

    fn draw_rows(&self, mind: &mut Mind) {
        for (at, data) in self.shared.scenario.data.iter().enumerate() {
            mind.rows[at] = if data.random {
                mind.rng.below(data.table.rows.len())
            } else {
                self.shared.rows[at].fetch_add(1, Ordering::Relaxed) % data.table.rows.len()
            };
        }
    }

    /// One step, and the pause after it.
    async fn take(&self, step: &Step, user: &User, mind: &mut Mind) {
        let began = Instant::now();
        let (judged, bytes, on_wire) = self.ask(step, mind, began).await;
        let took = began.elapsed();
        let is_good = judged.is_ok();
        {
            let mut tally = self.tally.borrow_mut();
            let line = tally.step(&step.name, step.group.as_deref());
            line.bytes += bytes;
            match judged {
                Ok(()) => line.latency.record(took.as_nanos() as u64),
                Err(kind) => *line.failures.entry(kind).or_default() += 1,
            }
        }
        let counter = if is_good { &self.shared.progress.good } else { &self.shared.progress.bad };
        counter.fetch_add(1, Ordering::Relaxed);
        let think =
            step.think.or(user.think).map_or(Duration::ZERO, |think: Think| think.draw(&mut mind.rng));
        let pause = if on_wire { think.max(AFTER_FAILURE) } else { think };
        if !pause.is_zero() {
            sleep(pause).await;
        }
    }

    /// Asks and judges: the judgement, bytes of the body, and whether the failure was on the wire.
    async fn ask(&self, step: &Step, mind: &mut Mind, began: Instant) -> (Judged, u64, bool) {
        let mut request = match self.request(step, mind) {
            Ok(request) => request,
            Err(why) => return (Err(why), 0, true),
        };
        for _ in 0..=REDIRECTS_MAX {
            let exchange = match mind.client.exchange(&request.with_cookies(&mind.jar)).await {
                Ok(exchange) => exchange,
                Err(failure) => return (Err(failure.fault.name().to_owned()), 0, true),
            };
            self.shared.progress.responses.fetch_add(1, Ordering::Relaxed);
            exchange.fill(&mut mind.jar, &request);
            let next =
                exchange.fields.get("location").filter(|_| matches!(exchange.status, 301..=303 | 307 | 308));
            if self.shared.scenario.redirects
                && !wants_redirect(step)
                && let Some(url) = next.and_then(|location| request.url.join(location))
            {
                if exchange.status < 307 && request.method != "HEAD" {
                    "GET".clone_into(&mut request.method);
                    request.body = Vec::new();
                }
                request.url = url;
                continue;
            }
            let bytes = exchange.body_bytes;
            return (self.judge(step, mind, &exchange, began), bytes, false);
        }
        (Err("too many redirects".to_owned()), 0, false)
    }

    fn request(&self, step: &Step, mind: &Mind) -> Result<Request, String> {
        let scenario = &self.shared.scenario;
        let value = |name: &str| self.value(mind, name);
        let fill = |template: &super::template::Template, escape| {
            template.fill(escape, &value).map_err(|name| format!("no value for {{{{{name}}}}}"))
        };
        let text = fill(&step.url, Escape::None)?;
        let url = match &scenario.target {
            Some(target) => target.join(&text).ok_or_else(|| format!("bad URL {text}"))?,
            None => Url::parse(&text).map_err(|_| format!("bad URL {text}"))?,
        };
        let mut fields = Fields::default();
        for (name, template) in step.headers.iter().chain(&scenario.headers) {
            if fields.get(name).is_none() {
                fields.push(name, fill(template, Escape::None)?);
            }
        }
        for (name, value) in
            [("User-Agent", "brisk"), ("Accept", "*/*"), ("Accept-Encoding", decode::ACCEPT_ENCODING)]
        {
            if fields.get(name).is_none() {
                fields.push(name, value);
            }
        }
        let body = step.body.as_ref().map(|body| fill(body, step.escape)).transpose()?;
        let request =
            Request { method: step.method.clone(), url, fields, body: body.unwrap_or_default().into_bytes() };
        match request.fault() {
            Some(fault) => Err(fault),
            None => Ok(request),
        }
    }

    fn value(&self, mind: &Mind, name: &str) -> Option<String> {
        if let Some(value) = mind.values.get(name) {
            return Some(value.clone());
        }
        match name {
            "user.number" => return Some(self.number.to_string()),
            "user.round" => return Some(mind.round.to_string()),
            "random" => return Some((Rng::from_clock().next_u64() >> 16).to_string()),
            _ => {}
        }
        let (table, column) = name.split_once('.')?;
        let at = self.shared.scenario.data.iter().position(|data| data.name == table)?;
        self.shared.scenario.data[at].table.value(mind.rows[at], column).map(str::to_owned)
    }

    /// Checks an answer and remembers what is to be remembered.
    fn judge(&self, step: &Step, mind: &mut Mind, exchange: &Exchange, began: Instant) -> Judged {
        let asks_status = step.checks.iter().any(|check| matches!(check, Check::Status(_)));
        if !asks_status && exchange.status >= 400 {
            return Err(format!("status {}", exchange.status));
        }
        let coding = exchange.fields.get("content-encoding").unwrap_or_default();
        let body = match decode::decode(&exchange.body, coding, 64 << 20) {
            Ok(Some(body)) => body,
            Ok(None) => exchange.body.clone(),
            Err(_) => return Err("broken content coding".to_owned()),
        };
        for check in &step.checks {
            let fill = |template: &super::template::Template| {
                template.fill(Escape::None, &|name| self.value(mind, name))
            };
            match check {
                Check::Status(list) if !list.contains(&exchange.status) => {
                    return Err(format!("check: status {}", exchange.status));
                }
                Check::Contains(text) => {
                    let text = fill(text).map_err(|name| format!("no value for {{{{{name}}}}}"))?;
                    if memchr::memmem::find(&body, text.as_bytes()).is_none() {
                        return Err("check: contains".to_owned());
                    }
                }
                Check::Matches(regex) if !regex.is_match(&body) => return Err("check: matches".to_owned()),
                Check::Equal(source, want) if source.find(exchange, &body) != fill(want).ok() => {
                    return Err("check: equal".to_owned());
                }
                Check::Within(limit) if began.elapsed() > *limit => return Err("check: within".to_owned()),
                _ => {}
            }
        }
        for (name, source) in &step.save {
            let value = source.find(exchange, &body).ok_or_else(|| format!("no value to save as {name}"))?;
            mind.values.insert(name.clone(), value);
        }
        Ok(())
    }
}

/// A step that asks for a redirect's status wants to see it.
fn wants_redirect(step: &Step) -> bool {
    step.checks
        .iter()
        .any(|check| matches!(check, Check::Status(list) if list.iter().any(|status| status / 100 == 3)))
}

fn drawn<'a>(steps: &'a [Step], rng: &mut Rng) -> &'a Step {
    let sum: usize = steps.iter().map(|step| step.weight as usize).sum();
    let mut left = rng.below(sum.max(1));
    for step in steps {
        if left < step.weight as usize {
            return step;
        }
        left -= step.weight as usize;
    }
    &steps[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_first_part_of_the_users_is_mixed() {
        let user = |weight| User {
            name: String::new(),
            weight,
            think: None,
            random: false,
            start: Vec::new(),
            steps: Vec::new(),
        };
        let kinds = kinds(&[user(3), user(1)], 8);
        assert_eq!(kinds.iter().filter(|&&kind| kind == 0).count(), 6);
        assert_eq!(kinds[..4].iter().filter(|&&kind| kind == 1).count(), 1);
    }
}
