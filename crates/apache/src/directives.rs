//! Every directive of Apache 2.4: its module, where it may stand, how many arguments it takes. Which of them Brisk carries out is
//! said elsewhere.

mod table;

use crate::syntax::Node;
use std::collections::HashMap;
use std::sync::OnceLock;

/// One of Apache's directives, or of its sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name; that of a section begins with `<`.
    pub name: &'static str,
    /// The module without `mod_`; `core`, `mpm`.
    pub module: &'static str,
    /// Where it may stand.
    pub places: Places,
    /// What it takes.
    pub args: Args,
}

/// Places where directives may stand: a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Places(u16);

impl Places {
    /// Outside of sections that are about requests: the server, a virtual host.
    pub const SERVER: Places = Places(1);
    /// `<Directory>`, `<Location>`, `<Files>` and the like of the server's configuration.
    pub const DIRECTORY: Places = Places(1 << 1);
    /// `<Proxy>`.
    pub const PROXY: Places = Places(1 << 2);
    /// `.htaccess`, where `AllowOverride AuthConfig` is given; so for the next ones.
    pub const AUTH_CONFIG: Places = Places(1 << 3);
    /// `AllowOverride FileInfo`.
    pub const FILE_INFO: Places = Places(1 << 4);
    /// `AllowOverride Indexes`.
    pub const INDEXES: Places = Places(1 << 5);
    /// `AllowOverride Limit`.
    pub const LIMIT: Places = Places(1 << 6);
    /// `AllowOverride Options`.
    pub const OPTIONS: Places = Places(1 << 7);
    /// It is carried out when it is read: what follows depends on it. No place of its own.
    pub const ON_READ: Places = Places(1 << 8);
    /// All that `AllowOverride All` gives.
    pub const ALL: Places = Places(0b1111_1000);
    /// None: `AllowOverride None`.
    pub const NONE: Places = Places(0);

    /// Both sets together.
    #[must_use]
    pub const fn or(self, other: Places) -> Places {
        Places(self.0 | other.0)
    }

    /// Whether they have one in common.
    pub const fn meets(self, other: Places) -> bool {
        self.0 & other.0 != 0
    }

    /// A class of `AllowOverride`.
    pub fn class(name: &str) -> Option<Places> {
        const CLASSES: &[(&str, Places)] = &[
            ("AuthConfig", Places::AUTH_CONFIG),
            ("FileInfo", Places::FILE_INFO),
            ("Indexes", Places::INDEXES),
            ("Limit", Places::LIMIT),
            ("Options", Places::OPTIONS),
            ("All", Places::ALL),
            ("None", Places::NONE),
        ];
        CLASSES.iter().find(|(class, _)| class.eq_ignore_ascii_case(name)).map(|(_, places)| *places)
    }
}

/// How many arguments a directive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Args {
    /// None.
    None,
    /// `On` or `Off`.
    Flag,
    /// At least and at most so many.
    Count(u8, u8),
    /// One after the other is taken, at least one.
    Each,
    /// A first one, then one after the other, at least one.
    EachOfTwo,
    /// As many as it likes.
    Any,
    /// The rest of the line, which it reads itself.
    Raw,
}

/// Where a file stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing<'a> {
    /// In the server's own configuration, outside of sections about requests.
    Server,
    /// In such a section.
    Section,
    /// In a `.htaccess` file.
    Override {
        /// `AllowOverride`.
        classes: Places,
        /// `AllowOverrideList`: names that are allowed whatever their class.
        list: &'a [String],
    },
}

impl Standing<'_> {
    /// Whether a directive that has these places may stand there.
    pub fn admits(self, node: &Node, places: Places) -> bool {
        match self {
            Standing::Server => places.meets(Places::SERVER.or(Places::ALL)),
            Standing::Section => places.meets(Places::DIRECTORY.or(Places::PROXY).or(Places::ALL)),
            Standing::Override { classes, list } => {
                // What only says which lines count is no class's.
                places == Places::ON_READ.or(Places::ALL)
                    || places.meets(classes)
                    || list.iter().any(|name| node.is(name))
            }
        }
    }
}

/// Why a directive is not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Apache has no such directive, or not in this version.
    Unknown,
    /// It must not stand there.
    NotHere,
    /// It has too few or too many arguments.
    Arguments(String),
}

impl Refusal {
    /// In Apache's words.
    pub fn text(&self, name: &str) -> String {
        match self {
            Refusal::Unknown => format!(
                "Invalid command '{name}', perhaps misspelled or defined by a module not included in the server configuration"
            ),
            Refusal::NotHere => format!("{name} not allowed here"),
            Refusal::Arguments(text) => format!("{name} {text}"),
        }
    }
}

/// All directives.
pub fn all() -> impl Iterator<Item = Row> {
    table::GROUPS.iter().flat_map(|group| {
        group.names.iter().map(|name| Row {
            name,
            module: group.module,
            places: group.places,
            args: group.args,
        })
    })
}

/// The directive or section with a name, whatever its case. Where several modules have one, the first by the module's name.
pub fn find(node: &Node) -> Option<Row> {
    static ROWS: OnceLock<HashMap<String, Row>> = OnceLock::new();
    let rows = ROWS.get_or_init(|| {
        let mut rows = HashMap::new();
        all().for_each(|row| _ = rows.entry(row.name.to_ascii_lowercase()).or_insert(row));
        rows
    });
    let name = node.name.to_ascii_lowercase();
    rows.get(&if node.children.is_some() { format!("<{name}") } else { name }).copied()
}

/// Looks whether a directive may stand where it does, with the arguments that it has.
///
/// # Errors
/// Why it must not be carried out.
pub fn check(node: &Node, standing: Standing<'_>) -> Result<Row, Refusal> {
    let row = find(node).ok_or(Refusal::Unknown)?;
    if !standing.admits(node, row.places) {
        return Err(Refusal::NotHere);
    }
    arguments(row.args, node).map_err(|text| Refusal::Arguments(text.into()))?;
    Ok(row)
}

fn arguments(args: Args, node: &Node) -> Result<(), &'static str> {
    if args == Args::Raw {
        return Ok(());
    }
    let words: Vec<_> = node.words().take(5).collect();
    let is_right = match args {
        Args::None => words.is_empty(),
        Args::Flag => {
            let is_flag =
                |word: &Vec<u8>| word.eq_ignore_ascii_case(b"on") || word.eq_ignore_ascii_case(b"off");
            return if words.len() == 1 && is_flag(&words[0]) { Ok(()) } else { Err("must be On or Off") };
        }
        Args::Count(least, most) => (usize::from(least)..=usize::from(most)).contains(&words.len()),
        Args::Each => !words.is_empty(),
        Args::EachOfTwo => words.len() >= 2,
        Args::Any | Args::Raw => true,
    };
    let text = match args {
        _ if is_right => return Ok(()),
        Args::None => "takes no arguments",
        Args::Count(1, 1) => "takes one argument",
        Args::Count(2, 2) => "takes two arguments",
        Args::Count(3, 3) => "takes three arguments",
        Args::Count(1, 2) => "takes 1-2 arguments",
        Args::Count(1, 3) => "takes one, two or three arguments",
        Args::Count(2, 3) => "takes two or three arguments",
        Args::EachOfTwo => "requires at least two arguments",
        _ => "requires at least one argument",
    };
    Err(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax;

    fn checked(text: &str, standing: Standing<'_>) -> Result<&'static str, String> {
        let nodes = syntax::read(text.as_bytes(), 8192).unwrap();
        check(&nodes[0], standing).map(|row| row.module).map_err(|refusal| refusal.text(&nodes[0].name))
    }

    #[test]
    fn where_directives_may_stand() {
        let file_info = Standing::Override { classes: Places::FILE_INFO, list: &["Options".into()] };
        let all = Standing::Override { classes: Places::ALL, list: &[] };
        let none = Standing::Override { classes: Places::NONE, list: &[] };
        for (text, standing, wanted) in [
            ("rewriterule a b", file_info, Ok("rewrite")),
            ("RewriteRule a b", none, Err("RewriteRule not allowed here")),
            ("RewriteMap a b", all, Err("RewriteMap not allowed here")),
            ("Options +Indexes", file_info, Ok("core")),
            ("Require all denied", file_info, Err("Require not allowed here")),
            ("Require all denied", all, Ok("authz_core")),
            ("<IfModule a>\n</IfModule>", none, Ok("core")),
            ("<Directory />\n</Directory>", all, Err("Directory not allowed here")),
            ("DocumentRoot /x", Standing::Section, Err("DocumentRoot not allowed here")),
            ("DocumentRoot /x", Standing::Server, Ok("core")),
            ("AllowOverride All", Standing::Section, Ok("core")),
            ("ProxyPass /a http://b", Standing::Section, Ok("proxy")),
            ("RewriteEngine maybe", all, Err("RewriteEngine must be On or Off")),
            ("RewriteBase", all, Err("RewriteBase takes one argument")),
            ("AddType a", all, Err("AddType requires at least two arguments")),
            ("ErrorDocument 404 \"a b\"", all, Ok("core")),
            (
                "Nonsense",
                all,
                Err(
                    "Invalid command 'Nonsense', perhaps misspelled or defined by a module not included in the server configuration",
                ),
            ),
        ] {
            assert_eq!(
                checked(text, standing).as_deref(),
                wanted.map_err(str::to_string).as_ref().map(|m| *m),
                "{text}"
            );
        }
    }

    #[test]
    fn the_table_is_whole() {
        assert!(self::all().count() > 700);
        for name in ["php_value", "CacheLookup"] {
            assert_eq!(
                find(&Node { name: name.into(), args: Vec::new(), line: 1, children: None }),
                None,
                "{name} is no module's of Apache"
            );
        }
        for row in self::all() {
            assert!(row.places.meets(Places::SERVER.or(Places::DIRECTORY).or(Places::ALL)), "{}", row.name);
        }
    }
}
