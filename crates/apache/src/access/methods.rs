//! The methods of `<Limit>` and `<LimitExcept>`.

/// Methods that directives are for. HEAD is GET.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Methods {
    /// Outside of such a section: all.
    #[default]
    All,
    /// `<Limit>`.
    Only(Vec<Vec<u8>>),
    /// `<LimitExcept>`.
    Except(Vec<Vec<u8>>),
}

/// The methods that Apache knows without further modules; their names are told apart by case.
const KNOWN: &[&[u8]] = &[
    b"GET",
    b"HEAD",
    b"POST",
    b"PUT",
    b"DELETE",
    b"CONNECT",
    b"OPTIONS",
    b"PATCH",
    b"PROPFIND",
    b"PROPPATCH",
    b"MKCOL",
    b"COPY",
    b"MOVE",
    b"LOCK",
    b"UNLOCK",
    b"VERSION-CONTROL",
    b"CHECKOUT",
    b"UNCHECKOUT",
    b"CHECKIN",
    b"UPDATE",
    b"LABEL",
    b"REPORT",
    b"MKWORKSPACE",
    b"MKACTIVITY",
    b"BASELINE-CONTROL",
    b"MERGE",
];

impl Methods {
    /// Those of a section.
    ///
    /// # Errors
    /// It names none, or TRACE, which cannot be limited.
    pub fn of_section(is_except: bool, words: impl Iterator<Item = Vec<u8>>) -> Result<Methods, String> {
        let words: Vec<_> = words.collect();
        if words.is_empty() {
            return Err("directive requires additional arguments".into());
        }
        if words.iter().any(|word| word == b"TRACE") {
            return Err("TRACE cannot be controlled by <Limit>, see TraceEnable".into());
        }
        // A method that is none would make a section that never applies, and access open.
        if let Some(unknown) = words.iter().find(|word| !KNOWN.contains(&word.as_slice())) {
            return Err(format!("unknown method '{}' in <Limit>", String::from_utf8_lossy(unknown)));
        }
        Ok(if is_except { Methods::Except(words) } else { Methods::Only(words) })
    }

    /// Whether a request's method is one of them.
    pub fn has(&self, method: &[u8]) -> bool {
        let method = if method == b"HEAD" { b"GET" } else { method };
        let is_listed =
            |list: &[Vec<u8>]| list.iter().any(|one| one == method || (one == b"HEAD" && method == b"GET"));
        match self {
            Methods::All => true,
            Methods::Only(list) => is_listed(list),
            Methods::Except(list) => !is_listed(list),
        }
    }
}
