//! What an idle connection holds, by the allocator's word.

mod pair;

use pair::simple;
use std::fs;

fn resident() -> usize {
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// In a test program of its own: what other tests hold would be counted, too.
#[test]
fn an_idle_connection_holds_less_than_32_kib() {
    const COUNT: usize = 400;
    let mut pair = simple();
    let visit = |pair: &mut pair::Pair, at: usize| {
        pair.from = std::net::SocketAddr::from(([127, 1, (at >> 8) as u8, at as u8], 5555));
        pair.events.clear();
        pair.client_events.clear();
        pair.to_server.clear();
        pair.to_client.clear();
        pair.hosts.asked.lock().unwrap().clear();
        pair.connect("a.test");
        pair.settle();
        // The client is gone without a word.
        pair.client = None;
    };
    // What is allocated once is not counted.
    (0..100).for_each(|at| visit(&mut pair, at));
    let before = resident();
    (100..100 + COUNT).for_each(|at| visit(&mut pair, at));
    assert_eq!(pair.server.connections(), 100 + COUNT);
    let each = resident().saturating_sub(before) / COUNT;
    println!("{each} bytes each");
    assert!(each <= 32 * 1024, "{each} bytes for an idle connection");
}
