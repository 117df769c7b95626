//! What a handshake has come to, apart from the session that made it.

use crate::names;
use rustls::pki_types::CertificateDer;
use rustls::{CommonState, HandshakeKind, ProtocolVersion};

/// See the module's head.
#[derive(Clone, Debug)]
pub struct Agreed {
    /// It went on with an earlier session.
    pub is_resumed: bool,
    /// `TLSv1.2`, `TLSv1.3`; nothing before it is agreed.
    pub version: &'static str,
    /// OpenSSL's name of the cipher suite.
    pub cipher: &'static str,
    /// OpenSSL's name of the group that keys were exchanged in.
    pub group: &'static str,
    /// The protocol agreed on by ALPN.
    pub alpn: Option<Box<[u8]>>,
    /// The peer's certificate and those it sent with it.
    pub peer_certificates: Box<[CertificateDer<'static>]>,
}

impl Agreed {
    /// What the library knows so far.
    pub(crate) fn of(common: &CommonState) -> Agreed {
        Agreed {
            is_resumed: is_resumed(common),
            version: version(common),
            cipher: cipher(common),
            group: group(common),
            alpn: common.alpn_protocol().map(Into::into),
            peer_certificates: common.peer_certificates().unwrap_or_default().into(),
        }
    }
}

pub(crate) fn is_resumed(common: &CommonState) -> bool {
    common.handshake_kind() == Some(HandshakeKind::Resumed)
}

pub(crate) fn version(common: &CommonState) -> &'static str {
    match common.protocol_version() {
        Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
        Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
        _ => "",
    }
}

pub(crate) fn cipher(common: &CommonState) -> &'static str {
    let suite = common.negotiated_cipher_suite();
    suite.and_then(|suite| names::cipher(u16::from(suite.suite()))).unwrap_or_default()
}

pub(crate) fn group(common: &CommonState) -> &'static str {
    let group = common.negotiated_key_exchange_group();
    group.and_then(|group| names::group(u16::from(group.name()))).unwrap_or_default()
}
