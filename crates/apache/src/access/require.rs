//! `Require`, `<RequireAll>`, `<RequireAny>`, `<RequireNone>` (mod_authz_core, mod_authz_host, mod_authz_user and their relatives).

use super::methods::Methods;
use crate::expr::{Condition, Evaluation, Place, Text};
use crate::syntax::Words;
use crate::{Facts, Origin, Pattern, Patterns, Stop, Variable, network};
use brisk_conf::cidr::Cidr;
use std::net::IpAddr;
use std::sync::Arc;

/// What rules say of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is answered.
    Granted,
    /// It is refused with 403, or 401 to a user who has logged in.
    Denied,
    /// It is refused unless somebody logs in.
    NeedsUser,
    /// Rules say nothing, which is a refusal where nothing else grants.
    Neutral,
}

/// A directory's rules.
#[derive(Debug)]
pub struct Requirements<P> {
    root: Arc<Rule<P>>,
}

impl<P> Clone for Requirements<P> {
    fn clone(&self) -> Requirements<P> {
        Requirements { root: self.root.clone() }
    }
}

/// `AuthMerging`: how rules join those of the directory above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Merging {
    /// They take their place.
    #[default]
    Off,
    /// Both must grant.
    And,
    /// One must grant.
    Or,
}

/// A section of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// `<RequireAll>`
    All,
    /// `<RequireAny>`, and what stands in no section.
    Any,
    /// `<RequireNone>`
    None,
}

#[derive(Debug)]
enum Rule<P> {
    Require { methods: Methods, is_negated: bool, provider: Provider<P>, origin: Origin },
    Rules { section: Section, list: Vec<Arc<Rule<P>>> },
}

/// What is required.
#[derive(Debug)]
enum Provider<P> {
    All(bool),
    Env(Vec<Vec<u8>>),
    Method(Methods),
    Expr(Condition<P>),
    Ip(Vec<Cidr>),
    Host(Text),
    ForwardDns(Text),
    Local,
    ValidUser,
    User(Text),
    Group(Text),
    FileOwner,
    FileGroup,
}

/// Collects the rules of one directory.
#[derive(Debug)]
pub struct Reader<P> {
    /// Sections that are open, from the outside in; the first is the directory's own.
    open: Vec<(Section, Vec<Arc<Rule<P>>>)>,
    /// Where the next line stands.
    origin: Origin,
}

impl<P> Default for Reader<P> {
    fn default() -> Reader<P> {
        Reader { open: vec![(Section::Any, Vec::new())], origin: Origin::default() }
    }
}

impl<P> Reader<P> {
    /// Begins a section.
    pub fn begin(&mut self, section: Section) {
        self.open.push((section, Vec::new()));
    }

    /// Ends the section that was begun last.
    ///
    /// # Errors
    /// It is empty, or has no effect where it stands.
    pub fn end(&mut self) -> Result<(), String> {
        let Some((section, list)) = self.open.pop().filter(|_| !self.open.is_empty()) else {
            return Err("no section of Require is open".into());
        };
        let name = section_name(section);
        if list.is_empty() {
            return Err(format!("<{name}> directive contains no authorization directives"));
        }
        let (outer, siblings) = self.open.last_mut().expect("the directory's own is never closed");
        if section == Section::None && *outer != Section::All {
            return Err(format!("<{name}> directive has no effect in <{}> directive", section_name(*outer)));
        }
        siblings.push(Arc::new(Rule::Rules { section, list }));
        Ok(())
    }

    /// The next `Require` stands there.
    pub fn from(&mut self, origin: Origin) -> &mut Reader<P> {
        self.origin = origin;
        self
    }

    /// The arguments of a `Require`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn require(
        &mut self,
        args: &[u8],
        methods: Methods,
        place: Place,
        patterns: &impl Patterns<Pattern = P>,
    ) -> Result<(), String> {
        let mut words = Words(args);
        let mut name = words.next().unwrap_or_default();
        let is_negated = name.eq_ignore_ascii_case(b"not");
        if is_negated {
            name = words.next().unwrap_or_default();
        }
        let provider = provider(&name, &words, place, patterns)?;
        let (section, siblings) = self.open.last_mut().expect("the directory's own is never closed");
        if is_negated && *section != Section::All {
            let section = section_name(*section);
            return Err(format!("negative Require directive has no effect in <{section}> directive"));
        }
        let origin = self.origin.clone();
        siblings.push(Arc::new(Rule::Require { methods, is_negated, provider, origin }));
        Ok(())
    }

    /// The rules; `None` if there are none.
    pub fn finish(mut self) -> Option<Requirements<P>> {
        let (section, list) = self.open.swap_remove(0);
        (!list.is_empty()).then(|| Requirements { root: Arc::new(Rule::Rules { section, list }) })
    }
}

fn section_name(section: Section) -> &'static str {
    match section {
        Section::All => "RequireAll",
        Section::Any => "RequireAny",
        Section::None => "RequireNone",
    }
}

fn provider<S: Patterns>(
    name: &[u8],
    args: &Words<'_>,
    place: Place,
    patterns: &S,
) -> Result<Provider<S::Pattern>, String> {
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let words = || args.clone();
    let text = || {
        Text::parse(args.rest(), place)
            .map_err(|why| format!("Cannot parse expression in require line: {why}"))
    };
    let some = || match words().next() {
        Some(_) => Ok(words().collect::<Vec<_>>()),
        None => Err(format!("'Require {name}' requires an argument")),
    };
    let names = || some().and_then(|_| text());
    Ok(match name.as_str() {
        "all" => match some()?.as_slice() {
            [word] if word.eq_ignore_ascii_case(b"granted") => Provider::All(true),
            [word] if word.eq_ignore_ascii_case(b"denied") => Provider::All(false),
            _ => return Err("Argument for 'Require all' must be 'granted' or 'denied'".into()),
        },
        "env" => Provider::Env(some()?),
        "method" => Provider::Method(Methods::Only(some()?)),
        "expr" => {
            // In quotation marks or without.
            let rest = args.rest();
            let mut quoted = words();
            let expression = match (rest.first(), quoted.next()) {
                (Some(b'"'), Some(word)) if quoted.next().is_none() => word,
                _ => rest.to_vec(),
            };
            let read = Condition::parse(&expression, place, patterns);
            Provider::Expr(read.map_err(|why| format!("Cannot parse expression in require line: {why}"))?)
        }
        "ip" => {
            let network = |word: &Vec<u8>| {
                let text = String::from_utf8_lossy(word);
                network::parse(&text).ok_or_else(|| format!("ip address '{text}' appears to be invalid"))
            };
            Provider::Ip(some()?.iter().map(network).collect::<Result<_, _>>()?)
        }
        "host" => Provider::Host(names()?),
        "forward-dns" => Provider::ForwardDns(names()?),
        "local" if words().next().is_some() => return Err("'Require local' does not take arguments".into()),
        "local" => Provider::Local,
        "valid-user" => Provider::ValidUser,
        "user" => Provider::User(names()?),
        "group" => Provider::Group(names()?),
        "file-owner" => Provider::FileOwner,
        "file-group" => Provider::FileGroup,
        _ => return Err(format!("Unknown Authz provider: {name}")),
    })
}

impl<P: Pattern> Requirements<P> {
    /// These rules in a directory below others.
    #[must_use]
    pub fn below(&self, above: Option<&Requirements<P>>, merging: Merging) -> Requirements<P> {
        let section = match merging {
            Merging::Off => return self.clone(),
            Merging::And => Section::All,
            Merging::Or => Section::Any,
        };
        let Some(above) = above else { return self.clone() };
        let list = vec![above.root.clone(), self.root.clone()];
        Requirements { root: Arc::new(Rule::Rules { section, list }) }
    }

    /// What they say of a request. [`Verdict::Neutral`] is a refusal.
    ///
    /// # Errors
    /// A fact is to come, or a rule cannot be judged: 500.
    pub fn judge(&self, facts: &dyn Facts) -> Result<Verdict, Stop> {
        let verdict = judge(&self.root, facts, Section::All)?;
        if facts.is_asked_why() {
            self.tell(verdict, facts)?;
        }
        Ok(verdict)
    }

    /// Says what each line has come to, those behind the result last.
    fn tell(&self, result: Verdict, facts: &dyn Facts) -> Result<(), Stop> {
        let mut lines = Vec::new();
        self.root.lines(facts, &mut lines)?;
        lines.sort_by_key(|(_, verdict)| *verdict == result);
        for (origin, verdict) in lines {
            let text = match verdict {
                Verdict::Granted => "grants",
                Verdict::Denied => "does not grant",
                Verdict::NeedsUser => "asks who the user is",
                Verdict::Neutral => "says nothing",
            };
            facts.tell(origin, verdict == result, format_args!("{text}"));
        }
        Ok(())
    }
}

impl<P: Pattern> Rule<P> {
    /// The lines that are for the request's method, with what each says by itself.
    fn lines<'r>(&'r self, facts: &dyn Facts, out: &mut Vec<(&'r Origin, Verdict)>) -> Result<(), Stop> {
        if !self.is_for(&facts.variable(&Variable::RequestMethod)?) {
            return Ok(());
        }
        match self {
            Rule::Rules { list, .. } => list.iter().try_for_each(|rule| rule.lines(facts, out)),
            Rule::Require { is_negated, provider, origin, .. } => {
                let verdict = provider.judge(facts)?;
                out.push((origin, if *is_negated { negated(verdict) } else { verdict }));
                Ok(())
            }
        }
    }
}

impl<P> Rule<P> {
    fn is_for(&self, method: &[u8]) -> bool {
        match self {
            Rule::Require { methods, .. } => methods.has(method),
            Rule::Rules { list, .. } => list.iter().any(|rule| rule.is_for(method)),
        }
    }
}

fn judge<P: Pattern>(rule: &Rule<P>, facts: &dyn Facts, parent: Section) -> Result<Verdict, Stop> {
    if !rule.is_for(&facts.variable(&Variable::RequestMethod)?) {
        // It is limited to other methods, with all that is in it.
        return Ok(if parent == Section::All { Verdict::Granted } else { Verdict::Neutral });
    }
    let (list, section) = match rule {
        Rule::Rules { section, list } => (list, *section),
        Rule::Require { is_negated, provider, .. } => {
            let verdict = provider.judge(facts)?;
            return Ok(if *is_negated { negated(verdict) } else { verdict });
        }
    };
    let inner = if section == Section::All { Section::All } else { Section::Any };
    let mut result = Verdict::Neutral;
    for rule in list {
        let one = judge(rule, facts, inner)?;
        let (decisive, other) = match inner {
            Section::All => (Verdict::Denied, Verdict::Granted),
            _ => (Verdict::Granted, Verdict::Denied),
        };
        if one == decisive {
            result = one;
            break;
        }
        // If a user could change the result, it says so.
        let asks = one == Verdict::NeedsUser && result == other;
        if one != Verdict::Neutral && (result == Verdict::Neutral || asks) {
            result = one;
        }
    }
    Ok(if section == Section::None { negated(result) } else { result })
}

/// That something does not hold grants nothing by itself.
fn negated(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Granted => Verdict::Denied,
        Verdict::Denied | Verdict::NeedsUser | Verdict::Neutral => Verdict::Neutral,
    }
}

impl<P: Pattern> Provider<P> {
    fn judge(&self, facts: &dyn Facts) -> Result<Verdict, Stop> {
        let user = || facts.variable(&Variable::RemoteUser);
        let holds = match self {
            Provider::All(is_granted) => *is_granted,
            Provider::Env(names) => names.iter().any(|name| facts.env(name).is_some()),
            Provider::Method(methods) => methods.has(&facts.variable(&Variable::RequestMethod)?),
            Provider::Ip(list) => list.iter().any(|network| network::contains(*network, facts.client())),
            Provider::Local => is_local(facts)?,
            Provider::Expr(condition) => {
                let holds = Evaluation::new(facts).holds(condition)?;
                if !holds && condition.reads_user() && user()?.is_empty() {
                    return Ok(Verdict::NeedsUser);
                }
                holds
            }
            Provider::Host(text) => {
                let names = Evaluation::new(facts).text(text)?;
                // A comment behind names is none: it must not grant to what it names.
                let names = names.split(|&byte| byte == b'#').next().unwrap_or_default();
                match facts.client_host()? {
                    Some(host) => Words(names).any(|name| is_in_domain(&name, &host)),
                    None => false,
                }
            }
            Provider::ForwardDns(text) => {
                let names = Evaluation::new(facts).text(text)?;
                let names = names.split(|&byte| byte == b'#').next().unwrap_or_default();
                for name in Words(names) {
                    if facts.is_address_of(&name)? {
                        return Ok(Verdict::Granted);
                    }
                }
                false
            }
            // The others are about a user: without one nothing is decided yet.
            _ if user()?.is_empty() => return Ok(Verdict::NeedsUser),
            Provider::ValidUser => true,
            Provider::User(text) => {
                let names = Evaluation::new(facts).text(text)?;
                let user = user()?;
                Words(&names).any(|name| *name == *user)
            }
            Provider::Group(text) => {
                let names = Evaluation::new(facts).text(text)?;
                for name in Words(&names) {
                    if facts.is_in_group(&name)? {
                        return Ok(Verdict::Granted);
                    }
                }
                false
            }
            Provider::FileOwner => *facts.variable(&Variable::ScriptUser)? == *user()?,
            Provider::FileGroup => {
                let group = facts.variable(&Variable::ScriptGroup)?;
                !group.is_empty() && facts.is_in_group(&group)?
            }
        };
        Ok(if holds { Verdict::Granted } else { Verdict::Denied })
    }
}

/// From this machine: a loopback address, or both sides of the connection have one address.
fn is_local(facts: &dyn Facts) -> Result<bool, Stop> {
    let client = facts.client().to_canonical();
    let own = network::address(&facts.variable(&Variable::ServerAddr)?);
    Ok(client.is_loopback() || own.map(|address: IpAddr| address.to_canonical()) == Some(client))
}

/// Whether a host is `domain`, or in it: `example.org` has `www.example.org`, not `badexample.org`.
pub(super) fn is_in_domain(domain: &[u8], host: &[u8]) -> bool {
    let Some(start) = host.len().checked_sub(domain.len()) else { return false };
    let is_end = host[start..].eq_ignore_ascii_case(domain);
    is_end && !domain.is_empty() && (start == 0 || domain[0] == b'.' || host[start - 1] == b'.')
}
