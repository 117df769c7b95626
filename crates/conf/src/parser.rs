//! Directives and blocks from tokens.

use crate::diag::Diag;
use crate::include::{self, Loader};
use crate::lexer::{Lexeme, Lexer};
use crate::source::{FileId, SourceMap, Span};

/// How deep blocks and includes may nest; a file that includes itself ends here.
pub(crate) const DEPTH_MAX: usize = 32;

/// One parameter (or a directive's name), unescaped.
#[derive(Clone, Debug)]
pub struct Token {
    pub value: Box<[u8]>,
    pub span: Span,
    pub quoted: bool,
}

impl Token {
    pub fn bytes(&self) -> &[u8] {
        &self.value
    }

    /// The value for messages; bytes that are no UTF-8 are replaced.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.value)
    }

    /// The value where only UTF-8 makes sense (names, numbers, paths of includes).
    pub fn str(&self) -> &str {
        std::str::from_utf8(&self.value).unwrap_or("\u{fffd}")
    }
}

/// A directive with its parameters and, if it has one, its block.
#[derive(Clone, Debug)]
pub struct Directive {
    pub name: Token,
    pub args: Vec<Token>,
    pub block: Option<Vec<Directive>>,
    /// From the name to the `;` or `{`.
    pub span: Span,
}

impl Directive {
    pub fn name(&self) -> &str {
        self.name.str()
    }

    /// Parameter `index`; the row's arity was checked before.
    pub fn arg(&self, index: usize) -> &Token {
        &self.args[index]
    }
}

/// Parses `file` and everything it includes.
///
/// Always returns what could be understood; errors are appended to `diags` and refuse the configuration.
pub fn parse(
    sources: &mut SourceMap,
    file: FileId,
    loader: &dyn Loader,
    diags: &mut Vec<Diag>,
) -> Vec<Directive> {
    parse_at(sources, file, loader, diags, 0)
}

pub(crate) fn parse_at(
    sources: &mut SourceMap,
    file: FileId,
    loader: &dyn Loader,
    diags: &mut Vec<Diag>,
    depth: usize,
) -> Vec<Directive> {
    let text = sources.file(file).text.clone();
    let mut parser = Parser { lexer: Lexer::new(file, &text), sources, loader, diags };
    let mut out = Vec::new();
    parser.block(&mut out, None, depth);
    out
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    sources: &'a mut SourceMap,
    loader: &'a dyn Loader,
    diags: &'a mut Vec<Diag>,
}

/// What ended a directive.
enum Stop {
    Semicolon,
    Open,
    Close,
    End,
}

impl Parser<'_> {
    /// Reads directives up to the `}` of the block that `opener` opened, or to the end of the file.
    fn block(&mut self, out: &mut Vec<Directive>, opener: Option<Span>, depth: usize) {
        loop {
            let (words, stop, end) = self.statement();
            match stop {
                Stop::Semicolon | Stop::Open if words.is_empty() => {
                    let found = if matches!(stop, Stop::Open) { "{" } else { ";" };
                    self.diags.push(
                        Diag::emerg(end, format!("unexpected \"{found}\""))
                            .help("a directive's name is expected here"),
                    );
                    if matches!(stop, Stop::Open) {
                        self.nested(depth);
                    }
                }
                Stop::Semicolon => self.finish(out, words, None, end, depth),
                Stop::Open => {
                    let block = self.nested_for(end, depth);
                    self.finish(out, words, Some(block), end, depth);
                }
                Stop::Close | Stop::End => {
                    self.unterminated(&words, end, matches!(stop, Stop::Close));
                    if matches!(stop, Stop::Close) {
                        if opener.is_some() {
                            return;
                        }
                        self.diags.push(
                            Diag::emerg(end, "unexpected \"}\"").help("no block is open here; remove it"),
                        );
                        continue;
                    }
                    if let Some(opener) = opener {
                        let (line, _) = self.sources.start(opener);
                        self.diags.push(
                            Diag::emerg(end, "unexpected end of file, expecting \"}\"")
                                .help(format!("the block opened in line {line} is never closed")),
                        );
                    }
                    return;
                }
            }
        }
    }

    fn nested(&mut self, depth: usize) -> Vec<Directive> {
        let span = Span { file: FileId(0), start: 0, end: 0 };
        self.nested_for(span, depth)
    }

    fn nested_for(&mut self, opener: Span, depth: usize) -> Vec<Directive> {
        let mut block = Vec::new();
        if depth >= DEPTH_MAX {
            self.diags.push(
                Diag::emerg(opener, format!("blocks are nested deeper than {DEPTH_MAX}"))
                    .help("is a closing \"}\" missing further up?"),
            );
            self.skip_block();
        } else {
            self.block(&mut block, Some(opener), depth + 1);
        }
        block
    }

    fn skip_block(&mut self) {
        let mut open = 1;
        while open > 0 {
            match self.lexer.next() {
                Ok((Lexeme::Open, _)) => open += 1,
                Ok((Lexeme::Close, _)) => open -= 1,
                Ok((Lexeme::End, _)) => return,
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Words up to a `;`, `{`, `}` or the end.
    fn statement(&mut self) -> (Vec<Token>, Stop, Span) {
        let mut words = Vec::new();
        loop {
            match self.lexer.next() {
                Ok((Lexeme::Word { value, quoted }, span)) => words.push(Token { value, span, quoted }),
                Ok((Lexeme::Semicolon, span)) => return (words, Stop::Semicolon, span),
                Ok((Lexeme::Open, span)) => return (words, Stop::Open, span),
                Ok((Lexeme::Close, span)) => return (words, Stop::Close, span),
                Ok((Lexeme::End, span)) => return (words, Stop::End, span),
                Err(diag) => self.diags.push(diag),
            }
        }
    }

    fn unterminated(&mut self, words: &[Token], end: Span, close: bool) {
        let Some(first) = words.first() else { return };
        if close {
            self.diags.push(
                Diag::emerg(end, "unexpected \"}\"")
                    .help(format!("the directive \"{}\" before it lacks its \";\"", first.text())),
            );
        } else {
            self.diags.push(
                Diag::emerg(end, "unexpected end of file, expecting \";\" or \"}\"")
                    .help(format!("the directive \"{}\" lacks its \";\"", first.text())),
            );
        }
    }

    fn finish(
        &mut self,
        out: &mut Vec<Directive>,
        mut words: Vec<Token>,
        block: Option<Vec<Directive>>,
        end: Span,
        depth: usize,
    ) {
        let name = words.remove(0);
        let directive = Directive { span: name.span.to(end), name, args: words, block };
        if directive.name() == "include" && directive.args.len() == 1 && directive.block.is_none() {
            include::expand(&directive, self.sources, self.loader, self.diags, depth, out);
        } else {
            out.push(directive);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::include::NoFiles;

    /// The tree in one line, then each error's headline.
    fn check(text: &str, tree: &str, errors: &[&str]) {
        let mut sources = SourceMap::default();
        let file = sources.add("f", text.as_bytes().to_vec());
        let mut diags = Vec::new();
        let parsed = parse(&mut sources, file, &NoFiles, &mut diags);
        assert_eq!(show(&parsed), tree, "{text}");
        let lines: Vec<_> = diags.iter().map(|d| d.headline(&sources)).collect();
        assert_eq!(lines, errors, "{text}");
    }

    fn show(block: &[Directive]) -> String {
        let one = |d: &Directive| {
            let mut words = vec![d.name.text().into_owned()];
            words.extend(d.args.iter().map(|a| a.text().into_owned()));
            if let Some(block) = &d.block {
                words.push(format!("{{{}}}", show(block)));
            }
            words.join(" ")
        };
        block.iter().map(one).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn blocks_nest() {
        check("a b; c { d e; f {} }", "a b; c {d e; f {}}", &[]);
    }

    #[test]
    fn every_error_is_reported() {
        check("a { b }", "a {}", &["[emerg] unexpected \"}\" in f:1"]);
        check("a b", "", &["[emerg] unexpected end of file, expecting \";\" or \"}\" in f:1"]);
        check("a {\n b c;\n", "a {b c}", &["[emerg] unexpected end of file, expecting \"}\" in f:2"]);
        check("}\na;\n;", "a", &["[emerg] unexpected \"}\" in f:1", "[emerg] unexpected \";\" in f:3"]);
    }

    #[test]
    fn nesting_is_bounded() {
        let mut sources = SourceMap::default();
        let text = "a{".repeat(100_000);
        let file = sources.add("f", text.into_bytes());
        let mut diags = Vec::new();
        parse(&mut sources, file, &NoFiles, &mut diags);
        assert!(diags.iter().any(|d| d.message.contains("nested deeper")));
    }
}
