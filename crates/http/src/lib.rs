//! brisk-http
