//! FPM's pool files: sections in brackets, `name = value`, comments from `;` on.

/// One setting of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its line, from 1 on.
    pub line: usize,
    /// As written, `php_admin_value[memory_limit]` included.
    pub name: String,
    /// Without quotes.
    pub value: String,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The line, from 1 on; 0: the file as a whole.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// What helps.
    pub help: String,
}

impl FileError {
    fn new(line: usize, message: impl Into<String>, help: &str) -> FileError {
        FileError { line, message: message.into(), help: help.into() }
    }
}

/// The settings of the pool with this name; of the only pool of the file if none has it.
pub fn section(text: &str, pool: &str) -> Result<Vec<Entry>, FileError> {
    let mut sections: Vec<(String, Vec<Entry>)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        let line = line.trim();
        if line.is_empty() || line.starts_with([';', '#']) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let Some((name, _)) = rest.split_once(']') else {
                return Err(FileError::new(
                    number,
                    "a section without \"]\"",
                    "a section is a pool's name in brackets",
                ));
            };
            sections.push((name.trim().to_string(), Vec::new()));
            continue;
        }
        let (name, value) = entry(line).ok_or_else(|| {
            FileError::new(number, format!("\"{line}\" is no setting"), "a setting is NAME = VALUE")
        })?;
        let Some((_, entries)) = sections.last_mut() else {
            return Err(FileError::new(
                number,
                format!("\"{name}\" stands before any pool"),
                "a pool begins with its name in brackets",
            ));
        };
        entries.push(Entry { line: number, name, value });
    }
    // FPM's own settings are for a master that does not exist here.
    sections.retain(|(name, _)| !name.eq_ignore_ascii_case("global"));
    choose(sections, pool)
}

fn choose(mut sections: Vec<(String, Vec<Entry>)>, pool: &str) -> Result<Vec<Entry>, FileError> {
    let mut own = Vec::new();
    for (name, entries) in &mut sections {
        if name == pool {
            own.append(entries);
        }
    }
    if !own.is_empty() {
        return Ok(own);
    }
    match sections.as_mut_slice() {
        [(_, entries)] => Ok(std::mem::take(entries)),
        [] => {
            Err(FileError::new(0, "the file has no pool", "a pool begins with its name in brackets, [www]"))
        }
        several => {
            let names: Vec<&str> = several.iter().map(|(name, _)| name.as_str()).collect();
            let message = format!("the file has several pools, and none is named \"{pool}\"");
            Err(FileError::new(0, message, &format!("it has {}", names.join(", "))))
        }
    }
}

/// `name = value`, with quotes and comments as PHP's parser of ini files has them.
fn entry(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() {
        return None;
    }
    let value = match value.strip_prefix('"') {
        Some(rest) => unquoted(rest)?,
        None => match value.strip_prefix('\'') {
            Some(rest) => rest.split_once('\'')?.0.to_string(),
            None => value.split_once(';').map_or(value, |(value, _)| value).trim_end().to_string(),
        },
    };
    Some((name.to_string(), value))
}

/// What stands before the closing quote.
fn unquoted(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return Some(out),
            '\\' => match chars.next()? {
                char @ ('"' | '\\') => out.push(char),
                char => out.extend(['\\', char]),
            },
            char => out.push(char),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, pool: &str, want: Result<&[(&str, &str)], &str>) {
        let got = section(text, pool).map_err(|error| error.message);
        let got = got.map(|list| list.into_iter().map(|entry| (entry.name, entry.value)).collect::<Vec<_>>());
        let want = want.map_err(str::to_string);
        let want =
            want.map(|list| list.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect::<Vec<_>>());
        assert_eq!(got, want, "{text}");
    }

    #[test]
    fn sections_and_values() {
        check(
            "[www]\npm = static ; why\n;x\n pm.max_children=5",
            "www",
            Ok(&[("pm", "static"), ("pm.max_children", "5")]),
        );
        check("[global]\npid = x\n[www]\nuser = a\n", "other", Ok(&[("user", "a")]));
        check("[a]\nuser = a\n[b]\nuser = b\n[a]\ngroup = c", "a", Ok(&[("user", "a"), ("group", "c")]));
        check(
            "[a]\nuser = a\n[b]\nuser = b\n",
            "c",
            Err("the file has several pools, and none is named \"c\""),
        );
        check(
            "[a]\nenv[X] = \"a;b \\\"c\\\" \\n\"\nenv[Y]='$d\"'",
            "a",
            Ok(&[("env[X]", "a;b \"c\" \\n"), ("env[Y]", "$d\"")]),
        );
        check("user = a", "a", Err("\"user\" stands before any pool"));
        check("[a\n", "a", Err("a section without \"]\""));
        check("[a]\nuser\n", "a", Err("\"user\" is no setting"));
        check("[a]\nuser = \"x\n", "a", Err("\"user = \"x\" is no setting"));
        check("", "a", Err("the file has no pool"));
    }

    #[test]
    fn an_error_names_its_line() {
        assert_eq!(section("[a]\n\n oops\n", "a").unwrap_err().line, 3);
        assert_eq!(section("[a]\n\nuser = x\n", "a").unwrap()[0].line, 3);
    }
}
