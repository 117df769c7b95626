//! `match NAME { send …; expect …; }` of `stream`: what is sent to a server, and what its answer must be like.

use brisk_conf::{Diag, Directive, Token};
use brisk_server::conf::Cx;
use brisk_server::regex::Regex;
use std::sync::Arc;

/// Without `expect` it is enough that a server takes what is sent.
#[derive(Default)]
pub(super) struct Talk {
    pub send: Box<[u8]>,
    pub expect: Option<Expect>,
}

/// What an answer must be like.
pub(super) enum Expect {
    /// Its first bytes.
    Text(Box<[u8]>),
    /// Something in it.
    Pattern(Regex),
}

/// What is known of an answer by its bytes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    Good,
    Bad,
    /// More bytes decide.
    Open,
}

impl Expect {
    pub fn judge(&self, answer: &[u8]) -> Judged {
        match self {
            Expect::Text(text) if answer.starts_with(text) => Judged::Good,
            Expect::Text(text) if text.starts_with(answer) => Judged::Open,
            Expect::Text(_) => Judged::Bad,
            // A search that gives up has found nothing.
            Expect::Pattern(pattern) if pattern.is_match(answer).unwrap_or(false) => Judged::Good,
            Expect::Pattern(_) => Judged::Open,
        }
    }
}

/// The setter.
pub fn block(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let name = d.arg(0).str().to_string();
    let (mut send, mut expect) = (None, None);
    for line in d.block.as_deref().unwrap_or_default() {
        match (line.name(), line.args.as_slice()) {
            ("send", [text]) if send.is_none() => send = Some(bytes(text)?),
            ("expect", [text]) if expect.is_none() => expect = Some(Expect::Text(bytes(text)?)),
            ("expect", [sign, pattern]) if expect.is_none() && matches!(sign.bytes(), b"~" | b"~*") => {
                let regex = cx.regex(pattern, pattern.bytes(), sign.bytes() == b"~*")?;
                expect = Some(Expect::Pattern(regex));
            }
            ("send" | "expect", _) => {
                return Err(Diag::emerg(
                    line.span,
                    format!("invalid \"{}\" in match \"{name}\"", line.name()),
                )
                .help("write, each once at most: send TEXT; expect TEXT; or expect ~ REGEX;"));
            }
            (other, _) => {
                return Err(Diag::emerg(line.name.span, format!("unknown directive \"{other}\""))
                    .help("a match block of stream holds send and expect"));
            }
        }
    }
    let talk = Talk { send: send.unwrap_or_default(), expect };
    if cx.global.named.insert((KIND, name.clone()), Arc::new(Arc::new(talk))).is_some() {
        return Err(Diag::emerg(d.arg(0).span, format!("duplicate match \"{name}\""))
            .help("give each match block a name of its own"));
    }
    Ok(())
}

/// Tells these blocks from those of `http`.
const KIND: &str = "match of stream";

/// The block of this name.
pub(super) fn found(cx: &Cx<'_, '_>, name: &str, token: &Token) -> Result<Arc<Talk>, Diag> {
    let have = cx.global.named.get(&(KIND, name.to_string()));
    have.and_then(|have| have.downcast_ref::<Arc<Talk>>()).cloned().ok_or_else(|| {
        Diag::emerg(token.span, format!("match \"{name}\" not found"))
            .help("define it in stream, above: match NAME { send TEXT; expect TEXT; }")
    })
}

/// A text in which `\xHH` is the byte of that number.
fn bytes(token: &Token) -> Result<Box<[u8]>, Diag> {
    let mut out = Vec::new();
    let mut rest = token.bytes();
    while let Some((first, tail)) = rest.split_first() {
        let Some(digits) = rest.strip_prefix(br"\x") else {
            out.push(*first);
            rest = tail;
            continue;
        };
        let number = digits.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let number = number.filter(|two| two.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = number.and_then(|two| u8::from_str_radix(two, 16).ok()).ok_or_else(|| {
            Diag::emerg(token.span, format!("invalid byte in \"{}\"", token.text()))
                .help(r"two hexadecimal digits follow \x")
        })?;
        out.push(byte);
        rest = &digits[2..];
    }
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_conf::{FileId, Span};

    #[test]
    fn bytes_may_be_numbers() {
        let of = |text: &str| {
            let span = Span { file: FileId(0), start: 0, end: 0 };
            let token = Token { value: text.as_bytes().into(), span, quoted: true };
            bytes(&token).ok()
        };
        assert_eq!(of(r"a\x00\xfFb\n").as_deref(), Some(&b"a\0\xffb\\n"[..]));
        assert_eq!(of(""), Some(Box::default()));
        for wrong in [r"\x", r"\x1", r"\x+1", r"\xzz"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_answer_is_judged_as_it_comes() {
        let text = Expect::Text(b"+OK"[..].into());
        for (answer, want) in [
            ("", Judged::Open),
            ("+O", Judged::Open),
            ("+OK\r\n", Judged::Good),
            ("-ERR", Judged::Bad),
            ("x+OK", Judged::Bad),
        ] {
            assert_eq!(text.judge(answer.as_bytes()), want, "{answer}");
        }
    }
}
