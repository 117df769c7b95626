//! Writing scenarios: texts as TOML has them, and whether what was written can be read.

use crate::client::is_redirect;
use crate::scenario::read;
use std::fmt::Write as _;
use std::path::Path;

/// A scenario that has just been written, if it can be read.
pub fn sound(written: String) -> Result<String, String> {
    sound_in(written, Path::new(""))
}

/// The same of one that names files in a folder.
pub fn sound_in(written: String, folder: &Path) -> Result<String, String> {
    match read::text(&written, folder) {
        Ok(_) => Ok(written),
        Err(faults) => Err(format!(
            "this cannot be a scenario:\n{}",
            read::show("(scenario)", &written, &faults[..faults.len().min(3)])
        )),
    }
}

/// A check of the status, of those that are good. Clients that follow redirects look at where they lead; a scenario looks at the
/// redirect itself if that is among what is asked for.
pub fn status_check(good: &[u16], follows_redirects: bool) -> String {
    let leaves_out = follows_redirects && good.iter().any(|status| status / 100 == 2);
    let asked = good.iter().filter(|&&status| !(leaves_out && is_redirect(status)));
    let asked: Vec<String> = asked.map(ToString::to_string).collect();
    format!("status = [{}]", asked.join(", "))
}

/// A text as TOML writes it.
pub fn toml_text(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => drop(write!(out, "\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
