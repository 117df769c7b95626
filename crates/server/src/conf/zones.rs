//! Zones while the configuration is built.

use crate::conf::cx::Global;
use crate::zone::Zone;
use brisk_conf::{Diag, Token};
use std::any::Any;
use std::sync::Arc;

/// A zone is shared memory that all threads count in and that a reload keeps, so its name is known in the
/// whole configuration.
impl Global<'_> {
    /// Declares a zone.
    pub fn add_zone(
        &mut self,
        module: &'static str,
        (name, bytes): (String, u64),
        token: &Token,
        meaning: &Token,
        make: fn(u64) -> Arc<dyn Any + Send + Sync>,
    ) -> Result<Arc<Zone>, Diag> {
        self.only_at_start(token, "shared memory")?;
        // nginx's words for both mistakes. Two meanings of one name would count users in each other's places.
        if let Some(have) = self.zones.iter().find(|zone| *zone.name == name) {
            let text = if have.module == module {
                let key = String::from_utf8_lossy(&have.meaning);
                format!("{module}_zone \"{name}\" is already bound to key \"{key}\"")
            } else {
                format!("the shared memory zone \"{name}\" is already declared for a different use")
            };
            return Err(Diag::emerg(token.span, text).help("give one of them another name"));
        }
        // Its memory is made now, so that a zone that is too large is refused by `-t` and not at the first
        // request.
        let zone = Arc::new(Zone::new(module, (name, bytes), meaning.bytes(), make));
        self.zones.push(zone.clone());
        Ok(zone)
    }
}
