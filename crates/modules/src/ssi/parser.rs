//! The commands in a page. The page comes in pieces; what is found does not depend on how it is cut.
//!
//! It keeps one command at most, with bounded names, values and number of parameters: a page without an end of
//! a command cannot fill the memory. Errors and what counts as one are nginx's.

use crate::limits::NAME_BYTES_MAX;
pub use crate::limits::PARAMS_MAX;
/// What begins a command.
const OPENING: &[u8] = b"<!--#";

/// A command as it stands in the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    pub name: Vec<u8>,
    /// Names and values; values with the backslashes that were written. At most one more than [`PARAMS_MAX`].
    pub params: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Command {
    /// The command as text that gives the same command.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(OPENING);
        out.extend_from_slice(&self.name);
        for (name, value) in &self.params {
            // The quotes that the value was written in, or it would end early when it is read again.
            let quote = if has_bare_quote(value) { b'\'' } else { b'"' };
            out.push(b' ');
            out.extend_from_slice(name);
            out.extend_from_slice(&[b'=', quote]);
            out.extend_from_slice(value);
            out.push(quote);
        }
        out.extend_from_slice(b" -->");
    }
}

/// What a page consists of.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'t> {
    Text(&'t [u8]),
    Command(Command),
    /// A command that cannot be understood, and why.
    Bad(String),
}

/// Finds commands.
pub struct Parser {
    state: State,
    command: Command,
    /// Why the command cannot be understood.
    error: String,
    value_bytes_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Text,
    /// So many bytes of [`OPENING`] were the end of the piece before.
    Opening(usize),
    BeforeName,
    Name,
    BeforeParam,
    Param,
    BeforeEqual,
    BeforeValue,
    Value {
        quote: u8,
    },
    /// After a backslash.
    Escaped {
        quote: u8,
    },
    AfterValue,
    /// So many dashes of `-->` were seen.
    End(u8),
    Bad,
    BadEnd(u8),
}

/// Whether there is a `"` without a backslash before it: the value was written between others.
fn has_bare_quote(value: &[u8]) -> bool {
    let mut bytes = value.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return true,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
    false
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\r' | b'\n' | b'\t')
}

fn lossy(text: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(text)
}

impl Parser {
    pub fn new(value_bytes_max: usize) -> Parser {
        Parser { state: State::Text, command: Command::default(), error: String::new(), value_bytes_max }
    }

    /// The next event in `text` from `at` on, which moves on; `None`: this piece has no more.
    pub fn next<'t>(&mut self, text: &'t [u8], at: &mut usize) -> Option<Event<'t>> {
        let rest = &text[*at..];
        if rest.is_empty() {
            return None;
        }
        match self.state {
            State::Text => match memchr::memmem::find(rest, OPENING) {
                Some(0) => {
                    *at += OPENING.len();
                    self.begin();
                    self.next(text, at)
                }
                Some(length) => {
                    *at += length;
                    Some(Event::Text(&rest[..length]))
                }
                None => {
                    *at = text.len();
                    // The longest end of this piece that may be the beginning of a command: it is held until
                    // the next piece tells.
                    let kept = (1..OPENING.len()).rev().find(|&n| rest.ends_with(&OPENING[..n])).unwrap_or(0);
                    if kept > 0 {
                        self.state = State::Opening(kept);
                    }
                    let plain = &rest[..rest.len() - kept];
                    (!plain.is_empty()).then_some(Event::Text(plain))
                }
            },
            State::Opening(seen) => {
                let want = &OPENING[seen..];
                if rest.starts_with(want) {
                    *at += want.len();
                    self.begin();
                    return self.next(text, at);
                }
                if want.starts_with(rest) {
                    *at = text.len();
                    self.state = State::Opening(seen + rest.len());
                    return None;
                }
                // No other beginning can lie within one.
                self.state = State::Text;
                Some(Event::Text(&OPENING[..seen]))
            }
            _ => self.within(rest, at),
        }
    }

    /// The page is at its end.
    pub fn finish(&mut self) -> Option<Event<'static>> {
        match std::mem::replace(&mut self.state, State::Text) {
            State::Text => None,
            // What looked like a beginning was text.
            State::Opening(seen) => Some(Event::Text(&OPENING[..seen])),
            _ => Some(Event::Bad(format!("the \"{}\" SSI command is not closed", lossy(&self.command.name)))),
        }
    }

    fn begin(&mut self) {
        self.state = State::BeforeName;
        self.command = Command::default();
        self.error.clear();
    }

    /// Goes on within a command.
    fn within(&mut self, rest: &[u8], at: &mut usize) -> Option<Event<'static>> {
        for (index, &byte) in rest.iter().enumerate() {
            let (next, error) = self.step(byte);
            if let Some(error) = error {
                self.error = error;
            }
            self.state = next;
            if next == State::Text {
                *at += index + 1;
                return Some(if self.error.is_empty() {
                    Event::Command(std::mem::take(&mut self.command))
                } else {
                    Event::Bad(std::mem::take(&mut self.error))
                });
            }
        }
        *at += rest.len();
        None
    }

    /// The state after `byte`, and an error if it makes the command one that cannot be understood. `Text`: the command
    /// is at its end.
    fn step(&mut self, byte: u8) -> (State, Option<String>) {
        let name = &mut self.command.name;
        match self.state {
            State::BeforeName if is_space(byte) => {}
            State::BeforeName => {
                name.push(byte);
                return (State::Name, None);
            }
            State::Name if is_space(byte) => return (State::BeforeParam, None),
            State::Name if byte == b'-' => return (State::End(1), None),
            // The rest of the command is passed over up to its `-->`, and the page goes on.
            State::Name if name.len() == NAME_BYTES_MAX => {
                let error = format!("the \"{}{}...\" SSI command is too long", lossy(name), char::from(byte));
                return (State::Bad, Some(error));
            }
            State::Name => name.push(byte),
            State::BeforeParam | State::AfterValue if byte == b'-' => return (State::End(1), None),
            State::BeforeParam if is_space(byte) => {}
            State::BeforeParam => {
                // What is one too many need not be kept twice.
                self.command.params.truncate(PARAMS_MAX);
                self.command.params.push((vec![byte], Vec::new()));
                return (State::Param, None);
            }
            State::AfterValue if is_space(byte) => return (State::BeforeParam, None),
            State::Param | State::BeforeEqual | State::BeforeValue | State::AfterValue => {
                return self.around_value(byte);
            }
            State::Value { quote } if byte == quote => return (State::AfterValue, None),
            State::Value { quote } | State::Escaped { quote } => return self.value(byte, quote),
            State::End(1) if byte == b'-' => return (State::End(2), None),
            State::End(2) if byte == b'>' => return (State::Text, None),
            State::End(_) => {
                let byte = char::from(byte);
                let error = format!("unexpected \"{byte}\" symbol in \"{}\" SSI command", lossy(name));
                return (State::Bad, Some(error));
            }
            State::Bad if byte == b'-' => return (State::BadEnd(1), None),
            State::BadEnd(1) if byte == b'-' => return (State::BadEnd(2), None),
            State::BadEnd(2) if byte == b'>' => return (State::Text, None),
            // `--->` ends a command, too.
            State::BadEnd(2) if byte == b'-' => {}
            State::Bad | State::BadEnd(_) => return (State::Bad, None),
            State::Text | State::Opening(_) => unreachable!("these are not within a command"),
        }
        (self.state, None)
    }

    /// From the name of a parameter to its value, and behind that.
    fn around_value(&mut self, byte: u8) -> (State, Option<String>) {
        let command = lossy(&self.command.name).into_owned();
        let Some((param, value)) = self.command.params.last_mut() else { return (State::Bad, None) };
        let symbol = char::from(byte);
        let (bad, error) = match (self.state, byte) {
            (State::Param | State::BeforeEqual, b'=') => return (State::BeforeValue, None),
            (State::Param | State::BeforeEqual, _) if is_space(byte) => return (State::BeforeEqual, None),
            (State::BeforeValue, _) if is_space(byte) => return (State::BeforeValue, None),
            (State::BeforeValue, b'"' | b'\'') => return (State::Value { quote: byte }, None),
            (State::Param, _) if byte != b'-' && param.len() < NAME_BYTES_MAX => {
                param.push(byte);
                return (State::Param, None);
            }
            (State::Param, _) if byte != b'-' => (
                State::Bad,
                format!("too long \"{}{symbol}...\" parameter in \"{command}\" SSI command", lossy(param)),
            ),
            (State::BeforeValue, _) => (
                if byte == b'-' { State::BadEnd(1) } else { State::Bad },
                format!(
                    "unexpected \"{symbol}\" symbol before value of \"{}\" parameter in \"{command}\" SSI command",
                    lossy(param)
                ),
            ),
            (State::AfterValue, _) => (
                State::Bad,
                format!(
                    "unexpected \"{symbol}\" symbol after \"{}\" value of \"{}\" parameter in \"{command}\" SSI command",
                    lossy(value),
                    lossy(param)
                ),
            ),
            _ => (
                if byte == b'-' { State::BadEnd(1) } else { State::Bad },
                format!(
                    "unexpected \"{symbol}\" symbol after \"{}\" parameter in \"{command}\" SSI command",
                    lossy(param)
                ),
            ),
        };
        (bad, Some(error))
    }

    fn value(&mut self, byte: u8, quote: u8) -> (State, Option<String>) {
        // A backslash stays in the value: what it means depends on the command.
        let is_escape = byte == b'\\' && matches!(self.state, State::Value { .. });
        let next = if is_escape { State::Escaped { quote } } else { State::Value { quote } };
        let Some((param, value)) = self.command.params.last_mut() else { return (State::Bad, None) };
        if value.len() == self.value_bytes_max {
            let error = format!(
                "too long \"{}{}...\" value of \"{}\" parameter in \"{}\" SSI command",
                lossy(value),
                char::from(byte),
                lossy(param),
                lossy(&self.command.name)
            );
            return (State::Bad, Some(error));
        }
        value.push(byte);
        (next, None)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// What a page consists of, in short: text as it is, commands as they are written, `!` and the message.
    pub fn parsed(pieces: &[&[u8]]) -> String {
        let mut parser = Parser::new(20);
        let mut out = String::new();
        let mut write = |event: Event<'_>| match event {
            Event::Text(text) => out.push_str(&lossy(text)),
            Event::Command(command) => {
                let mut text = Vec::new();
                command.write(&mut text);
                out.push_str(&lossy(&text));
            }
            Event::Bad(error) => {
                out.push('!');
                out.push_str(&error);
            }
        };
        for piece in pieces {
            let mut at = 0;
            while let Some(event) = parser.next(piece, &mut at) {
                write(event);
            }
            assert_eq!(at, piece.len());
        }
        if let Some(event) = parser.finish() {
            write(event);
        }
        out
    }

    #[track_caller]
    fn check(page: &str, want: &str) {
        for cut in 0..=page.len() {
            let got = parsed(&[&page.as_bytes()[..cut], &page.as_bytes()[cut..]]);
            assert_eq!(got, want, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = page.as_bytes().chunks(1).collect();
        assert_eq!(parsed(&bytes), want);
    }

    #[test]
    fn what_is_no_command_is_text() {
        for page in ["", "abc", "a<b", "<", "<!", "<!--", "a<!-- b --> c", "<!<!-<!--<<!--x#", "<!- -#x"] {
            check(page, page);
        }
    }

    #[test]
    fn commands_have_parameters() {
        check("a<!--#echo var=\"x\" -->b", "a<!--#echo var=\"x\" -->b");
        check("<!--#  echo\tvar = 'x' default=\"\"-->", "<!--#echo var=\"x\" default=\"\" -->");
        check("<!--#else--><!--#endif -->", "<!--#else --><!--#endif -->");
        check("<!--#set value='a\"b'-->", "<!--#set value='a\"b' -->");
        check(r#"<!--#set value="a\"b\\" -->"#, r#"<!--#set value="a\"b\\" -->"#);
        check("<<!--<!--#a-->", "<<!--<!--#a -->");
    }

    #[test]
    fn mistakes_end_with_their_command() {
        check(
            "a<!--#echo var-->b",
            "a!unexpected \"-\" symbol after \"var\" parameter in \"echo\" SSI commandb",
        );
        check(
            "<!--#echo var x=\"a\" -->b",
            "!unexpected \"x\" symbol after \"var\" parameter in \"echo\" SSI commandb",
        );
        check(
            "<!--#echo var=x -->",
            "!unexpected \"x\" symbol before value of \"var\" parameter in \"echo\" SSI command",
        );
        check(
            "<!--#echo var=-->",
            "!unexpected \"-\" symbol before value of \"var\" parameter in \"echo\" SSI command",
        );
        check(
            "<!--#echo var=\"x\"y -->",
            "!unexpected \"y\" symbol after \"x\" value of \"var\" parameter in \"echo\" SSI command",
        );
        check("<!--#echo -x-->", "!unexpected \"x\" symbol in \"echo\" SSI command");
        check("<!--#a --x--->b", "!unexpected \"x\" symbol in \"a\" SSI commandb");
        check(
            "<!--#a b=\"012345678901234567890\" -->",
            "!too long \"012345678901234567890...\" value of \"b\" parameter in \"a\" SSI command",
        );
        let long = "x".repeat(33);
        check(&format!("<!--#{long}-->"), &format!("!the \"{long}...\" SSI command is too long"));
        check(
            &format!("<!--#a {long}='' -->"),
            &format!("!too long \"{long}...\" parameter in \"a\" SSI command"),
        );
        check("a<!--#echo var=\"", "a!the \"echo\" SSI command is not closed");
    }

    #[test]
    fn parameters_without_end_are_not_kept() {
        let mut parser = Parser::new(20);
        let page = format!("<!--#a {}-->", "b='c' ".repeat(1000));
        let Some(Event::Command(command)) = parser.next(page.as_bytes(), &mut 0) else { panic!() };
        assert_eq!(command.params.len(), PARAMS_MAX + 1);
    }
}
