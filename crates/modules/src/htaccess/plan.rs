//! What the `.htaccess` files that lead to a folder come to: one plan for all requests below the last of them.

use super::pattern::{Compiled, Pcre};
use super::site::{Layer, Site};
use crate::limits::HTACCESS_VARIANTS_MAX;
use brisk_apache::conditional::{self, Defines};
use brisk_apache::directives::{Places, Standing};
use brisk_apache::limits::OVERRIDE_LINE_BYTES_MAX;
use brisk_apache::options::Options;
use brisk_apache::overrides::{Allow, Compiler, Rank, Said, ScopedSettings};
use brisk_apache::syntax::{self, Mistake, Node};
use brisk_apache::{Facts, Stop};
use brisk_server::conf::{LocationId, Text};
use brisk_server::late::Kept;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Settings as files have them, and as they hold.
pub type Settings = brisk_apache::overrides::Settings<Compiled>;

/// What holds for a request.
pub struct Effective {
    /// All that was said, the deepest folder last.
    pub settings: Settings,
    /// `Options`, with those of the location.
    pub options: Options,
    /// The folder whose rules of mod_rewrite hold, with a slash at its end.
    pub rewrite_folder: Box<[u8]>,
}

impl Effective {
    /// Before any file.
    pub fn base(options: Options) -> Effective {
        Effective { settings: Settings::default(), options, rewrite_folder: Box::default() }
    }

    /// With more settings, those of a folder or a section.
    pub fn with(&self, own: &Settings, folder: Option<&[u8]>) -> Effective {
        let options = own.options.of(self.options);
        let rewrite_folder = match folder {
            Some(folder) if !own.rewriting.is_silent() => folder.into(),
            _ => self.rewrite_folder.clone(),
        };
        Effective { settings: own.below(&self.settings, self.options), options, rewrite_folder }
    }

    /// Whether symbolic links are followed, if only to files of the link's owner.
    pub fn follows_links(&self) -> bool {
        self.options.has(Options::FOLLOW_SYM_LINKS) || self.options.has(Options::SYM_LINKS_IF_OWNER_MATCH)
    }
}

/// See the module's head.
pub struct DirPlan {
    base: Arc<Effective>,
    /// Sections that may hold, each with the place of the one that it stands in.
    candidates: Vec<(Option<u16>, Arc<Section>)>,
    /// What holds where sections do, by their places in the list.
    variants: Mutex<HashMap<Vec<u16>, Arc<Effective>>>,
    /// From here on in paths, symbolic links are judged: the end of the first folder whose options forbid them.
    pub links_from: Option<usize>,
}

/// What files may say, and what they are added to.
#[derive(Clone)]
pub struct Ground {
    /// `AllowOverride`.
    pub classes: Places,
    /// Those of the location.
    pub options: Options,
    /// What Apache's own files say, in their place.
    pub site: Option<Arc<Site>>,
}

type Section = ScopedSettings<Compiled>;

/// The options that a file may set: owners of links are judged, and views that are wanted are refused by name.
pub const ALLOWED: Options = Options::ALL.or(Options::MULTI_VIEWS).or(Options::SYM_LINKS_IF_OWNER_MATCH);

impl DirPlan {
    /// Compiles the files of folders that lead to each other; the error is a line for the log.
    fn compile(texts: &[Text], ground: &Ground) -> Result<DirPlan, String> {
        let mut base = Effective::base(ground.options);
        let mut links_from = None;
        let mut allow = Allow { classes: ground.classes, list: Vec::new(), options: ALLOWED };
        for text in texts {
            let layer = ground.site.as_ref().map_or(Layer::File, |site| site.layer(text));
            let own = match layer {
                Layer::Base => {
                    base = ground.site.as_ref().map_or(base, |site| site.base());
                    if !base.options.has(Options::FOLLOW_SYM_LINKS) {
                        links_from = Some(1);
                    }
                    continue;
                }
                Layer::Section(section) => {
                    allow = section.allow.clone().unwrap_or(allow);
                    section.settings.clone()
                }
                Layer::File => compile(&text.text, &allow)
                    .map(Arc::new)
                    .map_err(|mistake| format!("{} in {}:{}", mistake.text, text.name, mistake.line))?,
            };
            let name = text.name.as_bytes();
            let folder = &name[..memchr::memrchr(b'/', name).map_or(0, |at| at + 1)];
            base = base.with(&own, Some(folder));
            if !base.options.has(Options::FOLLOW_SYM_LINKS) && links_from.is_none() {
                links_from = Some(folder.len());
            }
        }
        let mut candidates = Vec::new();
        collect(&base.settings.sections, None, &mut candidates);
        Ok(DirPlan { base: Arc::new(base), candidates, variants: Mutex::default(), links_from })
    }

    /// The options of the last folder.
    pub fn base_options(&self) -> Options {
        self.base.options
    }

    /// What holds for a request for a file of this name.
    ///
    /// # Errors
    /// A fact is to come, or a section's condition cannot be told.
    pub fn of(&self, name: &[u8], facts: &dyn Facts) -> Result<Arc<Effective>, Stop> {
        let sections = &self.candidates;
        if sections.is_empty() {
            return Ok(self.base.clone());
        }
        let mut chosen: Vec<u16> = Vec::new();
        let mut has_held = false;
        for rank in Rank::ALL {
            for (at, (outer, section)) in (0u16..).zip(sections) {
                let is_open = outer.is_none_or(|outer| chosen.contains(&outer));
                if is_open
                    && section.scope.rank() == rank
                    && section.scope.holds(name, facts, &mut has_held)?
                {
                    chosen.push(at);
                }
            }
        }
        if chosen.is_empty() {
            return Ok(self.base.clone());
        }
        let mut variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(variant) = variants.get(&chosen) {
            return Ok(variant.clone());
        }
        let mut made: Option<Effective> = None;
        for &at in &chosen {
            let section = &sections[usize::from(at)].1.settings;
            made = Some(made.as_ref().unwrap_or(&self.base).with(section, None));
        }
        let made = made.map_or_else(|| self.base.clone(), Arc::new);
        if variants.len() >= HTACCESS_VARIANTS_MAX {
            variants.clear();
        }
        variants.insert(chosen, made.clone());
        Ok(made)
    }
}

/// All sections, those that stand in others behind these.
fn collect(sections: &[Arc<Section>], outer: Option<u16>, out: &mut Vec<(Option<u16>, Arc<Section>)>) {
    for section in sections {
        let at = u16::try_from(out.len()).ok();
        out.push((outer, section.clone()));
        collect(&section.settings.sections, at, out);
    }
}

/// What Brisk is to `<IfModule>` and its relatives.
struct Brisk;

/// Modules of Apache's of which Brisk does what files of folders ask for.
const MODULES: &[&str] = &[
    "access_compat",
    "alias",
    "auth_basic",
    "authn_core",
    "authn_file",
    "authz_core",
    "authz_groupfile",
    "authz_host",
    "authz_user",
    "autoindex",
    "brotli",
    "core",
    "deflate",
    "dir",
    "env",
    "expires",
    "filter",
    "headers",
    "mime",
    "rewrite",
    "setenvif",
    "so",
    "version",
];

impl conditional::Server for Brisk {
    fn has_module(&self, name: &str) -> bool {
        MODULES.contains(&name)
    }

    /// Files are not looked at when a file is read: what depends on one would not change with it.
    fn has_file(&self, _: &[u8]) -> bool {
        false
    }

    fn env(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
}

/// The settings of one file.
fn compile(text: &[u8], allow: &Allow) -> Result<Settings, Mistake> {
    let nodes = syntax::read(text, OVERRIDE_LINE_BYTES_MAX)?;
    nodes.iter().try_for_each(check_conditions)?;
    let nodes = conditional::resolve(nodes, &Brisk, &Pcre, &mut Defines::new())?;
    nodes.iter().try_for_each(|node| check(node, false))?;
    let standing = Standing::Override { classes: allow.classes, list: &allow.list };
    let settings = Compiler { patterns: &Pcre, standing, options: allow.options }.compile(&nodes)?;
    check_settings(&settings).map_err(|text| Mistake { line: 1, text })?;
    for section in &settings.sections {
        check_settings(&section.settings).map_err(|text| Mistake { line: 1, text })?;
    }
    Ok(settings)
}

/// Refuses `<IfFile>`: what is said would have to change with the file.
fn check_conditions(node: &Node) -> Result<(), Mistake> {
    if node.is("IfFile") {
        let text = "<IfFile>: Brisk does not support it in .htaccess".to_string();
        return Err(Mistake { line: node.line, text });
    }
    node.children.iter().flatten().try_for_each(check_conditions)
}

/// Refuses by name what cannot be done in sections.
fn check(node: &Node, is_in_section: bool) -> Result<(), Mistake> {
    let mistake = |text: String| Err(Mistake { line: node.line, text });
    let is_scope = ["Files", "FilesMatch", "If", "ElseIf", "Else"].iter().any(|name| node.is(name));
    match &node.children {
        Some(_) if is_scope && is_in_section => {
            mistake(format!("<{}>: Brisk does not support it in another section", node.name))
        }
        Some(children) => children.iter().try_for_each(|child| check(child, is_in_section || is_scope)),
        None if is_in_section && node.name.to_ascii_lowercase().starts_with("rewrite") => {
            mistake(format!("{}: Brisk does not support it in sections; put it outside", node.name))
        }
        None => Ok(()),
    }
}

/// Refuses by name what the server cannot do (yet).
pub fn check_settings(settings: &Settings) -> Result<(), String> {
    if settings.rewriting.rules.asks_back_ends() {
        return Err("RewriteRule: the flag P asks a back end, which files of folders may not".into());
    }
    let auth = &settings.auth;
    if let Some(kind) = &auth.kind
        && !kind.eq_ignore_ascii_case(b"basic")
        && !kind.eq_ignore_ascii_case(b"none")
    {
        return Err(format!("AuthType: Brisk has no \"{}\": use Basic", String::from_utf8_lossy(kind)));
    }
    for (name, file) in [("AuthUserFile", &auth.user_file), ("AuthGroupFile", &auth.group_file)] {
        if file.as_ref().is_some_and(|file| !file.starts_with(b"/")) {
            return Err(format!("{name}: the path must begin with a slash"));
        }
    }
    if settings.options.of(Options::NONE).has(Options::MULTI_VIEWS) {
        return Err("Options: Brisk has no MultiViews: names of files are as they are".into());
    }
    if settings.etag.is_some_and(|etag| etag.digest) {
        return Err("FileETag: Brisk does not make it of the content (Digest)".into());
    }
    for ending in settings.mime.endings.values() {
        for (name, filter) in
            [("AddOutputFilter", &ending.output_filter), ("AddInputFilter", &ending.input_filter)]
        {
            if let Said::Value(filter) = filter
                && filter != b"deflate"
            {
                return Err(format!("{name}: Brisk has no filter \"{}\"", String::from_utf8_lossy(filter)));
            }
        }
    }
    Ok(())
}

/// What became of files: a plan, or they answer 500 until they change.
pub type Outcome = Option<Arc<DirPlan>>;

/// What was compiled for one `directory_overrides`, for all threads.
#[derive(Default)]
pub struct Store {
    kept: Mutex<Kept<Outcome>>,
    /// Compiling is done by one thread of the pool at a time: a change that a thousand requests find is compiled once.
    pub line: brisk_net::blocking::Serial,
}

impl Store {
    /// What became of these very files.
    pub fn find(&self, location: LocationId, texts: &[Text]) -> Option<Outcome> {
        let name = texts.last()?.name.as_bytes();
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).find(location, name, texts)
    }

    /// Compiles files, unless another thread just has; the error is a line for the log.
    pub fn make(&self, location: LocationId, texts: Vec<Text>, ground: Ground) -> (Outcome, Option<String>) {
        if let Some(outcome) = self.find(location, &texts) {
            return (outcome, None);
        }
        let (outcome, error) = match DirPlan::compile(&texts, &ground) {
            Ok(plan) => (Some(Arc::new(plan)), None),
            Err(error) => (None, Some(error)),
        };
        if let Some(last) = texts.last() {
            let name = last.name.as_bytes().into();
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            drop(kept.put(location, name, texts, outcome.clone()));
        }
        (outcome, error)
    }
}
