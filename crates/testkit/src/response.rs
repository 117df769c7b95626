//! A response as a strict reader sees it. Written apart from the server's own parsers, so that it cannot share
//! their mistakes.

/// How the end of the body was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// There can be none: HEAD, 204, 304.
    NoBody,
    /// By `Content-Length`.
    Length,
    /// By the last chunk.
    Chunked,
    /// By the end of the connection.
    Close,
}

/// A complete response.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The reason phrase.
    pub reason: String,
    /// In the order of arrival, names as sent.
    pub headers: Vec<(String, String)>,
    /// The body, without chunks.
    pub body: Vec<u8>,
    /// Fields behind the body.
    pub trailers: Vec<(String, String)>,
    /// How its end was told.
    pub end: End,
    /// Statuses of `1xx` responses that came before.
    pub interim: Vec<u16>,
    /// Their heads.
    pub interim_heads: Vec<String>,
    /// The head's bytes.
    pub head: String,
}

impl Response {
    /// The value of a header.
    ///
    /// # Panics
    /// If it stands there twice: no header of ours may, unless the test looks at [`Response::headers`].
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.all(name);
        let first = all.next();
        assert!(all.next().is_none(), "{name} twice in:\n{}", self.head);
        first
    }

    /// All values of a header.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers
            .iter()
            .filter(move |(have, _)| have.eq_ignore_ascii_case(name))
            .map(|(_, value)| &**value)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// What is wrong with bytes that should be a response.
pub type Fault = String;

/// The head of a response.
pub(crate) struct Head {
    pub status: u16,
    pub reason: String,
    pub headers: Vec<(String, String)>,
    pub text: String,
}

/// Parses a head that ends with its blank line. Every line ends with CRLF, no control bytes, no bare spaces.
pub(crate) fn parse_head(bytes: &[u8]) -> Result<Head, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|_| "the head is no text".to_string())?.to_string();
    let fault = |what: &str, line: &str| format!("{what}: {line:?} in\n{text}");
    let mut lines = text.strip_suffix("\r\n\r\n").ok_or("no blank line")?.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let rest = first.strip_prefix("HTTP/1.1 ").ok_or_else(|| fault("status line", first))?;
    let (code, reason) = rest.split_once(' ').ok_or_else(|| fault("status line", first))?;
    let is_code = code.len() == 3 && code.bytes().all(|b| b.is_ascii_digit());
    let status = code.parse().ok().filter(|_| is_code).ok_or_else(|| fault("status", first))?;
    let headers =
        lines.map(|line| parse_field(line).ok_or_else(|| fault("field", line))).collect::<Result<_, _>>()?;
    Ok(Head { status, reason: reason.to_string(), headers, text: text.clone() })
}

pub(crate) fn parse_field(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(": ").or_else(|| Some((line.strip_suffix(':')?, "")))?;
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let is_clean = |b: u8| b == b'\t' || (b >= b' ' && b != 0x7f);
    let good = !name.is_empty()
        && name.bytes().all(is_token)
        && value.bytes().all(is_clean)
        && value.trim() == value;
    good.then(|| (name.to_string(), value.to_string()))
}

/// How the body of a response to `method` ends (RFC 9112 §6.3), and its length if that is told.
pub(crate) fn framing(head: &Head, method: &str) -> Result<(End, usize), Fault> {
    let values = |name: &str| -> Vec<&str> {
        head.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| &**v).collect()
    };
    let (lengths, codings) = (values("Content-Length"), values("Transfer-Encoding"));
    if lengths.len() + codings.len() > 1 {
        return Err(format!("length told twice in\n{}", head.text));
    }
    if (head.status < 200 || head.status == 204) && !(lengths.is_empty() && codings.is_empty()) {
        return Err(format!("a {} with a length:\n{}", head.status, head.text));
    }
    if method == "HEAD" || head.status < 200 || matches!(head.status, 204 | 304) {
        return Ok((End::NoBody, 0));
    }
    match (lengths.first(), codings.first()) {
        (Some(length), _) => match length.parse() {
            Ok(length) => Ok((End::Length, length)),
            Err(_) => Err(format!("Content-Length {length:?}")),
        },
        (None, Some(&"chunked")) => Ok((End::Chunked, 0)),
        (None, Some(coding)) => Err(format!("Transfer-Encoding {coding:?}")),
        (None, None) => Ok((End::Close, 0)),
    }
}
