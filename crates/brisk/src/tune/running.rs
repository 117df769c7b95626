//! Which files a site has, as its running processes say: the web server at the URL's port, and the PHP-FPM that it asks.

use super::process;
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
    let master = Tier::Server(port).master().or_else(|_| Tier::Apache(port).master()).ok()?;
    let (name, words) = (process::name(master)?, process::words(master));
    let behind = |option: &str| process::option(&words, option);
    match &*name {
        "brisk" => process::conf_of_brisk(&words).map(Named::Server),
        name if name.starts_with("nginx") => {
            Some(Named::Server(behind("-c").unwrap_or_else(|| "/etc/nginx/nginx.conf".to_owned())))
        }
        _ => behind("-f").or_else(httpd::usual).map(Named::Apache),
    }
}

/// Whether a Brisk that runs reads this configuration.
pub fn is_read_by_brisk(file: &str) -> bool {
    let real = |name: &str| fs::canonicalize(name).unwrap_or_else(|_| name.into());
    let wanted = real(file);
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let of = |pid: u32| process::conf_of_brisk(&process::words(pid));
    pids.filter(|pid| process::is_brisk(*pid)).filter_map(of).any(|name| real(&name) == wanted)
}

/// The files of the PHP-FPM that listens at this address: its own and those of its pools.
pub fn fpm(address: &str) -> Vec<String> {
    let master = Tier::Php(address.to_owned()).master().ok();
    let main = master.and_then(|master| process::conf_of_fpm(&process::words(master)));
    main.map_or_else(Vec::new, |main| with_included(&main))
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
