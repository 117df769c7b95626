//! brisk-net
