//! The modules that a script imports: static imports are fetched before it runs.

/// The files that a module names in `import … from "…"`, `import "…"` and `export … from "…"`; names without a path need an import map,
/// and are none.
pub fn imports(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("import").chain(text.match_indices("export")) {
        let is_word = !text[..at].ends_with(|c: char| c.is_alphanumeric() || "_$.\"'`".contains(c));
        let rest = &text[at + 6..];
        if !is_word
            || rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
            || rest.trim_start().starts_with('(')
        {
            continue;
        }
        // A statement ends at its semicolon; a block of an export is none.
        let statement = rest.split(';').next().unwrap_or_default();
        let is_bare = text[at..].starts_with("import") && statement.trim_start().starts_with(['"', '\'']);
        let place =
            if is_bare { Some(statement) } else { statement.split_once("from").map(|(_, place)| place) };
        let Some(place) = place.map(str::trim_start) else { continue };
        let Some(quote) = place.chars().next().filter(|c| matches!(c, '"' | '\'')) else { continue };
        let Some(name) = place[1..].split(quote).next() else { continue };
        if name.starts_with('/') || name.starts_with("./") || name.starts_with("../") || name.contains("://")
        {
            found.push((at, name.to_owned()));
        }
    }
    found.sort();
    found.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_imports_alone() {
        let text = "import a from './a.js';import{b,\n c} from \"/b.js\"\nimport '../c.js'; export * from './d.js';\n\
            const x = import('./late.js'); import y from 'bare'; important('./no.js'); export const z = 1; s = 'import q';";
        assert_eq!(imports(text), ["./a.js", "/b.js", "../c.js", "./d.js"]);
        assert_eq!(imports("import"), Vec::<String>::new());
        assert_eq!(imports("export{é}from'./é.js'"), ["./é.js"]);
    }
}
