//! A client's side: one connection, for tools that ask servers.

use crate::burst::{self, Burst};
use crate::event::{Closed, Dir, Event};
use crate::limits::{
    CLIENT_PAYLOAD_BYTES_MAX, CLIENT_SPARE_BUFFERS_MAX, CLIENT_STREAM_BYTES_MAX, CLIENT_STREAMS_MAX,
    CLIENT_WINDOW_BYTES_MAX,
};
use crate::streams::{self, Read, Written};
use brisk_tls::{ClientContext, Distrust};
use bytes::BytesMut;
use quinn_proto::crypto::rustls::HandshakeData;
use quinn_proto::{
    ClientConfig, ConnectionEvent, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig,
    StreamEvent, TransportConfig,
};
use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Datagrams to be sent to the server.
#[derive(Debug)]
pub struct Fresh {
    /// The congestion mark that they are to bear.
    pub ecn: Option<EcnCodepoint>,
    /// The bytes are several datagrams of this size, of which the last may be smaller; `None`: one.
    pub segment: Option<usize>,
    /// UDP's payload.
    pub bytes: Vec<u8>,
}

/// What the connections of one place have in common. Clones share it: the sessions of TLS, and the tokens by which servers know a
/// client's address again (RFC 9000 §8.1.3).
#[derive(Clone)]
pub struct ClientSettings {
    config: ClientConfig,
    context: ClientContext,
}

impl fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientSettings")
    }
}

impl ClientSettings {
    /// `early`: where a session allows it, streams may be opened before the handshake (0-RTT, RFC 9001 §4.6). The error says what the TLS
    /// library has against it.
    pub fn new(context: &ClientContext, early: bool) -> Result<ClientSettings, String> {
        let mut config = ClientConfig::new(context.quic(early)?);
        config.transport_config(transport());
        Ok(ClientSettings { config, context: context.clone() })
    }
}

/// Counters of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets that were sent.
    pub sent: u64,
    /// Those of them that were lost; what they carried was sent again.
    pub lost: u64,
    /// Datagrams that came.
    pub received: u64,
}

/// See the module's head. One turn of its owner: [`Client::receive`] for every datagram and [`Client::handle_timeout`]; then
/// [`Client::poll_event`] until there is none; then [`Client::poll_transmit`] until there is none; then sleep until
/// [`Client::next_timeout`].
pub struct Client {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    inner: quinn_proto::Connection,
    burst: Burst,
    /// When more may be sent, if it was too early for that.
    sends_at: Option<Instant>,
    remote: SocketAddr,
    context: ClientContext,
    name: String,
    events: VecDeque<Event>,
    spare: Vec<Vec<u8>>,
    is_over: bool,
}

impl Client {
    /// A connection to the server called `name` at `remote`; nothing has been sent yet. The error says what the TLS library has against
    /// it.
    pub fn begin(
        now: Instant,
        settings: &ClientSettings,
        remote: SocketAddr,
        name: &str,
    ) -> Result<Client, String> {
        let mut config = EndpointConfig::default();
        config.max_udp_payload_size(CLIENT_PAYLOAD_BYTES_MAX).expect("a size that UDP has");
        let mut endpoint = Endpoint::new(Arc::new(config), None, true, None);
        let connected = endpoint.connect(now, settings.config.clone(), remote, name);
        let (handle, inner) = connected.map_err(|error| error.to_string())?;
        let (context, name) = (settings.context.clone(), name.to_string());
        Ok(Client {
            endpoint,
            handle,
            inner,
            burst: Burst::default(),
            sends_at: None,
            remote,
            context,
            name,
            events: VecDeque::new(),
            spare: Vec::new(),
            is_over: false,
        })
    }

    /// A datagram of the server's has come.
    pub fn receive(&mut self, now: Instant, ecn: Option<EcnCodepoint>, bytes: &[u8]) {
        // Answers to packets that belong to no connection: a client sends none.
        let mut out = Vec::new();
        let event = self.endpoint.handle(now, self.remote, None, ecn, BytesMut::from(bytes), &mut out);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.handle(event);
        }
    }

    fn handle(&mut self, event: ConnectionEvent) {
        self.inner.handle_event(event);
        while let Some(event) = self.inner.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(self.handle, event) {
                self.inner.handle_event(answer);
            }
        }
    }

    /// When [`Client::handle_timeout`] is to be called.
    pub fn next_timeout(&mut self) -> Option<Instant> {
        [self.inner.poll_timeout(), self.sends_at].into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.inner.poll_timeout().is_some_and(|at| at <= now) {
            self.inner.handle_timeout(now);
        }
    }

    /// What has happened. [`Event::Established`] comes when the handshake is complete; whether the server is the right one is asked then
    /// ([`Client::check`]). Nothing comes behind [`Event::Closed`].
    pub fn poll_event(&mut self) -> Option<Event> {
        while let Some(event) = self.inner.poll() {
            let event = match event {
                quinn_proto::Event::HandshakeDataReady => Event::Ready,
                quinn_proto::Event::Connected => Event::Established,
                quinn_proto::Event::ConnectionLost { reason } => Event::Closed(Closed::from(reason)),
                quinn_proto::Event::Stream(event) => match stream_event(event) {
                    Some(event) => event,
                    None => continue,
                },
                quinn_proto::Event::DatagramReceived | quinn_proto::Event::DatagramsUnblocked => continue,
            };
            self.events.push_back(event);
        }
        if self.is_over {
            return None;
        }
        let event = self.events.pop_front();
        self.is_over = matches!(event, Some(Event::Closed(_)));
        event
    }

    /// What is to be sent; `None`: nothing more at present.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Fresh> {
        let mut bytes = self.spare.pop().unwrap_or_default();
        let sent = burst::poll_transmit(&mut self.inner, &mut self.burst, now, &mut bytes);
        self.sends_at = sent.as_ref().err().copied();
        let Ok(Some(transmit)) = sent else {
            self.recycle(bytes);
            return None;
        };
        bytes.truncate(transmit.size);
        Some(Fresh { ecn: transmit.ecn, segment: transmit.segment_size, bytes })
    }

    /// Takes a buffer back whose bytes were sent.
    pub fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < CLIENT_SPARE_BUFFERS_MAX {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// Whether streams may be opened before the handshake is complete: what is sent on them may be replayed by others, and the server may
    /// refuse all of it ([`Client::early_accepted`]).
    pub fn may_be_early(&self) -> bool {
        self.inner.has_0rtt() && self.inner.is_handshaking()
    }

    /// When the handshake is complete: whether the server has taken what was sent before that. If not, all streams are gone, and the next
    /// to be opened have their numbers.
    pub fn early_accepted(&self) -> bool {
        self.inner.accepted_0rtt()
    }

    /// Packets come from another address from now on: the server is shown that one, by another connection ID (RFC 9000 §9.5).
    pub fn moved(&mut self) {
        self.inner.local_address_changed();
    }

    /// Whether the server is who it should be. `now`: seconds since 1970.
    pub fn check(&self, now: i64) -> Result<(), Distrust> {
        self.context.check_chain(&self.chain(), &self.name, now)
    }

    /// The server's certificates (DER), its own first.
    pub fn chain(&self) -> Vec<Vec<u8>> {
        brisk_tls::quic::chain_of(self.inner.crypto_session().peer_identity())
    }

    /// The protocol that was agreed on, once it is known.
    pub fn alpn(&self) -> Option<Vec<u8>> {
        let data = self.inner.crypto_session().handshake_data()?;
        data.downcast::<HandshakeData>().ok()?.protocol
    }

    /// Opens a stream; `None` if the server allows no other one at present.
    pub fn open(&mut self, dir: Dir) -> Option<u64> {
        self.inner.streams().open(dir.into()).map(Into::into)
    }

    /// A stream that the server has opened.
    pub fn accept(&mut self, dir: Dir) -> Option<u64> {
        self.inner.streams().accept(dir.into()).map(Into::into)
    }

    /// Appends at most `max` bytes of a stream to `into`.
    pub fn read(&mut self, stream: u64, max: usize, into: &mut Vec<u8>) -> Read {
        streams::read(&mut self.inner, stream, max, into)
    }

    /// Has a stream send these bytes, or some of them.
    pub fn write(&mut self, stream: u64, bytes: &[u8]) -> Written {
        streams::write(&mut self.inner, stream, bytes)
    }

    /// Nothing more is written to this stream. False if it is gone or was stopped.
    pub fn finish(&mut self, stream: u64) -> bool {
        streams::finish(&mut self.inner, stream)
    }

    /// Gives a stream up in both directions; the server is told `code`.
    pub fn give_up(&mut self, stream: u64, code: u64) {
        streams::reset(&mut self.inner, stream, code);
        streams::stop(&mut self.inner, stream, code);
    }

    /// Ends the connection; the server is told `code` of the application's.
    pub fn close(&mut self, now: Instant, code: u64) {
        self.inner.close(now, streams::number(code), bytes::Bytes::new());
    }

    /// The smoothed round-trip time.
    pub fn rtt(&self) -> Duration {
        self.inner.rtt()
    }

    /// See [`Traffic`].
    pub fn traffic(&self) -> Traffic {
        let stats = self.inner.stats();
        let (sent, lost) = (stats.path.sent_packets, stats.path.lost_packets);
        Traffic { sent, lost, received: stats.udp_rx.datagrams }
    }
}

fn stream_event(event: StreamEvent) -> Option<Event> {
    Some(match event {
        StreamEvent::Opened { dir: quinn_proto::Dir::Bi } => Event::Opened(Dir::Bi),
        StreamEvent::Opened { dir: quinn_proto::Dir::Uni } => Event::Opened(Dir::Uni),
        StreamEvent::Readable { id } => Event::Readable(id.into()),
        StreamEvent::Writable { id } => Event::Writable(id.into()),
        StreamEvent::Stopped { id, error_code } => Event::Stopped(id.into(), error_code.into_inner()),
        StreamEvent::Finished { id } => Event::Finished(id.into()),
        StreamEvent::Available { .. } => return None,
    })
}

/// As for servers, what the peer may make us hold is bounded.
fn transport() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(0u32.into())
        .max_concurrent_uni_streams(CLIENT_STREAMS_MAX.into())
        // The server decides on the idle time-out; the owner on that of the handshake.
        .max_idle_timeout(None)
        .stream_receive_window(CLIENT_STREAM_BYTES_MAX.into())
        .receive_window(CLIENT_WINDOW_BYTES_MAX.into())
        .datagram_receive_buffer_size(None)
        .datagram_send_buffer_size(0);
    Arc::new(config)
}
