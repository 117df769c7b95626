//! Which brace is one too many, or missing: guessed from indentation, which is right where the braces are not.

use crate::source::Span;

/// A block of a file as the parser saw it.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// The name of the directive that opened it.
    pub name: Span,
    /// The `}` that the parser took for the block's; `None` if the file ended before.
    pub close: Option<Span>,
}

/// The block that lacks its `}`: the first whose `}` stands further left than the block itself, and so is an outer block's.
pub fn unclosed(text: &[u8], blocks: &[Block]) -> Option<Block> {
    first(blocks, |own, close| close < own, text)
}

/// The block that was closed too early: the first whose `}` stands further right than the block itself.
pub fn closed_early(text: &[u8], blocks: &[Block]) -> Option<Block> {
    first(blocks, |own, close| close > own, text)
}

fn first(blocks: &[Block], is_odd: impl Fn(usize, usize) -> bool, text: &[u8]) -> Option<Block> {
    let odd = blocks.iter().copied().filter(|block| {
        let Some(close) = block.close else { return false };
        let (own, _) = indentation(text, block.name.start);
        let (closing, is_first) = indentation(text, close.start);
        let is_one_line = !text[block.name.start as usize..close.start as usize].contains(&b'\n');
        is_first && !is_one_line && is_odd(own, closing)
    });
    odd.min_by_key(|block| block.close.map(|close| close.start))
}

/// The columns before the first character of a line, and whether that is the one at `at`.
fn indentation(text: &[u8], at: u32) -> (usize, bool) {
    const TAB_COLUMNS: usize = 8;
    let before = &text[..(at as usize).min(text.len())];
    let line = before.iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1);
    let mut columns = 0;
    for &byte in &before[line..] {
        match byte {
            b' ' => columns += 1,
            b'\t' => columns = (columns / TAB_COLUMNS + 1) * TAB_COLUMNS,
            _ => return (columns, false),
        }
    }
    (columns, true)
}
