//! What follows from what all servers have said.

use crate::history::{Behind, History};
use crate::report::{Galera, Replication, Report, Writes};
use crate::view::{NoPrimary, Role, ServerId, ServerView, Unread, View};
use std::sync::Arc;

/// A server and what is known of it.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its number.
    pub id: ServerId,
    /// Its address.
    pub name: Arc<str>,
    /// It was written down as the primary.
    pub is_hinted: bool,
    /// What it has said.
    pub heard: Heard,
}

/// What a server has said.
#[derive(Clone, Debug)]
pub enum Heard {
    /// It was not asked yet.
    Nothing,
    /// Its latest answer that counts, with the time in milliseconds.
    Said(Report, u64),
    /// It does not answer, or what it answers is of no use.
    Lost(Arc<str>),
}

impl Member {
    fn report(&self) -> Option<&Report> {
        match &self.heard {
            Heard::Said(report, _) => Some(report),
            _ => None,
        }
    }

    /// Whether it says that it takes writes and follows nobody.
    fn is_candidate(&self) -> bool {
        self.report().is_some_and(|report| {
            report.writes != Writes::Refused
                && report.replication == Replication::None
                && report.galera.as_ref().is_none_or(Galera::is_synchronous)
        })
    }
}

/// Which of the members is the primary, by place. `before`: who was it last, which counts among the nodes of a Galera cluster.
pub fn primary(members: &[Member], before: Option<ServerId>) -> Result<usize, NoPrimary> {
    let is_asked = |member: &Member| !matches!(member.heard, Heard::Nothing);
    if members.is_empty() {
        return Err(NoPrimary::NotAsked);
    }
    let found = found(members, before);
    match found {
        _ if members.iter().all(is_asked) => found,
        // A server that is new to the group takes nothing from the one that is the primary: it counts once it has answered.
        Ok(at) if Some(members[at].id) == before => found,
        Err(NoPrimary::Several) => found,
        // The one that was not asked might be another primary.
        _ => Err(NoPrimary::NotAsked),
    }
}

/// The primary among those that have answered.
fn found(members: &[Member], before: Option<ServerId>) -> Result<usize, NoPrimary> {
    let candidates: Vec<usize> = (0..members.len()).filter(|at| members[*at].is_candidate()).collect();
    match candidates.as_slice() {
        [] => Err(NoPrimary::None),
        [one] => Ok(*one),
        several if is_one_cluster(members, several) => {
            // Each of them takes writes, and writes at several of them at once would collide: one is enough, and it stays the same.
            let find =
                |is_it: &dyn Fn(&Member) -> bool| several.iter().copied().find(|at| is_it(&members[*at]));
            let same = find(&|member| Some(member.id) == before);
            Ok(same.or_else(|| find(&|member| member.is_hinted)).unwrap_or(several[0]))
        }
        _ => Err(NoPrimary::Several),
    }
}

/// Whether all of these are nodes of the same Galera cluster.
fn is_one_cluster(members: &[Member], places: &[usize]) -> bool {
    let cluster = |at: &usize| members[*at].report()?.galera.as_ref().map(|galera| &galera.cluster);
    let first = cluster(&places[0]);
    first.is_some_and(|uuid| !uuid.is_empty()) && places.iter().all(|at| cluster(at) == first)
}

/// The view of all members. `history` is that of the primary.
pub fn view(
    members: &[Member],
    primary: Result<usize, NoPrimary>,
    history: &History,
    lag_max_ms: u64,
) -> View {
    let galera = primary.ok().and_then(|at| members[at].report()?.galera.as_ref());
    let judge = Judge { primary, galera, history, lag_max_ms };
    View {
        servers: members.iter().enumerate().map(|(at, member)| judge.server(at, member)).collect(),
        primary,
    }
}

struct Judge<'a> {
    primary: Result<usize, NoPrimary>,
    /// The primary's cluster.
    galera: Option<&'a Galera>,
    history: &'a History,
    lag_max_ms: u64,
}

impl Judge<'_> {
    fn server(&self, at: usize, member: &Member) -> ServerView {
        let mut server = ServerView {
            id: member.id,
            name: member.name.clone(),
            role: Role::Unknown,
            reads: Err(Unread::NotAsked),
            is_read_only: false,
            lag_ms: None,
            position: None,
            trouble: None,
        };
        let (report, at_ms) = match &member.heard {
            Heard::Nothing => return server,
            Heard::Lost(why) => {
                server.reads = Err(Unread::Lost);
                server.trouble = Some(why.clone());
                return server;
            }
            Heard::Said(report, at_ms) => (report, *at_ms),
        };
        server.position.clone_from(&report.position);
        server.is_read_only = report.writes != Writes::Taken;
        if self.primary == Ok(at) {
            (server.role, server.reads) = (Role::Primary, Ok(()));
            return server;
        }
        if self.primary == Err(NoPrimary::Several) && member.is_candidate() {
            (server.role, server.reads) = (Role::Contender, Err(Unread::Split));
            return server;
        }
        if let Some(galera) = &report.galera {
            // Behind a cluster of its own there may be replicas of it, which are judged as any others.
            if report.replication == Replication::None {
                (server.role, server.reads) = self.node(galera);
                return server;
            }
        }
        self.replica(report, at_ms, &mut server);
        server
    }

    /// A node of a Galera cluster that is not the primary.
    fn node(&self, galera: &Galera) -> (Role, Result<(), Unread>) {
        let is_its = self.galera.is_some_and(|primary| primary.cluster == galera.cluster);
        if galera.is_synchronous() && is_its {
            (Role::Replica, Ok(()))
        } else {
            (Role::Idle, Err(Unread::NotSynchronous))
        }
    }

    fn replica(&self, report: &Report, at_ms: u64, server: &mut ServerView) {
        let said_ms = match report.replication {
            Replication::None => {
                (server.role, server.reads) = (Role::Idle, Err(Unread::NoReplica));
                return;
            }
            Replication::Stopped => {
                (server.role, server.reads) = (Role::Replica, Err(Unread::Stopped));
                return;
            }
            Replication::Running { behind_ms } => behind_ms,
        };
        server.role = Role::Replica;
        // What it says, or what it lacks, whichever is worse: a source that is silent and one that has nothing to say look alike to it.
        let lacks =
            report.position.as_ref().map_or(Behind::By(0), |position| self.history.behind(at_ms, position));
        server.lag_ms = match lacks {
            Behind::By(lacks_ms) => said_ms.map(|said_ms| said_ms.max(lacks_ms)),
            // It is too late in any case, and so that is what is told.
            Behind::AtLeast(lacks_ms) if lacks_ms > self.lag_max_ms => Some(lacks_ms),
            Behind::AtLeast(_) => None,
        };
        server.reads = match (self.primary, server.lag_ms) {
            (Err(NoPrimary::Several), _) => Err(Unread::Split),
            (Err(NoPrimary::NotAsked), _) => Err(Unread::NotAsked),
            (_, None) => Err(Unread::UnknownLag),
            (_, Some(lag_ms)) if lag_ms > self.lag_max_ms => Err(Unread::Lag),
            _ => Ok(()),
        };
    }
}
