//! From Apache's lines to Brisk's directives: the main server becomes what holds in `http`, each virtual host a `server`.

use super::balancer;
use super::build::{block, of_node, statement};
use super::draft::{Done, Draft, Mapping, Target, Translator};
use super::files::{Arguments, Files};
use super::listen::{self, Wanted};
use super::{handlers, host, locations, logs, mapping, network, proxied, remote, tls};
use crate::conditional::Server as _;
use crate::directives::{self, Places, Row, Standing};
use crate::modules::OF_BOTH;
use crate::overrides::support::{self, Support};
use crate::overrides::{self, quoted};
use crate::syntax::{Mistake, Node};
use crate::{Pattern as _, Patterns};
use brisk_conf::{Directive, NoFiles, SourceMap, Span};
use std::ops::Range;

/// The line that tells `ServerRoot`, in the block `apache_site`: relative paths of `.htaccess` begin there.
pub const ROOT: &str = "BriskRoot";

/// The line that tells which modules are loaded, of those that `.htaccess` files may ask for (`<IfModule>`), in the block `apache_site`.
pub const MODULES: &str = "BriskModules";

/// The line that tells what is defined when all files are read (`Define`, `-D`), in the block `apache_site`: a name, perhaps with its value.
/// `.htaccess` files ask for it.
pub const DEFINE: &str = "BriskDefine";

/// The line that tells a variable of the environment which `envvars` exports. Others of the process are not told: it may have them for itself.
pub const ENV: &str = "BriskEnv";

/// What came of the files.
pub struct Translated {
    /// Directives of Brisk's main level.
    pub tree: Vec<Directive>,
    /// What does nothing, or something else than in Apache, with its line.
    pub notices: Vec<(u32, String)>,
    /// The virtual hosts, for `-S`.
    pub hosts: Vec<Picture>,
}

/// A virtual host as `-S` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// What it listens on: `*:80`.
    pub address: String,
    /// `ServerName`.
    pub name: String,
    /// `ServerAlias`.
    pub aliases: Vec<String>,
    /// The line of its `<VirtualHost>`.
    pub line: u32,
}

impl Translator<'_, '_> {
    fn read(&mut self, nodes: Vec<Node>, draft: &mut Draft) {
        for node in self.settled(nodes) {
            if let Err(text) = self.line(&node, draft) {
                self.mistakes.push(Mistake { line: node.line, text: format!("{}: {text}", node.name) });
            }
        }
    }

    /// Lines with what is known when they are read: `PassEnv` sets what the environment has, and paths are whole.
    fn settled(&self, nodes: Vec<Node>) -> Vec<Node> {
        let mut out = Vec::with_capacity(nodes.len());
        for mut node in nodes {
            if let Some(children) = node.children.take() {
                node.children = Some(self.settled(children));
            } else if node.is("PassEnv") {
                let env = &self.files.arguments().env;
                for name in node.words().map(|word| String::from_utf8_lossy(&word).into_owned()) {
                    let Some(value) = env.get(&name) else { continue };
                    let args = [quoted(name.as_bytes()), quoted(value.as_bytes())].join(&b' ');
                    out.push(Node { name: "SetEnv".into(), args, line: node.line, children: None });
                }
                continue;
            }
            out.push(node);
        }
        overrides::rooted(out, &self.files.root())
    }

    fn line(&mut self, node: &Node, draft: &mut Draft) -> Result<(), String> {
        let name = node.name.to_ascii_lowercase();
        // PHP's own, which no module of Apache's has.
        if node.children.is_none() && matches!(name.as_str(), "php_value" | "php_flag") {
            draft.site.push(node.clone());
            return Ok(());
        }
        let row = directives::check(node, Standing::Server)
            .map_err(|refusal| refusal.text(&node.name).trim_start_matches(&node.name).trim().to_string())?;
        type Reader = fn(&mut Translator<'_, '_>, &str, &Node, &mut Draft) -> Done;
        const READERS: [Reader; 6] =
            [host::line, network::line, logs::line, tls::line, mapping::line, remote::line];
        if let Some(done) = balancer::line(self, &name, node) {
            return done;
        }
        if let Some(done) = READERS.iter().find_map(|read| read(self, &name, node, draft)) {
            return done;
        }
        let is_about_requests = row.places.meets(Places::ALL.or(Places::DIRECTORY))
            || matches!(name.as_str(), "directory" | "directorymatch" | "location" | "locationmatch");
        if !is_about_requests {
            return Err("Brisk does not support this directive (yet)".into());
        }
        draft.site.push(node.clone());
        Ok(())
    }

    /// What all hosts name: formats of logs, groups of back ends.
    fn shared(&self) -> Vec<Directive> {
        let span = |line| self.span(line);
        let mut out = self.formats.directives(&span);
        out.extend(self.balancers.directives(&span));
        if self.files.loads_php() {
            out.push(handlers::pool(self.span(1)));
        }
        out
    }

    fn http(&mut self, main: &Draft, mut servers: Vec<Directive>) -> Directive {
        let at = self.span(main.line.max(1));
        let mut inner = self.shared();
        inner.push(statement(at, "default_type", [""]));
        inner.push(statement(at, "autoindex", ["on"]));
        inner.extend(self.types.take());
        inner.extend(self.settings(main, &[]));
        inner.append(&mut servers);
        block(at, "http", [""; 0], inner)
    }

    /// What holds for a host, as directives of `http` or `server`. `above` are lines about requests that stand before its own.
    fn settings(&self, draft: &Draft, above: &[Node]) -> Vec<Directive> {
        let mut out: Vec<Directive> = draft.single.values().cloned().collect();
        out.extend(logs::error_log(self, draft));
        out.extend(draft.access_logs.iter().cloned());
        out.extend(draft.cookies.iter().cloned());
        out.extend(draft.tls.directives(&|line| self.span(line)));
        if !draft.compressed.is_empty() {
            let at = self.span(draft.line.max(1));
            out.push(statement(at, "gzip", ["on"]));
            out.push(statement(at, "gzip_vary", ["on"]));
            let types: Vec<_> = draft.compressed.iter().filter(|media| *media != b"text/html").collect();
            if !types.is_empty() {
                out.push(statement(at, "gzip_types", types));
            }
        }
        let span = |line| self.span(line);
        // A host has rewriting rules of its own, or none.
        let is_handed_down = |node: &&Node| !node.name.to_ascii_lowercase().starts_with("rewrite");
        let nodes = || above.iter().filter(is_handed_down).chain(&draft.site);
        let mut lines: Vec<Directive> = nodes().map(|node| of_node(node, &span)).collect();
        lines.push(statement(self.span(draft.line.max(1)), ROOT, [self.files.root()]));
        let loaded: Vec<&str> = OF_BOTH.iter().copied().filter(|name| self.files.has_module(name)).collect();
        if !loaded.is_empty() {
            lines.push(statement(self.span(draft.line.max(1)), MODULES, loaded));
        }
        // A host has those of all hosts.
        if draft.line == 0 || self.files.arguments().is_included {
            lines.extend(self.known(self.span(draft.line.max(1))));
        }
        lines.extend(handlers::lines(nodes(), &span));
        if self.files.has_proxy() && proxied::is_asked(&nodes().collect::<Vec<_>>()) {
            lines.push(proxied::line(self.span(draft.line.max(1))));
        }
        if self.files.loads_php() {
            lines.extend(handlers::lines_of_php(&nodes().collect::<Vec<_>>(), &span));
        }
        out.push(block(self.span(draft.line.max(1)), "apache_site", [""; 0], lines));
        out
    }

    /// What files of folders may ask for beside modules.
    fn known(&self, at: Span) -> Vec<Directive> {
        let line = |name: &str, key: &str, value: Option<&[u8]>| {
            let words: Vec<_> = [Some(key.as_bytes()), value].into_iter().flatten().map(quoted).collect();
            statement(at, name, [words.join(&b' ')])
        };
        let defines = self.files.defines();
        let mut out: Vec<_> =
            defines.iter().map(|(name, value)| line(DEFINE, name, value.as_deref())).collect();
        let arguments = self.files.arguments();
        let exported = arguments.exported.iter().filter_map(|name| arguments.env.get_key_value(name));
        out.extend(exported.map(|(name, value)| line(ENV, name, Some(value.as_bytes()))));
        out
    }

    /// What a host takes over from lines outside of all hosts, where there is no `http` of its own for them.
    fn of_main(&self, draft: &Draft, main: &Draft) -> Vec<Directive> {
        let at = self.span(draft.line.max(1));
        let mut out = vec![statement(at, "default_type", [""]), statement(at, "autoindex", ["on"])];
        let is_own = |name: &str| draft.single.contains_key(name);
        out.extend(
            main.single.iter().filter(|(name, _)| !is_own(name)).map(|(_, directive)| directive.clone()),
        );
        if draft.access_logs.is_empty() {
            out.extend(main.access_logs.iter().cloned());
        }
        if draft.error_log.is_none() && main.error_log.is_some() {
            out.extend(logs::error_log(self, main));
        }
        if !draft.tls.is_on() {
            out.extend(main.tls.directives(&|line| self.span(line)));
        }
        out
    }

    /// A virtual host, or the main server where it serves.
    fn server(&mut self, draft: &Draft, main: &Draft, wanted: &[Wanted], is_main: bool) -> Directive {
        let at = self.span(draft.line.max(1));
        let is_tls = draft.tls.is_on();
        let mut inner: Vec<Directive> = Vec::new();
        for wanted in wanted {
            let mut args = vec![wanted.text.as_str()];
            if is_tls {
                args.push("ssl");
            }
            if draft.remote.protocol.or(main.remote.protocol).is_some() {
                args.push("proxy_protocol");
            }
            inner.push(statement(self.span(wanted.line), "listen", args));
        }
        let names: Vec<String> =
            draft.name.iter().chain(&draft.aliases).map(|name| host::pattern(name)).collect();
        if !names.is_empty() {
            inner.push(statement(at, "server_name", names));
        }
        inner.extend(draft.remote.directives(&main.remote, &|line| self.span(line)));
        self.mistakes.extend(draft.remote.mistake(&main.remote));
        if !is_main {
            let is_included = self.files.arguments().is_included;
            if is_included {
                inner.extend(self.of_main(draft, main));
            }
            inner.extend(self.settings(draft, if is_included { &main.site } else { &[] }));
        }
        let users = mapping::of_users(self, draft, main).unwrap_or_else(|mistake| {
            self.mistakes.push(mistake);
            Vec::new()
        });
        // Of back ends Apache asks those of the main server first, of aliases those of the host.
        let is_alias = |mapping: &&Mapping| matches!(mapping.target, Target::File(_));
        let (aliases, proxies): (Vec<&Mapping>, Vec<&Mapping>) =
            main.mappings.iter().filter(|_| !is_main).partition(is_alias);
        let mappings: Vec<_> =
            proxies.into_iter().chain(&draft.mappings).chain(aliases).chain(&users).collect();
        let host = draft.proxy_host.or(main.proxy_host);
        let shadowed =
            locations::locations(self, &mappings, at, host, &mut inner).unwrap_or_else(|mistake| {
                self.mistakes.push(mistake);
                Vec::new()
            });
        for line in shadowed {
            self.notice(line, "never used: a line above it is for the same paths");
        }
        handlers::locations(&[&main.site, &draft.site], at, &mut inner);
        if self.files.has_proxy() {
            let nodes: Vec<_> = main.site.iter().chain(&draft.site).collect();
            proxied::locations(&nodes, at, host, &mut inner);
        }
        if self.files.loads_php() {
            inner.push(handlers::location_of_php(at));
        }
        block(at, "server", [""; 0], inner)
    }
}

/// Arguments of directives that take none of those that [`support::sample`] makes up.
const SAMPLES: &[(&str, &str)] = &[
    ("AccessFileName", ".htaccess"),
    ("Alias", "/x /x"),
    ("HostnameLookups", "Off"),
    ("ProxyPass", "/x http://127.0.0.1/"),
    ("ProxyRequests", "Off"),
    ("ProxyVia", "Off"),
    ("RemoteIPInternalProxy", "127.0.0.1"),
    ("RemoteIPTrustedProxy", "127.0.0.1"),
    ("TraceEnable", "Off"),
];

/// What becomes in the server's own files of a directive that cannot stand in `.htaccess`.
pub fn support<S: Patterns>(row: &Row, patterns: &S) -> Support {
    const ON_READ: &[&str] = &[
        "Define",
        "UnDefine",
        "Include",
        "IncludeOptional",
        "LoadModule",
        "ServerRoot",
        "<VirtualHost",
        "<Macro",
        "Use",
    ];
    const SECTIONS: &[&str] = &[
        "<Directory",
        "<DirectoryMatch",
        "<Location",
        "<LocationMatch",
        "AllowOverride",
        "AllowOverrideList",
        "BalancerMember",
        "ProxySet",
    ];
    if ON_READ.iter().chain(SECTIONS).any(|name| *name == row.name) {
        return Support::Works;
    }
    let (mut sources, arguments) = (SourceMap::default(), Arguments::default());
    let files = Files::new(&NoFiles, &mut sources, &arguments);
    let mut this = Translator::new(&files, &|_, _| None);
    let mut draft = Draft::default();
    let (name, is_section) = row.name.strip_prefix('<').map_or((row.name, false), |name| (name, true));
    let mut node = support::sample(row, name, is_section);
    if let Some((_, args)) = SAMPLES.iter().find(|(known, _)| *known == row.name) {
        node.args = args.as_bytes().to_vec();
    }
    if !row.places.meets(Places::SERVER) {
        return support::compiled(&node, Standing::Section, patterns);
    }
    match this.line(&node, &mut draft) {
        // It is about requests, and compiled as the lines of `.htaccess` are.
        Ok(()) if !draft.site.is_empty() => support::compiled(&node, Standing::Server, patterns),
        Ok(()) if host::is_without_effect(name) || !this.notices.is_empty() => Support::NoEffect,
        Err(text) if text.contains("Brisk") => Support::Refused,
        // What is wrong is the sample.
        Ok(()) | Err(_) => Support::Works,
    }
}

/// What is served where no line names a `DocumentRoot`: Debian's Apache has another than Apache's own.
fn usual_root(files: &Files<'_>) -> String {
    if files.root().trim_end_matches('/') == "/etc/apache2" {
        "/var/www/html".into()
    } else {
        files.path("htdocs")
    }
}

/// Translates lines whose conditions are resolved.
///
/// # Errors
/// All lines that are not understood, or that Brisk cannot carry out.
pub fn translate<S: Patterns>(
    files: &Files<'_>,
    nodes: Vec<Node>,
    patterns: &S,
) -> Result<Translated, Vec<Mistake>> {
    let find = |pattern: &str, path: &str| groups(patterns, pattern, path);
    let mut this = Translator::new(files, &find);
    let (own, hosts): (Vec<Node>, Vec<Node>) =
        nodes.into_iter().partition(|node| !(node.is("VirtualHost") && node.children.is_some()));
    let mut main = Draft::default();
    this.read(own, &mut main);
    network::types(&mut this);
    if !main.single.contains_key("root") {
        main.single.insert("root", statement(this.span(1), "root", [usual_root(files)]));
    }
    if main.access_logs.is_empty() {
        // Apache logs no requests unless it is told to.
        main.access_logs.push(statement(this.span(1), "access_log", ["off"]));
    }
    let mut drafts: Vec<(Node, Draft)> = Vec::new();
    for mut node in hosts {
        let mut draft = Draft { line: node.line, ..Draft::default() };
        this.read(node.children.take().unwrap_or_default(), &mut draft);
        drafts.push((node, draft));
    }
    let (tree, pictures) = assemble(&mut this, main, drafts);
    let mistakes = this.balancers.mistakes().into_iter().map(|(line, text)| Mistake { line, text });
    this.mistakes.extend(mistakes);
    if !this.mistakes.is_empty() {
        this.mistakes.sort_by_key(|mistake| mistake.line);
        return Err(this.mistakes);
    }
    Ok(Translated { tree, notices: this.notices, hosts: pictures })
}

/// The text of a pattern's groups in a path; nothing where it does not match.
fn groups<S: Patterns>(patterns: &S, pattern: &str, path: &str) -> Option<Vec<String>> {
    let found = patterns.compile(pattern.as_bytes(), false).ok()?.find(path.as_bytes()).ok()??;
    let text = |span: Option<Range<usize>>| span.and_then(|span| path.get(span)).unwrap_or_default();
    Some(found.into_iter().map(|span| text(span).to_string()).collect())
}

/// Servers alone, for a configuration that has an `http` already.
fn included(this: &mut Translator<'_, '_>, main: &Draft, servers: Vec<Directive>) -> Vec<Directive> {
    if let (true, Some(node)) = (servers.is_empty(), main.site.first()) {
        let text = "there is no <VirtualHost> with a port in these files".into();
        this.mistakes.push(Mistake { line: node.line, text });
    }
    if let Some((line, _)) = this.user {
        let text = "User: the configuration around these files says it".into();
        this.mistakes.push(Mistake { line, text });
    }
    let mut tree = this.shared();
    tree.extend(servers);
    tree
}

fn assemble(
    this: &mut Translator<'_, '_>,
    mut main: Draft,
    mut drafts: Vec<(Node, Draft)>,
) -> (Vec<Directive>, Vec<Picture>) {
    let is_included = this.files.arguments().is_included;
    if this.listens.is_empty() && !is_included {
        this.mistakes
            .push(Mistake { line: 0, text: "no listening sockets available: write Listen 80".into() });
    }
    let mut servers = Vec::new();
    let mut pictures = Vec::new();
    let plan = listen::plan(this, drafts.iter().map(|(node, _)| node));
    let is_https = |wanted: &[Wanted]| wanted.iter().all(|wanted| wanted.is_https);
    main.tls.settle(!plan.main.is_empty() && is_https(&plan.main));
    for ((_, draft), wanted) in drafts.iter_mut().zip(&plan.hosts) {
        draft.tls.settle(is_https(wanted));
    }
    let main = &main;
    for ((node, draft), wanted) in drafts.iter().zip(&plan.hosts) {
        if wanted.is_empty() {
            this.notice(node.line, "never used: no Listen is for the addresses of this <VirtualHost>");
            continue;
        }
        servers.push(this.server(draft, main, wanted, false));
        pictures.extend(wanted.iter().map(|wanted| picture(&wanted.shown, draft)));
    }
    if is_included {
        return (included(this, main, servers), pictures);
    }
    if !plan.main.is_empty() {
        servers.push(this.server(main, main, &plan.main, true));
        pictures.extend(plan.main.iter().map(|wanted| picture(&wanted.shown, main)));
    }
    pictures.dedup();
    let mut tree: Vec<Directive> = std::mem::take(&mut this.main).into_values().collect();
    if let Some((line, user)) = this.user.clone() {
        let names: Vec<String> = std::iter::once(user).chain(this.group.clone()).collect();
        tree.push(statement(this.span(line), "user", names));
    }
    tree.extend(logs::error_log(this, main));
    let at = this.span(1);
    tree.push(block(at, "events", [""; 0], vec![statement(at, "worker_connections", ["10240"])]));
    let http = this.http(main, servers);
    tree.push(http);
    (tree, pictures)
}

fn picture(address: &str, draft: &Draft) -> Picture {
    Picture {
        address: address.to_string(),
        name: draft.name.clone().unwrap_or_default(),
        aliases: draft.aliases.clone(),
        line: draft.line,
    }
}
