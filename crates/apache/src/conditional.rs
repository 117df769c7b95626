//! Sections that decide which lines count (`<IfModule>`, `<IfDefine>`, `<IfVersion>`, `<IfFile>`, `<IfDirective>`, `<IfSection>`), and
//! `Define` with `${NAME}`. They are carried out when a file is read, from its beginning to its end.

use crate::directives;
use crate::limits::FILES_DEPTH_MAX;
use crate::pattern::{Pattern as _, Patterns};
use crate::syntax::{Mistake, Node};
use std::cmp::Ordering;
use std::collections::HashMap;

/// The version that `<IfVersion>` compares with.
pub const VERSION: [u32; 3] = [2, 4, 68];

/// What a server is, as far as lines depend on it.
pub trait Server {
    /// Whether it does what a module of Apache's does; the name is without `mod_` and `.c`: `rewrite`.
    fn has_module(&self, name: &str) -> bool;

    /// Whether a file exists; relative names begin at the server's folder.
    fn has_file(&self, path: &[u8]) -> bool;

    /// A variable of its environment.
    fn env(&self, name: &str) -> Option<Vec<u8>>;

    /// Whether these are the server's own files, where `Include`, `Define` and `<Macro>` may stand.
    fn is_own_file(&self) -> bool {
        false
    }

    /// Carries out a directive of the server's own files that decides what is read: the lines in its place, or `None` if it stays.
    ///
    /// # Errors
    /// What it names cannot be read.
    fn expanded(&self, _: &Node) -> Result<Option<Vec<Node>>, Mistake> {
        Ok(None)
    }
}

/// `<Macro>`: its parameters and its lines, which are resolved where it is used.
struct Macro {
    parameters: Vec<Vec<u8>>,
    lines: Vec<Node>,
}

/// What `Define` and `-D` have set. The value is empty without one.
pub type Defines = HashMap<String, Option<Vec<u8>>>;

/// Resolves the sections of one file: what does not count is gone, what counts stands where its section stood, and `${NAME}` is replaced.
///
/// # Errors
/// A section's condition, or a `Define`, is wrong.
pub fn resolve<S: Server, P: Patterns>(
    nodes: Vec<Node>,
    server: &S,
    patterns: &P,
    defines: &mut Defines,
) -> Result<Vec<Node>, Mistake> {
    let mut resolver = Resolver { server, patterns, defines, macros: HashMap::new(), depth: 0 };
    let mut out = Vec::new();
    resolver.all(nodes, &mut out)?;
    Ok(out)
}

struct Resolver<'a, S, P> {
    server: &'a S,
    patterns: &'a P,
    defines: &'a mut Defines,
    macros: HashMap<String, Macro>,
    /// How many files and macros are inside of each other.
    depth: usize,
}

impl<S: Server, P: Patterns> Resolver<'_, S, P> {
    fn all(&mut self, nodes: Vec<Node>, out: &mut Vec<Node>) -> Result<(), Mistake> {
        for node in nodes {
            self.one(node, out)?;
        }
        Ok(())
    }

    fn one(&mut self, mut node: Node, out: &mut Vec<Node>) -> Result<(), Mistake> {
        node.args = self.replaced(&node.args);
        let line = node.line;
        let mistake = |text: String| Mistake { line, text };
        let Some(children) = node.children.take() else {
            if self.server.is_own_file() {
                if node.is("Define") || node.is("UnDefine") {
                    return self.define(&node).map_err(mistake);
                }
                let used = if node.is("Use") { Some(self.used(&node).map_err(mistake)?) } else { None };
                let expanded = if used.is_some() { used } else { self.server.expanded(&node)? };
                if let Some(nodes) = expanded {
                    return self.nested(line, nodes, out);
                }
            }
            out.push(node);
            return Ok(());
        };
        if node.is("Macro") && self.server.is_own_file() {
            let mut words = node.words();
            let name = words.next().ok_or_else(|| mistake("<Macro> needs a name".into()))?;
            let lines = Macro { parameters: words.collect(), lines: children };
            self.macros.insert(String::from_utf8_lossy(&name).to_ascii_lowercase(), lines);
            return Ok(());
        }
        match self.counts(&node).map_err(mistake)? {
            Some(true) => self.all(children, out),
            // What is in it was never read: a `Define` in it has no effect.
            Some(false) => Ok(()),
            None => {
                let mut inner = Vec::new();
                self.all(children, &mut inner)?;
                out.push(Node { children: Some(inner), ..node });
                Ok(())
            }
        }
    }

    /// Resolves lines of another file, or of a macro.
    fn nested(&mut self, line: u32, nodes: Vec<Node>, out: &mut Vec<Node>) -> Result<(), Mistake> {
        if self.depth == FILES_DEPTH_MAX {
            let text = format!("more than {FILES_DEPTH_MAX} files or macros inside of each other");
            return Err(Mistake { line, text });
        }
        self.depth += 1;
        let done = self.all(nodes, out);
        self.depth -= 1;
        done
    }

    /// The lines of a macro with its arguments in the place of its parameters.
    fn used(&self, node: &Node) -> Result<Vec<Node>, String> {
        let mut words = node.words();
        let name = words.next().ok_or("Use takes the name of a macro and its arguments")?;
        let name = String::from_utf8_lossy(&name).into_owned();
        let known = self.macros.get(&name.to_ascii_lowercase());
        let known = known.ok_or_else(|| format!("Use: there is no macro \"{name}\" above"))?;
        let given: Vec<Vec<u8>> = words.collect();
        let (wanted, have) = (known.parameters.len(), given.len());
        if wanted != have {
            return Err(format!("Use: macro \"{name}\" has {wanted} parameters, not {have}"));
        }
        let mut pairs: Vec<_> = known.parameters.iter().zip(&given).collect();
        // Of two parameters of which one begins as the other, the longer one counts.
        pairs.sort_by_key(|(parameter, _)| std::cmp::Reverse(parameter.len()));
        Ok(known.lines.iter().map(|line| substituted(line, &pairs)).collect())
    }

    fn define(&mut self, node: &Node) -> Result<(), String> {
        let mut words = node.words();
        let name = words.next().ok_or_else(|| format!("{} takes one or two arguments", node.name))?;
        let name = String::from_utf8_lossy(&name).into_owned();
        if name.contains(':') {
            return Err("Variable name must not contain ':'".into());
        }
        if node.is("UnDefine") {
            self.defines.remove(&name);
        } else {
            self.defines.insert(name, words.next());
        }
        Ok(())
    }

    /// `${NAME}` by what it stands for. What nothing defines stays as it is.
    fn replaced(&self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = memchr::memmem::find(rest, b"${") {
            let Some(length) = memchr::memchr(b'}', &rest[at..]) else { break };
            out.extend_from_slice(&rest[..at]);
            let whole = &rest[at..=at + length];
            let name = String::from_utf8_lossy(&whole[2..length]).into_owned();
            let value = self.defines.get(&name).cloned().flatten().or_else(|| self.server.env(&name));
            out.extend_from_slice(value.as_deref().unwrap_or(whole));
            rest = &rest[at + length + 1..];
        }
        out.extend_from_slice(rest);
        out
    }

    /// Whether a section's lines count; `None` for a section of another kind.
    fn counts(&self, node: &Node) -> Result<Option<bool>, String> {
        if node.is("IfVersion") {
            return self.is_version(node).map(Some);
        }
        let args = node.args.as_slice();
        let (is_negated, args) = args.strip_prefix(b"!").map_or((false, args), |args| (true, args));
        let argument = crate::syntax::Words(args).next();
        let text = || argument.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
        let holds = match node.name.to_ascii_lowercase().as_str() {
            "ifmodule" => self.server.has_module(module_name(&text())),
            "ifdefine" => self.defines.contains_key(text().as_ref()),
            "iffile" => self.server.has_file(argument.as_deref().unwrap_or_default()),
            name @ ("ifdirective" | "ifsection") => {
                let children = (name == "ifsection").then(Vec::new);
                let wanted = Node { name: text().into_owned(), args: Vec::new(), line: 0, children };
                directives::find(&wanted).is_some_and(|row| self.server.has_module(row.module))
            }
            _ => return Ok(None),
        };
        if argument.is_none_or(|word| word.is_empty()) {
            return Err(format!("<{}> directive requires additional arguments", node.name));
        }
        Ok(Some(holds != is_negated))
    }

    fn is_version(&self, node: &Node) -> Result<bool, String> {
        let words: Vec<String> =
            node.words().map(|word| String::from_utf8_lossy(&word).into_owned()).collect();
        let (operator, wanted) = match words.as_slice() {
            [wanted] => ("=", wanted.as_str()),
            [operator, wanted] => (operator.as_str(), wanted.as_str()),
            _ => return Err("<IfVersion> takes an operator and a version".into()),
        };
        let (is_negated, plain) = match operator.strip_prefix('!') {
            Some("") => (true, "="),
            Some(plain) => (true, plain),
            None => (false, operator),
        };
        let pattern = wanted.strip_prefix('/').filter(|_| matches!(plain, "=" | "=="));
        let is_match = match (plain, pattern) {
            ("~", _) => self.is_like(wanted)?,
            (_, Some(pattern)) => {
                let pattern = pattern.strip_suffix('/');
                self.is_like(pattern.ok_or("Missing delimiting / of regular expression.")?)?
            }
            ("=" | "==", None) => compared(wanted)?.is_eq(),
            ("<", None) => compared(wanted)?.is_lt(),
            ("<=", None) => compared(wanted)?.is_le(),
            (">", None) => compared(wanted)?.is_gt(),
            (">=", None) => compared(wanted)?.is_ge(),
            _ => return Err(format!("unrecognized operator '{operator}'")),
        };
        Ok(is_match != is_negated)
    }

    fn is_like(&self, pattern: &str) -> Result<bool, String> {
        let [major, minor, patch] = VERSION;
        let compiled = self.patterns.compile(pattern.as_bytes(), false);
        let compiled = compiled.map_err(|why| format!("Unable to compile regular expression: {why}"))?;
        let found = compiled.find(format!("{major}.{minor}.{patch}").as_bytes());
        found.map(|found| found.is_some()).map_err(|stop| format!("{stop:?}"))
    }
}

/// A line of a macro with arguments in the place of parameters.
fn substituted(node: &Node, pairs: &[(&Vec<u8>, &Vec<u8>)]) -> Node {
    let replace = |text: &[u8]| {
        let mut out = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some(&byte) = rest.first() {
            match pairs.iter().find(|(parameter, _)| !parameter.is_empty() && rest.starts_with(parameter)) {
                Some((parameter, argument)) => {
                    out.extend_from_slice(argument);
                    rest = &rest[parameter.len()..];
                }
                None => {
                    out.push(byte);
                    rest = &rest[1..];
                }
            }
        }
        out
    };
    let children = node.children.as_ref();
    Node {
        name: String::from_utf8_lossy(&replace(node.name.as_bytes())).into_owned(),
        args: replace(&node.args),
        line: node.line,
        children: children.map(|lines| lines.iter().map(|line| substituted(line, pairs)).collect()),
    }
}

/// `rewrite`, of `mod_rewrite.c` and `rewrite_module`.
pub fn module_name(text: &str) -> &str {
    let name = text.strip_suffix("_module").unwrap_or(text);
    let name = name.strip_suffix(".c").unwrap_or(name);
    name.strip_prefix("mod_").unwrap_or(name)
}

/// How our version compares with another.
fn compared(wanted: &str) -> Result<Ordering, String> {
    let wrong = || {
        "Version appears to be invalid. It must have the format major[.minor[.patch]] where major, minor and patch are numbers."
            .to_string()
    };
    let mut version = [0; 3];
    for (index, part) in wanted.split('.').enumerate() {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let place = version.get_mut(index).filter(|_| is_number).ok_or_else(wrong)?;
        *place = part.parse().map_err(|_| wrong())?;
    }
    Ok(VERSION.cmp(&version))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax;
    use crate::testing::Rust;

    struct Small;

    impl Server for Small {
        fn has_module(&self, name: &str) -> bool {
            matches!(name, "rewrite" | "core")
        }

        fn has_file(&self, path: &[u8]) -> bool {
            path == b"/etc/there"
        }

        fn env(&self, name: &str) -> Option<Vec<u8>> {
            (name == "HOME").then(|| b"/root".to_vec())
        }

        fn is_own_file(&self) -> bool {
            true
        }
    }

    fn resolved(text: &str) -> Result<String, String> {
        let nodes = syntax::read(text.as_bytes(), 8192).unwrap();
        let mut defines = Defines::from([("Given".to_string(), None)]);
        let nodes = resolve(nodes, &Small, &Rust, &mut defines).map_err(|mistake| mistake.to_string())?;
        let shown = |node: &Node| format!("{} {}", node.name, String::from_utf8_lossy(&node.args));
        Ok(nodes.iter().map(shown).collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn macros_and_files_stand_where_they_are_used() {
        struct Own;
        impl Server for Own {
            fn has_module(&self, _: &str) -> bool {
                false
            }
            fn has_file(&self, _: &[u8]) -> bool {
                false
            }
            fn env(&self, _: &str) -> Option<Vec<u8>> {
                None
            }
            fn is_own_file(&self) -> bool {
                true
            }
            fn expanded(&self, node: &Node) -> Result<Option<Vec<Node>>, Mistake> {
                let is_include = node.is("Include");
                is_include.then(|| syntax::read(b"Inner\n<IfDefine A>\nYes\n</IfDefine>", 8192)).transpose()
            }
        }
        let shown = |text: &str| {
            let nodes = syntax::read(text.as_bytes(), 8192).unwrap();
            let nodes = resolve(nodes, &Own, &Rust, &mut Defines::new());
            let line = |node: &Node| {
                let inner: Vec<_> = node.children.iter().flatten().map(|node| node.name.clone()).collect();
                format!("{} {} {}", node.name, String::from_utf8_lossy(&node.args), inner.join(","))
            };
            nodes.map(|nodes| nodes.iter().map(line).collect::<Vec<_>>().join("; ")).map_err(|m| m.text)
        };
        assert_eq!(shown("Define A\nInclude x\nB"), Ok("Inner  ; Yes  ; B  ".into()));
        let text = "<Macro Host $name $n>\n<VirtualHost $name>\nServerName $name.$n\n</VirtualHost>\n</Macro>\nUse host a b";
        assert_eq!(shown(text), Ok("VirtualHost a ServerName".into()));
        for (text, wanted) in [
            ("Use x", "Use: there is no macro"),
            ("<Macro a $x>\n</Macro>\nUse a", "Use: macro \"a\" has 1 parameters, not 0"),
            ("<Macro a>\nUse a\n</Macro>\nUse a", "more than"),
        ] {
            let error = shown(text).expect_err(text);
            assert!(error.starts_with(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn which_lines_count() {
        for (section, counts) in [
            ("IfModule mod_rewrite.c", true),
            ("IfModule rewrite_module", true),
            ("IfModule !mod_rewrite.c", false),
            ("IfModule mod_security2.c", false),
            ("IfModule !mod_security2.c", true),
            ("IfDefine Given", true),
            ("IfDefine !Given", false),
            ("IfDefine Other", false),
            ("IfFile \"/etc/there\"", true),
            ("IfFile /etc/none", false),
            ("IfDirective RewriteRule", true),
            ("IfDirective SecRule", false),
            ("IfSection Directory", true),
            ("IfVersion 2.4.68", true),
            ("IfVersion >= 2.4", true),
            ("IfVersion < 2.4", false),
            ("IfVersion !< 2.4", true),
            ("IfVersion > 2.4.100", false),
            ("IfVersion ~ ^2\\.4", true),
            ("IfVersion = /^2\\.2/", false),
            ("IfVersion ! 2.2", true),
        ] {
            let name = section.split(' ').next().unwrap();
            let got = resolved(&format!("<{section}>\nA b\n</{name}>\nC d")).unwrap();
            assert_eq!(got, if counts { "A b; C d" } else { "C d" }, "{section}");
        }
    }

    #[test]
    fn variables_are_known_from_their_definition_on() {
        let text = "A ${X}\nDefine X \"a b\"\nA \"${X}\" ${HOME} ${NONE} ${\n<IfDefine X>\nUnDefine X\nB ${X}\n</IfDefine>\n<Files ${HOME}>\n</Files>\n<IfDefine Other>\nDefine Y 1\n</IfDefine>\nC ${Y}";
        assert_eq!(
            resolved(text).unwrap(),
            "A ${X}; A \"a b\" /root ${NONE} ${; B ${X}; Files /root; C ${Y}"
        );
    }

    #[test]
    fn mistakes() {
        for (text, wanted) in [
            ("<IfModule>\n</IfModule>", "line 1: <IfModule> directive requires additional arguments"),
            ("<IfVersion x>\n</IfVersion>", "line 1: Version appears to be invalid."),
            ("<IfVersion ?? 2.4>\n</IfVersion>", "line 1: unrecognized operator '??'"),
            ("<IfVersion = /2>\n</IfVersion>", "line 1: Missing delimiting /"),
            ("\nDefine a:b 1", "line 2: Variable name must not contain ':'"),
        ] {
            let error = resolved(text).expect_err(text);
            assert!(error.starts_with(wanted), "{text}: {error}");
        }
    }
}
