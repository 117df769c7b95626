//! brisk-server
