//! Directives and blocks from tokens.

use crate::braces::{self, Block};
use crate::diag::Diag;
use crate::include::{self, Loader};
use crate::lexer::{Lexeme, Lexer};
use crate::limits::BLOCK_DEPTH_MAX;
use crate::source::{FileId, SourceMap, Span};
use crate::{foreign, hints};

/// One parameter (or a directive's name), unescaped.
#[derive(Clone, Debug)]
pub struct Token {
    /// The bytes, without quotes and escapes.
    pub value: Box<[u8]>,
    /// Where it stands, quotes included.
    pub span: Span,
    /// Whether it stood in quotes.
    pub quoted: bool,
}

impl Token {
    /// The bytes, which need not be UTF-8.
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
    /// Its name.
    pub name: Token,
    /// Its parameters.
    pub args: Vec<Token>,
    /// What stands in its block; `None` if it has none.
    pub block: Option<Vec<Directive>>,
    /// From the name to the `;` or `{`.
    pub span: Span,
}

impl Directive {
    /// The name, for look-ups and messages.
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
    let before = diags.len();
    let mut parser =
        Parser { lexer: Lexer::new(file, &text), text: &text, blocks: Vec::new(), sources, loader, diags };
    let mut out = Vec::new();
    parser.block(&mut out, None, depth);
    if diags.len() > before
        && let Some(whose) = foreign::recognize(&text)
    {
        // No message about what is in it would help.
        let first = first_word(file, &text);
        diags.truncate(before + 1);
        let diag = diags.pop().map(|diag| diag.at(first).help(whose).structural());
        diags.extend(diag);
        out.clear();
    }
    out
}

/// The first word that is no comment.
fn first_word(file: FileId, text: &[u8]) -> Span {
    Lexer::new(file, text).next().map_or(Span { file, start: 0, end: 0 }, |(_, span)| span)
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    text: &'a [u8],
    /// All blocks of the file so far.
    blocks: Vec<Block>,
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

/// The words of one directive.
#[derive(Default)]
struct Words {
    list: Vec<Token>,
    /// One of them could not be read: what the others mean is not known.
    is_broken: bool,
    /// A mark of left-out lines came before, and was told about.
    follows_ellipsis: bool,
}

impl Parser<'_> {
    /// Reads directives up to the `}` of the block that `opener` opened (by its index), or to the end of the file.
    fn block(&mut self, out: &mut Vec<Directive>, opener: Option<usize>, depth: usize) {
        loop {
            let (words, stop, end) = self.statement();
            match stop {
                Stop::Semicolon if words.list.is_empty() && words.follows_ellipsis => {}
                Stop::Semicolon | Stop::Open if words.list.is_empty() => {
                    let found = if matches!(stop, Stop::Open) { "{" } else { ";" };
                    if !words.is_broken {
                        self.diags.push(
                            Diag::emerg(end, format!("unexpected \"{found}\""))
                                .help("a directive's name is expected here"),
                        );
                    }
                    if matches!(stop, Stop::Open) {
                        self.nested(end, end, depth);
                    }
                }
                Stop::Semicolon => self.finish(out, words, None, end, depth),
                Stop::Open => {
                    let block = self.nested(words.list[0].span, end, depth);
                    self.finish(out, words, Some(block), end, depth);
                }
                Stop::Close => {
                    if !words.is_broken {
                        self.unterminated(&words.list, end);
                    }
                    if let Some(index) = opener {
                        self.blocks[index].close = Some(end);
                        return;
                    }
                    self.extra_brace(end);
                }
                Stop::End => {
                    if let Some(last) = words.list.last() {
                        let text = "unexpected end of file, expecting \";\" or \"}\"";
                        let diag = Diag::emerg(end, text).at(last.span.behind()).structural();
                        self.diags.push(diag.help(format!("\"{}\" lacks its \";\"", words.list[0].text())));
                    }
                    if let Some(index) = opener {
                        self.missing_brace(index, end);
                    }
                    return;
                }
            }
        }
    }

    fn nested(&mut self, name: Span, opener: Span, depth: usize) -> Vec<Directive> {
        let mut block = Vec::new();
        if depth >= BLOCK_DEPTH_MAX {
            self.diags.push(
                Diag::emerg(opener, format!("blocks are nested deeper than {BLOCK_DEPTH_MAX}"))
                    .help("is a closing \"}\" missing further up?"),
            );
            self.skip_block();
        } else {
            self.blocks.push(Block { name, close: None });
            let index = self.blocks.len() - 1;
            self.block(&mut block, Some(index), depth + 1);
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
    fn statement(&mut self) -> (Words, Stop, Span) {
        let mut words = Words::default();
        let mut quantifier = None;
        loop {
            let (stop, span) = match self.lexer.next() {
                Ok((Lexeme::Word { value, quoted }, span)) => {
                    if words.list.is_empty() && !quoted && hints::is_ellipsis(&value) {
                        words.follows_ellipsis = true;
                        let text = format!("unknown directive \"{}\"", String::from_utf8_lossy(&value));
                        self.diags.push(Diag::emerg(span, text).help(
                            "it stands for lines that were left out where this was printed: write them, or remove it",
                        ));
                        continue;
                    }
                    if let Some(brace) = self.lexer.quantifier.take() {
                        quantifier.get_or_insert((words.list.len(), brace, span));
                    }
                    words.list.push(Token { value, span, quoted });
                    continue;
                }
                Ok((Lexeme::Semicolon, span)) => (Stop::Semicolon, span),
                Ok((Lexeme::Open, span)) => (Stop::Open, span),
                Ok((Lexeme::Close, span)) => (Stop::Close, span),
                Ok((Lexeme::End, span)) => (Stop::End, span),
                Err(diag) => {
                    words.is_broken = true;
                    self.diags.push(diag);
                    continue;
                }
            };
            if let Some((index, brace, word)) = quantifier {
                self.unquoted_quantifier(&words.list, index, brace, word);
            }
            return (words, stop, span);
        }
    }

    /// nginx takes the `{` of `[a-z]{2}` for the beginning of a block, and says what it makes of the rest.
    fn unquoted_quantifier(&mut self, words: &[Token], index: usize, brace: Span, word: Span) {
        let text =
            |from: u32, to: u32| String::from_utf8_lossy(&self.text[from as usize..to as usize]).into_owned();
        let name = words[0].text();
        let message = match (index, &*name) {
            (0, _) => "unexpected \"{\"".to_string(),
            (_, "location" | "if") => format!("unknown directive \"{}\"", text(brace.start + 1, word.end)),
            _ => format!("directive \"{name}\" is not terminated by \";\""),
        };
        let help = format!("a parameter with braces must be quoted: \"{}\"", text(word.start, word.end));
        self.diags.push(Diag::emerg(brace, message).help(help));
    }

    fn unterminated(&mut self, words: &[Token], end: Span) {
        let (Some(first), Some(last)) = (words.first(), words.last()) else { return };
        let help = format!("a \";\" is missing here, at the end of \"{}\"", first.text());
        self.diags.push(Diag::emerg(end, "unexpected \"}\"").at(last.span.behind()).help(help));
    }

    /// A `}` where no block is open.
    fn extra_brace(&mut self, end: Span) {
        let diag = Diag::emerg(end, "unexpected \"}\"").structural();
        let early = braces::closed_early(self.text, &self.blocks);
        self.diags.push(match early.and_then(|block| Some((block.name, block.close?))) {
            Some((name, close)) => {
                let (line, _) = self.sources.start(name);
                diag.at(close).help(format!(
                    "this one closes the block of line {line}, which its indentation does not say: is it one too many?"
                ))
            }
            None => diag.help("no block is open here; remove it"),
        });
    }

    /// The end of the file in the block `index`.
    fn missing_brace(&mut self, index: usize, end: Span) {
        let diag = Diag::emerg(end, "unexpected end of file, expecting \"}\"").structural();
        if let Some(comment) = self.lexer.swallowing {
            let help = "everything behind this \"#\" up to the end of the line is a comment, closing braces included: \
                        is a line break missing?";
            self.diags.push(diag.at(comment).help(help));
            return;
        }
        let suspect =
            braces::unclosed(self.text, &self.blocks).and_then(|block| Some((block.name, block.close?)));
        self.diags.push(match suspect {
            Some((name, close)) => {
                let (line, _) = self.sources.start(close);
                diag.at(name).help(format!(
                    "the block that starts here is not closed: the \"}}\" in line {line} is an outer block's, by its indentation"
                ))
            }
            None => diag.at(self.blocks[index].name).help("the block that starts here is never closed"),
        });
    }

    fn finish(
        &mut self,
        out: &mut Vec<Directive>,
        words: Words,
        block: Option<Vec<Directive>>,
        end: Span,
        depth: usize,
    ) {
        if words.is_broken {
            return;
        }
        let mut words = words.list;
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
        crate::settle(&mut diags);
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
