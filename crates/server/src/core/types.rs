//! `types`: file extensions and their media types.

use super::http_conf::CoreConf;
use super::type_map::TypeMap;
use crate::conf::cx::Cx;
use brisk_conf::{Diag, Directive};
use std::sync::Arc;

impl TypeMap {
    fn read(&mut self, cx: &mut Cx<'_, '_>, block: &[Directive]) {
        // A media type stands where a directive's name would, so the block is read as data.
        for line in block {
            let media: Arc<[u8]> = line.name.bytes().into();
            if line.block.is_some() {
                // Lines in here are data with media types for names, so no row has checked their form.
                cx.global.diags.push(Diag::emerg(line.span, "unexpected \"{\""));
            }
            for extension in &line.args {
                // Extensions are compared without regard to case: `.JPG` comes from cameras.
                let key = extension.bytes().to_ascii_lowercase();
                if let Some(old) = self.map.insert(key.into(), media.clone())
                    // The same pair twice is no contradiction; many files list a few of them so.
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
    // A block may be inherited and shared: it is copied before it is added to.
    // The first block of a level replaces what was inherited, as all lists do.
    let mut types = if cx.first { TypeMap::empty() } else { (*cx.conf::<CoreConf>().types).clone() };
    types.read(cx, directive.block.as_deref().unwrap_or_default());
    cx.conf::<CoreConf>().types = Arc::new(types);
    Ok(())
}
