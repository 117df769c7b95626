//! brisk-conf
