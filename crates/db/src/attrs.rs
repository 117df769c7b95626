//! What a session wants of its server, as libpq's `target_session_attrs` says it.

use crate::view::{NoPrimary, Role, ServerId, View};

/// `target_session_attrs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attrs {
    /// Any server that is well.
    Any,
    /// One that takes writes.
    #[default]
    ReadWrite,
    /// One whose sessions take none.
    ReadOnly,
    /// The one that follows nobody.
    Primary,
    /// One that follows another.
    Standby,
    /// A standby, or if there is none, the primary.
    PreferStandby,
}

impl Attrs {
    /// All of them, by name.
    pub const ALL: [(&'static str, Attrs); 6] = [
        ("any", Attrs::Any),
        ("read-write", Attrs::ReadWrite),
        ("read-only", Attrs::ReadOnly),
        ("primary", Attrs::Primary),
        ("standby", Attrs::Standby),
        ("prefer-standby", Attrs::PreferStandby),
    ];
}

impl View {
    /// The servers that a session may be given to; the error says why there is none that takes writes.
    pub fn fitting(&self, attrs: Attrs) -> Result<Vec<ServerId>, NoPrimary> {
        let primary = || self.primary().map(|server| vec![server.id]);
        let standbys = || self.readers(None).map(|server| server.id).collect::<Vec<_>>();
        let is_read_only = self.primary().is_ok_and(|server| server.is_read_only);
        match attrs {
            Attrs::Primary => primary(),
            Attrs::ReadWrite if is_read_only => Err(NoPrimary::None),
            Attrs::ReadWrite => primary(),
            Attrs::Standby => Ok(standbys()),
            Attrs::ReadOnly if is_read_only => Ok([standbys(), primary()?].concat()),
            Attrs::ReadOnly => Ok(standbys()),
            Attrs::PreferStandby => match standbys() {
                none if none.is_empty() => primary(),
                some => Ok(some),
            },
            Attrs::Any => Ok([standbys(), primary().unwrap_or_default()].concat()),
        }
    }

    /// Whether a session of this kind may stay with its server. One that was given to the primary for want of a standby stays.
    pub fn still_fits(&self, attrs: Attrs, id: ServerId) -> bool {
        let is_primary = self.primary().is_ok_and(|server| server.id == id);
        match attrs {
            Attrs::PreferStandby if is_primary => true,
            Attrs::Any | Attrs::ReadOnly | Attrs::Standby | Attrs::PreferStandby => {
                // A standby that is behind for a while gets no new sessions; those that it has are not torn from it.
                let is_replica = self.server(id).is_some_and(|server| server.role == Role::Replica);
                is_replica || self.fitting(attrs).is_ok_and(|ids| ids.contains(&id))
            }
            Attrs::ReadWrite | Attrs::Primary => self.fitting(attrs).is_ok_and(|ids| ids.contains(&id)),
        }
    }
}
