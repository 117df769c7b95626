//! Directives that nginx needs and that have no meaning here.

use crate::ignored;
use crate::module::Row;
use brisk_conf::{Arity, Context};

const HSL: Context = Context::HSL;
const HS: Context = Context::HS;
const HTTP: Context = Context::HTTP;

pub const ROWS: &[Row] = &[
    ignored!(
        "open_file_cache_events",
        HSL,
        Arity::ONE,
        "Kernel events for the file cache.",
        "the file cache always follows the kernel's events"
    ),
    ignored!(
        "aio_write",
        HSL,
        Arity::ONE,
        "Asynchronous writing of temporary files.",
        "temporary files are always written by a pool of threads"
    ),
    ignored!("directio_alignment", HSL, Arity::ONE, "Alignment for directio.", "files are not read directly"),
    ignored!("read_ahead", HSL, Arity::ONE, "Read-ahead of the kernel.", "the kernel decides"),
    ignored!(
        "output_buffers",
        HSL,
        Arity::TWO,
        "Buffers for reading files.",
        "files are read as they are sent, at most 64k at a time"
    ),
    ignored!(
        "postpone_output",
        HSL,
        Arity::ONE,
        "Bytes collected before a response is sent.",
        "small responses leave in one write"
    ),
    ignored!("send_lowat", HSL, Arity::ONE, "A socket option of another system.", "Linux does not have it"),
    ignored!(
        "connection_pool_size",
        HS,
        Arity::ONE,
        "Memory per connection.",
        "memory is allocated as needed"
    ),
    ignored!("request_pool_size", HS, Arity::ONE, "Memory per request.", "memory is allocated as needed"),
    ignored!(
        "server_names_hash_bucket_size",
        HTTP,
        Arity::ONE,
        "Size of a hash bucket.",
        "hash tables size themselves"
    ),
    ignored!(
        "server_names_hash_max_size",
        HTTP,
        Arity::ONE,
        "Size of a hash table.",
        "hash tables size themselves"
    ),
    ignored!(
        "types_hash_bucket_size",
        HSL,
        Arity::ONE,
        "Size of a hash bucket.",
        "hash tables size themselves"
    ),
    ignored!("types_hash_max_size", HSL, Arity::ONE, "Size of a hash table.", "hash tables size themselves"),
    ignored!(
        "variables_hash_bucket_size",
        HTTP,
        Arity::ONE,
        "Size of a hash bucket.",
        "hash tables size themselves"
    ),
    ignored!(
        "variables_hash_max_size",
        HTTP,
        Arity::ONE,
        "Size of a hash table.",
        "hash tables size themselves"
    ),
    ignored!(
        "msie_padding",
        HSL,
        Arity::ONE,
        "Padding of error pages for MSIE.",
        "no browser in use needs it"
    ),
];
