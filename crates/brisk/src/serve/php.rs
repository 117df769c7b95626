//! PHP in a folder that is served: by a pool of the server's own, with what its application needs.

use super::Problem;
use crate::config::Paths;
use crate::host::make_passage;
use crate::pools;
use brisk_php::{CLOSED, Layout};
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;

/// What nginx's `fastcgi.conf` sends, and the path behind a script.
const PARAMS: &str = concat!(
    "fastcgi_split_path_info ^(.+?\\.php)(/.*)$; fastcgi_param PATH_INFO $fastcgi_path_info;\n",
    include_str!("../../../../packaging/fastcgi.conf")
);

/// What there is of PHP.
pub(super) enum Site {
    /// None.
    Files,
    /// Scripts, which a pool runs; what does so.
    Run { layout: Layout, by: String },
    /// Scripts, and nothing on this machine that runs them.
    Shut(Layout),
}

/// Looks what a folder holds, and what the machine has for it.
pub(super) fn look(folder: &str) -> Site {
    let base = Path::new(folder);
    let entries = std::fs::read_dir(base).into_iter().flatten().flatten();
    let is_script = |name: std::ffi::OsString| Path::new(&name).extension().is_some_and(|end| end == "php");
    let has_scripts = entries.map(|entry| entry.file_name()).any(is_script);
    let read = |name: &str| std::fs::read_to_string(base.join(name)).ok();
    match Layout::of(|name| base.join(name).is_file(), read, has_scripts) {
        None => Site::Files,
        Some(layout) => match pools::available() {
            Some(by) => Site::Run { layout, by },
            None => Site::Shut(layout),
        },
    }
}

impl Site {
    /// The folder that is public.
    pub fn root(&self, folder: &str) -> String {
        match self {
            Site::Run { layout, .. } | Site::Shut(layout) if !layout.public.is_empty() => {
                format!("{folder}/{}", layout.public)
            }
            _ => folder.to_string(),
        }
    }

    /// What is said of it once the server serves.
    pub fn hint(&self) -> Option<String> {
        match self {
            Site::Files => None,
            Site::Run { layout, by } => {
                let public = if layout.public.is_empty() {
                    String::new()
                } else {
                    format!(", its folder \"{}\" is public", layout.public)
                };
                let name = if layout.name == "PHP" { String::new() } else { format!("{}: ", layout.name) };
                Some(format!("{name}scripts are run by {by}{public}"))
            }
            Site::Shut(_) => Some(
                "PHP scripts are not run, and their source is not shown: no PHP is installed that could run them \
                 (Debian: apt-get install php-fpm)"
                    .into(),
            ),
        }
    }

    /// The pool, and what stands in the server.
    pub fn configuration(&self) -> (&'static str, String) {
        let Site::Run { layout, .. } = self else { return ("", "index index.html index.htm;".into()) };
        let pool = "php_pool serve { php_cgi on; catch_workers_output yes; php_flag[display_errors] on; php_admin_flag[log_errors] on; }\n";
        // A network's sites have folders that do not exist: what is below them is the installation's.
        let network = if layout.is_network {
            "if (!-e $request_filename) { rewrite ^(/[^/]+)?(/wp-(admin|content|includes).*) $2; rewrite ^(/[^/]+)?(/.*\\.php)$ $2; } "
        } else {
            ""
        };
        let (otherwise, listing) =
            if layout.has_front { ("/index.php$is_args$args", "autoindex off; ") } else { ("=404", "") };
        let text = format!(
            "index index.php index.html index.htm; {network}\
             location / {{ {listing}try_files $uri $uri/ {otherwise}; }} \
             location ~ /\\.(?!well-known/) {{ return 404; }} \
             location ~* \"(?s)(?:{CLOSED}).*\\.(php\\d*|phtml|phar|phps|pht)(/|$)\" {{ return 403; }} \
             location ~ [^/]\\.php(/|$) {{ hide_files off; autoindex off; {PARAMS} php_pass serve; }}"
        );
        (pool, text)
    }
}

/// A folder for the pool's sockets and for what the server stores, which only this server knows: nothing is written into the folder that is
/// served. It is removed at the end.
pub(super) fn own_folder() -> Result<String, Problem> {
    let number = RandomState::new().hash_one(std::process::id());
    let path = std::env::temp_dir().join(format!("brisk-serve-{number:016x}"));
    make_passage(&path).map_err(|error| {
        let text = format!(
            "making \"{}\" for PHP's sockets and the server's files failed ({})",
            path.display(),
            brisk_conf::os_text(&error)
        );
        Problem::new(text, "the folder for temporary files (TMPDIR) must be writable")
    })?;
    Ok(format!("{}/", path.display()))
}

/// Removes what [`own_folder`] has made.
pub(super) fn remove_own_folder(paths: &Paths) {
    let folder = Path::new(&paths.env.places.run);
    let is_own = folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("brisk-serve-"));
    if is_own {
        let _ = std::fs::remove_dir_all(folder);
    }
}
