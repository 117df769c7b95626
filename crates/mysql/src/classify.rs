//! Where a statement may go. The lists are closed: a statement that is not on them goes to the primary, and keeps the session there if it
//! may have changed something of the connection.

mod functions;
mod settings;
#[cfg(test)]
mod tests;

use crate::reply::status;
use crate::token::{Escapes, Token, Tokens};
use functions::{Effect, effect};

/// Why a session stays with its connection to the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pin {
    /// `@name`.
    UserVariable,
    /// A setting that is not repeated on replicas.
    Set,
    /// A temporary table.
    TemporaryTable,
    /// `LOCK TABLES`, `GET_LOCK` and their kin.
    Lock,
    /// `HANDLER`, `PREPARE`, `EXECUTE`: something of the connection is open.
    Open,
    /// A procedure, or a function that is not known: it may leave anything.
    Routine,
    /// Two-phase transactions.
    Xa,
    /// A database that each server has for itself.
    OwnDatabase,
    /// `/*! … */`.
    ExecutableComment,
    /// A statement that cannot be read, or is not known.
    Unclear,
    /// The client's character set is one in which quotes may be parts of other characters.
    Charset,
    /// More settings than are kept for replicas.
    ManySettings,
}

impl Pin {
    /// All of them.
    pub const ALL: [Pin; 12] = [
        Pin::UserVariable,
        Pin::Set,
        Pin::TemporaryTable,
        Pin::Lock,
        Pin::Open,
        Pin::Routine,
        Pin::Xa,
        Pin::OwnDatabase,
        Pin::ExecutableComment,
        Pin::Unclear,
        Pin::Charset,
        Pin::ManySettings,
    ];

    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Pin::UserVariable => "user variable",
            Pin::Set => "set",
            Pin::TemporaryTable => "temporary table",
            Pin::Lock => "lock",
            Pin::Open => "open handler or statement",
            Pin::Routine => "stored routine",
            Pin::Xa => "xa",
            Pin::OwnDatabase => "server's own database",
            Pin::ExecutableComment => "executable comment",
            Pin::Unclear => "unclear statement",
            Pin::Charset => "character set",
            Pin::ManySettings => "many settings",
        }
    }
}

/// What a statement does, the later the more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Reads tables: any server that has the session's writes may answer.
    Read,
    /// Asks about the statement before: the server that has answered that one knows.
    AfterLast,
    /// Reads what the primary knows.
    PrimaryRead,
    /// Sets something of the session that is repeated on replicas.
    Setting,
    /// Anything else.
    Write,
    /// The same, and something of it stays in the connection.
    Pin(Pin),
}

/// A hint in a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// `/* brisk:primary */`.
    Primary,
    /// `/* brisk:replica */`: what this session has written need not be there.
    Replica,
}

/// What a statement asks of the connection that has carried out those before it: no other one knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// What the last statement came to: `FOUND_ROWS()`, `ROW_COUNT()`, warnings.
    pub last: bool,
    /// The last number of an AUTO_INCREMENT column: `LAST_INSERT_ID()`.
    pub insert_id: bool,
}

/// See the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What it does.
    pub class: Class,
    /// Which server is asked for.
    pub hint: Option<Hint>,
    /// What it asks of statements before it.
    pub asks: Asks,
    /// It reads tables: one of them may be a view that calls a function which writes.
    pub tables: bool,
}

impl Verdict {
    /// Of what was not read.
    pub fn of(class: Class) -> Verdict {
        Verdict { class, hint: None, asks: Asks::default(), tables: false }
    }
}

/// What a backslash means to the server that reads a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backslashes {
    /// It escapes the next byte of a text: the default.
    Escape,
    /// It is an ordinary character: `NO_BACKSLASH_ESCAPES`.
    Plain,
    /// It is not known: a statement must mean the same both ways.
    Unknown,
}

impl Backslashes {
    /// As a server's status has them.
    pub fn of(status: u16) -> Backslashes {
        if status & status::NO_BACKSLASH_ESCAPES != 0 { Backslashes::Plain } else { Backslashes::Escape }
    }

    /// The ways to read a statement. No status tells of `ANSI_QUOTES`: they are tried both ways, where they change anything.
    fn readings(self) -> &'static [Escapes] {
        match self {
            Backslashes::Escape => &[Escapes::Both, Escapes::Single],
            Backslashes::Plain => &[Escapes::None],
            Backslashes::Unknown => &[Escapes::Both, Escapes::Single, Escapes::None],
        }
    }
}

/// Judges the text of a command: one statement, or several.
pub fn classify(text: &[u8], backslashes: Backslashes) -> Verdict {
    // In other character sets a byte of a character may look like a quote.
    if std::str::from_utf8(text).is_err() {
        return Verdict::of(Class::Pin(Pin::Unclear));
    }
    let [first, others @ ..] = backslashes.readings() else {
        return Verdict::of(Class::Pin(Pin::Unclear));
    };
    let mut verdict = judge(text, *first);
    if text.contains(&b'\\') {
        for escapes in others {
            let other = judge(text, *escapes);
            verdict.class = verdict.class.max(other.class);
            // A comment in one reading may be a text in another.
            verdict.hint = verdict.hint.filter(|_| verdict.hint == other.hint);
            verdict.asks.last |= other.asks.last;
            verdict.asks.insert_id |= other.asks.insert_id;
            verdict.tables |= other.tables;
        }
    }
    verdict
}

fn judge(text: &[u8], escapes: Escapes) -> Verdict {
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let (mut hint, mut floor) = (None, Class::Read);
    for token in Tokens::new(text, escapes) {
        match token {
            Token::Hint(b"primary") => hint = Some(Hint::Primary),
            Token::Hint(b"replica") => hint = hint.or(Some(Hint::Replica)),
            Token::Hint(_) => {}
            Token::Executable => floor = floor.max(Class::Pin(Pin::ExecutableComment)),
            Token::Unclear => floor = floor.max(Class::Pin(Pin::Unclear)),
            token => tokens.push(token),
        }
    }
    let (mut count, mut has_setting, mut has_inserted) = (0, false, false);
    let (mut class, mut asks, mut tables) = (floor, Asks::default(), false);
    for statement in tokens.split(|token| *token == Token::End).filter(|statement| !statement.is_empty()) {
        let statement = Statement(statement);
        let (one, asked) = (statement.class(), statement.asks());
        has_setting |= one == Class::Setting;
        tables |= statement.has("FROM") && !statement.is(0, "SHOW");
        class = class.max(one);
        // What a later one asks of an earlier one of the same command is known wherever that goes.
        asks.last |= asked.last && count == 0;
        asks.insert_id |= asked.insert_id && !has_inserted;
        has_inserted |= statement.is_any(0, &["INSERT", "REPLACE", "LOAD"]);
        count += 1;
    }
    match (count, class) {
        // Which of the settings hold if a later statement fails is not told, and replicas cannot be told of a part of a command.
        (2.., _) if has_setting && class <= Class::Write => class = Class::Pin(Pin::Set),
        (0, Class::Read) => class = Class::Write,
        _ => {}
    }
    Verdict { class, hint, asks, tables }
}

/// What kind of setting a statement is: [`Class::Setting`] in all ways to read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chooses<'t> {
    /// `USE`: a name that is the same in all character sets and modes.
    Database(&'t [u8]),
    /// `USE` with another name.
    OtherDatabase,
    /// `SET NAMES`.
    Names,
    /// Anything else.
    Other,
}

/// What a statement that is a setting chooses.
pub fn chosen_by(text: &[u8]) -> Chooses<'_> {
    let tokens: Vec<_> =
        Tokens::new(text, Escapes::Both).filter(|token| !matches!(token, Token::Hint(_))).collect();
    let words = tokens.strip_suffix(&[Token::End]).unwrap_or(&tokens);
    match words {
        [Token::Word(first), Token::Word(name) | Token::Name(name)] if first.eq_ignore_ascii_case(b"USE") => {
            let is_plain = name.iter().all(|byte| byte.is_ascii() && !matches!(byte, b'`' | b'"' | b'\\'));
            if is_plain { Chooses::Database(name) } else { Chooses::OtherDatabase }
        }
        [Token::Word(first), ..] if first.eq_ignore_ascii_case(b"USE") => Chooses::OtherDatabase,
        [_, Token::Word(second), ..] if second.eq_ignore_ascii_case(b"NAMES") => Chooses::Names,
        _ => Chooses::Other,
    }
}

/// The tokens of one statement.
#[derive(Clone, Copy)]
struct Statement<'s, 'a>(&'s [Token<'a>]);

impl<'a> Statement<'_, 'a> {
    fn word(&self, at: usize) -> Option<&'a [u8]> {
        match self.0.get(at) {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    fn is(&self, at: usize, word: &str) -> bool {
        self.word(at).is_some_and(|have| have.eq_ignore_ascii_case(word.as_bytes()))
    }

    fn is_any(&self, at: usize, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(at, word))
    }

    fn has(&self, word: &str) -> bool {
        (0..self.0.len()).any(|at| self.is(at, word))
    }

    fn is_sign(&self, at: usize, sign: u8) -> bool {
        self.0.get(at) == Some(&Token::Sign(sign))
    }

    fn class(&self) -> Class {
        let start = self.0.iter().take_while(|token| **token == Token::Sign(b'(')).count();
        let first = self.word(start).map(<[u8]>::to_ascii_uppercase).unwrap_or_default();
        match &first[..] {
            b"SELECT" | b"WITH" => self.reading(),
            _ if start > 0 => Class::Pin(Pin::Unclear),
            b"INSERT" | b"REPLACE" => self.writing(self.target()),
            b"UPDATE" | b"DELETE" | b"DO" => self.writing(1),
            b"SET" => settings::class(self),
            b"USE" => self.using(),
            b"SHOW" => self.showing(),
            b"BEGIN" | b"START" | b"COMMIT" | b"ROLLBACK" | b"SAVEPOINT" | b"RELEASE" => self.variables(),
            b"CREATE" | b"DROP" | b"ALTER" | b"TRUNCATE" | b"RENAME" => {
                let is_temporary = self.has("TEMPORARY");
                // A table made of a SELECT calls what that calls; columns look like calls otherwise.
                let computes = ["SELECT", "VALUES", "EVENT"].iter().any(|word| self.has(word));
                match () {
                    // It may be the default one, and then there is none.
                    () if first == b"DROP" && self.is_any(1, &["DATABASE", "SCHEMA"]) => {
                        Class::Pin(Pin::OwnDatabase)
                    }
                    () if is_temporary => Class::Pin(Pin::TemporaryTable),
                    () if computes => self.writing(1),
                    () => self.variables(),
                }
            }
            b"LOAD" if self.has("SET") => self.writing(1),
            // With ANALYZE it is carried out.
            b"EXPLAIN" | b"DESCRIBE" | b"DESC" if !self.has("ANALYZE") => {
                self.expressions().max(Class::PrimaryRead)
            }
            b"EXPLAIN" | b"DESCRIBE" | b"DESC" | b"KILL" => self.writing(1),
            b"FLUSH" if self.has("LOCK") || self.has("EXPORT") => Class::Pin(Pin::Lock),
            b"FLUSH" | b"OPTIMIZE" | b"REPAIR" | b"CHECK" | b"CHECKSUM" | b"GRANT" | b"REVOKE" | b"LOAD" => {
                self.variables()
            }
            b"LOCK" | b"UNLOCK" | b"BACKUP" => Class::Pin(Pin::Lock),
            b"HANDLER" | b"PREPARE" | b"EXECUTE" | b"DEALLOCATE" => Class::Pin(Pin::Open),
            b"CALL" => Class::Pin(Pin::Routine),
            b"XA" => Class::Pin(Pin::Xa),
            _ => Class::Pin(Pin::Unclear),
        }
    }

    /// A statement of which only variables may stay in the connection.
    fn variables(&self) -> Class {
        let has_variable = self.0.contains(&Token::UserVariable);
        if has_variable { Class::Pin(Pin::UserVariable) } else { Class::Write }
    }

    /// `INSERT [INTO] table`: where what follows the table's name begins, since a list of columns looks like a call.
    fn target(&self) -> usize {
        const BEFORE: &[&str] = &["LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO"];
        let mut at = 1;
        while self.is_any(at, BEFORE) {
            at += 1;
        }
        at += 1;
        if self.is_sign(at, b'.') { at + 2 } else { at }
    }

    fn writing(&self, from: usize) -> Class {
        let rest = Statement(self.0.get(from..).unwrap_or_default());
        rest.expressions().max(Class::Write)
    }

    fn reading(&self) -> Class {
        (0..self.0.len()).map(|at| self.clause(at)).fold(self.expressions(), Class::max)
    }

    /// What a word makes of a SELECT.
    fn clause(&self, at: usize) -> Class {
        let is_call = self.is_sign(at + 1, b'(');
        if self.is(at, "INTO") {
            return Class::Write;
        }
        if self.is(at, "FOR") {
            let is_harmless = self.is_any(at + 1, &["JOIN", "ORDER", "GROUP", "SYSTEM_TIME"])
                || self.word(at + 1).is_some_and(|word| word.iter().all(u8::is_ascii_digit));
            return match () {
                () if is_harmless && !self.is(at.wrapping_sub(1), "VALUE") => Class::Read,
                () if self.is_any(at + 1, &["UPDATE", "SHARE"]) => Class::PrimaryRead,
                () => Class::Write,
            };
        }
        if self.is(at, "LOCK") {
            return Class::PrimaryRead;
        }
        if self.is(at, "UPDATE") && self.is(at.wrapping_sub(1), "FOR") {
            return Class::Read;
        }
        let changes = &["INSERT", "UPDATE", "DELETE", "REPLACE"];
        if self.is_any(at, changes) && !is_call || self.is_any(at, &["PROCEDURE", "CALL"]) {
            return Class::Write;
        }
        if self.is_any(at, &["NEXTVAL", "LASTVAL", "CURRVAL"]) {
            return Class::Write;
        }
        let is_own_name = match self.0.get(at) {
            Some(Token::Word(name) | Token::Name(name)) => is_own_database(name),
            _ => false,
        };
        if is_own_name && self.is_sign(at + 1, b'.') { Class::PrimaryRead } else { Class::Read }
    }

    /// Variables and calls.
    fn expressions(&self) -> Class {
        (0..self.0.len()).map(|at| self.expression(at)).fold(Class::Read, Class::max)
    }

    fn expression(&self, at: usize) -> Class {
        let is_call = self.is_sign(at + 1, b'(');
        match self.0[at] {
            Token::UserVariable => Class::Pin(Pin::UserVariable),
            // The number of warnings is of the statement before; all others are the primary's.
            Token::SystemVariable if self.is_variable(at, &["warning_count", "error_count"]) => {
                Class::AfterLast
            }
            Token::SystemVariable => Class::PrimaryRead,
            Token::Name(_) if is_call => Class::Pin(Pin::Routine),
            Token::Word(_) if is_call && self.is_sign(at.wrapping_sub(1), b'.') => Class::Pin(Pin::Routine),
            Token::Word(name) if is_call => match effect(name) {
                Effect::None => Class::Read,
                Effect::AfterLast => Class::AfterLast,
                Effect::PrimaryRead => Class::PrimaryRead,
                Effect::Lock => Class::Pin(Pin::Lock),
                Effect::Unknown => Class::Pin(Pin::Routine),
            },
            _ => Class::Read,
        }
    }

    fn using(&self) -> Class {
        match self.0 {
            [_, Token::Word(name) | Token::Name(name)] => using(name),
            _ => Class::Pin(Pin::Unclear),
        }
    }

    fn showing(&self) -> Class {
        if self.shows_last() { Class::AfterLast } else { self.expressions().max(Class::PrimaryRead) }
    }

    fn shows_last(&self) -> bool {
        self.is_any(1, &["WARNINGS", "ERRORS"]) || self.is(1, "COUNT")
    }

    /// Whether one of these system variables of the session stands here.
    fn is_variable(&self, at: usize, names: &[&str]) -> bool {
        let has_scope = self.is_any(at + 1, &["SESSION", "LOCAL"]) && self.is_sign(at + 2, b'.');
        let name = if has_scope { at + 3 } else { at + 1 };
        self.0.get(at) == Some(&Token::SystemVariable) && self.is_any(name, names)
    }

    fn asks(&self) -> Asks {
        let all = || 0..self.0.len();
        let calls_last = |at: usize| {
            self.is_sign(at + 1, b'(') && self.word(at).is_some_and(|name| effect(name) == Effect::AfterLast)
        };
        let shows = self.is(0, "SHOW") && self.shows_last() || self.is(0, "GET");
        let counts = &["warning_count", "error_count"];
        let ids = &["last_insert_id", "identity"];
        let last = shows || all().any(|at| calls_last(at) || self.is_variable(at, counts));
        let insert_id = all().any(|at| {
            self.is_variable(at, ids) || self.is(at, "last_insert_id") && self.is_sign(at + 1, b'(')
        });
        Asks { last, insert_id }
    }
}

/// What another default database is.
pub fn using(database: &[u8]) -> Class {
    if is_own_database(database) { Class::Pin(Pin::OwnDatabase) } else { Class::Setting }
}

/// Databases in which each server tells of itself.
fn is_own_database(name: &[u8]) -> bool {
    const OWN: [&str; 4] = ["information_schema", "performance_schema", "mysql", "sys"];
    OWN.iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
}

/// Whether a client may log in with this collation: not with those of UCS-2, UTF-16 and UTF-32, which no server reads statements in.
pub fn is_of_clients(collation: u16) -> bool {
    let of_old = |collation| {
        matches!(collation, 35 | 54..=56 | 60..=62 | 90 | 101..=124 | 128..=151 | 159..=183)
            || matches!(collation, 640..=642 | 672..=674 | 736..=738)
    };
    // MariaDB's of UCA 14.0.0 begin there, those of UTF-8 first.
    !of_old(padding(collation)) && collation < 2560
}

/// The collation that pads of one that does not, as MariaDB numbers them.
fn padding(collation: u16) -> u16 {
    const NO_PAD: u16 = 1024;
    if (NO_PAD..2 * NO_PAD).contains(&collation) { collation - NO_PAD } else { collation }
}

/// Whether quotes and backslashes of a client with this collation are never parts of other characters: not in Big5, Shift-JIS, GBK
/// and GB18030. Nor does it have blanks where letters of UTF-8 may have bytes other than 0xa0, as KOI8 and those of the Macintosh have, nor
/// letters in the place of `@`, backslash and backtick, as Swedish ASCII has (`swe7`).
pub fn is_plain_charset(collation: u16) -> bool {
    let collation = padding(collation);
    let has_larger = matches!(collation, 1 | 13 | 28 | 84 | 87 | 88 | 95 | 96 | 248..=250);
    let has_other_blanks = matches!(collation, 7 | 22 | 38 | 39 | 43 | 53 | 74 | 75);
    let is_swedish = matches!(collation, 10 | 82);
    !has_larger && !has_other_blanks && !is_swedish
}
