//! Bounded load on 127.0.0.1: a few threads that ask for one thing again and again until told to stop.

use crate::client::{Client, Failure};
use crate::response::Response;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// How connections are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// One for all requests. The server never closes it: a close is an error.
    Kept,
    /// One for as long as the server keeps it. A server may close an idle connection at any time (RFC 9112 §9.3.1),
    /// so a request on a used connection that ends without a byte of an answer is sent again on a new one.
    Reused,
    /// One for each request.
    Fresh,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Requests that were answered.
    pub requests: u64,
    /// Bytes of answers.
    pub bytes: u64,
    /// The first few failures in words.
    pub errors: Vec<String>,
    /// Requests that failed.
    pub error_count: u64,
}

impl Totals {
    /// Asserts that not one request failed, and that there were any.
    ///
    /// # Panics
    /// If one did.
    pub fn assert_clean(&self) {
        assert_eq!(self.error_count, 0, "of {} requests: {:#?}", self.requests, self.errors);
        assert!(self.requests > 0, "there was no load");
    }
}

/// Running load.
pub struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Totals>>,
}

/// What each thread does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where requests go, on this machine.
    pub port: u16,
    /// Threads that send them.
    pub threads: usize,
    /// How connections are used.
    pub connections: Connections,
    /// What is asked for.
    pub target: String,
    /// Which answers are right.
    pub accept: fn(&Response) -> bool,
}

const ERRORS_KEPT: usize = 5;

impl Load {
    /// Begins at once.
    pub fn start(plan: &Plan) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let done = Arc::new(AtomicU64::new(0));
        let threads = (0..plan.threads)
            .map(|_| {
                let (plan, stop, done) = (plan.clone(), stop.clone(), done.clone());
                std::thread::spawn(move || work(&plan, &stop, &done))
            })
            .collect();
        Load { stop, done, threads }
    }

    /// Requests answered so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Waits until so many more requests were answered.
    pub fn more(&self, count: u64) {
        let goal = self.done() + count;
        crate::wait::holds("load to go on", || self.done() >= goal);
    }

    /// Ends it.
    ///
    /// # Panics
    /// If a thread of it did.
    pub fn stop(self) -> Totals {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Totals::default();
        for thread in self.threads {
            let one = thread.join().expect("load threads do not panic");
            all.requests += one.requests;
            all.bytes += one.bytes;
            all.error_count += one.error_count;
            all.errors.extend(one.errors);
        }
        all
    }
}

fn work(plan: &Plan, stop: &AtomicBool, done: &AtomicU64) -> Totals {
    let mut totals = Totals::default();
    let mut client = None;
    while !stop.load(Ordering::Relaxed) {
        totals.requests += 1;
        match one(plan, &mut client) {
            Ok(bytes) => totals.bytes += bytes,
            Err(error) => {
                client = None;
                totals.error_count += 1;
                if totals.errors.len() < ERRORS_KEPT {
                    totals.errors.push(error);
                }
            }
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    totals
}

fn one(plan: &Plan, kept: &mut Option<Client>) -> Result<u64, String> {
    let used = kept.is_some();
    let mut client = match kept.take() {
        Some(client) => client,
        None => Client::try_connect(plan.port).map_err(|e| format!("connect: {e}"))?,
    };
    let response = match client.try_get(&plan.target) {
        Ok(response) => response,
        Err(Failure::Closed | Failure::Reset) if used && plan.connections == Connections::Reused => {
            return one(plan, &mut None).map(|_| 0);
        }
        Err(failure) => return Err(failure.to_string()),
    };
    if !(plan.accept)(&response) {
        return Err(format!("wrong answer:\n{}{}", response.head, response.text()));
    }
    let closes = response.header("Connection") == Some("close");
    match plan.connections {
        Connections::Kept if closes => {
            return Err(format!("the server closes a kept connection:\n{}", response.head));
        }
        Connections::Kept | Connections::Reused if !closes => *kept = Some(client),
        // A reset leaves no port waiting: thousands of connections must not use them up.
        _ => client.reset(),
    }
    Ok(response.body.len() as u64)
}
