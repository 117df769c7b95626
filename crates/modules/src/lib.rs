//! brisk-modules
