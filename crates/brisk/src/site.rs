//! The options that say which configuration a command is about.

use crate::config::Paths;
use crate::options::Options;
use clap::{Args, ValueHint};

/// As nginx's own options; they may stand before and behind the order.
#[derive(Args, Clone, Debug, Default)]
pub struct Site {
    /// The configuration [default: brisk.conf, else nginx.conf, in the prefix]
    #[arg(short, value_name = "FILE", global = true, display_order = 900, value_hint = ValueHint::FilePath)]
    conf: Option<String>,
    /// The folder from which relative paths start [default: /etc/brisk/]
    #[arg(short, value_name = "DIR", global = true, display_order = 900, value_hint = ValueHint::DirPath)]
    prefix: Option<String>,
}

impl Site {
    pub fn paths(&self) -> Paths {
        Paths::new(&Options { conf: self.conf.clone(), prefix: self.prefix.clone(), ..Options::default() })
    }
}
