//! Rewriting and variables, as clients see them: `rewrite/http.conf` is asked `rewrite/cases.txt`.

use brisk_testkit::{Builder, scenario};
use rustix::process::Signal;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

#[test]
fn rewriting() {
    let mut server = Builder::new(BIN)
        .http(include_str!("rewrite/http.conf"))
        .file("html/file.txt", "file")
        .file("html/other/file.txt", "other")
        .file("html/run.sh", "run")
        .start();
    scenario::run(&server, include_str!("rewrite/cases.txt"));
    server.end(Signal::QUIT);
    assert_eq!(
        server.read("uris.log"),
        "/logged?a=1|?a=1\n".repeat(3),
        "a prepared answer is logged like the first"
    );
    assert_eq!(
        server.read("captured.log"),
        "part OK\n".repeat(3),
        "an answer whose line needs captures is not prepared"
    );
}
