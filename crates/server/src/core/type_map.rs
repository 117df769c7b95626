//! Media types by file extension.

use hashbrown::HashMap;
use std::sync::Arc;

/// Media types by extension (lower case).
#[derive(Clone, Debug)]
pub struct TypeMap {
    pub(super) map: HashMap<Box<[u8]>, Arc<[u8]>>,
}

impl Default for TypeMap {
    /// nginx's built-in table, used where no `types` block is given.
    /// The three that nginx knows without a file. A site with more includes `mime.types`.
    fn default() -> TypeMap {
        let mut map = HashMap::new();
        for (extension, media) in [("html", "text/html"), ("gif", "image/gif"), ("jpg", "image/jpeg")] {
            map.insert(extension.as_bytes().into(), Arc::from(media.as_bytes()));
        }
        TypeMap { map }
    }
}

impl TypeMap {
    /// Without any type.
    pub fn empty() -> TypeMap {
        TypeMap { map: HashMap::new() }
    }

    /// The media type of an extension, in any case.
    pub fn get(&self, extension: &[u8]) -> Option<&Arc<[u8]>> {
        // Looked up for every file: lower case is made on the stack. No extension of nginx's `mime.types` comes near that length.
        if extension.is_empty() || extension.len() > 32 {
            return None;
        }
        let mut lower = [0u8; 32];
        let lower = &mut lower[..extension.len()];
        lower.copy_from_slice(extension);
        lower.make_ascii_lowercase();
        self.map.get(&*lower)
    }
}
