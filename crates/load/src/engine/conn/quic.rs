//! What is different with HTTP/3: QUIC has the handshake, the times and the socket's datagrams.

use std::os::fd::OwnedFd;
use std::time::Instant;

use super::super::context::{Context, Ns};
use super::super::h3::H3;
use super::super::wire::End;
use super::{Open, Stage, Talk, Turn};

impl Open {
    /// Begins QUIC's handshake; where a session allows it, the first requests go with it.
    pub(super) fn begin_h3(&mut self, now: Ns, ctx: &mut Context<'_>) -> Result<(), End> {
        let h3 = H3::begin(self.site, self.made.user, now, ctx)?;
        let may_ask = h3.opens_since().is_none();
        self.talk = Talk::H3(h3);
        if may_ask {
            self.may_ask(ctx);
        }
        self.fill_h3(now, ctx);
        Ok(())
    }

    /// A turn after an event, or when a time has come.
    pub(super) fn ready_h3(&mut self, ctx: &mut Context<'_>) -> Turn {
        let now = ctx.now();
        let before = ctx.responses;
        let heard = match &mut self.talk {
            Talk::H3(h3) => h3.hear(self.wire.socket(), now, &mut self.made, ctx),
            Talk::Handshake(_) | Talk::H1(_) | Talk::H2(_) => return Turn::Wait,
        };
        self.was_answered(before, ctx);
        let heard = match heard {
            Ok(heard) => heard,
            Err(end) => return self.finish(end, ctx),
        };
        if heard.opened {
            self.may_ask(ctx);
        }
        let is_asking = self.stage != Stage::Waiting;
        if heard.answered && is_asking {
            self.stage = Stage::Answered;
            let is_used_up = self.budget.here == 0 && self.in_flight() == 0;
            if is_used_up {
                return self.finish(End::Closed { by_peer: false }, ctx);
            }
            if ctx.plan.think.is_some()
                && let Err(end) = self.next(now, ctx)
            {
                return self.finish(end, ctx);
            }
        }
        self.fill_h3(now, ctx);
        let Talk::H3(h3) = &mut self.talk else { return Turn::Wait };
        if h3.must_move(ctx.instant(now), ctx.plan.migrate) {
            return Turn::Move;
        }
        if heard.has_more { Turn::More } else { self.conclude(Ok(()), ctx) }
    }

    /// Sends as many requests as there is room for, and what QUIC has to send besides.
    pub(super) fn fill_h3(&mut self, now: Ns, ctx: &mut Context<'_>) {
        let Talk::H3(h3) = &mut self.talk else { return };
        if ctx.is_open_loop {
            while self.budget.here > 0 && h3.is_free(ctx.depth()) {
                let Some(due) = ctx.waiting.pop_front() else { break };
                if !h3.send(self.site, due, now, ctx) {
                    ctx.waiting.push_front(due);
                    break;
                }
                self.budget.here -= 1;
            }
        } else if self.pause.is_none() && self.stage != Stage::Waiting {
            h3.fill(self.site, now, &mut self.budget, ctx);
        }
        let at = ctx.instant(now);
        h3.flush(self.wire.socket(), at, ctx);
    }

    /// When it is to have a turn, whatever comes; `None`: never, or it has no times of its own.
    pub fn alarm(&mut self) -> Option<Instant> {
        match &mut self.talk {
            Talk::H3(h3) => h3.alarm(),
            Talk::Handshake(_) | Talk::H1(_) | Talk::H2(_) => None,
        }
    }

    /// Goes on over another socket, as after a change of network.
    pub fn move_to(&mut self, socket: OwnedFd, ctx: &mut Context<'_>) {
        if let Talk::H3(h3) = &mut self.talk {
            self.wire.replace(socket);
            h3.moved();
            ctx.stats.quic.moves += 1;
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Talk::H3(h3) = &mut self.talk {
            // Otherwise the server would keep the connection until it is idle for too long.
            h3.close(self.wire.socket());
        }
    }
}
