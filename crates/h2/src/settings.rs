//! SETTINGS (RFC 9113 §6.5, RFC 8441 §3, RFC 9218 §2.1).

use crate::error::{ConnectionError, ErrorCode};
use crate::frame::{
    HEAD_BYTES, PAYLOAD_BYTES_DEFAULT, PAYLOAD_BYTES_MAX, WINDOW_DEFAULT, WINDOW_MAX, kind, write_head,
};

/// Setting identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Setting {
    /// Bytes of the dynamic table for header compression.
    HeaderTableSize = 1,
    /// Whether a server may make requests itself.
    EnablePush = 2,
    /// How many streams the peer may have open.
    MaxConcurrentStreams = 3,
    /// The window that streams begin with, in bytes.
    InitialWindowSize = 4,
    /// The largest payload of a frame, in bytes.
    MaxFrameSize = 5,
    /// The largest header list, in bytes.
    MaxHeaderListSize = 6,
    /// RFC 8441 §3.
    EnableConnectProtocol = 8,
    /// RFC 9218 §2.1.
    NoRfc7540Priorities = 9,
}

/// What one side has announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// [`Setting::HeaderTableSize`].
    pub header_table_size: u32,
    /// [`Setting::EnablePush`].
    pub enable_push: bool,
    /// [`Setting::MaxConcurrentStreams`]; `None`: no limit.
    pub max_concurrent_streams: Option<u32>,
    /// [`Setting::InitialWindowSize`].
    pub initial_window_size: u32,
    /// [`Setting::MaxFrameSize`].
    pub max_frame_size: u32,
    /// [`Setting::MaxHeaderListSize`]; `None`: no limit.
    pub max_header_list_size: Option<u32>,
    /// [`Setting::EnableConnectProtocol`].
    pub enable_connect_protocol: bool,
    /// [`Setting::NoRfc7540Priorities`].
    pub no_rfc7540_priorities: bool,
}

impl Default for Settings {
    /// What holds before anything was announced.
    fn default() -> Settings {
        Settings {
            header_table_size: 4096,
            enable_push: true,
            max_concurrent_streams: None,
            initial_window_size: WINDOW_DEFAULT,
            max_frame_size: PAYLOAD_BYTES_DEFAULT,
            max_header_list_size: None,
            enable_connect_protocol: false,
            no_rfc7540_priorities: false,
        }
    }
}

impl Settings {
    /// Takes the parameters of a frame (or of an `HTTP2-Settings` field), in their order. Unknown ones are ignored.
    pub fn apply(&mut self, payload: &[u8]) -> Result<(), ConnectionError> {
        let (params, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            let text = format!("SETTINGS frame with incorrect length {}", payload.len());
            return Err(ConnectionError::size(text));
        }
        for param in params {
            let id = u16::from_be_bytes([param[0], param[1]]);
            let value = u32::from_be_bytes([param[2], param[3], param[4], param[5]]);
            self.set(id, value)?;
        }
        Ok(())
    }

    fn set(&mut self, id: u16, value: u32) -> Result<(), ConnectionError> {
        let flag = |name: &str| match value {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(incorrect(ErrorCode::PROTOCOL_ERROR, name, value)),
        };
        match id {
            1 => self.header_table_size = value,
            2 => self.enable_push = flag("ENABLE_PUSH")?,
            3 => self.max_concurrent_streams = Some(value),
            4 if value > WINDOW_MAX => {
                return Err(incorrect(ErrorCode::FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE", value));
            }
            4 => self.initial_window_size = value,
            5 if !(PAYLOAD_BYTES_DEFAULT..=PAYLOAD_BYTES_MAX).contains(&value) => {
                return Err(incorrect(ErrorCode::PROTOCOL_ERROR, "MAX_FRAME_SIZE", value));
            }
            5 => self.max_frame_size = value,
            6 => self.max_header_list_size = Some(value),
            8 => self.enable_connect_protocol = flag("ENABLE_CONNECT_PROTOCOL")?,
            9 => self.no_rfc7540_priorities = flag("NO_RFC7540_PRIORITIES")?,
            _ => {}
        }
        Ok(())
    }

    /// Appends a SETTINGS frame with what differs from the defaults.
    pub fn write(&self, out: &mut Vec<u8>) {
        let usual = Settings::default();
        let start = out.len();
        write_head(0, kind::SETTINGS, 0, 0, out);
        let mut put = |wanted: bool, id: Setting, value: u32| {
            if wanted {
                out.extend_from_slice(&(id as u16).to_be_bytes());
                out.extend_from_slice(&value.to_be_bytes());
            }
        };
        put(
            self.header_table_size != usual.header_table_size,
            Setting::HeaderTableSize,
            self.header_table_size,
        );
        put(!self.enable_push, Setting::EnablePush, 0);
        if let Some(max) = self.max_concurrent_streams {
            put(true, Setting::MaxConcurrentStreams, max);
        }
        let window = self.initial_window_size;
        put(window != usual.initial_window_size, Setting::InitialWindowSize, window);
        put(self.max_frame_size != usual.max_frame_size, Setting::MaxFrameSize, self.max_frame_size);
        if let Some(max) = self.max_header_list_size {
            put(true, Setting::MaxHeaderListSize, max);
        }
        put(self.enable_connect_protocol, Setting::EnableConnectProtocol, 1);
        put(self.no_rfc7540_priorities, Setting::NoRfc7540Priorities, 1);
        let len = out.len() - start - HEAD_BYTES;
        out[start + 2] = len as u8;
    }
}

#[cold]
fn incorrect(code: ErrorCode, name: &str, value: u32) -> ConnectionError {
    ConnectionError::new(code, format!("SETTINGS frame with incorrect {name} value {value}"))
}
