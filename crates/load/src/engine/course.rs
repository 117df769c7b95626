//! The course of a thread's work: warm-up, slices, what comes after the end, and the sum of what is counted.

use crate::limits::MISSED_SLICES_MAX;
use std::sync::{Mutex, PoisonError};

use super::context::{Context, Ns};
use crate::plan::Plan;
use crate::stats::{Part, Slice, Stats};
use crate::system;
use std::time::Duration;

/// See the module's head. The counters of the context are those since the last slice.
pub struct Course<'a> {
    slices: &'a Mutex<Vec<Slice>>,
    width: Option<Ns>,
    count_from: Ns,
    /// When the time of the run is over, if it is for a time.
    count_to: Ns,
    part: Part,
    /// The present slice's beginning, and its end.
    begun: Ns,
    ends: Ns,
    cpu: u64,
    /// See [`system::thread_waited`].
    waited: (u64, u64),
    sum: Stats,
}

impl<'a> Course<'a> {
    /// From the run's start; its time is over at `end`. Slices are shown in `slices`.
    pub fn new(plan: &Plan, end: Option<Ns>, slices: &'a Mutex<Vec<Slice>>) -> Self {
        let width = plan.series.map(|width| width.as_nanos() as Ns);
        let count_from = plan.warmup.as_nanos() as Ns;
        let mut course = Self {
            slices,
            width,
            count_from,
            count_to: end.unwrap_or(Ns::MAX),
            part: if count_from > 0 { Part::Warmup } else { Part::Counted },
            begun: 0,
            ends: 0,
            cpu: system::thread_cpu_ns(),
            waited: system::thread_waited(),
            sum: Stats::default(),
        };
        course.ends = course.next_end(0);
        course
    }

    fn next_end(&self, begin: Ns) -> Ns {
        let end = self.width.map_or(Ns::MAX, |width| begin.saturating_add(width));
        match self.part {
            Part::Warmup => end.min(self.count_from),
            Part::Counted => end.min(self.count_to),
            Part::Tail => end,
        }
    }

    /// It is this late: what is over is summed up.
    #[inline]
    pub fn tick(&mut self, now: Ns, ctx: &mut Context<'_>) {
        if now >= self.ends {
            self.turn(now, ctx);
        }
    }

    #[cold]
    fn turn(&mut self, now: Ns, ctx: &mut Context<'_>) {
        for _ in 0..MISSED_SLICES_MAX {
            if now < self.ends {
                return;
            }
            self.close(self.ends, ctx);
        }
        self.close(now, ctx);
    }

    fn close(&mut self, end: Ns, ctx: &mut Context<'_>) {
        let cpu = system::thread_cpu_ns();
        ctx.stats.generator_cpu_ns = cpu.saturating_sub(std::mem::replace(&mut self.cpu, cpu));
        let waited = system::thread_waited();
        let before = std::mem::replace(&mut self.waited, waited);
        ctx.stats.generator_waited_ns = waited.0.saturating_sub(before.0);
        ctx.stats.generator_turns = waited.1.saturating_sub(before.1);
        if self.width.is_some() {
            let width = Duration::from_nanos(end - self.begun);
            let slice =
                Slice { part: self.part, ..Slice::of(&ctx.stats, Duration::from_nanos(self.begun), width) };
            self.slices.lock().unwrap_or_else(PoisonError::into_inner).push(slice);
        }
        if self.part == Part::Tail {
            let Stats { counts, latency, refused, tail, .. } = &mut ctx.stats;
            let latency_ns = latency.sum() + refused.sum();
            (tail.by_class, tail.latency_ns, tail.bytes) = (counts.by_class, latency_ns, counts.bytes);
        }
        self.sum.merge(&ctx.stats);
        ctx.stats.clear();
        if self.part == Part::Warmup && end >= self.count_from {
            self.part = Part::Counted;
            self.discard(ctx);
        }
        if self.part == Part::Counted && end >= self.count_to {
            self.part = Part::Tail;
        }
        self.begun = end;
        self.ends = self.next_end(end);
    }

    /// What was seen so far does not count.
    fn discard(&mut self, ctx: &mut Context<'_>) {
        self.sum.clear();
        ctx.records.clear();
        ctx.records_dropped = 0;
    }

    /// The end of the work: all that was counted.
    pub fn end(mut self, now: Ns, ctx: &mut Context<'_>) -> Stats {
        self.tick(now, ctx);
        if now > self.begun {
            self.close(now, ctx);
        }
        if self.part == Part::Warmup {
            // The count has not begun.
            self.discard(ctx);
        }
        self.sum
    }
}
