//! `log_format`: what a line says.

use crate::stream::part::is_in_stream;
use brisk_conf::{Context as Block, Diag, Directive, Token};
use brisk_server::conf::Cx;
use brisk_server::vars::{Context, Part, Template};
use std::sync::Arc;

const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\"";

/// How values are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escape {
    Default,
    Json,
    None,
}

/// A `log_format`.
pub struct Format {
    template: Template,
    escape: Escape,
}

/// Formats of `http` and of `stream` name other variables.
fn named(block: Block, name: &str) -> (&'static str, String) {
    (if is_in_stream(block) { "stream log_format" } else { "log_format" }, name.to_string())
}

/// The setter of `log_format`.
pub fn log_format(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let name = d.arg(0).text().into_owned();
    let key = named(cx.block, &name);
    // As nginx: `combined` can be used before any definition, so a later one would change lines that were
    // configured above it.
    let is_built_in = name == "combined" && !is_in_stream(cx.block);
    if is_built_in || cx.global.named.contains_key(&key) {
        return Err(Diag::emerg(d.arg(0).span, format!("duplicate \"log_format\" name \"{name}\""))
            .help("give it another name, and name that in access_log"));
    }
    let mut escape = Escape::Default;
    let mut parts = &d.args[1..];
    if let Some(text) = parts[0].str().strip_prefix("escape=") {
        escape = match text {
            "default" => Escape::Default,
            "json" => Escape::Json,
            "none" => Escape::None,
            _ => {
                return Err(Diag::emerg(parts[0].span, format!("unknown log format escaping \"{text}\""))
                    .help("it is default, json or none"));
            }
        };
        parts = &parts[1..];
    }
    let text: Vec<u8> = parts.iter().flat_map(|t| t.bytes().to_vec()).collect();
    let template = Template::parse_bytes(cx.names(), &text, d.arg(0))?;
    // Twice: the map holds any type, and readers take the inner one.
    cx.global.named.insert(key, Arc::new(Arc::new(Format { template, escape })));
    Ok(())
}

/// The format of a name.
pub fn find_format(cx: &mut Cx<'_, '_>, token: &Token) -> Result<Arc<Format>, Diag> {
    if token.str() == "combined" && !is_in_stream(cx.block) {
        // Made when it is first asked for: its variables cost numbers in every request otherwise.
        return combined(cx, token);
    }
    let found =
        cx.global.named.get(&named(cx.block, token.str())).and_then(|f| f.downcast_ref::<Arc<Format>>());
    found.cloned().ok_or_else(|| {
        Diag::emerg(token.span, format!("unknown log format \"{}\"", token.text()))
            .help("define it with log_format further up in the same http or stream block")
    })
}

/// The format that needs no definition.
pub fn combined(cx: &mut Cx<'_, '_>, token: &Token) -> Result<Arc<Format>, Diag> {
    let key = named(Block::HTTP, "combined");
    if let Some(found) = cx.global.named.get(&key).and_then(|f| f.downcast_ref::<Arc<Format>>()) {
        return Ok(found.clone());
    }
    let template = Template::parse_bytes(&mut cx.global.vars, COMBINED.as_bytes(), token)?;
    let format = Arc::new(Format { template, escape: Escape::Default });
    cx.global.named.insert(key, Arc::new(format.clone()));
    Ok(format)
}

impl Format {
    /// Whether a line needs what a regular expression found.
    pub fn template(&self) -> &Template {
        &self.template
    }

    /// Appends a line.
    pub fn line<C: Context>(&self, of: &C, out: &mut Vec<u8>) {
        for part in self.template.parts() {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Var(id) => {
                    let start = out.len();
                    let found = of.var(*id, out);
                    self.escape(out, start, found);
                }
                Part::Capture(group) => {
                    let start = out.len();
                    of.captures().borrow().append(*group, out);
                    self.escape(out, start, true);
                }
            }
        }
        out.push(b'\n');
    }

    /// Rewrites the value that begins at `start`: a stranger's bytes must not end the line or the quotes.
    fn escape(&self, out: &mut Vec<u8>, start: usize, found: bool) {
        // The value is in its place already: the common one, without anything to escape, is not copied.
        let value = &out[start..];
        match self.escape {
            Escape::None => {}
            Escape::Default => {
                if !found {
                    // A dash tells "there is none" from an empty value; JSON has empty strings for both.
                    out.truncate(start);
                    out.push(b'-');
                } else if value.iter().any(|&b| !(b' '..0x7f).contains(&b) || b == b'"' || b == b'\\') {
                    let raw = value.to_vec();
                    out.truncate(start);
                    brisk_http::uri::escape_log(&raw, out);
                }
            }
            Escape::Json => {
                // Bytes above 0x7f stay: JSON is UTF-8, and a value that is not is the reader's to judge, as
                // with nginx.
                if value.iter().any(|&b| b < b' ' || b == b'"' || b == b'\\') {
                    let raw = value.to_vec();
                    out.truncate(start);
                    brisk_server::text::escape_json(&raw, out);
                }
            }
        }
    }
}
