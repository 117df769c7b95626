//! Two ends of a session, in memory.
#![allow(dead_code)]

use brisk_tls::issue::{Issued, Wish};
use brisk_tls::{
    Certified, ClientContext, ClientOptions, Fixed, Offered, PrivateKey, Sealing, ServerContext,
    ServerOptions, Session, Versions,
};
use std::sync::Arc;

pub const NOW: i64 = 1_800_000_000;
pub const VALID: Wish<'_> = Wish {
    common_name: "localhost",
    names: &["localhost", "127.0.0.1"],
    authority: false,
    not_before: NOW - 1000,
    not_after: NOW + 1000,
};

pub fn certified(issued: &Issued) -> Certified {
    let key = PrivateKey::from_pem(issued.key_pem().as_bytes(), &[]).unwrap();
    Certified::new(brisk_tls::chain(issued.certificate_pem().as_bytes()).unwrap(), &key, None).unwrap()
}

pub fn server(change: impl FnOnce(&mut ServerOptions)) -> ServerContext {
    let mut options = ServerOptions::default();
    change(&mut options);
    let issued = Issued::new(&VALID, None).unwrap();
    ServerContext::new(&options, Arc::new(Fixed([certified(&issued)].into()))).unwrap()
}

/// One end and what it has got.
pub struct End {
    pub session: Session,
    pub plain: Vec<u8>,
}

impl End {
    pub fn new(session: Session) -> End {
        End { session, plain: Vec::new() }
    }

    /// Seals for `other`, which takes it; what that answers is taken here.
    pub fn give(&mut self, text: &[u8], other: &mut End) -> Result<(), brisk_tls::Error> {
        let mut records = Vec::new();
        self.session.seal(text, &mut records)?;
        let answer = other.take(&records)?;
        self.take(&answer).map(drop)
    }

    /// Takes bytes in and gives those to be sent.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Vec<u8>, brisk_tls::Error> {
        let mut out = Vec::new();
        let plain = &mut self.plain;
        self.session.receive(&mut bytes.to_vec(), &mut |text| plain.extend_from_slice(text), &mut out)?;
        Ok(out)
    }
}

/// Shakes hands until nobody has anything to say.
pub fn shake(client: &mut End, server: &mut End) -> Result<(), brisk_tls::Error> {
    let mut to_server = client.take(b"")?;
    loop {
        // In small pieces, as a network may deliver.
        let mut to_client = Vec::new();
        for piece in to_server.chunks(100) {
            to_client.extend(server.take(piece)?);
        }
        if to_client.is_empty() {
            return Ok(());
        }
        to_server = client.take(&to_client)?;
    }
}

pub fn connect(server: &ServerContext, client: &ClientContext) -> (End, End) {
    let mut client = End::new(client.session("localhost", true).unwrap());
    let mut server = End::new(server.session(Offered::default()).unwrap());
    shake(&mut client, &mut server).unwrap();
    assert!(client.session.is_established() && server.session.is_established());
    (client, server)
}

/// Each version, with each of its suites.
pub fn suites() -> impl Iterator<Item = (Versions, &'static str)> {
    let tls12 = ["AES128", "AES256", "CHACHA20"].map(|suite| (Versions { tls12: true, tls13: false }, suite));
    let tls13 = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];
    tls12.into_iter().chain(tls13.map(|suite| (Versions { tls12: false, tls13: true }, suite)))
}

/// A client and a server that speak this version with this suite; with `kernel` keys may go to it.
pub fn pair(versions: Versions, suite: &str, kernel: bool) -> (End, End) {
    let server = server(|options| {
        options.versions = versions;
        options.sealing = if kernel { Sealing::Kernel } else { Sealing::Own };
        let set = if versions.tls13 {
            options.suites.set_tls13_list(suite)
        } else {
            options.suites.set_list(suite)
        };
        set.unwrap();
    });
    connect(&server, &ClientContext::new(&ClientOptions::unverified()).unwrap())
}
