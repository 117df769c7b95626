//! `AllowOverride` and `AllowOverrideList`: what `.htaccess` files of a `<Directory>` may say.

use crate::directives::Places;
use crate::options::{Change, Options};
use crate::syntax::Node;

/// What files may say; without any class and name they are not looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allow {
    /// `AllowOverride`.
    pub classes: Places,
    /// `AllowOverrideList`.
    pub list: Vec<String>,
    /// The options of `AllowOverride Options=…`.
    pub options: Options,
}

impl Allow {
    /// Nothing, as where no line says otherwise.
    pub fn none() -> Allow {
        let options = Options::ALL.or(Options::MULTI_VIEWS).or(Options::SYM_LINKS_IF_OWNER_MATCH);
        Allow { classes: Places::NONE, list: Vec::new(), options }
    }

    /// Whether files are looked for.
    pub fn reads_files(&self) -> bool {
        self.classes != Places::NONE || !self.list.is_empty()
    }

    /// Takes a line; `None` if it is another directive.
    pub fn line(&mut self, node: &Node) -> Option<Result<(), String>> {
        if node.is("AllowOverrideList") {
            self.list = node.words().map(|word| String::from_utf8_lossy(&word).into_owned()).collect();
            self.list.retain(|name| !name.eq_ignore_ascii_case("none"));
            return Some(Ok(()));
        }
        node.is("AllowOverride").then(|| self.classes(node))
    }

    fn classes(&mut self, node: &Node) -> Result<(), String> {
        let mut classes = Places::NONE;
        self.options = Allow::none().options;
        for word in node.words() {
            let word = String::from_utf8_lossy(&word).into_owned();
            let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(n, v)| (n, Some(v)));
            match value {
                Some(value) if name.eq_ignore_ascii_case("Options") => {
                    classes = classes.or(Places::OPTIONS);
                    let names = value.split(',').map(|name| name.as_bytes().to_vec());
                    self.options = Change::default().line(names, Allow::none().options)?.of(Options::NONE);
                }
                Some(_) => {
                    return Err(format!(
                        "Brisk does not support '{word}': a mistake in .htaccess always counts"
                    ));
                }
                None => {
                    classes = classes
                        .or(Places::class(name).ok_or_else(|| format!("Illegal override option {word}"))?);
                }
            }
        }
        self.classes = classes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax;

    #[test]
    fn classes_lists_and_options() {
        let check = |text: &str| {
            let nodes = syntax::read(text.as_bytes(), 8192).unwrap();
            let mut allow = Allow::none();
            nodes.iter().try_for_each(|node| allow.line(node).unwrap()).map(|()| allow)
        };
        assert!(!check("AllowOverride None").unwrap().reads_files());
        assert_eq!(check("AllowOverride All").unwrap().classes, Places::ALL);
        let some = check("AllowOverride Limit Options=Indexes,FollowSymLinks").unwrap();
        assert_eq!(some.classes, Places::LIMIT.or(Places::OPTIONS));
        assert_eq!(some.options, Options::INDEXES.or(Options::FOLLOW_SYM_LINKS));
        let list = check("AllowOverride None\nAllowOverrideList Redirect RewriteRule").unwrap();
        assert!(list.reads_files() && list.list == ["Redirect", "RewriteRule"]);
        assert!(!check("AllowOverrideList None").unwrap().reads_files());
        assert!(check("AllowOverride Nonfatal=All").unwrap_err().contains("Nonfatal=All"));
        assert!(check("AllowOverride Some").unwrap_err().contains("Illegal override option"));
    }
}
