//! Where Apache's commands differ from nginx's.

use brisk_server::request::Request;
use std::rc::Rc;

/// What knows the variables and expressions of Apache's language for a page.
pub trait Apache {
    /// Appends a variable's value; false if there is none.
    fn variable(&self, r: &Request, name: &[u8], out: &mut Vec<u8>) -> bool;

    /// Names and values that `printenv` shows.
    fn all(&self, r: &Request) -> Vec<(Vec<u8>, Vec<u8>)>;

    /// Whether the expression of an `if` holds.
    ///
    /// # Errors
    /// It cannot be understood or told; the text is for the log.
    fn holds(&self, r: &Request, expression: &[u8]) -> Result<bool, String>;
}

/// Whose commands a page has.
#[derive(Clone)]
pub enum Dialect {
    /// Those of `ngx_http_ssi_module`.
    Nginx,
    /// Those of mod_include.
    Apache(Rc<dyn Apache>),
}

/// Commands and their parameters; `true`: it must be there.
pub type Table = &'static [(&'static str, &'static [(&'static str, bool)])];

/// Those of nginx.
const COMMANDS: Table = &[
    ("include", &[("virtual", false), ("file", false), ("wait", false), ("set", false), ("stub", false)]),
    ("echo", &[("var", true), ("default", false), ("encoding", false)]),
    ("config", &[("errmsg", false), ("timefmt", false)]),
    ("set", &[("var", true), ("value", true)]),
    ("if", &[("expr", true)]),
    ("elif", &[("expr", true)]),
    ("else", &[]),
    ("endif", &[]),
    ("block", &[("name", true)]),
    ("endblock", &[]),
];

/// Commands of mod_include. What Brisk does not carry out is here, too: its place in the page says that there was an error.
const APACHE_COMMANDS: Table = &[
    ("include", &[("virtual", false), ("file", false), ("onerror", false)]),
    ("echo", &[("var", true), ("encoding", false), ("decoding", false)]),
    ("config", &[("errmsg", false), ("timefmt", false), ("sizefmt", false), ("echomsg", false)]),
    ("set", &[("var", true), ("value", true), ("encoding", false), ("decoding", false)]),
    ("if", &[("expr", true)]),
    ("elif", &[("expr", true)]),
    ("else", &[]),
    ("endif", &[]),
    ("printenv", &[]),
    ("exec", &[("cgi", false), ("cmd", false)]),
    ("flastmod", &[("virtual", false), ("file", false)]),
    ("fsize", &[("virtual", false), ("file", false)]),
    ("comment", &[]),
];

impl Dialect {
    /// The commands that it has.
    pub(super) fn commands(&self) -> Table {
        match self {
            Dialect::Nginx => COMMANDS,
            Dialect::Apache(_) => APACHE_COMMANDS,
        }
    }

    /// Whether parts of a page are fetched whoever may see them. `.htaccess` may switch Apache's commands on, whose writer need not be
    /// trusted with `internal` locations and with what asks for a password: as with mod_include, such a part is an error in the page.
    pub(super) fn trusts_pages(&self) -> bool {
        matches!(self, Dialect::Nginx)
    }

    /// What stands in the place of a command that failed.
    pub(super) fn error_text(&self) -> &'static [u8] {
        match self {
            Dialect::Nginx => b"[an error occurred while processing the directive]",
            Dialect::Apache(_) => b"[an error occurred while processing this directive]",
        }
    }
}
