//! `TARGET=uri brisk-fuzz-guided [libFuzzer's options]`: inputs led by coverage. See scripts/fuzz-guided.sh.
#![no_main]

use brisk_fuzz::Target;
use std::sync::LazyLock;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("TARGET").expect("TARGET names one of brisk_fuzz::TARGETS");
    Target::find(&name).expect("one of brisk_fuzz::TARGETS")
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| (TARGET.run)(data));
