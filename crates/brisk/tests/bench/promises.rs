//! `--slo`: of the runs of a sweep, and as what a search looks for.

use super::{bench, figures, server};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

#[test]
fn each_run_of_a_sweep_is_judged() {
    let server = server();
    let url = format!("http://127.0.0.1:{}/a.txt", server.port());
    let all = figures(&["--users", "1,2", "-d", "200ms", "--slo", "rate>1,errors<1%", &url]);
    let promises: Vec<&str> = all["promises"]
        .as_array()
        .unwrap()
        .iter()
        .map(|judged| judged["promise"].as_str().unwrap())
        .collect();
    assert_eq!(promises, ["1 user: rate>1", "1 user: errors<1%", "2 users: rate>1", "2 users: errors<1%"]);
    assert_eq!(all["verdict"], "holds", "{all}");
}

/// The rate that a search finds is one of these; the generator of a busy machine is late: one quiet search of several counts.
fn assert_found(args: &[&str], wanted: std::ops::RangeInclusive<f64>) {
    let mut searches = Vec::new();
    let is_found = (0..3).any(|_| {
        let output = bench(&[&["-q", "--json", "--find-max"], args].concat());
        let all: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{args:?}: {output:?}"));
        let holds = all["search"]["holds_at"].as_f64();
        searches.push(all["search"].clone());
        holds.is_some_and(|holds| wanted.contains(&holds))
    });
    assert!(is_found, "{searches:?}");
}

/// The server lets 200 requests per second through.
#[test]
fn the_highest_rate_is_found() {
    let server = server();
    let url = format!("http://127.0.0.1:{}/limited", server.port());
    // 200, a tenth that may fail, and the burst of 20.
    assert_found(&["--slo", "errors<10%", "-c", "20", "-d", "1s", &url], 130.0..=270.0);
    let broken = bench(&["-q", "--rate", "2000", "-d", "500ms", "--slo", "errors<1%", &url]);
    // On a machine that is busy with other tests the generator may be late, or requests find no connection: nothing is judged then.
    let text = String::from_utf8_lossy(&broken.stdout);
    assert_eq!(broken.status.code(), Some(if text.contains("INVALID") { 2 } else { 3 }), "{broken:?}");
}

/// The server lets 200 requests per second through, and the others wait: in half a second, 240 are 100 ms late.
#[test]
fn the_highest_rate_with_a_promise_of_time_is_found() {
    let server = server();
    let url = format!("http://127.0.0.1:{}/paced", server.port());
    assert_found(&["--slo", "p99<100ms,errors<1%", "-c", "100", "-d", "500ms", &url], 150.0..=300.0);
}

/// Answers the first connection, slowly, and closes all others without a word.
fn answers_one_connection() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for (number, mut client) in listener.incoming().map_while(Result::ok).enumerate() {
            std::thread::spawn(move || {
                let mut room = [0; 4096];
                while let Ok(1..) = client.read(&mut room)
                    && number == 0
                {
                    std::thread::sleep(Duration::from_millis(125));
                    let _ = client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                }
            });
        }
    });
    port
}

/// A trial with nothing but errors is given up, and says of its rate that it is too high. The search goes on below.
#[test]
fn a_rate_at_which_nothing_is_answered_does_not_end_a_search() {
    let url = format!("http://127.0.0.1:{}/", answers_one_connection());
    let output = bench(&["-q", "--json", "--find-max", "--slo", "errors<1%", "-c", "1", "-d", "4s", &url]);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!((output.status.code(), &all["verdict"]), (Some(3), &"broken".into()), "{all}");
    assert_eq!((&all["search"]["ended_early"], &all["ended_early"]), (&false.into(), &false.into()), "{all}");
    assert!(all["search"]["trials"].as_array().unwrap().len() > 1, "{all}");
}
