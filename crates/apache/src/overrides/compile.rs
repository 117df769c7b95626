//! From lines to settings. A line that is not understood ends it: nothing of the file is used then.

use super::php::php;
use super::sections::{Scope, ScopedSettings};
use super::settings::{
    Document, Ending, ErrorDocument, Etag, EtagChange, LogMessage, PathInfo, RewriteOptions, Said, Settings,
};
use crate::access::{self, Merging, Methods, Section};
use crate::directives::{self, Standing};
use crate::expires::Lifetime;
use crate::expr::{Condition, Place, Text};
use crate::limits::{ENV_CHANGES_MAX, RANGES_MAX_USUAL};
use crate::options::Options;
use crate::redirect::{self, Redirect};
use crate::syntax::{Mistake, Node};
use crate::{EnvChange, Origin, Patterns, headers, rewrite, setenv};
use std::sync::Arc;

/// Filters that Brisk stands for: compression by what the location says of it, and pages with commands.
pub const OUTPUT_FILTERS: [&str; 4] = ["deflate", "brotli_compress", "includes", "none"];

/// What is said of a directive that nothing is done for.
pub(super) const NOT_SUPPORTED: &str = "Brisk does not support this directive here (yet)";

/// The same of a section.
pub(super) const SECTION_NOT_SUPPORTED: &str = "Brisk does not support this section here (yet)";

/// Makes settings of lines.
pub struct Compiler<'a, S> {
    /// Compiles regular expressions.
    pub patterns: &'a S,
    /// Where the lines stand, and what they may say there.
    pub standing: Standing<'a>,
    /// The options that `AllowOverride Options=…` leaves to them.
    pub options: Options,
    /// Where a line stands, by [`Node::line`].
    pub origins: &'a dyn Fn(u32) -> Origin,
}

/// What a directive's own reader says: `None`, it is another's.
pub(super) type Done = Option<Result<(), String>>;

/// What is collected for the lines of one block.
struct Draft<P> {
    settings: Settings<P>,
    rules: rewrite::Reader<P>,
    require: access::Reader<P>,
}

impl<S: Patterns> Compiler<'_, S> {
    /// Makes settings of the lines of one directory, whose conditional sections are resolved.
    ///
    /// # Errors
    /// The first line that is not understood, not allowed there, or not carried out here.
    pub fn compile(&self, nodes: &[Node]) -> Result<Settings<S::Pattern>, Mistake> {
        let mut draft = Draft {
            settings: Settings::default(),
            rules: rewrite::Reader::default(),
            require: access::Reader::default(),
        };
        self.lines(nodes, &Methods::All, &mut draft)?;
        let mut settings = draft.settings;
        settings.rewriting.rules = draft.rules.finish();
        settings.requirements = draft.require.finish();
        Ok(settings)
    }

    fn place(&self) -> Place {
        match self.standing {
            Standing::Override { .. } => Place::Override,
            Standing::Server | Standing::Section => Place::Server,
        }
    }

    fn lines(&self, nodes: &[Node], methods: &Methods, draft: &mut Draft<S::Pattern>) -> Result<(), Mistake> {
        for node in nodes {
            let mistake = |text: String| Mistake { line: node.line, text: format!("{}: {text}", node.name) };
            if let Some(done) = php(node, self.standing, &mut draft.settings.php) {
                done.map_err(mistake)?;
                continue;
            }
            let checked = directives::check(node, self.standing);
            checked.map_err(|refusal| Mistake { line: node.line, text: refusal.text(&node.name) })?;
            match &node.children {
                Some(children) => self.section(node, children, methods, draft)?,
                None => self.line(node, methods, draft).map_err(mistake)?,
            }
        }
        Ok(())
    }

    fn line(&self, node: &Node, methods: &Methods, draft: &mut Draft<S::Pattern>) -> Result<(), String> {
        let name = node.name.to_ascii_lowercase();
        None.or_else(|| self.rewriting(&name, node, draft))
            .or_else(|| self.access(&name, node, methods, draft))
            .or_else(|| self.answers(&name, node, draft))
            .or_else(|| self.environment(&name, node, draft))
            .or_else(|| self.files(&name, node, draft))
            .or_else(|| self.serving(&name, node, draft))
            .or_else(|| mime(&name, node, draft))
            .or_else(|| without_effect(&name, node))
            .unwrap_or_else(|| Err(NOT_SUPPORTED.into()))
    }

    fn rewriting(&self, name: &str, node: &Node, draft: &mut Draft<S::Pattern>) -> Done {
        let rewriting = &mut draft.settings.rewriting;
        Some(match name {
            "rewriteengine" => {
                rewriting.is_on = Some(is_on(node));
                Ok(())
            }
            "rewritebase" => {
                let base = first(node);
                let result = match base.first() {
                    None => Err("empty URL not allowed".into()),
                    Some(b'/') => Ok(()),
                    Some(_) => Err("argument is not a valid URL".into()),
                };
                rewriting.base = Some(base);
                result
            }
            "rewriteoptions" => rewrite_options(node).map(|options| rewriting.options = Some(options)),
            "rewritecond" => {
                draft.rules.condition(&node.args, (self.origins)(node.line), self.place(), self.patterns)
            }
            "rewriterule" => draft.rules.rule(&node.args, (self.origins)(node.line), self.patterns),
            _ => return None,
        })
    }

    fn access(&self, name: &str, node: &Node, methods: &Methods, draft: &mut Draft<S::Pattern>) -> Done {
        let settings = &mut draft.settings;
        let auth = &mut settings.auth;
        Some(match name {
            "require" => draft.require.from((self.origins)(node.line)).require(
                &node.args,
                methods.clone(),
                self.place(),
                self.patterns,
            ),
            "authmerging" => match first(node).to_ascii_lowercase().as_slice() {
                b"off" => set(&mut settings.merging, Merging::Off),
                b"and" => set(&mut settings.merging, Merging::And),
                b"or" => set(&mut settings.merging, Merging::Or),
                _ => Err("must be one of: Off | And | Or".into()),
            },
            "order" => settings.compat.order(&first(node), methods.clone(), (self.origins)(node.line)),
            "satisfy" => settings.compat.satisfy(&first(node), methods.clone()),
            "allow" | "deny" => {
                let origin = (self.origins)(node.line);
                settings.compat.line(name == "allow", node.words(), methods, &origin)
            }
            "authtype" => set(&mut auth.kind, Some(first(node))),
            "authname" => set(&mut auth.realm, Some(first(node))),
            "authzsendforbiddenonfailure" => set(&mut settings.sends_forbidden, Some(is_on(node))),
            "authuserfile" => set(&mut auth.user_file, Some(first(node))),
            "authgroupfile" => set(&mut auth.group_file, Some(first(node))),
            "authdigestdomain" => Ok(()),
            "authdigestalgorithm" if first(node).eq_ignore_ascii_case(b"md5") => Ok(()),
            "authdigestalgorithm" => Err("Brisk has MD5 only, as Apache".into()),
            "authdigestqop" => match node.words().find(|word| !word.eq_ignore_ascii_case(b"auth")) {
                None => Ok(()),
                Some(_) => Err("Brisk has auth only".into()),
            },
            "authbasicprovider" | "authdigestprovider" => {
                let words: Vec<_> = node.words().map(|word| word.to_ascii_lowercase()).collect();
                match words.iter().find(|word| *word != b"file") {
                    // Another source of passwords must not be taken for this one.
                    Some(other) => Err(format!(
                        "Brisk has no provider '{}': use \"file\"",
                        String::from_utf8_lossy(other)
                    )),
                    None => set(&mut auth.providers, Some(words)),
                }
            }
            _ => return None,
        })
    }

    fn answers(&self, name: &str, node: &Node, draft: &mut Draft<S::Pattern>) -> Done {
        let settings = &mut draft.settings;
        let redirects = |kind| {
            let words: Vec<_> = node.words().collect();
            let read = Redirect::parse(kind, &words, self.place(), true, self.patterns);
            read.map(|line| Arc::new(line.from((self.origins)(node.line))))
        };
        Some(match name {
            "header" | "requestheader" => {
                let line =
                    headers::Line::parse(&node.args, name == "requestheader", self.place(), self.patterns);
                line.map(|line| settings.headers.push(Arc::new(line.from((self.origins)(node.line)))))
            }
            "redirect" => redirects(redirect::Kind::Redirect).map(|line| settings.redirects.push(line)),
            "redirectpermanent" => {
                redirects(redirect::Kind::Permanent).map(|line| settings.redirects.push(line))
            }
            "redirecttemp" => redirects(redirect::Kind::Temporary).map(|line| settings.redirects.push(line)),
            "redirectmatch" => redirects(redirect::Kind::Match).map(|line| settings.redirects.push(line)),
            "expiresactive" => set(&mut settings.expires.is_active, Some(is_on(node))),
            "expiresdefault" => {
                Lifetime::parse(&joined(node)).map(|lifetime| settings.expires.default = Some(lifetime))
            }
            "expiresbytype" => {
                let mut words = node.words();
                let content_type = words.next().unwrap_or_default().to_ascii_lowercase();
                let lifetime = Lifetime::parse(&words.next().unwrap_or_default());
                lifetime.map(|lifetime| settings.expires.by_type.push((content_type, lifetime)))
            }
            "errordocument" => self.error_document(node).map(|document| {
                if let Some((status, document)) = document {
                    let origin = (self.origins)(node.line);
                    settings.error_documents.insert(status, ErrorDocument { document, origin });
                }
            }),
            _ => return None,
        })
    }

    /// Nothing for a line that has no effect: a URL for 401 would never let anybody log in.
    fn error_document(&self, node: &Node) -> Result<Option<(u16, Document)>, String> {
        let mut words = node.words();
        let (status, text) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let status = std::str::from_utf8(&status).ok().and_then(|text| text.parse().ok());
        let status = status.filter(|status| (400..600).contains(status));
        let status = status.ok_or_else(|| {
            format!("Unsupported HTTP response code {}", String::from_utf8_lossy(&first(node)))
        })?;
        if text.eq_ignore_ascii_case(b"default") {
            return Ok(Some((status, Document::Default)));
        }
        let is_url = memchr::memmem::find(&text, b"://").is_some() && !text.contains(&b' ');
        let read = Text::parse(&text, self.place());
        let read = Arc::new(read.map_err(|why| format!("Cannot parse expression in ErrorDocument: {why}"))?);
        Ok(Some(match text.first() {
            Some(b'/') if !text.contains(&b' ') => (status, Document::Path(read)),
            _ if is_url && status == 401 => return Ok(None),
            _ if is_url => (status, Document::Url(read)),
            _ => (status, Document::Text(read)),
        }))
    }

    fn environment(&self, name: &str, node: &Node, draft: &mut Draft<S::Pattern>) -> Done {
        let settings = &mut draft.settings;
        let kind = match name {
            "setenvif" => setenv::Kind::If,
            "setenvifnocase" => setenv::Kind::IfNoCase,
            "setenvifexpr" => setenv::Kind::IfExpr,
            "browsermatch" => setenv::Kind::Browser,
            "browsermatchnocase" => setenv::Kind::BrowserNoCase,
            "setenv" => {
                let mut words = node.words();
                let change = (words.next().unwrap_or_default(), Some(words.next().unwrap_or_default()));
                settings.env.push(change);
                return Some(few_variables(&settings.env));
            }
            "unsetenv" => {
                settings.env.extend(node.words().map(|name| (name, None)));
                return Some(few_variables(&settings.env));
            }
            _ => return None,
        };
        let line = setenv::Line::parse(kind, &node.args, self.place(), self.patterns);
        Some(line.map(|line| settings.set_env_if.push(Arc::new(line))))
    }

    fn files(&self, name: &str, node: &Node, draft: &mut Draft<S::Pattern>) -> Done {
        let settings = &mut draft.settings;
        let unless = |word: &str| {
            let text = first(node);
            if text.eq_ignore_ascii_case(word.as_bytes()) { Vec::new() } else { text }
        };
        Some(match name {
            "options" => {
                settings.options.line(node.words(), self.options).map(|change| settings.options = change)
            }
            "directoryindex" => {
                let words: Vec<_> = node.words().collect();
                let is_disabled =
                    matches!(words.as_slice(), [word] if word.eq_ignore_ascii_case(b"disabled"));
                let index = settings.directory_index.get_or_insert_default();
                if is_disabled {
                    index.clear();
                } else {
                    index.extend(words);
                }
                Ok(())
            }
            "indexignore" => {
                settings.index_ignore.extend(node.words());
                Ok(())
            }
            "sslrequiressl" => set(&mut settings.requires_tls, true),
            "directoryslash" => set(&mut settings.directory_slash, Some(is_on(node))),
            "fallbackresource" => match unless("disabled") {
                path if path.is_empty() || path.starts_with(b"/") => {
                    set(&mut settings.fallback_resource, Some(path))
                }
                path => {
                    Err(format!("'{}' is no path: it begins with a slash", String::from_utf8_lossy(&path)))
                }
            },
            "cgipassauth" => set(&mut settings.passes_authorization, Some(is_on(node))),
            "forcetype" => set(&mut settings.force_type, Some(unless("none"))),
            "sethandler" => set(&mut settings.handler, Some(unless("none"))),
            "adddefaultcharset" => {
                let word = first(node);
                let charset = match word.to_ascii_lowercase().as_slice() {
                    b"off" => Said::Removed,
                    b"on" => Said::Value(b"iso-8859-1".to_vec()),
                    _ => Said::Value(word),
                };
                set(&mut settings.default_charset, charset)
            }
            "limitrequestbody" => {
                let bytes = std::str::from_utf8(&first(node)).ok().and_then(|text| text.parse().ok());
                bytes
                    .ok_or_else(|| "requires a non-negative integer.".into())
                    .map(|bytes| settings.request_body_bytes_max = Some(bytes))
            }
            "acceptpathinfo" => match first(node).to_ascii_lowercase().as_slice() {
                b"on" => set(&mut settings.path_info, Some(PathInfo::Accepted)),
                b"off" => set(&mut settings.path_info, Some(PathInfo::Refused)),
                b"default" => set(&mut settings.path_info, Some(PathInfo::Default)),
                _ => Err("must be set to on, off or default".into()),
            },
            _ => return None,
        })
    }

    /// How what is there is served.
    fn serving(&self, name: &str, node: &Node, draft: &mut Draft<S::Pattern>) -> Done {
        let settings = &mut draft.settings;
        Some(match name {
            "logmessage" => {
                self.log_message(node).map(|message| settings.log_messages.push(Arc::new(message)))
            }
            "fileetag" => etag(node).map(|etag| settings.etag = etag),
            "setoutputfilter" => filters(&first(node)).map(|filters| settings.output_filter = Some(filters)),
            "allowmethods" => {
                let methods = node.words().map(|word| if word == b"HEAD" { b"GET".to_vec() } else { word });
                let methods: Vec<Vec<u8>> = methods.collect();
                let is_reset = methods.iter().any(|method| method.eq_ignore_ascii_case(b"reset"));
                set(&mut settings.allowed_methods, Some(if is_reset { Vec::new() } else { methods }))
            }
            "languagepriority" => set(&mut settings.language_priority, Some(node.words().collect())),
            "forcelanguagepriority" => {
                let is_fallback = |word: Vec<u8>| word.eq_ignore_ascii_case(b"fallback");
                set(&mut settings.language_falls_back, Some(node.words().any(is_fallback)))
            }
            "checkspelling" => set(&mut settings.spelling.is_on, Some(is_on(node))),
            "checkcaseonly" => set(&mut settings.spelling.case_only, Some(is_on(node))),
            "checkbasenamematch" => set(&mut settings.spelling.basenames, Some(is_on(node))),
            "maxranges" => ranges(&first(node)).map(|max| settings.ranges_max = Some(max)),
            _ => return None,
        })
    }

    fn log_message(&self, node: &Node) -> Result<LogMessage<S::Pattern>, String> {
        let mut words = node.words();
        let text = words.next().unwrap_or_default();
        let text = Text::parse(&text, self.place()).map_err(|why| format!("Cannot parse message: {why}"))?;
        let mut condition = None;
        for word in words {
            if let Some(expression) = word.strip_prefix(b"expr=") {
                let read = Condition::parse(expression, self.place(), self.patterns);
                condition = Some(read.map_err(|why| format!("Cannot parse expression: {why}"))?);
            } else if word != b"hook=log_transaction" {
                return Err(
                    "Brisk writes messages when a request is answered only (hook=log_transaction)".into()
                );
            }
        }
        Ok(LogMessage { text, condition })
    }

    fn section(
        &self,
        node: &Node,
        children: &[Node],
        methods: &Methods,
        draft: &mut Draft<S::Pattern>,
    ) -> Result<(), Mistake> {
        let mistake = |text: String| Mistake { line: node.line, text: format!("<{}>: {text}", node.name) };
        let name = node.name.to_ascii_lowercase();
        let section = match name.as_str() {
            "requireall" => Some(Section::All),
            "requireany" => Some(Section::Any),
            "requirenone" => Some(Section::None),
            _ => None,
        };
        if let Some(section) = section {
            if let Some(other) = children.iter().find(|node| !is_requirement(node)) {
                return Err(Mistake {
                    line: other.line,
                    text: format!("{} not allowed in <{}> context", other.name, node.name),
                });
            }
            draft.require.begin(section);
            self.lines(children, methods, draft)?;
            return draft.require.end().map_err(mistake);
        }
        if matches!(name.as_str(), "limit" | "limitexcept") {
            let methods = Methods::of_section(name == "limitexcept", node.words()).map_err(mistake)?;
            return self.lines(children, &methods, draft);
        }
        let scope = self.scope(&name, node).map_err(mistake)?;
        let standing = match self.standing {
            Standing::Server => Standing::Section,
            standing => standing,
        };
        let settings = Compiler { standing, ..*self }.compile(children)?;
        draft.settings.sections.push(Arc::new(ScopedSettings { scope, settings }));
        Ok(())
    }

    fn scope(&self, name: &str, node: &Node) -> Result<Scope<S::Pattern>, String> {
        let mut words = node.words();
        let condition = || {
            // In quotation marks or without.
            let mut words = node.words();
            let word = words.next().unwrap_or_default();
            let is_one = words.next().is_none() && node.args.first() == Some(&b'"');
            let text = if is_one { word } else { node.args.clone() };
            Condition::parse(&text, self.place(), self.patterns)
                .map_err(|why| format!("Cannot parse condition clause: {why}"))
        };
        let pattern = |text: &[u8]| {
            let compiled = self.patterns.compile(text, false);
            compiled.map(Scope::NamePattern).map_err(|why| format!("Regex could not be compiled: {why}"))
        };
        match name {
            "if" => condition().map(Scope::If),
            "elseif" => condition().map(Scope::ElseIf),
            "else" if node.args.is_empty() => Ok(Scope::Else),
            "else" => Err("takes no arguments".into()),
            "directory" | "directorymatch" | "location" | "locationmatch" => self.server_scope(name, node),
            "files" | "filesmatch" => {
                let first = words.next().ok_or("requires additional arguments")?;
                match words.next() {
                    Some(text) if first == b"~" && name == "files" => pattern(&text),
                    Some(_) => Err("Multiple <Files> arguments not (yet) supported.".into()),
                    None if name == "filesmatch" => pattern(&first),
                    None => Ok(Scope::Name(first)),
                }
            }
            _ => Err(SECTION_NOT_SUPPORTED.into()),
        }
    }
}

impl<S: Patterns> Compiler<'_, S> {
    /// Sections of the server's own files. Those about one folder are not for the compiler: they count like files in folders.
    fn server_scope(&self, name: &str, node: &Node) -> Result<Scope<S::Pattern>, String> {
        let mut words = node.words();
        let first = words.next().ok_or("requires additional arguments")?;
        let is_tilde = first == b"~";
        let text = if is_tilde { words.next().ok_or("requires additional arguments")? } else { first };
        if words.next().is_some() {
            return Err("Multiple arguments not (yet) supported.".into());
        }
        if is_tilde || name.ends_with("match") {
            let pattern = self.patterns.compile(&text, false);
            let pattern = pattern.map_err(|why| format!("Regex could not be compiled: {why}"))?;
            let is_folder = name.starts_with("directory");
            return Ok(if is_folder { Scope::FolderPattern(pattern) } else { Scope::PathPattern(pattern) });
        }
        match name {
            "location" if text.starts_with(b"/") => Ok(Scope::Path(text)),
            "location" => Err("Brisk supports paths only: they begin with a slash".into()),
            _ => Err(SECTION_NOT_SUPPORTED.into()),
        }
    }
}

/// What may stand in sections of requirements.
fn is_requirement(node: &Node) -> bool {
    ["Require", "RequireAll", "RequireAny", "RequireNone"].iter().any(|name| node.is(name))
}

fn first(node: &Node) -> Vec<u8> {
    node.words().next().unwrap_or_default()
}

fn set<T>(place: &mut T, value: T) -> Result<(), String> {
    *place = value;
    Ok(())
}

/// Each replaces one of the same name among all others, for each request.
fn few_variables(env: &[EnvChange]) -> Result<(), String> {
    if env.len() > ENV_CHANGES_MAX {
        return Err(format!("a file may set and unset {ENV_CHANGES_MAX} variables at most"));
    }
    Ok(())
}

fn is_on(node: &Node) -> bool {
    first(node).eq_ignore_ascii_case(b"on")
}

/// The words with spaces between.
fn joined(node: &Node) -> Vec<u8> {
    node.words().collect::<Vec<_>>().join(&b' ')
}

fn rewrite_options(node: &Node) -> Result<RewriteOptions, String> {
    let mut options = RewriteOptions::default();
    for word in node.words() {
        match word.to_ascii_lowercase().as_slice() {
            b"inherit" => options.inherits = true,
            b"inheritbefore" => options.inherits_before = true,
            b"inheritdown" => options.inherits_down = true,
            b"inheritdownbefore" => options.inherits_down_before = true,
            b"ignoreinherit" => options.ignores_inherit = true,
            b"allownoslash" => options.allows_no_slash = true,
            b"mergebase" => options.merges_base = true,
            b"ignorecontextinfo" => options.ignores_context = true,
            _ => return Err(format!("unknown option '{}'", String::from_utf8_lossy(&word))),
        }
    }
    Ok(options)
}

fn etag(node: &Node) -> Result<EtagChange, String> {
    let mut change = EtagChange::default();
    for word in node.words() {
        let (sign, name) = match word.as_slice() {
            [sign @ (b'+' | b'-'), name @ ..] => (Some(*sign), name),
            name => (None, name),
        };
        let none = Etag::default();
        let parts = match name.to_ascii_lowercase().as_slice() {
            b"all" => Etag { inode: true, mtime: true, size: true, digest: false },
            b"none" => none,
            b"inode" => Etag { inode: true, ..none },
            b"mtime" => Etag { mtime: true, ..none },
            b"size" => Etag { size: true, ..none },
            b"digest" => Etag { digest: true, ..none },
            _ => {
                return Err(format!(
                    "Unknown keyword '{}' for FileETag directive",
                    String::from_utf8_lossy(name)
                ));
            }
        };
        if sign.is_none() {
            change.whole.get_or_insert(none);
        }
        change.with(parts, sign != Some(b'-'));
    }
    Ok(change)
}

/// `SetOutputFilter`: names of filters in small letters.
fn filters(text: &[u8]) -> Result<Vec<u8>, String> {
    let text = text.to_ascii_lowercase();
    let is_known =
        |name: &[u8]| OUTPUT_FILTERS.iter().any(|known| known.as_bytes() == name) || name.is_empty();
    match text.split(|&byte| byte == b';').find(|name| !is_known(name)) {
        Some(other) => Err(format!("Brisk has no filter '{}'", String::from_utf8_lossy(other))),
        None => Ok(if text == b"none" { Vec::new() } else { text }),
    }
}

/// `MaxRanges`.
fn ranges(text: &[u8]) -> Result<usize, String> {
    match text.to_ascii_lowercase().as_slice() {
        b"none" => Ok(0),
        b"default" => Ok(RANGES_MAX_USUAL),
        b"unlimited" => Ok(usize::MAX),
        text => {
            let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            number
                .filter(|&number| number > 0)
                .ok_or_else(|| "takes none, default, unlimited or a number from 1 on".into())
        }
    }
}

/// `AddType` and its relatives, and what takes them back.
fn mime<P>(name: &str, node: &Node, draft: &mut Draft<P>) -> Done {
    type Pick = fn(&mut Ending) -> &mut Said;
    let pick: Pick = match name {
        "addtype" | "removetype" => |ending| &mut ending.content_type,
        "addencoding" | "removeencoding" => |ending| &mut ending.encoding,
        "addcharset" | "removecharset" => |ending| &mut ending.charset,
        "addlanguage" | "removelanguage" => |ending| &mut ending.language,
        "addhandler" | "removehandler" => |ending| &mut ending.handler,
        "addoutputfilter" | "removeoutputfilter" => |ending| &mut ending.output_filter,
        "removeinputfilter" => |ending| &mut ending.input_filter,
        _ => return None,
    };
    let mut words = node.words();
    let value = if name.starts_with("add") {
        Said::Value(words.next().unwrap_or_default().to_ascii_lowercase())
    } else {
        Said::Removed
    };
    for ending in words {
        let ending = ending.strip_prefix(b".").unwrap_or(&ending).to_ascii_lowercase();
        *pick(draft.settings.mime.endings.entry(ending).or_default()) = value.clone();
    }
    Some(Ok(()))
}

/// What changes nothing that a client can tell, or is done by other means: how a listing looks, how files are read, whether answers
/// are compressed, which the location says.
pub(super) fn without_effect(name: &str, node: &Node) -> Done {
    let is_compression = |filters: &[u8]| {
        filters.split(|&byte| byte == b';').all(|filter| {
            [&b"deflate"[..], b"brotli_compress", b"none", b""]
                .iter()
                .any(|known| filter.eq_ignore_ascii_case(known))
        })
    };
    let filters = match name {
        "serversignature" | "loglevel" | "enablemmap" | "enablesendfile" | "indexoptions"
        | "indexorderdefault" | "indexstylesheet" | "defaulticon" | "adddescription" | "headername"
        | "readmename" | "defaulttype" | "filterdeclare" | "filterchain" | "filtertrace"
        | "filterprotocol" => return Some(Ok(())),
        _ if name.starts_with("addicon") || name.starts_with("addalt") => return Some(Ok(())),
        "multiviewsmatch" if first(node).eq_ignore_ascii_case(b"NegotiatedOnly") => return Some(Ok(())),
        "xbithack" if !is_on(node) && first(node).eq_ignore_ascii_case(b"off") => {
            return Some(Ok(()));
        }
        // Variables for applications, which the server's own lines name.
        "ssloptions"
            if node.words().all(|word| {
                let name = word.strip_prefix(b"+").unwrap_or(&word);
                name.eq_ignore_ascii_case(b"StdEnvVars") || word.starts_with(b"-")
            }) =>
        {
            return Some(Ok(()));
        }
        "authbasicauthoritative" if is_on(node) => return Some(Ok(())),
        "addoutputfilterbytype" => first(node),
        "filterprovider" => node.words().nth(1).unwrap_or_default(),
        _ => return None,
    };
    let text = String::from_utf8_lossy(&filters);
    Some(if is_compression(&filters) { Ok(()) } else { Err(format!("Brisk has no filter '{text}'")) })
}
