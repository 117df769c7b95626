//! Rewriting and variables, as clients see them: `rewrite/http.conf` is asked `rewrite/cases.txt`.

use brisk_testkit::versions::everywhere;
use brisk_testkit::{Builder, scenario};
use rustix::process::Signal;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// `rewrite/http.conf` with the files that its cases speak of.
fn site() -> Builder {
    Builder::new(BIN)
        .http(include_str!("rewrite/http.conf"))
        .file("html/file.txt", "file")
        .file("html/other/file.txt", "other")
        .file("html/run.sh", "run")
}

#[test]
fn rewriting_over_other_versions() {
    let (builder, versions) = everywhere(site());
    assert!(scenario::run_over(&builder.start(), include_str!("rewrite/cases.txt"), &versions) > 30);
}

#[test]
fn rewriting() {
    let mut server = site().start();
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

/// Found by comparing with nginx's source: locations inside of a closed one were open.
#[test]
fn what_lies_inside_of_an_internal_location_is_internal() {
    let conf = "server { listen 127.0.0.1:{{PORT}};
        location / { return 200 open; }
        location /closed/ { internal;
            location /closed/prefix { return 200 secret; }
            location ~ \\.txt$ { return 200 secret; }
            location = /closed/exact { return 200 secret; }
            location /closed/if { if ($arg_a) { return 200 secret; } }
        }
        location /way/ { rewrite ^/way(.*) /closed$1; } }";
    let server = Builder::new(BIN).http(conf).start();
    for path in ["prefix", "a.txt", "exact"] {
        assert_eq!(server.get(&format!("/closed/{path}")).status, 404, "{path}");
        assert_eq!(server.get(&format!("/way/{path}")).text(), "secret", "{path}");
    }
    assert_eq!(server.get("/closed/if?a=1").status, 404);
    assert_eq!(server.get("/open").text(), "open");
}
