//! Rules and their conditions, as they were read.

use super::template::Template;
use crate::FileTest;
use crate::Origin;
use crate::expr::Condition;
use std::sync::Arc;

/// Rules in the order in which they apply.
#[derive(Debug)]
pub struct Rules<P> {
    pub(super) list: Vec<Arc<Rule<P>>>,
}

impl<P> Clone for Rules<P> {
    fn clone(&self) -> Rules<P> {
        Rules { list: self.list.clone() }
    }
}

impl<P> Default for Rules<P> {
    fn default() -> Rules<P> {
        Rules { list: Vec::new() }
    }
}

impl<P> Rules<P> {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether one of them may ask a back end (flag P).
    pub fn asks_back_ends(&self) -> bool {
        self.list.iter().any(|rule| matches!(rule.change, Change::Substitute { end: End::Proxy, .. }))
    }

    /// These rules, and `others` behind them (`RewriteOptions Inherit`).
    #[must_use]
    pub fn before(&self, others: &Rules<P>) -> Rules<P> {
        Rules { list: self.list.iter().chain(&others.list).cloned().collect() }
    }
}

/// A `RewriteRule` with the `RewriteCond` before it.
#[derive(Debug)]
pub(super) struct Rule<P> {
    pub pattern: P,
    pub is_negated: bool,
    pub conditions: Vec<Cond<P>>,
    pub change: Change,
    pub flags: Flags,
    pub origin: Origin,
}

/// What becomes of the path.
#[derive(Debug)]
pub(super) enum Change {
    /// Nothing (`-`, or a flag that only answers).
    None,
    /// It is replaced.
    Substitute {
        template: Template,
        /// As it was written.
        text: Vec<u8>,
        query: Query,
        end: End,
        /// Whether a `?` from the request may begin a query (`UnsafeAllow3F`).
        allows_foreign_query: bool,
        /// Several slashes at its beginning stay (`UNC`).
        keeps_slashes: bool,
    },
}

/// What becomes of the query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    /// The old one is put behind the new one (QSA).
    pub appends: bool,
    /// The old one is dropped (QSD).
    pub discards: bool,
    /// It begins at the last question mark (QSL).
    pub is_last: bool,
    /// There is none: the substitution ended with a question mark.
    pub is_none: bool,
}

/// What follows a substitution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The next rules; a URL of another host is a redirect.
    Local,
    /// A redirect (R).
    Redirect,
    /// A back end (P).
    Proxy,
}

/// Escapes of what was captured (B and its relatives).
#[derive(Clone, Debug, Default)]
pub(super) struct Escapes {
    /// Only these are escaped; all but letters, digits and `_` without such a list.
    pub only: Option<Vec<u8>>,
    /// These never are.
    pub never: Vec<u8>,
    /// A space is `%20`, not `+`.
    pub has_no_plus: bool,
    /// Control characters and spaces are escaped, too, or alone.
    pub has_controls: bool,
}

/// A rule's flags that are no part of its substitution.
#[derive(Debug)]
pub(super) struct Flags {
    /// The answer of redirects and of flags that answer.
    pub status: u16,
    /// It answers with `status` and changes nothing (F, G, R with another status than those of redirects).
    pub answers: bool,
    pub is_chained: bool,
    pub env: Vec<Template>,
    pub cookies: Vec<Template>,
    pub content_type: Option<Template>,
    pub handler: Option<Template>,
    pub escapes: Option<Escapes>,
    pub keeps_raw: bool,
    pub discards_path_info: bool,
    pub is_for_main_requests: bool,
    pub is_stat_trusted: bool,
    pub next: Next,
}

/// Which rule comes next after one that applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The one behind so many.
    Skip(usize),
    /// None in this pass (L).
    Last,
    /// None for this request (END).
    End,
    /// None; the path is a URI (PT).
    PassThrough,
    /// The first one again, in at most so many rounds (N).
    Again(u32),
}

/// A `RewriteCond`.
#[derive(Debug)]
pub(super) struct Cond<P> {
    pub input: Template,
    pub test: CondTest<P>,
    pub is_negated: bool,
    /// Or the next one (OR).
    pub or_next: bool,
    /// The response does not vary by what it reads (NV).
    pub is_unvaried: bool,
    /// Its line.
    pub origin: Origin,
}

/// What a condition's input is held against.
#[derive(Debug)]
pub(super) enum CondTest<P> {
    Pattern(P),
    Expression(Condition<P>),
    File(FileTest),
    /// `-U`
    Uri,
    /// `-F`
    Served,
    Text {
        order: Order,
        text: Vec<u8>,
        ignores_case: bool,
    },
    Number {
        order: Order,
        value: i64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
}

impl Order {
    pub fn holds(self, found: std::cmp::Ordering) -> bool {
        match self {
            Order::Less => found.is_lt(),
            Order::LessOrEqual => found.is_le(),
            Order::Equal => found.is_eq(),
            Order::GreaterOrEqual => found.is_ge(),
            Order::Greater => found.is_gt(),
        }
    }
}
