//! `Order`, `Allow`, `Deny` and `Satisfy` of Apache 2.2 (mod_access_compat).

use super::methods::Methods;
use super::require::is_in_domain;
use crate::{Facts, Origin, Stop, Variable, network};
use brisk_conf::cidr::Cidr;

/// `Order`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// `Deny,Allow`: what no line names is allowed; `Allow` counts where both name it.
    #[default]
    DenyAllow,
    /// `Allow,Deny`: what no line names is denied; `Deny` counts where both name it.
    AllowDeny,
    /// `Mutual-failure`: what `Allow` names and `Deny` does not.
    MutualFailure,
}

/// `Satisfy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Satisfy {
    /// Both the address and the user.
    #[default]
    All,
    /// One of them.
    Any,
}

/// The clients that a line names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum From {
    All,
    Env(Vec<u8>),
    NotEnv(Vec<u8>),
    Ip(Cidr),
    Host(Vec<u8>),
}

/// One directory's lines.
#[derive(Clone, Debug, Default)]
pub struct Compat {
    orders: Vec<(Methods, Order)>,
    /// The line of the last of them.
    order_origin: Origin,
    satisfies: Vec<(Methods, Satisfy)>,
    allows: Vec<Named>,
    denies: Vec<Named>,
}

/// A word of an `Allow` or `Deny`, with its line.
#[derive(Clone, Debug)]
struct Named {
    methods: Methods,
    from: From,
    origin: Origin,
}

impl Compat {
    /// `Order`.
    ///
    /// # Errors
    /// It is none.
    pub fn order(&mut self, word: &[u8], methods: Methods, origin: Origin) -> Result<(), String> {
        let order = match word.to_ascii_lowercase().as_slice() {
            b"deny,allow" => Order::DenyAllow,
            b"allow,deny" => Order::AllowDeny,
            b"mutual-failure" => Order::MutualFailure,
            _ => return Err("unknown order".into()),
        };
        self.orders.push((methods, order));
        self.order_origin = origin;
        Ok(())
    }

    /// `Satisfy`.
    ///
    /// # Errors
    /// It is neither.
    pub fn satisfy(&mut self, word: &[u8], methods: Methods) -> Result<(), String> {
        let satisfy = match word.to_ascii_lowercase().as_slice() {
            b"all" => Satisfy::All,
            b"any" => Satisfy::Any,
            _ => return Err("Satisfy either 'any' or 'all'.".into()),
        };
        self.satisfies.push((methods, satisfy));
        Ok(())
    }

    /// `Allow from …` or `Deny from …`.
    ///
    /// # Errors
    /// What is wrong with the words.
    pub fn line(
        &mut self,
        is_allow: bool,
        mut words: impl Iterator<Item = Vec<u8>>,
        methods: &Methods,
        origin: &Origin,
    ) -> Result<(), String> {
        if !words.next().is_some_and(|word| word.eq_ignore_ascii_case(b"from")) {
            return Err("allow and deny must be followed by 'from'".into());
        }
        for word in words {
            let from = from(&word)?;
            let list = if is_allow { &mut self.allows } else { &mut self.denies };
            list.push(Named { methods: methods.clone(), from, origin: origin.clone() });
        }
        Ok(())
    }

    /// Whether nothing is written here. If there is one line, it takes the place of all those of the directories above,
    /// `Order` and `Satisfy` included.
    pub fn is_empty(&self) -> bool {
        self.orders.is_empty()
            && self.satisfies.is_empty()
            && self.allows.is_empty()
            && self.denies.is_empty()
    }

    /// `Satisfy` for a request's method.
    pub fn satisfies(&self, method: &[u8]) -> Satisfy {
        latest(&self.satisfies, method)
    }

    /// Whether the lines let a request in.
    ///
    /// # Errors
    /// A fact is to come.
    pub fn allows(&self, facts: &dyn Facts) -> Result<bool, Stop> {
        let method = facts.variable(&Variable::RequestMethod)?.into_owned();
        let allowed = names(&self.allows, &method, facts)?;
        let denied = names(&self.denies, &method, facts)?;
        let lets_in = match latest(&self.orders, &method) {
            Order::DenyAllow => allowed.is_some() || denied.is_none(),
            Order::AllowDeny | Order::MutualFailure => allowed.is_some() && denied.is_none(),
        };
        if facts.is_asked_why() && !self.is_empty() {
            self.tell(lets_in, allowed, denied, facts);
        }
        Ok(lets_in)
    }

    /// Says which lines name the client, the one that decided last; where none does, the order decides.
    fn tell(&self, lets_in: bool, allowed: Option<&Named>, denied: Option<&Named>, facts: &dyn Facts) {
        let (against, deciding) = if lets_in { (denied, allowed) } else { (allowed, denied) };
        let verb = |lets_in: bool| if lets_in { "allows the client" } else { "denies the client" };
        if let Some(line) = against {
            facts.tell(&line.origin, false, format_args!("{}, which does not count", verb(!lets_in)));
        }
        match deciding {
            Some(line) => facts.tell(&line.origin, true, format_args!("{}", verb(lets_in))),
            None => {
                let text = format_args!("no line names the client, so the order {}", verb(lets_in));
                facts.tell(&self.order_origin, true, text);
            }
        }
    }
}

fn latest<T: Copy + Default>(list: &[(Methods, T)], method: &[u8]) -> T {
    list.iter().rev().find(|(methods, _)| methods.has(method)).map(|(_, value)| *value).unwrap_or_default()
}

fn from(word: &[u8]) -> Result<From, String> {
    let starts =
        |with: &str| word.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()));
    if starts("env=!") {
        return Ok(From::NotEnv(word[5..].to_vec()));
    }
    if starts("env=") {
        return Ok(From::Env(word[4..].to_vec()));
    }
    if word.eq_ignore_ascii_case(b"all") {
        return Ok(From::All);
    }
    let network = std::str::from_utf8(word).ok().and_then(network::parse);
    match network {
        Some(network) => Ok(From::Ip(network)),
        None if word.contains(&b'/') => Err("An IP address was expected".into()),
        None if word.contains(&b'#') => Err("No comments are allowed here".into()),
        None => Ok(From::Host(word.to_vec())),
    }
}

/// The first of the words that names the client.
fn names<'l>(list: &'l [Named], method: &[u8], facts: &dyn Facts) -> Result<Option<&'l Named>, Stop> {
    for line in list.iter().filter(|line| line.methods.has(method)) {
        let is_it = match &line.from {
            From::All => true,
            From::Env(name) => facts.env(name).is_some(),
            From::NotEnv(name) => facts.env(name).is_none(),
            From::Ip(network) => network::contains(*network, facts.client()),
            From::Host(domain) => facts.client_host()?.is_some_and(|host| is_in_domain(domain, &host)),
        };
        if is_it {
            return Ok(Some(line));
        }
    }
    Ok(None)
}
