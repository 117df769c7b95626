//! How often servers are asked, and what follows from their answers: of all kinds of checks.

use brisk_balance::{Endpoint, PeerInfo};
use brisk_conf::{Diag, Directive, Token, value};
use brisk_server::conf::invalid_parameter;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// See the module's head.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Between two rounds.
    pub interval: Duration,
    /// Up to this much is added to each interval.
    pub jitter: Duration,
    /// Failures in a row after which a server is bad.
    pub fails: u32,
    /// Successes in a row after which a bad server is good again.
    pub passes: u32,
    /// Nothing is passed to a server before its first check has passed.
    pub mandatory: bool,
    /// What was known before a reload still counts.
    pub persistent: bool,
    /// Another port than that which is passed to.
    pub port: Option<u16>,
    /// What is written, by which the check of the next configuration is known to be the same.
    pub text: Arc<str>,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            interval: Duration::from_secs(5),
            jitter: Duration::ZERO,
            fails: 1,
            passes: 1,
            mandatory: false,
            persistent: false,
            port: None,
            text: Arc::default(),
        }
    }
}

impl Pace {
    /// Takes a parameter of `health_check`; false if it is none of these.
    pub fn parameter(&mut self, token: &Token) -> Result<bool, Diag> {
        let invalid = || invalid_parameter(token);
        let time = |text: &str| {
            let ms = value::parse_time(text.as_bytes(), false).ok_or_else(invalid)?;
            Ok::<_, Diag>(Duration::from_millis(ms))
        };
        let count = |text: &str| text.parse::<u32>().ok().filter(|&count| count > 0).ok_or_else(invalid);
        match token.str().split_once('=') {
            // Never 0: rounds without a pause would be a flood.
            Some(("interval", text)) => self.interval = time(text)?.max(Duration::from_millis(1)),
            Some(("jitter", text)) => self.jitter = time(text)?,
            Some(("fails", text)) => self.fails = count(text)?,
            Some(("passes", text)) => self.passes = count(text)?,
            Some(("port", text)) => {
                self.port = Some(text.parse::<u16>().ok().filter(|&port| port > 0).ok_or_else(invalid)?);
            }
            None if token.str() == "mandatory" => self.mandatory = true,
            None if token.str() == "persistent" => self.persistent = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether its parameters go together, once all of them have been read.
    pub fn check(&mut self, d: &Directive) -> Result<(), Diag> {
        if self.persistent && !self.mandatory {
            return Err(Diag::emerg(d.span, "\"persistent\" requires \"mandatory\"")
                .help("add mandatory, or remove persistent"));
        }
        self.text = d.args.iter().map(Token::str).collect::<Vec<_>>().join(" ").into();
        Ok(())
    }
}

/// What a server is asked, whatever the protocol.
pub(super) trait Asks {
    /// Asks the server at `endpoint`; the error says why it is not well.
    fn ask<'a>(
        &'a self,
        endpoint: Endpoint,
        peer: &'a Arc<PeerInfo>,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + 'a>>;
}
