//! Every knob in the files that distributions deliver: found or added, set to each of its values, and undone byte for byte.
#![forbid(unsafe_code)]

use brisk_tune::edit::{self, File, Language};
use brisk_tune::knob::{Knob, rows};
use brisk_tune::site::Machine;
use std::path::Path;

fn read(path: &str) -> File {
    let text =
        std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}: scripts/setup.sh installs it"));
    File { name: path.into(), text }
}

/// The files of PHP's newest version.
fn php(rest: &str) -> String {
    let mut versions: Vec<String> = std::fs::read_dir("/etc/php")
        .unwrap()
        .map(|entry| entry.unwrap().path().join(rest).display().to_string())
        .filter(|path| Path::new(path).exists())
        .collect();
    versions.sort();
    versions.pop().unwrap_or_else(|| panic!("/etc/php has no {rest}: scripts/setup.sh installs it"))
}

/// `None`: no package that the tests need brings a file of this language; unit tests have written ones.
fn files(language: Language) -> Option<Vec<File>> {
    Some(match language {
        Language::Nginx { .. } => vec![read("/etc/nginx/nginx.conf")],
        Language::NginxParameter { .. } => vec![read("/etc/nginx/sites-available/default")],
        Language::Php => vec![read(&php("fpm/php.ini"))],
        Language::Pool => vec![read(&php("fpm/pool.d/www.conf"))],
        Language::Database => vec![read("/etc/mysql/mariadb.cnf")],
        Language::Apache | Language::Sysctl => return None,
    })
}

fn check(knob: &Knob) {
    let Some(before) = files(knob.language) else { return };
    let wanted = knob.wanted("www");
    let machine = Machine { cpus: 4, memory: 8 << 30, ..Machine::default() };
    let now = edit::read(&before, &wanted).unwrap();
    let levels = knob.levels(now.as_deref(), &machine).unwrap();
    for text in levels.texts.iter().filter(|text| !text.is_empty()) {
        let edits = edit::set(&before, &wanted, text).unwrap();
        let after = edit::apply(&before, &edits).unwrap();
        assert_eq!(edit::read(&after, &wanted).unwrap().as_ref(), Some(text), "{}", knob.name);
        assert_eq!(edit::undo(&after, &edits).unwrap(), before, "{}", knob.name);
        // All other bytes are where they were.
        let grown: usize = edits.iter().map(|edit| edit.new.len()).sum();
        let taken: usize = edits.iter().map(|edit| edit.old.len()).sum();
        assert_eq!(after[0].text.len() + taken, before[0].text.len() + grown, "{}", knob.name);
    }
}

#[test]
fn every_knob_in_delivered_files() {
    rows().for_each(check);
}
