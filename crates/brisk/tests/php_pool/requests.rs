//! One request: what PHP is told, and what becomes of its answer.

use crate::site::{Site, builder, conf};
use brisk_testkit::PhpFpm;
use std::os::unix::fs::PermissionsExt as _;

const SMALL: &str = "pm static; max_children 2;";

#[test]
fn php_answers_as_behind_fpm() {
    let pool = "pm static; max_children 2; php_admin_value[memory_limit] 99M; php_value[precision] 5; env[FROM_POOL] yes;";
    let site = Site::new(pool, "fastcgi_param PATH_INFO $fastcgi_path_info; fastcgi_param PHP_VALUE \"precision=7\";
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_param SCRIPT_NAME $fastcgi_script_name;
        fastcgi_param QUERY_STRING $query_string; fastcgi_param REQUEST_METHOD $request_method;");
    site.script("index.php", "<?php echo 'front, ', $_GET['a'] ?? 'nothing';");
    site.script(
        "path.php",
        "<?php echo $_SERVER['PATH_INFO'], ' ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['PHP_SELF'];",
    );
    site.script("sapi.php", "<?php echo PHP_SAPI, ' ', ini_get('memory_limit'), ' ', var_export(ini_set('memory_limit', '1G'), true),
        ' ', ini_get('precision'), ' ', getenv('FROM_POOL'), ' ', posix_getuid() === 0 ? 'root' : 'user', ' ',
        var_export(opcache_get_status(false)['opcache_enabled'], true);");
    site.script("status.php", "<?php http_response_code(404); header('X-A: b'); echo 'sorry';");
    site.script(
        "line.php",
        "<?php header('HTTP/1.1 418 Teapot'); header('X-A: b', false); header('X-A: c', false);",
    );
    site.script("move.php", "<?php header('Location: /there');");
    site.script("cookies.php", "<?php setcookie('a', '1'); setcookie('b', '2'); echo json_encode($_COOKIE);");
    site.script("headers.php", "<?php echo json_encode(getallheaders());");
    site.script("exit.php", "<?php echo 'before'; exit(3);");
    site.script(
        "callback.php",
        "<?php header_register_callback(function () { header('X-Late: yes'); }); echo 'x';",
    );
    assert_eq!(site.get("/?a=1").text(), "front, 1", "{}", site.server.error_log());
    assert_eq!(site.get("/path.php/more/x").text(), "/more/x /path.php /path.php/more/x");
    assert_eq!(site.get("/sapi.php").text(), "fpm-fcgi 99M false 7 yes user true");
    let status = site.get("/status.php");
    assert_eq!((status.status, status.header("X-A"), status.text().as_str()), (404, Some("b"), "sorry"));
    let line = site.get("/line.php");
    assert_eq!((line.status, line.all("X-A").collect::<Vec<_>>()), (418, vec!["b", "c"]));
    assert_eq!(
        (site.get("/move.php").status, site.get("/move.php").header("Location")),
        (302, Some("/there"))
    );
    let cookies =
        site.server.request("GET /cookies.php HTTP/1.1\r\nHost: a\r\nCookie: x=1\r\nCookie: y=2\r\n\r\n");
    assert_eq!((cookies.all("Set-Cookie").count(), cookies.text().as_str()), (2, r#"{"x":"1","y":"2"}"#));
    let headers =
        site.server.request("GET /headers.php HTTP/1.1\r\nHost: a\r\nX-Some-Thing: 5\r\n\r\n").text();
    assert!(headers.contains(r#""X-Some-Thing":"5""#), "{headers}");
    assert_eq!(site.get("/exit.php").text(), "before");
    assert_eq!(site.get("/callback.php").header("X-Late"), Some("yes"));
    let head = site.server.request("HEAD /index.php HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((head.status, head.text().as_str()), (200, ""));
}

#[test]
fn what_is_no_script_is_not_run() {
    let site = Site::new(SMALL, "");
    site.script("image.txt", "<?php echo 'run';");
    site.script("upload/picture.jpg", "<?php echo 'run';");
    assert_eq!(site.get("/missing.php").text(), "File not found.\n");
    site.server.wait_for_log("FastCGI sent in stderr: \"Primary script unknown\"");
    // A path behind a file that is no script (nginx's classic hole): PHP finds the file, and refuses it.
    let denied = site.get("/upload/picture.jpg/x.php");
    assert_eq!((denied.status, denied.text().as_str()), (403, "Access denied.\n"));
    site.server.wait_for_log("see security.limit_extensions");
    assert_eq!(site.get("/image.txt").text(), "<?php echo 'run';");
}

#[test]
fn bodies_reach_php() {
    let site = Site::new(SMALL, "client_body_buffer_size 16k;");
    site.script(
        "up.php",
        "<?php echo md5(file_get_contents('php://input')), ' ', $_SERVER['CONTENT_LENGTH'];",
    );
    site.script(
        "form.php",
        "<?php $f = $_FILES['f']; echo $f['name'], ' ', filesize($f['tmp_name']), ' ', $_POST['a'];",
    );
    site.script(
        "twice.php",
        "<?php echo strlen(file_get_contents('php://input')), strlen(file_get_contents('php://input'));",
    );
    site.script("ignored.php", "<?php echo 'not read';");
    let body: Vec<u8> = (0..1_500_000_u32).map(|n| (n * 7 % 251) as u8).collect();
    let sum = site.post("/up.php", &body).text();
    assert!(sum.ends_with(" 1500000"), "{sum}");
    let size = format!("{:x}\r\n", body.len());
    let chunked = "POST /up.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunked = [chunked.as_bytes(), size.as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
    assert_eq!(site.server.request(chunked).text(), sum);
    assert_eq!(site.post("/twice.php", b"a=12345").text(), "77");
    for _ in 0..3 {
        assert_eq!(site.post("/ignored.php", &body).text(), "not read");
    }
    let mut form = b"--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nvalue\r\n--x\r\n".to_vec();
    form.extend_from_slice(b"Content-Disposition: form-data; name=\"f\"; filename=\"p.bin\"\r\n\r\n");
    form.extend_from_slice(&body);
    form.extend_from_slice(b"\r\n--x--\r\n");
    let head = format!(
        "POST /form.php HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: {}\r\n\r\n",
        form.len()
    );
    assert_eq!(site.server.request([head.as_bytes(), &form].concat()).text(), "p.bin 1500000 value");
}

#[test]
fn what_is_flushed_leaves_and_a_finished_request_goes_on() {
    let site = Site::new(SMALL, "fastcgi_buffering off;");
    let notes = site.notes();
    let wait =
        format!("while (!file_exists('{}/go')) {{ usleep(1000); clearstatcache(); }}", notes.display());
    site.script("stream.php", &format!("<?php echo 'first '; ob_flush(); flush(); {wait} echo 'second';"));
    site.script(
        "finish.php",
        &format!("<?php echo strlen(file_get_contents('php://input')); fastcgi_finish_request(); {wait} touch('{}/done');", notes.display()),
    );
    let mut client = site.server.client();
    client.send("GET /stream.php HTTP/1.1\r\nHost: a\r\n\r\n");
    client.wait_for("first ");
    // The answer is complete while the script goes on, and its worker takes nothing else meanwhile.
    assert_eq!(site.post("/finish.php", b"a=1").text(), "3");
    assert!(!notes.join("done").exists());
    std::fs::write(notes.join("go"), "").unwrap();
    client.wait_for("second");
    brisk_testkit::wait::holds("the script's end", || notes.join("done").exists());
}

#[test]
fn errors_of_scripts_are_told_and_end_one_request() {
    let site = Site::new(
        "pm static; max_children 1; php_admin_flag[display_errors] off; php_admin_flag[log_errors] on;",
        "",
    );
    site.script("fatal.php", "<?php nothing_like_this();");
    site.script("log.php", "<?php error_log('one'); error_log('two'); echo 'ok';");
    site.script("memory.php", "<?php ini_set('memory_limit', '8M'); $a = str_repeat('x', 50 << 20);");
    site.script("loop.php", "<?php set_time_limit(1); for (;;) {}");
    site.script("ok.php", "<?php echo 'ok';");
    assert_eq!(site.get("/fatal.php").status, 500);
    site.server.wait_for_log("Call to undefined function nothing_like_this\\(\\)");
    assert_eq!(site.get("/log.php").text(), "ok");
    site.server.wait_for_log("PHP message: one; PHP message: two");
    assert_eq!(site.get("/memory.php").status, 500);
    site.server.wait_for_log("Allowed memory size");
    assert_eq!(site.get("/loop.php").status, 500);
    site.server.wait_for_log("Maximum execution time");
    assert_eq!(site.get("/ok.php").text(), "ok");
    assert_eq!(site.wait_for_workers(1).len(), 1);
}

#[test]
fn a_script_that_cannot_be_read_is_told() {
    let site = Site::new(SMALL, "");
    site.script("closed.php", "<?php echo 'run';");
    let path = site.server.dir().join("html/closed.php");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let answer = site.get("/closed.php");
    assert_eq!((answer.status, answer.text().as_str()), (403, "Access denied.\n"));
    site.server.wait_for_log("Unable to open primary script: .*/html/closed.php \\(Permission denied\\)");
}

/// What a script logs after its answer goes to the server's log by itself, and begins no line of another level there.
#[test]
fn a_message_with_several_lines_has_one_level() {
    let site = Site::new(SMALL, "");
    site.script(
        "late.php",
        "<?php echo 'x'; fastcgi_finish_request(); error_log(\"one\\n[warn] two\\n\"); error_log('three');",
    );
    assert_eq!(site.get("/late.php").text(), "x");
    site.server.wait_for_log("\\[error\\] .*PHP message: three");
    site.server.wait_for_log("\\[error\\] .*PHP message: \\[warn\\] two");
}

/// php-src's own function frees the value that it replaces.
#[test]
fn a_setting_of_a_request_may_be_replaced_by_its_script() {
    let text = conf(
        "pm static; max_children 1;",
        "fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; \
        fastcgi_param REQUEST_METHOD $request_method; fastcgi_param PHP_VALUE \"error_reporting=32767\";",
    );
    let site = Site::of(builder().http(&text));
    site.script(
        "level.php",
        "<?php echo error_reporting(), ' ', error_reporting(0), ' ', error_reporting(), ' ', getmypid();",
    );
    let first = site.get("/level.php").text();
    assert!(first.starts_with("32767 32767 0 "), "{first}");
    assert_eq!(site.get("/level.php").text(), first, "the same worker goes on");
}

#[test]
fn settings_of_one_request_are_gone_with_it() {
    let site = Site::new("pm static; max_children 1;", "");
    site.script(
        "ini.php",
        "<?php echo ini_get('memory_limit'), ' ', ini_get('user_agent'); ini_set('user_agent', 'left');",
    );
    let mut with = conf("pm static; max_children 1;", "");
    with = with.replace(
        "location / ",
        "location = /set.php { fastcgi_param SCRIPT_FILENAME $document_root/ini.php; fastcgi_param REQUEST_METHOD GET;
           fastcgi_param PHP_ADMIN_VALUE \"memory_limit=55M\nextension=evil.so\"; fastcgi_param PHP_VALUE \"user_agent=a b\"; php_pass www; }
         location / ",
    );
    let Site { mut server } = site;
    server.configure_http("", &with);
    server.reload();
    let site = Site { server };
    assert_eq!(site.get("/set.php").text(), "55M a b");
    site.server.wait_for_log("\"extension\" is refused");
    assert_eq!(site.get("/ini.php").text(), "128M ");
}

/// What comes with a request, from a location or a site's file, may narrow where its script reads, and never widen it.
/// PHP's own handlers are put in place again after a script has changed them, not before each request.
#[test]
fn signals_that_a_script_has_ignored_are_heard_by_the_next_one() {
    // Debian's PHP-FPM has no pcntl.
    let builder = builder().env("BRISK_PHP", "libphp");
    let site = Site::of(builder.http(&conf("pm static; max_children 1;", "")));
    site.script(
        "ignored.php",
        "<?php if (isset($_GET['ignore'])) pcntl_signal(SIGUSR2, SIG_IGN);
         preg_match('/^SigIgn:\\s*(\\w+)/m', file_get_contents('/proc/self/status'), $found);
         echo hexdec($found[1]) >> (SIGUSR2 - 1) & 1;",
    );
    let targets =
        ["/ignored.php", "/ignored.php?ignore", "/ignored.php", "/ignored.php?ignore", "/ignored.php"];
    assert_eq!(targets.map(|target| site.get(target).text()), ["0", "1", "0", "1", "0"]);
}

#[test]
fn a_request_may_only_narrow_open_basedir() {
    let base = builder();
    let root = base.dir().display().to_string();
    let one = |name: &str, params: &str| {
        format!(
            "location = /{name}.php {{ fastcgi_param SCRIPT_FILENAME $document_root/look.php; fastcgi_param REQUEST_METHOD GET;
               fastcgi_param DOCUMENT_ROOT $document_root; {params} php_pass www; }} "
        )
    };
    let extra = [
        one("plain", ""),
        one("wide", "fastcgi_param PHP_VALUE \"open_basedir=/\";"),
        one("none", "fastcgi_param PHP_VALUE \"open_basedir=\";"),
        one("two", &format!("fastcgi_param PHP_VALUE \"open_basedir={root}/html:/etc\";")),
        one("narrow", &format!("fastcgi_param PHP_VALUE \"open_basedir={root}/html/\";")),
        one("admin", "fastcgi_param PHP_ADMIN_VALUE \"open_basedir=/\";"),
    ]
    .concat();
    let pool = format!("pm static; max_children 1; php_value[open_basedir] {root}/;");
    let site =
        Site::of(base.http(&conf(&pool, "").replacen("location / ", &format!("{extra} location / "), 1)));
    site.notes();
    std::fs::write(site.notes().join("note"), "").unwrap();
    let look = format!(
        "<?php echo json_encode([@is_readable('/etc/passwd'), @is_readable('{root}/notes/note')]), ini_get('user_agent');"
    );
    site.script("look.php", &look);
    let look = |name: &str| site.get(&format!("/{name}.php")).text();
    assert_eq!(look("plain"), "[false,true]");
    for name in ["wide", "none", "two"] {
        assert_eq!(look(name), "[false,true]", "{name}");
    }
    site.server.wait_for_log("\"open_basedir\" cannot be set");
    assert_eq!(look("narrow"), "[false,false]");
    assert_eq!(look("plain"), "[false,true]", "it was one request's");
    assert_eq!(look("admin"), "[true,true]");
    // A site's own file.
    site.script(".user.ini", "user_agent=site\nopen_basedir=/\n");
    brisk_testkit::wait::holds("the site's file", || look("plain") == "[false,true]site");
    site.script(".user.ini", &format!("open_basedir={root}/html/\n"));
    brisk_testkit::wait::holds("the site's changed file", || look("plain") == "[false,false]");
}

/// The kernel tells of changes: nothing waits for user_ini.cache_ttl, which is five minutes.
#[test]
fn files_of_a_sites_settings_are_watched() {
    let params = "fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_param REQUEST_METHOD $request_method;
        fastcgi_param DOCUMENT_ROOT $document_root;";
    let site = Site::new("pm static; max_children 2;", params);
    site.script("sub/look.php", "<?php echo ini_get('user_agent'), ini_get('precision');");
    let becomes = |what: &str, want: &str| {
        // All workers.
        brisk_testkit::wait::holds(what, || (0..6).all(|_| site.get("/sub/look.php").text() == want));
    };
    becomes("no file", "14");
    site.script(".user.ini", "user_agent=root\n");
    becomes("a file above", "root14");
    site.script("sub/.user.ini", "precision=9\n");
    becomes("a file in the script's folder", "root9");
    // In place.
    std::fs::write(site.server.dir().join("html/sub/.user.ini"), "precision=8\n").unwrap();
    becomes("a changed file", "root8");
    std::fs::remove_file(site.server.dir().join("html/.user.ini")).unwrap();
    becomes("a file that is gone", "8");
}

const TARGETS: &[&str] = &[
    "/",
    "/?a=1&b[]=2&b[]=3",
    "/a.php",
    "/a.php?x",
    "/a.php/more",
    "/a.php/more/%41?y=1",
    "/a.php/",
    "/a.php//x",
    "/nothing/here",
    "/sub%20dir/b.php",
    "/sub%20dir/b.php/p%2fq",
    "/a.php?a=%26",
    "//a.php",
    "/./a.php",
    "/sub%20dir/../a.php",
    "/a.php/x/../y",
    "/split/a.php/info",
    "/split/a.php",
    "/split/sub%20dir/b.php/i/n",
    "/a.php/b.php",
    "/a%2ephp",
    "/a.php?%00",
    "/missing.php",
    "/a.php/%0a",
    "/A.PHP",
    "/a.php;x",
    "/a.php?=1&a.b=2&c d=3",
];

const HEADS: &[&str] = &[
    "",
    "X-A: 1\r\nX-a: 2\r\n",
    "Cookie: a=1; b=%20\r\n",
    "Authorization: Basic dTpw\r\n",
    "Proxy: http://evil\r\n",
    "X_Under: 1\r\nX.Dot: 2\r\n",
    "Accept: */*\r\nUser-Agent: t\r\nReferer: /\r\n",
    "Authorization: Bearer x\r\n",
];

/// The variables of a request and what phpinfo() shows of them, beside those that FPM gives.
#[test]
fn variables_are_those_of_fpm() {
    let fpm = PhpFpm::unix(1);
    crate::site::build();
    let dump = "<?php $all = $_SERVER; foreach (['REQUEST_TIME', 'REQUEST_TIME_FLOAT', 'REMOTE_PORT', 'SERVER_PORT', 'USER', 'HOME'] as $name) unset($all[$name]); echo json_encode([$all, getallheaders(), $_GET, $_POST, $_COOKIE]);
        ob_start(); phpinfo(INFO_ENVIRONMENT | INFO_VARIABLES); $page = ob_get_clean();
        echo preg_replace('/<tr><td class=\"e\">(\\$_(SERVER|ENV)\\[.)?(REQUEST_TIME|REQUEST_TIME_FLOAT|REMOTE_PORT|SERVER_PORT|USER|HOME)\\b.*<\\/tr>\\n/', '', $page);";
    fpm.script("index.php", dump);
    fpm.script("a.php", dump);
    std::fs::create_dir_all(fpm.dir().join("sub dir")).unwrap();
    fpm.script("sub dir/b.php", dump);
    let side = |pass: &str, port: &str| {
        format!(
            "server {{ listen 127.0.0.1:{{{{{port}}}}}; server_name one; root {}; index index.php;
               location / {{ try_files $uri $uri/ /index.php?$args; }}
               location ~ \\.php {{ {} {pass} }}
               location ~ ^/split/ {{ fastcgi_split_path_info ^/split(/.+?\\.php)(/.*)$; {} fastcgi_param PATH_INFO $fastcgi_path_info; {pass} }} }}",
            fpm.dir().display(),
            include_str!("../../../../packaging/fastcgi.conf"),
            include_str!("../../../../packaging/fastcgi.conf"),
        )
    };
    let http = format!(
        "php_pool www {{ pm static; max_children 1; php_ini {{{{DIR}}}}/php.ini; }} {} {}",
        side("php_pass www;", "PORT"),
        side(&format!("fastcgi_pass {};", fpm.address()), "PORT2")
    );
    // Without any php.ini, as the FPM of tests.
    let server = builder().file("php.ini", "").http(&http).start();
    let mut shapes: Vec<String> =
        TARGETS.iter().map(|target| format!("GET {target} HTTP/1.1\r\nHost: one\r\n\r\n")).collect();
    shapes.extend(HEADS.iter().map(|head| format!("GET /a.php?z HTTP/1.1\r\nHost: one:99\r\n{head}\r\n")));
    shapes.extend(["POST", "PUT", "DELETE", "PATCH", "OPTIONS"].iter().map(|method| {
        format!("{method} /a.php HTTP/1.1\r\nHost: one\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 7\r\n\r\na=1&b=2")
    }));
    assert!(shapes.len() >= 40, "{}", shapes.len());
    for shape in &shapes {
        let ask = |port| brisk_testkit::Client::connect(port).request(shape);
        let (ours, theirs) = (ask(server.port()), ask(server.port_of(2)));
        assert_eq!((ours.status, ours.text()), (theirs.status, theirs.text()), "{shape}");
    }
}
