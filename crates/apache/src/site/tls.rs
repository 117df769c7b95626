//! `SSLEngine` and its relatives.

use super::build::statement;
use super::draft::{Done, Draft as Host, Tls, Translator};
use super::host::{path, word};
use crate::syntax::Node;
use brisk_conf::{Directive, Span};

/// Directives that change nothing here.
pub(super) const WITHOUT_EFFECT: &[&str] = &[
    "sslcompression",
    "sslcryptodevice",
    "sslfips",
    "sslinsecurerenegotiation",
    "sslpassphrasedialog",
    "sslrandomseed",
    "sslrenegbuffersize",
    "sslsessioncache",
    "sslsessioncachetimeout",
    "sslstaplingcache",
    "sslstrictsnivhostcheck",
];

impl Tls {
    /// Whether the host speaks TLS.
    pub fn is_on(&self) -> bool {
        self.engine == Some(true)
    }

    /// Decides where no line has, by whether all that the host listens on is for `https`.
    pub fn settle(&mut self, is_https: bool) {
        self.engine.get_or_insert(is_https && !self.certificates.is_empty());
    }

    /// Nothing where `SSLEngine` is off: certificates of such hosts need not be there.
    pub fn directives(&self, span: &dyn Fn(u32) -> Span) -> Vec<Directive> {
        let mut out: Vec<Directive> =
            self.single.iter().map(|(name, (line, args))| statement(span(*line), name, args)).collect();
        if self.is_on() {
            for (at, (line, certificate)) in self.certificates.iter().enumerate() {
                // The key may stand in the certificate's file.
                let (key_line, key) = self.keys.get(at).unwrap_or(&self.certificates[at]);
                out.push(statement(span(*line), "ssl_certificate", [certificate]));
                out.push(statement(span(*key_line), "ssl_certificate_key", [key]));
            }
            if let Some((line, chain)) = &self.chain {
                out.push(statement(span(*line), "ssl_certificate_chain", [chain]));
            }
        }
        out
    }
}

pub(super) fn line(this: &mut Translator<'_, '_>, name: &str, node: &Node, host: &mut Host) -> Done {
    if WITHOUT_EFFECT.contains(&name) {
        return Some(Ok(()));
    }
    let tls = &mut host.tls;
    let mut set = |name: &'static str, args: Result<Vec<String>, String>| {
        args.map(|args| _ = tls.single.insert(name, (node.line, args)))
    };
    let flag = |node: &Node| {
        let is_on = node.words().next().is_some_and(|word| word.eq_ignore_ascii_case(b"on"));
        vec![if is_on { "on" } else { "off" }.to_string()]
    };
    Some(match name {
        "sslengine" => match word(node, 0).map(|word| word.to_ascii_lowercase()).as_deref() {
            Ok("on") => {
                tls.engine = Some(true);
                Ok(())
            }
            Ok("off") => {
                tls.engine = Some(false);
                Ok(())
            }
            _ => Err("must be On or Off".into()),
        },
        "sslcertificatefile" => path(this, node, 0).map(|path| tls.certificates.push((node.line, path))),
        "sslcertificatekeyfile" => path(this, node, 0).map(|path| tls.keys.push((node.line, path))),
        "sslcertificatechainfile" => path(this, node, 0).map(|path| tls.chain = Some((node.line, path))),
        "sslprotocol" => set("ssl_protocols", protocols(node)),
        "sslciphersuite" => ciphers(node).and_then(|ciphers| match ciphers {
            Some(ciphers) => set("ssl_ciphers", Ok(vec![ciphers])),
            None => Ok(()),
        }),
        "sslhonorcipherorder" => set("ssl_prefer_server_ciphers", Ok(flag(node))),
        "sslsessiontickets" => set("ssl_session_tickets", Ok(flag(node))),
        "sslusestapling" => set("ssl_stapling", Ok(flag(node))),
        "sslcacertificatefile" => set("ssl_client_certificate", path(this, node, 0).map(|path| vec![path])),
        "sslcarevocationfile" => set("ssl_crl", path(this, node, 0).map(|path| vec![path])),
        "sslverifyclient" => match word(node, 0).map(|word| word.to_ascii_lowercase()).as_deref() {
            Ok("none") => set("ssl_verify_client", Ok(vec!["off".into()])),
            Ok("require") => set("ssl_verify_client", Ok(vec!["on".into()])),
            Ok("optional") => set("ssl_verify_client", Ok(vec!["optional".into()])),
            Ok("optional_no_ca") => set("ssl_verify_client", Ok(vec!["optional_no_ca".into()])),
            _ => Err("must be none, optional, require or optional_no_ca".into()),
        },
        "sslverifydepth" => set("ssl_verify_depth", word(node, 0).map(|depth| vec![depth])),
        "ssloptions" => options(this, node),
        _ => return None,
    })
}

/// `SSLProtocol all -SSLv3 -TLSv1`.
fn protocols(node: &Node) -> Result<Vec<String>, String> {
    const ALL: [&str; 4] = ["TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"];
    let mut on = [false; 4];
    for word in node.words() {
        let word = String::from_utf8_lossy(&word).into_owned();
        let (sign, name) = match word.split_at_checked(1) {
            Some((sign @ ("+" | "-"), name)) => (sign, name),
            _ => ("", word.as_str()),
        };
        if name.eq_ignore_ascii_case("SSLv3") || name.eq_ignore_ascii_case("SSLv2") {
            if sign != "-" {
                return Err("Brisk does not speak SSL 3: remove it".into());
            }
            continue;
        }
        let is_all = name.eq_ignore_ascii_case("all");
        let which: Vec<usize> = (0..4).filter(|&at| is_all || name.eq_ignore_ascii_case(ALL[at])).collect();
        if which.is_empty() {
            return Err(format!("Illegal protocol '{name}'"));
        }
        which.into_iter().for_each(|at| on[at] = sign != "-");
    }
    let names: Vec<String> = (0..4).filter(|&at| on[at]).map(|at| ALL[at].to_string()).collect();
    if names.is_empty() { Err("No SSL protocols available".into()) } else { Ok(names) }
}

/// The list for TLS 1.2 and older; that for 1.3 is not for a site to say.
fn ciphers(node: &Node) -> Result<Option<String>, String> {
    let words: Vec<_> = node.words().collect();
    match words.as_slice() {
        [ciphers] => Ok(Some(String::from_utf8_lossy(ciphers).into_owned())),
        [kind, ciphers] if kind.eq_ignore_ascii_case(b"ssl") => {
            Ok(Some(String::from_utf8_lossy(ciphers).into_owned()))
        }
        [kind, _] if kind.eq_ignore_ascii_case(b"tlsv1.3") => Ok(None),
        _ => Err("takes a list of ciphers, with SSL or TLSv1.3 before it".into()),
    }
}

/// `SSLOptions`: what would let clients in is refused.
fn options(this: &mut Translator<'_, '_>, node: &Node) -> Result<(), String> {
    for word in node.words() {
        let name = String::from_utf8_lossy(&word).trim_start_matches(['+', '-']).to_ascii_lowercase();
        let is_removed = word.starts_with(b"-");
        match name.as_str() {
            "fakebasicauth" if !is_removed => return Err("Brisk does not support FakeBasicAuth".into()),
            "stdenvvars" | "exportcertdata" if !is_removed => {
                this.notice(
                    node.line,
                    format!("SSLOptions {name} has no effect (yet): name variables by fastcgi_param"),
                );
            }
            "stdenvvars"
            | "exportcertdata"
            | "fakebasicauth"
            | "strictrequire"
            | "optrenegotiate"
            | "legacydnstringformat" => {}
            _ => return Err(format!("Illegal option '{name}'")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_added_and_taken_away() {
        for (args, wanted) in [
            ("all -SSLv3", Ok("TLSv1 TLSv1.1 TLSv1.2 TLSv1.3")),
            ("all -SSLv3 -TLSv1 -TLSv1.1", Ok("TLSv1.2 TLSv1.3")),
            ("-all +TLSv1.3", Ok("TLSv1.3")),
            ("TLSv1.2", Ok("TLSv1.2")),
            ("SSLv3", Err("Brisk does not speak SSL 3: remove it")),
            ("-all", Err("No SSL protocols available")),
            ("TLSv9", Err("Illegal protocol 'TLSv9'")),
        ] {
            let node = Node { name: "SSLProtocol".into(), args: args.into(), line: 1, children: None };
            let got = protocols(&node).map(|names| names.join(" "));
            assert_eq!(got.as_deref().map_err(String::as_str), wanted, "{args}");
        }
    }
}
