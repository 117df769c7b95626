//! Invariants as a plain function over arbitrary bytes: it panics if one is broken.

use crate::limits::PROXY_V2_BYTES_MAX;
use crate::{Progress, parse};

/// PROXY headers: pieces do not matter, what follows is left alone, and no name finds a field outside of the header.
pub fn fuzz_proxy_protocol(data: &[u8]) {
    let whole = parse(data);
    let mut at = 0;
    let pieces = loop {
        let result = parse(&data[..at]);
        if at == data.len() || result != Ok(Progress::Partial) {
            break result;
        }
        at += 1;
    };
    let (len, header) = match (whole, pieces) {
        (Ok(whole), pieces) => {
            assert_eq!(pieces, Ok(whole.clone()));
            match whole {
                Progress::Partial => {
                    assert!(data.len() < PROXY_V2_BYTES_MAX);
                    return;
                }
                Progress::Complete { len, header } => (len, header),
            }
        }
        (Err(_), pieces) => {
            assert!(pieces.is_err());
            return;
        }
    };
    assert!(len == at && (15..=PROXY_V2_BYTES_MAX).contains(&len));
    let more = [&data[..len], b"\r\n\0PROXY "].concat();
    assert_eq!(parse(&more), Ok(Progress::Complete { len, header: header.clone() }));
    let Some(header) = header else { return };
    let hex = (0..=255).flat_map(|kind: u8| [format!("0x{kind:x}"), format!("ssl_0x{kind:02x}")]);
    let names = ["alpn", "ssl", "ssl_verify", "ssl_cn"].into_iter().map(String::from).chain(hex);
    for name in names {
        if let Ok(Some(value)) = header.tlv(&name) {
            assert!(value.len() <= len || name == "ssl_verify");
        }
    }
}
