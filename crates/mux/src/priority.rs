//! The extensible priorities of RFC 9218.

/// RFC 9218 §4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// 0 (first) to 7.
    pub urgency: u8,
    /// Useful in parts: streams of one urgency share.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Priority {
        Priority { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// The value of a `Priority` field or PRIORITY_UPDATE frame. What is not understood is as if it were not there
    /// (RFC 9218 §4).
    pub fn parse(value: &[u8]) -> Priority {
        let mut priority = Priority::default();
        for member in value.split(|&b| b == b',') {
            // Parameters of a member mean nothing here.
            let member = member.split(|&b| b == b';').next().unwrap_or_default().trim_ascii();
            match member {
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_fields() {
        let check = |value: &str, urgency: u8, incremental: bool| {
            assert_eq!(Priority::parse(value.as_bytes()), Priority { urgency, incremental }, "{value}");
        };
        check("", 3, false);
        check("u=0", 0, false);
        check("u=7, i", 7, true);
        check("i;x=1,u=5;q", 5, true);
        check("i=?1 ,\tu=1", 1, true);
        check("i, i=?0", 3, false);
        check("u=8", 3, false);
        check("u=-1", 3, false);
        check("u=10, i=1", 3, false);
        check("U=1", 3, false);
    }
}
