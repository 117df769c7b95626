//! `brisk convert apache FILE`: Apache's configuration in Brisk's language.

use crate::bundle::DiskLoader;
use crate::config::Paths;
use crate::httpd;
use brisk_cli::{Call, Entry};
use brisk_conf::{Directive, Level, SourceMap};
use brisk_load::output;
use brisk_modules::htaccess::own_files;
use clap::{CommandFactory as _, Parser, ValueEnum, ValueHint};
use std::collections::BTreeMap;

/// `brisk convert`.
pub const CONVERT: Entry =
    Entry { name: "convert", define: Wishes::command, run: main, inner: &[], usage_code: 1 };

/// Prints another server's configuration in Brisk's language.
#[derive(Debug, Parser)]
#[command(
    after_help = "What is about requests stays in Apache's language, in blocks apache_site, so nothing of it changes its \
        meaning. Lines that do nothing here stand as comments at the top, with the reason."
)]
struct Wishes {
    /// Whose configuration it is: apache
    // Listed by hand: the manual page's list of values upsets mandoc.
    #[arg(value_name = "SERVER", hide_possible_values = true)]
    of: Of,
    /// The configuration, with all that it includes
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: String,
}

// Without doc comments: with them `--help` would say more than `-h`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Of {
    Apache,
}

fn main(call: &Call<'_>) -> i32 {
    let wishes = match call.parse::<Wishes>() {
        Ok(wishes) => wishes,
        Err(code) => return code,
    };
    let Of::Apache = wishes.of;
    match httpd::of_file(&wishes.file) {
        Some(paths) => convert(&paths),
        None => {
            output::note(format_args!("brisk convert: there is no file \"{}\"", wishes.file));
            1
        }
    }
}

fn convert(paths: &Paths) -> i32 {
    let Some(arguments) = &paths.apache else { return 1 };
    let loader = DiskLoader::new(&paths.env.conf_prefix);
    let (mut sources, mut diags) = (SourceMap::default(), Vec::new());
    let told = own_files::read(Some(&paths.conf), &loader, &mut sources, arguments, &mut diags);
    let mut is_refused = false;
    // One comment for all lines with the same text.
    let mut notices: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for diag in &diags {
        if diag.level < Level::Notice {
            is_refused |= diag.is_error();
            output::note(format_args!("brisk convert: {}", diag.render(&sources)));
            continue;
        }
        let place = diag.span.map_or_else(String::new, |span| {
            format!("{}:{}", sources.file(span.file).name, sources.start(span).0)
        });
        notices.entry(diag.message.clone()).or_default().push(place);
    }
    if is_refused {
        return 1;
    }
    let mut out =
        format!("# {}, converted from Apache's language.\n", brisk_conf::escape_controls(&paths.conf));
    for (text, places) in notices {
        out.push_str(&brisk_conf::escape_controls(&format!("# {text} ({})", places.join(", "))));
        out.push('\n');
    }
    print(&told.tree, 0, &mut out);
    output::print(out);
    0
}

/// Directives as they are written.
fn print(tree: &[Directive], depth: usize, out: &mut String) {
    for directive in tree {
        out.push_str(&"    ".repeat(depth));
        out.push_str(&word(directive.name.bytes()));
        for arg in &directive.args {
            out.push(' ');
            out.push_str(&word(arg.bytes()));
        }
        match directive.block.as_deref() {
            None => out.push_str(";\n"),
            Some([]) => out.push_str(" { }\n"),
            Some(inner) => {
                out.push_str(" {\n");
                print(inner, depth + 1, out);
                out.push_str(&"    ".repeat(depth));
                out.push_str("}\n");
            }
        }
    }
}

/// A word, in quotation marks where it needs them.
fn word(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@$*^~+=,%|".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_as_it_was() {
        let text = r#"http { apache_site { Directory "\"/srv/a b\"" { Header "set X \"a\\b; {c}\" env=!d"; Require all\ granted; } } server { listen 80; server_name "~^a.*\\.b$" ''; location ^~ /i/ { } } }"#;
        let read = |text: &str| {
            let (mut sources, mut diags) = (SourceMap::default(), Vec::new());
            let file = sources.add("test", text.as_bytes().to_vec());
            let tree = brisk_conf::parse(&mut sources, file, &brisk_conf::NoFiles, &mut diags);
            assert!(diags.is_empty(), "{:?}", diags.iter().map(|d| &d.message).collect::<Vec<_>>());
            tree
        };
        fn values(tree: &[Directive]) -> Vec<String> {
            let one = |d: &Directive| {
                let args: Vec<_> = d.args.iter().map(|arg| arg.text().into_owned()).collect();
                format!("{} {args:?} {:?}", d.name(), d.block.as_deref().map(values))
            };
            tree.iter().map(one).collect()
        }
        let tree = read(text);
        let mut printed = String::new();
        print(&tree, 0, &mut printed);
        assert_eq!(values(&read(&printed)), values(&tree), "{printed}");
    }
}
