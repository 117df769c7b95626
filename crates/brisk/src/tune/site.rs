//! The files of the site that is tuned, as the command line names them or the machine has them.

use super::running::{self, Named};
use super::tier::address_of;
use super::wishes::Wishes;
use crate::bundle::DiskLoader;
use crate::doctor::files::{self, Read, Wanted};
use crate::httpd;
use brisk_conf::SourceMap;
use brisk_load::url::Place;
use brisk_modules::htaccess::own_files;
use brisk_tune::site::apache_settings;
use std::path::Path;

/// Reads them; those that nothing of the site uses are left out of what can be changed.
pub fn read(wishes: &Wishes) -> Result<Read, String> {
    let server = server_of(wishes);
    let mut read = of_running(server.as_ref(), wanted(wishes, server.as_ref()))?;
    if wishes.mysql.is_none() {
        // The copy has no database, or the real one, whose settings are not changed.
        read.database = 0..0;
    }
    leave_out(&mut read);
    Ok(read)
}

/// Options that name what [`read`] has found by the running programs: where the copy runs nothing is to be seen of their sockets.
pub fn options(wishes: &Wishes) -> Result<Vec<String>, String> {
    let server = server_of(wishes);
    let (found, _) = complete(server.as_ref(), wanted(wishes, server.as_ref()))?;
    let mut all = Vec::new();
    let mut name = |option: &str, files: &[String], is_given: bool| {
        let files = files.iter().filter(|_| !is_given);
        all.extend(files.flat_map(|file| [option.to_owned(), file.clone()]));
    };
    match &server {
        Some(Named::Server(file)) => name("--site", std::slice::from_ref(file), wishes.server.is_some()),
        Some(Named::Apache(file)) => name("--apache", std::slice::from_ref(file), wishes.apache.is_some()),
        None => {}
    }
    name("--fpm", &found.fpm, !wishes.fpm.is_empty());
    name("--php-ini", &found.php_ini, !wishes.php_ini.is_empty());
    Ok(all)
}

fn wanted(wishes: &Wishes, server: Option<&Named>) -> Wanted {
    Wanted {
        server: match server {
            Some(Named::Server(file)) => Some(file.clone()),
            _ => None,
        },
        php_ini: wishes.php_ini.clone(),
        fpm: wishes.fpm.clone(),
        mysql: wishes.mysql.clone().into_iter().collect(),
    }
}

/// The files of a site with this server. What is not wanted by name is what its running programs have read.
pub fn of_running(server: Option<&Named>, wanted: Wanted) -> Result<Read, String> {
    complete(server, wanted).map(|(_, read)| read)
}

/// The same, with the names.
fn complete(server: Option<&Named>, mut wanted: Wanted) -> Result<(Wanted, Read), String> {
    let first = once(&wanted, server)?;
    let (fpm, php_ini) = php_of(&first);
    let is_better =
        wanted.fpm.is_empty() && !fpm.is_empty() || wanted.php_ini.is_empty() && !php_ini.is_empty();
    if !is_better {
        return Ok((wanted, first));
    }
    for (have, found) in [(&mut wanted.fpm, fpm), (&mut wanted.php_ini, php_ini)] {
        if have.is_empty() {
            *have = found;
        }
    }
    let read = once(&wanted, server)?;
    Ok((wanted, read))
}

/// The one that is named, else what runs at the URL's port; `None`: what the doctor would look at.
fn server_of(wishes: &Wishes) -> Option<Named> {
    if let Some(file) = &wishes.apache {
        return Some(Named::Apache(file.clone()));
    }
    if let Some(file) = &wishes.server {
        return Some(Named::Server(file.clone()));
    }
    // Under real traffic there is no URL.
    let place = wishes.target().ok().map(|url| url.origin.place);
    match place {
        Some(Place::Name(_, port)) => running::server(port),
        _ => None,
    }
}

fn once(wanted: &Wanted, server: Option<&Named>) -> Result<Read, String> {
    let mut read = files::read(wanted)?;
    if let Some(Named::Apache(file)) = server {
        apache(file, &mut read)?;
    }
    Ok(read)
}

/// The files of PHP-FPM and php.ini, as what asks for PHP and what runs says. Empty: nothing is known but the usual ones.
fn php_of(read: &Read) -> (Vec<String>, Vec<String>) {
    if let Some(version) = module_of(read) {
        return (Vec::new(), running::php_ini(Path::new(&format!("/etc/php/{version}/apache2"))));
    }
    let Some(site) = &read.site.server else { return (Vec::new(), Vec::new()) };
    if asks_fpm(read) {
        let addresses = site.found("fastcgi_pass").into_iter().filter_map(|args| args.first());
        let addresses = addresses.map(|to| address_of(to.strip_prefix("unix:").unwrap_or(to)));
        let fpm = addresses.map(|address| running::fpm(&address)).find(|files| !files.is_empty());
        let fpm = fpm.unwrap_or_default();
        let folder = fpm.first().and_then(|main| Path::new(main).parent());
        let php_ini = folder.map(running::php_ini).unwrap_or_default();
        return (fpm, php_ini);
    }
    (Vec::new(), files::inis_of_pools(site))
}

/// The version of the PHP that Apache has as a module.
fn module_of(read: &Read) -> Option<String> {
    read.files[read.apache.clone()].iter().find_map(|name| {
        let text = std::fs::read_to_string(name).ok()?;
        let line =
            text.lines().find(|line| line.trim_start().to_ascii_lowercase().starts_with("loadmodule php"))?;
        Some(line.rsplit_once("libphp")?.1.strip_suffix(".so")?.to_owned())
    })
}

/// Apache's configuration with all that it includes, in place of another server's.
fn apache(file: &str, read: &mut Read) -> Result<(), String> {
    let paths = httpd::of_file(file).ok_or_else(|| format!("there is no file \"{file}\""))?;
    let arguments = paths.apache.as_ref().ok_or("Apache's arguments are missing")?;
    let loader = DiskLoader::new(&paths.env.conf_prefix);
    let (mut sources, mut diags) = (SourceMap::default(), Vec::new());
    // What Brisk would refuse of it does not matter here: Apache itself reads it.
    own_files::read(Some(&paths.conf), &loader, &mut sources, arguments, &mut diags);
    (read.site.server, read.server) = (None, 0..0);
    let begins = read.files.len();
    // It is read line by line: a file may have come several times.
    for source in sources.files() {
        let is_new = !read.files[begins..].contains(&source.name);
        if is_new && Path::new(&source.name).is_file() {
            read.files.push(source.name.clone());
        }
    }
    if read.files.len() == begins {
        return Err(diags
            .first()
            .map_or_else(|| format!("\"{file}\" cannot be read"), |diag| diag.render(&sources)));
    }
    read.apache = begins..read.files.len();
    for name in &read.files[read.apache.clone()] {
        // What cannot be read is told where its settings are.
        read.site
            .apache
            .extend(std::fs::read(name).map(|text| apache_settings(name, &text)).unwrap_or_default());
    }
    Ok(())
}

/// Whether the web server asks PHP-FPM.
pub fn asks_fpm(read: &Read) -> bool {
    let is_proxy = |name: &String| {
        std::fs::read(name).is_ok_and(|text| text.windows(b"fcgi://".len()).any(|part| part == b"fcgi://"))
    };
    match &read.site.server {
        Some(site) => site.found("php_pool").is_empty() && !site.found("fastcgi_pass").is_empty(),
        None => read.files[read.apache.clone()].iter().any(is_proxy),
    }
}

/// Files of PHP that nothing of the site uses: what they say changes nothing.
fn leave_out(read: &mut Read) {
    if asks_fpm(read) {
        return;
    }
    let site = read.site.server.as_ref();
    let is_from = |args: &&[String]| args.iter().any(|arg| arg.starts_with("from="));
    if !site.is_some_and(|site| site.found("php_pool").iter().any(is_from)) {
        read.pools = 0..0;
    }
    if !read.has_own_pools() && module_of(read).is_none() {
        read.php = 0..0;
    }
}
