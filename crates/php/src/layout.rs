//! What kind of PHP site a folder holds: where its public files are, which script answers what is no file, and where visitors' uploads lie.

/// Names below a site's root, at any depth, in which no script runs, as a regular expression over URIs: folders that applications put visitors' files into,
/// and those of libraries, whose scripts are not meant to be asked (`vendor`). Case does not count.
pub const CLOSED: &str = r"^/(.+/)?((uploads?|blogs\.dir|vendor|node_modules|storage|media|images|cache|tmp)/|sites/[^/]+/(files|private)/)";

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The application, as people call it.
    pub name: &'static str,
    /// The public folder below the folder that was looked at; empty: that itself.
    pub public: &'static str,
    /// Whether `/index.php` answers what is no file.
    pub has_front: bool,
    /// A network of WordPress sites in folders: their own `wp-admin` and files are those of the one installation.
    pub is_network: bool,
}

/// Files that tell an application, its public folder, and its name.
const APPLICATIONS: &[(&[&str], &str, &str)] = &[
    (&["artisan", "public/index.php"], "public", "Laravel"),
    (&["bin/console", "public/index.php"], "public", "Symfony"),
    (&["web/core/lib/Drupal.php", "web/index.php"], "web", "Drupal"),
    (&["docroot/core/lib/Drupal.php", "docroot/index.php"], "docroot", "Drupal"),
    (&["core/lib/Drupal.php", "index.php"], "", "Drupal"),
    (&["web/wp/wp-includes/version.php", "web/index.php"], "web", "WordPress"),
    (&["wp-includes/version.php", "index.php"], "", "WordPress"),
    (&["composer.json", "public/index.php"], "public", "PHP"),
];

impl Layout {
    /// What a folder holds; `None` if there is no PHP in it. `is_file` says whether there is a file of this name below it, `read` gives one's
    /// content, and `has_scripts` whether any script is in the folder itself.
    pub fn of(
        is_file: impl Fn(&str) -> bool,
        read: impl Fn(&str) -> Option<String>,
        has_scripts: bool,
    ) -> Option<Layout> {
        let known = APPLICATIONS.iter().find(|(files, ..)| files.iter().all(|file| is_file(file)));
        if let Some((_, public, name)) = known {
            let is_network =
                *name == "WordPress" && is_folder_network(&read("wp-config.php").unwrap_or_default());
            return Some(Layout { name, public, has_front: true, is_network });
        }
        let has_front = is_file("index.php");
        if !has_front && !has_scripts && !is_file("index.html") && is_file("public/index.php") {
            return Some(Layout { name: "PHP", public: "public", has_front: true, is_network: false });
        }
        (has_front || has_scripts).then_some(Layout { name: "PHP", public: "", has_front, is_network: false })
    }
}

/// Whether `wp-config.php` declares a network of sites in folders.
fn is_folder_network(config: &str) -> bool {
    let is_on = |name: &str| {
        config.lines().map(str::trim).filter(|line| line.starts_with("define")).any(|line| {
            let line = line.replace(['"', ' '], "'");
            line.contains(&format!("'{name}'")) && line.to_ascii_lowercase().contains("true")
        })
    };
    is_on("MULTISITE") && !is_on("SUBDOMAIN_INSTALL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[&str], want: Option<(&str, &str, bool)>) {
        let scripts = files.iter().any(|file| ["index.php", "info.php"].contains(file));
        let found = Layout::of(|name| files.contains(&name), |_| None, scripts);
        assert_eq!(found.as_ref().map(|site| (site.name, site.public, site.has_front)), want, "{files:?}");
    }

    #[test]
    fn applications_by_their_files() {
        check(&["index.html"], None);
        check(&["index.php"], Some(("PHP", "", true)));
        check(&["info.php"], Some(("PHP", "", false)));
        check(&["artisan", "public/index.php", "index.php"], Some(("Laravel", "public", true)));
        check(&["bin/console", "public/index.php"], Some(("Symfony", "public", true)));
        check(&["web/core/lib/Drupal.php", "web/index.php"], Some(("Drupal", "web", true)));
        check(&["core/lib/Drupal.php", "index.php"], Some(("Drupal", "", true)));
        check(&["wp-includes/version.php", "index.php"], Some(("WordPress", "", true)));
        check(&["composer.json", "public/index.php"], Some(("PHP", "public", true)));
        // A public folder of something else is no reason to serve it alone.
        check(&["public/index.php", "index.php"], Some(("PHP", "", true)));
        check(&["public/index.php", "index.html"], None);
        check(&["public/index.php"], Some(("PHP", "public", true)));
    }

    #[test]
    fn networks_of_wordpress() {
        let network = |config: &str| {
            let files = ["wp-includes/version.php", "index.php"];
            Layout::of(|name| files.contains(&name), |_| Some(config.into()), true).unwrap().is_network
        };
        assert!(network("<?php\ndefine( 'MULTISITE', true );\ndefine( \"SUBDOMAIN_INSTALL\", false );"));
        assert!(!network("<?php\ndefine('MULTISITE', true);\ndefine('SUBDOMAIN_INSTALL', true);"));
        assert!(!network("<?php\n// define('MULTISITE', true);"));
    }
}
