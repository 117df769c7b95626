//! Entry points for fuzzers: plain functions that assert the invariants. `crates/fuzz` replays and explores them.

use crate::{Directive, NoFiles, SourceMap, parse};

/// Any bytes: parsing ends, never panics, and every span lies in the text on a line that exists.
pub fn fuzz_conf(data: &[u8]) {
    let mut sources = SourceMap::default();
    let file = sources.add("fuzz.conf", data.to_vec());
    let mut diags = Vec::new();
    let tree = parse(&mut sources, file, &NoFiles, &mut diags);
    for diag in &diags {
        assert!(!diag.render(&sources).is_empty());
    }
    walk(&tree, data.len() as u32);
}

fn walk(block: &[Directive], len: u32) {
    for directive in block {
        assert!(directive.span.start <= directive.span.end && directive.span.end <= len);
        for arg in &directive.args {
            assert!(
                arg.span.end <= len && arg.value.len() <= arg.span.end as usize - arg.span.start as usize
            );
        }
        walk(directive.block.as_deref().unwrap_or_default(), len);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_prefix_of_a_configuration() {
        let text =
            b"http { server { listen 80; location ~ \"^/x{2}\" { return 200 'a\\n$b${c}d'; } } } # end\n";
        for end in 0..=text.len() {
            super::fuzz_conf(&text[..end]);
        }
    }
}
