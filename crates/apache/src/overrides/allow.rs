//! `AllowOverride` and `AllowOverrideList`: what `.htaccess` files of a `<Directory>` may say.

use crate::directives::{Places, Standing};
use crate::options::{Change, Options};
use crate::syntax::Node;

/// What files may say. What no line mentions is as in the folder above, each member by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allow {
    /// `AllowOverride`.
    pub classes: Option<Places>,
    /// The options that its class `Options` is about; other classes do not change them.
    pub options: Option<Options>,
    /// `AllowOverrideList`.
    pub list: Option<Vec<String>>,
}

/// Whether files are looked for: without any class and name they are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// For a class of directives.
    pub by_class: bool,
    /// For the name of one.
    pub by_name: bool,
}

impl Reads {
    /// Whether they are.
    pub fn is_any(self) -> bool {
        self.by_class || self.by_name
    }

    /// With what is said in a folder below.
    #[must_use]
    pub fn with(self, own: &Allow) -> Reads {
        Reads {
            by_class: own.classes.map_or(self.by_class, |classes| classes != Places::NONE),
            by_name: own.list.as_ref().map_or(self.by_name, |list| !list.is_empty()),
        }
    }
}

/// The options that files may set where no line names some.
const OPTIONS: Options = Options::ALL.or(Options::MULTI_VIEWS).or(Options::SYM_LINKS_IF_OWNER_MATCH);

impl Allow {
    /// In a folder below another, which is what `above` says.
    #[must_use]
    pub fn below(&self, above: &Allow) -> Allow {
        let list = self.list.as_ref().or(above.list.as_ref());
        Allow {
            classes: self.classes.or(above.classes),
            options: self.options.or(above.options),
            list: list.cloned(),
        }
    }

    /// What the lines of a file are judged by, with the options that it may set. Where nothing is said, nothing is allowed.
    pub fn standing(&self) -> (Standing<'_>, Options) {
        let classes = self.classes.unwrap_or(Places::NONE);
        let list = self.list.as_deref().unwrap_or_default();
        (Standing::Override { classes, list }, self.options.unwrap_or(OPTIONS))
    }

    /// Takes a line; `None` if it is another directive.
    pub fn line(&mut self, node: &Node) -> Option<Result<(), String>> {
        if node.is("AllowOverrideList") {
            let mut list: Vec<_> =
                node.words().map(|word| String::from_utf8_lossy(&word).into_owned()).collect();
            list.retain(|name| !name.eq_ignore_ascii_case("none"));
            self.list = Some(list);
            return Some(Ok(()));
        }
        node.is("AllowOverride").then(|| self.classes(node))
    }

    fn classes(&mut self, node: &Node) -> Result<(), String> {
        let mut classes = Places::NONE;
        for word in node.words() {
            let word = String::from_utf8_lossy(&word).into_owned();
            let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(n, v)| (n, Some(v)));
            match value {
                Some(value) if name.eq_ignore_ascii_case("Options") => {
                    classes = classes.or(Places::OPTIONS);
                    let names = value.split(',').map(|name| name.as_bytes().to_vec());
                    self.options = Some(Change::default().line(names, OPTIONS)?.of(Options::NONE));
                }
                Some(_) => {
                    return Err(format!(
                        "Brisk does not support '{word}': a mistake in .htaccess always counts"
                    ));
                }
                None => {
                    if name.eq_ignore_ascii_case("Options") {
                        self.options = Some(OPTIONS);
                    }
                    classes = classes
                        .or(Places::class(name).ok_or_else(|| format!("Illegal override option {word}"))?);
                }
            }
        }
        self.classes = Some(classes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax;

    fn said(text: &str) -> Result<Allow, String> {
        let nodes = syntax::read(text.as_bytes(), 8192).unwrap();
        let mut allow = Allow::default();
        nodes.iter().try_for_each(|node| allow.line(node).unwrap()).map(|()| allow)
    }

    #[test]
    fn classes_lists_and_options() {
        let reads = |text: &str| Reads::default().with(&said(text).unwrap()).is_any();
        assert!(!reads("AllowOverride None"));
        assert_eq!(said("AllowOverride All").unwrap().classes, Some(Places::ALL));
        let some = said("AllowOverride Limit Options=Indexes,FollowSymLinks").unwrap();
        let options = Options::INDEXES.or(Options::FOLLOW_SYM_LINKS);
        assert_eq!((some.classes, some.options), (Some(Places::LIMIT.or(Places::OPTIONS)), Some(options)));
        let list = said("AllowOverride None\nAllowOverrideList Redirect RewriteRule").unwrap();
        assert_eq!(list.list.unwrap(), ["Redirect", "RewriteRule"]);
        assert!(reads("AllowOverride None\nAllowOverrideList Redirect RewriteRule"));
        assert!(!reads("AllowOverrideList None"));
        assert!(said("AllowOverride Nonfatal=All").unwrap_err().contains("Nonfatal=All"));
        assert!(said("AllowOverride Some").unwrap_err().contains("Illegal override option"));
    }

    #[test]
    fn each_directive_is_handed_down_by_itself() {
        for (above, own, reads, wanted) in [
            (
                "AllowOverride AuthConfig",
                "AllowOverrideList None",
                true,
                "AllowOverride AuthConfig\nAllowOverrideList None",
            ),
            (
                "AllowOverrideList Header",
                "AllowOverride None",
                true,
                "AllowOverrideList Header\nAllowOverride None",
            ),
            (
                "AllowOverride Options=Indexes",
                "AllowOverrideList Header",
                true,
                "AllowOverride Options=Indexes\nAllowOverrideList Header",
            ),
            ("AllowOverride Options=Indexes", "AllowOverride Options", true, "AllowOverride Options"),
            (
                "AllowOverride Options=Indexes",
                "AllowOverride AuthConfig Options",
                true,
                "AllowOverride AuthConfig Options",
            ),
            (
                "AllowOverride All\nAllowOverrideList Header",
                "",
                true,
                "AllowOverride All\nAllowOverrideList Header",
            ),
            (
                "AllowOverride All\nAllowOverrideList Header",
                "AllowOverrideList None\nAllowOverride None",
                false,
                "AllowOverrideList None\nAllowOverride None",
            ),
        ] {
            let (above, own) = (said(above).unwrap(), said(own).unwrap());
            assert_eq!(own.below(&above), said(wanted).unwrap(), "{wanted}");
            assert_eq!(Reads::default().with(&above).with(&own).is_any(), reads, "{wanted}");
        }
    }

    #[test]
    fn other_classes_do_not_change_the_options() {
        let above = said("AllowOverride Options=Indexes").unwrap();
        let below = said("AllowOverride All").unwrap().below(&above);
        assert_eq!((below.classes, below.options), (Some(Places::ALL), Some(Options::INDEXES)));
        assert_eq!(said("AllowOverride Options=Indexes\nAllowOverride All").unwrap(), below);
    }
}
