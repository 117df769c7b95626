//! Writes into files that the kernel reports to nobody.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Through a shared memory map. Once a page is dirty, not even the file's times change.
pub const MAP: &str = r#"
import mmap, os, sys
map = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 0)
for line in sys.stdin:
    text = bytes.fromhex(line)
    map[0:len(text)] = text
    print("done", flush=True)
"#;

/// By io_submit(2).
pub const AIO: &str = r#"
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open(sys.argv[1], os.O_RDWR)
SETUP, GETEVENTS, SUBMIT = (206, 208, 209) if os.uname().machine == "x86_64" else (0, 4, 2)
context = ctypes.c_ulong(0)
assert libc.syscall(SETUP, 1, ctypes.byref(context)) == 0
for line in sys.stdin:
    given = bytes.fromhex(line)
    text = ctypes.create_string_buffer(given, len(given))
    call = ctypes.create_string_buffer(
        struct.pack("<QIiHhIQQqQII", 0, 0, 0, 1, 0, fd, ctypes.addressof(text), len(given), 0, 0, 0, 0), 64)
    calls = (ctypes.c_void_p * 1)(ctypes.addressof(call))
    assert libc.syscall(SUBMIT, context, ctypes.c_long(1), calls) == 1
    event = ctypes.create_string_buffer(32)
    assert libc.syscall(GETEVENTS, context, ctypes.c_long(1), ctypes.c_long(1), event, None) == 1
    assert struct.unpack("<QQqq", event.raw)[2] == len(given)
    print("done", flush=True)
"#;

/// A process that writes at a file's beginning, in one of these ways.
pub struct Writer {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Writer {
    /// # Panics
    /// Without python3.
    pub fn start(way: &str, file: &Path) -> Writer {
        let mut python = Command::new("python3");
        python.args(["-c", way]).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().expect("python3 is installed");
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        Writer { child, answers }
    }

    /// Comes back when it is written.
    ///
    /// # Panics
    /// If that cannot be done.
    pub fn write(&mut self, bytes: &[u8]) {
        use std::fmt::Write as _;
        let mut line = String::with_capacity(2 * bytes.len() + 1);
        bytes.iter().for_each(|byte| write!(line, "{byte:02x}").expect("a string takes all"));
        line.push('\n');
        let input = self.child.stdin.as_mut().expect("it is piped");
        input.write_all(line.as_bytes()).expect("it reads");
        line.clear();
        self.answers.read_line(&mut line).expect("it answers");
        assert_eq!(line, "done\n");
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
