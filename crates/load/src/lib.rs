//! brisk-load
