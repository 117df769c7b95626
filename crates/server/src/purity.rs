//! Who may get an answer again: what it depends on, and what making it does besides.
//!
//! An answer is kept for other clients only if nothing on its way depends on the client or does anything that another
//! request would miss. Two things prove that, and both have to hold.
//!
//! - **Declarations.** Each handler, filter, log handler and variable says what its result depends on and what it does
//!   besides ([`Declared`]). The default is everything, so a module that says nothing is never prepared.
//! - **Records.** The accessors of [`Request`](crate::request::Request) record what is read: a field that is absent, too.
//!   What is recorded counts even where a declaration has left it out.
//!
//! What every answer may depend on needs no word, because answers are kept by it: the listening socket, the host, the
//! request's target, the configuration, and files that are watched. The absence of the fields of
//! [`Unusual`](crate::unusual::Unusual) is part of that, too.

use std::fmt;

/// A set of what results depend on, besides what answers are kept by.
/// As bits, so that noting one is an or and a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Dependencies(u16);

impl Dependencies {
    /// Nothing.
    pub const NONE: Dependencies = Dependencies(0);
    /// The content codings that the client accepts: [`Request::encoding_class`](crate::request::Request::encoding_class).
    pub const CODINGS: Dependencies = Dependencies(1);
    /// A header field, present or absent.
    pub const FIELD: Dependencies = Dependencies(1 << 1);
    /// Who the client is: its address, what a PROXY header has told.
    pub const CLIENT: Dependencies = Dependencies(1 << 2);
    /// The TLS session: protocol, cipher, certificates, early data.
    pub const TLS: Dependencies = Dependencies(1 << 3);
    /// The connection: its number, requests before this one, the local address.
    pub const CONNECTION: Dependencies = Dependencies(1 << 4);
    /// The clock, beyond the present second ([`Request::this_second`](crate::request::Request::this_second)).
    pub const TIME: Dependencies = Dependencies(1 << 5);
    /// Random numbers.
    pub const RANDOM: Dependencies = Dependencies(1 << 6);
    /// What other requests have changed, or files that are not watched.
    pub const STATE: Dependencies = Dependencies(1 << 7);
    /// What was awaited: a back end, a listing of a folder.
    pub const AWAITED: Dependencies = Dependencies(1 << 8);
    /// The bytes of the request beyond its target: method, body, length.
    pub const MESSAGE: Dependencies = Dependencies(1 << 9);
    /// What it is, is not known.
    pub const UNKNOWN: Dependencies = Dependencies(1 << 10);
    /// All of it.
    pub const ALL: Dependencies = Dependencies((1 << 11) - 1);

    // In the order of the bits.
    const NAMES: [&'static str; 11] = [
        "codings",
        "field",
        "client",
        "tls",
        "connection",
        "time",
        "random",
        "state",
        "awaited",
        "message",
        "unknown",
    ];

    /// On both.
    #[must_use]
    pub const fn or(self, other: Dependencies) -> Dependencies {
        Dependencies(self.0 | other.0)
    }

    /// Whether all of `other` are in it.
    pub const fn has(self, other: Dependencies) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A set of what making an answer does besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Effects(u16);

impl Effects {
    /// Nothing.
    pub const NONE: Effects = Effects(0);
    /// Writes a line per request to an access log. Prepared answers do that, too.
    pub const LOGS: Effects = Effects(1);
    /// Turns requests away while there is too much to do. A prepared answer costs no more than the refusal, so it is
    /// given all the same.
    pub const SHEDS: Effects = Effects(1 << 1);
    /// Counts requests, or limits them.
    pub const LIMITS: Effects = Effects(1 << 2);
    /// Sends a request of its own: a subrequest, a mirror.
    pub const ASKS: Effects = Effects(1 << 3);
    /// Changes what other requests find: a cache, a purge, a session.
    pub const CHANGES: Effects = Effects(1 << 4);
    /// Does something to the client's connection, beyond the answer.
    pub const CONNECTION: Effects = Effects(1 << 5);
    /// Writes a message to an error log.
    pub const TELLS: Effects = Effects(1 << 6);
    /// What it is, is not known.
    pub const UNKNOWN: Effects = Effects(1 << 7);
    /// Anything.
    pub const ALL: Effects = Effects((1 << 8) - 1);

    const NAMES: [&'static str; 8] =
        ["logs", "sheds", "limits", "asks", "changes", "connection", "tells", "unknown"];
    /// Those that need not be repeated for a prepared answer, or are.
    const HARMLESS: Effects = Effects(Effects::LOGS.0 | Effects::SHEDS.0);

    /// Both.
    #[must_use]
    pub const fn or(self, other: Effects) -> Effects {
        Effects(self.0 | other.0)
    }
}

/// Whether an answer may be kept and given again to requests for the same target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purity {
    /// To every client.
    Pure,
    /// To clients of the same [`Request::encoding_class`](crate::request::Request::encoding_class).
    ByEncoding,
    /// To nobody.
    Impure,
}

/// What something on an answer's way depends on, and what it does besides.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Declared {
    /// What the result depends on.
    pub dependencies: Dependencies,
    /// What is done besides.
    pub effects: Effects,
}

impl Declared {
    /// What it reads of the request it reads through accessors that record, and it does nothing but work on the
    /// answer. For those who are sure.
    pub const RECORDED: Declared = Declared { dependencies: Dependencies::NONE, effects: Effects::NONE };
    /// Anything, and does anything: of what says nothing.
    pub const ANYTHING: Declared = Declared { dependencies: Dependencies::ALL, effects: Effects::ALL };

    /// The same, and depends on these.
    #[must_use]
    pub const fn depends_on(self, dependencies: Dependencies) -> Declared {
        Declared { dependencies: self.dependencies.or(dependencies), ..self }
    }

    /// The same, and does these.
    #[must_use]
    pub const fn does(self, effects: Effects) -> Declared {
        Declared { effects: self.effects.or(effects), ..self }
    }

    /// What two steps together depend on and do.
    #[must_use]
    pub const fn and(self, other: Declared) -> Declared {
        self.depends_on(other.dependencies).does(other.effects)
    }

    /// Who may get an answer of which all this, and nothing else, is true.
    pub const fn purity(self) -> Purity {
        if self.effects.0 & !Effects::HARMLESS.0 != 0 {
            return Purity::Impure;
        }
        // Exactly these: an answer that depends on one thing more is nobody else's.
        match self.dependencies {
            Dependencies::NONE => Purity::Pure,
            Dependencies::CODINGS => Purity::ByEncoding,
            _ => Purity::Impure,
        }
    }
}

impl Default for Declared {
    // The cautious value.
    fn default() -> Declared {
        Declared::ANYTHING
    }
}

/// For the debug log: `field time, tells`.
impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |bits: u16, names: &[&'static str]| {
            let set = names.iter().enumerate().filter(|(at, _)| bits & 1 << at != 0);
            set.map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
        };
        f.write_str(&list(self.dependencies.0, &Dependencies::NAMES))?;
        if self.effects != Effects::NONE {
            write!(f, ", {}", list(self.effects.0, &Effects::NAMES))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_declared_may_be_shared() {
        assert_eq!(Declared::default().purity(), Purity::Impure);
        assert_eq!(Declared::RECORDED.purity(), Purity::Pure);
        let codings = Declared::RECORDED.depends_on(Dependencies::CODINGS);
        assert_eq!(codings.purity(), Purity::ByEncoding);
        assert_eq!(codings.does(Effects::LOGS).does(Effects::SHEDS).purity(), Purity::ByEncoding);
        for bit in 1..11 {
            let one = Declared::RECORDED.depends_on(Dependencies(1 << bit));
            assert_eq!(one.purity(), Purity::Impure, "{one}");
            assert_eq!(one.and(codings).purity(), Purity::Impure, "{one}");
        }
        for bit in 2..8 {
            let one = Declared::RECORDED.does(Effects(1 << bit));
            assert_eq!(one.purity(), Purity::Impure, "{one}");
        }
    }

    #[test]
    fn sets_are_told_by_name() {
        let some = Declared::RECORDED
            .depends_on(Dependencies::FIELD.or(Dependencies::UNKNOWN))
            .does(Effects::TELLS.or(Effects::UNKNOWN));
        assert_eq!(some.to_string(), "field unknown, tells unknown");
        assert_eq!(Declared::RECORDED.to_string(), "");
        assert_eq!(Dependencies(1 << 11), Dependencies(Dependencies::ALL.0 + 1));
    }
}
