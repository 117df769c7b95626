//! What a diagnosis is made of, beside means of CPU and queues: what processes were found waiting for, what connections said, and queries.

/// What a tier is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The web server.
    #[default]
    Server,
    /// PHP's processes.
    Php,
    /// The database.
    Database,
}

impl Role {
    /// Its word in reports, the same as the audit's.
    pub fn name(self) -> &'static str {
        match self {
            Role::Server => "server",
            Role::Php => "php",
            Role::Database => "database",
        }
    }
}

/// What a tier's processes were at, from many looks; numbers are tasks at a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitFigures {
    /// Tasks: processes, or threads of them.
    pub tasks: f64,
    /// On a CPU, or ready for one.
    pub running: f64,
    /// Waiting for a file.
    pub file: f64,
    /// Waiting for pages of their own memory.
    pub memory: f64,
    /// Waiting for a lock on a file.
    pub lock: f64,
    /// That file, if it is one above all.
    pub lock_file: String,
    /// Pausing by themselves.
    pub sleep: f64,
    /// Waiting until the one that asked has taken its answer.
    pub client: f64,
    /// Waiting for something else.
    pub other: f64,
    /// Waiting for others, by who that is.
    pub peers: Vec<Peer>,
    /// Addresses with connections of which it cannot be told whether they wait for an answer: the last request and the last answer fell into the same
    /// tick of the kernel's clock. They count only where nothing else explains where the requests are.
    pub perhaps: Vec<Peer>,
    /// The share of looks at which the busiest task was on a CPU, or ready for one.
    pub busiest: f64,
    /// The share of looks at which no task was idle.
    pub full_share: f64,
    /// Requests that nobody had begun to answer; `None`: its connections are not of TCP.
    pub requests: Option<f64>,
    /// Answers on their way.
    pub answers: f64,
    /// Connections on which nothing was seen under way: requests, if the users ask again at once.
    pub quiet: f64,
    /// The share of looks at which a listener's queue had no more room.
    pub queue_full_share: f64,
    /// Bytes read per response, from files and others.
    pub read_bytes: f64,
    /// Whether its processes share memory for compiled code; `None`: it cannot be told.
    pub shares_code: Option<bool>,
}

/// Somebody who is waited for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Peer {
    /// A tier's name, or an address.
    pub name: String,
    /// What it is, if that is known.
    pub role: Option<Role>,
    /// So many wait for it at a time.
    pub count: f64,
}

impl WaitFigures {
    /// Waiting for a database.
    pub fn database(&self) -> f64 {
        self.peers.iter().filter(|peer| peer.role == Some(Role::Database)).map(|peer| peer.count).sum()
    }

    /// Waiting for anybody else.
    pub fn others(&self) -> f64 {
        self.peers.iter().filter(|peer| peer.role != Some(Role::Database)).map(|peer| peer.count).sum()
    }

    /// At work, or waiting for what a request needs.
    pub fn busy(&self) -> f64 {
        let peers: f64 = self.peers.iter().map(|peer| peer.count).sum();
        self.running + self.file + self.memory + self.lock + self.sleep + self.client + self.other + peers
    }

    /// The share of the time in which its tasks are taken, 0 to 1.
    pub fn taken_share(&self) -> f64 {
        self.full_share.max(self.busy() / self.tasks.max(1.0)).min(1.0)
    }

    /// The one that most may wait for, with those that surely do.
    pub fn may_wait_for(&self) -> Option<Peer> {
        let with_sure = |peer: &Peer| {
            let sure: f64 =
                self.peers.iter().filter(|sure| sure.name == peer.name).map(|sure| sure.count).sum();
            Peer { count: peer.count + sure, ..peer.clone() }
        };
        let others = self.perhaps.iter().filter(|peer| peer.role != Some(Role::Database)).map(with_sure);
        others.max_by(|left, right| left.count.total_cmp(&right.count))
    }

    /// The one that most wait for, of those that are no database.
    pub fn most_waited_for(&self) -> Option<&Peer> {
        let others = self.peers.iter().filter(|peer| peer.role != Some(Role::Database));
        others.max_by(|left, right| left.count.total_cmp(&right.count))
    }
}

/// What was seen beside the tiers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Surroundings {
    /// Nothing was sent: others' traffic was looked at.
    pub is_attached: bool,
    /// Each user has a request under way at any time, on a connection to the server itself.
    pub is_closed_loop: bool,
    /// Users pause between their requests, or requests come at a rate: not every user has one under way.
    pub has_pauses: bool,
    /// How long it was looked at.
    pub seconds: f64,
    /// The share of its time that a thread of the generator was ready and had no CPU.
    pub generator_waited_share: f64,
    /// How long it waited for a CPU in the mean before it did anything, in microseconds.
    pub generator_late_us: f64,
    /// Making connections, per response, in microseconds.
    pub connect_us: f64,
    /// From a response's first byte to its last, in microseconds.
    pub transfer_us: f64,
    /// Bytes of a response.
    pub bytes: f64,
    /// The share of time in which somebody waited for memory (PSI).
    pub memory_pressure: f64,
    /// Pages read back from swap per second.
    pub swapped_in: f64,
}

/// A query that was found running again and again; what users wrote into it is left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlowQuery {
    /// Its text, with `?` for values.
    pub text: String,
    /// Its share of all queries that were found running.
    pub share: f64,
    /// What the database says of how it carries it out.
    pub plan: Option<Plan>,
}

/// What `EXPLAIN` says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The table of which most rows are looked at.
    pub table: String,
    /// How many.
    pub rows: u64,
    /// All of them, because no index leads to those that are wanted.
    pub is_scan: bool,
    /// A temporary table is made.
    pub has_temporary: bool,
    /// Rows are sorted.
    pub has_sort: bool,
}
