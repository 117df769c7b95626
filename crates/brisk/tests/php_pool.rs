//! PHP pools: processes of PHP that the server runs itself.

#[path = "php_pool/auto.rs"]
mod auto;
#[path = "php_pool/bad.rs"]
mod bad;
#[path = "php_pool/disabled.rs"]
mod disabled;
#[path = "php_pool/doctor.rs"]
mod doctor;
#[path = "php_pool/faults.rs"]
mod faults;
#[path = "php_pool/guarded.rs"]
mod guarded;
#[path = "php_pool/life.rs"]
mod life;
#[path = "php_pool/line.rs"]
mod line;
#[path = "php_pool/pools.rs"]
mod pools;
#[path = "php_pool/requests.rs"]
mod requests;
#[path = "php_pool/site.rs"]
mod site;
#[path = "php_pool/start.rs"]
mod start;
#[path = "php_pool/wire.rs"]
mod wire;
#[path = "php_pool/worker.rs"]
mod worker;
