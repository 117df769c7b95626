//! The settings of a directory, and how those of a directory below change them.

use super::sections::ScopedSettings;
use crate::access::{Compat, Merging, Requirements};
use crate::expires::Expires;
use crate::expr::{Condition, Text};
use crate::redirect::Redirect;
use crate::rewrite::Rules;
use crate::spelling::Spelling;
use crate::{EnvChange, Origin, Pattern, headers, options, setenv};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the lines of one directory say; what they do not mention is `None` or empty, and the directory above decides.
#[derive(Debug)]
pub struct Settings<P> {
    /// `Options`.
    pub options: options::Change,
    /// mod_rewrite.
    pub rewriting: Rewriting<P>,
    /// `Require`.
    pub requirements: Option<Requirements<P>>,
    /// `AuthMerging`.
    pub merging: Merging,
    /// `Order`, `Allow`, `Deny`, `Satisfy`; one line takes the place of all above.
    pub compat: Compat,
    /// How users log in.
    pub auth: Auth,
    /// `Header` and `RequestHeader`, in their order.
    pub headers: Vec<Arc<headers::Line<P>>>,
    /// `ExpiresActive` and its relatives.
    pub expires: Expires,
    /// `Redirect` and its relatives, in their order.
    pub redirects: Vec<Arc<Redirect<P>>>,
    /// `SetEnvIf` and its relatives, in their order.
    pub set_env_if: Vec<Arc<setenv::Line<P>>>,
    /// `SetEnv` and `UnsetEnv`.
    pub env: Vec<EnvChange>,
    /// `ErrorDocument` by status.
    pub error_documents: BTreeMap<u16, ErrorDocument>,
    /// `DirectoryIndex`; an empty list: `disabled`.
    pub directory_index: Option<Vec<Vec<u8>>>,
    /// `DirectorySlash`.
    pub directory_slash: Option<bool>,
    /// `FallbackResource`; an empty one: `disabled`.
    pub fallback_resource: Option<Vec<u8>>,
    /// `IndexIgnore`: names with wildcards that are not listed.
    pub index_ignore: Vec<Vec<u8>>,
    /// `SSLRequireSSL`.
    pub requires_tls: bool,
    /// What the endings of names say of files.
    pub mime: Mime,
    /// `AddDefaultCharset`.
    pub default_charset: Said,
    /// `ForceType`; an empty one: `None`.
    pub force_type: Option<Vec<u8>>,
    /// `SetHandler`; an empty one: `None`.
    pub handler: Option<Vec<u8>>,
    /// `CGIPassAuth`: whether applications get the field `Authorization`.
    pub passes_authorization: Option<bool>,
    /// `FileETag`.
    pub etag: EtagChange,
    /// `SetOutputFilter`: names in small letters with semicolons between; empty: none.
    pub output_filter: Option<Vec<u8>>,
    /// `AllowMethods`; an empty list: all of them (`reset`). GET stands for HEAD, too.
    pub allowed_methods: Option<Vec<Vec<u8>>>,
    /// `MaxRanges`; `usize::MAX`: as many as a client likes.
    pub ranges_max: Option<usize>,
    /// `AuthzSendForbiddenOnFailure`: a user who is logged in and not allowed gets 403, not another question for a password.
    pub sends_forbidden: Option<bool>,
    /// `LogMessage`: texts for the error log, each with the condition under which it is written.
    pub log_messages: Vec<Arc<LogMessage<P>>>,
    /// `LanguagePriority`.
    pub language_priority: Option<Vec<Vec<u8>>>,
    /// `ForceLanguagePriority` has `Fallback`.
    pub language_falls_back: Option<bool>,
    /// `CheckSpelling` and its relatives.
    pub spelling: Spelling,
    /// `LimitRequestBody`, in bytes; 0: no limit.
    pub request_body_bytes_max: Option<u64>,
    /// `AcceptPathInfo`.
    pub path_info: Option<PathInfo>,
    /// `php_value` and `php_flag`.
    pub php: Vec<PhpSetting>,
    /// `<Files>`, `<FilesMatch>`, `<If>` and their relatives, in their order.
    pub sections: Vec<Arc<ScopedSettings<P>>>,
}

impl<P> Default for Settings<P> {
    fn default() -> Settings<P> {
        Settings {
            options: options::Change::default(),
            rewriting: Rewriting::default(),
            requirements: None,
            merging: Merging::default(),
            compat: Compat::default(),
            auth: Auth::default(),
            headers: Vec::new(),
            expires: Expires::default(),
            redirects: Vec::new(),
            set_env_if: Vec::new(),
            env: Vec::new(),
            error_documents: BTreeMap::new(),
            directory_index: None,
            directory_slash: None,
            fallback_resource: None,
            index_ignore: Vec::new(),
            requires_tls: false,
            mime: Mime::default(),
            default_charset: Said::Nothing,
            force_type: None,
            handler: None,
            passes_authorization: None,
            etag: EtagChange::default(),
            output_filter: None,
            allowed_methods: None,
            ranges_max: None,
            sends_forbidden: None,
            log_messages: Vec::new(),
            language_priority: None,
            language_falls_back: None,
            spelling: Spelling::default(),
            request_body_bytes_max: None,
            path_info: None,
            php: Vec::new(),
            sections: Vec::new(),
        }
    }
}

/// mod_rewrite's lines of one directory.
#[derive(Debug)]
pub struct Rewriting<P> {
    /// `RewriteEngine`.
    pub is_on: Option<bool>,
    /// `RewriteBase`.
    pub base: Option<Vec<u8>>,
    /// `RewriteOptions`.
    pub options: Option<RewriteOptions>,
    /// `RewriteRule` with its conditions.
    pub rules: Rules<P>,
}

impl<P> Default for Rewriting<P> {
    fn default() -> Rewriting<P> {
        Rewriting { is_on: None, base: None, options: None, rules: Rules::default() }
    }
}

/// `RewriteOptions`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RewriteOptions {
    /// The rules of the directory above come behind these.
    pub inherits: bool,
    /// Or before them.
    pub inherits_before: bool,
    /// These rules come behind those of the directories below.
    pub inherits_down: bool,
    /// Or before them.
    pub inherits_down_before: bool,
    /// Those of the directory above do not come here, whatever it says.
    pub ignores_inherit: bool,
    /// Rules apply to the folder's path without its slash, too.
    pub allows_no_slash: bool,
    /// `RewriteBase` of the directory above holds here.
    pub merges_base: bool,
    /// Aliases do not tell the URI of a file.
    pub ignores_context: bool,
}

/// `AcceptPathInfo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathInfo {
    /// What is behind the file in the path is given to its handler.
    Accepted,
    /// The path leads nowhere.
    Refused,
    /// As the handler likes.
    Default,
}

/// How users log in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Auth {
    /// `AuthType`; `None` of them is the text `None`.
    pub kind: Option<Vec<u8>>,
    /// `AuthName`.
    pub realm: Option<Vec<u8>>,
    /// `AuthUserFile`.
    pub user_file: Option<Vec<u8>>,
    /// `AuthGroupFile`.
    pub group_file: Option<Vec<u8>>,
    /// `AuthBasicProvider`, `AuthDigestProvider`.
    pub providers: Option<Vec<Vec<u8>>>,
}

/// `ErrorDocument`.
#[derive(Clone, Debug)]
pub struct ErrorDocument {
    /// What is in the place of the server's own page.
    pub document: Document,
    /// Its line.
    pub origin: Origin,
}

/// What is in the place of an error's page.
#[derive(Clone, Debug)]
pub enum Document {
    /// The server's own page.
    Default,
    /// A text.
    Text(Arc<Text>),
    /// A path of this server, which is asked for by an internal redirect.
    Path(Arc<Text>),
    /// A URL, which the client is redirected to.
    Url(Arc<Text>),
}

/// A value that lines may give, or take back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Said {
    /// They do not mention it.
    #[default]
    Nothing,
    /// There is none, whatever was said above.
    Removed,
    /// It is this.
    Value(Vec<u8>),
}

/// What an ending of a name says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// `AddType`.
    pub content_type: Said,
    /// `AddEncoding`.
    pub encoding: Said,
    /// `AddCharset`.
    pub charset: Said,
    /// `AddLanguage`.
    pub language: Said,
    /// `AddHandler`.
    pub handler: Said,
    /// `AddOutputFilter`.
    pub output_filter: Said,
    /// `AddInputFilter`.
    pub input_filter: Said,
}

/// Endings, in small letters without the dot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mime {
    /// By their ending.
    pub endings: BTreeMap<Vec<u8>, Ending>,
}

/// `LogMessage`.
#[derive(Debug)]
pub struct LogMessage<P> {
    /// What is written.
    pub text: Text,
    /// `expr=`.
    pub condition: Option<Condition<P>>,
}

/// `FileETag`: what an entity tag is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Etag {
    /// The inode's number is in it.
    pub inode: bool,
    /// The time of the last change.
    pub mtime: bool,
    /// The size.
    pub size: bool,
    /// It is made of the content.
    pub digest: bool,
}

/// What the lines of one directory do to the tag of the directory above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtagChange {
    /// What takes the place of what was said above.
    pub whole: Option<Etag>,
    /// Parts with `+`.
    pub add: Etag,
    /// Parts with `-`.
    pub remove: Etag,
}

impl Etag {
    /// Apache's usual tag.
    pub const USUAL: Etag = Etag { inode: false, mtime: true, size: true, digest: false };

    fn parts_mut(&mut self) -> [&mut bool; 4] {
        [&mut self.inode, &mut self.mtime, &mut self.size, &mut self.digest]
    }

    fn changed(mut self, mut add: Etag, mut remove: Etag) -> Etag {
        let signs = add.parts_mut().into_iter().zip(remove.parts_mut());
        for (part, (add, remove)) in self.parts_mut().into_iter().zip(signs) {
            *part = (*part && !*remove) || *add;
        }
        self
    }
}

impl EtagChange {
    /// Adds or takes away parts, by the sign of their word.
    pub fn with(&mut self, parts: Etag, is_added: bool) {
        let (to, from) =
            if is_added { (&mut self.add, &mut self.remove) } else { (&mut self.remove, &mut self.add) };
        *to = to.changed(parts, Etag::default());
        *from = from.changed(Etag::default(), parts);
    }

    fn below(self, above: EtagChange) -> EtagChange {
        if self == EtagChange::default() {
            return above;
        }
        let whole = self.whole.or(above.of()).unwrap_or(Etag::USUAL);
        EtagChange { whole: Some(whole.changed(self.add, self.remove)), ..EtagChange::default() }
    }

    /// What the tag is made of; `None` where no line says.
    pub fn of(self) -> Option<Etag> {
        let is_silent = self == EtagChange::default();
        (!is_silent).then(|| self.whole.unwrap_or(Etag::USUAL).changed(self.add, self.remove))
    }
}

/// A setting for PHP that a site may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhpSetting {
    /// Its name.
    pub name: Vec<u8>,
    /// Its value; `php_flag` gives `1` or `0`. `none` of `php_value` takes it back: empty.
    pub value: Vec<u8>,
}

impl<P: Pattern> Settings<P> {
    /// These settings in a directory below another, whose effective settings are `above`. Sections are merged by the caller,
    /// for each request.
    #[must_use]
    pub fn below(&self, above: &Settings<P>, above_options: options::Options) -> Settings<P> {
        let mut error_documents = above.error_documents.clone();
        error_documents
            .extend(self.error_documents.iter().map(|(status, document)| (*status, document.clone())));
        Settings {
            options: options::Change::Set(self.options.of(above.options.of(above_options))),
            rewriting: self.rewriting.below(&above.rewriting),
            requirements: match &self.requirements {
                Some(own) => Some(own.below(above.requirements.as_ref(), self.merging)),
                None => above.requirements.clone(),
            },
            merging: Merging::Off,
            compat: if self.compat.is_empty() { above.compat.clone() } else { self.compat.clone() },
            auth: self.auth.below(&above.auth),
            headers: joined(&above.headers, &self.headers),
            expires: self.expires.below(&above.expires),
            // The lines of the deeper directory are looked at first.
            redirects: joined(&self.redirects, &above.redirects),
            set_env_if: joined(&above.set_env_if, &self.set_env_if),
            env: joined(&above.env, &self.env),
            error_documents,
            directory_index: self.directory_index.clone().or_else(|| above.directory_index.clone()),
            directory_slash: self.directory_slash.or(above.directory_slash),
            fallback_resource: self.fallback_resource.clone().or_else(|| above.fallback_resource.clone()),
            index_ignore: joined(&above.index_ignore, &self.index_ignore),
            requires_tls: self.requires_tls || above.requires_tls,
            mime: self.mime.below(&above.mime),
            default_charset: match &self.default_charset {
                Said::Nothing => above.default_charset.clone(),
                said => said.clone(),
            },
            force_type: self.force_type.clone().or_else(|| above.force_type.clone()),
            handler: self.handler.clone().or_else(|| above.handler.clone()),
            passes_authorization: self.passes_authorization.or(above.passes_authorization),
            etag: self.etag.below(above.etag),
            output_filter: self.output_filter.clone().or_else(|| above.output_filter.clone()),
            allowed_methods: self.allowed_methods.clone().or_else(|| above.allowed_methods.clone()),
            ranges_max: self.ranges_max.or(above.ranges_max),
            sends_forbidden: self.sends_forbidden.or(above.sends_forbidden),
            log_messages: joined(&above.log_messages, &self.log_messages),
            language_priority: self.language_priority.clone().or_else(|| above.language_priority.clone()),
            language_falls_back: self.language_falls_back.or(above.language_falls_back),
            spelling: self.spelling.below(above.spelling),
            request_body_bytes_max: self.request_body_bytes_max.or(above.request_body_bytes_max),
            path_info: self.path_info.or(above.path_info),
            php: joined(&above.php, &self.php),
            sections: joined(&above.sections, &self.sections),
        }
    }
}

fn joined<T: Clone>(first: &[T], second: &[T]) -> Vec<T> {
    first.iter().chain(second).cloned().collect()
}

impl<P> Rewriting<P> {
    /// Whether no line of mod_rewrite was written.
    pub fn is_silent(&self) -> bool {
        self.is_on.is_none() && self.options.is_none() && self.base.is_none() && self.rules.is_empty()
    }

    /// A directory with lines of mod_rewrite replaces the rules above unless one of both says otherwise.
    fn below(&self, above: &Rewriting<P>) -> Rewriting<P> {
        if self.is_silent() {
            return Rewriting {
                is_on: above.is_on,
                base: above.base.clone(),
                options: above.options,
                rules: above.rules.clone(),
            };
        }
        let options = self.options.or(above.options).unwrap_or_default();
        let given = above.options.unwrap_or_default();
        let is_open = !options.ignores_inherit;
        let rules = if options.inherits || (given.inherits_down && is_open) {
            self.rules.before(&above.rules)
        } else if options.inherits_before || (given.inherits_down_before && is_open) {
            above.rules.before(&self.rules)
        } else {
            self.rules.clone()
        };
        let inherited = above.base.clone().filter(|_| options.merges_base);
        Rewriting {
            is_on: self.is_on.or(above.is_on),
            base: self.base.clone().or(inherited),
            options: self.options.or(above.options),
            rules,
        }
    }
}

impl Auth {
    fn below(&self, above: &Auth) -> Auth {
        let or = |own: &Option<Vec<u8>>, above: &Option<Vec<u8>>| own.clone().or_else(|| above.clone());
        Auth {
            kind: or(&self.kind, &above.kind),
            realm: or(&self.realm, &above.realm),
            user_file: or(&self.user_file, &above.user_file),
            group_file: or(&self.group_file, &above.group_file),
            providers: self.providers.clone().or_else(|| above.providers.clone()),
        }
    }
}

impl Mime {
    /// Whether an ending names filters.
    pub fn has_output_filters(&self) -> bool {
        self.endings.values().any(|ending| matches!(ending.output_filter, Said::Value(_)))
    }

    fn below(&self, above: &Mime) -> Mime {
        let mut both = above.clone();
        for (name, own) in &self.endings {
            let ending = both.endings.entry(name.clone()).or_default();
            for (field, own) in ending.fields_mut().into_iter().zip(own.clone().fields_mut()) {
                if *own != Said::Nothing {
                    field.clone_from(own);
                }
            }
        }
        both
    }
}

impl Ending {
    fn fields_mut(&mut self) -> [&mut Said; 7] {
        [
            &mut self.content_type,
            &mut self.encoding,
            &mut self.charset,
            &mut self.language,
            &mut self.handler,
            &mut self.output_filter,
            &mut self.input_filter,
        ]
    }
}
