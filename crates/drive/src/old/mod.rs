//! The load tools that people know by name: their flags, their reports, our engine.
//!
//! What a tool offers and we do not is refused by name, never ignored.

pub mod ab;
pub mod httperf;
mod run;
pub mod siege;
pub mod wrk;

/// The program that a link to ours is named after, if it is one of these.
pub fn by_name(program: &str) -> Option<fn(&[String]) -> i32> {
    match program.rsplit('/').next().unwrap_or(program) {
        "ab" => Some(ab::main),
        "wrk" => Some(wrk::main),
        "siege" => Some(siege::main),
        "httperf" => Some(httperf::main),
        _ => None,
    }
}

/// The value of a single-letter option: glued to it, or the next argument.
fn value<'a>(glued: &'a str, args: &mut std::slice::Iter<'a, String>, name: &str) -> Result<&'a str, String> {
    if !glued.is_empty() {
        return Ok(glued);
    }
    args.next().map(String::as_str).ok_or_else(|| format!("option requires an argument -- '{name}'"))
}

/// A whole number within limits; which option it is of goes into the message.
fn number(text: &str, option: &str, least: u64, most: u64) -> Result<u64, String> {
    let number: u64 = text.trim().parse().map_err(|_| format!("{option}: \"{text}\" is not a number"))?;
    if (least..=most).contains(&number) {
        Ok(number)
    } else {
        Err(format!("{option}: {number} is not between {least} and {most}"))
    }
}

/// A command line's words, for tests.
#[cfg(test)]
fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_known_by_their_names() {
        assert!(by_name("/usr/local/bin/ab").is_some() && by_name("siege").is_some());
        assert!(by_name("/usr/bin/brisk").is_none() && by_name("abc").is_none());
    }

    #[test]
    fn numbers_have_limits() {
        assert_eq!(number(" 5 ", "-c", 1, 9), Ok(5));
        assert!(number("0", "-c", 1, 9).unwrap_err().contains("-c"));
        assert!(number("x", "-n", 1, 9).is_err());
    }
}
