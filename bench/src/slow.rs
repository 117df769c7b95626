//! A back end like a slow application: it works on few requests at a time and takes its time for each.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How the back end is started.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Port on 127.0.0.1.
    pub port: u16,
    /// Bytes of the body.
    pub body_bytes: usize,
    /// Requests at a time.
    pub workers: usize,
    /// What each takes.
    pub work: Duration,
}

/// Places of work: who finds none waits.
struct Places {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Places {
    fn work(&self, time: Duration) {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        drop(free);
        std::thread::sleep(time);
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.freed.notify_one();
    }
}

/// Serves until killed; a thread for each connection.
pub fn serve(options: Options) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port))?;
    let places = Arc::new(Places { free: Mutex::new(options.workers), freed: Condvar::new() });
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n",
        options.body_bytes
    );
    let mut answer = head.into_bytes();
    answer.resize(answer.len() + options.body_bytes, b'x');
    let answer: Arc<[u8]> = answer.into();
    for socket in listener.incoming() {
        let (socket, places, answer) = (socket?, places.clone(), answer.clone());
        std::thread::spawn(move || {
            // The end of a connection, whatever its reason, is the end of its thread.
            drop(answer_all(socket, &answer, || places.work(options.work)));
        });
    }
    Ok(())
}

/// Answers each blank line.
fn answer_all(mut socket: TcpStream, answer: &[u8], work: impl Fn()) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let (mut input, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = socket.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        input.extend_from_slice(&buffer[..count]);
        while let Some(at) = input.windows(4).position(|window| window == b"\r\n\r\n") {
            input.drain(..at + 4);
            work();
            socket.write_all(answer)?;
        }
    }
}
