//! The unix sockets that a configuration spells out.
//!
//! Where a `*_pass` has variables, a client may have a say in what they come to. That must not lead it to a socket of which
//! the configuration does not speak (a container engine's, a database's). So an address that variables have made is held
//! against all texts of the configuration that name a socket: those of `*_pass`, `server` in `upstream`, and values of `set`,
//! `map` and the like. A variable in such a text stands for a part of one file's or folder's name.

use std::collections::HashSet;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(Box<[u8]>),
    /// A variable: any value without a slash and without the colon that ends a path.
    Name,
}

/// See the module's head.
#[derive(Debug, Default)]
pub struct Spelled {
    sockets: Vec<Box<[Piece]>>,
    /// Texts without variables that begin with a slash: what the variable of `unix:$path` may come to.
    paths: HashSet<Box<[u8]>>,
}

impl Spelled {
    /// Takes note of a text of the configuration, which may name a socket: `unix:PATH` or `SCHEME://unix:PATH`.
    pub fn note(&mut self, text: &[u8]) {
        if text.starts_with(b"/") {
            if !text.contains(&b'$') {
                self.paths.insert(text.into());
            }
            return;
        }
        const SCHEME_BYTES_MAX: usize = 16;
        let head = &text[..text.len().min(SCHEME_BYTES_MAX)];
        let address = memchr::memmem::find(head, b"://").map_or(text, |at| &text[at + 3..]);
        let Some((start, path)) = address.split_at_checked(5) else { return };
        if start.eq_ignore_ascii_case(b"unix:") {
            let socket = pieces(path);
            if !self.sockets.contains(&socket) {
                self.sockets.push(socket);
            }
        }
    }

    /// All texts are noted. Paths are kept only where a variable alone may come to one of them: a response that takes
    /// hours keeps them, and each of thousands of hosts has its own.
    pub fn settle(&mut self) {
        if !self.sockets.iter().any(|socket| matches!(**socket, [Piece::Name])) {
            self.paths = HashSet::new();
        }
    }

    /// Whether a text of the configuration can come to the socket `path`.
    pub fn has_socket(&self, path: &[u8]) -> bool {
        let climbs = path.split(|&b| b == b'/').any(|segment| segment == b"..");
        self.sockets.iter().any(|socket| match &**socket {
            [Piece::Text(text)] => **text == *path,
            [Piece::Name] => self.paths.contains(path),
            pieces => !climbs && matches(pieces, path),
        })
    }
}

/// Cuts a path up at its variables. It ends at a colon: what follows is a URI.
fn pieces(path: &[u8]) -> Box<[Piece]> {
    let mut pieces = Vec::new();
    let mut plain = Vec::new();
    let mut rest = path;
    while let Some((&b, after)) = rest.split_first() {
        rest = after;
        if b == b':' {
            break;
        }
        if b != b'$' {
            plain.push(b);
            continue;
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut plain).into()));
        }
        if pieces.last() != Some(&Piece::Name) {
            pieces.push(Piece::Name);
        }
        rest = after_variable(rest);
    }
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain.into()));
    }
    pieces.into()
}

/// What stands behind the name of a variable.
fn after_variable(text: &[u8]) -> &[u8] {
    let len = match text.first() {
        Some(b'{') => text.iter().position(|&b| b == b'}').map_or(text.len(), |at| at + 1),
        Some(b'0'..=b'9') => 1,
        _ => text.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count(),
    };
    &text[len..]
}

fn matches(pieces: &[Piece], path: &[u8]) -> bool {
    let mut places = vec![0];
    for piece in pieces {
        let mut next: Vec<usize> = Vec::new();
        for &at in &places {
            match piece {
                Piece::Text(text) if path[at..].starts_with(text) => next.push(at + text.len()),
                Piece::Text(_) => {}
                Piece::Name => {
                    let len = path[at..].iter().take_while(|b| !matches!(b, b'/' | b':' | 0)).count();
                    next.extend(at..=at + len);
                }
            }
        }
        next.sort_unstable();
        next.dedup();
        places = next;
    }
    places.last() == Some(&path.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_kept_only_for_variables_that_may_come_to_them() {
        let settled = |texts: &[&str]| {
            let mut spelled = Spelled::default();
            texts.iter().for_each(|text| spelled.note(text.as_bytes()));
            spelled.settle();
            spelled
        };
        let spelled = settled(&["/srv/a", "unix:/run/app.sock", "unix:/run/$name.sock"]);
        assert!(spelled.paths.is_empty() && spelled.has_socket(b"/run/app.sock"));
        assert!(settled(&["/run/a.sock", "unix:$sock"]).has_socket(b"/run/a.sock"));
    }

    #[test]
    fn variables_lead_to_sockets_that_are_spelled_out_and_to_no_others() {
        let mut spelled = Spelled::default();
        let texts = [
            "http://unix:/run/app.sock:/uri$request_uri",
            "unix:/run/php/$1-${version}.sock",
            "fastcgi://unix:/a/$user/fpm",
            "unix:$sock",
            "/run/by-path.sock",
            "/run/$arg_x",
            "http://host/unix:/no.sock",
            "http://$arg_host",
            "$arg_all",
            "unix:/lit/../eral",
        ];
        texts.iter().for_each(|text| spelled.note(text.as_bytes()));
        let good = [
            "/run/app.sock",
            "/run/php/a-8.sock",
            "/run/php/-.sock",
            "/a/b/fpm",
            "/run/by-path.sock",
            "/lit/../eral",
        ];
        good.iter().for_each(|path| assert!(spelled.has_socket(path.as_bytes()), "{path}"));
        let bad = [
            "",
            "/run/docker.sock",
            "/no.sock",
            "/run/app.sock2",
            "/run/php/a/b-8.sock",
            "/run/php/a-8.sock:",
            "/run/php/../docker.sock",
            "/a/../fpm",
            "/a/b/../fpm",
            "/run/x",
        ];
        bad.iter().for_each(|path| assert!(!spelled.has_socket(path.as_bytes()), "{path}"));
    }
}
