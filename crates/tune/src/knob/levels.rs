//! The values of a knob that are tried, in the file's spelling.

use super::row::{Bound, Domain, Knob, Scale, Unit};
use crate::ini::bytes;
use crate::limits::{LADDER_FACTOR, LADDER_RUNGS, LEVELS_MAX};
use crate::site::Machine;
use std::fmt;

/// The values of one knob on one machine, in their order, the present one among them.
#[derive(Clone, Debug, PartialEq)]
pub struct Levels {
    /// As written into the file.
    pub texts: Vec<String>,
    /// Where each lies between the least (0) and the greatest (1), on the knob's scale; choices lie nowhere.
    pub places: Vec<f64>,
    /// The present one.
    pub original: usize,
    /// Whether neighbours are alike: numbers are, choices are not.
    pub is_ordered: bool,
    /// The one nearest to what is good for many sites.
    pub usual: Option<usize>,
}

/// A present value that is not understood, so that it cannot be compared with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The knob's name.
    pub name: &'static str,
    /// What stands there.
    pub value: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the value \"{}\" of {} is not understood: it is left as it is", self.value, self.name)
    }
}

impl std::error::Error for Unreadable {}

impl Bound {
    fn number(self, machine: &Machine) -> u64 {
        match self {
            Self::Fixed(number) => number,
            Self::PerCpu(count) => count * machine.cpus.max(1),
            Self::OfMemory(percent) => machine.memory / 100 * percent,
        }
    }
}

impl Unit {
    fn read(self, text: &str) -> Option<u64> {
        match self {
            Self::Count | Self::Megabytes => text.parse().ok(),
            Self::Bytes => bytes(text),
            Self::Seconds => {
                let number = |text: &str, factor: u64| text.parse::<u64>().ok()?.checked_mul(factor);
                match text.strip_suffix('s') {
                    Some(rest) => number(rest, 1),
                    None => match text.strip_suffix('m') {
                        Some(rest) => number(rest, 60),
                        None => number(text, 1),
                    },
                }
            }
        }
    }

    fn write(self, number: u64) -> String {
        const MEGA: u64 = 1 << 20;
        match self {
            Self::Bytes if number >= MEGA && number.is_multiple_of(MEGA) => format!("{}m", number / MEGA),
            Self::Bytes if number >= 1024 && number.is_multiple_of(1024) => format!("{}k", number / 1024),
            _ => number.to_string(),
        }
    }

    /// A number near this one that people would write.
    fn rounded(self, number: f64) -> u64 {
        const MEGA: f64 = 1_048_576.0;
        let number = match self {
            Self::Bytes if number >= MEGA => (number / MEGA).round() * MEGA,
            Self::Bytes if number >= 1024.0 => (number / 1024.0).round() * 1024.0,
            _ if number >= 1000.0 => (number / 100.0).round() * 100.0,
            _ if number >= 100.0 => (number / 10.0).round() * 10.0,
            _ => number.round(),
        };
        number as u64
    }
}

impl Knob {
    /// The values to choose from where this one is written now; `None`: none is, and the default holds.
    ///
    /// # Errors
    /// A present value that is no number of the knob's kind.
    pub fn levels(&self, now: Option<&str>, machine: &Machine) -> Result<Levels, Unreadable> {
        let now = now.unwrap_or(self.default);
        match self.domain {
            Domain::Choice(texts) => Ok(choices(texts, now)),
            Domain::Number { low, high, scale, unit } => {
                let present = self.number(now, unit, machine);
                let present =
                    present.ok_or_else(|| Unreadable { name: self.name, value: now.to_string() })?;
                let (low, high) = (low.number(machine), high.number(machine));
                let usual = self.usual.map(|usual| usual.number(machine));
                Ok(self.numbers((low, high.max(low)), scale, unit, (present, now), usual))
            }
        }
    }

    /// The values for small steps: each within a quarter of its neighbour, which lie as far from each other as the whole range does elsewhere, so that a
    /// search goes from one to the next and skips none.
    ///
    /// # Errors
    /// A present value that is no number of the knob's kind.
    pub fn ladder(&self, now: Option<&str>, machine: &Machine) -> Result<Levels, Unreadable> {
        let now = now.unwrap_or(self.default);
        let Domain::Number { low, high, unit, .. } = self.domain else {
            return self.levels(Some(now), machine);
        };
        let present = self.number(now, unit, machine);
        let present = present.ok_or_else(|| Unreadable { name: self.name, value: now.to_string() })?;
        let (low, high) = (low.number(machine), high.number(machine));
        let mut numbers = vec![present];
        for (factor, least) in [(1.0 / LADDER_FACTOR, -1.0), (LADDER_FACTOR, 1.0)] {
            let mut at = present as f64;
            for _ in 0..LADDER_RUNGS {
                // Of small numbers a quarter is less than one.
                let next = if (at * factor - at).abs() < 1.0 { at + least } else { at * factor };
                // Towards the one before: rounding must not make the step larger.
                let next = if factor > 1.0 { next.floor() } else { next.ceil() };
                at = next.clamp(low as f64, high as f64);
                numbers.push(at as u64);
            }
        }
        self.keep_allowed(&mut numbers, present);
        let text =
            |number: &u64| if *number == present { now.to_string() } else { self.written(unit, *number) };
        Ok(Levels {
            places: (0..numbers.len()).map(|index| index as f64).collect(),
            texts: numbers.iter().map(text).collect(),
            original: numbers.iter().position(|number| *number == present).unwrap_or(0),
            is_ordered: true,
            usual: None,
        })
    }

    /// In their order, each once, and none that is too small.
    fn keep_allowed(&self, numbers: &mut Vec<u64>, present: u64) {
        numbers.retain(|number| !self.never_less || *number >= present);
        numbers.sort_unstable();
        numbers.dedup();
    }

    /// A number as its file has it.
    fn written(&self, unit: Unit, number: u64) -> String {
        let written = unit.write(number);
        if self.form.is_empty() { written } else { self.form.replace("{}", &written) }
    }

    /// The number that a value means.
    fn number(&self, text: &str, unit: Unit, machine: &Machine) -> Option<u64> {
        if let Some((_, bound)) = self.words.iter().find(|(word, _)| *word == text) {
            return Some(bound.number(machine));
        }
        let (before, behind) = self.form.split_once("{}").unwrap_or(("", ""));
        unit.read(text.strip_prefix(before)?.strip_suffix(behind)?)
    }

    fn numbers(
        &self,
        ends: (u64, u64),
        scale: Scale,
        unit: Unit,
        present: (u64, &str),
        usual: Option<u64>,
    ) -> Levels {
        let (low, high) = (ends.0 as f64, ends.1 as f64);
        let steps = (LEVELS_MAX - 1) as f64;
        let mut numbers: Vec<u64> = (0..LEVELS_MAX)
            .map(|step| {
                let part = step as f64 / steps;
                let number = match scale {
                    Scale::Linear => low + (high - low) * part,
                    Scale::Logarithmic => low.max(1.0) * (high.max(1.0) / low.max(1.0)).powf(part),
                };
                unit.rounded(number).clamp(ends.0, ends.1)
            })
            .collect();
        numbers.push(present.0);
        self.keep_allowed(&mut numbers, present.0);
        let on_scale = |number: u64| match scale {
            Scale::Linear => number as f64,
            Scale::Logarithmic => (number.max(1) as f64).ln(),
        };
        let (first, last) = (on_scale(numbers[0]), on_scale(numbers[numbers.len() - 1]));
        let places = numbers.iter().map(|number| (on_scale(*number) - first) / (last - first).max(1e-9));
        let nearest = |wanted: u64| {
            let off = |index: &usize| (on_scale(numbers[*index]) - on_scale(wanted)).abs();
            (0..numbers.len()).min_by(|a, b| off(a).total_cmp(&off(b)))
        };
        let text = |number: &u64| {
            if *number == present.0 {
                return present.1.to_string();
            }
            self.written(unit, *number)
        };
        Levels {
            places: places.collect(),
            texts: numbers.iter().map(text).collect(),
            original: numbers.iter().position(|number| *number == present.0).unwrap_or(0),
            is_ordered: true,
            usual: usual.and_then(nearest),
        }
    }
}

fn choices(texts: &[&str], now: &str) -> Levels {
    let mut texts: Vec<String> = texts.iter().map(|text| (*text).to_string()).collect();
    let is_now = |text: &String| {
        text.eq_ignore_ascii_case(now)
            || crate::ini::flag(text).is_some_and(|have| crate::ini::flag(now) == Some(have))
    };
    let original = texts.iter().position(is_now).unwrap_or_else(|| {
        texts.push(now.to_string());
        texts.len() - 1
    });
    // What is written now stays spelled as it is.
    texts[original] = now.to_string();
    Levels { places: vec![0.0; texts.len()], texts, original, is_ordered: false, usual: None }
}
