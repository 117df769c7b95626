//! Reading the lines of a `geo` block.
//!
//! A mistake does not end the reading, so all of a table are told at once; the configuration is refused all the
//! same. Order counts: later lines replace earlier ones, and `delete` takes back what stands above.

use super::intervals::Intervals;
use super::{EMPTY, Geo, Table, ValueId};
use brisk_conf::cidr::{Cidr, Parsed, parse_ipv4};
use brisk_conf::{Diag, Directive, Token};
use brisk_server::conf::Cx;
use brisk_server::vars::VarId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

/// Networks by first address, larger ones first.
type Nets<A> = BTreeMap<(A, Reverse<A>), ValueId>;

/// A `geo` block while it is read.
#[derive(Default)]
pub struct Builder {
    kind: Option<Kind>,
    pub volatile: bool,
    proxies: Vec<Cidr>,
    /// By number, in the order of the file.
    proxy_recursive: bool,
    // Tables of a million networks have a few values: each is kept once, and intervals hold its number.
    values: Vec<Box<[u8]>>,
    /// Values that were seen.
    ids: HashMap<Box<[u8]>, ValueId>,
}

/// What the entries are; the first line decides.
enum Kind {
    Networks {
        v4: Nets<u32>,
        v6: Nets<u128>,
    },
    /// Disjoint ranges by first address, cut at multiples of 65536 as nginx does: by this it decides what overlaps.
    Ranges {
        ranges: BTreeMap<u32, (u32, ValueId)>,
        default: Option<ValueId>,
    },
}

impl Builder {
    /// Whether addresses in `X-Forwarded-For` are believed of some.
    pub fn has_proxies(&self) -> bool {
        !self.proxies.is_empty()
    }

    pub fn line(&mut self, cx: &mut Cx<'_, '_>, line: &Directive) -> Result<(), Diag> {
        let key = &line.name;
        let [value] = line.args.as_slice() else {
            match key.bytes() {
                b"ranges" if line.args.is_empty() => return self.ranges(line),
                b"proxy_recursive" if line.args.is_empty() => self.proxy_recursive = true,
                b"volatile" if line.args.is_empty() => self.volatile = true,
                _ => {
                    return Err(Diag::emerg(line.span, "invalid number of the geo parameters")
                        .help("a line is a network and a value; is the \";\" missing at its end?"));
                }
            }
            // (`ranges` may stand before the first entry only.)
            return Ok(());
        };
        if key.bytes() == b"proxy" {
            // Collected apart: `proxy` is about whom to believe, and may stand before `ranges`.
            self.proxies.push(network(cx, value)?);
            return Ok(());
        }
        // A table is of networks unless its first entry says otherwise: both kinds resolve overlaps in
        // different ways, so they cannot be mixed.
        let kind = self.kind.get_or_insert_with(|| Kind::Networks { v4: Nets::new(), v6: Nets::new() });
        match (key.bytes(), kind) {
            (b"delete", Kind::Networks { v4, v6 }) => delete_network(cx, v4, v6, value),
            (b"delete", Kind::Ranges { ranges, .. }) => delete_range(cx, ranges, value),
            (b"default", Kind::Networks { .. }) => {
                // The default is the largest network of each family, so that a lookup needs no second case.
                self.add_network(cx, key, Cidr::V4(0, u32::MAX), value);
                self.add_network(cx, key, Cidr::V6(0, u128::MAX), value);
                Ok(())
            }
            (b"default", Kind::Ranges { .. }) => {
                self.default_of_ranges(cx, line, value);
                Ok(())
            }
            (_, Kind::Networks { .. }) => {
                let cidr = network(cx, key)?;
                self.add_network(cx, key, cidr, value);
                Ok(())
            }
            (_, Kind::Ranges { .. }) => self.add_range(cx, key, value),
        }
    }

    fn ranges(&mut self, line: &Directive) -> Result<(), Diag> {
        match self.kind {
            Some(Kind::Networks { .. }) => Err(Diag::emerg(
                line.span,
                "the \"ranges\" directive must be the first directive inside \"geo\" block",
            )
            .help("move \"ranges;\" to the begin of the block")),
            Some(Kind::Ranges { .. }) => Ok(()),
            None => {
                self.kind = Some(Kind::Ranges { ranges: BTreeMap::new(), default: None });
                // What follows are ranges, the default included.
                Ok(())
            }
        }
    }

    fn value(&mut self, token: &Token) -> ValueId {
        if let Some(&id) = self.ids.get(token.bytes()) {
            return id;
        }
        let id = self.values.len() as ValueId;
        self.values.push(token.bytes().into());
        // Twice in memory while it is read, once when it is in force.
        self.ids.insert(token.bytes().into(), id);
        id
    }

    fn text(&self, id: ValueId) -> String {
        String::from_utf8_lossy(&self.values[id as usize]).into_owned()
    }

    fn add_network(&mut self, cx: &mut Cx<'_, '_>, net: &Token, cidr: Cidr, value: &Token) {
        let id = self.value(value);
        let Some(Kind::Networks { v4, v6 }) = &mut self.kind else { return };
        let old = match cidr {
            Cidr::V4(first, last) => v4.insert((first, Reverse(last)), id),
            Cidr::V6(first, last) => v6.insert((first, Reverse(last)), id),
        };
        if let Some(old) = old {
            // A warning, since the later line holds: generated tables repeat themselves.
            self.duplicate(cx, "network", net, id, old);
        }
    }

    fn duplicate(&self, cx: &mut Cx<'_, '_>, what: &str, net: &Token, new: ValueId, old: ValueId) {
        let (name, new, old) = (net.text(), self.text(new), self.text(old));
        let text = format!("duplicate {what} \"{name}\", value: \"{new}\", old value: \"{old}\"");
        cx.warn(Diag::warn(net.span, text));
    }

    fn default_of_ranges(&mut self, cx: &mut Cx<'_, '_>, line: &Directive, value: &Token) {
        let id = self.value(value);
        let Some(Kind::Ranges { default, .. }) = &mut self.kind else { return };
        if let Some(old) = default.replace(id) {
            let (new, old) = (value.text(), self.text(old));
            let text = format!("duplicate default geo range value: \"{new}\", old value: \"{old}\"");
            cx.warn(Diag::warn(line.span, text));
        }
    }

    fn add_range(&mut self, cx: &mut Cx<'_, '_>, net: &Token, value: &Token) -> Result<(), Diag> {
        let (first, last) = range(net)?;
        let id = self.value(value);
        let Some(Kind::Ranges { ranges, .. }) = &mut self.kind else { return Ok(()) };
        let mut replaced = None;
        for (first, last) in pieces(first, last) {
            match insert_piece(ranges, first, last, id) {
                Ok(old) => replaced = replaced.or(old),
                Err((start, end)) => {
                    let (start, end) = (Ipv4Addr::from(start), Ipv4Addr::from(end));
                    return Err(Diag::emerg(
                        net.span,
                        format!("range \"{}\" overlaps \"{start}-{end}\"", net.text()),
                    )
                    .help("a range may lie inside another or beside it, not across its end"));
                }
            }
        }
        if let Some(old) = replaced {
            self.duplicate(cx, "range", net, id, old);
        }
        Ok(())
    }

    pub fn finish(self, source: Option<VarId>) -> Geo {
        // In the order of the map: by first address, larger ones first, as `lay_out` asks for.
        let nets = |(&(first, Reverse(last)), &id): (&(u32, Reverse<u32>), &ValueId)| (first, last, id);
        let nets6 = |(&(first, Reverse(last)), &id): (&(u128, Reverse<u128>), &ValueId)| (first, last, id);
        let table = match &self.kind {
            // A block without entries: every address has the empty value.
            None => Table::networks(
                Intervals::lay_out([].into_iter(), EMPTY),
                Intervals::lay_out([].into_iter(), EMPTY),
            ),
            Some(Kind::Networks { v4, v6 }) => Table::networks(
                Intervals::lay_out(v4.iter().map(nets), EMPTY),
                Intervals::lay_out(v6.iter().map(nets6), EMPTY),
            ),
            Some(Kind::Ranges { ranges, default }) => {
                let nets = ranges.iter().map(|(&first, &(last, id))| (first, last, id));
                Table::Ranges(Intervals::lay_out(nets, default.unwrap_or(EMPTY)))
            }
        };
        Geo {
            source,
            table,
            values: self.values.into(),
            proxies: self.proxies.into(),
            proxy_recursive: self.proxy_recursive,
        }
    }
}

fn network(cx: &mut Cx<'_, '_>, token: &Token) -> Result<Cidr, Diag> {
    let Parsed { cidr, is_rough } = Cidr::parse(token.bytes()).ok_or_else(|| {
        Diag::emerg(token.span, format!("invalid network \"{}\"", token.text()))
            .help("write 192.0.2.0/24, 2001:db8::/32 or a single address")
    })?;
    // 192.0.2.1/24 is taken for its network, as in nginx.
    if is_rough {
        cx.warn(Diag::warn(token.span, format!("low address bits of {} are meaningless", token.text())));
    }
    Ok(cidr)
}

fn delete_network(
    cx: &mut Cx<'_, '_>,
    v4: &mut Nets<u32>,
    v6: &mut Nets<u128>,
    token: &Token,
) -> Result<(), Diag> {
    let old = match network(cx, token)? {
        Cidr::V4(first, last) => v4.remove(&(first, Reverse(last))),
        Cidr::V6(first, last) => v6.remove(&(first, Reverse(last))),
    };
    // A warning: a generated table may take back what another list no longer has.
    if old.is_none() {
        cx.warn(Diag::warn(token.span, format!("no network \"{}\" to delete", token.text())));
    }
    Ok(())
}

fn delete_range(
    cx: &mut Cx<'_, '_>,
    ranges: &mut BTreeMap<u32, (u32, ValueId)>,
    token: &Token,
) -> Result<(), Diag> {
    let (first, last) = range(token)?;
    let mut missing = false;
    for (first, last) in pieces(first, last) {
        // Only a piece that is there exactly: cutting one out of a larger range is not what nginx does.
        if ranges.get(&first).is_some_and(|&(end, _)| end == last) {
            ranges.remove(&first);
        } else {
            missing = true;
        }
    }
    if missing {
        cx.warn(Diag::warn(token.span, format!("no address range \"{}\" to delete", token.text())));
    }
    Ok(())
}

/// `first-last`, IPv4 only.
fn range(token: &Token) -> Result<(u32, u32), Diag> {
    let bounds = memchr::memchr(b'-', token.bytes()).and_then(|at| {
        let (first, last) = (&token.bytes()[..at], &token.bytes()[at + 1..]);
        Some((parse_ipv4(first)?.to_bits(), parse_ipv4(last)?.to_bits()))
    });
    bounds.filter(|(first, last)| first <= last).ok_or_else(|| {
        Diag::emerg(token.span, format!("invalid range \"{}\"", token.text()))
            .help("write 192.0.2.0-192.0.2.255; ranges are for IPv4 only")
    })
}

/// A range cut at multiples of 65536.
fn pieces(first: u32, last: u32) -> impl Iterator<Item = (u32, u32)> {
    (first >> 16..=last >> 16).map(move |high| (first.max(high << 16), last.min(high << 16 | 0xffff)))
}

/// Puts a piece beside, into or over what is there. Gives the value of an equal piece that it replaces; the error is
/// the piece that it overlaps.
fn insert_piece(
    ranges: &mut BTreeMap<u32, (u32, ValueId)>,
    first: u32,
    last: u32,
    id: ValueId,
) -> Result<Option<ValueId>, (u32, u32)> {
    // The last one that begins at or before our end is the only one that can hold us.
    let Some((&start, &(end, old))) =
        ranges.range(..=last).next_back().filter(|&(_, &(end, _))| end >= first)
    else {
        ranges.insert(first, (last, id));
        return Ok(None);
    };
    // Partly inside and partly outside: which value the common part should have is not said.
    if start > first || end < last {
        return Err((start, end));
    }
    // What is around it keeps its value on both sides.
    if start < first {
        ranges.insert(start, (first - 1, old));
    }
    if last < end {
        ranges.insert(last + 1, (end, old));
    }
    ranges.insert(first, (last, id));
    Ok((start == first && end == last).then_some(old))
}
