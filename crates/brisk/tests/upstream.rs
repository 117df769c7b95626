//! Groups of back ends: how requests are spread, what becomes of those that fail, what can be changed meanwhile.

#[path = "upstream/api.rs"]
mod api;
#[path = "upstream/balance.rs"]
mod balance;
#[path = "upstream/exact.rs"]
mod exact;
#[path = "upstream/health.rs"]
mod health;
#[path = "upstream/kept.rs"]
mod kept;
#[path = "upstream/names.rs"]
mod names;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// Back ends that tell who they are: servers on ports of their own in the same process.
const BACKENDS: &str = r#"
    server { listen 127.0.0.1:{{PORT2}}; location / { return 200 "one"; } location = /bad { return 503; } }
    server { listen 127.0.0.1:{{PORT3}}; location / { return 200 "two"; } }
"#;
