//! Reading `RewriteCond` and `RewriteRule`.

use super::rule::{Change, Cond, CondTest, End, Escapes, Flags, Next, Order, Query, Rule, Rules};
use super::template::Template;
use crate::expr::{Condition, Place};
use crate::limits::ROUNDS_MAX;
use crate::{FileTest, Origin, Patterns};
use std::sync::Arc;

/// Collects the directives of one server or directory in their order.
#[derive(Debug)]
pub struct Reader<P> {
    conditions: Vec<Cond<P>>,
    rules: Rules<P>,
}

impl<P> Default for Reader<P> {
    fn default() -> Reader<P> {
        Reader { conditions: Vec::new(), rules: Rules::default() }
    }
}

impl<P> Reader<P> {
    /// The arguments of a `RewriteCond`, for the next rule.
    ///
    /// # Errors
    /// What is wrong with them, in Apache's words.
    pub fn condition(
        &mut self,
        args: &[u8],
        origin: Origin,
        place: Place,
        patterns: &impl Patterns<Pattern = P>,
    ) -> Result<(), String> {
        let Some(Args { first, second, third, .. }) = arguments(args) else {
            return Err(bad_line("RewriteCond", args));
        };
        let condition = cond(&first, &second, third.as_deref(), place, patterns);
        let condition = condition.map_err(|why| format!("RewriteCond: {why}"))?;
        self.conditions.push(Cond { origin, ..condition });
        Ok(())
    }

    /// The arguments of a `RewriteRule`.
    ///
    /// # Errors
    /// What is wrong with them, in Apache's words.
    pub fn rule(
        &mut self,
        args: &[u8],
        origin: Origin,
        patterns: &impl Patterns<Pattern = P>,
    ) -> Result<(), String> {
        let Some(args) = arguments(args) else { return Err(bad_line("RewriteRule", args)) };
        let rule = rule(&args, std::mem::take(&mut self.conditions), origin, patterns);
        self.rules.list.push(Arc::new(rule.map_err(|why| format!("RewriteRule: {why}"))?));
        Ok(())
    }

    /// The rules. Conditions without a rule behind them have no effect.
    pub fn finish(self) -> Rules<P> {
        self.rules
    }
}

fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

fn bad_line(directive: &str, args: &[u8]) -> String {
    format!("{directive}: bad argument line '{}'", shown(args))
}

/// Two or three arguments. Unlike words, they keep their backslashes: `\ ` is a space of a pattern.
struct Args {
    first: Vec<u8>,
    second: Vec<u8>,
    third: Option<Vec<u8>>,
}

fn arguments(line: &[u8]) -> Option<Args> {
    let mut rest = line;
    let mut next = || {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return None;
        }
        let quote = Some(rest[0]).filter(|byte| matches!(byte, b'"' | b'\''));
        let text = &rest[usize::from(quote.is_some())..];
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            if quote.map_or(byte.is_ascii_whitespace(), |quote| byte == quote) {
                break;
            }
            let is_escape = byte == b'\\' && text.get(at + 1).is_some_and(u8::is_ascii_whitespace);
            at += 1 + usize::from(is_escape);
        }
        let at = at.min(text.len());
        rest = text.get(at + 1..).unwrap_or_default();
        Some(text[..at].to_vec())
    };
    Some(Args { first: next()?, second: next()?, third: next() })
}

/// `[L,R=301]`: each flag with its value, which is empty without one.
fn flags(text: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
    let inside = text.strip_prefix(b"[").and_then(|text| text.strip_suffix(b"]"));
    let inside = inside.ok_or("bad flag delimiters")?;
    let one = |flag: &[u8]| {
        let flag = flag.trim_ascii();
        let equals = flag.iter().position(|&byte| byte == b'=');
        let (name, value) = equals.map_or((flag, &[][..]), |at| (&flag[..at], &flag[at + 1..]));
        (shown(name), value.to_vec())
    };
    let list = inside.split(|&byte| byte == b',').map(one);
    Ok(list.filter(|(name, value)| !name.is_empty() || !value.is_empty()).collect())
}

fn cond<S: Patterns>(
    input: &[u8],
    pattern: &[u8],
    flag_list: Option<&[u8]>,
    place: Place,
    patterns: &S,
) -> Result<Cond<S::Pattern>, String> {
    let (mut ignores_case, mut or_next, mut is_unvaried) = (false, false, false);
    for (name, _) in flag_list.map(flags).transpose()?.unwrap_or_default() {
        match name.to_ascii_lowercase().as_str() {
            "nocase" | "nc" => ignores_case = true,
            "ornext" | "or" => or_next = true,
            "novary" | "nv" => is_unvaried = true,
            _ => return Err(format!("unknown flag '{name}'")),
        }
    }
    let (pattern, mut is_negated) = match pattern.strip_prefix(b"!") {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let is_expression = input.eq_ignore_ascii_case(b"expr");
    let test = if is_expression {
        let read = Condition::parse(pattern, place, patterns);
        CondTest::Expression(
            read.map_err(|why| format!("cannot compile expression \"{}\" {why}", shown(pattern)))?,
        )
    } else if let Some(test) = file_test(pattern) {
        test
    } else if let Some((order, number, is_inverted)) = number_test(pattern) {
        is_negated ^= is_inverted;
        CondTest::Number { order, value: crate::expr::leading_number(number) }
    } else if let Some((order, text)) = text_test(pattern) {
        CondTest::Text { order, text: text.to_vec(), ignores_case }
    } else {
        let compiled = patterns.compile(pattern, ignores_case);
        CondTest::Pattern(compiled.map_err(|why| cannot_compile(pattern, &why))?)
    };
    let input = if is_expression { Template::default() } else { Template::parse(input)? };
    Ok(Cond { input, test, is_negated, or_next, is_unvaried, origin: Origin::default() })
}

fn cannot_compile(pattern: &[u8], why: &str) -> String {
    format!("cannot compile regular expression '{}': {why}", shown(pattern))
}

fn file_test<P>(pattern: &[u8]) -> Option<CondTest<P>> {
    let [b'-', letter] = pattern else { return None };
    Some(match letter {
        b'f' => CondTest::File(FileTest::File),
        b's' => CondTest::File(FileTest::NotEmpty),
        b'd' => CondTest::File(FileTest::Directory),
        b'x' => CondTest::File(FileTest::Executable),
        b'h' | b'L' | b'l' => CondTest::File(FileTest::Link),
        b'U' => CondTest::Uri,
        b'F' => CondTest::Served,
        _ => return None,
    })
}

/// `-eq5`, which needs at least one character behind the operator.
fn number_test(pattern: &[u8]) -> Option<(Order, &[u8], bool)> {
    let (operator, number) = pattern.split_at_checked(3)?;
    if number.is_empty() {
        return None;
    }
    let order = match operator {
        b"-lt" => Order::Less,
        b"-le" => Order::LessOrEqual,
        b"-eq" | b"-ne" => Order::Equal,
        b"-ge" => Order::GreaterOrEqual,
        b"-gt" => Order::Greater,
        _ => return None,
    };
    Some((order, number, operator == b"-ne"))
}

/// `<a`, `>=a`, `=a`, `=""`. A single character is a pattern.
fn text_test(pattern: &[u8]) -> Option<(Order, &[u8])> {
    Some(match pattern {
        [_] | [] => return None,
        [b'>', b'=', text @ ..] => (Order::GreaterOrEqual, text),
        [b'>', text @ ..] => (Order::Greater, text),
        [b'<', b'=', text @ ..] => (Order::LessOrEqual, text),
        [b'<', text @ ..] => (Order::Less, text),
        [b'=', b'"', b'"'] => (Order::Equal, &[]),
        [b'=', text @ ..] => (Order::Equal, text),
        _ => return None,
    })
}

/// Flags of a rule while they are read.
struct Read {
    flags: Flags,
    query: Query,
    end: End,
    ignores_case: bool,
    allows_foreign_query: bool,
    keeps_slashes: bool,
    skip: usize,
    /// How captures are escaped, if they are.
    escapes: Escapes,
    escapes_captures: bool,
}

fn rule<S: Patterns>(
    args: &Args,
    conditions: Vec<Cond<S::Pattern>>,
    origin: Origin,
    patterns: &S,
) -> Result<Rule<S::Pattern>, String> {
    let mut read = Read {
        flags: Flags {
            status: 302,
            answers: false,
            is_chained: false,
            env: Vec::new(),
            cookies: Vec::new(),
            content_type: None,
            handler: None,
            escapes: None,
            keeps_raw: false,
            discards_path_info: false,
            is_for_main_requests: false,
            is_stat_trusted: false,
            next: Next::Skip(0),
        },
        query: Query::default(),
        end: End::Local,
        ignores_case: false,
        allows_foreign_query: false,
        keeps_slashes: false,
        skip: 0,
        escapes: Escapes::default(),
        escapes_captures: false,
    };
    for (name, value) in args.third.as_deref().map(flags).transpose()?.unwrap_or_default() {
        read.flag(&name, &value)?;
    }
    if read.escapes_captures {
        read.flags.escapes = Some(std::mem::take(&mut read.escapes));
    }
    if read.flags.next == Next::Skip(0) {
        read.flags.next = Next::Skip(read.skip);
    }
    let (pattern, is_negated) = match args.first.strip_prefix(b"!") {
        Some(pattern) => (pattern, true),
        None => (args.first.as_slice(), false),
    };
    let compiled = patterns.compile(pattern, read.ignores_case);
    let pattern = compiled.map_err(|why| cannot_compile(pattern, &why))?;
    let change = if args.second == b"-" || read.flags.answers {
        Change::None
    } else {
        read.substitution(&args.second)?
    };
    Ok(Rule { pattern, is_negated, conditions, change, flags: read.flags, origin })
}

impl Read {
    /// One flag, by its short or its long name.
    fn flag(&mut self, name: &str, value: &[u8]) -> Result<(), String> {
        let number = || crate::expr::leading_number(value);
        let flags = &mut self.flags;
        match name.to_ascii_lowercase().as_str() {
            "b" | "backrefescaping" => {
                self.escapes_captures = true;
                self.escapes.only = (!value.is_empty()).then(|| value.to_vec()).or(self.escapes.only.take());
            }
            "bne" if value.is_empty() => {
                return Err("flag 'BNE' wants a list of characters (i.e. [BNE=...])".into());
            }
            "bne" => self.escapes.never = value.to_vec(),
            "bnp" | "backrefernoplus" => self.escapes.has_no_plus = true,
            "bctls" => (self.escapes_captures, self.escapes.has_controls) = (true, true),
            "c" | "chain" => flags.is_chained = true,
            "co" | "cookie" => flags.cookies.push(Template::parse(value)?),
            "d" | "dpi" | "discardpath" => flags.discards_path_info = true,
            "e" | "env" => flags.env.push(Template::parse(value)?),
            "end" => self.later(Next::End),
            "f" | "forbidden" => (flags.answers, flags.status) = (true, 403),
            "g" | "gone" => (flags.answers, flags.status) = (true, 410),
            "h" | "handler" => flags.handler = Some(Template::parse(value)?),
            "l" | "last" => self.later(Next::Last),
            "n" | "next" => {
                let rounds =
                    if value.is_empty() { ROUNDS_MAX } else { number().clamp(0, ROUNDS_MAX.into()) as u32 };
                self.later(Next::Again(rounds));
            }
            "ne" | "noescape" => flags.keeps_raw = true,
            "ns" | "nosubreq" => flags.is_for_main_requests = true,
            "nc" | "nocase" => self.ignores_case = true,
            "p" | "proxy" => self.end = End::Proxy,
            "pt" | "passthrough" => self.later(Next::PassThrough),
            "qsa" | "qsappend" => self.query.appends = true,
            "qsd" | "qsdiscard" => self.query.discards = true,
            "qsl" | "qslast" => self.query.is_last = true,
            "r" | "redirect" => self.redirect(value)?,
            "s" | "skip" => self.skip = usize::try_from(number()).unwrap_or(0),
            "t" | "type" => flags.content_type = Some(Template::parse(value)?),
            "unsafeprefixstat" => flags.is_stat_trusted = true,
            "unsafeallow3f" => self.allows_foreign_query = true,
            "unc" => self.keeps_slashes = true,
            _ => return Err(format!("unknown flag '{name}'")),
        }
        Ok(())
    }

    /// What ends a pass earlier counts: PT and END before L, L before N, N before S.
    fn later(&mut self, next: Next) {
        let rank = |next| match next {
            Next::Skip(_) => 0,
            Next::Again(_) => 1,
            Next::Last => 2,
            Next::End => 3,
            Next::PassThrough => 4,
        };
        if rank(next) > rank(self.flags.next) {
            self.flags.next = next;
        }
    }

    fn redirect(&mut self, value: &[u8]) -> Result<(), String> {
        let status = match value.to_ascii_lowercase().as_slice() {
            b"" | b"temp" => 302,
            b"permanent" => 301,
            b"seeother" => 303,
            _ => {
                let status = u16::try_from(crate::expr::leading_number(value)).unwrap_or(0);
                if !is_status(status) {
                    let value = shown(value);
                    return Err(format!("invalid HTTP response code '{value}' for flag 'R'"));
                }
                status
            }
        };
        if matches!(status, 300 | 301 | 302 | 303 | 305 | 307 | 308) {
            self.end = End::Redirect;
        } else {
            self.flags.answers = true;
        }
        self.flags.is_for_main_requests = true;
        self.flags.status = status;
        Ok(())
    }

    fn substitution(&mut self, text: &[u8]) -> Result<Change, String> {
        let mut text = text;
        if let Some(before) = text.strip_suffix(b"?") {
            if self.query.appends {
                // What was captured must not begin the query.
                self.query.is_last = true;
            } else {
                self.query.is_none = true;
                text = before;
            }
        } else if self.query.discards && !text.contains(&b'?') {
            self.query.is_none = true;
        }
        Ok(Change::Substitute {
            template: Template::parse(text)?,
            text: text.to_vec(),
            query: self.query,
            end: self.end,
            allows_foreign_query: self.allows_foreign_query,
            keeps_slashes: self.keeps_slashes,
        })
    }
}

/// Statuses that Apache has a text for.
fn is_status(status: u16) -> bool {
    matches!(status, 100..=103 | 200..=208 | 226 | 300..=305 | 307 | 308 | 400..=418 | 421..=426 | 428 | 429 | 431 | 451 | 500..=508 | 510 | 511)
}
