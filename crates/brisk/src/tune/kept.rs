//! The tuner's last report, kept beside its journal: the dashboard shows it later.

use super::outcome;
use brisk_net::clock;
use brisk_net::replace::replace;
use serde_json::{Value, json};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf, absolute};

fn file_of(folder: &Path) -> PathBuf {
    folder.join("report.json")
}

/// Keeps a result. Nothing depends on it, so a folder that cannot be written is no error.
pub fn keep(folder: &Path, result: &Value) {
    let report = json!({
        "unix_secs": clock::refresh().unix_secs,
        "site": result["site"],
        "lines": outcome::lines(result),
        "is_applied": result["applied"].is_object(),
    });
    // As the journal makes it: what it has is for the administrator alone.
    if DirBuilder::new().recursive(true).mode(0o700).create(folder).is_ok() {
        let _ = replace(&file_of(folder), report.to_string().as_bytes(), 0o600);
    }
}

/// The last report of the site with this configuration; `null` if there is none.
pub fn kept(folder: &Path, site: &str) -> Value {
    let text = std::fs::read(file_of(folder)).unwrap_or_default();
    let report: Value = serde_json::from_slice(&text).unwrap_or_default();
    let is_it =
        absolute(site).is_ok_and(|site| report["site"].as_str().is_some_and(|kept| Path::new(kept) == site));
    if is_it { report } else { Value::Null }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_found_by_its_site() {
        let folder = std::env::temp_dir().join(format!("brisk-kept-{}", std::process::id()));
        let result = json!({
            "site": "/etc/brisk/brisk.conf",
            "limit": { "sentence": "The PHP pool is too small." },
            "steps": [{ "knob": "pm.max_children", "from": "2", "to": "8", "verdict": "kept", "ratio": 0.5, "low": 0.4, "high": 0.6 }],
            "final": null,
        });
        keep(&folder, &result);
        let report = kept(&folder, "/etc/brisk/brisk.conf");
        let lines: Vec<&str> = report["lines"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(
            lines,
            [
                "The PHP pool is too small.",
                "pm.max_children 2 -> 8: kept: cost -50.0 % (-60.0 % to -40.0 %).",
                "Nothing was changed."
            ]
        );
        assert_eq!(kept(&folder, "/etc/nginx/nginx.conf"), Value::Null);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(kept(&folder, "/etc/brisk/brisk.conf"), Value::Null);
    }
}
