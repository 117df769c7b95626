//! The line as tables of what comes and what follows, and beside one that looks through all that wait.

use super::simple::Simple;
use super::*;
use crate::random::Random;
use std::collections::VecDeque;

fn line() -> Line<&'static str> {
    Line::new(Duration::from_millis(100))
}

/// A request of this host.
fn of(host: u32) -> Origin {
    Origin { host, thread: 1 }
}

/// Room for so many, pressed or not.
fn room(most: usize) -> Room {
    Room { most, soon: most, usual: most }
}

#[test]
fn in_order() {
    let mut line = line();
    let (a, b) = (line.join(room(9), of(1), 0, "a").unwrap(), line.join(room(9), of(1), 10, "b").unwrap());
    assert_eq!((line.ask(a, |_| ()), line.ask(b, |_| ())), (Verdict::First, Verdict::Waits));
    assert!(line.leave(a, 100) && !line.leave(a, 100));
    assert_eq!(line.ask(b, |_| ()), Verdict::First);
}

/// Some would wait for ever if the newest were served first.
#[test]
fn nobody_is_passed_in_a_pool_that_always_has_a_few_more_than_workers() {
    let mut line: Line<()> = Line::new(Duration::from_millis(100));
    let mut waiting: VecDeque<u64> = (0..12).map(|_| line.join(room(200), of(1), 0, ()).unwrap()).collect();
    for now in (50..5_000).step_by(50) {
        assert!(line.shed_late(24, now).is_empty());
        let first = waiting.pop_front().unwrap();
        assert!(line.is_next(first) && line.leave(first, now));
        waiting.push_back(line.join(room(200), of(1), now, ()).unwrap());
    }
}

#[test]
fn a_full_line_takes_nobody() {
    let mut line = line();
    assert!(line.join(room(0), of(1), 0, "").is_none());
    let a = line.join(room(1), of(1), 0, "a").unwrap();
    assert!(line.join(room(1), of(1), 0, "b").is_none());
    line.leave(a, 0);
    assert!(line.join(room(1), of(1), 0, "b").is_some());
}

#[test]
fn how_long_somebody_has_waited() {
    let mut line = line();
    let (a, b) = (line.join(room(9), of(1), 10, "a").unwrap(), line.join(room(9), of(1), 20, "b").unwrap());
    line.leave(a, 30);
    assert_eq!(line.waited_ms(40), 30);
    line.leave(b, 50);
    assert_eq!((line.waited_ms(50), line.waited_ms(90)), (40, 40));
    line.join(room(9), of(1), 100, "c").unwrap();
    assert_eq!(line.waited_ms(105), 45);
}

#[test]
fn who_waits_too_long_is_turned_away_while_more_wait_than_can_be_served() {
    let mut line = line();
    let tickets: Vec<u64> = (0..5).map(|at| line.join(room(9), of(1), at * 30, "w").unwrap()).collect();
    assert_eq!(line.shed_late(2, 100).len(), 0);
    // At 161 ms the first three have waited for more than 100.
    assert_eq!(line.shed_late(3, 161).len(), 2);
    assert_eq!((line.len(), line.shed()), (3, 2));
    assert_eq!(line.shed_late(1, 161).len(), 1);
    assert_eq!(line.ask(tickets[0], |_| ()), Verdict::Shed);
    assert_eq!(line.ask(tickets[3], |_| ()), Verdict::First);
    // One that is not known any more is not let in.
    line.leave(tickets[0], 161);
    assert_eq!(line.ask(tickets[0], |_| ()), Verdict::Shed);
}

/// Ten times as much as can be served: what is served has not waited longer than about the target.
#[test]
fn what_is_served_in_an_overload_is_served_in_time() {
    let mut line: Line<()> = Line::new(Duration::from_millis(100));
    let mut waiting: Vec<(u64, u64)> = Vec::new();
    let (mut waits, mut served) = (Vec::new(), 0);
    for now in 0..3_000_u64 {
        // One comes per millisecond, one is served in ten.
        if let Some(ticket) = line.join(room(200), of(1), now, ()) {
            waiting.push((ticket, now));
        }
        line.shed_late(8, now);
        waiting
            .retain(|(ticket, _)| line.ask(*ticket, |()| ()) != Verdict::Shed || !line.leave(*ticket, now));
        if now % 10 == 0
            && let Some(at) =
                waiting.iter().position(|(ticket, _)| line.ask(*ticket, |()| ()) == Verdict::First)
        {
            let (ticket, since) = waiting.remove(at);
            line.leave(ticket, now);
            waits.push(now - since);
            served += 1;
        }
    }
    waits.sort_unstable();
    assert!(served >= 290, "{served}");
    assert!(waits[waits.len() * 99 / 100] <= 101, "{:?}", waits.last());
}

/// Requests come one per millisecond to a pool that serves one in `serves_ms`, for so long; each waits for a second at most. Gives how
/// long those waited that were served, and those that were refused.
fn run(
    room: Room,
    keep: usize,
    serves_ms: u64,
    times_ms: std::ops::Range<u64>,
) -> (Vec<(u64, u64)>, Vec<u64>) {
    let mut line: Line<()> = Line::new(Duration::from_millis(100));
    let (mut waiting, mut served, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for now in times_ms {
        match line.join(room, of(1), now, ()) {
            Some(ticket) => waiting.push((ticket, now)),
            None => refused.push(0),
        }
        line.shed_late(keep, now);
        waiting.retain(|(ticket, since)| {
            let is_refused = line.ask(*ticket, |()| ()) == Verdict::Shed || now - since >= 1000;
            if is_refused {
                line.leave(*ticket, now);
                refused.push(now - since);
            }
            !is_refused
        });
        if now % serves_ms == 0
            && let Some(at) = waiting.iter().position(|(ticket, _)| line.is_next(*ticket))
        {
            let (ticket, since) = waiting.remove(at);
            line.leave(ticket, now);
            served.push((now, now - since));
        }
    }
    (served, refused)
}

#[test]
fn in_an_overload_who_is_refused_is_refused_at_once() {
    let (served, refused) = run(Room { most: 40, soon: 5, usual: 40 }, 128, 10, 0..10_000);
    assert!(served.len() >= 990 && refused.len() >= 8900, "{} {}", served.len(), refused.len());
    assert!(refused.iter().all(|waited_ms| *waited_ms <= 50), "{:?}", refused.iter().max());
    assert!(served.iter().all(|(_, waited_ms)| *waited_ms <= 400), "the line as it was when it became full");
    let later = served.iter().filter(|(at_ms, _)| *at_ms > 1000).map(|(_, waited_ms)| *waited_ms);
    assert!(later.max().unwrap() <= 50);
}

/// Also where the line is too long to become full.
#[test]
fn a_long_line_is_shortened_when_many_wait_too_long() {
    let (served, refused) = run(Room { most: 1000, soon: 25, usual: 1000 }, 80, 1, 0..3_000);
    assert!(served.len() >= 2990 && refused.is_empty(), "as many as come are served");
    let (served, mut refused) = run(Room { most: 1000, soon: 25, usual: 1000 }, 80, 2, 0..10_000);
    refused.sort_unstable();
    assert!(served.len() >= 4990, "{}", served.len());
    assert!(refused[refused.len() * 97 / 100] == 0, "{:?}", refused.last());
}

#[test]
fn a_pressed_line_is_short_until_nobody_was_refused_for_a_second() {
    let room = Room { most: 3, soon: 1, usual: 3 };
    let mut line = line();
    let tickets: Vec<u64> = (0..3).map(|at| line.join(room, of(1), at, "w").unwrap()).collect();
    assert!(!line.is_pressed(3));
    assert!(line.join(room, of(1), 3, "w").is_none() && line.is_pressed(3));
    assert!(line.is_next(tickets[0]));
    assert!(line.leave(tickets[0], 500) && line.leave(tickets[1], 500));
    assert!(line.join(room, of(1), 500, "w").is_none(), "one waits");
    line.leave(tickets[2], 600);
    assert!(line.join(room, of(1), 600, "w").is_some());
    assert!(line.is_pressed(500 + LINE_PRESSED_MS - 1) && !line.is_pressed(500 + LINE_PRESSED_MS));
    assert!(line.join(room, of(1), 500 + LINE_PRESSED_MS, "w").is_some());
}

#[test]
fn a_free_place_calls_the_first_of_its_thread() {
    let mut line = line();
    let mut join = |thread, at, name| line.join(room(9), Origin { host: 1, thread }, at, name).unwrap();
    let (a, b, c) = (join(1, 0, "a"), join(2, 5, "b"), join(2, 6, "c"));
    assert_eq!(line.call(2, 8), Some(&"b"), "a has waited for hardly longer");
    assert!(line.is_next(a) && line.is_next(b) && !line.is_next(c));
    // It finds another one at the worker.
    line.recall(b);
    assert!(line.is_next(a) && !line.is_next(b));
    assert_eq!(line.call(2, 9), Some(&"b"));
    assert_eq!(line.call(2, 100), Some(&"c"));
    assert_eq!(line.call(2, 100), Some(&"a"), "nobody else is there");
    assert_eq!(line.call(1, 100), None, "all are called");
}

#[test]
fn one_of_another_thread_that_has_waited_far_longer_goes_first() {
    let mut line = line();
    line.join(room(9), Origin { host: 1, thread: 1 }, 0, "a").unwrap();
    line.join(room(9), Origin { host: 1, thread: 2 }, 50, "b").unwrap();
    line.join(room(9), Origin { host: 2, thread: 2 }, 50, "of another host").unwrap();
    assert_eq!(line.call(2, 61), Some(&"a"), "61 ms and 11 ms");
    line.served(0);
    line.leave(0, 61);
    assert_eq!(line.call(1, 61), Some(&"of another host"), "it is its host's turn");
    assert_eq!(line.call(1, 61), Some(&"b"));
}

#[test]
fn busy_is_where_somebody_always_waits() {
    let mut line = line();
    let a = line.join(room(9), of(1), 0, "a").unwrap();
    assert!(!line.is_busy(999) && line.is_busy(1000));
    line.leave(a, 1500);
    assert!(!line.is_busy(1500));
    line.join(room(9), of(1), 1600, "b").unwrap();
    assert!(!line.is_busy(2000));
}

#[test]
fn hosts_take_turns() {
    let mut line = line();
    let many: Vec<u64> = (0..5).map(|at| line.join(room(99), of(1), at, "one").unwrap()).collect();
    let other =
        [line.join(room(99), of(2), 6, "two").unwrap(), line.join(room(99), of(2), 7, "two").unwrap()];
    let mut order = Vec::new();
    let mut left: Vec<u64> = many.iter().chain(&other).copied().collect();
    while !left.is_empty() {
        let first = |line: &mut Line<_>, ticket: u64| line.ask(ticket, |_| ()) == Verdict::First;
        let at = left.iter().position(|ticket| first(&mut line, *ticket)).unwrap();
        let ticket = left.remove(at);
        line.served(ticket);
        line.leave(ticket, 10);
        order.push(ticket);
    }
    assert_eq!(order, [many[0], other[0], many[1], other[1], many[2], many[3], many[4]]);
}

#[test]
fn one_of_each_host_may_wait_for_its_turn() {
    let room = Room { most: 5, soon: 1, usual: 5 };
    let mut line = line();
    (0..5).for_each(|at| assert!(line.join(room, of(1), at, "one").is_some()));
    assert!(line.join(room, of(1), 5, "one").is_none() && line.is_pressed(5));
    assert_eq!(line.make_room(room, 2, 5), Some(&"one"));
    assert!(line.join(room, of(2), 5, "two").is_some());
    assert!(line.join(room, of(2), 6, "two").is_none(), "its second one");
    assert_eq!(line.make_room(room, 3, 5), Some(&"one"));
    assert!(line.join(room, of(3), 5, "three").is_some());
}

#[test]
fn a_host_with_more_than_its_share_makes_room() {
    let mut line = line();
    let many: Vec<u64> = (0..4).map(|at| line.join(room(4), of(1), at, "one").unwrap()).collect();
    assert_eq!(line.make_room(room(4), 1, 5), None, "there is nobody else");
    assert_eq!(line.make_room(room(4), 2, 5), Some(&"one"));
    assert_eq!(line.ask(many[3], |_| ()), Verdict::Shed, "the newest");
    line.join(room(4), of(2), 5, "two").unwrap();
    assert_eq!(line.make_room(room(4), 2, 5), Some(&"one"));
    line.join(room(4), of(2), 5, "two").unwrap();
    assert_eq!(line.make_room(room(4), 2, 5), None, "it has its share");
    assert_eq!(line.join(room(4), of(2), 5, "two"), None);
    assert_eq!(line.make_room(room(5), 3, 5), None, "there is room");
}

/// How many of what is done at random by chance.
const STEPS: usize = 4000;

/// Whatever is done in whatever order, both say the same: who is woken, who is first, who may come, and who is turned away.
#[test]
fn it_does_what_a_line_does_that_looks_through_all() {
    for seed in 1..=12 {
        let mut random = Random::new(seed);
        let mut below = |most: u64| random.next() % most;
        // Some lines are short, so that they are full and pressed; others become long.
        let rooms =
            [Room { most: 6, soon: 2, usual: 4 }, Room { most: 60, soon: 9, usual: 30 }, Room::of(300)];
        let room = rooms[seed as usize % rooms.len()];
        let (mut line, mut simple): (Line<u64>, Simple) =
            (Line::new(Duration::from_millis(100)), Simple::new(100));
        let (mut tickets, mut now): (Vec<u64>, u64) = (Vec::new(), 5000);
        for step in 0..STEPS {
            now += below(30);
            let origin = Origin { host: below(4) as u32, thread: below(3) };
            let any = (!tickets.is_empty()).then(|| below(tickets.len() as u64) as usize);
            let what = format!("seed {seed}, step {step}");
            match (below(12), any) {
                (0..4, _) => {
                    let woken = line.make_room(room, origin.host, now).copied();
                    assert_eq!(woken, simple.make_room(room, origin.host, now), "{what}");
                    let ticket = line.join(room, origin, now, line.next_ticket);
                    assert_eq!(ticket, simple.join(room, origin, now), "{what}");
                    tickets.extend(ticket);
                }
                (4..7, _) => {
                    let called = line.call(origin.thread, now).copied();
                    assert_eq!(called, simple.call(origin.thread, now), "{what}");
                }
                (7, _) => {
                    let late: Vec<u64> = line.shed_late(room.usual, now).into_iter().copied().collect();
                    assert_eq!(late, simple.shed_late(room.usual, now), "{what}");
                }
                (8, Some(at)) => {
                    line.recall(tickets[at]);
                    simple.recall(tickets[at]);
                }
                (9, Some(at)) => {
                    line.served(tickets[at]);
                    simple.served(tickets[at]);
                }
                (_, Some(at)) => {
                    let ticket = tickets.swap_remove(at);
                    assert_eq!(line.leave(ticket, now), simple.leave(ticket), "{what}");
                    assert_eq!((line.leave(ticket, now), simple.leave(ticket)), (false, false), "{what}");
                }
                (_, None) => {}
            }
            assert_eq!((line.len(), line.is_calling()), (simple.len(), simple.is_calling()), "{what}");
            // All of them now and then: the other one takes long for that.
            let asked = if step % 100 == 0 { tickets.len() } else { tickets.len().min(2) };
            for ticket in tickets.iter().rev().take(asked) {
                assert_eq!(line.ask(*ticket, |_| ()), simple.ask(*ticket), "{what}, {ticket}");
            }
        }
    }
}

/// Nothing of a request stays behind.
#[test]
fn a_line_that_all_have_left_is_as_at_the_beginning() {
    let mut line: Line<u64> = Line::new(Duration::from_millis(100));
    let origin = |at: u64| Origin { host: at as u32 % 5, thread: at % 3 };
    let tickets: Vec<u64> = (0..100).map(|at| line.join(room(100), origin(at), at, at).unwrap()).collect();
    (0..30).for_each(|at| assert!(line.call(at % 3, 200).is_some()));
    assert_eq!(line.shed_late(60, 250).len(), 40);
    tickets.into_iter().for_each(|ticket| assert!(line.leave(ticket, 300)));
    assert!(line.is_empty() && !line.is_calling() && line.waiters.is_empty());
    assert_eq!((line.turns.next(), line.crowds.largest(), line.crowds.hosts()), (None, None, 0));
}
