//! Orders that a process has been given and has not answered. Answers name the order's number, so a late one is never taken
//! for another order's.

use std::time::{Duration, Instant};

/// An order without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order<P> {
    /// Its number, which the answer names.
    pub id: u64,
    /// When it was given.
    pub since: Instant,
    /// When the answer is late.
    pub until: Instant,
    /// What it is about.
    pub purpose: P,
}

/// The orders of one process, the oldest first.
#[derive(Clone, Debug)]
pub struct Orders<P>(Vec<Order<P>>);

impl<P> Default for Orders<P> {
    fn default() -> Orders<P> {
        Orders(Vec::new())
    }
}

impl<P> Orders<P> {
    /// An order was given; its answer is expected within `limit`.
    pub fn given(&mut self, id: u64, purpose: P, now: Instant, limit: Duration) {
        self.0.push(Order { id, since: now, until: now + limit, purpose });
    }

    /// An answer has come; gives its order. `None`: nothing with this number is waited for (any more).
    pub fn answered(&mut self, id: u64) -> Option<Order<P>> {
        let at = self.0.iter().position(|order| order.id == id)?;
        Some(self.0.remove(at))
    }

    /// The first order whose answer is late.
    pub fn overdue(&self, now: Instant) -> Option<&Order<P>> {
        self.0.iter().find(|order| order.until <= now)
    }

    /// When [`Orders::overdue`] is to be asked next.
    pub fn next(&self) -> Option<Instant> {
        self.0.iter().map(|order| order.until).min()
    }

    /// Nothing is waited for any more; gives what was.
    pub fn take_all(&mut self) -> Vec<Order<P>> {
        std::mem::take(&mut self.0)
    }

    /// What is waited for.
    pub fn iter(&self) -> impl Iterator<Item = &Order<P>> {
        self.0.iter()
    }

    /// How many are waited for.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is waited for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer to an order that was given up comes after the next order was given.
    #[test]
    fn a_late_answer_is_not_taken_for_the_next_orders() {
        let begin = Instant::now();
        let limit = Duration::from_mins(1);
        let mut orders = Orders::default();
        orders.given(1, "configure", begin, limit);
        assert_eq!((orders.overdue(begin + limit / 2), orders.next()), (None, Some(begin + limit)));
        assert_eq!(orders.overdue(begin + limit).map(|order| order.purpose), Some("configure"));
        assert_eq!(orders.take_all().len(), 1);
        orders.given(2, "reopen", begin, limit);
        assert_eq!(orders.answered(1), None);
        assert_eq!(orders.answered(2).map(|order| order.purpose), Some("reopen"));
        assert!(orders.is_empty() && orders.next().is_none() && orders.answered(2).is_none());
    }

    #[test]
    fn answers_may_come_in_any_order() {
        let now = Instant::now();
        let mut orders = Orders::default();
        for (id, limit) in [(1, 30), (2, 10), (3, 20)] {
            orders.given(id, id, now, Duration::from_secs(limit));
        }
        assert_eq!(orders.next(), Some(now + Duration::from_secs(10)));
        assert_eq!(orders.answered(2).map(|order| order.id), Some(2));
        assert_eq!(orders.iter().map(|order| order.id).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(orders.overdue(now + Duration::from_secs(20)).map(|order| order.id), Some(3));
    }
}
