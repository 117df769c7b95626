//! Requests, made into bytes beforehand: for HTTP/1.1 (RFC 9112), HTTP/2 (RFC 9113 §8.3) and HTTP/3 (RFC 9114 §4.3).

use brisk_http::field::is_token_byte;
use std::fmt;
use std::sync::Arc;

use brisk_h2::hpack::{write_literal, write_named};
use brisk_h3::qpack;

use crate::proxy::Proxy;
use crate::url::{Resolve, Url};

/// One request, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The whole request as HTTP/1.1 has it.
    pub request: Box<[u8]>,
    /// Its head's fields as HTTP/2 has them: a block that uses no dynamic table.
    pub block: Box<[u8]>,
    /// The same as HTTP/3 has them: a field section that uses no dynamic table.
    pub section: Box<[u8]>,
    /// The body, for HTTP/2 and HTTP/3.
    pub body: Arc<[u8]>,
    /// What it asks for, where cookies are to be sent back.
    pub url: Option<Url>,
    /// Whether the method is HEAD, whose response has no body (RFC 9112 §6.3).
    pub is_head: bool,
}

/// The parts of a request that are the same for all targets of a command line.
#[derive(Debug, Clone)]
pub struct RequestOptions {
    /// The method.
    pub method: String,
    /// Further header lines, `Name: value`; a `Host` here replaces the derived one.
    pub headers: Vec<String>,
    /// The body; empty sends none, except where the method means one.
    pub body: Arc<[u8]>,
    /// The server is asked to close the connection after its response.
    pub close: bool,
    /// What HTTP/2 is told as the scheme is https.
    pub secure: bool,
    /// Where names are, in place of look-ups.
    pub resolve: Vec<Resolve>,
    /// What requests go through.
    pub proxy: Option<Proxy>,
    /// Plain requests go through a tunnel of the proxy, too: HTTP/2 with prior knowledge does.
    pub tunnels: bool,
}

impl Default for RequestOptions {
    fn default() -> Self {
        Self {
            method: "GET".to_owned(),
            headers: Vec::new(),
            body: Arc::new([]),
            close: false,
            secure: false,
            resolve: Vec::new(),
            proxy: None,
            tunnels: false,
        }
    }
}

/// A method or header line that cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRequest(String);

impl fmt::Display for BadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadRequest {}

/// Fields that are the connection's business and have no place in HTTP/2 (RFC 9113 §8.2.2) and HTTP/3 (RFC 9114 §4.2), and `Host`.
const NOT_IN_STREAMS: [&str; 6] =
    ["host", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

impl RequestOptions {
    /// Looks for what would break the request apart.
    pub fn check(&self) -> Result<(), BadRequest> {
        if self.method.is_empty() || !self.method.bytes().all(is_token_byte) {
            return Err(BadRequest(format!("\"{}\" is not a method", self.method)));
        }
        for line in &self.headers {
            let sound = line.split_once(':').is_some_and(|(name, value)| {
                let name_is_sound = !name.is_empty() && name.bytes().all(is_token_byte);
                name_is_sound && !value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
            });
            if !sound {
                return Err(BadRequest(format!("\"{line}\" is not a header line: write \"Name: value\"")));
            }
        }
        Ok(())
    }

    /// Serialises one request.
    pub fn target(&self, host: &str, path: &str) -> Target {
        let length = self.content_length();
        let mut head = format!("{} {path} HTTP/1.1\r\n", self.method);
        if self.header("host").is_none() {
            head.extend(["Host: ", host, "\r\n"]);
        }
        for line in &self.headers {
            head.extend([line, "\r\n"]);
        }
        if let Some(length) = &length {
            head.extend(["Content-Length: ", length, "\r\n"]);
        }
        if self.close && self.header("connection").is_none() {
            head.push_str("Connection: close\r\n");
        }
        head.push_str("\r\n");
        let mut request = head.into_bytes();
        request.extend_from_slice(&self.body);
        Target {
            request: request.into(),
            block: self.block(host, path, length.as_deref()).into(),
            section: self.section(host, path, length.as_deref()).into(),
            body: Arc::clone(&self.body),
            url: None,
            is_head: self.method == "HEAD",
        }
    }

    /// What `Content-Length` says, where it is due: with a body, and for methods that mean one (RFC 9110 §8.6).
    fn content_length(&self) -> Option<String> {
        let due = !self.body.is_empty() || matches!(self.method.as_str(), "POST" | "PUT" | "PATCH");
        (due && self.header("content-length").is_none() && self.header("transfer-encoding").is_none())
            .then(|| self.body.len().to_string())
    }

    /// The value of the first header line of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|line| {
            let (have, value) = line.split_once(':')?;
            have.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    fn block(&self, host: &str, path: &str, length: Option<&str>) -> Vec<u8> {
        let mut block = Vec::new();
        match self.method.as_str() {
            "GET" => block.push(0x82),
            "POST" => block.push(0x83),
            other => drop(write_named(2, other.as_bytes(), &mut block)),
        }
        block.push(if self.secure { 0x87 } else { 0x86 });
        self.fields(host, path, length, |name, value| write_literal(name, value, &mut block));
        block
    }

    fn section(&self, host: &str, path: &str, length: Option<&str>) -> Vec<u8> {
        let mut section = Vec::new();
        qpack::begin(&mut section);
        qpack::write_literal(b":method", self.method.as_bytes(), &mut section);
        qpack::write_literal(b":scheme", if self.secure { b"https" } else { b"http" }, &mut section);
        self.fields(host, path, length, |name, value| qpack::write_literal(name, value, &mut section));
        section
    }

    /// What follows method and scheme where requests have streams.
    fn fields(&self, host: &str, path: &str, length: Option<&str>, mut put: impl FnMut(&[u8], &[u8])) {
        put(b":authority", self.header("host").unwrap_or(host).as_bytes());
        put(b":path", path.as_bytes());
        for line in &self.headers {
            let Some((name, value)) = line.split_once(':') else { continue };
            let name = name.to_ascii_lowercase();
            if !NOT_IN_STREAMS.contains(&name.as_str()) {
                put(name.as_bytes(), value.trim().as_bytes());
            }
        }
        if let Some(length) = length {
            put(b"content-length", length.as_bytes());
        }
    }
}

/// One field of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormField {
    /// Its name.
    pub name: String,
    /// For an uploaded file: what it is called.
    pub file_name: Option<String>,
    /// Its value, or the file's bytes.
    pub value: Vec<u8>,
}

/// A form with files, as browsers send it (RFC 7578): the `Content-Type` and the body.
pub fn multipart(fields: &[FormField]) -> (String, Vec<u8>) {
    let mut number = 0u64;
    let mut boundary = "brisk-form-0".to_owned();
    // What separates the parts must not occur in them.
    while fields.iter().any(|field| memchr::memmem::find(&field.value, boundary.as_bytes()).is_some()) {
        number += 1;
        boundary = format!("brisk-form-{number}");
    }
    let quote = |text: &str| text.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A");
    let mut body = Vec::new();
    for field in fields {
        let mut head =
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"", quote(&field.name));
        if let Some(file_name) = &field.file_name {
            head.extend(["; filename=\"", &quote(file_name), "\"\r\nContent-Type: application/octet-stream"]);
        }
        head.push_str("\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(&field.value);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    (format!("multipart/form-data; boundary={boundary}"), body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let plain = RequestOptions::default().target("h:1", "/x");
        assert_eq!(&*plain.request, b"GET /x HTTP/1.1\r\nHost: h:1\r\n\r\n");
        let options = RequestOptions {
            method: "HEAD".to_owned(),
            headers: vec!["hOst: other".to_owned()],
            body: (*b"abc").into(),
            close: true,
            ..RequestOptions::default()
        };
        let target = options.target("h", "/");
        assert!(target.is_head);
        let want = b"HEAD / HTTP/1.1\r\nhOst: other\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc";
        assert_eq!(&*target.request, want);
        let post = RequestOptions { method: "POST".to_owned(), ..RequestOptions::default() }.target("h", "/");
        assert_eq!(&*post.request, b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
    }

    #[test]
    fn lines_that_would_break_a_request_are_refused() {
        let with = |method: &str, header: &str| {
            let headers = vec![header.to_owned()];
            RequestOptions { method: method.to_owned(), headers, ..RequestOptions::default() }.check()
        };
        assert_eq!(with("GET", "A: b"), Ok(()));
        assert!(with("", "A: b").is_err() && with("G T", "A: b").is_err());
        for bad in ["A", ": b", "A b: c", "A: b\r\nC: d"] {
            assert!(with("GET", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn forms_with_files() {
        let field = |name: &str, file_name: Option<&str>, value: &[u8]| FormField {
            name: name.to_owned(),
            file_name: file_name.map(str::to_owned),
            value: value.to_vec(),
        };
        let (kind, body) = multipart(&[field("a\"", None, b"1"), field("f", Some("x.png"), b"brisk-form-0")]);
        assert_eq!(kind, "multipart/form-data; boundary=brisk-form-1");
        let want = "--brisk-form-1\r\nContent-Disposition: form-data; name=\"a%22\"\r\n\r\n1\r\n\
                    --brisk-form-1\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x.png\"\r\n\
                    Content-Type: application/octet-stream\r\n\r\nbrisk-form-0\r\n--brisk-form-1--\r\n";
        assert_eq!(String::from_utf8(body).unwrap(), want);
    }
}
