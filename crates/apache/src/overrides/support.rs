//! What becomes of each directive of Apache's in a `.htaccess` file, found out by the compiler itself.

use super::compile::{Compiler, NOT_SUPPORTED, SECTION_NOT_SUPPORTED, without_effect};
use crate::directives::{self, Args, Places, Row, Standing};
use crate::options::Options;
use crate::syntax::Node;
use crate::{Origin, Patterns};

/// What becomes of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It is carried out.
    Works,
    /// It is accepted, and changes nothing.
    NoEffect,
    /// It is refused by name.
    Refused,
    /// It cannot stand in `.htaccess`.
    NotThere,
}

/// What becomes of a directive or section in `.htaccess`.
pub fn support<S: Patterns>(row: &Row, patterns: &S) -> Support {
    let (name, is_section) = match row.name.strip_prefix('<') {
        Some(name) => (name, true),
        None => (row.name, false),
    };
    if row.places == Places::ON_READ.or(Places::ALL) {
        // What decides which lines count is carried out before the compiler sees it.
        let is_known = ["IfModule", "IfDefine", "IfVersion", "IfDirective", "IfSection"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known));
        return if is_known { Support::Works } else { Support::Refused };
    }
    if !row.places.meets(Places::ALL) {
        return Support::NotThere;
    }
    let node = sample(row, name, is_section);
    compiled(&node, Standing::Override { classes: Places::ALL, list: &[] }, patterns)
}

/// What the compiler makes of a line that stands there.
pub(crate) fn compiled<S: Patterns>(node: &Node, standing: Standing<'_>, patterns: &S) -> Support {
    let compiler = Compiler { patterns, standing, options: Options::ALL, origins: &Origin::unknown };
    let is_refused = match compiler.compile(std::slice::from_ref(node)) {
        Ok(_) => false,
        Err(mistake) => {
            [NOT_SUPPORTED, SECTION_NOT_SUPPORTED].iter().any(|text| mistake.text.ends_with(text))
        }
    };
    match without_effect(&node.name.to_ascii_lowercase(), node) {
        _ if is_refused => Support::Refused,
        Some(_) if node.children.is_none() => Support::NoEffect,
        _ => Support::Works,
    }
}

/// A line of a directive with as many arguments as it needs.
pub(crate) fn sample(row: &Row, name: &str, is_section: bool) -> Node {
    let args: &[u8] = match row.args {
        Args::None => b"",
        Args::Flag => b"On",
        Args::Count(3, _) => b"x x x",
        Args::EachOfTwo | Args::Count(2, _) => b"x x",
        Args::Each | Args::Any | Args::Raw | Args::Count(..) => b"x",
    };
    Node { name: name.to_string(), args: args.to_vec(), line: 1, children: is_section.then(Vec::new) }
}

/// What becomes of all of them, by their names.
pub fn all<S: Patterns>(patterns: &S) -> Vec<(Row, Support)> {
    let mut rows: Vec<_> = directives::all().map(|row| (row, support(&row, patterns))).collect();
    rows.sort_by_key(|(row, _)| (row.name.trim_start_matches('<').to_ascii_lowercase(), row.module));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rust;

    #[test]
    fn what_becomes_of_directives() {
        let rows = all(&Rust);
        let of = |name: &str| {
            let row = rows.iter().find(|(row, _)| row.name.eq_ignore_ascii_case(name));
            row.map(|(_, support)| *support)
        };
        for (name, wanted) in [
            ("RewriteRule", Support::Works),
            ("Require", Support::Works),
            ("<Files", Support::Works),
            ("<IfModule", Support::Works),
            ("<IfFile", Support::Refused),
            ("Options", Support::Works),
            ("ErrorDocument", Support::Works),
            ("AddType", Support::Works),
            ("ServerSignature", Support::NoEffect),
            ("<LuaHookFixups", Support::Refused),
            ("<RequireNotAll", Support::Refused),
            ("Action", Support::Refused),
            ("CheckSpelling", Support::Works),
            ("RewriteMap", Support::NotThere),
            ("DocumentRoot", Support::NotThere),
        ] {
            assert_eq!(of(name), Some(wanted), "{name}");
        }
    }
}
