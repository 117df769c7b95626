//! Which stream sends next: the extensible priorities of RFC 9218, or the tree of RFC 7540 §5.3 for peers that know
//! nothing newer, or turn by turn for those that say nothing at all.

mod line;
mod scheduler;
mod tree;

pub use brisk_mux::Priority;
pub(crate) use scheduler::Scheduler;

/// RFC 7540 §5.3.1: which stream another one depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// 0: none.
    pub on: u32,
    /// The streams that depended on it depend on this one now.
    pub exclusive: bool,
    /// 1 to 256.
    pub weight: u16,
}

impl Default for Dependency {
    /// RFC 7540 §5.3.5.
    fn default() -> Dependency {
        Dependency { on: 0, exclusive: false, weight: 16 }
    }
}

impl Dependency {
    /// The five bytes of a PRIORITY frame or of HEADERS.
    pub(crate) fn parse(bytes: &[u8; 5]) -> Dependency {
        let word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        Dependency {
            on: word & crate::frame::WINDOW_MAX,
            exclusive: word >> 31 != 0,
            weight: u16::from(bytes[4]) + 1,
        }
    }
}
