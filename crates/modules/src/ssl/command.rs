//! `ssl_conf_command` and `…_ssl_conf_command`: OpenSSL's commands, as far as there is something to command.
//!
//! What servers and clients have in common is carried out here; the rest is for the module whose directive it is.

use super::rows;
use brisk_conf::{Diag, Token};
use brisk_server::conf::Cx;
use brisk_tls::{Groups, ListError, Suites, Versions};

/// What is offered in a handshake, on either side.
pub(super) struct Offered<'c> {
    /// Versions of the protocol.
    pub versions: &'c mut Versions,
    /// Cipher suites.
    pub suites: &'c mut Suites,
    /// Groups for the exchange of keys.
    pub groups: &'c mut Groups,
}

/// A block that commands change: what only servers or only back ends' settings have.
pub(super) trait Commanded {
    /// Takes the commands, in the order in which they stand: later ones overrule earlier ones, as with OpenSSL.
    fn take_commands(&mut self) -> Vec<(Token, Token)>;

    /// What handshakes of this block offer.
    fn offered(&mut self) -> Offered<'_>;

    /// One option of `Options`; false if this side does not know it.
    fn switch(&mut self, cx: &mut Cx<'_, '_>, command: &Command, name: &str, on: bool) -> Result<bool, Diag>;

    /// Any other command; false if this side does not know it.
    fn set(&mut self, command: &Command) -> Result<bool, Diag>;
}

/// Carries out a block's commands. One that is not known is an error, so that none is ignored.
pub(super) fn carry_out(cx: &mut Cx<'_, '_>, conf: &mut impl Commanded) -> Result<(), Diag> {
    for (name, argument) in conf.take_commands() {
        let command = Command { name, argument };
        if command.name.str() == "Options" {
            for option in command.argument.str().split(',') {
                command.carry_out_option(cx, conf, option.trim())?;
            }
        } else if !command.carry_out(cx, conf.offered())? && !conf.set(&command)? {
            return Err(command.unsupported());
        }
    }
    Ok(())
}

/// A command and its argument.
pub(super) struct Command {
    /// Of the command, as OpenSSL spells it.
    pub name: Token,
    /// Its one argument.
    pub argument: Token,
}

impl Command {
    /// The error for a command that cannot be carried out, in OpenSSL's words.
    pub fn failed(&self) -> Diag {
        let text = format!("SSL_CONF_cmd(\"{}\", \"{}\") failed", self.name.text(), self.argument.text());
        Diag::emerg(self.name.span, text)
    }

    /// The error for a command that has no counterpart here.
    fn unsupported(&self) -> Diag {
        self.failed().help("this command is not supported")
    }

    /// Says that an option does nothing.
    pub fn without_effect(&self, cx: &mut Cx<'_, '_>, option: &str) {
        cx.warn(Diag::notice(self.name.span, format!("the option {option} has no effect here")));
    }

    /// `Name` and `+Name` switch an option on, `-Name` off.
    fn carry_out_option(
        &self,
        cx: &mut Cx<'_, '_>,
        conf: &mut impl Commanded,
        option: &str,
    ) -> Result<(), Diag> {
        let (on, name) = switched(option);
        if conf.switch(cx, self, name, on)? {
            return Ok(());
        }
        if !IDLE_OPTIONS.contains(&name) {
            let text = format!("SSL_CONF_cmd(\"Options\", \"{option}\") failed");
            return Err(Diag::emerg(self.name.span, text));
        }
        self.without_effect(cx, name);
        Ok(())
    }

    /// Carries out a command about what is offered; false for any other.
    fn carry_out(&self, cx: &mut Cx<'_, '_>, offered: Offered<'_>) -> Result<bool, Diag> {
        let text = self.argument.str();
        let failed = || self.failed();
        let list = |error: ListError| match error {
            ListError::Unknown(name) => failed().help(format!("\"{name}\" is not known")),
            ListError::Empty => failed().help("nothing of it can be offered"),
            ListError::Command => failed().help("it is no list of ciphers"),
        };
        match self.name.str() {
            "Protocol" => protocol(offered.versions, text).ok_or_else(failed)?,
            "MinProtocol" => limit(offered.versions, text, true).ok_or_else(failed)?,
            "MaxProtocol" => limit(offered.versions, text, false).ok_or_else(failed)?,
            "CipherString" => {
                let missing = offered.suites.set_list(text).map_err(list)?;
                rows::warn_missing(cx, self.name.span, "cipher", &missing);
            }
            "Ciphersuites" => {
                let missing = offered.suites.set_tls13_list(text).map_err(list)?;
                rows::warn_missing(cx, self.name.span, "cipher", &missing);
            }
            // OpenSSL has both names for it.
            "Groups" | "Curves" => {
                let (groups, missing) = Groups::from_list(text).map_err(list)?;
                rows::warn_groups(cx, self.name.span, missing);
                *offered.groups = groups;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Options that do what is always done here, or that have no counterpart.
/// A notice is given for them, not an error: they stand in configurations that are right otherwise.
const IDLE_OPTIONS: &[&str] = &[
    "PrioritizeChaCha",
    "NoResumptionOnRenegotiation",
    "NoRenegotiation",
    "Bugs",
    "Compression",
    "EmptyFragments",
    "DHSingle",
    "ECDHSingle",
    "EncryptThenMac",
    "AllowNoDHEKEX",
    "MiddleboxCompat",
    "AntiReplay",
    "ExtendedMasterSecret",
    "CANames",
    "UnsafeLegacyRenegotiation",
    "UnsafeLegacyServerConnect",
    "ClientRenegotiation",
    "TxCertificateCompression",
    "RxCertificateCompression",
];

/// Whether a word of a list switches on what it names, or off.
fn switched(word: &str) -> (bool, &str) {
    match word.strip_prefix('-') {
        Some(name) => (false, name),
        None => (true, word.strip_prefix('+').unwrap_or(word)),
    }
}

/// `ALL,-TLSv1.2` and the like.
fn protocol(versions: &mut Versions, list: &str) -> Option<()> {
    for word in list.split(',').map(str::trim) {
        let (on, name) = switched(word);
        match name {
            "ALL" => (versions.tls12, versions.tls13) = (on, on),
            "TLSv1.2" => versions.tls12 = on,
            "TLSv1.3" => versions.tls13 = on,
            // Switching off what is not there is what is wanted; switching it on cannot be done.
            "SSLv2" | "SSLv3" | "TLSv1" | "TLSv1.1" if !on => {}
            _ => return None,
        }
    }
    (versions.tls12 || versions.tls13).then_some(())
}

/// `MinProtocol` and `MaxProtocol`: nothing is left if neither version is.
fn limit(versions: &mut Versions, version: &str, is_min: bool) -> Option<()> {
    match (version, is_min) {
        // The other version stays as it was: `MinProtocol` and `MaxProtocol` may stand beside each other.
        ("TLSv1.3", true) => versions.tls12 = false,
        ("TLSv1.2", false) => versions.tls13 = false,
        ("TLSv1.2" | "TLSv1.1" | "TLSv1" | "SSLv3" | "None", true) | ("TLSv1.3" | "None", false) => {}
        _ => return None,
    }
    (versions.tls12 || versions.tls13).then_some(())
}
