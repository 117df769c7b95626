//! One row of data per directive, and the check of a directive against its row.

use crate::diag::{Diag, did_you_mean};
use crate::limits::USAGE_CHARS_MAX;
use crate::parser::Directive;
use crate::takes::Takes;
use crate::{hints, nginx};

/// A set of contexts in which a directive may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context(pub u32);

impl Context {
    /// Outside of all blocks.
    pub const MAIN: Context = Context(1);
    /// `events { … }`
    pub const EVENTS: Context = Context(1 << 1);
    /// `http { … }`
    pub const HTTP: Context = Context(1 << 2);
    /// `server { … }` in `http`.
    pub const SERVER: Context = Context(1 << 3);
    /// `location … { … }`
    pub const LOCATION: Context = Context(1 << 4);
    /// `if (…) { … }` in `server`.
    pub const SERVER_IF: Context = Context(1 << 5);
    /// `if (…) { … }` in `location`.
    pub const LOCATION_IF: Context = Context(1 << 6);
    /// `limit_except … { … }`
    pub const LIMIT_EXCEPT: Context = Context(1 << 7);
    /// `upstream … { … }` in `http`.
    pub const UPSTREAM: Context = Context(1 << 8);
    /// `stream { … }`
    pub const STREAM: Context = Context(1 << 9);
    /// `server { … }` in `stream`.
    pub const STREAM_SERVER: Context = Context(1 << 10);
    /// `upstream … { … }` in `stream`.
    pub const STREAM_UPSTREAM: Context = Context(1 << 11);
    /// Further directives of a location, compiled after the start. No directive names this context: they stand there as in
    /// [`Context::LOCATION`]. Blocks enter it, as what is inherited differs.
    pub const LATE: Context = Context(1 << 12);

    /// Blocks that belong to the location around them.
    pub const SAME_LOCATION: Context = Context(1 << 6 | 1 << 7 | 1 << 12);

    /// `http`, `server`, `location`: where most directives live.
    pub const HSL: Context = Context(1 << 2 | 1 << 3 | 1 << 4);
    /// `http`, `server`.
    pub const HS: Context = Context(1 << 2 | 1 << 3);
    /// [`Context::HSL`] and `if in location`.
    pub const HSLI: Context = Context(1 << 2 | 1 << 3 | 1 << 4 | 1 << 6);

    const NAMES: [(Context, &'static str); 12] = [
        (Context::MAIN, "main"),
        (Context::EVENTS, "events"),
        (Context::HTTP, "http"),
        (Context::SERVER, "server"),
        (Context::LOCATION, "location"),
        (Context::SERVER_IF, "if in server"),
        (Context::LOCATION_IF, "if in location"),
        (Context::LIMIT_EXCEPT, "limit_except"),
        (Context::UPSTREAM, "upstream"),
        (Context::STREAM, "stream"),
        (Context::STREAM_SERVER, "server in stream"),
        (Context::STREAM_UPSTREAM, "upstream in stream"),
    ];

    /// The contexts of both sets.
    #[must_use]
    pub const fn or(self, other: Context) -> Context {
        Context(self.0 | other.0)
    }

    /// Whether the sets have a context in common.
    pub const fn has(self, other: Context) -> bool {
        self.0 & other.0 != 0
    }

    /// The contexts by name, joined by `, `.
    pub fn names(self) -> String {
        let names: Vec<_> = Context::NAMES.iter().filter(|(c, _)| self.has(*c)).map(|&(_, n)| n).collect();
        names.join(", ")
    }
}

/// How many parameters a directive takes, and whether a block follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arity {
    /// The fewest parameters.
    pub min: u8,
    /// `u8::MAX`: any number.
    pub max: u8,
    /// Whether a block follows.
    pub block: bool,
    /// Whether one may follow.
    pub may_block: bool,
}

impl Arity {
    /// No parameter.
    pub const NONE: Arity = Arity::exactly(0);
    /// One parameter.
    pub const ONE: Arity = Arity::exactly(1);
    /// Two parameters.
    pub const TWO: Arity = Arity::exactly(2);
    /// Any number of parameters, none included.
    pub const ANY: Arity = Arity::at_least(0);
    /// At least one parameter.
    pub const SOME: Arity = Arity::at_least(1);

    /// Just so many parameters, and no block.
    pub const fn exactly(count: u8) -> Arity {
        Arity { min: count, max: count, block: false, may_block: false }
    }

    /// From `min` to `max` parameters, and no block.
    pub const fn between(min: u8, max: u8) -> Arity {
        Arity { min, max, block: false, may_block: false }
    }

    /// At least so many parameters, and no block.
    pub const fn at_least(min: u8) -> Arity {
        Arity { min, max: u8::MAX, block: false, may_block: false }
    }

    /// The same with a block.
    #[must_use]
    pub const fn block(self) -> Arity {
        Arity { block: true, ..self }
    }

    /// The same with or without a block.
    #[must_use]
    pub const fn or_block(self) -> Arity {
        Arity { may_block: true, ..self }
    }
}

/// What a directive's value is where it is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// Parameters as one would write them; the directive's own setter is run on them.
    Value(&'static str),
    /// For the documentation alone: the code derives it from something else.
    Told(&'static str),
    /// Off, empty or absent.
    Nothing,
}

/// What an enclosed block takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inherit {
    /// The enclosing block's value, unless the directive is written here.
    Replace,
    /// Nothing: the directive acts only in the block in which it stands.
    No,
    /// Does not apply: definitions and whole blocks.
    Definition,
}

/// What a changed value needs before it counts. With any of them, requests in progress end as they began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applies {
    /// A reload: the worker goes on with the new configuration.
    Reload,
    /// A reload, which starts another worker process and lets the old one finish.
    Worker,
    /// Another start: the master has read it.
    Start,
}

impl Applies {
    /// As the documents say it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Applies::Reload => "reload",
            Applies::Worker => "new worker",
            Applies::Start => "restart",
        }
    }
}

/// What a wrong value can do at worst: what a program that changes values by itself must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Risk {
    /// Requests are served slower or at a higher price. Every answer stays the same.
    Safe,
    /// Memory, disk, connections or processor time run out, or requests are refused for lack of them.
    Resource,
    /// Clients, back ends or readers of logs see something else.
    Behaviour,
    /// Access is given to what it should not be, or a bound on what strangers may cause is lost.
    Security,
}

impl Risk {
    /// As the documents say it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Risk::Safe => "safe",
            Risk::Resource => "resource",
            Risk::Behaviour => "behaviour",
            Risk::Security => "security",
        }
    }
}

/// One directive. `S` is what carries it out; documentation and checks do not care.
#[derive(Clone, Copy)]
pub struct Row<S: 'static> {
    /// As it is written.
    pub name: &'static str,
    /// The blocks that it may stand in.
    pub contexts: Context,
    /// How many parameters it has.
    pub arity: Arity,
    /// What its parameters are.
    pub takes: Takes,
    /// What a number counts; bytes, milliseconds and seconds follow from the type.
    pub unit: &'static str,
    /// What holds where it is not written.
    pub default: Default,
    /// What inner blocks take over.
    pub inherit: Inherit,
    /// May stand several times in one block.
    pub many: bool,
    /// What a change of it needs.
    pub applies: Applies,
    /// What a wrong value can do at worst.
    pub risk: Risk,
    /// One to three sentences: what it does, its unit, how it differs from nginx.
    pub doc: &'static str,
    /// A whole statement, as it could stand in a configuration.
    pub example: &'static str,
    /// What carries it out.
    pub set: S,
}

impl<S> Row<S> {
    /// As nginx's documents write it: what is given is in small letters or symbols, what is meant is in capitals.
    pub fn usage(&self) -> String {
        let arguments = self.takes.arguments();
        let space = if arguments.is_empty() { "" } else { " " };
        let end = if self.arity.block { " { … }" } else { ";" };
        format!("{}{space}{arguments}{end}", self.name)
    }

    /// Gives an error in the directive's parameters that says no remedy how they are written.
    #[must_use]
    pub fn explain(&self, diag: Diag) -> Diag {
        // Of a block it is what stands in it, and of a file the system has said what is wrong.
        if diag.help.is_some() || self.arity.block || diag.message.contains(" failed (") {
            return diag;
        }
        let (usage, example) = (self.usage(), self.example);
        let usage = if usage.chars().count() > USAGE_CHARS_MAX || usage.trim_end_matches(';') == self.name {
            format!("`brisk directives {}` tells how it is written", self.name)
        } else {
            format!("write: {usage}")
        };
        diag.help(if example.is_empty() { usage } else { format!("{usage}, such as: {example}") })
    }
}

/// Checks context, arity and the presence of a block. `others` names all known directives.
pub fn check<S>(row: &Row<S>, directive: &Directive, context: Context) -> Result<(), Diag> {
    let name = row.name;
    let last = directive.args.last().unwrap_or(&directive.name).span;
    if !row.contexts.has(context) {
        let (here, wanted) = (context.names(), row.contexts.names());
        let is_site = context == Context::MAIN && row.contexts.has(Context::HSL);
        let more =
            if is_site { "; a site's own file is included in the http block of the main one" } else { "" };
        return Err(Diag::emerg(directive.span, format!("\"{name}\" directive is not allowed here"))
            .help(format!("\"{name}\" belongs in {wanted}; this is {here}{more}"))
            .misplaced());
    }
    if row.arity.block && directive.block.is_none() {
        return Err(Diag::emerg(directive.span, format!("directive \"{name}\" has no opening \"{{\""))
            .help(format!("write: {name} … {{ … }}")));
    }
    if !row.arity.block && !row.arity.may_block && directive.block.is_some() {
        return Err(Diag::emerg(directive.span, format!("directive \"{name}\" is not terminated by \";\""))
            .at(last.behind())
            .help("it takes no block; is a \";\" missing here?"));
    }
    let count = directive.args.len();
    let (min, max) = (usize::from(row.arity.min), usize::from(row.arity.max));
    if count < min || (max < usize::from(u8::MAX) && count > max) {
        let wants = match (min, max) {
            (0, 0) => "no parameter".to_string(),
            (1, 1) => "1 parameter".to_string(),
            (a, b) if a == b => format!("{a} parameters"),
            (a, 255) => format!("at least {a} parameter{}", if a == 1 { "" } else { "s" }),
            (a, b) => format!("{a} to {b} parameters"),
        };
        return Err(Diag::emerg(
            directive.span,
            format!("invalid number of arguments in \"{name}\" directive"),
        )
        .help(format!(
            "it takes {wants}, {count} given{}",
            if count > max { "; is the \";\" missing at the end of this line?" } else { "" }
        )));
    }
    Ok(())
}

/// The error for a name that no row has.
pub fn unknown<'a>(directive: &Directive, names: impl Iterator<Item = &'a str> + Clone) -> Diag {
    let name = directive.name();
    let diag = Diag::emerg(directive.name.span, format!("unknown directive \"{name}\""));
    let modules = nginx::modules_with(name);
    if !modules.is_empty() {
        let modules = modules.join(", ");
        return diag.help(format!(
            "nginx has it in {modules}; Brisk does not support it (yet): see `brisk coverage`"
        ));
    }
    let near = || did_you_mean(name, names.clone()).map(|near| format!("did you mean \"{near}\"?"));
    let help =
        hints::unknown(directive, names.clone()).or_else(near).or_else(|| hints::longer(name, names.clone()));
    diag.help(help.unwrap_or_else(|| "`brisk directives` lists the directives that are supported".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoFiles, SourceMap, parse};

    const ROW: Row<()> = Row {
        name: "root",
        contexts: Context::HSL,
        arity: Arity::ONE,
        takes: Takes::Own("PATH"),
        unit: "",
        default: Default::Value("html"),
        inherit: Inherit::Replace,
        many: false,
        applies: Applies::Reload,
        risk: Risk::Security,
        doc: "",
        example: "",
        set: (),
    };

    fn message(text: &str, context: Context) -> String {
        let mut sources = SourceMap::default();
        let file = sources.add("f", text.as_bytes().to_vec());
        let tree = parse(&mut sources, file, &NoFiles, &mut Vec::new());
        check(&ROW, &tree[0], context).err().map_or(String::new(), |d| d.message + " / " + &d.help.unwrap())
    }

    #[test]
    fn a_directive_is_compared_with_its_row() {
        assert_eq!(message("root /x;", Context::SERVER), "");
        assert_eq!(
            message("root /x;", Context::MAIN),
            "\"root\" directive is not allowed here / \"root\" belongs in http, server, location; this is main; a site's own file is included in the http block of the main one"
        );
        assert_eq!(
            message("root /x index;", Context::HTTP),
            "invalid number of arguments in \"root\" directive / it takes 1 parameter, 2 given; is the \";\" missing at the end of this line?"
        );
        assert!(
            message("root /x {}", Context::HTTP).starts_with("directive \"root\" is not terminated by \";\"")
        );
    }

    #[test]
    fn an_unknown_directive_is_nginxs_or_a_slip_of_the_keyboard() {
        let help = |text: &str| {
            let mut sources = SourceMap::default();
            let file = sources.add("f", text.as_bytes().to_vec());
            let tree = parse(&mut sources, file, &NoFiles, &mut Vec::new());
            unknown(&tree[0], ["root", "listen"].into_iter()).help.unwrap_or_default()
        };
        assert!(help("gzip on;").starts_with("nginx has it in ngx_http_gzip_filter_module; Brisk does not"));
        assert_eq!(help("rooot /x;"), "did you mean \"root\"?");
        assert!(help("frobnicate;").contains("`brisk directives`"));
    }
}
