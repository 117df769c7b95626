//! What connections of one listening socket may do.

use crate::limits::{
    CRYPTO_BYTES_MAX, HANDSHAKE_TIME_MAX, LOCAL_PAYLOAD_BYTES, LOCAL_PAYLOAD_STEP_BYTES, LOCAL_WINDOW_BYTES,
    RECEIVE_WINDOW_BYTES_MAX, SEND_WINDOW_BYTES_MIN, STREAMS_AT_FIRST, UNI_STREAMS_MAX,
};
use quinn_proto::congestion::CubicConfig;
use quinn_proto::{IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};
use std::sync::Arc;
use std::time::Duration;

/// `quic_retry`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    /// Every client has to show that it receives what is sent to its address, one round trip more.
    On,
    /// None.
    Off,
    /// While more than [`HALF_OPEN_RETRY`](crate::limits::HALF_OPEN_RETRY) handshakes are under way.
    #[default]
    Auto,
}

/// What is configured for the connections of one listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Requests that a client may have open at a time.
    pub streams: u32,
    /// Bytes that a client may send on one stream before they are read.
    pub stream_window: u32,
    /// A connection on which nothing comes is over after this time.
    pub idle: Duration,
    /// A handshake that is not complete after this time is given up.
    pub handshake: Duration,
    /// See [`Retry`].
    pub retry: Retry,
    /// Several datagrams may leave in one system call.
    pub gso: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            streams: 128,
            stream_window: 64 * 1024,
            idle: Duration::from_secs(75),
            handshake: HANDSHAKE_TIME_MAX,
            retry: Retry::Auto,
            gso: true,
        }
    }
}

impl Settings {
    /// The library's defaults are for peers that are trusted; every one that concerns memory is replaced. `is_local`: for clients on this
    /// machine.
    pub(crate) fn transport(&self, is_local: bool) -> Arc<TransportConfig> {
        let mut config = TransportConfig::default();
        let streams = u64::from(self.streams).min(STREAMS_AT_FIRST);
        config
            .max_concurrent_bidi_streams(VarInt::from_u64(streams).unwrap_or(VarInt::MAX))
            .max_concurrent_uni_streams(UNI_STREAMS_MAX.into())
            .stream_receive_window(self.stream_window.into())
            .receive_window(RECEIVE_WINDOW_BYTES_MAX.max(self.stream_window).into())
            .send_window(SEND_WINDOW_BYTES_MIN)
            .crypto_buffer_size(CRYPTO_BYTES_MAX)
            .max_idle_timeout(IdleTimeout::try_from(self.idle).ok())
            .datagram_receive_buffer_size(None)
            .datagram_send_buffer_size(0)
            .allow_spin(false)
            .enable_segmentation_offload(self.gso);
        if is_local {
            let mut search = MtuDiscoveryConfig::default();
            search.upper_bound(LOCAL_PAYLOAD_BYTES).minimum_change(LOCAL_PAYLOAD_STEP_BYTES);
            config.mtu_discovery_config(Some(search));
            let mut control = CubicConfig::default();
            control.initial_window(LOCAL_WINDOW_BYTES);
            config.congestion_controller_factory(Arc::new(control));
        }
        Arc::new(config)
    }
}
