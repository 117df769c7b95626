//! Where in the configuration something stands: the lines that hold for a location, by the names of their directives.

use brisk_conf::{Directive, SourceMap, Span};

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: String,
    pub line: usize,
    /// As it is written; of a block, its beginning.
    pub text: String,
}

/// The configuration as it is written.
pub struct Places<'a> {
    pub tree: &'a [Directive],
    pub sources: &'a SourceMap,
}

impl Places<'_> {
    /// Where a span begins.
    pub fn of(&self, span: Span) -> Place {
        let text = String::from_utf8_lossy(self.sources.line_bytes(span));
        let (line, _) = self.sources.start(span);
        Place { file: self.sources.file(span.file).name.clone(), line, text: hidden(text.trim()) }
    }

    /// The directives of these names that hold in the block at `span`: those of the innermost block around it that has any.
    pub fn nearest(&self, span: Span, names: &[&str]) -> Vec<Place> {
        let mut chain = Vec::new();
        if !find(self.tree, span, &mut chain) {
            return Vec::new();
        }
        let here = |block: &&[Directive]| block.iter().any(|directive| names.contains(&directive.name()));
        let Some(block) = chain.iter().rev().find(|block| here(block)) else { return Vec::new() };
        let named = block.iter().filter(|directive| names.contains(&directive.name()));
        named.map(|directive| self.of(directive.span)).collect()
    }
}

/// Collects the blocks that lead to the one at `span`, the outermost first.
fn find<'t>(tree: &'t [Directive], span: Span, chain: &mut Vec<&'t [Directive]>) -> bool {
    chain.push(tree);
    for directive in tree {
        let Some(block) = directive.block.as_deref() else { continue };
        if directive.span == span {
            chain.push(block);
            return true;
        }
        if find(block, span, chain) {
            return true;
        }
    }
    chain.pop();
    false
}

/// Fields whose values are secrets.
const SECRETS: &[&str] =
    &["authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "x-auth-token"];

/// Whether the value of a field is not to be shown.
pub fn is_secret(name: &str) -> bool {
    SECRETS.iter().any(|secret| name.eq_ignore_ascii_case(secret))
}

/// A line without what stands behind the name of a secret field.
fn hidden(line: &str) -> String {
    let lower = line.to_ascii_lowercase();
    let is_part =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte));
    let end_of = |secret: &&str| {
        let (start, end) = lower.find(*secret).map(|at| (at, at + secret.len()))?;
        let is_word = !is_part(start.checked_sub(1).and_then(|at| lower.as_bytes().get(at)))
            && !is_part(lower.as_bytes().get(end));
        is_word.then_some(end)
    };
    match SECRETS.iter().filter_map(end_of).min() {
        Some(end) if !line[end..].trim_matches(['"', ';', ' ', '\'']).is_empty() => {
            format!("{} (not shown)", &line[..end])
        }
        _ => line.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_block_counts() {
        let text = "http {\n  deny 10.0.0.1;\n  server {\n    deny all;\n    location /a {\n      allow all;\n      deny all;\n    }\n    location /b { root /x; }\n  }\n}\n";
        let (mut sources, mut diags) = (SourceMap::default(), Vec::new());
        let file = sources.add("a.conf", text.as_bytes().to_vec());
        let tree = brisk_conf::parse(&mut sources, file, &brisk_conf::NoFiles, &mut diags);
        let places = Places { tree: &tree, sources: &sources };
        let server = &tree[0].block.as_ref().unwrap()[1];
        let locations: Vec<Span> = server.block.iter().flatten().skip(1).map(|inner| inner.span).collect();
        let lines = |span: Span| -> Vec<usize> {
            places.nearest(span, &["allow", "deny"]).iter().map(|place| place.line).collect()
        };
        assert_eq!(
            (lines(locations[0]), lines(locations[1]), lines(tree[0].span)),
            (vec![6, 7], vec![4], vec![2])
        );
        assert_eq!(places.of(locations[0]).text, "location /a {");
        assert!(places.nearest(locations[0], &["gzip"]).is_empty());
    }

    #[test]
    fn secrets_are_not_shown() {
        assert_eq!(
            hidden("proxy_set_header Authorization \"Basic dTpw\";"),
            "proxy_set_header Authorization (not shown)"
        );
        assert_eq!(hidden("proxy_hide_header Set-Cookie;"), "proxy_hide_header Set-Cookie;");
        for line in ["deny all;", "proxy_cookie_path / /a;", "set $a $cookie_b;"] {
            assert_eq!(hidden(line), line);
        }
    }
}
