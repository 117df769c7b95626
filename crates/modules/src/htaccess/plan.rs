//! What the `.htaccess` files that lead to a folder come to: one plan for all requests below the last of them.

use super::pattern::{Compiled, Pcre};
use super::site::{Layer, Site};
use crate::limits::{
    HTACCESS_SECTIONS_MAX, HTACCESS_SETTINGS_BYTES_PER_BYTE, HTACCESS_STORE_BYTES_MAX,
    HTACCESS_VARIANT_BYTES_MAX, HTACCESS_VARIANTS_MAX,
};
use brisk_apache::access::{Merging, Requirements};
use brisk_apache::conditional;
use brisk_apache::directives::Places;
use brisk_apache::limits::OVERRIDE_LINE_BYTES_MAX;
use brisk_apache::modules;
use brisk_apache::options::Options;
use brisk_apache::overrides::{Allow, Compiler, OUTPUT_FILTERS, Rank, Said, ScopedSettings, rooted};
use brisk_apache::syntax::{self, Mistake, Node};
use brisk_apache::{EnvChange, Facts, Origin, Stop};
use brisk_net::file::Symlinks;
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
    /// Filters are named: pages may have commands (`INCLUDES`), or be compressed.
    pub has_filters: bool,
}

impl Effective {
    /// Before any file.
    pub fn base(options: Options) -> Effective {
        Effective {
            settings: Settings::default(),
            options,
            rewrite_folder: Box::default(),
            has_filters: false,
        }
    }

    /// With more settings, those of a folder or a section.
    pub fn with(&self, own: &Settings, folder: Option<&[u8]>) -> Effective {
        let options = own.options.of(self.options);
        let rewrite_folder = match folder {
            Some(folder) if !own.rewriting.is_silent() => folder.into(),
            _ => self.rewrite_folder.clone(),
        };
        let settings = own.below(&self.settings, self.options);
        let has_filters = settings.mime.has_output_filters()
            || settings.output_filter.as_ref().is_some_and(|filters| !filters.is_empty());
        Effective { settings, options, rewrite_folder, has_filters }
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
    candidates: Vec<(Option<u32>, Arc<Section>)>,
    /// The order in which they are asked.
    order: Vec<u32>,
    /// Which of them are merged with each other before they are merged with what is around them, by their places in the list.
    groups: Vec<Group>,
    /// What holds where sections do, by their places in the list.
    variants: Mutex<HashMap<Vec<u32>, Arc<Effective>>>,
    /// How many of them are kept.
    variants_max: usize,
    /// What it takes of memory beside the texts, with its variants.
    bytes: usize,
    /// Where in paths symbolic links are judged otherwise than before: ends of folders, each for what is in it.
    pub links: Vec<(usize, Links)>,
}

/// What `Options` say of symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// They are followed.
    Followed,
    /// They are followed to what has the same owner.
    OfOwner,
    /// They are refused.
    Refused,
}

impl Links {
    fn of(options: Options) -> Links {
        if options.has(Options::FOLLOW_SYM_LINKS) {
            Links::Followed
        } else if options.has(Options::SYM_LINKS_IF_OWNER_MATCH) {
            Links::OfOwner
        } else {
            Links::Refused
        }
    }
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
        let mut base = Arc::new(Effective::base(ground.options));
        let mut links = Vec::new();
        let mut now = Links::of(ground.options);
        let patterns = Pcre::default();
        let mut sections_count = 0;
        let mut allow = Allow { classes: Some(ground.classes), options: Some(ALLOWED), list: None };
        for text in texts {
            let layer = ground.site.as_ref().map_or(Layer::File, |site| site.layer(text));
            let own = match layer {
                Layer::Base => {
                    base = ground.site.as_ref().map_or(base, |site| site.base().clone());
                    now = Links::of(base.options);
                    if now != Links::Followed {
                        links.push((1, now));
                    }
                    continue;
                }
                Layer::Section(section) => {
                    allow = section.allow.below(&allow);
                    section.settings.clone()
                }
                Layer::File => {
                    let own = compile(text, &allow, &patterns, ground.site.as_deref())
                        .map_err(|mistake| format!("{} in {}:{}", mistake.text, text.name, mistake.line))?;
                    sections_count += count(&own.sections);
                    if sections_count > HTACCESS_SECTIONS_MAX {
                        return Err(format!(
                            "more than {HTACCESS_SECTIONS_MAX} sections lead to this folder in {}:1",
                            text.name
                        ));
                    }
                    Arc::new(own)
                }
            };
            let name = text.name.as_bytes();
            let folder = &name[..memchr::memrchr(b'/', name).map_or(0, |at| at + 1)];
            base = Arc::new(base.with(&own, Some(folder)));
            let then = Links::of(base.options);
            if std::mem::replace(&mut now, then) != then {
                links.push((folder.len(), then));
            }
        }
        let text_bytes = texts.iter().map(|text| text.text.len()).sum();
        Ok(DirPlan::made(base, links, text_bytes, patterns.bytes()))
    }

    /// What Apache's own files say before a request is for a file of a folder.
    pub fn of_site(site: &Site) -> DirPlan {
        DirPlan::made(site.base().clone(), Vec::new(), 0, 0)
    }

    fn made(
        base: Arc<Effective>,
        links: Vec<(usize, Links)>,
        text_bytes: usize,
        patterns_bytes: usize,
    ) -> DirPlan {
        let settings_bytes = HTACCESS_SETTINGS_BYTES_PER_BYTE * text_bytes;
        let variants_max =
            (HTACCESS_VARIANT_BYTES_MAX / settings_bytes.max(1)).clamp(1, HTACCESS_VARIANTS_MAX);
        let mut candidates = Vec::new();
        collect(&base.settings.sections, None, &mut candidates);
        let (order, groups) = ordered(&candidates);
        let copies = if candidates.is_empty() { 1 } else { 1 + variants_max };
        DirPlan {
            base,
            candidates,
            order,
            groups,
            variants: Mutex::default(),
            variants_max,
            bytes: patterns_bytes + settings_bytes * copies,
            links,
        }
    }

    /// The parts of a path in which links are judged: how, and where each part ends.
    pub fn judged_links(&self, path: &[u8]) -> Vec<(Symlinks, usize)> {
        let mut parts = Vec::new();
        for (at, &(from, links)) in self.links.iter().enumerate() {
            // A folder's own options count for what is in it.
            let from = from.min(path.len());
            let end = self.links.get(at + 1).map_or(path.len(), |next| (next.0 - 1).min(path.len()));
            match links {
                // A section and a file of one folder.
                _ if end <= from => {}
                Links::Followed => {}
                Links::OfOwner => parts.push((Symlinks::SameOwner { from }, end)),
                Links::Refused => parts.push((Symlinks::Refuse { from }, end)),
            }
        }
        parts
    }

    /// What holds for a request for a file of this name; variables by named groups of sections' patterns are added to `matched`.
    ///
    /// # Errors
    /// A fact is to come, or a section's condition cannot be told.
    pub fn of(
        &self,
        name: &[u8],
        facts: &dyn Facts,
        matched: &mut Vec<EnvChange>,
    ) -> Result<Arc<Effective>, Stop> {
        self.chosen(Rank::Folder, name, facts, matched)
    }

    /// What holds for a URI's path before it is known for which file it is: sections of folders and files do not.
    ///
    /// # Errors
    /// As those of [`DirPlan::of`].
    pub fn of_path(&self, facts: &dyn Facts, matched: &mut Vec<EnvChange>) -> Result<Arc<Effective>, Stop> {
        self.chosen(Rank::Path, b"", facts, matched)
    }

    /// What holds by sections of a rank or those behind it.
    fn chosen(
        &self,
        first: Rank,
        name: &[u8],
        facts: &dyn Facts,
        matched: &mut Vec<EnvChange>,
    ) -> Result<Arc<Effective>, Stop> {
        let sections = &self.candidates;
        if sections.is_empty() {
            return Ok(self.base.clone());
        }
        let mut chosen: Vec<u32> = Vec::new();
        let mut has_held = false;
        for &at in &self.order {
            let (outer, section) = &sections[at as usize];
            let is_open = section.scope.rank() >= first && outer.is_none_or(|outer| chosen.contains(&outer));
            if is_open && section.scope.holds(name, facts, &mut has_held, matched)? {
                chosen.push(at);
            }
        }
        if chosen.is_empty() {
            return Ok(self.base.clone());
        }
        let mut variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(variant) = variants.get(&chosen) {
            return Ok(variant.clone());
        }
        let made = Arc::new(self.merged(&chosen));
        if variants.len() >= self.variants_max {
            variants.clear();
        }
        variants.insert(chosen, made.clone());
        Ok(made)
    }
}

impl DirPlan {
    /// What holds where these sections do.
    fn merged(&self, chosen: &[u32]) -> Effective {
        let group = |at: u32| self.groups[at as usize];
        // Folders are merged one by one, from the shortest to the longest.
        let is_together = |a: &u32, b: &u32| group(*a) == group(*b) && group(*a).0 != Rank::Folder;
        let mut made = self.base.with(&Settings::default(), None);
        for sections in chosen.chunk_by(is_together) {
            let above = made.settings.requirements.clone();
            let mut joint = Joint::default();
            for &at in sections {
                let section = &self.candidates[at as usize].1;
                made = made.with(&section.settings, Some(&section.scope.folder()));
                joint.add(&section.settings);
            }
            made.settings.requirements = joint.below(above);
        }
        made
    }
}

/// Sections of one group are merged with each other first: those of one kind, and of conditions those of one depth.
type Group = (Rank, usize);

/// What sections of one group say of access.
#[derive(Default)]
struct Joint {
    requirements: Option<Requirements<Compiled>>,
    merging: Merging,
}

impl Joint {
    fn add(&mut self, own: &Settings) {
        match &own.requirements {
            None if own.merging == Merging::Off => return,
            None => {}
            Some(rules) => self.requirements = Some(rules.below(self.requirements.as_ref(), own.merging)),
        }
        // How the last one joins is how all of them join.
        self.merging = own.merging;
    }

    fn below(self, above: Option<Requirements<Compiled>>) -> Option<Requirements<Compiled>> {
        match self.requirements {
            Some(own) => Some(own.below(above.as_ref(), self.merging)),
            None => above,
        }
    }
}

/// How many there are, with those that stand in others.
fn count(sections: &[Arc<Section>]) -> usize {
    sections.iter().map(|section| 1 + count(&section.settings.sections)).sum()
}

/// All sections, those that stand in others behind these.
fn collect(sections: &[Arc<Section>], outer: Option<u32>, out: &mut Vec<(Option<u32>, Arc<Section>)>) {
    for section in sections {
        let at = u32::try_from(out.len()).ok();
        out.push((outer, section.clone()));
        collect(&section.settings.sections, at, out);
    }
}

/// The order in which sections are asked: by rank; conditions by how many others they stand in, those of all hosts and folders first,
/// then those of `<Files>`, then those of `<Location>`. And the group of each section.
fn ordered(candidates: &[(Option<u32>, Arc<Section>)]) -> (Vec<u32>, Vec<Group>) {
    let rank_of = |at: u32| candidates[at as usize].1.scope.rank();
    let outer_of = |at: u32| candidates[at as usize].0;
    let key = |at: u32| {
        let (mut rank, mut depth, mut around, mut outer) = (rank_of(at), 0, None, outer_of(at));
        while let Some(section) = outer {
            // What stands in a condition is asked behind it.
            rank = rank.max(rank_of(section));
            match rank_of(section) {
                Rank::Condition => depth += 1,
                other => around = around.or(Some(other)),
            }
            outer = outer_of(section);
        }
        let is_condition = rank == Rank::Condition;
        (rank, if is_condition { depth } else { 0 }, around.filter(|_| is_condition))
    };
    let mut order: Vec<u32> = (0u32..).take(candidates.len()).collect();
    let groups = order.iter().map(|&at| key(at)).map(|(rank, depth, _)| (rank, depth)).collect();
    order.sort_by_key(|&at| key(at));
    (order, groups)
}

/// What Brisk is to `<IfModule>` and its relatives, with what Apache's own files have loaded.
struct Brisk<'s>(Option<&'s Site>);

/// Parts of Apache that are no modules there, and are asked for as such.
const BUILT_IN: &[&str] = &["core", "so", "version"];

impl conditional::Server for Brisk<'_> {
    fn has_module(&self, name: &str) -> bool {
        let is_loaded = || match self.0 {
            Some(site) => site.has_module(name),
            // Brisk has TLS, and nothing in its own language loads it.
            None => name == "ssl",
        };
        BUILT_IN.contains(&name) || modules::OF_FOLDERS.contains(&name) || is_loaded()
    }

    /// Files are not looked at when a file is read: what depends on one would not change with it.
    fn has_file(&self, _: &[u8]) -> bool {
        false
    }

    /// The environment is that of the server whose own files these stand beside.
    fn env(&self, name: &str) -> Option<Vec<u8>> {
        self.0.and_then(|site| site.env(name))
    }
}

/// The settings of one file.
fn compile(file: &Text, allow: &Allow, patterns: &Pcre, site: Option<&Site>) -> Result<Settings, Mistake> {
    let nodes = syntax::read(&file.text, OVERRIDE_LINE_BYTES_MAX)?;
    nodes.iter().try_for_each(check_conditions)?;
    let mut defines = site.map(Site::defines).unwrap_or_default();
    let mut nodes = conditional::resolve(nodes, &Brisk(site), patterns, &mut defines)?;
    if let Some(root) = site.and_then(Site::root) {
        nodes = rooted(nodes, root);
    }
    let (standing, options) = allow.standing();
    let origins = |line| Origin { file: file.name.clone(), line };
    let settings = Compiler { patterns, standing, options, origins: &origins }.compile(&nodes)?;
    if asks_back_ends(&settings) {
        let text = "RewriteRule: the flag P asks a back end, which files of folders may not".into();
        return Err(Mistake { line: 1, text });
    }
    check_all(&settings, 1)?;
    Ok(settings)
}

/// Whether a rule has the flag P, in sections too.
pub fn asks_back_ends(settings: &Settings) -> bool {
    let is_asked = |section: &Arc<ScopedSettings<Compiled>>| asks_back_ends(&section.settings);
    settings.rewriting.rules.asks_back_ends() || settings.sections.iter().any(is_asked)
}

/// Refuses what the server cannot do, in sections too.
pub fn check_all(settings: &Settings, line: u32) -> Result<(), Mistake> {
    check_settings(settings).map_err(|text| Mistake { line, text })?;
    settings.sections.iter().try_for_each(|section| check_all(&section.settings, line))
}

/// Refuses `<IfFile>`: what is said would have to change with the file.
fn check_conditions(node: &Node) -> Result<(), Mistake> {
    if node.is("IfFile") {
        let text = "<IfFile>: Brisk does not support it in .htaccess".to_string();
        return Err(Mistake { line: node.line, text });
    }
    node.children.iter().flatten().try_for_each(check_conditions)
}

/// Refuses by name what the server cannot do (yet).
fn check_settings(settings: &Settings) -> Result<(), String> {
    let auth = &settings.auth;
    if let Some(kind) = &auth.kind
        && !kind.eq_ignore_ascii_case(b"basic")
        && !kind.eq_ignore_ascii_case(b"digest")
        && !kind.eq_ignore_ascii_case(b"none")
    {
        return Err(format!(
            "AuthType: Brisk has no \"{}\": use Basic or Digest",
            String::from_utf8_lossy(kind)
        ));
    }
    if settings.etag.of().is_some_and(|etag| etag.digest) {
        return Err("FileETag: Brisk does not make it of the content (Digest)".into());
    }
    for ending in settings.mime.endings.values() {
        for (name, filter) in
            [("AddOutputFilter", &ending.output_filter), ("AddInputFilter", &ending.input_filter)]
        {
            if let Said::Value(filter) = filter
                && !(name == "AddOutputFilter" && is_known_filter(filter))
            {
                return Err(format!("{name}: Brisk has no filter \"{}\"", String::from_utf8_lossy(filter)));
            }
        }
    }
    Ok(())
}

/// Whether all filters of a list are known.
fn is_known_filter(filters: &[u8]) -> bool {
    let is_known = |name: &[u8]| OUTPUT_FILTERS.iter().any(|known| known.as_bytes() == name);
    filters.split(|&byte| byte == b';').all(is_known)
}

/// What became of files: a plan, or they answer 500 until they change, and this line of the log says why.
pub type Outcome = Result<Arc<DirPlan>, Arc<str>>;

/// What holds for a folder.
#[derive(Clone)]
pub enum Held {
    /// Its files are whole.
    Whole(Outcome),
    /// A file is being written: what became of what is there, and what held before, if that is known. A request must pass both.
    Part {
        /// Of the files as they are.
        now: Outcome,
        /// Of the files when they were whole.
        before: Option<Outcome>,
    },
}

impl Held {
    /// What became of the files when they were last whole.
    fn whole(&self) -> Option<Outcome> {
        match self {
            Held::Whole(outcome) => Some(outcome.clone()),
            Held::Part { before, .. } => before.clone(),
        }
    }

    fn bytes(&self) -> usize {
        let bytes = |outcome: &Outcome| outcome.as_ref().map_or_else(|why| why.len(), |plan| plan.bytes);
        match self {
            Held::Whole(outcome) => bytes(outcome),
            Held::Part { now, before } => bytes(now) + before.as_ref().map_or(0, bytes),
        }
    }
}

/// What was compiled for one `directory_overrides`, for all threads.
pub struct Store {
    kept: Mutex<Kept<Held>>,
    /// Compiling is done by one thread of the pool at a time: a change that a thousand requests find is compiled once.
    pub line: brisk_net::blocking::Serial,
}

impl Default for Store {
    fn default() -> Store {
        Store {
            kept: Mutex::new(Kept::bounded(HTACCESS_STORE_BYTES_MAX)),
            line: brisk_net::blocking::Serial::default(),
        }
    }
}

impl Store {
    /// What became of these very files.
    pub fn find(&self, location: LocationId, texts: &[Text]) -> Option<Held> {
        let name = texts.last()?.name.as_bytes();
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).find(location, name, texts)
    }

    /// These very files are found to be whole.
    pub fn complete(&self, location: LocationId, texts: Vec<Text>, now: Outcome) {
        self.keep(location, texts, |_| Held::Whole(now));
    }

    /// Compiles files, unless another thread just has. `is_part`: one of them is being written.
    pub fn make(&self, location: LocationId, texts: Vec<Text>, ground: Ground, is_part: bool) {
        if self.find(location, &texts).is_some() {
            return;
        }
        let now = DirPlan::compile(&texts, &ground).map(Arc::new).map_err(Arc::from);
        self.keep(location, texts, |last| {
            if is_part { Held::Part { now, before: last.and_then(Held::whole) } } else { Held::Whole(now) }
        });
    }

    fn keep(&self, location: LocationId, mut texts: Vec<Text>, held: impl FnOnce(Option<&Held>) -> Held) {
        texts.shrink_to_fit();
        let Some(last) = texts.last() else { return };
        let name: Box<[u8]> = last.name.as_bytes().into();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let held = held(kept.last(location, &name));
        let bytes = held.bytes();
        let dropped = kept.put(location, name, texts, held, bytes);
        drop(kept);
        // Large plans are freed without the lock.
        drop(dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(texts: &[(&str, &str)]) -> DirPlan {
        let text = |&(name, text): &(&str, &str)| Text { name: name.into(), text: text.as_bytes().into() };
        let ground = Ground { classes: Places::ALL, options: Options::FOLLOW_SYM_LINKS, site: None };
        DirPlan::compile(&texts.iter().map(text).collect::<Vec<_>>(), &ground).unwrap()
    }

    #[test]
    fn each_folder_judges_the_links_in_it() {
        let (refuse, owner) = (|from| Symlinks::Refuse { from }, |from| Symlinks::SameOwner { from });
        let check = |texts: &[(&str, &str)], wanted: &[(Symlinks, usize)]| {
            assert_eq!(plan(texts).judged_links(b"/a/bc/d.txt"), wanted, "{texts:?}");
        };
        check(&[("/a/.htaccess", "Options +Indexes")], &[]);
        check(&[("/a/.htaccess", "Options -FollowSymLinks")], &[(refuse(3), 11)]);
        check(&[("/a/.htaccess", "Options SymLinksIfOwnerMatch")], &[(owner(3), 11)]);
        let closed = ("/a/.htaccess", "Options None");
        check(&[closed, ("/a/bc/.htaccess", "Options +FollowSymLinks")], &[(refuse(3), 5)]);
        check(
            &[closed, ("/a/bc/.htaccess", "Options +SymLinksIfOwnerMatch")],
            &[(refuse(3), 5), (owner(6), 11)],
        );
        check(&[closed, ("/a/bc/.htaccess", "Options -Indexes")], &[(refuse(3), 11)]);
    }

    #[test]
    fn plans_say_what_they_take_of_memory() {
        let small = plan(&[("/a/.htaccess", "Options None")]).bytes;
        assert!(small < 500, "{small}");
        let rules = "RewriteRule ^\\w{100}\\d{100}$ - [F]\n".repeat(100);
        let large = plan(&[("/a/.htaccess", &rules)]).bytes;
        assert!(large > 500_000, "{large}");
    }
}
