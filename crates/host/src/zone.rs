//! Zones: named memory that all threads share and that outlives a configuration — the counters of limits.
//!
//! A directive declares a zone in its configuration; the first who needs its state makes it. When a worker switches to
//! another configuration, a zone that is declared there as before takes the old one's state over: a reload forgives
//! nobody. What is in the state, and how it is locked, is its module's business.

use crate::limits::ZONE_BYTES_MIN;
use brisk_conf::{Diag, Token, value};
use std::any::Any;
use std::sync::{Arc, OnceLock};

/// What a zone holds.
pub type State = Arc<dyn Any + Send + Sync>;

/// A zone of one configuration.
pub struct Zone {
    /// The module it belongs to.
    pub module: &'static str,
    /// Its name in the configuration.
    pub name: Box<str>,
    /// The most memory that its state may take.
    pub bytes: u64,
    /// What the entries mean (the key as written): a zone whose meaning has changed starts anew.
    pub meaning: Box<[u8]>,
    make: fn(u64) -> State,
    state: OnceLock<State>,
}

impl Zone {
    /// The state, made on first use.
    ///
    /// # Panics
    /// If it is of another type: a module asks for another module's zone.
    pub fn state<T: Any + Send + Sync>(&self) -> &T {
        let state: &(dyn Any + Send + Sync) = &**self.state.get_or_init(|| (self.make)(self.bytes));
        state.downcast_ref().expect("a module asks for its own zones")
    }

    fn is_like(&self, other: &Zone) -> bool {
        (self.module, &self.name, self.bytes, &self.meaning)
            == (other.module, &other.name, other.bytes, &other.meaning)
    }
}

impl Zone {
    /// A zone whose state is made by `make`, of at most so many bytes, when it is first needed.
    pub fn new(
        module: &'static str,
        (name, bytes): (String, u64),
        meaning: &[u8],
        make: fn(u64) -> State,
    ) -> Zone {
        Zone { module, name: name.into(), bytes, meaning: meaning.into(), make, state: OnceLock::new() }
    }
}

/// Takes the state of zones over from the configuration that was before.
pub fn inherit(zones: &[Arc<Zone>], old: &[Arc<Zone>]) {
    for zone in zones {
        if let Some(before) = old.iter().find(|before| before.is_like(zone)) {
            // Requests of the old configuration may still be the first to use it.
            let state = before.state.get_or_init(|| (before.make)(before.bytes));
            let _ = zone.state.set(state.clone());
        }
    }
}

/// Reads `zone=NAME:SIZE`.
pub fn parse(token: &Token) -> Result<(String, u64), Diag> {
    let text = token.str().strip_prefix("zone=").unwrap_or_default();
    let bad = || {
        Diag::emerg(token.span, format!("invalid zone size \"{}\"", token.text()))
            .help("write zone=NAME:SIZE, for example zone=one:10m")
    };
    let (name, size) = text.split_once(':').ok_or_else(bad)?;
    let size = Token { value: size.as_bytes().into(), span: token.span, quoted: false };
    let bytes = value::size(&size).map_err(|_| bad())?;
    if bytes < ZONE_BYTES_MIN {
        return Err(Diag::emerg(token.span, format!("zone \"{}\" is too small", token.text()))
            .help("it must have at least 32k"));
    }
    Ok((name.to_string(), bytes))
}
