//! What the command lines of this crate share.

use crate::client::{Fields, Options, Url, Version};
use brisk_load::cli::args::{duration, text};
use lexopt::prelude::*;

/// An option that means the same wherever a [client](crate::client) does the work.
#[derive(Debug, Clone, Copy)]
pub enum ClientOption {
    Header,
    Insecure,
    Http1,
    Http2,
    Timeout,
}

impl ClientOption {
    /// If it is one.
    pub fn of(arg: &lexopt::Arg<'_>) -> Option<Self> {
        Some(match arg {
            Short('H') | Long("header") => Self::Header,
            Short('k') | Long("insecure") => Self::Insecure,
            Long("http1.1") => Self::Http1,
            Long("http2") => Self::Http2,
            Long("timeout") => Self::Timeout,
            _ => return None,
        })
    }

    /// Takes it, and its value if it has one.
    pub fn take(
        self,
        parser: &mut lexopt::Parser,
        options: &mut Options,
        fields: &mut Fields,
    ) -> Result<(), String> {
        match self {
            Self::Header => {
                let line = text(parser)?;
                let (name, value) = line
                    .split_once(':')
                    .ok_or(format!("\"{line}\" is not a header line: write \"Name: value\""))?;
                fields.push(name.trim(), value.trim());
            }
            Self::Insecure => options.insecure = true,
            Self::Http1 => options.version = Version::H1,
            Self::Http2 => options.version = Version::H2,
            Self::Timeout => options.timeout = duration(&text(parser)?)?,
        }
        Ok(())
    }
}

/// A URL.
pub fn url(text: &str) -> Result<Url, String> {
    Url::parse(text).map_err(|error| error.to_string())
}
