//! The choice among peers, compared with nginx's and with what must hold whatever happens.

use crate::random::Random;
use crate::*;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

const NOW: u64 = 1_000_000_000;

fn spec(port: u16, weight: u32) -> ServerSpec {
    let text = format!("127.0.0.1:{port}");
    let mut spec = ServerSpec::new(&text, vec![Endpoint::Ip(text.parse().unwrap())]);
    spec.weight = weight;
    spec
}

fn group(method: Method, specs: &[ServerSpec]) -> Arc<Group> {
    Arc::new(Group::new("u", method, specs))
}

/// The ports that `count` requests go to, each answered at once.
fn ports(group: &Arc<Group>, count: usize, ask: &Ask) -> Vec<u16> {
    (0..count)
        .map(|_| {
            let mut selection = Selection::new(group.clone(), ask.clone(), NOW);
            let lease = selection.next(NOW).unwrap();
            let port = port(&lease);
            selection.finish(lease, Outcome::Ok, Times::default(), NOW);
            port
        })
        .collect()
}

fn port(lease: &Lease) -> u16 {
    match &lease.peer.endpoint {
        Endpoint::Ip(address) => address.port(),
        Endpoint::Unix(_) => 0,
    }
}

#[test]
fn round_robin_spreads_without_bursts() {
    let three = group(Method::RoundRobin, &[spec(1, 5), spec(2, 1), spec(3, 1)]);
    assert_eq!(ports(&three, 14, &Ask::default()), [1, 1, 2, 1, 3, 1, 1, 1, 1, 2, 1, 3, 1, 1]);
}

#[test]
fn weights_hold_over_any_number_of_peers() {
    let mut random = Random::new(7);
    for _ in 0..50 {
        let weights: Vec<u32> = (0..=random.next() % 9).map(|_| 1 + random.next() as u32 % 20).collect();
        let specs: Vec<_> = weights.iter().enumerate().map(|(at, w)| spec(at as u16 + 1, *w)).collect();
        let total: u32 = weights.iter().sum();
        for method in [Method::RoundRobin, Method::LeastConn] {
            let group = group(method, &specs);
            let mut seen: HashMap<u16, u32> = HashMap::new();
            for port in ports(&group, total as usize * 2, &Ask::default()) {
                *seen.entry(port).or_default() += 1;
            }
            for (at, weight) in weights.iter().enumerate() {
                assert_eq!(seen[&(at as u16 + 1)], weight * 2, "{method:?} {weights:?}");
            }
        }
    }
}

#[test]
fn who_fails_is_left_alone_and_tried_again_once() {
    let group = group(Method::RoundRobin, &[spec(1, 1), spec(2, 1)]);
    let fail = |now: u64| {
        let mut selection = Selection::new(group.clone(), Ask::default(), now);
        let mut seen = Vec::new();
        while let Some(lease) = selection.next(now) {
            let port = port(&lease);
            seen.push(port);
            let outcome = if port == 1 { Outcome::Failed } else { Outcome::Ok };
            let disabled = selection.finish(lease, outcome, Times::default(), now);
            assert_eq!(disabled, port == 1);
            if outcome == Outcome::Ok || selection.tries() == 0 {
                break;
            }
        }
        seen
    };
    assert_eq!(fail(NOW), [1, 2]);
    assert_eq!(ports(&group, 5, &Ask::default()), [2; 5]);
    // After fail_timeout one request tries it, not all of them.
    let later = NOW + 11_000;
    let mut first = Selection::new(group.clone(), Ask::default(), later);
    let mut second = Selection::new(group.clone(), Ask::default(), later);
    let mut third = Selection::new(group.clone(), Ask::default(), later);
    let got: Vec<u16> =
        [&mut first, &mut second, &mut third].map(|s| s.next(later).map_or(0, |l| port(&l))).into();
    assert_eq!(got.iter().filter(|port| **port == 1).count(), 1, "{got:?}");
}

#[test]
fn a_single_peer_is_never_given_up() {
    let group = group(Method::RoundRobin, &[spec(1, 1)]);
    for _ in 0..5 {
        let mut selection = Selection::new(group.clone(), Ask::default(), NOW);
        let lease = selection.next(NOW).unwrap();
        assert!(!selection.finish(lease, Outcome::Failed, Times::default(), NOW));
        assert_eq!(selection.tries(), 0);
    }
}

/// The primary among replicas: whoever needs it has no other.
#[test]
fn the_only_one_with_a_role_is_never_given_up() {
    for method in [Method::RoundRobin, Method::LeastConn] {
        let group = group(method, &[spec(1, 1), spec(2, 1)]);
        let only = group.peers(NOW)[1].info.id;
        for _ in 0..3 {
            let mut selection = Selection::new(group.clone(), Ask::default(), NOW);
            selection.restrict(&[only]);
            let lease = selection.next(NOW).unwrap();
            assert_eq!(port(&lease), 2);
            selection.finish(lease, Outcome::Failed, Times::default(), NOW);
            // Once in a request.
            assert!(selection.next(NOW).is_none());
        }
    }
}

#[test]
fn places_are_counted_exactly_over_threads() {
    let mut one = spec(1, 1);
    one.max_conns = 3;
    let mut two = spec(2, 1);
    two.max_conns = 2;
    let group = group(Method::RoundRobin, &[one, two]);
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let group = group.clone();
            std::thread::spawn(move || {
                let mut most = 0;
                for _ in 0..2000 {
                    let mut selection = Selection::new(group.clone(), Ask::default(), NOW);
                    let Some(lease) = selection.next(NOW) else { continue };
                    most = most.max(group.peers(NOW).iter().map(|p| p.active).sum());
                    if lease.peer.id == 0 {
                        selection.finish(lease, Outcome::Ok, Times::default(), NOW);
                    }
                }
                most
            })
        })
        .collect();
    let most: u32 = threads.into_iter().map(|t| t.join().unwrap()).max().unwrap();
    assert!(most <= 5);
    assert!(group.peers(NOW).iter().all(|peer| peer.active == 0));
}

#[test]
fn backups_are_asked_when_no_other_can_be() {
    let mut backup = spec(9, 1);
    backup.backup = true;
    let mut down = spec(2, 1);
    down.down = true;
    for method in [Method::RoundRobin, Method::LeastConn] {
        let group = group(method, &[spec(1, 1), down.clone(), backup.clone()]);
        let mut selection = Selection::new(group.clone(), Ask::default(), NOW);
        assert_eq!(selection.tries(), 2);
        let lease = selection.next(NOW).unwrap();
        assert_eq!(port(&lease), 1);
        selection.finish(lease, Outcome::Failed, Times::default(), NOW);
        let lease = selection.next(NOW).unwrap();
        assert_eq!(port(&lease), 9);
        selection.finish(lease, Outcome::Failed, Times::default(), NOW);
        assert!(selection.next(NOW).is_none());
        assert_eq!(selection.tries(), 0);
    }
}

#[test]
fn least_conn_goes_to_the_idle_one() {
    let group = group(Method::LeastConn, &[spec(1, 1), spec(2, 2)]);
    let mut held = Vec::new();
    for _ in 0..6 {
        let mut selection = Selection::new(group.clone(), Ask::default(), NOW);
        held.push((selection.next(NOW).unwrap(), selection));
    }
    let twos = held.iter().filter(|(lease, _)| port(lease) == 2).count();
    assert_eq!(twos, 4);
}

#[test]
fn ip_hash_is_nginxs() {
    let group = group(Method::IpHash, &[spec(8081, 1), spec(8082, 1)]);
    let ask = |ip: &str| Ask { client: Some(ip.parse::<IpAddr>().unwrap()), ..Ask::default() };
    let one = |ip: &str| ports(&group, 1, &ask(ip))[0];
    // The last byte of IPv4 does not count.
    assert_eq!(one("127.0.0.1"), one("127.0.0.200"));
    // 89 → (89*113+127)%6271 = 3913 → (3913*113+0)%6271 = 3199 → (3199*113)%6271 = 4040: even.
    assert_eq!(one("127.0.0.1"), 8081);
    let spread: Vec<u16> = (0..50).map(|n| one(&format!("10.{n}.3.1"))).collect();
    assert!(spread.contains(&8081) && spread.contains(&8082));
}

#[test]
fn a_consistent_hash_moves_few_keys() {
    let method = Method::Hash { consistent: true };
    let three = group(method, &[spec(1, 1), spec(2, 1), spec(3, 1)]);
    let two = group(method, &[spec(1, 1), spec(2, 1)]);
    let ask = |n: usize| Ask { key: format!("key{n}").into_bytes(), ..Ask::default() };
    let mut moved = 0;
    for n in 0..1000 {
        let (before, after) = (ports(&three, 1, &ask(n))[0], ports(&two, 1, &ask(n))[0]);
        if before == 3 {
            moved += 1;
        } else {
            assert_eq!(before, after, "a key moves only if its server is gone");
        }
    }
    assert!((200..=470).contains(&moved), "{moved}");
}

#[test]
fn an_empty_key_is_spread() {
    for consistent in [false, true] {
        let group = group(Method::Hash { consistent }, &[spec(1, 1), spec(2, 1)]);
        assert_eq!(ports(&group, 4, &Ask::default()), [1, 2, 1, 2]);
    }
}

#[test]
fn random_two_avoids_the_busy_one() {
    let times = LeastTime { until: Until::FirstByte, inflight: false };
    for measure in [Measure::Connections, Measure::Time(times)] {
        let group = group(Method::Random { two: Some(measure) }, &[spec(1, 1), spec(2, 1)]);
        let mut busy = Selection::new(group.clone(), Ask { seed: 3, ..Ask::default() }, NOW);
        let lease = busy.next(NOW).unwrap();
        for seed in 0..100 {
            let mut other = Selection::new(group.clone(), Ask { seed, ..Ask::default() }, NOW);
            assert_ne!(port(&other.next(NOW).unwrap()), port(&lease));
        }
    }
}

#[test]
fn least_time_prefers_the_quick_one() {
    for inflight in [false, true] {
        let which = LeastTime { until: Until::LastByte, inflight };
        let group = group(Method::LeastTime(which), &[spec(1, 1), spec(2, 1)]);
        for _ in 0..20 {
            let mut selection = Selection::new(group.clone(), Ask::default(), NOW);
            let lease = selection.next(NOW).unwrap();
            let took = if port(&lease) == 1 { 500 } else { 5 };
            let times = Times { header_ms: Some(took), response_ms: took, ..Times::default() };
            selection.finish(lease, Outcome::Ok, times, NOW);
        }
        assert_eq!(ports(&group, 5, &Ask::default()), [2; 5]);
    }
}

#[test]
fn a_session_goes_to_its_peer_even_while_that_drains() {
    for method in [Method::RoundRobin, Method::LeastConn, Method::IpHash, Method::Hash { consistent: true }] {
        let mut two = spec(2, 1);
        two.route = Some("b".into());
        two.drain = true;
        let group = group(method, &[spec(1, 1), two, spec(3, 1)]);
        let own = Ask { own: Some("b".into()), key: b"k".into(), ..Ask::default() };
        assert_eq!(ports(&group, 4, &own), [2; 4], "{method:?}");
        assert!(!ports(&group, 10, &Ask::default()).contains(&2));
    }
}

#[test]
fn who_comes_back_is_loaded_step_by_step() {
    let mut one = spec(1, 1);
    one.slow_start_ms = 10_000;
    let group = group(Method::RoundRobin, &[one, spec(2, 1)]);
    group.begin_checks(&[check(7, false)]);
    group.checked(0, 7, false, Health::Bad, NOW);
    assert_eq!(ports(&group, 3, &Ask::default()), [2; 3]);
    group.checked(0, 7, true, Health::Good, NOW);
    let share = |now: u64| {
        let mut ones = 0;
        for _ in 0..1000 {
            let mut selection = Selection::new(group.clone(), Ask::default(), now);
            let lease = selection.next(now).unwrap();
            ones += u32::from(port(&lease) == 1);
            selection.finish(lease, Outcome::Ok, Times::default(), now);
        }
        ones
    };
    let shares = [1000, 5000, 9000, 10_000].map(|after| share(NOW + after));
    assert!((80..=100).contains(&shares[0]), "{shares:?}");
    assert!((320..=345).contains(&shares[1]), "{shares:?}");
    assert!((465..=480).contains(&shares[2]), "{shares:?}");
    assert_eq!(shares[3], 500);
}

#[test]
fn servers_come_change_and_go() {
    let group = group(Method::RoundRobin, &[spec(1, 1)]);
    let id = group.add(spec(2, 1));
    assert_eq!(ports(&group, 4, &Ask::default()), [1, 2, 1, 2]);
    group.change(id, &Change { weight: Some(3), ..Change::default() }, NOW).unwrap();
    assert_eq!(ports(&group, 8, &Ask::default()).iter().filter(|p| **p == 2).count(), 6);
    let drain = Change { drain: Some(true), ..Change::default() };
    group.change(0, &drain, NOW).unwrap();
    assert_eq!(ports(&group, 3, &Ask::default()), [2; 3]);
    assert_eq!(group.peers(NOW)[0].state, PeerState::Draining);
    // A request that is being answered is not disturbed.
    let mut selection = Selection::new(group.clone(), Ask::default(), NOW);
    let lease = selection.next(NOW).unwrap();
    group.remove(id).unwrap();
    selection.finish(lease, Outcome::Ok, Times::default(), NOW);
    assert_eq!(group.remove(id), Err(NoSuchServer));
    assert_eq!(group.servers().len(), 1);
}

#[test]
fn down_and_drain_do_not_undo_each_other() {
    let group = group(Method::RoundRobin, &[spec(1, 1), spec(2, 1)]);
    let state = |down: Option<bool>, drain: Option<bool>| {
        group.change(0, &Change { down, drain, ..Change::default() }, NOW).unwrap();
        group.peers(NOW)[0].state
    };
    assert_eq!(state(None, Some(true)), PeerState::Draining);
    assert_eq!(state(Some(true), None), PeerState::Down);
    assert_eq!(state(Some(true), Some(true)), PeerState::Down);
    assert_eq!(state(Some(false), None), PeerState::Draining);
    assert_eq!(state(None, None), PeerState::Draining);
    assert_eq!(state(None, Some(false)), PeerState::Up);
    assert_eq!(state(Some(true), None), PeerState::Down);
    assert_eq!(state(None, Some(false)), PeerState::Down);
}

fn check(id: CheckId, is_mandatory: bool) -> Check {
    Check { id, key: id.to_string().into(), is_mandatory, is_persistent: false }
}

/// nginx's pattern for DNS: a server of TCP and one of UDP pass to one group, each with a check of its own.
#[test]
fn a_check_that_passes_does_not_bring_back_whom_another_one_has_found_bad() {
    let group = group(Method::RoundRobin, &[spec(1, 1), spec(2, 1)]);
    group.begin_checks(&[check(7, false), check(8, false)]);
    assert!(group.checked(0, 7, false, Health::Bad, NOW));
    assert!(!group.checked(0, 8, true, Health::Good, NOW));
    assert_eq!(ports(&group, 3, &Ask::default()), [2; 3]);
    assert_eq!((group.verdict(0, 7), group.verdict(0, 8)), (Some(Health::Bad), Some(Health::Good)));
    assert!(!group.checked(0, 8, false, Health::Bad, NOW));
    assert!(!group.checked(0, 7, true, Health::Good, NOW));
    assert_eq!(group.peers(NOW)[0].state, PeerState::Unhealthy);
    assert!(group.checked(0, 8, true, Health::Good, NOW));
    assert_eq!(group.peers(NOW)[0].state, PeerState::Up);
    // A check that is gone with its configuration has no say, and what it last said goes with it.
    assert!(group.checked(0, 8, false, Health::Bad, NOW));
    group.begin_checks(&[check(7, false)]);
    assert!(!group.checked(0, 8, false, Health::Bad, NOW));
    assert_eq!((group.peers(NOW)[0].state, group.verdict(0, 8)), (PeerState::Up, None));
    assert!(group.checked(0, 7, false, Health::Bad, NOW));
    group.begin_checks(&[]);
    assert_eq!((group.peers(NOW)[0].state, group.peers(NOW)[0].last_check_passed), (PeerState::Up, None));
}

#[test]
fn a_mandatory_check_holds_for_whoever_comes_later() {
    let mut named = ServerSpec::new("back.example:80", Vec::new());
    named.host = Some("back.example".into());
    let group = group(Method::RoundRobin, &[spec(1, 1), named.clone()]);
    group.begin_checks(&[check(7, true), check(8, false)]);
    assert!(Selection::new(group.clone(), Ask::default(), NOW).next(NOW).is_none());
    group.checked(0, 8, true, Health::Good, NOW);
    assert!(Selection::new(group.clone(), Ask::default(), NOW).next(NOW).is_none());
    group.checked(0, 7, true, Health::Good, NOW);
    let states = || group.peers(NOW).iter().map(|peer| (peer.info.id, peer.state)).collect::<Vec<_>>();
    assert_eq!(states(), [(0, PeerState::Up)]);
    // By the API, by DNS, by another configuration.
    let added = group.add(spec(2, 1));
    assert!(
        group.resolved(
            1,
            &[Resolved { endpoint: Endpoint::Ip("10.0.0.1:80".parse().unwrap()), service: None }]
        )
    );
    assert_eq!(ports(&group, 3, &Ask::default()), [1; 3]);
    group.checked(added, 7, true, Health::Good, NOW);
    group.apply(Method::RoundRobin, &[spec(1, 1), named, spec(2, 1), spec(3, 1)]);
    assert_eq!(states().iter().filter(|(_, state)| *state == PeerState::Checking).count(), 2);
    assert_eq!(ports(&group, 4, &Ask::default()), [1, 2, 1, 2]);
}

#[test]
fn another_configuration_keeps_what_is_known() {
    let group = group(Method::RoundRobin, &[spec(1, 1), spec(2, 1)]);
    let mut selection = Selection::new(group.clone(), Ask::default(), NOW);
    let lease = selection.next(NOW).unwrap();
    assert_eq!(port(&lease), 1);
    group.apply(Method::RoundRobin, &[spec(3, 1), spec(1, 2)]);
    let peers = group.peers(NOW);
    let active: Vec<_> = peers.iter().map(|p| (p.info.name.to_string(), p.active, p.weight)).collect();
    assert_eq!(active, [("127.0.0.1:1".into(), 1, 2), ("127.0.0.1:3".into(), 0, 1)]);
    selection.finish(lease, Outcome::Ok, Times::default(), NOW);
    assert_eq!(group.peers(NOW)[0].active, 0);
}

#[test]
fn names_bring_peers_and_take_them_away() {
    let mut named = ServerSpec::new("back.example:80", Vec::new());
    named.host = Some("back.example".into());
    let group = group(Method::RoundRobin, &[named, spec(9, 1)]);
    let at = |last: u8| Endpoint::Ip(format!("10.0.0.{last}:80").parse().unwrap());
    let found = |last: &[u8]| -> Vec<Resolved> {
        last.iter().map(|last| Resolved { endpoint: at(*last), service: None }).collect()
    };
    let names = || group.peers(NOW).iter().map(|p| p.info.name.to_string()).collect::<Vec<_>>();
    assert_eq!(group.to_resolve().len(), 1);
    assert!(group.resolved(0, &found(&[1, 2])));
    assert!(!group.resolved(0, &found(&[2, 1])));
    assert_eq!(names(), ["10.0.0.1:80", "127.0.0.1:9", "10.0.0.2:80"]);
    assert!(group.resolved(0, &found(&[2, 3])));
    assert!(group.resolved(0, &[]));
    assert_eq!(names(), ["127.0.0.1:9"]);
    assert!(!group.resolved(77, &found(&[1])));
}

/// Leases, checks and requests that have tried a peer know it by its number, also when it is gone.
#[test]
fn no_number_is_given_twice() {
    let at = |last: u8| Endpoint::Ip(format!("10.0.0.{last}:80").parse().unwrap());
    let mut named = ServerSpec::new("back.example:80", Vec::new());
    named.host = Some("back.example".into());
    let moving = group(Method::RoundRobin, &[named]);
    let ids = |group: &Group| group.peers(NOW).iter().map(|peer| peer.info.id).collect::<Vec<_>>();
    let resolve = |last: u8| moving.resolved(0, &[Resolved { endpoint: at(last), service: None }]);
    assert!(resolve(1));
    let before = ids(&moving);
    let mut selection = Selection::new(moving.clone(), Ask::default(), NOW);
    let lease = selection.next(NOW).unwrap();
    assert!(resolve(2));
    assert_ne!(ids(&moving), before);
    // Its failure is not that of the address that has come for it.
    let mut other = Selection::new(moving.clone(), Ask::default(), NOW);
    let _held = other.next(NOW).unwrap();
    selection.finish(lease, Outcome::Failed, Times::default(), NOW);
    let found: Vec<_> = moving.peers(NOW).iter().map(|peer| (peer.active, peer.state)).collect();
    assert_eq!(found, [(1, PeerState::Up)]);

    let several = |last: &[u8]| ServerSpec::new("name:80", last.iter().map(|last| at(*last)).collect());
    let changed = group(Method::RoundRobin, &[several(&[1, 2])]);
    changed.apply(Method::RoundRobin, &[several(&[3, 1, 2])]);
    let mut found = ids(&changed);
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 3);
}

#[test]
fn addresses_of_a_name_outlive_another_port() {
    let named = |server: &str| {
        let mut spec = ServerSpec::new(server, Vec::new());
        spec.host = Some("back.example".into());
        spec
    };
    let group = group(Method::RoundRobin, &[named("back.example:81")]);
    let found = Resolved { endpoint: Endpoint::Ip("10.0.0.1:81".parse().unwrap()), service: None };
    assert!(group.resolved(0, &[found]));
    group.apply(Method::RoundRobin, &[named("back.example:82")]);
    let names: Vec<_> = group.peers(NOW).iter().map(|peer| peer.info.name.to_string()).collect();
    assert_eq!(names, ["10.0.0.1:82"]);
}

#[test]
fn srv_records_of_lower_priority_are_backups() {
    let mut named = ServerSpec::new("example", Vec::new());
    (named.host, named.service) = (Some("example".into()), Some("http".into()));
    let group = group(Method::RoundRobin, &[named]);
    let record = |port: u16, weight: u32, priority: u16| Resolved {
        endpoint: Endpoint::Ip(([10, 0, 0, 1], port).into()),
        service: Some(("a.example".into(), weight, priority)),
    };
    assert!(group.resolved(0, &[record(1, 2, 1), record(2, 1, 1), record(3, 1, 5)]));
    let mut selection = Selection::new(group.clone(), Ask::default(), NOW);
    assert_eq!(selection.tries(), 3);
    let order: Vec<u16> = std::iter::from_fn(|| selection.next(NOW).map(|lease| port(&lease))).collect();
    assert_eq!(order, [1, 2, 3]);
}

/// Counts how often it is woken.
#[derive(Default)]
struct Bell(std::sync::atomic::AtomicUsize);

impl std::task::Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn the_bell_is_rung_when_a_peer_becomes_free() {
    let mut one = spec(1, 1);
    one.max_conns = 1;
    let group = group(Method::RoundRobin, &[one]);
    let bell = Arc::new(Bell::default());
    group.ring(bell.clone().into());
    let rung = || bell.0.load(std::sync::atomic::Ordering::Relaxed);
    let mut selection = Selection::new(group.clone(), Ask::default(), NOW);
    let lease = selection.next(NOW).unwrap();
    assert!(!group.has_place(NOW) && rung() == 0);
    drop(lease);
    assert!(group.has_place(NOW) && rung() == 1);
    selection.restart();
    let lease = selection.next(NOW).unwrap();
    selection.finish(lease, Outcome::Ok, Times::default(), NOW);
    assert_eq!(rung(), 2);
    group.add(spec(2, 1));
    assert_eq!(rung(), 3);
}

#[test]
fn nothing_is_lost_whatever_happens() {
    let methods = [
        Method::RoundRobin,
        Method::LeastConn,
        Method::IpHash,
        Method::Hash { consistent: false },
        Method::Hash { consistent: true },
        Method::Random { two: None },
        Method::Random { two: Some(Measure::Connections) },
        Method::LeastTime(LeastTime { until: Until::LastByte, inflight: true }),
    ];
    let mut random = Random::new(11);
    for method in methods {
        let group = group(method, &(1..6).map(|port| spec(port, u32::from(port))).collect::<Vec<_>>());
        let (mut held, mut now) = (Vec::new(), NOW);
        for _ in 0..3000 {
            now += random.next() % 2000;
            match random.next() % 12 {
                0 => drop(group.add(spec(random.next() as u16, 1 + random.next() as u32 % 3))),
                1 if group.servers().len() > 1 => {
                    let servers = group.servers();
                    group.remove(servers[random.next() as usize % servers.len()].id).unwrap();
                }
                2 if !held.is_empty() => drop(held.swap_remove(random.next() as usize % held.len())),
                3..6 if !held.is_empty() => {
                    let (lease, mut selection): (Lease, Selection) = held.pop().unwrap();
                    let outcomes = [Outcome::Ok, Outcome::Next, Outcome::Failed];
                    let outcome = outcomes[random.next() as usize % 3];
                    let times =
                        Times { header_ms: Some(random.next() % 50), response_ms: 50, ..Times::default() };
                    selection.finish(lease, outcome, times, now);
                    if let Some(lease) = selection.next(now) {
                        held.push((lease, selection));
                    }
                }
                _ => {
                    let key = random.next().to_be_bytes().to_vec();
                    let ask = Ask { key, seed: random.next(), ..Ask::default() };
                    let mut selection = Selection::new(group.clone(), ask, now);
                    if let Some(lease) = selection.next(now) {
                        held.push((lease, selection));
                    }
                }
            }
            let there: Vec<_> = group.peers(now).iter().map(|peer| peer.info.id).collect();
            let counted: u32 = group.peers(now).iter().map(|peer| peer.active).sum();
            let leased = held.iter().filter(|(lease, _)| there.contains(&lease.peer.id)).count();
            assert_eq!(counted as usize, leased, "{method:?}");
        }
        held.clear();
        assert!(group.peers(now).iter().all(|peer| peer.active == 0));
    }
}

#[test]
fn a_lone_request_is_never_refused_a_retry() {
    let group = group(Method::RoundRobin, &[spec(1, 1), spec(2, 1)]);
    let _one = Selection::new(group.clone(), Ask::default(), NOW);
    assert!((0..500).all(|_| group.may_retry(NOW)));
    let _two = Selection::new(group.clone(), Ask::default(), NOW);
    assert!(!group.may_retry(NOW));
}

#[test]
fn a_peer_that_is_wanted_by_its_number_is_leased_though_it_has_failed() {
    let group = group(Method::RoundRobin, &[spec(1, 1), ServerSpec { max_conns: 1, ..spec(2, 1) }]);
    let ids: Vec<_> = group.peers(NOW).iter().map(|peer| peer.info.id).collect();
    group.lease(ids[0]).unwrap().failed(NOW);
    let lease = group.lease(ids[0]).unwrap();
    assert_eq!(group.peers(NOW)[0].active, 1);
    drop(lease);
    assert_eq!(group.peers(NOW)[0].active, 0);
    let only = group.lease(ids[1]).unwrap();
    assert!(group.lease(ids[1]).is_none());
    drop(only);
    group.remove(ids[0]).unwrap();
    assert!(group.lease(ids[0]).is_none() && group.lease(ids[1]).is_some());
}
