//! The course of a thread's work: warm-up, slices, and the sum of what is counted.

use std::sync::{Mutex, PoisonError};

use super::context::{Context, Ns};
use crate::plan::Plan;
use crate::stats::{Slice, Stats};
use crate::system;
use std::time::Duration;

/// Slices that begin in one wake-up, at most: a thread that was stopped for longer leaves a gap.
const MISSED_MAX: usize = 1000;

/// See the module's head. The counters of the context are those since the last slice.
pub struct Course<'a> {
    slices: &'a Mutex<Vec<Slice>>,
    width: Option<Ns>,
    count_from: Ns,
    is_warming: bool,
    /// The present slice's beginning, and its end.
    begun: Ns,
    ends: Ns,
    cpu: u64,
    sum: Stats,
}

impl<'a> Course<'a> {
    /// From the run's start; slices are shown in `slices`.
    pub fn new(plan: &Plan, slices: &'a Mutex<Vec<Slice>>) -> Self {
        let width = plan.series.map(|width| width.as_nanos() as Ns);
        let count_from = plan.warmup.as_nanos() as Ns;
        let mut course = Self {
            slices,
            width,
            count_from,
            is_warming: count_from > 0,
            begun: 0,
            ends: 0,
            cpu: system::thread_cpu_ns(),
            sum: Stats::default(),
        };
        course.ends = course.next_end(0);
        course
    }

    fn next_end(&self, begin: Ns) -> Ns {
        let end = self.width.map_or(Ns::MAX, |width| begin.saturating_add(width));
        if self.is_warming { end.min(self.count_from) } else { end }
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
        for _ in 0..MISSED_MAX {
            if now < self.ends {
                return;
            }
            self.close(self.ends, ctx);
        }
        self.begun = now;
        self.ends = self.next_end(now);
    }

    fn close(&mut self, end: Ns, ctx: &mut Context<'_>) {
        let cpu = system::thread_cpu_ns();
        ctx.stats.generator_cpu_ns = cpu.saturating_sub(std::mem::replace(&mut self.cpu, cpu));
        if self.width.is_some() {
            let width = Duration::from_nanos(end - self.begun);
            let slice = Slice::of(&ctx.stats, Duration::from_nanos(self.begun), width);
            self.slices.lock().unwrap_or_else(PoisonError::into_inner).push(slice);
        }
        self.sum.merge(&ctx.stats);
        ctx.stats.clear();
        if self.is_warming && end >= self.count_from {
            self.is_warming = false;
            self.discard(ctx);
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
        if self.is_warming {
            // The count has not begun.
            self.discard(ctx);
        }
        self.sum
    }
}
