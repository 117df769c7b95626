//! The names of nginx's directives and variables, supported here or not: an unknown name is either nginx's or a mistake.

use crate::row::Arity;

/// Name, module, contexts, parameters, and what becomes of a directive that stands twice in a block: it is `refused` or
/// `taken`, as its setter has it; from nginx 1.31.5's sources.
const TABLE: &str = include_str!("nginx-directives.tsv");

/// Variable, module; a name that ends with `*` is a family.
const VARIABLES: &str = include_str!("nginx-variables.tsv");

/// One directive of nginx. A name that several modules have is listed once for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its name, as it is written.
    pub name: &'static str,
    /// As in nginx's sources: `ngx_http_core_module`.
    pub module: &'static str,
    /// Joined by commas: `main`, `http`, `http.server`, `http.location.if`, `stream`, …
    pub contexts: &'static str,
    /// nginx's word for the number of parameters: `TAKE12`, `1MORE`, `BLOCK,NOARGS`, …
    args: &'static str,
    /// May stand several times in one block. What is the same for each (the same zone, `off` beside others) may be refused
    /// nevertheless.
    pub many: bool,
}

impl Known {
    /// How many parameters nginx takes here.
    pub fn arity(&self) -> Arity {
        let block = self.args.starts_with("BLOCK,");
        let (mut min, mut max) = (u8::MAX, 0);
        for word in self.args.split(',') {
            let (low, high) = match word {
                "BLOCK" => continue,
                "NOARGS" => (0, 0),
                "FLAG" => (1, 1),
                "1MORE" => (1, u8::MAX),
                "2MORE" => (2, u8::MAX),
                // TAKE123: the digits are the numbers that are allowed.
                word => (word.as_bytes()[4] - b'0', word.as_bytes()[word.len() - 1] - b'0'),
            };
            (min, max) = (min.min(low), max.max(high));
        }
        Arity { min, max, block, may_block: false }
    }
}

/// All of them.
pub fn directives() -> impl Iterator<Item = Known> {
    TABLE.lines().skip(1).map(|line| {
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap_or_default();
        Known { name: next(), module: next(), contexts: next(), args: next(), many: next() == "taken" }
    })
}

/// The modules that have a directive of this name.
pub fn modules_with(name: &str) -> Vec<&'static str> {
    directives().filter(|known| known.name == name).map(|known| known.module).collect()
}

/// nginx's variables and their modules.
pub fn variables() -> impl Iterator<Item = (&'static str, &'static str)> {
    VARIABLES.lines().skip(1).filter_map(|line| line.split_once('\t'))
}

/// The module that has this variable.
pub fn module_with_variable(name: &str) -> Option<&'static str> {
    let is_it = |known: &str| match known.strip_suffix('*') {
        Some(family) => name.starts_with(family),
        None => name == known,
    };
    variables().find(|(known, _)| is_it(known)).map(|(_, module)| module)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        assert!(directives().count() > 700);
        assert!(directives().all(|known| known.module.starts_with("ngx_") && !known.contexts.is_empty()));
        assert_eq!(modules_with("gzip"), ["ngx_http_gzip_filter_module"]);
        assert_eq!(modules_with("no_such"), [""; 0]);
        assert_eq!(module_with_variable("upstream_http_x"), Some("ngx_http_upstream_module"));
        assert_eq!(module_with_variable("gzip_ratio"), Some("ngx_http_gzip_filter_module"));
        assert_eq!(module_with_variable("no_such"), None);
    }

    #[test]
    fn parameters_are_counted() {
        let arity = |name: &str| directives().find(|known| known.name == name).unwrap().arity();
        assert_eq!(arity("user"), Arity::between(1, 2));
        assert_eq!(arity("listen"), Arity::SOME);
        assert_eq!(arity("map"), Arity::TWO.block());
        assert!(directives().all(|known| known.arity().min <= known.arity().max));
    }
}
