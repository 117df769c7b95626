//! WebDAV's methods on files, over real sockets.

use brisk_testkit::{Builder, Response, Server};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::PathBuf;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// A server whose folder `files` may be changed; `rest` is more of its server block.
fn server(directives: &str, rest: &str) -> Server {
    let builder = Builder::new(BIN).http(&format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; root {{{{DIR}}}}/files; {rest}
            location / {{ dav_methods PUT DELETE MKCOL COPY MOVE; {directives} }} }}"
    ));
    let folder = builder.dir().join("files");
    fs::create_dir(&folder).unwrap();
    // The worker may be another user.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(builder.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    builder.start()
}

fn path(server: &Server, name: &str) -> PathBuf {
    server.dir().join("files").join(name)
}

/// A folder in which the worker may change things.
fn folder(server: &Server, name: &str) -> PathBuf {
    let path = path(server, name);
    fs::create_dir_all(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    path
}

fn ask(server: &Server, method: &str, target: &str, fields: &str, body: &str) -> Response {
    let length = body.len();
    let length =
        if length > 0 || method == "PUT" { format!("Content-Length: {length}\r\n") } else { String::new() };
    server.request(format!("{method} {target} HTTP/1.1\r\nHost: host\r\n{fields}{length}\r\n{body}"))
}

fn status(server: &Server, method: &str, target: &str, fields: &str) -> u16 {
    ask(server, method, target, fields, "").status
}

/// DNS rebinding: a page whose name was made to resolve to this machine.
#[test]
fn pages_with_another_name_change_nothing() {
    let server = server("allow 127.0.0.1; deny all;", "server_name own.example;");
    let put = |host: &str, fields: &str| {
        let text = format!("PUT /a HTTP/1.1\r\nHost: {host}\r\n{fields}Content-Length: 1\r\n\r\nx");
        server.request(text).status
    };
    assert_eq!(put("rebound.example", "Origin: http://rebound.example\r\n"), 403);
    assert!(!path(&server, "a").exists());
    assert_eq!(put("own.example", "Origin: http://own.example\r\n"), 201);
    assert_eq!(put("127.0.0.1", "Origin: http://127.0.0.1\r\n"), 204);
    // Programs name no page.
    assert_eq!(put("other.example", ""), 204);
}

#[test]
fn files_are_put_and_served_at_once() {
    let server = server("", "");
    let made = ask(&server, "PUT", "/a%20b.txt", "", "first");
    assert_eq!((made.status, made.header("Content-Length"), made.body.len()), (201, Some("0"), 0));
    assert!(made.header("Location").unwrap().ends_with("/a%20b.txt"));
    assert_eq!(server.get("/a%20b.txt").text(), "first");
    let mut client = server.client();
    for n in 0..50 {
        // Both requests are there before either is worked on; what the second gets is the first one's file.
        let body = format!("version {n}");
        let put =
            format!("PUT /a%20b.txt HTTP/1.1\r\nHost: host\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        client.send(format!("{put}GET /a%20b.txt HTTP/1.1\r\nHost: host\r\n\r\n"));
        let replaced = client.try_response("PUT").unwrap();
        assert_eq!((replaced.status, replaced.header("Content-Length")), (204, None));
        assert_eq!(client.response().text(), body);
    }
    assert_eq!(status(&server, "DELETE", "/a%20b.txt", ""), 204);
    assert_eq!(server.get("/a%20b.txt").status, 404);
    let leftovers = fs::read_dir(server.dir().join("client_body_temp")).map_or(0, Iterator::count);
    assert_eq!(leftovers, 0);
}

#[test]
fn bodies_keep_to_their_limits() {
    let server =
        server("client_max_body_size 100; create_full_put_path on; dav_access user:rw group:r all:r;", "");
    assert_eq!(ask(&server, "PUT", "/large", "", &"x".repeat(101)).status, 413);
    let chunked = "PUT /chunked HTTP/1.1\r\nHost: host\r\nTransfer-Encoding: chunked\r\n\r\n";
    let large = format!("{chunked}65\r\n{}\r\n0\r\n\r\n", "x".repeat(101));
    assert_eq!(server.request(large).status, 413);
    assert_eq!(server.request(format!("{chunked}5\r\nhello\r\n0\r\n\r\n")).status, 201);
    assert_eq!(fs::read(path(&server, "chunked")).unwrap(), b"hello");
    assert!(!path(&server, "large").exists());
    assert_eq!(ask(&server, "PUT", "/part", "Content-Range: bytes 0-3/10\r\n", "four").status, 501);
    assert_eq!(ask(&server, "PUT", "/collection/", "", "x").status, 409);
    let dated = ask(&server, "PUT", "/a/b/dated", "Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n", "x");
    assert_eq!(dated.status, 201);
    let file = fs::metadata(path(&server, "a/b/dated")).unwrap();
    assert_eq!((file.mtime(), file.permissions().mode() & 0o7777), (1_767_225_600, 0o644));
    assert_eq!(fs::metadata(path(&server, "a")).unwrap().permissions().mode() & 0o7777, 0o755);
    assert_eq!(ask(&server, "PUT", "/a", "", "x").status, 409);
    // A client that leaves leaves nothing.
    let mut client = server.client();
    client.send("PUT /broken HTTP/1.1\r\nHost: host\r\nContent-Length: 50\r\n\r\nhalf");
    client.reset();
    server.wait_for_line("access.log", "PUT /broken");
    assert!(!path(&server, "broken").exists());
}

#[test]
fn folders_are_made_copied_moved_and_deleted() {
    let server = server("min_delete_depth 2;", "");
    folder(&server, "w");
    assert_eq!(status(&server, "MKCOL", "/w/a/", ""), 201);
    assert_eq!(status(&server, "MKCOL", "/w/a/", ""), 405);
    assert_eq!(status(&server, "MKCOL", "/w/x/y/", ""), 409);
    assert_eq!(status(&server, "MKCOL", "/w/b", ""), 409);
    assert_eq!(ask(&server, "MKCOL", "/w/c/", "", "body").status, 415);
    assert_eq!(status(&server, "MKCOL", "/w/a/in/", ""), 201);
    assert_eq!(ask(&server, "PUT", "/w/a/in/file", "", "content").status, 201);
    assert_eq!(ask(&server, "PUT", "/w/none/file", "", "content").status, 409);
    let to = |path: &str| format!("Destination: http://host{path}\r\n");
    assert_eq!(status(&server, "COPY", "/w/a/", &to("/w/copy/")), 201);
    assert_eq!(fs::read(path(&server, "w/copy/in/file")).unwrap(), b"content");
    assert_eq!(status(&server, "COPY", "/w/a/", &(to("/w/shallow/") + "Depth: 0\r\n")), 201);
    assert_eq!(fs::read_dir(path(&server, "w/shallow")).unwrap().count(), 0);
    assert_eq!(status(&server, "COPY", "/w/a/", &(to("/w/copy/") + "Overwrite: F\r\n")), 412);
    assert_eq!(status(&server, "MOVE", "/w/copy/", &to("/w/a/")), 201);
    assert!(!path(&server, "w/copy").exists() && path(&server, "w/a/in/file").exists());
    assert_eq!(status(&server, "MOVE", "/w/a/in/file", &to("/w/new/file")), 204);
    assert_eq!(fs::read(path(&server, "w/new/file")).unwrap(), b"content");
    assert_eq!(status(&server, "COPY", "/w/new/file", &to("/w/none/file")), 409);
    for (method, target, fields, want) in [
        ("COPY", "/w/a/", to("/w/a/"), 403),
        ("COPY", "/w/a/", to("/w/a/in/deeper/"), 403),
        ("MOVE", "/w/a/in/", to("/w/a/"), 403),
        ("COPY", "/w/a/", to("/w/file"), 409),
        ("COPY", "/w/missing", to("/w/other"), 404),
        ("COPY", "/w/a", to("/w/other"), 400),
        ("COPY", "/w/new/file", to("/w/a"), 409),
        ("COPY", "/w/new/file", String::new(), 400),
        ("COPY", "/w/new/file", "Destination: http://hostess/w/f\r\n".into(), 400),
        ("COPY", "/w/new/file", to("/../../etc/passwd"), 400),
        ("COPY", "/w/new/file", to("/w/%2e%2e/%2e%2e/passwd"), 400),
        ("COPY", "/w/new/file", to("/w/nul%00"), 400),
        ("MOVE", "/w/a/", to("/w/b/") + "Depth: 0\r\n", 400),
        ("COPY", "/w/a/", to("/w/b/") + "Depth: 1\r\n", 400),
        ("COPY", "/w/a/", to("/w/b/") + "Overwrite: maybe\r\n", 400),
        ("DELETE", "/w/a/", "Depth: 1\r\n".into(), 400),
        ("DELETE", "/w/a", String::new(), 409),
        ("DELETE", "/w/", String::new(), 409),
        ("DELETE", "/w/missing", String::new(), 404),
        ("DELETE", "/w/new/file/", String::new(), 409),
        ("DELETE", "/w/a/", String::new(), 204),
    ] {
        assert_eq!(status(&server, method, target, &fields), want, "{method} {target} {fields}");
    }
    assert!(!path(&server, "w/a").exists());
}

/// What is a link is removed, replaced or left out; nothing behind it is touched.
#[test]
fn links_lead_nowhere() {
    let server = server("", "");
    let outside = server.dir().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    fs::set_permissions(outside.join("secret"), fs::Permissions::from_mode(0o666)).unwrap();
    let tree = folder(&server, "tree");
    symlink(&outside, tree.join("folder")).unwrap();
    symlink(outside.join("secret"), tree.join("file")).unwrap();
    symlink(&outside, path(&server, "link")).unwrap();
    symlink(outside.join("secret"), path(&server, "secret")).unwrap();
    assert_eq!(status(&server, "COPY", "/tree/", "Destination: /copy/\r\n"), 201);
    assert_eq!(fs::read_dir(path(&server, "copy")).unwrap().count(), 0);
    assert_eq!(status(&server, "DELETE", "/tree/", ""), 204);
    assert_eq!(status(&server, "DELETE", "/link/", ""), 409);
    assert_eq!(ask(&server, "PUT", "/secret", "", "mine").status, 204);
    assert!(!fs::symlink_metadata(path(&server, "secret")).unwrap().is_symlink());
    assert_eq!(status(&server, "COPY", "/secret", "Destination: /link\r\n"), 204);
    assert_eq!(fs::read(outside.join("secret")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

/// A link on the way gives a folder a second name.
#[test]
fn a_folder_keeps_its_content_whatever_it_is_called() {
    let server = server("", "");
    for name in ["a", "a/b", "a/b/c"] {
        folder(&server, name);
    }
    server.write("files/a/b/c/file", "content");
    symlink(path(&server, "a"), path(&server, "link")).unwrap();
    let is_there = || fs::read_to_string(path(&server, "a/b/c/file")).unwrap_or_default() == "content";
    for (method, target, destination, want) in [
        ("COPY", "/a/b/", "/link/b/", 403),
        ("MOVE", "/a/b/", "/link/b/", 201),
        ("MOVE", "/link/b/c/", "/a/b/", 403),
        ("COPY", "/link/b/c/", "/a/b/", 403),
        ("COPY", "/a/b/", "/link/b/c/inner/", 403),
        ("MOVE", "/a/b/", "/link/b/c/inner/", 403),
    ] {
        let got = status(&server, method, target, &format!("Destination: {destination}\r\n"));
        assert!(is_there(), "{method} {target} {destination}: {got}");
        assert_eq!(got, want, "{method} {target} {destination}");
        assert!(!path(&server, "a/b/c/inner").exists());
    }
}

/// What the location's pattern has found is of the request's own URI, also when another one was looked at.
#[test]
fn a_destination_changes_no_captures() {
    let builder = Builder::new(BIN).http(
        "log_format who '$who'; access_log who.log who;
         server { listen 127.0.0.1:{{PORT}};
            location ~ ^/(?<who>[a-z]+)/docs/ { root {{DIR}}/homes/$who; dav_methods COPY MOVE; } }",
    );
    fs::set_permissions(builder.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    let home = builder.dir().join("homes/alice");
    for name in ["alice/docs", "bob/docs"] {
        fs::create_dir_all(home.join(name)).unwrap();
        fs::set_permissions(home.join(name), fs::Permissions::from_mode(0o777)).unwrap();
    }
    fs::write(home.join("alice/docs/x"), "hers").unwrap();
    let server = builder.start();
    let status = status(&server, "MOVE", "/alice/docs/x", "Destination: /bob/docs/y\r\n");
    assert_eq!(status / 100, 2, "{status}");
    assert_eq!(fs::read_to_string(home.join("bob/docs/y")).unwrap(), "hers");
    brisk_testkit::wait::holds("the log", || server.read("who.log") == "alice\n");
}

#[test]
fn disable_symlinks_holds_for_folders_on_the_way() {
    let server = server("disable_symlinks on from=$document_root; create_full_put_path on;", "");
    let outside = server.dir().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    symlink(&outside, path(&server, "link")).unwrap();
    symlink(outside.join("secret"), path(&server, "file")).unwrap();
    assert_eq!(ask(&server, "PUT", "/real/deep/file", "", "x").status, 201);
    for (method, target, fields) in [
        ("PUT", "/link/new", ""),
        ("PUT", "/link/deep/new", ""),
        ("DELETE", "/link/secret", ""),
        ("MKCOL", "/link/new/", ""),
        ("COPY", "/link/secret", "Destination: /stolen\r\n"),
        ("COPY", "/file", "Destination: /stolen\r\n"),
        ("MOVE", "/real/deep/file", "Destination: /link/gone\r\n"),
    ] {
        let status = status(&server, method, target, fields);
        assert!(matches!(status, 403 | 404 | 409), "{method} {target}: {status}");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert!(!path(&server, "stolen").exists() && path(&server, "real/deep/file").exists());
}

/// A destination in another location would get round that location's rules.
#[test]
fn nothing_is_copied_or_moved_past_other_locations_rules() {
    let server = server("", "location /private/ { deny all; } location ~ \\.php$ { return 403; }");
    folder(&server, "private");
    assert_eq!(ask(&server, "PUT", "/file", "", "x").status, 201);
    for to in ["/private/file", "/file.php", "/private%2ffile"] {
        assert_eq!(status(&server, "COPY", "/file", &format!("Destination: {to}\r\n")), 403, "{to}");
        assert_eq!(status(&server, "MOVE", "/file", &format!("Destination: {to}\r\n")), 403, "{to}");
    }
    assert_eq!(fs::read_dir(path(&server, "private")).unwrap().count(), 0);
    assert_eq!(status(&server, "DELETE", "/private/", ""), 403);
}

#[test]
fn methods_that_are_not_named_change_nothing() {
    let server = Builder::new(BIN)
        .file("file", "x")
        .http(
            "server { listen 127.0.0.1:{{PORT}}; root {{DIR}};
            location / { dav_methods COPY; } location /off { dav_methods off; } location /none { } }",
        )
        .start();
    for method in ["PUT", "DELETE", "MKCOL", "MOVE"] {
        assert_eq!(status(&server, method, "/file", "Destination: /other\r\n"), 405, "{method}");
        assert_eq!(status(&server, method, "/off", ""), 405, "{method}");
        assert_eq!(status(&server, method, "/none", ""), 405, "{method}");
    }
    assert_eq!(server.get("/file").text(), "x");
}
