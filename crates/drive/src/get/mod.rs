//! `brisk get`: one exchange laid bare.

mod cli;
mod show;

pub use cli::GET;
