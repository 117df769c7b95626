//! PEM files (RFC 7468, and the headers of RFC 1421 that OpenSSL's old encrypted keys have).

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// One block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What stands after BEGIN: `CERTIFICATE`, `PRIVATE KEY`, …
    pub label: String,
    /// `Name: value` lines before the data.
    pub headers: Vec<(String, String)>,
    /// The content.
    pub der: Vec<u8>,
}

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// All blocks of a file; text around them is ignored. The error names what is wrong in OpenSSL's words.
pub fn blocks(text: &[u8]) -> Result<Vec<Block>, &'static str> {
    let mut out = Vec::new();
    let mut lines = text.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
    while let Some(line) = lines.next() {
        let Some(label) = line.strip_prefix(b"-----BEGIN ").and_then(|l| l.strip_suffix(b"-----")) else {
            continue;
        };
        let label = String::from_utf8_lossy(label).into_owned();
        let end = format!("-----END {label}-----");
        let mut headers: Vec<(String, String)> = Vec::new();
        let mut data = Vec::new();
        loop {
            let Some(line) = lines.next() else { return Err("bad end line") };
            if line.starts_with(b"-----") {
                if line != end.as_bytes() {
                    return Err("bad end line");
                }
                break;
            }
            match line.iter().position(|&b| b == b':') {
                Some(at) if data.is_empty() => {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes.trim_ascii()).into_owned();
                    headers.push((text(&line[..at]), text(&line[at + 1..])));
                }
                _ => data.extend_from_slice(line),
            }
        }
        let der = BASE64.decode(&data).map_err(|_| "bad base64 decode")?;
        out.push(Block { label, headers, der });
    }
    Ok(out)
}

/// Base64 as OCSP puts it into a URL (RFC 6960 A.1).
pub fn base64_for_url(bytes: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    text.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D")
}

/// Writes a block as OpenSSL does.
pub fn encode(label: &str, der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out + "-----END " + label + "-----\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_survive_their_way() {
        let der: Vec<u8> = (0..200).collect();
        let text =
            format!("some words\n{}more\r\n{}", encode("A", &der), encode("B C", b"x").replace('\n', "\r\n"));
        let found = blocks(text.as_bytes()).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].label.as_str(), &found[0].der), ("A", &der));
        assert_eq!((found[1].label.as_str(), &found[1].der[..]), ("B C", &b"x"[..]));
    }

    #[test]
    fn broken_files_are_refused() {
        let cases = [
            ("-----BEGIN A-----\nAAAA\n", "bad end line"),
            ("-----BEGIN A-----\nAAAA\n-----END B-----\n", "bad end line"),
            ("-----BEGIN A-----\nA*AA\n-----END A-----\n", "bad base64 decode"),
        ];
        for (text, error) in cases {
            assert_eq!(blocks(text.as_bytes()), Err(error), "{text}");
        }
        assert_eq!(blocks(b"nothing here"), Ok(Vec::new()));
    }
}
