//! What `brisk doctor` says of a pool.

use crate::site::Site;
use brisk_testkit::server::text;
use serde_json::Value;
use std::process::Command;

/// Twenty users, two workers and four places in the queue: fourteen are answered with 503 at once and ask again.
#[test]
fn a_pool_that_turns_requests_away_is_the_limit_and_not_its_errors() {
    let site = Site::new("pm static; max_children 2; queue 4;", "");
    site.script("wait.php", "<?php usleep(50000); echo 'ok';");
    let url = format!("http://127.0.0.1:{}/wait.php", site.server.port());
    let out = Command::new(env!("CARGO_BIN_EXE_brisk"))
        .args(["doctor", &url, "--users", "20", "--duration", "3s", "--json"])
        .output()
        .expect("the program starts");
    assert!(out.status.success(), "{}", text(&out.stderr));
    let found: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert!(found["load"]["errors"].as_f64() > Some(0.5), "{found:#}");
    assert_eq!(found["limit"]["cause"], "pool-too-small", "{found:#}");
    let sentence = found["limit"]["sentence"].as_str().expect("a sentence");
    assert!(
        sentence.contains("of 2 processes busy") && sentence.contains("turned away at once"),
        "{sentence}"
    );
    assert!(found["budget"]["queue_us"].as_f64() > found["budget"]["network_us"].as_f64(), "{found:#}");
}
