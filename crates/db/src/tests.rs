//! Whole clusters: what they say, and what follows.

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

const TERMS: Terms = Terms { lag_max_ms: 2000, fails: 1, passes: 1 };

fn cluster(count: u32) -> Arc<Cluster> {
    let cluster = Arc::new(Cluster::new(TERMS));
    let server = |id: u32| (id, Arc::from(format!("db{id}")), id == 0);
    cluster.set_servers(TERMS, (0..count).map(server));
    cluster
}

fn at(last: u64) -> Option<Position> {
    Some(Position::mariadb(&format!("0-1-{last}")).unwrap())
}

fn primary(last: u64) -> Report {
    Report { writes: Writes::Taken, replication: Replication::None, position: at(last), galera: None }
}

fn replica(last: u64, behind_ms: u64) -> Report {
    let replication = Replication::Running { behind_ms: Some(behind_ms) };
    Report { writes: Writes::Refused, replication, position: at(last), galera: None }
}

fn node(cluster: &str, state: u32) -> Report {
    let galera = Galera { cluster: cluster.into(), state, is_ready: state == 4, is_in_majority: true };
    Report { galera: Some(galera), ..primary(1) }
}

/// Tells a cluster what its servers say, in their order; `None`: it does not answer.
fn say(cluster: &Cluster, now_ms: u64, reports: &[Option<Report>]) {
    for (id, report) in reports.iter().enumerate() {
        match report {
            Some(report) => cluster.heard(id as u32, report.clone(), now_ms),
            None => cluster.failed(id as u32, "connect() failed"),
        };
    }
}

#[test]
fn a_promoted_replica_becomes_the_primary() {
    let cluster = cluster(3);
    assert_eq!(cluster.primary(), Err(NoPrimary::NotAsked));
    say(&cluster, 0, &[Some(primary(5)), Some(replica(5, 0)), Some(replica(5, 0))]);
    assert_eq!((cluster.primary(), cluster.readers(None)), (Ok(0), vec![1, 2]));
    say(&cluster, 1000, &[None, Some(replica(5, 0)), Some(replica(5, 0))]);
    assert_eq!(cluster.primary(), Err(NoPrimary::None));
    let promoted = Report { position: Some(Position::mariadb("0-2-6").unwrap()), ..primary(0) };
    // Nothing tells how long the other replica has lacked what the new primary has: perhaps nobody has told it of that one.
    say(&cluster, 2000, &[None, Some(replica(5, 0)), Some(promoted.clone())]);
    assert_eq!((cluster.primary(), cluster.readers(None)), (Ok(2), vec![]));
    let follows = Report { position: promoted.position.clone(), ..replica(5, 0) };
    say(&cluster, 2500, &[None, Some(follows), Some(promoted.clone())]);
    assert_eq!((cluster.primary(), cluster.readers(None)), (Ok(2), vec![1]));
    // The old one is back and knows of nothing.
    say(&cluster, 3000, &[Some(primary(7)), Some(replica(5, 0)), Some(promoted)]);
    assert_eq!((cluster.primary(), cluster.readers(None)), (Err(NoPrimary::Several), vec![]));
    let roles: Vec<_> = cluster.view().servers.iter().map(|server| server.role).collect();
    assert_eq!(roles, [Role::Contender, Role::Replica, Role::Contender]);
}

/// The server that was not asked might be another primary.
#[test]
fn nobody_is_the_primary_before_all_were_asked() {
    let cluster = cluster(2);
    cluster.heard(0, primary(1), 0);
    assert_eq!((cluster.primary(), cluster.readers(None)), (Err(NoPrimary::NotAsked), vec![]));
    cluster.failed(1, "connect() failed");
    assert_eq!(cluster.primary(), Ok(0));
}

/// Before a primary is known nothing follows from it for sessions, but the log is told.
#[test]
fn each_change_is_told_once() {
    let cluster = cluster(3);
    assert!(
        cluster.failed(0, "connect() failed").is_some() && cluster.failed(1, "connect() failed").is_some()
    );
    assert!(cluster.failed(0, "it does not answer in time").is_none());
    assert!(cluster.heard(0, primary(9), 0).is_some() && cluster.heard(2, replica(9, 0), 0).is_some());
    let stopped = Report { replication: Replication::Stopped, ..replica(9, 0) };
    assert!(cluster.heard(2, stopped.clone(), 0).is_some() && cluster.heard(2, stopped, 1).is_none());
    assert!(
        cluster.heard(2, replica(9, 5000), 2).is_some() && cluster.heard(2, replica(9, 6000), 3).is_none()
    );
}

#[test]
fn a_replica_is_read_from_within_its_lag() {
    let cluster = cluster(3);
    let mut stopped = replica(9, 0);
    stopped.replication = Replication::Stopped;
    say(&cluster, 0, &[Some(primary(9)), Some(replica(9, 2001)), Some(stopped)]);
    assert_eq!(cluster.readers(None), []);
    say(&cluster, 1000, &[Some(primary(9)), Some(replica(9, 2000)), Some(replica(9, 0))]);
    assert_eq!(cluster.readers(None), [1, 2]);
    let mut unknown = replica(9, 0);
    unknown.replication = Replication::Running { behind_ms: None };
    say(&cluster, 1000, &[Some(primary(9)), Some(unknown), Some(replica(9, 0))]);
    assert_eq!(cluster.readers(None), [2]);
}

/// A replica whose source has fallen silent says that it is not behind.
#[test]
fn what_a_replica_lacks_counts_more_than_what_it_says() {
    let cluster = cluster(2);
    say(&cluster, 0, &[Some(primary(5)), Some(replica(5, 0))]);
    for (now_ms, readers) in [(1000, 1), (2000, 1), (3000, 1), (4001, 0)] {
        say(&cluster, now_ms, &[Some(primary(5 + now_ms)), Some(replica(5, 0))]);
        assert_eq!(cluster.readers(None).len(), readers, "{now_ms}");
    }
    // It has lost what it had.
    say(&cluster, 5000, &[Some(primary(9000)), Some(replica(9000, 0))]);
    assert_eq!(cluster.readers(None).len(), 1);
    say(
        &cluster,
        8000,
        &[Some(primary(9000)), Some(Report { position: Position::mariadb("").ok(), ..replica(0, 0) })],
    );
    assert_eq!(cluster.readers(None).len(), 0);
}

#[test]
fn a_session_reads_what_it_has_written() {
    let cluster = cluster(3);
    say(&cluster, 0, &[Some(primary(8)), Some(replica(8, 0)), Some(replica(8, 0))]);
    say(&cluster, 1000, &[Some(primary(9)), Some(replica(9, 0)), Some(replica(8, 0))]);
    let readers = |last: u64| cluster.readers(at(last).as_ref());
    assert_eq!([readers(8), readers(9), readers(10)], [vec![1, 2], vec![1], vec![]]);
    assert_eq!(cluster.readers(Some(&Position::Wal(1))), []);
}

#[test]
fn one_node_of_a_galera_cluster_takes_the_writes() {
    let cluster = cluster(3);
    say(&cluster, 0, &[Some(node("a", 4)), Some(node("a", 4)), Some(node("a", 2))]);
    assert_eq!((cluster.primary(), cluster.readers(None)), (Ok(0), vec![1]));
    say(&cluster, 0, &[None, Some(node("a", 4)), Some(node("a", 4))]);
    assert_eq!((cluster.primary(), cluster.readers(None)), (Ok(1), vec![2]));
    // The one that is back does not take the writes from where they are.
    say(&cluster, 0, &[Some(node("a", 4)), Some(node("a", 4)), Some(node("a", 4))]);
    assert_eq!((cluster.primary(), cluster.readers(None)), (Ok(1), vec![0, 2]));
    say(&cluster, 0, &[Some(node("b", 4)), Some(node("a", 4)), Some(node("a", 4))]);
    assert_eq!((cluster.primary(), cluster.readers(None)), (Err(NoPrimary::Several), vec![]));
    let mut minority = node("a", 4);
    minority.galera.as_mut().unwrap().is_in_majority = false;
    say(&cluster, 0, &[Some(minority.clone()), Some(minority), None]);
    assert_eq!((cluster.primary(), cluster.readers(None)), (Err(NoPrimary::None), vec![]));
}

#[test]
fn failures_and_answers_are_counted_in_rows() {
    let cluster = cluster(1);
    let terms = Terms { fails: 3, passes: 2, ..TERMS };
    cluster.set_servers(terms, [(0, Arc::from("db0"), true)].into_iter());
    let expect = |good: bool, is_primary: bool| {
        say(&cluster, 0, &[good.then(|| primary(1))]);
        assert_eq!(cluster.primary().is_ok(), is_primary);
    };
    // The first answer counts at once: there is no failure before it.
    let course = [
        (true, true),
        (false, true),
        (false, true),
        (true, true),
        (false, true),
        (false, true),
        (false, false),
    ];
    for (good, is_primary) in
        course.into_iter().chain([(true, false), (false, false), (true, false), (true, true)])
    {
        expect(good, is_primary);
    }
}

#[test]
fn servers_that_stay_keep_what_is_known_of_them() {
    let cluster = cluster(2);
    say(&cluster, 0, &[Some(primary(1)), Some(replica(1, 0))]);
    cluster.set_servers(TERMS, [(1, Arc::from("db1"), false), (0, Arc::from("db0"), false)].into_iter());
    assert_eq!((cluster.primary(), cluster.readers(None)), (Ok(0), vec![1]));
    // One that is new takes nothing from the primary.
    let change =
        cluster.set_servers(TERMS, [(0, Arc::from("db0"), false), (2, Arc::from("db2"), false)].into_iter());
    assert!(change.is_some());
    assert_eq!((cluster.primary(), cluster.readers(None)), (Ok(0), vec![]));
    cluster.heard(2, primary(1), 1000);
    assert_eq!(cluster.primary(), Err(NoPrimary::Several));
    // And if the primary is not there any more, it might be the one that was not asked.
    cluster.set_servers(TERMS, [(3, Arc::from("db3"), false), (2, Arc::from("db2"), false)].into_iter());
    assert_eq!(cluster.primary(), Err(NoPrimary::NotAsked));
}

/// The loop of a configuration that is gone goes on while sessions of that time look at what it learns, unless another one asks.
#[test]
fn one_asks_at_a_time() {
    let cluster = cluster(1);
    let first = cluster.begin_asking();
    assert!(cluster.is_asked_by(first));
    let second = cluster.begin_asking();
    assert_eq!((cluster.is_asked_by(first), cluster.is_asked_by(second)), (false, true));
}

#[test]
fn what_libpq_means() {
    let cluster = cluster(3);
    let fits = |attrs: Attrs| cluster.view().fitting(attrs);
    say(&cluster, 0, &[Some(primary(9)), Some(replica(9, 0)), Some(replica(9, 9999))]);
    const ALL: [Attrs; 6] =
        [Attrs::Any, Attrs::ReadWrite, Attrs::ReadOnly, Attrs::Primary, Attrs::Standby, Attrs::PreferStandby];
    let all = ALL.map(fits);
    assert_eq!(all, [Ok(vec![1, 0]), Ok(vec![0]), Ok(vec![1]), Ok(vec![0]), Ok(vec![1]), Ok(vec![1])]);
    say(&cluster, 0, &[Some(Report { writes: Writes::NotByDefault, ..primary(9) }), None, None]);
    let all = ALL.map(fits);
    let none = Err(NoPrimary::None);
    assert_eq!(all, [Ok(vec![0]), none, Ok(vec![0]), Ok(vec![0]), Ok(vec![]), Ok(vec![0])]);
    say(&cluster, 0, &[Some(primary(9)), Some(primary(9)), Some(replica(9, 0))]);
    let several = Err(NoPrimary::Several);
    let all = ALL.map(fits);
    assert_eq!(all, [Ok(vec![]), several.clone(), Ok(vec![]), several.clone(), Ok(vec![]), several]);
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Count>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn sessions_learn_of_changed_roles_and_of_nothing_else() {
    let cluster = cluster(2);
    let count = Arc::<Count>::default();
    let waker = Waker::from(count.clone());
    let mut cx = Context::from_waker(&waker);
    say(&cluster, 0, &[Some(primary(5)), Some(replica(5, 0))]);
    let mut news = cluster.news();
    assert!(news.poll_changed(&mut cx).is_pending());
    say(&cluster, 1000, &[Some(primary(6)), Some(replica(6, 0))]);
    assert!(news.poll_changed(&mut cx).is_pending());
    assert_eq!(news.view().readers(at(6).as_ref()).count(), 1);
    assert_eq!(count.0.load(Ordering::Relaxed), 0);
    say(&cluster, 2000, &[None]);
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    assert_eq!(news.poll_changed(&mut cx), Poll::Ready(()));
    assert!(news.view().primary().is_err());
    assert!(news.poll_changed(&mut cx).is_pending());
    drop(news);
    say(&cluster, 3000, &[Some(primary(7))]);
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
}

#[test]
fn a_doubt_is_not_lost() {
    let cluster = cluster(1);
    let count = Arc::<Count>::default();
    let waker = Waker::from(count.clone());
    cluster.doubt();
    assert!(cluster.take_doubt(&waker) && !cluster.take_doubt(&waker));
    cluster.doubt();
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    assert!(cluster.take_doubt(&waker));
}

/// A number that looks drawn, for properties.
fn draw(seed: &mut u64, below: u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed % below
}

fn drawn_report(seed: &mut u64) -> Report {
    let galera = (draw(seed, 3) == 0).then(|| Galera {
        cluster: ["a", "b"][draw(seed, 2) as usize].into(),
        state: [4, 4, 2][draw(seed, 3) as usize],
        is_ready: draw(seed, 4) > 0,
        is_in_majority: draw(seed, 4) > 0,
    });
    Report {
        writes: [Writes::Taken, Writes::Refused, Writes::NotByDefault][draw(seed, 3) as usize],
        replication: match draw(seed, 4) {
            0 | 1 => Replication::None,
            2 => Replication::Stopped,
            _ => Replication::Running { behind_ms: Some(draw(seed, 4000)).filter(|ms| *ms > 200) },
        },
        position: at(draw(seed, 50)).filter(|_| draw(seed, 5) > 0),
        galera,
    }
}

/// Whatever servers say: nobody is written to or read from of whom that does not follow from its own last words.
#[test]
fn properties_of_any_course() {
    let mut seed = 0x2545_f491_4f6c_dd1d;
    for _ in 0..2000 {
        let count = 1 + draw(&mut seed, 4) as u32;
        let cluster = cluster(count);
        let mut last: Vec<Option<Report>> = vec![None; count as usize];
        let mut asked = vec![false; count as usize];
        for step in 0..20 {
            let id = draw(&mut seed, u64::from(count)) as usize;
            last[id] = (draw(&mut seed, 4) > 0).then(|| drawn_report(&mut seed));
            asked[id] = true;
            match &last[id] {
                Some(report) => cluster.heard(id as u32, report.clone(), step * 500),
                None => cluster.failed(id as u32, "lost"),
            };
            let view = cluster.view();
            let takes = |report: &&Report| {
                report.writes != Writes::Refused
                    && report.replication == Replication::None
                    && report.galera.as_ref().is_none_or(Galera::is_synchronous)
            };
            let taking: Vec<&Report> = last.iter().flatten().filter(takes).collect();
            if let Ok(primary) = view.primary() {
                assert!(asked.iter().all(|asked| *asked));
                let its = last[primary.id as usize].as_ref().unwrap();
                assert!(takes(&its));
                let cluster_of =
                    |report: &Report| report.galera.as_ref().map(|galera| galera.cluster.clone());
                assert!(
                    taking.len() == 1
                        || taking
                            .iter()
                            .all(|other| cluster_of(other).is_some() && cluster_of(other) == cluster_of(its))
                );
                assert_eq!(view.servers.iter().filter(|server| server.role == Role::Primary).count(), 1);
            } else {
                let is_split =
                    view.servers.iter().filter(|server| server.role == Role::Contender).count() > 1;
                assert!(taking.is_empty() || asked.contains(&false) || is_split);
            }
            for reader in view.readers(at(40).as_ref()) {
                let its = last[reader.id as usize].as_ref().unwrap();
                assert!(its.position.as_ref().is_some_and(|have| have.covers(&at(40).unwrap())));
            }
            for reader in view.readers(None) {
                let its = last[reader.id as usize].as_ref().unwrap();
                let is_near =
                    matches!(its.replication, Replication::Running { behind_ms: Some(ms) } if ms <= 2000);
                assert!(is_near || its.galera.as_ref().is_some_and(Galera::is_synchronous));
                assert!(asked.iter().all(|asked| *asked));
            }
        }
    }
}
