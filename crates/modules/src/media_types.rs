//! Lists of media types, as `charset_types` and its kin take them.

use brisk_conf::{Diag, Directive};
use brisk_server::conf::Cx;
use std::collections::HashSet;

/// The type that every list holds, written or not.
const ALWAYS: &[u8] = b"text/html";

/// A set of media types in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediaTypes {
    All,
    Some(HashSet<Box<[u8]>>),
}

impl Default for MediaTypes {
    fn default() -> MediaTypes {
        MediaTypes::of("")
    }
}

impl MediaTypes {
    /// From a list as a directive would have it.
    pub fn of(list: &str) -> MediaTypes {
        let types = list.split_ascii_whitespace().map(|text| text.to_ascii_lowercase().into_bytes().into());
        MediaTypes::Some(types.chain([ALWAYS.into()]).collect())
    }

    /// Adds a directive's types, or begins anew if it is the first of its block.
    pub fn extend(&mut self, cx: &mut Cx<'_, '_>, d: &Directive) {
        if cx.first {
            *self = MediaTypes::default();
        }
        for token in &d.args {
            let MediaTypes::Some(types) = self else { return };
            if token.bytes() == b"*" {
                *self = MediaTypes::All;
            } else if !types.insert(token.bytes().to_ascii_lowercase().into()) {
                let text = String::from_utf8_lossy(&token.bytes().to_ascii_lowercase()).into_owned();
                cx.warn(
                    Diag::warn(token.span, format!("duplicate MIME type \"{text}\""))
                        .help("it is in the list already (text/html always is)"),
                );
            }
        }
    }

    /// Whether a content type is in the list. Types with parameters are others, as in nginx.
    pub fn has(&self, content_type: &[u8]) -> bool {
        match self {
            MediaTypes::All => true,
            MediaTypes::Some(types) if content_type.iter().any(u8::is_ascii_uppercase) => {
                types.contains(&*content_type.to_ascii_lowercase())
            }
            MediaTypes::Some(types) => types.contains(content_type),
        }
    }
}

/// The row of a directive that sets the media types in the field `types` of a configuration.
macro_rules! types_row {
    ($conf:ty, $name:literal, $default:expr, $which:literal) => {
        brisk_server::directive::directive($name)
            .doc(concat!("Media types ", $which, ", besides text/html; * is any."))
            .in_(brisk_conf::Context::HSL)
            .arity(brisk_conf::Arity::SOME)
            .takes("TYPE ...")
            .default_told($default)
            .many()
            .example(concat!($name, " application/x-test;"))
            .set(|cx, d| {
                let mut types = MediaTypes::clone(&cx.conf::<$conf>().types);
                types.extend(cx, d);
                cx.conf::<$conf>().types = std::sync::Arc::new(types);
                Ok(())
            })
    };
}
pub(crate) use types_row;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_compared_without_regard_to_case() {
        let types = MediaTypes::of("text/plain Image/SVG+xml");
        let check = |text: &str, want| assert_eq!(types.has(text.as_bytes()), want, "{text}");
        check("text/html", true);
        check("TEXT/plain", true);
        check("image/svg+xml", true);
        check("text/css", false);
        check("text/html; charset=utf-8", false);
        check("", false);
        assert!(MediaTypes::All.has(b"x/y"));
    }
}
