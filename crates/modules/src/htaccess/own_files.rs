//! Apache's own files, told in Brisk's language.

use super::pattern::Pcre;
pub use brisk_apache::conditional::VERSION;
pub use brisk_apache::modules;
pub use brisk_apache::site::{Arguments, exports};
use brisk_apache::site::{Files, translate};
use brisk_apache::syntax::Mistake;
use brisk_conf::{Diag, Directive, Loader, SourceMap};

/// What files came to: as much as could be read.
#[derive(Default)]
pub struct Told {
    /// Directives of Brisk's main level.
    pub tree: Vec<Directive>,
    /// The virtual hosts.
    pub hosts: Vec<Host>,
}

/// A virtual host as `-S` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// What it listens on: `*:80`.
    pub address: String,
    /// `ServerName`, or nothing.
    pub name: String,
    /// `ServerAlias`.
    pub aliases: Vec<String>,
    /// File and line; nothing for the main server.
    pub place: String,
}

/// Reads `httpd.conf` with all that it includes; without a path the lines of the arguments. Errors and notices are appended to `diags`.
pub fn read(
    path: Option<&str>,
    loader: &dyn Loader,
    sources: &mut SourceMap,
    arguments: &Arguments,
    diags: &mut Vec<Diag>,
) -> Told {
    let files = Files::new(loader, sources, arguments);
    let diag = |line: u32, text: &str, of: fn(brisk_conf::Span, String) -> Diag| match files.span(line) {
        Some(span) => of(span, text.to_string()),
        None => Diag::global(text.to_string()),
    };
    let refused = |mistake: &Mistake| diag(mistake.line, &mistake.text, Diag::emerg);
    let nodes = match files.read(path, &Pcre::of_site()) {
        Ok(nodes) => nodes,
        Err(mistake) => {
            diags.push(refused(&mistake));
            return Told::default();
        }
    };
    let translated = match translate(&files, nodes, &Pcre::of_site()) {
        Ok(translated) => translated,
        Err(mistakes) => {
            diags.extend(mistakes.iter().map(refused));
            return Told::default();
        }
    };
    for (line, text) in &translated.notices {
        diags.push(diag(*line, text, Diag::notice));
    }
    let mut hosts: Vec<Host> = Vec::new();
    for host in translated.hosts {
        let place = files.place(host.line).map_or_else(String::new, |(file, line)| format!("{file}:{line}"));
        hosts.push(Host { address: host.address, name: host.name, aliases: host.aliases, place });
    }
    Told { tree: translated.tree, hosts }
}
