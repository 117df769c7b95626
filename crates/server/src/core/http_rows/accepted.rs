//! Directives that nginx needs and that have no meaning here.
//!
//! Each says why, in the words that the notice at the start shows. A directive that changes what clients see
//! does not belong here: it is supported, or an error.

use crate::directive::directive;
use crate::module::Row;
use brisk_conf::{Arity, Context};

const HSL: Context = Context::HSL;
const HS: Context = Context::HS;
const HTTP: Context = Context::HTTP;

/// Rows that are accepted and have no effect.
pub const ROWS: &[Row] = &[
    // What nginx asks for here is the only mode there is: changes are told by inotify.
    directive("open_file_cache_events")
        .doc("Kernel events for the file cache.")
        .in_(HSL)
        .takes("on | off")
        .example("open_file_cache_events on;")
        .ignored("the file cache always follows the kernel's events"),
    // The pool is there in any case, since a file system has no other way that never blocks.
    directive("aio_write")
        .doc("Asynchronous writing of temporary files.")
        .in_(HSL)
        .takes("on | off")
        .example("aio_write on;")
        .ignored("temporary files are always written by a pool of threads"),
    // Direct reads bypass the page cache, so what is read again is read from the disk.
    directive("directio_alignment")
        .doc("Alignment for directio.")
        .in_(HSL)
        .takes("SIZE")
        .example("directio_alignment 4k;")
        .ignored("files are not read directly"),
    // posix_fadvise would be a call per file. The kernel doubles its own read-ahead for files that are read
    // in order.
    directive("read_ahead")
        .doc("Read-ahead of the kernel.")
        .in_(HSL)
        .takes("SIZE")
        .example("read_ahead 64k;")
        .ignored("the kernel decides"),
    // A file is read when the last piece has left, so there are never two buffers of one response.
    directive("output_buffers")
        .doc("Buffers for reading files.")
        .in_(HSL)
        .arity(Arity::TWO)
        .takes("NUMBER SIZE")
        .example("output_buffers 2 32k;")
        .ignored("files are read as they are sent, at most 64k at a time"),
    // nginx collects small pieces of a response before it writes. Here all that a turn has made leaves in one
    // write.
    directive("postpone_output")
        .doc("Bytes collected before a response is sent.")
        .in_(HSL)
        .takes("SIZE")
        .example("postpone_output 1460;")
        .ignored("small responses leave in one write"),
    // The kernel refuses to set SO_SNDLOWAT (socket(7)); nginx ignores the directive on Linux, too.
    directive("send_lowat")
        .doc("A socket option of another system.")
        .in_(HSL)
        .takes("SIZE")
        .example("send_lowat 0;")
        .ignored("Linux does not have it"),
    // Pools of memory per connection and request are how nginx frees all at once. Here values are dropped by
    // their owners.
    directive("connection_pool_size")
        .doc("Memory per connection.")
        .in_(HS)
        .takes("SIZE")
        .example("connection_pool_size 512;")
        .ignored("memory is allocated as needed"),
    directive("request_pool_size")
        .doc("Memory per request.")
        .in_(HS)
        .takes("SIZE")
        .example("request_pool_size 4k;")
        .ignored("memory is allocated as needed"),
    // nginx's tables have a fixed size, and configurations of many hosts do not start without these. Ours
    // grow.
    directive("server_names_hash_bucket_size")
        .doc("Size of a hash bucket.")
        .in_(HTTP)
        .takes("SIZE")
        .example("server_names_hash_bucket_size 64;")
        .ignored("hash tables size themselves"),
    directive("server_names_hash_max_size")
        .doc("Size of a hash table.")
        .in_(HTTP)
        .takes("SIZE")
        .example("server_names_hash_max_size 1024;")
        .ignored("hash tables size themselves"),
    directive("types_hash_bucket_size")
        .doc("Size of a hash bucket.")
        .in_(HSL)
        .takes("SIZE")
        .example("types_hash_bucket_size 64;")
        .ignored("hash tables size themselves"),
    directive("types_hash_max_size")
        .doc("Size of a hash table.")
        .in_(HSL)
        .takes("SIZE")
        .example("types_hash_max_size 2048;")
        .ignored("hash tables size themselves"),
    directive("variables_hash_bucket_size")
        .doc("Size of a hash bucket.")
        .in_(HTTP)
        .takes("SIZE")
        .example("variables_hash_bucket_size 64;")
        .ignored("hash tables size themselves"),
    directive("variables_hash_max_size")
        .doc("Size of a hash table.")
        .in_(HTTP)
        .takes("SIZE")
        .example("variables_hash_max_size 1024;")
        .ignored("hash tables size themselves"),
    // Internet Explorer showed a page of its own in place of an error page below 512 bytes.
    directive("msie_padding")
        .doc("Padding of error pages for MSIE.")
        .in_(HSL)
        .takes("on | off")
        .example("msie_padding off;")
        .ignored("no browser in use needs it"),
];
