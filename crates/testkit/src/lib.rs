//! brisk-testkit
