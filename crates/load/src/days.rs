//! Rates as requests per day: what people who plan for users ask for.

use crate::chart::short;

/// A rate as people plan with it: requests a day and in six busy hours; and with what is left until the nearest limit, as a factor,
/// if that is known. Nothing is said of what is not there.
pub fn days(rate: f64, headroom: Option<f64>) -> String {
    if rate <= 0.0 {
        return "at this rate: no requests a day".to_owned();
    }
    let said = |rate: f64| {
        let (day, busy) = per_day(rate);
        format!("{} requests a day, {} in six busy hours", short(day), short(busy))
    };
    let room = match headroom {
        None => String::new(),
        Some(times) if times <= 1.0 => "; nothing is left above that".to_owned(),
        Some(times) => {
            format!("; at most {} times that until the nearest limit: {}", short(times), said(rate * times))
        }
    };
    format!("at this rate: {}{room}", said(rate))
}

/// A rate as requests per day: at this rate all day, and within six busy hours.
pub fn per_day(rate: f64) -> (f64, f64) {
    (rate * 86_400.0, rate * 6.0 * 3600.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_told_as_days() {
        assert_eq!(days(100.0, None), "at this rate: 8.64M requests a day, 2.16M in six busy hours");
        assert_eq!(
            days(100.0, Some(2.5)),
            "at this rate: 8.64M requests a day, 2.16M in six busy hours; at most 2.5 times that until the nearest limit: \
             21.6M requests a day, 5.4M in six busy hours"
        );
        assert!(days(1.0, Some(1.0)).ends_with("; nothing is left above that"));
        assert_eq!(days(0.0, Some(7.0)), "at this rate: no requests a day");
    }
}
