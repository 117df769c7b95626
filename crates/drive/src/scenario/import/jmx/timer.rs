//! Timers: pauses beside requests.

use super::tree::Element;
use super::values::Values;

/// Whether an element is a pause.
pub fn is_timer(kind: &str) -> bool {
    kind.ends_with("Timer")
}

/// The pause that timers come to together, as a scenario writes it.
pub fn think(
    timers: &[Element<'_>],
    values: &Values,
    notes: &mut Vec<String>,
) -> Result<Option<String>, String> {
    let (mut low, mut high) = (0.0, 0.0);
    let mut random = 0;
    for timer in timers {
        let number = |name: &str| values.number(timer, name);
        let (from, to) = match timer.kind() {
            "ConstantTimer" => {
                let delay = number("ConstantTimer.delay")?;
                (delay, delay)
            }
            "UniformRandomTimer" => {
                let (delay, range) = (number("ConstantTimer.delay")?, number("RandomTimer.range")?);
                (delay, delay + range)
            }
            "GaussianRandomTimer" => {
                let (delay, deviation) = (number("ConstantTimer.delay")?, number("RandomTimer.range")?);
                notes
                    .push(timer.fault("a normal pause becomes a uniform one of the same mean and deviation"));
                let reach = deviation * 3f64.sqrt();
                ((delay - reach).max(0.0), delay + reach)
            }
            "PoissonRandomTimer" => {
                let (delay, mean) = (number("ConstantTimer.delay")?, number("RandomTimer.range")?);
                notes.push(
                    timer.fault("a Poisson pause becomes a uniform one of the same mean and deviation"),
                );
                let reach = mean.sqrt() * 3f64.sqrt();
                ((delay + mean - reach).max(0.0), delay + mean + reach)
            }
            _ => {
                return Err(timer.fault(
                    "this timer sets a rate or waits for other users, which a pause cannot: leave it out and run with --rate",
                ));
            }
        };
        random += usize::from(to > from);
        (low, high) = (low + from, high + to);
    }
    if random > 1
        && let Some(first) = timers.first()
    {
        notes.push(first.fault("several random pauses at once become one, anything between their sums"));
    }
    Ok(match () {
        () if high <= 0.0 => None,
        () if low < high => Some(format!("{low:.0}ms..{high:.0}ms")),
        () => Some(format!("{low}ms")),
    })
}
