//! Which files a site has, as its running processes say: the web server at the URL's port, and the PHP-FPM that it asks.

use super::tier::Tier;
use crate::doctor::files::listed;
use crate::httpd;
use brisk_tune::ini::{Comments, Ini};
use std::fs;
use std::path::Path;

/// The web server's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// In nginx's language.
    Server(String),
    /// Apache's.
    Apache(String),
}

/// The configuration of the web server at this port; nothing where none runs, or its configuration cannot be told.
pub fn server(port: u16) -> Option<Named> {
    let master = Tier::Server(port).master().ok()?;
    let program = fs::read_link(format!("/proc/{master}/exe")).ok()?;
    let words = words(master);
    let behind = |option: &str| {
        let at = words.iter().position(|word| word == option)?;
        words.get(at + 1).cloned()
    };
    match program.file_name()?.to_str()? {
        "nginx" => Some(Named::Server(behind("-c").unwrap_or_else(|| "/etc/nginx/nginx.conf".to_owned()))),
        "brisk" => of_brisk(&words).map(Named::Server),
        "apache2" | "httpd" => behind("-f").or_else(httpd::usual).map(Named::Apache),
        _ => None,
    }
}

/// The configuration of a master of Brisk's: its title ends with it (`brisk: master FILE`). Until it has a title, its options say so.
fn of_brisk(words: &[String]) -> Option<String> {
    if let [first, second, file @ ..] = words
        && first == "brisk:"
        && second == "master"
    {
        return (!file.is_empty()).then(|| file.join(" "));
    }
    let at = words.iter().position(|word| word == "-c")?;
    words.get(at + 1).cloned()
}

/// Whether a Brisk that runs reads this configuration.
pub fn is_read_by_brisk(file: &str) -> bool {
    let real = |name: &str| fs::canonicalize(name).unwrap_or_else(|_| name.into());
    let wanted = real(file);
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_brisk = |pid: &u32| {
        fs::read_link(format!("/proc/{pid}/exe"))
            .is_ok_and(|program| program.file_name().is_some_and(|name| name == "brisk"))
    };
    pids.filter(is_brisk).filter_map(|pid| of_brisk(&words(pid))).any(|name| real(&name) == wanted)
}

/// Words of a command line, which a program may have written over with one text.
fn words(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    line.split_whitespace().map(str::to_owned).collect()
}

/// The files of the PHP-FPM that listens at this address: its own and those of its pools.
pub fn fpm(address: &str) -> Vec<String> {
    let Ok(master) = Tier::Php(address.to_owned()).master() else { return Vec::new() };
    // "php-fpm: master process (/etc/php/8.2/fpm/php-fpm.conf)"
    let title = words(master).join(" ");
    let Some(main) = title.split_once('(').and_then(|(_, rest)| rest.split_once(')')) else {
        return Vec::new();
    };
    with_included(main.0)
}

/// A file of PHP-FPM, and those that it includes, by the one pattern that Debian's has: all of an ending.
fn with_included(main: &str) -> Vec<String> {
    let Ok(text) = fs::read_to_string(main) else { return Vec::new() };
    let mut ini = Ini::default();
    ini.read(main, &text, Comments::Semicolons);
    let mut all = vec![main.to_owned()];
    for entry in ini.entries().iter().filter(|entry| entry.name == "include") {
        let pattern = Path::new(&entry.value);
        let files = match pattern.file_name().and_then(|name| name.to_str()?.strip_prefix("*.")) {
            Some(ending) => listed(pattern.parent().unwrap_or(Path::new("/")), ending),
            None => vec![pattern.to_owned()],
        };
        all.extend(files.iter().map(|file| file.display().to_string()));
    }
    all
}

/// php.ini and its conf.d in a folder; nothing where there is no php.ini.
pub fn php_ini(folder: &Path) -> Vec<String> {
    let main = folder.join("php.ini");
    if !main.is_file() {
        return Vec::new();
    }
    let all = std::iter::once(main).chain(listed(&folder.join("conf.d"), "ini"));
    all.map(|file| file.display().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_s_configuration_is_in_its_title() {
        let of = |line: &str| of_brisk(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of("brisk: master /srv/a site/brisk.conf").as_deref(), Some("/srv/a site/brisk.conf"));
        assert_eq!(of("/usr/sbin/brisk -g x -c /srv/b.conf").as_deref(), Some("/srv/b.conf"));
        assert_eq!((of("brisk: master"), of("brisk: worker"), of("/usr/sbin/brisk -t")), (None, None, None));
    }

    #[test]
    fn a_pool_s_files_are_those_that_are_included() {
        let folder = std::env::temp_dir().join(format!("brisk-tune-included-{}", std::process::id()));
        fs::create_dir_all(folder.join("pool.d")).unwrap();
        let at = folder.display();
        let main = format!("{at}/php-fpm.conf");
        fs::write(&main, format!("[global]\ninclude = {at}/pool.d/*.conf\ninclude={at}/one.conf\n")).unwrap();
        for name in ["pool.d/b.conf", "pool.d/a.conf", "pool.d/a.conf.old"] {
            fs::write(folder.join(name), "").unwrap();
        }
        let wanted = ["php-fpm.conf", "pool.d/a.conf", "pool.d/b.conf", "one.conf"];
        assert_eq!(with_included(&main), wanted.map(|name| format!("{at}/{name}")));
        assert!(php_ini(&folder).is_empty());
        fs::remove_dir_all(&folder).unwrap();
    }
}
