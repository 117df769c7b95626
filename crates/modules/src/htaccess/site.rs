//! `apache_site`: what Apache's own files say of requests, for all hosts and for one. It is merged with `.htaccess` files into the same
//! plans.
//!
//! A `<Directory>` counts like a file in its folder, and before it. Sections that a request's name, path or condition decides about are
//! candidates of the plan, as those in files are.

use super::pattern::{Compiled, Pcre};
use super::plan::{ALLOWED, Effective, Settings, asks_back_ends, check_all};
use brisk_apache::conditional::Defines;
use brisk_apache::directives::Standing;
use brisk_apache::limits::RANGES_MAX_USUAL;
use brisk_apache::overrides::{Allow, Compiler, Rewriting};
use brisk_apache::redirect::Redirect;
use brisk_apache::rewrite::map::Map;
use brisk_apache::site::{BACK_END, DEFINE, ENV, MODULES, PROXY_HANDLER, ROOT, node_of, plain};
use brisk_apache::syntax::{Mistake, Node};
use brisk_apache::{Origin, glob, options::Options};
use brisk_conf::{Diag, Directive, SourceMap, Span};
use brisk_server::conf::Text;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What holds in one host: the lines for all, then its own.
#[derive(Clone)]
pub struct Site {
    lines: Vec<Arc<Lines>>,
    /// `Redirect` outside of sections, the host's own first: before access is judged.
    redirects: Vec<Arc<Redirect<Compiled>>>,
    maps: Arc<Maps>,
    base: Arc<Effective>,
    /// It is that of a location whose content is a back end's, also where that is an application behind FastCGI: no files are judged.
    pub is_back_end: bool,
}

/// The lines of one block.
struct Lines {
    /// What holds everywhere.
    own: Settings,
    /// mod_rewrite of the server.
    rewriting: Rewriting<Compiled>,
    redirects: Vec<Arc<Redirect<Compiled>>>,
    folders: Vec<Folder>,
    /// Named locations of handlers, by the handlers' names in small letters.
    handlers: BTreeMap<Vec<u8>, Vec<u8>>,
    /// `AllowEncodedSlashes`.
    allows_encoded_slashes: Option<bool>,
    maps: Maps,
    /// `ServerRoot`.
    root: Option<String>,
    /// What is loaded of that files of folders may ask for.
    modules: Vec<String>,
    known: Known,
}

/// What files of folders may ask for beside modules.
#[derive(Default)]
struct Known {
    /// What is defined (`Define`, `-D`).
    defines: Defines,
    /// Variables of the environment that `envvars` exports.
    env: BTreeMap<String, Vec<u8>>,
}

impl Known {
    /// Takes a line; false if it is another's.
    fn takes(&mut self, node: &Node) -> bool {
        let mut words = node.words();
        let name = String::from_utf8_lossy(&words.next().unwrap_or_default()).into_owned();
        if node.is(DEFINE) {
            self.defines.insert(name, words.next());
        } else if node.is(ENV) {
            self.env.insert(name, words.next().unwrap_or_default());
        } else {
            return false;
        }
        true
    }
}

/// `RewriteMap` by name.
pub type Maps = BTreeMap<Vec<u8>, Map>;

/// A `<Directory>`.
pub struct Folder {
    /// Its path with a slash at its end, perhaps with wildcards.
    path: Vec<u8>,
    /// What it says.
    pub settings: Arc<Settings>,
    /// What files may say from here on.
    pub allow: Allow,
    /// What tells it from others.
    mark: Arc<[u8]>,
}

/// What one text of a plan is.
pub enum Layer<'s> {
    /// The lines that hold everywhere.
    Base,
    /// A `<Directory>`.
    Section(&'s Folder),
    /// A file's text.
    File,
}

const BASE: &[u8] = b"base";

impl Site {
    /// With the lines of a block, in a host whose lines are `outer`.
    pub fn parse(d: &Directive, outer: Option<&Site>, sources: &SourceMap) -> Result<Site, Diag> {
        let mut spans: Vec<Span> = Vec::new();
        let nodes: Vec<Node> = d.block.iter().flatten().map(|inner| node_of(inner, &mut spans)).collect();
        let outer = outer.map(|site| site.lines.clone()).unwrap_or_default();
        let mut names: BTreeMap<u32, Arc<str>> = BTreeMap::new();
        let mut place = |span: &Span| {
            let file =
                names.entry(span.file.0).or_insert_with(|| sources.file(span.file).name.as_str().into());
            Origin { file: file.clone(), line: u32::try_from(sources.start(*span).0).unwrap_or(u32::MAX) }
        };
        let places: Vec<Origin> = spans.iter().map(&mut place).collect();
        // Nodes count their lines by the spans.
        let origins = |line: u32| {
            let at = (line as usize).checked_sub(1).and_then(|at| places.get(at));
            at.cloned().unwrap_or_default()
        };
        let lines = Lines::read(nodes, outer.len(), &origins).map_err(|mistake| {
            let at = (mistake.line as usize).checked_sub(1).and_then(|at| spans.get(at)).copied();
            Diag::emerg(at.unwrap_or(d.span), mistake.text)
        })?;
        let lines: Vec<Arc<Lines>> = outer.into_iter().chain([Arc::new(lines)]).collect();
        let redirects = lines.iter().rev().flat_map(|lines| lines.redirects.iter().cloned()).collect();
        // As rules, maps are a host's own.
        let maps = lines.last().map(|lines| lines.maps.clone()).unwrap_or_default();
        let base = Arc::new(base_of(&lines));
        Ok(Site { lines, redirects, maps: Arc::new(maps), base, is_back_end: false })
    }

    /// For the block of a location, which says that its content is a back end's, and nothing else.
    pub fn of_back_end(d: &Directive, outer: Option<&Site>) -> Result<Site, Diag> {
        let is_line = |inner: &Directive| inner.name() == BACK_END && inner.args.is_empty();
        match (d.block.as_deref(), outer) {
            (Some([inner]), Some(outer)) if is_line(inner) => Ok(Site { is_back_end: true, ..outer.clone() }),
            _ => Err(Diag::emerg(d.span, "\"apache_site\" of a location takes the line BriskBackEnd only")
                .help("write what Apache's files say into the server's block, in a section <Location>")),
        }
    }

    /// What holds before any folder.
    pub fn base(&self) -> &Arc<Effective> {
        &self.base
    }

    /// The text that stands for [`Site::base`].
    pub fn first(&self) -> Text {
        Text { name: "/".into(), text: BASE.into() }
    }

    /// The sections of a folder, whose path ends with a slash.
    pub fn sections<'s>(&'s self, folder: &'s [u8]) -> impl Iterator<Item = &'s Folder> {
        self.lines.iter().flat_map(|lines| &lines.folders).filter(|section| section.is_of(folder))
    }

    /// What a text is.
    pub fn layer(&self, text: &Text) -> Layer<'_> {
        if !text.name.ends_with('/') {
            return Layer::File;
        }
        let section =
            self.lines.iter().flat_map(|lines| &lines.folders).find(|folder| folder.mark == text.text);
        section.map_or(Layer::Base, Layer::Section)
    }

    /// The named location of a handler.
    pub fn handler(&self, name: &[u8]) -> Option<&Vec<u8>> {
        let name = name.to_ascii_lowercase();
        self.lines.iter().rev().find_map(|lines| lines.handlers.get(&name))
    }

    /// The rules of the server that hold for a host: its own, unless it has none and inherits.
    pub fn rewriting(&self) -> Option<&Rewriting<Compiled>> {
        let own = self.lines.last().map(|lines| &lines.rewriting)?;
        let is_on = own.is_on == Some(true) && !own.rules.is_empty();
        is_on.then_some(own)
    }

    /// `Redirect` outside of sections.
    pub fn redirects(&self) -> &[Arc<Redirect<Compiled>>] {
        &self.redirects
    }

    /// Where relative paths of `.htaccess` files begin.
    pub fn root(&self) -> Option<&str> {
        self.lines.iter().rev().find_map(|lines| lines.root.as_deref())
    }

    /// Whether Apache's own files have loaded a module that files of folders may ask for.
    pub fn has_module(&self, name: &str) -> bool {
        self.lines.iter().any(|lines| lines.modules.iter().any(|known| known == name))
    }

    /// What `Define` and `-D` have set, at the end of Apache's own files.
    pub fn defines(&self) -> Defines {
        self.lines.iter().flat_map(|lines| lines.known.defines.clone()).collect()
    }

    /// A variable of the environment that Apache's files are read with.
    pub fn env(&self, name: &str) -> Option<Vec<u8>> {
        self.lines.iter().rev().find_map(|lines| lines.known.env.get(name).cloned())
    }

    /// What rules may look up.
    pub fn maps(&self) -> &Arc<Maps> {
        &self.maps
    }

    /// Whether an encoded slash in a path is a slash; otherwise there is nothing there.
    pub fn allows_encoded_slashes(&self) -> bool {
        self.lines.iter().rev().find_map(|lines| lines.allows_encoded_slashes).unwrap_or(false)
    }

    /// Whether something is to be done before a location is looked for.
    pub fn leads(&self) -> bool {
        self.rewriting().is_some() || !self.redirects.is_empty() || !self.base.settings.set_env_if.is_empty()
    }
}

fn base_of(lines: &[Arc<Lines>]) -> Effective {
    let first = Effective::base(Options::FOLLOW_SYM_LINKS);
    let mut base = lines.iter().fold(first, |above, lines| above.with(&lines.own, None));
    base.settings.directory_index.get_or_insert_with(|| vec![b"index.html".to_vec()]);
    base.settings.ranges_max.get_or_insert(RANGES_MAX_USUAL);
    base
}

impl Folder {
    fn is_of(&self, folder: &[u8]) -> bool {
        if glob::is_pattern(&self.path) {
            return glob::matches(&self.path, folder, glob::Options { is_path: true, ignores_case: false });
        }
        self.path == folder
    }

    /// The text that stands for it in a folder.
    pub fn text(&self, folder: &str) -> Text {
        Text { name: folder.into(), text: self.mark.clone() }
    }
}

impl Lines {
    fn read(nodes: Vec<Node>, level: usize, origins: &dyn Fn(u32) -> Origin) -> Result<Lines, Mistake> {
        let patterns = &Pcre::of_site();
        let compiler = Compiler { patterns, standing: Standing::Server, options: ALLOWED, origins };
        let (mut rest, mut folders, mut handlers) = (Vec::new(), Vec::new(), BTreeMap::new());
        let (mut allows_encoded_slashes, mut maps, mut root) = (None, Maps::new(), None);
        let (mut modules, mut known) = (Vec::new(), Known::default());
        for node in nodes {
            let is_pattern = node.words().next().is_some_and(|word| word == b"~");
            if node.is("Directory") && node.children.is_some() && !is_pattern {
                let mark = format!("{level} {}", folders.len());
                folders.push(Folder::read(node, mark.as_bytes().into(), origins)?);
            } else if node.is(brisk_apache::site::HANDLER) {
                let at = memchr::memchr(b' ', &node.args).unwrap_or(node.args.len());
                let (location, name) = node.args.split_at(at);
                handlers.insert(name.trim_ascii().to_ascii_lowercase(), location.to_vec());
            } else if node.is(ROOT) {
                root = Some(String::from_utf8_lossy(&node.words().next().unwrap_or_default()).into_owned());
            } else if node.is(MODULES) {
                modules.extend(node.words().map(|word| String::from_utf8_lossy(&word).into_owned()));
            } else if known.takes(&node) {
            } else if node.is("RewriteMap") {
                let mut words = node.words();
                let (name, source) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                let map = Map::parse(&source)
                    .map_err(|text| Mistake { line: node.line, text: format!("RewriteMap: {text}") })?;
                maps.insert(name, map);
            } else if node.is("AllowEncodedSlashes") {
                // With NoDecode a slash would have to stay encoded to the end; a path is decoded here, so it is refused.
                allows_encoded_slashes = Some(node.args.eq_ignore_ascii_case(b"on"));
            } else {
                rest.push(node);
            }
        }
        let mut own = compiler.compile(&rest)?;
        let line = rest.first().map_or(1, |node| node.line);
        check_all(&own, line)?;
        let is_asked = asks_back_ends(&own) || folders.iter().any(|folder| asks_back_ends(&folder.settings));
        if is_asked && !handlers.contains_key(PROXY_HANDLER.as_bytes()) {
            let text = "RewriteRule: the flag P asks a back end, for which mod_proxy must be loaded".into();
            return Err(Mistake { line, text });
        }
        let rewriting = std::mem::take(&mut own.rewriting);
        if let Some(options) = rewriting.options {
            let is_upwards = options.inherits || options.inherits_before;
            if (level > 0 && is_upwards) || options.inherits_down || options.inherits_down_before {
                let line = rest.iter().find(|node| node.is("RewriteOptions")).map_or(1, |node| node.line);
                let text = "RewriteOptions: Brisk does not hand rules down to <VirtualHost> (yet): write them into it";
                return Err(Mistake { line, text: text.into() });
            }
        }
        let redirects = std::mem::take(&mut own.redirects);
        // The shorter path counts first.
        folders.sort_by_key(|folder| memchr::memchr_iter(b'/', &folder.path).count());
        Ok(Lines {
            own,
            rewriting,
            redirects,
            folders,
            handlers,
            allows_encoded_slashes,
            maps,
            root,
            modules,
            known,
        })
    }
}

impl Folder {
    fn read(node: Node, mark: Arc<[u8]>, origins: &dyn Fn(u32) -> Origin) -> Result<Folder, Mistake> {
        let line = node.line;
        let mistake = |line: u32, text: String| Mistake { line, text };
        let mut words = node.words();
        let path = words.next().unwrap_or_default();
        if !path.starts_with(b"/") || words.next().is_some() {
            let text = "<Directory> takes one absolute path, or ~ and a regular expression";
            return Err(mistake(line, text.into()));
        }
        // A request for such a folder is refused, too.
        let path = String::from_utf8(path).map_err(|_| mistake(line, "<Directory> is no UTF-8".into()))?;
        let whole = plain(&(path + "/")).into_bytes();
        let mut allow = Allow::default();
        let mut rest = Vec::new();
        for inner in node.children.into_iter().flatten() {
            match allow.line(&inner) {
                Some(Ok(())) => {}
                Some(Err(text)) => return Err(mistake(inner.line, format!("{}: {text}", inner.name))),
                None => rest.push(inner),
            }
        }
        let patterns = &Pcre::of_site();
        let compiler = Compiler { patterns, standing: Standing::Section, options: ALLOWED, origins };
        let settings = compiler.compile(&rest)?;
        check_all(&settings, line)?;
        Ok(Folder { path: whole, settings: Arc::new(settings), allow, mark })
    }
}
