//! siege's users.

use super::options::Options;
use super::report::Totals;
use crate::client::{
    Client, Common, Fields, Options as ClientOptions, Request, Version, block_on, decode, is_redirect,
};
use crate::limits::USER_REDIRECTS_MAX;
use crate::page::html;
use brisk_load::jar::Jar;
use brisk_load::output;
use brisk_load::rng::Rng;
use brisk_load::system;
use brisk_net::{sleep, spawn};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A siege without an end ends after this.
const LONGEST: Duration = Duration::from_hours(1);
/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// What a user has of its own.
struct Visitor {
    client: Client,
    jar: RefCell<Jar>,
}

struct Siege {
    options: Options,
    targets: Vec<Request>,
    totals: RefCell<Totals>,
    over: Cell<bool>,
    active: Cell<usize>,
    /// When the last user was done.
    done: Cell<Option<Instant>>,
}

/// Lets all users loose and waits for the end.
pub fn attack(options: &Options, targets: Vec<Request>) -> Result<Totals, String> {
    system::raise_open_files(options.users as u64 * 2 + 256).map_err(|error| error.to_string())?;
    let siege = Rc::new(Siege {
        options: options.clone(),
        targets,
        totals: RefCell::default(),
        over: Cell::new(false),
        active: Cell::new(options.users),
        done: Cell::new(None),
    });
    let common = Common::new(ClientOptions {
        version: Version::H1,
        insecure: true,
        timeout: options.timeout,
        body_max: 4 << 20,
        keep_alive: options.keep_alive,
        resume: true,
        early: false,
        resolve: Vec::new(),
        proxy: None,
        network: None,
    })?;
    let limit = options.time.unwrap_or(LONGEST);
    let whole = Rc::clone(&siege);
    let run = async move {
        let began = Instant::now();
        for number in 0..whole.options.users {
            let (siege, client) = (Rc::clone(&whole), Client::new(&common));
            spawn(async move {
                siege.user(number, &Visitor { client, jar: RefCell::default() }).await;
                siege.active.set(siege.active.get() - 1);
                siege.done.set((siege.active.get() == 0).then(Instant::now));
            });
        }
        while whole.active.get() > 0 && began.elapsed() < limit && !system::interrupted() && !whole.over.get()
        {
            sleep(LOOK).await;
        }
        if whole.active.get() > 0 && whole.options.has_banner() {
            output::note("Lifting the server siege...");
        }
        whole.over.set(true);
        whole.done.get().unwrap_or_else(Instant::now) - began
    };
    let elapsed = block_on(run).map_err(|error| error.to_string())?;
    let mut totals = siege.totals.borrow().clone();
    totals.elapsed = elapsed;
    Ok(totals)
}

impl Siege {
    async fn user(&self, number: usize, visitor: &Visitor) {
        let mut rng = Rng::new(Rng::from_clock().next_u64() ^ number as u64);
        let rounds = self.options.repetitions.unwrap_or(u64::MAX);
        let mut at = 0;
        let mut done = 0;
        while done < rounds && !self.over.get() {
            let target = if self.options.random { rng.below(self.targets.len()) } else { at };
            at = (at + 1) % self.targets.len();
            self.visit(visitor, &self.targets[target]).await;
            done += 1;
            // "Before each request", says siege's help, but siege begins with a request.
            if self.options.delay > 0.0 && !self.options.benchmark && done < rounds {
                sleep(Duration::from_secs_f64(rng.unit() * self.options.delay)).await;
            }
        }
    }

    /// One URL with its redirects and, if it is a page, what that consists of.
    async fn visit(&self, visitor: &Visitor, target: &Request) {
        let mut request = target.clone();
        for _ in 0..USER_REDIRECTS_MAX {
            let Some((status, fields, body)) = self.hit(visitor, &request).await else { return };
            if self.options.follow
                && is_redirect(status)
                && let Some(url) = fields.get("location").and_then(|location| request.url.join(location))
            {
                if status < 307 {
                    "GET".clone_into(&mut request.method);
                    request.body = Vec::new();
                }
                request.url = url;
                continue;
            }
            let is_html = fields.get("content-type").is_some_and(|kind| kind.starts_with("text/html"));
            if self.options.parser && is_html && status < 400 {
                let coding = fields.get("content-encoding").unwrap_or_default();
                let text = decode::decode(&body, coding, 16 << 20).ok().flatten().unwrap_or_default();
                for resource in html::resources(&text, &request.url) {
                    if self.over.get() {
                        return;
                    }
                    let part = Request {
                        method: "GET".to_owned(),
                        url: resource.url,
                        body: Vec::new(),
                        ..request.clone()
                    };
                    self.hit(visitor, &part).await;
                }
            }
            return;
        }
    }

    async fn hit(&self, visitor: &Visitor, request: &Request) -> Option<(u16, Fields, Vec<u8>)> {
        let began = Instant::now();
        let result = if self.options.cookies {
            let asked = request.with_cookies(&visitor.jar.borrow());
            visitor.client.exchange(&asked).await
        } else {
            visitor.client.exchange(request).await
        };
        // What ends after the end does not count.
        if self.over.get() {
            return None;
        }
        let took = began.elapsed();
        match result {
            Ok(exchange) => {
                exchange.fill(&mut visitor.jar.borrow_mut(), request);
                self.totals.borrow_mut().answered(exchange.status, exchange.body_bytes, took);
                if self.options.verbose {
                    output::line(format_args!(
                        "{} {} {:>8.2} secs: {:>7} bytes ==> {:<4} {}",
                        exchange.version,
                        exchange.status,
                        took.as_secs_f64(),
                        exchange.body_bytes,
                        request.method,
                        request.url.path
                    ));
                }
                Some((exchange.status, exchange.fields, exchange.body))
            }
            Err(failure) => {
                let failures = {
                    let mut totals = self.totals.borrow_mut();
                    totals.failures += 1;
                    totals.failures
                };
                if !self.options.quiet {
                    output::note(format_args!("[error] {failure}"));
                }
                if failures >= self.options.failures_max {
                    output::note(
                        "siege aborted due to excessive socket failure; you can change the failure threshold in the rc file",
                    );
                    self.over.set(true);
                }
                None
            }
        }
    }
}
