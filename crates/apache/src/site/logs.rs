//! `ErrorLog`, `LogLevel`, `LogFormat`, `CustomLog`.

use super::build::{block, statement};
use super::draft::{Done, Draft, Formats, Translator};
use super::host::{literal, path, word};
use crate::syntax::Node;
use brisk_conf::{Directive, Span};

/// Apache's Common Log Format.
const CLF: &[u8] = b"%h %l %u %t \"%r\" %>s %b";

impl Formats {
    /// The `log_format`s.
    pub fn directives(&self, span: &dyn Fn(u32) -> Span) -> Vec<Directive> {
        let format = |(index, (text, line)): (usize, &(String, u32))| {
            statement(span(*line), "log_format", [&format!("apache_{index}"), text])
        };
        let without = |(name, line): (&String, &u32)| {
            let at = span(*line);
            let args = [format!("$apache_env_{name}"), format!("$apache_without_{name}")];
            block(at, "map", args, vec![statement(at, "", ["1"]), statement(at, "default", ["0"])])
        };
        self.used.iter().enumerate().map(format).chain(self.without.iter().map(without)).collect()
    }

    /// `env=NAME`, `env=!NAME` as the value of `if=`.
    fn condition(&mut self, text: &str, line: u32) -> Result<String, String> {
        let name = text.strip_prefix("env=").ok_or_else(|| {
            format!("Brisk does not support the condition '{text}' (yet): env=NAME and env=!NAME only")
        })?;
        let (is_negated, name) = name.strip_prefix('!').map_or((false, name), |name| (true, name));
        let name = variable(name)?;
        if is_negated {
            self.without.entry(name.clone()).or_insert(line);
            return Ok(format!("if=$apache_without_{name}"));
        }
        Ok(format!("if=$apache_env_{name}"))
    }

    /// The name of a format.
    fn name(&mut self, format: &[u8], line: u32) -> Result<String, String> {
        let text = translated(format)?;
        let index = self.used.iter().position(|(known, _)| *known == text).unwrap_or_else(|| {
            self.used.push((text, line));
            self.used.len() - 1
        });
        Ok(format!("apache_{index}"))
    }
}

pub(super) fn line(this: &mut Translator<'_, '_>, name: &str, node: &Node, draft: &mut Draft) -> Done {
    Some(match name {
        "errorlog" => target(this, node).map(|target| draft.error_log = Some((node.line, target))),
        "loglevel" => level(node).map(|level| draft.log_level = level.or(draft.log_level)),
        "errorlogformat" => {
            this.notice(node.line, "ErrorLogFormat has no effect: the error log has nginx's format");
            Ok(())
        }
        "logformat" => (|| {
            let mut words = node.words();
            let format = words.next().ok_or("takes a format")?;
            let text = this.files_format(format);
            match words.next() {
                Some(nickname) => {
                    let nickname = String::from_utf8_lossy(&nickname).into_owned();
                    this.formats.nicknames.insert(nickname, text);
                }
                None => this.formats.transfer = Some(text),
            }
            Ok(())
        })(),
        "customlog" => custom(this, node, draft),
        "transferlog" => target(this, node).and_then(|target| {
            let format = this.formats.transfer.clone().unwrap_or_else(|| CLF.to_vec());
            log(this, node, draft, &target, &format, None)
        }),
        "globallog" => {
            Err("Brisk has no log for all hosts: write CustomLog into each, or outside of them".into())
        }
        _ => return None,
    })
}

impl Translator<'_, '_> {
    /// The format that a nickname stands for, or the format itself.
    fn files_format(&self, format: Vec<u8>) -> Vec<u8> {
        let known = std::str::from_utf8(&format).ok().and_then(|name| self.formats.nicknames.get(name));
        known.cloned().unwrap_or(format)
    }
}

fn custom(this: &mut Translator<'_, '_>, node: &Node, draft: &mut Draft) -> Result<(), String> {
    let target = target(this, node)?;
    let mut words = node.words().skip(1);
    let format = words.next().ok_or("takes a file and a format")?;
    let condition = words.next().map(|text| String::from_utf8_lossy(&text).into_owned());
    let condition = condition.map(|text| this.formats.condition(&text, node.line)).transpose()?;
    let format = this.files_format(format);
    log(this, node, draft, &target, &format, condition)
}

fn log(
    this: &mut Translator<'_, '_>,
    node: &Node,
    draft: &mut Draft,
    target: &str,
    format: &[u8],
    condition: Option<String>,
) -> Result<(), String> {
    let name = this.formats.name(format, node.line)?;
    let args: Vec<String> = [target.to_string(), name].into_iter().chain(condition).collect();
    draft.access_logs.push(this.make(node, "access_log", &args));
    Ok(())
}

/// A name of the environment as a part of a variable's.
fn variable(name: &str) -> Result<String, String> {
    let is_plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_plain {
        return Ok(name.to_ascii_lowercase());
    }
    Err(format!("Brisk does not support the variable '{name}' here: letters, digits and underscores only"))
}

/// A file, or syslog.
fn target(this: &Translator<'_, '_>, node: &Node) -> Result<String, String> {
    let text = word(node, 0)?;
    if text.starts_with('|') {
        return Err(
            "Brisk does not write logs into programs: name a file, and let logrotate have it reopened".into(),
        );
    }
    if let Some(rest) = text.strip_prefix("syslog") {
        let facility = rest.split(':').nth(1).filter(|facility| !facility.is_empty()).unwrap_or("local7");
        return literal(format!("syslog:server=unix:/dev/log,facility={facility}"));
    }
    path(this, node, 0)
}

/// The level for all modules; nothing if the line is about some only.
fn level(node: &Node) -> Result<Option<&'static str>, String> {
    let mut level = None;
    for word in node.words() {
        let word = String::from_utf8_lossy(&word).to_ascii_lowercase();
        if word.contains(':') {
            continue;
        }
        level = Some(match word.as_str() {
            "emerg" => "emerg",
            "alert" => "alert",
            "crit" => "crit",
            "error" => "error",
            "warn" => "warn",
            "notice" => "notice",
            "info" => "info",
            "debug" => "debug",
            trace if trace.starts_with("trace") => "debug",
            other => return Err(format!("unknown level '{other}'")),
        });
    }
    Ok(level)
}

/// The `error_log` of a host.
pub(super) fn error_log(this: &Translator<'_, '_>, draft: &Draft) -> Option<Directive> {
    let (line, target) = match &draft.error_log {
        Some((line, target)) => (*line, target.clone()),
        None if draft.line == 0 => (1, this.files.path("logs/error_log")),
        None => return None,
    };
    Some(statement(this.span(line), "error_log", [target.as_str(), draft.log_level.unwrap_or("warn")]))
}

/// A format in Brisk's language.
fn translated(format: &[u8]) -> Result<String, String> {
    let format = std::str::from_utf8(format).map_err(|_| "the format is no UTF-8")?;
    let mut out = String::new();
    let mut rest = format;
    while let Some(at) = rest.find(['%', '\\', '$']) {
        out.push_str(&rest[..at]);
        let (special, behind) = (&rest[at..=at], &rest[at + 1..]);
        match special {
            "$" => return Err("a dollar sign in a format is not supported".into()),
            "\\" => {
                let (text, used) = match behind.chars().next() {
                    Some('n') => ("\n", 1),
                    Some('t') => ("\t", 1),
                    Some('"') => ("\"", 1),
                    Some('\\') => ("\\", 1),
                    _ => ("\\", 0),
                };
                out.push_str(text);
                rest = &behind[used..];
            }
            _ => rest = item(behind, &mut out)?,
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// One item behind its `%`; gives what follows it.
fn item<'t>(text: &'t str, out: &mut String) -> Result<&'t str, String> {
    // Statuses for which the item is written, and which of several requests is meant.
    let plain = text.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '!' | ',' | '<' | '>'));
    if text.starts_with(|c: char| c.is_ascii_digit() || c == '!') {
        return Err("items for some statuses only (%400{…}) are not supported".into());
    }
    let (argument, rest) = match plain.strip_prefix('{') {
        Some(inner) => {
            let (argument, rest) = inner.split_once('}').ok_or("an item lacks its }")?;
            (Some(argument), rest)
        }
        None => (None, plain),
    };
    let letter = rest.chars().next().ok_or("a format ends with %")?;
    let named = |prefix: &str| {
        argument.map(|name| format!("${prefix}{}", name.to_ascii_lowercase().replace('-', "_")))
    };
    let variable = match (letter, argument) {
        ('%', _) => Some("${brisk_percent}".to_string()),
        ('h', None) | ('a', None) => Some("$remote_addr".into()),
        ('a', Some("c")) => Some("$realip_remote_addr".into()),
        ('A', None) => Some("$server_addr".into()),
        ('l', None) => Some("-".into()),
        ('u', None) => Some("$remote_user".into()),
        ('t', None) => Some("[$time_local]".into()),
        ('t', Some("sec")) => Some("$msec".into()),
        ('r', None) => Some("$request".into()),
        ('s', None) => Some("$status".into()),
        ('O', None) => Some("$bytes_sent".into()),
        ('I', None) => Some("$request_length".into()),
        ('b' | 'B', None) => Some("$body_bytes_sent".into()),
        ('T', None) => Some("$request_time".into()),
        ('D', None) | ('T', Some("us")) => Some("$apache_request_us".into()),
        ('v', None) => Some("$server_name".into()),
        ('V', None) => Some("$host".into()),
        ('p', None) => Some("$server_port".into()),
        ('m', None) => Some("$request_method".into()),
        ('U', None) => Some("$uri".into()),
        ('q', None) => Some("$is_args$args".into()),
        ('H', None) => Some("$server_protocol".into()),
        ('f', None) => Some("$request_filename".into()),
        ('P', None) => Some("$pid".into()),
        ('k', None) => Some("$connection_requests".into()),
        ('L', None) => Some("$request_id".into()),
        ('i', Some(_)) => named("http_"),
        ('o', Some(_)) => named("sent_http_"),
        ('C', Some(_)) => named("cookie_"),
        ('e', Some(name)) => Some(format!("$apache_env_{}", variable(name)?)),
        _ => None,
    };
    let variable = variable.ok_or_else(|| {
        let argument = argument.map(|text| format!("{{{text}}}")).unwrap_or_default();
        format!("Brisk does not support the item %{argument}{letter} in a log (yet)")
    })?;
    // Where a name would go on, braces end it.
    let rest = &rest[letter.len_utf8()..];
    let goes_on = rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    match variable.strip_prefix('$').filter(|name| goes_on && !name.starts_with('{') && !name.contains('$')) {
        Some(name) => out.extend(["${", name, "}"]),
        None if letter == '%' => out.push('%'),
        None => out.push_str(&variable),
    }
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_in_variables() {
        for (format, wanted) in [
            (
                "%h %l %u %t \\\"%r\\\" %>s %O",
                Ok("$remote_addr - $remote_user [$time_local] \"$request\" $status $bytes_sent"),
            ),
            ("%v:%p", Ok("$server_name:$server_port")),
            ("\\\"%{Referer}i\\\" %{User-Agent}i", Ok("\"$http_referer\" $http_user_agent")),
            ("%Ux%q", Ok("${uri}x$is_args$args")),
            ("100%%", Ok("100%")),
            ("%D %{us}T", Ok("$apache_request_us $apache_request_us")),
            ("%{X_y}e", Ok("$apache_env_x_y")),
            ("%{x}n", Err("Brisk does not support the item %{x}n in a log (yet)")),
            ("%400s", Err("items for some statuses only (%400{…}) are not supported")),
            ("%", Err("a format ends with %")),
        ] {
            let got = translated(format.as_bytes());
            assert_eq!(got.as_deref().map_err(String::as_str), wanted, "{format}");
        }
    }
}
