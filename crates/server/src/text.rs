//! Byte strings that are constant, shared or owned.

use std::ops::Deref;
use std::sync::Arc;

/// A byte string for header values and bodies. Cloning an owned one shares it.
#[derive(Clone, Debug)]
pub enum Text {
    Static(&'static [u8]),
    Shared(Arc<[u8]>),
    Owned(Vec<u8>),
}

impl Default for Text {
    fn default() -> Text {
        Text::Static(b"")
    }
}

impl Deref for Text {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Text::Static(text) => text,
            Text::Shared(text) => text,
            Text::Owned(text) => text,
        }
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Text {
        Text::Static(text.as_bytes())
    }
}

impl From<&'static [u8]> for Text {
    fn from(text: &'static [u8]) -> Text {
        Text::Static(text)
    }
}

impl From<Vec<u8>> for Text {
    fn from(text: Vec<u8>) -> Text {
        Text::Owned(text)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text::Owned(text.into_bytes())
    }
}

impl From<Arc<[u8]>> for Text {
    fn from(text: Arc<[u8]>) -> Text {
        Text::Shared(text)
    }
}

impl PartialEq<[u8]> for Text {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}
