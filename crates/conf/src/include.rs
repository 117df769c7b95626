//! `include`: one file, or all that match a pattern.

use crate::diag::Diag;
use crate::limits::BLOCK_DEPTH_MAX;
use crate::parser::{Directive, parse_at};
use crate::source::SourceMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// Where included files come from.
pub trait Loader {
    /// The path that an `include` parameter means: relative ones start at the main file's folder.
    fn resolve(&self, path: &str) -> String;

    /// The bytes of a file.
    fn read(&self, path: &str) -> io::Result<Arc<[u8]>>;

    /// The bytes of a file with passwords, which nobody but its owner may read (mode 0600, or less). The error says so otherwise.
    fn read_secret(&self, path: &str) -> io::Result<Arc<[u8]>> {
        self.read(path)
    }

    /// The files that match a pattern, sorted by name as glob(3) does; none is no error.
    fn glob(&self, pattern: &str) -> io::Result<Vec<String>>;

    /// The addresses of a host that a directive names, as the system's resolver gives them. Whoever builds the same
    /// configuration again from a copy must get the same ones, whatever DNS says by then.
    fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// A loader for text that stands alone: every include fails.
pub struct NoFiles;

impl Loader for NoFiles {
    fn resolve(&self, path: &str) -> String {
        path.to_string()
    }

    fn read(&self, _: &str) -> io::Result<Arc<[u8]>> {
        Err(io::Error::from_raw_os_error(2))
    }

    fn glob(&self, _: &str) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn addresses(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Err(io::Error::from_raw_os_error(2))
    }
}

pub(crate) fn expand(
    directive: &Directive,
    sources: &mut SourceMap,
    loader: &dyn Loader,
    diags: &mut Vec<Diag>,
    depth: usize,
    out: &mut Vec<Directive>,
) {
    let token = directive.arg(0);
    if depth >= BLOCK_DEPTH_MAX {
        diags.push(
            Diag::emerg(directive.span, format!("includes are nested deeper than {BLOCK_DEPTH_MAX}"))
                .help("does the file include itself?"),
        );
        return;
    }
    let path = loader.resolve(token.str());
    let paths = if path.contains(['*', '?', '[']) {
        match loader.glob(&path) {
            Ok(paths) => paths,
            Err(error) => {
                diags
                    .push(Diag::emerg(token.span, format!("glob() \"{path}\" failed ({})", os_text(&error))));
                return;
            }
        }
    } else {
        vec![path]
    };
    for path in paths {
        match loader.read(&path) {
            Ok(text) => {
                let file = sources.add(path, text);
                out.extend(parse_at(sources, file, loader, diags, depth + 1));
            }
            Err(error) => diags.push(
                Diag::emerg(token.span, format!("open() \"{path}\" failed ({})", os_text(&error)))
                    .help("a relative path starts at the folder of the main configuration file"),
            ),
        }
    }
}

/// nginx's form of a system error: `2: No such file or directory`.
pub fn os_text(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(code) => {
            let text = error.to_string();
            format!("{code}: {}", text.split(" (os error").next().unwrap_or(&text))
        }
        None => error.to_string(),
    }
}
