//! Functions of expressions.

use crate::escape;
use crate::{Facts, Stop, Value};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::Md5;
use sha1::{Digest as _, Sha1};

/// A function with one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// `req`, `http`: a field of the request, by which the response varies.
    RequestField,
    /// `req_novary`: a field of the request.
    RequestFieldUnvaried,
    /// `resp`: a field of the response.
    ResponseField,
    /// `note`: a note between modules.
    Note,
    /// `reqenv`: the request's environment.
    RequestEnv,
    /// `osenv`: the server's environment.
    ServerEnv,
    /// `env`: a note, else the request's environment, else the server's.
    Env,
    /// `tolower`.
    ToLower,
    /// `toupper`.
    ToUpper,
    /// `escape`: percent-encoding.
    Escape,
    /// `unescape`: and back; empty where that is not possible.
    Unescape,
    /// `base64`.
    Base64,
    /// `unbase64`; empty where that is not possible.
    Unbase64,
    /// `md5`, in hexadecimal digits.
    Md5,
    /// `sha1`, in hexadecimal digits.
    Sha1,
    /// `ldap`: escapes for directory names.
    Ldap,
    /// `file`: the content of a file. Not in `.htaccess` files.
    File,
    /// `filesize`: the size of a file.
    FileSize,
}

const NAMES: &[(&str, Function)] = &[
    ("req", Function::RequestField),
    ("http", Function::RequestField),
    ("req_novary", Function::RequestFieldUnvaried),
    ("resp", Function::ResponseField),
    ("note", Function::Note),
    ("reqenv", Function::RequestEnv),
    ("osenv", Function::ServerEnv),
    ("env", Function::Env),
    ("tolower", Function::ToLower),
    ("toupper", Function::ToUpper),
    ("escape", Function::Escape),
    ("unescape", Function::Unescape),
    ("base64", Function::Base64),
    ("unbase64", Function::Unbase64),
    ("md5", Function::Md5),
    ("sha1", Function::Sha1),
    ("ldap", Function::Ldap),
    ("file", Function::File),
    ("filesize", Function::FileSize),
];

impl Function {
    /// The function with a name, whatever its case.
    pub fn named(name: &str) -> Option<Function> {
        NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, function)| *function)
    }

    /// Whether it tells what is in files by names that it is given, which may be those of others.
    pub fn reads_files(self) -> bool {
        matches!(self, Function::File)
    }

    /// The function's value.
    ///
    /// # Errors
    /// Those of [`Facts`].
    pub fn call<'a>(self, argument: &[u8], facts: &'a dyn Facts) -> Result<Value<'a>, Stop> {
        let or_empty = Option::<Value<'a>>::unwrap_or_default;
        Ok(match self {
            Function::RequestField | Function::RequestFieldUnvaried => {
                or_empty(facts.request_field(argument))
            }
            Function::ResponseField => or_empty(facts.response_field(argument)),
            Function::Note => or_empty(facts.note(argument)),
            Function::RequestEnv => or_empty(facts.env(argument)),
            Function::ServerEnv => or_empty(facts.process_env(argument)),
            Function::Env => {
                let found = facts.note(argument).or_else(|| facts.env(argument));
                or_empty(found.or_else(|| facts.process_env(argument)))
            }
            Function::File => facts.content(argument)?,
            Function::FileSize => facts.size(argument)?.to_string().into_bytes().into(),
            Function::ToLower => argument.to_ascii_lowercase().into(),
            Function::ToUpper => argument.to_ascii_uppercase().into(),
            Function::Escape => escape::uri(argument).into(),
            Function::Unescape => escape::decode_keeping_slashes(argument).unwrap_or_default().into(),
            Function::Base64 => STANDARD.encode(argument).into_bytes().into(),
            Function::Unbase64 => STANDARD.decode(argument).unwrap_or_default().into(),
            Function::Md5 => hex(&Md5::digest(argument)).into(),
            Function::Sha1 => hex(&Sha1::digest(argument)).into(),
            Function::Ldap => escape::ldap(argument).into(),
        })
    }
}

fn hex(digest: &[u8]) -> Vec<u8> {
    digest.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
}
