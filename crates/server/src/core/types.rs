//! `types`: file extensions and their media types.

use crate::conf::Cx;
use brisk_conf::{Diag, Directive};
use hashbrown::HashMap;
use std::sync::Arc;

/// Media types by extension (lower case).
#[derive(Clone, Debug)]
pub struct TypeMap {
    map: HashMap<Box<[u8]>, Arc<[u8]>>,
}

impl Default for TypeMap {
    /// nginx's built-in table, used where no `types` block is given.
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
        if extension.is_empty() || extension.len() > 32 {
            return None;
        }
        let mut lower = [0u8; 32];
        let lower = &mut lower[..extension.len()];
        lower.copy_from_slice(extension);
        lower.make_ascii_lowercase();
        self.map.get(&*lower)
    }

    fn read(&mut self, cx: &mut Cx<'_, '_>, block: &[Directive]) {
        for line in block {
            let media: Arc<[u8]> = line.name.bytes().into();
            if line.block.is_some() {
                cx.global.diags.push(Diag::emerg(line.span, "unexpected \"{\""));
            }
            for extension in &line.args {
                let key = extension.bytes().to_ascii_lowercase();
                if let Some(old) = self.map.insert(key.into(), media.clone())
                    && old != media
                {
                    cx.global.diags.push(Diag::warn(
                        extension.span,
                        format!(
                            "duplicate extension \"{}\", content type: \"{}\", previous content type: \"{}\"",
                            extension.text(),
                            line.name.text(),
                            String::from_utf8_lossy(&old)
                        ),
                    ));
                }
            }
        }
    }
}

/// The setter of `types`.
pub fn set(cx: &mut Cx<'_, '_>, directive: &Directive) -> Result<(), Diag> {
    let mut types = if cx.first { TypeMap::empty() } else { (*cx.conf::<super::CoreConf>().types).clone() };
    types.read(cx, directive.block.as_deref().unwrap_or_default());
    cx.conf::<super::CoreConf>().types = Arc::new(types);
    Ok(())
}
