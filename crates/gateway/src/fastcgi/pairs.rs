//! Name-value pairs: a length of one or four bytes for the name, one for the value, then both.

use super::record::RecordError;
use crate::limits::SHORT_MAX;
use crate::{Pair, put_all, total};

/// Bytes that a pair takes.
pub(super) fn pair_len(name: usize, value: usize) -> usize {
    let length = |len: usize| if len > SHORT_MAX { 4 } else { 1 };
    length(name) + name + length(value) + value
}

fn put_length(len: usize, out: &mut Vec<u8>) {
    if len > SHORT_MAX {
        out.extend_from_slice(&(len as u32 | 1 << 31).to_be_bytes());
    } else {
        out.push(len as u8);
    }
}

/// Appends a pair. Name and value are shorter than 2 GiB.
pub fn write_pair(name: &[u8], pieces: &[&[u8]], out: &mut Vec<u8>) {
    put_length(name.len(), out);
    put_length(total(pieces), out);
    out.extend_from_slice(name);
    put_all(pieces, out);
}

/// Reads pairs. After an error there is nothing more.
pub struct Pairs<'a>(pub &'a [u8]);

impl<'a> Pairs<'a> {
    fn length(&mut self) -> Option<usize> {
        let (&first, rest) = self.0.split_first()?;
        if usize::from(first) <= SHORT_MAX {
            self.0 = rest;
            return Some(usize::from(first));
        }
        let (bytes, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some((u32::from_be_bytes(*bytes) & !(1 << 31)) as usize)
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn pair(&mut self) -> Option<Pair<'a>> {
        let (name, value) = (self.length()?, self.length()?);
        Some((self.take(name)?, self.take(value)?))
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Result<Pair<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let pair = self.pair();
        if pair.is_none() {
            self.0 = &[];
        }
        Some(pair.ok_or(RecordError::Pairs))
    }
}
