//! Services (RFC 2782): where one is offered, from SRV records and the addresses of their targets.

use crate::limits::RECORDS_MAX;
use crate::resolver::{Log, ResolveError, Resolver, random};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// One place where a service is offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Where it is.
    pub address: SocketAddr,
    /// The record's target.
    pub name: Arc<str>,
    /// Lower ones are asked first (RFC 2782).
    pub priority: u16,
    /// The share of requests among those of one priority.
    pub weight: u16,
}

/// What was found of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Services {
    /// By priority.
    pub places: Vec<Service>,
    /// Targets that have no addresses, and why.
    pub failed: Vec<(Arc<str>, ResolveError)>,
    /// For so many seconds what was found holds.
    pub valid_secs: u64,
}

impl Resolver {
    /// The places of `service` of `name`. A service without a dot is one over TCP: `http` means `_http._tcp`. The
    /// error comes with the targets that were asked for in vain.
    pub async fn lookup_service(
        self: &Arc<Self>,
        service: &str,
        name: &str,
        limit: Duration,
        log: &Log,
    ) -> Result<Services, (ResolveError, Services)> {
        let full = if service.contains('.') {
            format!("{service}.{name}")
        } else {
            format!("_{service}._tcp.{name}")
        };
        let (records, valid_secs) =
            self.services(&full, limit, log).await.map_err(|error| (error, Services::default()))?;
        let mut records: Vec<_> = records.iter().take(RECORDS_MAX).cloned().collect();
        records.sort_by_key(|record| record.priority);
        let lookups = records.iter().map(|record| self.lookup(&record.target, limit, log));
        let mut found = Services { valid_secs, ..Services::default() };
        for (record, result) in records.iter().zip(all(lookups).await) {
            let name: Arc<str> = record.target.as_str().into();
            match result {
                Ok(addresses) => {
                    found.valid_secs = found.valid_secs.min(addresses.valid_secs);
                    found.places.extend(addresses.addresses.into_iter().map(|address| Service {
                        address: SocketAddr::new(address, record.port),
                        name: name.clone(),
                        priority: record.priority,
                        weight: record.weight,
                    }));
                }
                Err(error) => found.failed.push((name, error)),
            }
        }
        if found.places.is_empty() {
            let first = found.failed.first().map_or(ResolveError::NOT_FOUND, |(_, error)| *error);
            let nowhere = found.failed.iter().any(|(_, error)| *error == ResolveError::NOT_FOUND);
            return Err((if nowhere { ResolveError::NOT_FOUND } else { first }, found));
        }
        spread(&mut found.places);
        Ok(found)
    }
}

/// Among places of one priority, where one begins is drawn.
fn spread(places: &mut [Service]) {
    for same in places.chunk_by_mut(|a, b| a.priority == b.priority) {
        let by = random() as usize % same.len();
        same.rotate_left(by);
    }
}

/// Awaits all of them at once.
async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut open: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = open.iter().map(|_| None).collect();
    std::future::poll_fn(|cx| {
        for (future, done) in open.iter_mut().zip(&mut done) {
            if done.is_none()
                && let Poll::Ready(output) = future.as_mut().poll(cx)
            {
                *done = Some(output);
            }
        }
        if done.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}
