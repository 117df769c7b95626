//! `php_pool NAME [from=FILE] { … }`: FPM's pool file first, then the block.

use super::PoolSpec;
use crate::limits::UNIX_PATH_BYTES_MAX;
use brisk_conf::{Diag, Directive, Span, Token};
use brisk_php::{Problem, Settings, section};
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::core::MainConf;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;

/// Reads the directive.
pub(super) fn read(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<PoolSpec, Diag> {
    let name = name(d.arg(0))?;
    let mut settings = Settings::new(name);
    match d.args.get(1) {
        Some(token) => from_file(cx, token, &mut settings)?,
        None if d.block.is_none() => {
            let text = format!("php_pool \"{name}\" has neither a block nor a file");
            return Err(Diag::emerg(d.span, text).help(format!(
                "write: php_pool {name} {{ }}, or php_pool {name} from=/etc/php/8.2/fpm/pool.d/www.conf;"
            )));
        }
        None => {}
    }
    for line in d.block.as_deref().unwrap_or_default() {
        if line.block.is_some() {
            return Err(Diag::emerg(line.span, "unexpected \"{\"").help("a \";\" is expected here"));
        }
        if line.args.is_empty() {
            let text = format!("invalid number of arguments in \"{}\"", line.name());
            return Err(Diag::emerg(line.span, text).help("a setting has a value"));
        }
        let words: Vec<&str> = line.args.iter().map(Token::str).collect();
        let value = words.join(" ");
        told(cx, line.span, settings.set(line.name(), &value))?;
    }
    let folder = cx.global.env.prefix.clone();
    told(cx, d.span, settings.finish(&folder))?;
    let [socket, control] = sockets(cx, d.arg(0), name)?;
    Ok(PoolSpec { settings, socket, control })
}

/// A pool's name is part of file names.
fn name(token: &Token) -> Result<&str, Diag> {
    let name = token.str();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !name.is_empty() && name.len() <= 32 && !name.starts_with('.') && name.bytes().all(is_name) {
        return Ok(name);
    }
    Err(Diag::emerg(token.span, format!("invalid name \"{}\" of a PHP pool", token.text()))
        .help("it has letters, digits, \"-\", \"_\" and \".\", 32 at most"))
}

fn from_file(cx: &mut Cx<'_, '_>, token: &Token, settings: &mut Settings) -> Result<(), Diag> {
    let Some(path) = token.str().strip_prefix("from=").filter(|path| !path.is_empty()) else {
        return Err(invalid_parameter(token).help("the only parameter is from=FILE"));
    };
    let file = Token { value: path.as_bytes().into(), span: token.span, quoted: true };
    let bytes = cx.read_file(&file)?;
    let text = String::from_utf8_lossy(&bytes);
    let entries = section(&text, &settings.pool).map_err(|error| {
        let place = if error.line > 0 { format!(" in {path}:{}", error.line) } else { format!(" in {path}") };
        Diag::emerg(token.span, format!("{}{place}", error.message)).help(error.help)
    })?;
    for entry in entries {
        let result = settings.set(&entry.name, &entry.value).map_err(|problem| match problem {
            Problem::Error { message, help } => {
                Problem::Error { message: format!("{message} in {path}:{}", entry.line), help }
            }
            Problem::Notice(text) => Problem::Notice(format!("{text} ({path}:{})", entry.line)),
        });
        told(cx, token.span, result)?;
    }
    Ok(())
}

/// Errors end the reading, notices are told.
fn told(cx: &mut Cx<'_, '_>, span: Span, result: Result<(), Problem>) -> Result<(), Diag> {
    match result {
        Ok(()) => Ok(()),
        Err(Problem::Error { message, help }) => Err(Diag::emerg(span, message).help(help)),
        Err(Problem::Notice(text)) => {
            cx.warn(Diag::notice(span, text));
            Ok(())
        }
    }
}

/// The pool's two sockets. Another server has other ones: no two that run have the same pid file.
fn sockets(cx: &mut Cx<'_, '_>, token: &Token, name: &str) -> Result<[PathBuf; 2], Diag> {
    let mut hasher = DefaultHasher::new();
    cx.conf_of::<MainConf>().pid.hash(&mut hasher);
    let base = format!("{}brisk-php/{name}-{:08x}", cx.global.env.places.run, hasher.finish() as u32);
    let paths = [PathBuf::from(format!("{base}.sock")), PathBuf::from(format!("{base}.control"))];
    match paths[1].as_os_str().len() {
        0..=UNIX_PATH_BYTES_MAX => Ok(paths),
        _ => Err(Diag::emerg(token.span, format!("too long path \"{base}.control\" of a unix socket"))
            .help("the folder of the pid file is part of it: choose a shorter one (-p), or a shorter name")),
    }
}
