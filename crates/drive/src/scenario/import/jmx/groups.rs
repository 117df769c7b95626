//! Thread groups: how many users there are when.

use super::tree::Element;
use super::values::Values;

/// A stretch of time, as a scenario has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stage {
    /// Users, or users per second, at its end.
    pub level: f64,
    /// Seconds of its ramp.
    pub over: f64,
    /// Seconds of its plateau.
    pub hold: f64,
}

/// When the users of a group are there.
#[derive(Debug, PartialEq)]
pub struct Schedule {
    /// The stages.
    pub stages: Vec<Stage>,
    /// Whether levels are rates of users who arrive.
    pub arrives: bool,
    /// Rounds of each user; `None`: until the time is over.
    pub rounds: Option<u64>,
    /// The longest time of a group that has none: it ends after its rounds, or by hand.
    pub is_endless: bool,
}

/// Seconds after which a group ends that JMeter would end after its rounds, or never.
const LONGEST: f64 = 24.0 * 3600.0;

/// Whether an element is a group of threads.
pub fn is_group(element: &Element<'_>) -> bool {
    element.kind().ends_with("ThreadGroup")
}

/// What a group says and a scenario does not do. Each begins with its line.
pub fn left_out(group: &Element<'_>) -> Vec<String> {
    let mut found = Vec::new();
    if !matches!(group.text("ThreadGroup.on_sample_error"), "" | "continue") {
        found.push(group.fault("users go on behind a request that failed"));
    }
    if group.text("ThreadGroup.same_user_on_next_iteration") == "false" {
        found.push(group.fault("users keep their connections and cookies from round to round"));
    }
    found
}

/// Reads a group. The error begins with its line.
pub fn schedule(group: &Element<'_>, values: &Values) -> Result<Schedule, String> {
    let number = |name: &str| values.number(group, name);
    match group.kind() {
        "ThreadGroup" => {
            let (users, ramp) = (number("ThreadGroup.num_threads")?, number("ThreadGroup.ramp_time")?);
            let rounds = rounds(group, values, "LoopController.loops")?;
            let is_timed = group.is("ThreadGroup.scheduler");
            let (duration, delay) = if is_timed {
                (number("ThreadGroup.duration")?, number("ThreadGroup.delay")?)
            } else {
                (LONGEST, 0.0)
            };
            let mut stages = Vec::new();
            if delay > 0.0 {
                stages.push(Stage { level: 0.0, over: 0.0, hold: delay });
            }
            stages.push(Stage { level: users, over: ramp.min(duration), hold: (duration - ramp).max(0.0) });
            Ok(Schedule { stages, arrives: false, rounds, is_endless: !is_timed && rounds.is_none() })
        }
        "ConcurrencyThreadGroup" | "ArrivalsThreadGroup" => stepped(group, values),
        "SteppingThreadGroup" => stepping(group, values),
        "UltimateThreadGroup" => ultimate(group, values),
        "SetupThreadGroup" | "PostThreadGroup" => Err(group.fault(
            "what runs before or after all others is not supported: put it into a Once Only Controller, or run it by itself",
        )),
        _ => Err(group.fault("this kind of thread group is not supported: use Thread Group, Concurrency, Stepping, Ultimate or Arrivals")),
    }
}

/// Rounds of a loop; `None`: without an end.
fn rounds(element: &Element<'_>, values: &Values, name: &str) -> Result<Option<u64>, String> {
    let count = values.number(element, name)?;
    Ok((count >= 1.0).then_some(count as u64))
}

/// A level that is reached in steps and held: of users, or of users per minute or second who arrive.
fn stepped(group: &Element<'_>, values: &Values) -> Result<Schedule, String> {
    let arrives = group.kind() == "ArrivalsThreadGroup";
    let is_minutes = group.text("Unit") != "S";
    let unit = if is_minutes { 60.0 } else { 1.0 };
    let number = |name: &str| values.number(group, name);
    let level = number("TargetLevel")? / if arrives { unit } else { 1.0 };
    let (ramp, hold, steps) = (number("RampUp")? * unit, number("Hold")? * unit, number("Steps")?);
    let mut stages = Vec::new();
    if steps >= 1.0 && ramp > 0.0 {
        for step in 1..=steps.min(10_000.0) as u32 {
            let level = level * f64::from(step) / steps;
            let level = if arrives { level } else { level.ceil() };
            stages.push(Stage { level, over: 0.0, hold: ramp / steps });
        }
        stages.push(Stage { level, over: 0.0, hold });
    } else {
        stages.push(Stage { level, over: ramp, hold });
    }
    let rounds = if arrives { Some(1) } else { rounds(group, values, "Iterations")? };
    Ok(Schedule { stages, arrives, rounds, is_endless: false })
}

/// Users come and go in groups of the same size.
fn stepping(group: &Element<'_>, values: &Values) -> Result<Schedule, String> {
    let number = |name: &str| values.number(group, name);
    let users = number("ThreadGroup.num_threads")?;
    let (delay, burst) = (number("Threads initial delay")?, number("Start users count burst")?);
    let (more, every, ramp) =
        (number("Start users count")?, number("Start users period")?, number("rampUp")?);
    let (fewer, stop_every) = (number("Stop users count")?, number("Stop users period")?);
    let mut stages = Vec::new();
    if delay > 0.0 {
        stages.push(Stage { level: 0.0, over: 0.0, hold: delay });
    }
    let mut level = 0.0;
    while level < users && stages.len() < 10_000 {
        let step = if level <= 0.0 && burst > 0.0 {
            burst
        } else if more > 0.0 {
            more
        } else {
            users
        };
        level = (level + step).min(users);
        let is_last = level >= users;
        stages.push(Stage {
            level,
            over: ramp,
            hold: if is_last { number("flighttime")? } else { (every - ramp).max(0.0) },
        });
    }
    while level > 0.0 && fewer > 0.0 && stages.len() < 20_000 {
        level = (level - fewer).max(0.0);
        stages.push(Stage { level, over: 0.0, hold: if level > 0.0 { stop_every } else { 0.0 } });
    }
    let rounds = rounds(group, values, "LoopController.loops")?;
    Ok(Schedule { stages, arrives: false, rounds, is_endless: false })
}

/// Rows of users, delay, start, hold and shutdown, all of which run beside each other.
fn ultimate(group: &Element<'_>, values: &Values) -> Result<Schedule, String> {
    let mut rows = Vec::new();
    for row in group.list("ultimatethreadgroupdata") {
        let numbers: Result<Vec<f64>, String> =
            row.texts().iter().map(|text| values.literal_number(group, "a row", text)).collect();
        let [users, delay, start, hold, stop] = numbers?[..] else {
            return Err(group.fault("a row has users, delay, startup, hold and shutdown"));
        };
        rows.push([users, delay, delay + start, delay + start + hold, delay + start + hold + stop]);
    }
    let level = |now: f64| -> f64 {
        rows.iter()
            .map(|&[users, delay, full, end, gone]| match now {
                now if now < delay || now >= gone.max(end) => 0.0,
                now if now < full => users * (now - delay) / (full - delay),
                now if now <= end => users,
                now => users * (gone - now) / (gone - end),
            })
            .sum()
    };
    let mut moments: Vec<f64> = rows.iter().flat_map(|row| row[1..].iter().copied()).collect();
    moments.sort_by(f64::total_cmp);
    moments.dedup();
    let (mut stages, mut now) = (Vec::new(), 0.0);
    for moment in moments {
        // A jump is a ramp without time.
        let (just_before, at) = (level(moment - 1e-6).round(), level(moment).round());
        if moment > now {
            stages.push(Stage { level: just_before, over: moment - now, hold: 0.0 });
        }
        if (at - just_before).abs() >= 1.0 {
            stages.push(Stage { level: at, over: 0.0, hold: 0.0 });
        }
        now = moment;
    }
    Ok(Schedule { stages, arrives: false, rounds: None, is_endless: false })
}
