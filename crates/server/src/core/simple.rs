//! What setters of several directives share.

use brisk_host::vars::Template;
use std::sync::Arc;

/// Several directives of a block are one list of values.
pub fn extend(list: &mut Arc<[Template]>, is_first: bool, more: Vec<Template>) {
    *list = if is_first { more.into() } else { list.iter().cloned().chain(more).collect() };
}
