//! What the commands do. An error is a message for the log; the page says that there was one.
//!
//! What a command may do is bounded here: number of includes, depth of `if`, names of blocks and variables; the
//! bytes that a page keeps are counted in `Shared`.

use super::dialect::Dialect;
use super::expression::{self, Test, condition, expand};
use super::include::{Include, Set};
use super::page::{Level, Page};
use super::parser::{Command, PARAMS_MAX};
use super::time_format;
use crate::limits::LEVELS_MAX;
use brisk_http::uri::{Escape, escape, unsafe_uri};
use brisk_server::limits::SSI_INCLUDES_MAX;
use brisk_server::subrequest::Part;
use std::borrow::Cow;

type Outcome = Result<(), String>;

fn lossy(text: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(text)
}

/// A command's parameters by name.
struct Params<'c>(&'c Command);

impl<'c> Params<'c> {
    /// Checks names and number.
    fn check(command: &'c Command, known: &[(&str, bool)]) -> Result<Params<'c>, String> {
        let name = lossy(&command.name);
        if command.params.len() > PARAMS_MAX {
            return Err(format!("too many SSI command parameters: \"{name}\""));
        }
        for (at, (param, _)) in command.params.iter().enumerate() {
            if !known.iter().any(|(known, _)| known.as_bytes() == param) {
                return Err(format!(
                    "invalid parameter name: \"{}\" in \"{name}\" SSI command",
                    lossy(param)
                ));
            }
            if command.params[..at].iter().any(|(other, _)| other == param) {
                return Err(format!("duplicate \"{}\" parameter in \"{name}\" SSI command", lossy(param)));
            }
        }
        let params = Params(command);
        match known.iter().find(|(known, is_needed)| *is_needed && params.get(known).is_none()) {
            Some((needed, _)) => {
                Err(format!("mandatory \"{needed}\" parameter is absent in \"{name}\" SSI command"))
            }
            None => Ok(params),
        }
    }

    fn get(&self, name: &str) -> Option<&'c [u8]> {
        self.0.params.iter().find(|(have, _)| have == name.as_bytes()).map(|(_, value)| &**value)
    }

    /// One that [`Params::check`] has found.
    fn need(&self, name: &str) -> &'c [u8] {
        self.get(name).unwrap_or_default()
    }
}

impl Page {
    /// Carries a command out.
    pub fn execute(&mut self, command: &Command) -> Outcome {
        let name = lossy(&command.name);
        // Kept as text, and carried out where the block is used.
        if self.block.is_some() && *name != *"endblock" {
            self.keep(command);
            return Ok(());
        }
        let Some((name, known)) = self.dialect.commands().iter().find(|(known, _)| *known == name) else {
            let message = format!("invalid SSI command: \"{name}\"");
            // A branch that is not shown has no mistakes, as in nginx.
            return if self.is_shown() { Err(message) } else { Ok(()) };
        };
        // These are counted even where nothing is shown: otherwise the end of an inner `if` would end the outer
        // one.
        let is_branch = matches!(*name, "if" | "elif" | "else" | "endif" | "endblock");
        if !is_branch && !self.is_shown() {
            return Ok(());
        }
        let params = Params::check(command, known)?;
        match *name {
            "exec" => Err("Brisk starts no programs: \"exec\" in a page".into()),
            "flastmod" | "fsize" => Err(format!("Brisk does not support the SSI command \"{name}\"")),
            "comment" => Ok(()),
            "printenv" => {
                self.print_variables();
                Ok(())
            }
            "include" => self.include(&params),
            "echo" => self.echo(&params),
            "config" => self.config(&params),
            "set" => self.set(&params),
            "block" => {
                self.block = Some((params.need("name").to_vec(), Vec::new()));
                Ok(())
            }
            "endblock" => match self.block.take() {
                Some((name, content)) => self.shared.add_block(name.into(), content.into()),
                None => Ok(()),
            },
            _ => self.branch(name, &params),
        }
    }

    /// A value with its variables filled in.
    fn value(&self, text: &[u8]) -> Result<Vec<u8>, String> {
        expand(text, |name, out| {
            self.variable(name, out);
        })
    }

    fn include(&mut self, params: &Params<'_>) -> Outcome {
        let (path, file) = (params.get("virtual"), params.get("file"));
        let (set, stub) = (params.get("set"), params.get("stub"));
        let target = match (path, file) {
            (Some(path), Some(file)) => {
                let (path, file) = (lossy(path), lossy(file));
                return Err(format!("inclusion may be either virtual=\"{path}\" or file=\"{file}\""));
            }
            (None, None) => return Err("no parameter in \"include\" SSI command".into()),
            (Some(target), None) | (None, Some(target)) => target,
        };
        if set.is_some() && stub.is_some() {
            return Err("\"set\" and \"stub\" cannot be used together in \"include\" SSI command".into());
        }
        let wait = match params.get("wait") {
            // A file is always waited for.
            None => file.is_some(),
            Some(_) if file.is_some() => {
                return Err(format!("\"wait\" cannot be used with file=\"{}\"", lossy(target)));
            }
            Some(wait) if wait.eq_ignore_ascii_case(b"no") => false,
            Some(wait) if wait.eq_ignore_ascii_case(b"yes") => true,
            Some(wait) => return Err(format!("invalid value \"{}\" in the \"wait\" parameter", lossy(wait))),
        };
        let mut uri = self.value(target)?;
        if !uri.starts_with(b"/") {
            // Relative to the page that includes, not to the one that the client asked for.
            let folder = memchr::memrchr(b'/', &self.me.route.uri).map_or(0, |at| at + 1);
            uri.splice(0..0, self.me.route.uri[..folder].iter().copied());
        }
        // A value may come from a client: it must not lead above the root.
        let safe = unsafe_uri(&uri).map_err(|_| format!("unsafe URI \"{}\" was detected", lossy(&uri)))?;
        let stub = match stub {
            Some(name) => Some(
                self.shared
                    .block(name)
                    .ok_or_else(|| format!("\"stub\"=\"{}\" for \"include\" not found", lossy(name)))?,
            ),
            None => None,
        };
        // Of all pages of the request together: a page that includes itself would never end.
        if self.shared.count_include() > SSI_INCLUDES_MAX {
            return Err(format!("subrequests cycle while processing \"{}\"", lossy(&uri)));
        }
        let is_trusted = self.dialect.trusts_pages();
        let make = if is_trusted { Part::new } else { Part::as_client };
        let part = make(&self.parent, safe.path.to_vec(), safe.args.unwrap_or_default().to_vec());
        match set {
            Some(name) => {
                self.shared.define(name)?;
                self.wait_for(Set::new(name.to_ascii_lowercase().into(), part));
            }
            None => self.put_include(Include::new(part, stub, !is_trusted), wait),
        }
        Ok(())
    }

    fn echo(&mut self, params: &Params<'_>) -> Outcome {
        let mut value = Vec::new();
        let name = std::str::from_utf8(params.need("var")).unwrap_or_default();
        if !self.variable(name, &mut value) {
            value = params.get("default").unwrap_or(&self.undefined).to_vec();
        }
        let mut out = Vec::with_capacity(value.len());
        match params.get("encoding").unwrap_or(b"entity") {
            // The only one that leaves markup as it is; an unknown word escapes, which is the safe side.
            b"none" => out = value,
            b"url" => escape(Escape::Html, &value, &mut out),
            encoding => {
                if encoding != b"entity" {
                    let encoding = lossy(encoding);
                    brisk_server::rlog!(
                        self.me,
                        Error,
                        "unknown encoding \"{encoding}\" in the \"echo\" command"
                    );
                }
                escape_html(&value, &mut out);
            }
        }
        self.put(&out);
        Ok(())
    }

    fn config(&mut self, params: &Params<'_>) -> Outcome {
        if let Some(format) = params.get("timefmt") {
            time_format(&mut self.me, lossy(format).into_owned());
        }
        if let Some(message) = params.get("errmsg") {
            self.errmsg = message.to_vec();
        }
        if let Some(message) = params.get("echomsg") {
            self.undefined = message.to_vec();
        }
        Ok(())
    }

    /// `printenv`: all variables that Apache would show, as entities.
    fn print_variables(&mut self) {
        let Dialect::Apache(apache) = &self.dialect else { return };
        let mut text = Vec::new();
        for (name, value) in apache.all(&self.me) {
            text.extend_from_slice(&name);
            text.push(b'=');
            escape_html(&value, &mut text);
            text.push(b'\n');
        }
        self.put(&text);
    }

    fn set(&mut self, params: &Params<'_>) -> Outcome {
        let value = self.value(params.need("value"))?;
        self.shared.set(&params.need("var").to_ascii_lowercase(), value)
    }

    /// `if`, `elif`, `else`, `endif`.
    fn branch(&mut self, name: &str, params: &Params<'_>) -> Outcome {
        if name == "if" {
            if self.levels.len() == LEVELS_MAX {
                return Err("too many \"if\" commands inside each other".into());
            }
            let outer = self.is_shown();
            let mut level = Level { outer, shown: false, chosen: false, last: false };
            let result = if outer { self.is_true(params.need("expr")) } else { Ok(false) };
            level.shown = *result.as_ref().unwrap_or(&false);
            level.chosen = level.shown;
            self.levels.push(level);
            // The message is for where the command stands, whatever becomes of its branches.
            return match result {
                Ok(_) => Ok(()),
                Err(message) => self.fail_around(&message),
            };
        }
        let invalid = || format!("invalid context of SSI command: \"{name}\"");
        let level = self.levels.last_mut().ok_or_else(invalid)?;
        if name == "endif" {
            self.levels.pop();
            return Ok(());
        }
        if level.last {
            return Err(invalid());
        }
        level.last = name == "else";
        level.shown = false;
        if !level.outer || level.chosen {
            return Ok(());
        }
        let is_true = if level.last { true } else { self.is_true(params.need("expr"))? };
        if let Some(level) = self.levels.last_mut() {
            level.shown = is_true;
            level.chosen = is_true;
        }
        Ok(())
    }

    /// A message in the place of an `if` whose branches are not shown.
    fn fail_around(&mut self, message: &str) -> Outcome {
        let level = self.levels.pop();
        self.fail(message);
        self.levels.extend(level);
        Ok(())
    }

    fn is_true(&self, text: &[u8]) -> Result<bool, String> {
        if let Dialect::Apache(apache) = &self.dialect {
            return apache.holds(&self.me, text);
        }
        let condition =
            condition(text).ok_or_else(|| format!("invalid expression in \"{}\"", lossy(text)))?;
        let left = self.value(&condition.left)?;
        let Some(Test { is_negative, right, is_regex }) = condition.test else {
            return Ok(!left.is_empty());
        };
        // Variables are put in before the expression is compiled, as in nginx.
        let right = self.value(right)?;
        let is_equal = if is_regex {
            let regex = expression::regex(&right)?;
            let groups = regex.groups(&left).map_err(|error| {
                // Neither branch may be shown: the page ends here, as in nginx.
                error.fail(&*self.me);
                error.to_string()
            })?;
            match groups {
                Some(groups) => {
                    self.shared.capture(&groups, regex.names())?;
                    true
                }
                None => false,
            }
        } else {
            left == right
        };
        Ok(is_equal != is_negative)
    }
}

/// `<`, `>`, `&` and `"` as entities.
fn escape_html(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            _ => out.push(byte),
        }
    }
}
