//! How a group chooses among its peers, as configured.

/// The balancing method of an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Weighted, without bursts.
    #[default]
    RoundRobin,
    /// The peer with the fewest connections for its weight.
    LeastConn,
    /// By the client's address: the first three bytes of IPv4, all of IPv6.
    IpHash,
    /// By a key; `consistent`: ketama, so that a server more or less moves few keys.
    Hash {
        /// By ketama.
        consistent: bool,
    },
    /// One of two drawn by weight, or one; what decides between the two.
    Random {
        /// `None`: one is drawn.
        two: Option<Measure>,
    },
    /// By the least average time and connections.
    LeastTime(LeastTime),
}

/// What `random two` compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Connections: the fewer the better.
    Connections,
    /// An average time: the shorter the better.
    Time(LeastTime),
}

/// Which average time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeastTime {
    /// What ends it.
    pub until: Until,
    /// Requests that are not answered yet count too.
    pub inflight: bool,
}

/// What ends the time of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The connection is there.
    Connected,
    /// The response's header is there, or its first byte.
    FirstByte,
    /// The response is there as a whole.
    LastByte,
}

impl Method {
    /// The times that this method goes by.
    pub fn times(self) -> Option<LeastTime> {
        match self {
            Method::LeastTime(times) | Method::Random { two: Some(Measure::Time(times)) } => Some(times),
            _ => None,
        }
    }

    /// A peer that comes back is given its share step by step; where the key decides that cannot be.
    pub fn knows_slow_start(self) -> bool {
        matches!(self, Method::RoundRobin | Method::LeastConn | Method::LeastTime(_))
    }

    /// Servers with `backup` may be used.
    pub fn knows_backup(self) -> bool {
        matches!(self, Method::RoundRobin | Method::LeastConn | Method::LeastTime(_))
    }
}
