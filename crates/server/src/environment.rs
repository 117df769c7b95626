//! What handlers tell an application about a request beside what the configuration says.

/// Kept in [`State::visit`](crate::request::State::visit) by the handler that found it out; read where FastCGI's parameters, and those of its
/// relatives, are written. What the configuration says of a parameter counts more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// Parameters, each name once.
    /// Later ones of a name replace earlier ones, as `SetEnv` does.
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
    /// Settings of PHP that a site may change, as `name=value`.
    pub php_values: Vec<Vec<u8>>,
    /// Fields of the request as the application gets them: with another value, or not at all.
    pub fields: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// The parameter that a field of the request is (RFC 3875 §4.1.18).
// CGI has one character for `-` and `_`, so two fields may become one parameter. `ignore_invalid_headers`
// keeps that from clients.
pub fn parameter(field: &[u8]) -> Vec<u8> {
    let capital = |byte: &u8| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() };
    b"HTTP_".iter().copied().chain(field.iter().map(capital)).collect()
}

impl Environment {
    /// Whether fields of the request are not to be passed on as they came.
    pub fn names_fields(&self) -> bool {
        self.field_names().next().is_some()
    }

    /// The parameters of those fields.
    pub fn field_names(&self) -> impl Iterator<Item = Vec<u8>> {
        let variables = self.variables.iter().map(|(name, _)| name).filter(|name| name.starts_with(b"HTTP_"));
        variables.cloned().chain(self.fields.iter().map(|(name, _)| parameter(name)))
    }

    /// Whether a parameter must not come from a site: it would say what PHP reads, runs and allows.
    /// Case is disregarded: applications on the other side may read names without regard to it.
    pub fn is_reserved(name: &[u8]) -> bool {
        const RESERVED: [&[u8]; 8] = [
            b"PHP_VALUE",
            b"PHP_ADMIN_VALUE",
            b"SCRIPT_FILENAME",
            b"PATH_TRANSLATED",
            b"DOCUMENT_ROOT",
            // A role other than RESPONDER would make PHP read the request in another way.
            b"FCGI_ROLE",
            b"BRISK_ASKS",
            b"BRISK_SITE_VALUES",
        ];
        name.is_empty() || RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved))
    }
}
