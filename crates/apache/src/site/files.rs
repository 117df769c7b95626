//! The server's files: `Include`, `LoadModule`, `ServerRoot`, and where each line stands.

use crate::conditional::{self, Defines, Server};
use crate::limits::LINE_BYTES_MAX;
use crate::modules;
use crate::syntax::{self, Mistake, Node};
use crate::{Patterns, conditional::module_name};
use brisk_conf::{FileId, Loader, SourceMap, Span, os_text};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Modules that are there without a `LoadModule`.
const BUILT_IN: &[&str] = &["core", "http", "so", "unixd", "version", "watchdog", "logio"];

/// What the command line says of how files are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// Where relative paths begin until `ServerRoot` is read (`-d`).
    pub root: String,
    /// `-D`.
    pub defines: Vec<String>,
    /// Lines that stand before the file (`-C`).
    pub before: Vec<String>,
    /// Lines that stand behind it (`-c`).
    pub after: Vec<String>,
    /// The environment, for `${NAME}`.
    pub env: BTreeMap<String, String>,
    /// The names of those variables that `envvars` exports: `.htaccess` files may ask for them, too.
    pub exported: Vec<String>,
    /// The machine has IPv6: `Listen 80` is for both families.
    pub has_ipv6: bool,
    /// The files are included into a configuration in Brisk's language (`include_apache`): they hold virtual hosts, and nothing of the
    /// server as a whole. All modules count as loaded, and a virtual host listens without a `Listen`.
    pub is_included: bool,
}

/// All files of one configuration.
pub struct Files<'a> {
    loader: &'a dyn Loader,
    arguments: &'a Arguments,
    state: RefCell<State<'a>>,
}

struct State<'a> {
    sources: &'a mut SourceMap,
    /// The number of each file's first line, ascending.
    starts: Vec<(u32, FileId)>,
    next: u32,
    /// `ServerRoot`.
    root: String,
    loaded: BTreeSet<String>,
    /// What is defined at the end.
    defines: BTreeMap<String, Option<Vec<u8>>>,
    notices: Vec<(u32, String)>,
}

impl<'a> Files<'a> {
    /// None is read yet.
    pub fn new(loader: &'a dyn Loader, sources: &'a mut SourceMap, arguments: &'a Arguments) -> Files<'a> {
        let state = State {
            sources,
            starts: Vec::new(),
            next: 0,
            root: arguments.root.clone(),
            loaded: BTreeSet::new(),
            defines: BTreeMap::new(),
            notices: Vec::new(),
        };
        Files { loader, arguments, state: state.into() }
    }

    /// Reads a file with all that it includes, between the lines of the command line. Conditions are resolved.
    ///
    /// # Errors
    /// The first line that cannot be read.
    pub fn read<P: Patterns>(&self, path: Option<&str>, patterns: &P) -> Result<Vec<Node>, Mistake> {
        let mut defines = Defines::new();
        for name in &self.arguments.defines {
            let (name, value) = name.split_once('=').map_or((name.as_str(), None), |(n, v)| (n, Some(v)));
            defines.insert(name.to_string(), value.map(|value| value.as_bytes().to_vec()));
        }
        let mut nodes = self.lines("command line", self.arguments.before.join("\n").as_bytes())?;
        if let Some(path) = path {
            let text = self.loader.read(path).map_err(|error| Mistake {
                line: 0,
                text: format!("Could not open configuration file {path}: {}", os_text(&error)),
            })?;
            nodes.extend(self.lines(path, &text)?);
        }
        nodes.extend(self.lines("command line", self.arguments.after.join("\n").as_bytes())?);
        let nodes = conditional::resolve(nodes, self, patterns, &mut defines);
        self.state.borrow_mut().defines = defines.into_iter().collect();
        nodes
    }

    /// What `Define` and `-D` have set when all is read.
    pub fn defines(&self) -> BTreeMap<String, Option<Vec<u8>>> {
        self.state.borrow().defines.clone()
    }

    fn lines(&self, name: &str, text: &[u8]) -> Result<Vec<Node>, Mistake> {
        let mut state = self.state.borrow_mut();
        let file = state.sources.add(name, text.to_vec());
        let start = state.next;
        state.starts.push((start, file));
        state.next += text.iter().filter(|&&byte| byte == b'\n').count() as u32 + 2;
        let nodes = syntax::read(text, LINE_BYTES_MAX);
        let mut nodes = nodes.map_err(|mistake| Mistake { line: mistake.line + start, ..mistake })?;
        nodes.iter_mut().for_each(|node| moved(node, start));
        Ok(nodes)
    }

    /// Where a line stands; nothing for a line that is in no file.
    pub fn span(&self, line: u32) -> Option<Span> {
        let state = self.state.borrow();
        let at = state.starts.partition_point(|&(start, _)| start < line).checked_sub(1)?;
        let (start, file) = state.starts[at];
        let source = state.sources.file(file);
        let place = source.line((line - start) as usize)?;
        let line = &source.text[place.clone()];
        let indent = line.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let (from, to) = (place.start + indent, place.start + line.trim_ascii_end().len());
        Some(Span { file, start: from as u32, end: to.max(from) as u32 })
    }

    /// The name of a line's file, and its number there.
    pub fn place(&self, line: u32) -> Option<(String, usize)> {
        let span = self.span(line)?;
        let state = self.state.borrow();
        Some((state.sources.file(span.file).name.clone(), state.sources.start(span).0))
    }

    /// `ServerRoot`.
    pub fn root(&self) -> String {
        self.state.borrow().root.clone()
    }

    /// A path of the file, beginning at `ServerRoot` unless it is absolute, as sections are written.
    pub fn path(&self, path: &str) -> String {
        if path.starts_with('/') {
            plain(path)
        } else {
            plain(&format!("{}/{path}", self.state.borrow().root.trim_end_matches('/')))
        }
    }

    /// What was accepted although it does nothing, with its line.
    pub fn take_notices(&self) -> Vec<(u32, String)> {
        std::mem::take(&mut self.state.borrow_mut().notices)
    }

    /// A text that is read beside the configuration, such as `TypesConfig`.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn text(&self, path: &str) -> Result<std::sync::Arc<[u8]>, String> {
        let path = self.path(path);
        self.loader.read(&path).map_err(|error| format!("could not open {path}: {}", os_text(&error)))
    }

    /// The addresses of a host.
    ///
    /// # Errors
    /// It cannot be looked up.
    pub fn addresses(&self, host: &str) -> Result<Vec<std::net::IpAddr>, String> {
        self.loader.addresses(host).map_err(|error| error.to_string())
    }

    /// What the command line says.
    pub fn arguments(&self) -> &Arguments {
        self.arguments
    }

    /// Modules that `LoadModule` has named, without `mod_`.
    pub fn loads(&self, module: &str) -> bool {
        self.state.borrow().loaded.contains(module)
    }

    /// Whether rules may ask back ends (flag P).
    pub fn has_proxy(&self) -> bool {
        self.arguments.is_included || self.loads("proxy")
    }

    /// Whether Apache would run PHP inside of itself.
    pub fn loads_php(&self) -> bool {
        ["php", "php7", "php8"].iter().any(|module| self.loads(module))
    }

    fn include(&self, node: &Node) -> Result<Vec<Node>, Mistake> {
        let mistake = |text: String| Mistake { line: node.line, text };
        let is_optional = node.is("IncludeOptional");
        let pattern =
            node.words().next().ok_or_else(|| mistake(format!("{} takes one argument", node.name)))?;
        let pattern = String::from_utf8(pattern).map_err(|_| mistake("the path is no UTF-8".into()))?;
        let path = self.path(&pattern);
        let paths = if path.contains(['*', '?', '[']) {
            self.found(&path).map_err(mistake)?
        } else if self.is_there(&path) {
            vec![path.clone()]
        } else {
            Vec::new()
        };
        if paths.is_empty() && !is_optional {
            return Err(mistake(format!("{}: there is no file {path}", node.name)));
        }
        let mut nodes = Vec::new();
        for path in paths {
            self.file(&path, 0, &mut nodes).map_err(|text| match text {
                Trouble::Mistake(mistake) => mistake,
                Trouble::Text(text) => mistake(text),
            })?;
        }
        Ok(nodes)
    }

    /// A file, or all files of a folder.
    fn file(&self, path: &str, depth: usize, nodes: &mut Vec<Node>) -> Result<(), Trouble> {
        match self.loader.read(path) {
            Ok(text) => nodes.extend(self.lines(path, &text).map_err(Trouble::Mistake)?),
            Err(error) => {
                // A copy of the files has no folders, so what is in one tells that it is there.
                let all = format!("{}/*", escaped(path.trim_end_matches('/')));
                let inner = if depth < 16 { self.found(&all).map_err(Trouble::Text)? } else { Vec::new() };
                if !inner.is_empty() {
                    return inner.iter().try_for_each(|path| self.file(path, depth + 1, nodes));
                }
                let text = format!("Could not open configuration file {path}: {}", os_text(&error));
                return Err(Trouble::Text(text));
            }
        }
        Ok(())
    }

    fn found(&self, pattern: &str) -> Result<Vec<String>, String> {
        self.loader.glob(pattern).map_err(|error| format!("{pattern}: {}", os_text(&error)))
    }

    fn is_there(&self, path: &str) -> bool {
        self.loader.glob(&escaped(path)).is_ok_and(|found| !found.is_empty())
    }

    fn load_module(&self, node: &Node) {
        let name = node.words().next().unwrap_or_default();
        let name = module_name(&String::from_utf8_lossy(&name)).to_string();
        let mut state = self.state.borrow_mut();
        if !modules::has(&name) && !BUILT_IN.contains(&name.as_str()) {
            let text = format!(
                "Brisk does not have the module {name}: <IfModule> of it is false, and its directives are errors elsewhere"
            );
            state.notices.push((node.line, text));
        }
        state.loaded.insert(name);
    }
}

enum Trouble {
    Mistake(Mistake),
    Text(String),
}

/// A path as a pattern that matches it alone.
fn escaped(path: &str) -> String {
    let mut out = String::new();
    for c in path.chars() {
        match c {
            '*' | '?' | '[' | ']' => out.extend(['[', c, ']']),
            c => out.push(c),
        }
    }
    out
}

fn moved(node: &mut Node, start: u32) {
    node.line += start;
    node.children.iter_mut().flatten().for_each(|node| moved(node, start));
}

impl Server for Files<'_> {
    fn has_module(&self, name: &str) -> bool {
        let is_loaded = || self.arguments.is_included || self.state.borrow().loaded.contains(name);
        BUILT_IN.contains(&name) || (modules::has(name) && is_loaded())
    }

    fn has_file(&self, path: &[u8]) -> bool {
        std::str::from_utf8(path).is_ok_and(|path| self.is_there(&self.path(path)))
    }

    fn env(&self, name: &str) -> Option<Vec<u8>> {
        self.arguments.env.get(name).map(|value| value.as_bytes().to_vec())
    }

    fn is_own_file(&self) -> bool {
        true
    }

    fn expanded(&self, node: &Node) -> Result<Option<Vec<Node>>, Mistake> {
        match node.name.to_ascii_lowercase().as_str() {
            "include" | "includeoptional" => self.include(node).map(Some),
            "loadmodule" => {
                self.load_module(node);
                Ok(Some(Vec::new()))
            }
            "serverroot" => {
                let root = node.words().next().unwrap_or_default();
                let root = String::from_utf8(root).map_err(|_| Mistake {
                    line: node.line,
                    text: "ServerRoot: the path is no UTF-8".into(),
                })?;
                self.state.borrow_mut().root = root;
                Ok(Some(Vec::new()))
            }
            _ => Ok(None),
        }
    }
}

/// An absolute path without empty parts, `.` and `..`, which are resolved in the text alone, as Apache does (`apr_filepath_merge`): the
/// sections of a folder are found by its text.
pub fn plain(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let is_folder = path.ends_with('/') && !parts.is_empty();
    format!("/{}{}", parts.join("/"), if is_folder { "/" } else { "" })
}
