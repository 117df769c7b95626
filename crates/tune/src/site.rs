//! What is known of a site: its configurations as written, and the machine. Who reads the files is not this crate's matter.

use crate::ini::Ini;
use crate::limits::LINE_BYTES_MAX;
use brisk_apache::syntax::{self, Node};
use brisk_conf::{Directive, SourceMap, Span};
use std::fmt;

/// Where something stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The file's name.
    pub file: String,
    /// From 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A block of nginx's language, or the file as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// `http`, `server`, `location`; empty for the file.
    pub name: String,
    /// Its parameters.
    pub args: Vec<String>,
    /// Where it begins.
    pub place: Place,
    /// What it sets, in its order.
    pub settings: Vec<Setting>,
    /// The blocks in it.
    pub blocks: Vec<Block>,
}

/// A directive without a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its parameters.
    pub args: Vec<String>,
    /// Where it stands.
    pub place: Place,
}

impl Setting {
    /// The first parameter, or nothing.
    pub fn value(&self) -> &str {
        self.args.first().map_or("", |value| value)
    }

    /// Whether one of the parameters is this.
    pub fn has(&self, word: &str) -> bool {
        self.args.iter().any(|arg| arg == word)
    }

    /// The directive as it would be written.
    pub fn text(&self) -> String {
        std::iter::once(&self.name).chain(&self.args).map(String::as_str).collect::<Vec<_>>().join(" ")
    }
}

impl Block {
    /// Of what was parsed.
    pub fn of(tree: &[Directive], sources: &SourceMap) -> Block {
        let place = Place { file: String::new(), line: 1 };
        inside(String::new(), Vec::new(), place, tree, sources)
    }

    /// The last directive of this name in the block itself.
    pub fn own(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().rev().find(|setting| setting.name == name)
    }

    /// All directives of this name in the block itself.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Setting> {
        self.settings.iter().filter(move |setting| setting.name == name)
    }

    /// The parameters of all directives of this name within it, however deep, blocks included.
    pub fn found<'a>(&'a self, name: &'a str) -> Vec<&'a [String]> {
        let mut all: Vec<&[String]> = self.all(name).map(|setting| &setting.args[..]).collect();
        for inner in &self.blocks {
            if inner.name == name {
                all.push(&inner.args);
            }
            all.extend(inner.found(name));
        }
        all
    }
}

fn inside(name: String, args: Vec<String>, place: Place, tree: &[Directive], sources: &SourceMap) -> Block {
    let mut block = Block { name, args, place, settings: Vec::new(), blocks: Vec::new() };
    for directive in tree {
        let name = directive.name().to_string();
        let args = directive.args.iter().map(|token| token.text().to_string()).collect();
        let place = place_of(directive.span, sources);
        match &directive.block {
            Some(tree) => block.blocks.push(inside(name, args, place, tree, sources)),
            None => block.settings.push(Setting { name, args, place }),
        }
    }
    block
}

fn place_of(span: Span, sources: &SourceMap) -> Place {
    let (line, _) = sources.start(span);
    Place { file: sources.file(span.file).name.clone(), line }
}

/// Directives of Apache's for the whole server: those outside of all sections but `IfModule` and `IfDefine`.
pub(crate) fn of_whole_server(nodes: &[Node]) -> Vec<&Node> {
    let mut found = Vec::new();
    for node in nodes {
        match &node.children {
            Some(children) if node.is("IfModule") || node.is("IfDefine") => {
                found.extend(of_whole_server(children));
            }
            Some(_) => {}
            None => found.push(node),
        }
    }
    found
}

/// What an Apache's file sets for the whole server. Empty for a file that cannot be understood.
pub fn apache_settings(name: &str, text: &[u8]) -> Vec<Setting> {
    let nodes = syntax::read(text, LINE_BYTES_MAX).unwrap_or_default();
    let setting = |node: &Node| Setting {
        name: node.name.clone(),
        args: String::from_utf8_lossy(&node.args).split_whitespace().map(str::to_owned).collect(),
        place: Place { file: name.to_owned(), line: node.line as usize },
    };
    of_whole_server(&nodes).into_iter().map(setting).collect()
}

/// The machine that the site runs on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// CPUs that may be used; 0: not known.
    pub cpus: u64,
    /// Memory in bytes; 0: not known.
    pub memory: u64,
    /// Swap in use, in bytes.
    pub swap_used: u64,
    /// `net.core.somaxconn` and its like, as read.
    pub sysctls: Vec<(String, String)>,
}

impl Machine {
    /// A setting of the kernel as a number.
    pub fn sysctl(&self, name: &str) -> Option<u64> {
        let (_, value) = self.sysctls.iter().find(|(have, _)| have == name)?;
        value.split_whitespace().next()?.parse().ok()
    }
}

/// A site.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// The web server's configuration, if it is in nginx's language.
    pub server: Option<Block>,
    /// What Apache's files set for the whole server, if that is the web server, in their order.
    pub apache: Vec<Setting>,
    /// Brisk reads that configuration: some advice is for nginx alone.
    pub is_brisk: bool,
    /// php.ini with its conf.d, in the order in which PHP reads them.
    pub php: Ini,
    /// PHP-FPM's pools.
    pub pools: Ini,
    /// MariaDB's or MySQL's option files.
    pub database: Ini,
    /// The machine.
    pub machine: Machine,
}
