//! The files of a site: those that are named, else those of Debian's packages.

use crate::bundle::{DiskLoader, folder};
use crate::config::system_prefix;
use crate::limits::INCLUDES_MAX;
use crate::tune::running;
use brisk_conf::SourceMap;
use brisk_tune::ini::{Comments, Ini};
use brisk_tune::site::{Block, Machine, Site};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What the caller has named; nothing: it is looked for.
pub struct Wanted {
    pub server: Option<String>,
    pub php_ini: Vec<String>,
    pub fpm: Vec<String>,
    pub mysql: Vec<String>,
}

/// What was read.
#[derive(Default)]
pub struct Read {
    pub site: Site,
    /// The files, in their order.
    pub files: Vec<String>,
    /// Those of the web server; the first one is not included by another.
    pub server: Range<usize>,
    /// Apache's, if that is the web server; the first one is not included by another.
    pub apache: Range<usize>,
    /// php.ini with its conf.d.
    pub php: Range<usize>,
    /// Those with pools.
    pub pools: Range<usize>,
    /// The database's option files.
    pub database: Range<usize>,
    /// What was looked for and is not there.
    pub missing: Vec<&'static str>,
}

impl Read {
    /// Whether the configuration has pools of its own, which Brisk runs.
    pub fn has_own_pools(&self) -> bool {
        self.site.server.as_ref().is_some_and(|block| !block.found("php_pool").is_empty())
    }

    /// The web server's configuration, by the file that no other includes.
    pub fn first(&self) -> Option<&String> {
        let of = |range: &Range<usize>| self.files.get(range.clone())?.first();
        of(&self.server).or_else(|| of(&self.apache))
    }
}

/// Reads a site. A file that was named and cannot be read is an error, and so is a configuration that cannot be understood.
pub fn read(wanted: &Wanted) -> Result<Read, String> {
    let mut read = Read::default();
    server(wanted.server.as_deref(), &mut read)?;
    php(wanted, &mut read)?;
    database(wanted, &mut read)?;
    read.site.machine = machine();
    Ok(read)
}

fn text(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path)
        .map_err(|error| format!("open() \"{}\" failed ({})", path.display(), brisk_conf::os_text(&error)))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn server(named: Option<&str>, read: &mut Read) -> Result<(), String> {
    let own = system_prefix();
    let usual = [format!("{own}brisk.conf"), format!("{own}nginx.conf"), "/etc/nginx/nginx.conf".to_string()];
    let found = usual.into_iter().find(|path| Path::new(path).exists());
    let Some(path) = named.map(str::to_string).or(found) else {
        read.missing.push("the web server's configuration (--site)");
        return Ok(());
    };
    let path = std::path::absolute(&path).map_or(path, |path| path.to_string_lossy().into_owned());
    let loader = DiskLoader::new(&folder(&path));
    let (mut sources, mut diags) = (SourceMap::default(), Vec::new());
    let file = sources.add(path.clone(), text(Path::new(&path))?.into_bytes());
    let tree = brisk_conf::parse(&mut sources, file, &loader, &mut diags);
    if let Some(diag) = diags.iter().find(|diag| diag.level <= brisk_conf::Level::Error) {
        return Err(diag.render(&sources));
    }
    let block = Block::of(&tree, &sources);
    read.site.is_brisk = path.starts_with(&own) || is_for_brisk(&block) || running::is_read_by_brisk(&path);
    read.server = 0..sources.files().len();
    read.files.extend(sources.files().iter().map(|file| file.name.clone()));
    read.site.server = Some(block);
    Ok(())
}

/// Directives that no nginx has, with whatever module.
const OWN: &[&str] = &["php_pool", "php_pass", "supervise", "directory_overrides", "include_apache"];

/// Whether only Brisk can read this configuration.
fn is_for_brisk(block: &Block) -> bool {
    let is_own = |name: &str| OWN.contains(&name);
    is_own(&block.name)
        || block.settings.iter().any(|setting| is_own(&setting.name))
        || block.blocks.iter().any(is_for_brisk)
}

/// Files of a folder with this ending, in the order of their names.
pub fn listed(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|have| have == ending)).collect();
    files.sort();
    files
}

/// PHP-FPM's folder of the newest version.
fn newest_php() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/etc/php").ok()?.flatten().map(|entry| entry.path().join("fpm"));
    let number = |path: &PathBuf| -> Option<(u32, u32)> {
        let name = path.parent()?.file_name()?.to_str()?;
        let (major, minor) = name.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    versions.filter(|path| path.join("php.ini").exists()).max_by_key(number)
}

fn php(wanted: &Wanted, read: &mut Read) -> Result<(), String> {
    let newest = newest_php();
    let named = |paths: &[String]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
    let (own, has_fpm) = match &read.site.server {
        Some(server) if read.has_own_pools() => {
            (inis_of_pools(server), !server.found("fastcgi_pass").is_empty())
        }
        _ => (Vec::new(), true),
    };
    let inis = match (&*wanted.php_ini, &newest) {
        ([], _) if !own.is_empty() => named(&own),
        ([], Some(folder)) => {
            let mut all = vec![folder.join("php.ini")];
            all.extend(listed(&folder.join("conf.d"), "ini"));
            all
        }
        (paths, _) => named(paths),
    };
    let pools = match (&*wanted.fpm, &newest) {
        // The machine's FPM is another site's.
        ([], _) if !has_fpm => Vec::new(),
        ([], Some(folder)) => listed(&folder.join("pool.d"), "conf"),
        (paths, _) => named(paths),
    };
    let begins = read.files.len();
    read.site.php = all(&inis, Comments::Semicolons, &mut read.files)?;
    let between = read.files.len();
    read.site.pools = all(&pools, Comments::Semicolons, &mut read.files)?;
    (read.php, read.pools) = (begins..between, between..read.files.len());
    if inis.is_empty() {
        read.missing.push("php.ini (--php-ini)");
    }
    if pools.is_empty() && has_fpm {
        read.missing.push("PHP-FPM's pools (--fpm)");
    }
    Ok(())
}

/// The php.ini of the first of Brisk's own pools that names one, and the files of the conf.d beside it.
pub fn inis_of_pools(server: &Block) -> Vec<String> {
    let named = server.found("php_ini").first().and_then(|args| args.first().cloned());
    let more = named.iter().flat_map(|file| listed(&Path::new(file).with_file_name("conf.d"), "ini"));
    let more: Vec<String> = more.map(|file| file.display().to_string()).collect();
    named.into_iter().chain(more).collect()
}

fn all(paths: &[PathBuf], comments: Comments, files: &mut Vec<String>) -> Result<Ini, String> {
    let mut ini = Ini::default();
    for path in paths {
        ini.read(&path.to_string_lossy(), &text(path)?, comments);
        files.push(path.to_string_lossy().into_owned());
    }
    Ok(ini)
}

fn database(wanted: &Wanted, read: &mut Read) -> Result<(), String> {
    let usual = PathBuf::from("/etc/mysql/my.cnf");
    let paths = match &*wanted.mysql {
        [] if usual.exists() => vec![usual],
        [] => {
            read.missing.push("MariaDB's option files (--mysql)");
            Vec::new()
        }
        named => named.iter().map(PathBuf::from).collect(),
    };
    let mut ini = Ini::default();
    let begins = read.files.len();
    for path in paths {
        options(&path, 0, &mut ini, &mut read.files)?;
    }
    read.database = begins..read.files.len();
    read.site.database = ini;
    Ok(())
}

/// An option file, and behind it what it includes.
fn options(path: &Path, depth: usize, ini: &mut Ini, files: &mut Vec<String>) -> Result<(), String> {
    if depth > INCLUDES_MAX {
        return Err(format!("\"{}\" is included {INCLUDES_MAX} levels deep", path.display()));
    }
    let text = text(path)?;
    ini.read(&path.to_string_lossy(), &text, Comments::Hashes);
    files.push(path.to_string_lossy().into_owned());
    for line in text.lines().map(str::trim) {
        if let Some(folder) = line.strip_prefix("!includedir") {
            for file in listed(Path::new(folder.trim()), "cnf") {
                options(&file, depth + 1, ini, files)?;
            }
        } else if let Some(file) = line.strip_prefix("!include") {
            options(Path::new(file.trim()), depth + 1, ini, files)?;
        }
    }
    Ok(())
}

/// The kernel's settings that rows look at.
const SYSCTLS: &[&str] = &[
    "net.core.somaxconn",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.netfilter.nf_conntrack_count",
    "net.netfilter.nf_conntrack_max",
    "fs.file-max",
    "fs.inotify.max_user_watches",
];

/// What the machine is, and how its kernel is set.
pub fn machine() -> Machine {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let bytes = |name: &str| -> u64 {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
    };
    let read = |name: &&str| {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        Some((name.to_string(), std::fs::read_to_string(path).ok()?.trim().to_string()))
    };
    Machine {
        cpus: std::thread::available_parallelism().map_or(0, |count| count.get() as u64),
        memory: bytes("MemTotal"),
        swap_used: bytes("SwapTotal").saturating_sub(bytes("SwapFree")),
        sysctls: SYSCTLS.iter().filter_map(read).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> Block {
        let (mut sources, mut diags) = (SourceMap::default(), Vec::new());
        let file = sources.add("a.conf".to_owned(), text.as_bytes().to_vec());
        let tree = brisk_conf::parse(&mut sources, file, &DiskLoader::new("/nonexistent/"), &mut diags);
        assert!(diags.is_empty(), "{text}");
        Block::of(&tree, &sources)
    }

    #[test]
    fn directives_of_brisk_s_own_tell_whose_a_configuration_is() {
        assert!(is_for_brisk(&block("http { php_pool a { } server { listen 80; } }")));
        assert!(is_for_brisk(&block("http { server { location / { php_pass a; } } }")));
        assert!(!is_for_brisk(&block("http { server { location / { fastcgi_pass a; brotli on; } } }")));
        for name in OWN {
            assert!(brisk_conf::nginx::directives().all(|known| known.name != *name), "{name}");
            assert!(!brisk_modules::reference::directives::find(&[(*name).to_owned()]).is_empty(), "{name}");
        }
    }
}
