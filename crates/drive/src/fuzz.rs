//! Invariants of the readers as plain functions over arbitrary bytes: they panic if one is broken.

use crate::client::{Request, Url};
use crate::page::{css, html};
use crate::scenario::import::{har, locust};
use crate::scenario::{read, replay};
use std::borrow::Cow;
use std::path::Path;

fn text(data: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(data)
}

/// What an import writes can be read; if not, the imported file is at fault, and that is said before.
fn check_scenario(written: &str) {
    if let Err(faults) = read::text(written, Path::new("/nonexistent")) {
        panic!("{}", read::show("imported.toml", written, &faults));
    }
}

/// HAR files.
pub fn fuzz_har(data: &[u8]) {
    if let Ok(written) = har::convert(&text(data), None) {
        check_scenario(&written);
    }
}

/// Locustfiles.
pub fn fuzz_locust(data: &[u8]) {
    if let Ok(written) = locust::convert(&text(data), Some("http://127.0.0.1/")) {
        check_scenario(&written);
    }
}

/// Access logs: entries are in time, and each can be asked for.
pub fn fuzz_log(data: &[u8]) {
    let log = replay::read(&text(data), 1000);
    let target = Url::parse("http://127.0.0.1/").expect("it is one");
    assert!(log.entries.is_sorted_by_key(|entry| entry.at));
    for entry in &log.entries {
        let request = replay::request(entry, &target);
        assert_eq!((request.fault(), &request.url.origin), (None, &target.origin), "{entry:?}");
    }
}

/// Pages and style sheets: every reference is a URL that can be asked for, and each stands there once.
pub fn fuzz_page(data: &[u8]) {
    let base = Url::parse("http://a/b/c.html").expect("it is one");
    let resources = html::resources(data, &base);
    for (at, resource) in resources.iter().enumerate() {
        assert_eq!(Request::get(resource.url.clone()).fault(), None, "{resource:?}");
        assert_eq!(Url::parse(&resource.url.to_string()).as_ref(), Ok(&resource.url));
        assert!(resources[..at].iter().all(|other| other.url != resource.url), "{resource:?}");
    }
    for (reference, _) in css::references(&text(data)) {
        assert!(!reference.is_empty());
        if let Some(url) = base.join(&reference) {
            assert_eq!(Request::get(url).fault(), None, "{reference}");
        }
    }
}

/// siege's lists of URLs. Files that it names are not read here.
pub fn fuzz_urls(data: &[u8]) {
    let requests = crate::old::siege::requests(&text(data).replace('<', ""));
    for request in requests.unwrap_or_default() {
        assert_eq!(request.fault(), None, "{request:?}");
    }
}

/// Scenario files: what is wrong can be shown. Files that they name are not read here.
pub fn fuzz_scenario(data: &[u8]) {
    let text = text(data).replace("file", "elif").replace("log", "gol");
    match read::text(&text, Path::new("/nonexistent")) {
        Ok(scenario) => drop(scenario.presence(0)),
        Err(faults) => {
            assert!(!faults.is_empty());
            assert!(read::show("a.toml", &text, &faults).contains("a.toml:"));
        }
    }
}
