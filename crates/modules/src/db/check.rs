//! What a `mysql_check` or `pgsql_check` says.

use crate::ssl::build::trust_of;
use brisk_conf::{Diag, Directive, Token, value};
use brisk_db::Terms;
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_tls::{ClientContext, ClientOptions, Verification};
use std::time::Duration;

/// What the servers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// MySQL or MariaDB.
    MySql,
    /// PostgreSQL.
    PgSql,
}

/// One directive.
pub struct Check {
    /// What the servers are.
    pub kind: Kind,
    /// The account that asks.
    pub user: String,
    /// Its password.
    pub(super) password: String,
    /// PostgreSQL: the database that is connected to.
    pub database: String,
    /// Between two rounds.
    pub interval: Duration,
    /// For one server's answers, with a new connection if that is needed.
    pub timeout: Duration,
    /// What is asked of servers.
    pub terms: Terms,
    /// Over TLS only.
    pub(super) tls: Option<Tls>,
}

/// TLS with a server that is asked.
#[derive(Clone)]
pub(super) struct Tls {
    pub context: ClientContext,
    /// Whether the server's certificate is checked: only then passwords are told.
    pub is_verified: bool,
}

impl Check {
    /// Reads the directive.
    pub fn read(cx: &mut Cx<'_, '_>, d: &Directive, kind: Kind) -> Result<Check, Diag> {
        let mut check = Check {
            kind,
            user: String::new(),
            password: String::new(),
            database: "postgres".into(),
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(2),
            terms: Terms { lag_max_ms: 10_000, fails: 2, passes: 1 },
            tls: None,
        };
        let mut has_password = false;
        for token in &d.args {
            has_password |= token.str().starts_with("password_file=");
            check.parameter(cx, token)?;
        }
        if check.user.is_empty() || !has_password {
            let name = d.name();
            return Err(Diag::emerg(d.span, format!("no user and password in \"{name}\""))
                .help(format!("say who asks, and what proves it: {name} user=NAME password_file=FILE;")));
        }
        Ok(check)
    }

    fn parameter(&mut self, cx: &mut Cx<'_, '_>, token: &Token) -> Result<(), Diag> {
        let invalid = || invalid_parameter(token);
        let time = |text: &str| value::parse_time(text.as_bytes(), false).ok_or_else(invalid);
        let count = |text: &str| text.parse::<u32>().ok().filter(|&count| count > 0).ok_or_else(invalid);
        match token.str().split_once('=') {
            Some(("user", name)) if is_name(name) => self.user = name.to_string(),
            Some(("database", name)) if is_name(name) && self.kind == Kind::PgSql => {
                self.database = name.to_string();
            }
            Some(("password_file", path)) if !path.is_empty() => self.password = password(cx, token, path)?,
            Some(("lag", text)) => self.terms.lag_max_ms = time(text)?,
            // Never 0: rounds without a pause would be a flood.
            Some(("interval", text)) => self.interval = Duration::from_millis(time(text)?.max(10)),
            Some(("timeout", text)) => self.timeout = Duration::from_millis(time(text)?.max(1)),
            Some(("fails", text)) => self.terms.fails = count(text)?,
            Some(("passes", text)) => self.terms.passes = count(text)?,
            Some(("ssl", path)) if !path.is_empty() => {
                let trust = trust_of(cx, &[Some(named(token, path))], None)?;
                self.tls = Some(tls(ClientOptions::new(Verification::On { trust, depth: DEPTH }), true)?);
            }
            None if token.str() == "ssl" => self.tls = Some(tls(ClientOptions::unverified(), false)?),
            _ => return Err(invalid()),
        }
        Ok(())
    }
}

/// Intermediate certificates of a server, at most.
const DEPTH: u32 = 4;

fn tls(options: ClientOptions, is_verified: bool) -> Result<Tls, Diag> {
    let context = ClientContext::new(&options).map_err(Diag::global)?;
    Ok(Tls { context, is_verified })
}

/// Names go into messages that end with a zero byte.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains('\0')
}

/// The part of a parameter that names a file.
fn named(token: &Token, path: &str) -> Token {
    Token { value: path.as_bytes().into(), ..token.clone() }
}

fn password(cx: &mut Cx<'_, '_>, token: &Token, path: &str) -> Result<String, Diag> {
    let bytes = cx.read_secret(&named(token, path))?;
    let text = std::str::from_utf8(&bytes).ok().and_then(|text| text.lines().next()).unwrap_or_default();
    if text.is_empty() || text.contains('\0') {
        return Err(Diag::emerg(token.span, format!("no password in \"{path}\""))
            .help("the first line of the file is the password"));
    }
    Ok(text.to_string())
}
