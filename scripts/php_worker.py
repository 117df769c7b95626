#!/usr/bin/env python3
"""FrankenPHP's own test scripts in Brisk's pools: php_worker.py BRISK TESTDATA [FILTER]

TESTDATA is the folder testdata of a checkout of github.com/php/frankenphp. Each script answers 100 requests, ten at once, in a pool whose `worker` it
is and, where FrankenPHP's tests ask for that, too, in one without: what each answer must be is what frankenphp_test.go and worker_test.go say. What
needs Go's interface or Mercure is left out. Prints a table; ends with 1 if something fails. Needs root: pools do not run as root, but as nobody.
"""
import concurrent.futures
import http.client
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

PORT = 18085
REQUESTS = 100


class Answer:
    def __init__(self, status, headers, body, interim=()):
        self.status, self.headers, self.body, self.interim = status, headers, body, interim


def raw(host, request):
    """One request over a connection of its own, with interim answers."""
    with socket.create_connection(("127.0.0.1", PORT), timeout=60) as connection:
        connection.sendall(request)
        file = connection.makefile("rb")
        interim = []
        while True:
            status = int(file.readline().split()[1])
            headers = http.client.parse_headers(file)
            if status >= 200:
                break
            interim.append((status, headers))
        rest = file.read()
        if headers.get("Transfer-Encoding") == "chunked":
            rest = joined(rest)
        return Answer(status, headers, rest.decode("utf-8", "replace"), interim)


def joined(chunks):
    whole = b""
    while True:
        size, chunks = chunks.split(b"\r\n", 1)
        if int(size, 16) == 0:
            return whole
        whole, chunks = whole + chunks[:int(size, 16)], chunks[int(size, 16) + 2:]


def ask(host, target, method="GET", body=b"", headers=()):
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close", *(f"{name}: {value}" for name, value in headers)]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return raw(host, "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)


def form(**fields):
    return {"method": "POST", "body": urllib.parse.urlencode(fields).encode(), "headers": [("Content-Type", "application/x-www-form-urlencoded")]}


def has(answer, *texts):
    for text in texts:
        assert text in answer.body, f"{text!r} is not in {answer.body[:400]!r}"


def same(have, want):
    assert have == want, f"{have!r} is not {want!r}"


# Each: what a request with the number i is to be answered. `get` asks this script's pool.

def hello(get, i):
    same(get(f"/index.php?i={i}").body, f"I am by birth a Genevese ({i})")


def finish(get, i):
    same(get(f"/finish-request.php?i={i}").body, f"This is output {i}\n")


def logs_after_finish(log, i):
    assert f"reached after finish_request {i}" in log


def server_variable(get, i):
    answer = get(f"/server-variable.php/baz/bat?foo=a&bar=b&i={i}", method="POST", body=b"foo",
                 headers=[("Authorization", "Basic a2V2aW46cGFzc3dvcmQ="), ("Content-Type", "text/plain")])
    has(answer, "[PHP_AUTH_USER] => kevin", "[PHP_AUTH_PW] => password", "[DOCUMENT_ROOT]", "[PHP_SELF] => /server-variable.php/baz/bat",
        "[CONTENT_TYPE] => text/plain", f"[QUERY_STRING] => foo=a&bar=b&i={i}\n", f"[REQUEST_URI] => /server-variable.php/baz/bat?foo=a&bar=b&i={i}",
        "[CONTENT_LENGTH] => 3", "[REMOTE_ADDR]", "[REMOTE_PORT]", "[REQUEST_SCHEME] => http", "[DOCUMENT_URI]", "[REQUEST_METHOD] => POST",
        "[SCRIPT_FILENAME]", "[REQUEST_TIME_FLOAT]", "[REQUEST_TIME]", "[SERVER_PORT]", "[SERVER_PROTOCOL] => HTTP/1.1", "[GATEWAY_INTERFACE] => CGI/1.1")


def path_info(get, i):
    has(get(f"/server-variable.php/pathinfo?{i}"), "[PATH_INFO] => /pathinfo", "[SCRIPT_NAME] => /server-variable.php\n")


def headers(get, i):
    answer = get(f"/headers.php?i={i}")
    # Its header "Invalid" has no colon: FrankenPHP drops it, and here it comes without a value, as from PHP-FPM behind nginx.
    same((answer.body, answer.status, answer.headers.get("Foo"), answer.headers.get("Foo2"), answer.headers.get("Foo3"), answer.headers.get("I")),
         ("Hello", 201, "bar", "bar2", "bar3", str(i)))


def response_headers(get, i):
    i = 3 * i if i < 100 else i
    answer = get(f"/response-headers.php?i={i}")
    same(answer.status, 200)
    has(answer, "'X-Powered-By' => 'PH", "'Foo' => 'bar',", "'Foo2' => 'bar2',", f"'I' => '{i}',")
    assert "Invalid" not in answer.body


def body_input(get, i):
    answer = get("/input.php", method="POST", body=f"post data {i}".encode())
    same((answer.body, answer.headers.get("Foo")), (f"post data {i}", "bar"))


def post_globals(get, i):
    has(get(f"/super-globals.php?foo=bar&iG={i}", **form(baz="bat", i=i)), "'foo' => 'bar'", f"'i' => '{i}'", "'baz' => 'bat'", f"'iG' => '{i}'")


def request_global(get, i):
    has(get(f"/request-superglobal.php?get_key=get_value_{i}", **form(post_key=f"post_value_{i}")), f"'get_key' => 'get_value_{i}'",
        f"'post_key' => 'post_value_{i}'")


def request_global_conditional(get, i):
    if i % 2 == 0:
        has(get(f"/request-superglobal-conditional.php?val={i}"), "SKIPPED", f"'val' => '{i}'")
    else:
        has(get(f"/request-superglobal-conditional.php?use_request=1&val={i}"), "REQUEST:", "REQUEST_COUNT:2", f"'val' => '{i}'", "'use_request' => '1'",
            "VAL_CHECK:MATCH")


def cookies(get, i):
    has(get("/cookies.php", headers=[("Cookie", f"foo=bar; i={i}")]), "'foo' => 'bar'", f"'i' => '{i}'")


def session(get, i):
    first = get("/session.php")
    same(first.body, "Count: 0\n")
    same(get("/session.php", headers=[("Cookie", first.headers["Set-Cookie"].split(";")[0])]).body, "Count: 1\n")


def session_leak(get, i):
    has(get("/session-leak.php?action=set&value=secret_A&client_id=clientA"), "SESSION_SET", "secret=secret_A")
    has(get("/session-leak.php?action=check_empty"), "SESSION_EMPTY=true")
    has(get("/session-leak.php?action=get"), "secret=NOT_FOUND", "client_id=NOT_FOUND")
    has(get("/session-leak.php?action=set_and_exit&value=exit_secret&client_id=exitClient"), "BEFORE_EXIT")
    has(get("/session-leak.php?action=check_empty"), "SESSION_EMPTY=true")
    has(get("/session-leak.php?action=get"), "secret=NOT_FOUND")


def session_handler(get, i):
    has(get("/session-handler.php?action=set_handler_and_start&value=test1"), "HANDLER_SET_AND_STARTED", "session.save_handler=user")
    answer = get("/session-handler.php?action=start_without_handler")
    has(answer, "SESSION_START_RESULT=true")
    assert "ERROR:" not in answer.body and "EXCEPTION:" not in answer.body, answer.body


def session_handler_before(get, i):
    has(get("/worker-with-session-handler.php?action=check"), "HANDLER_PRESERVED", "save_handler=user")
    answer = get("/worker-with-session-handler.php?action=use_session")
    has(answer, "SESSION_OK")
    assert "ERROR:" not in answer.body and "EXCEPTION:" not in answer.body, answer.body
    has(get("/worker-with-session-handler.php?action=check"), "HANDLER_PRESERVED")


def phpinfo(get, i):
    has(get(f"/phpinfo.php?i={i}"), f"i={i}")


def persistent_object(get, i):
    same(get(f"/persistent-object.php?i={i}").body, f"request: {i}\nclass exists: 1\nid: obj1\nobject id: 1")


def autoloader(get, i):
    same(get(f"/autoloader.php?i={i}").body, f"request {i}\nmy_autoloader")


def error_log(get, i):
    get(f"/log-error_log.php?i={i}")


def logs_request(log, i):
    assert f"request {i}" in log


def frankenphp_log(get, i):
    get(f"/log-frankenphp_log.php?i={i}")


def logs_levels(log, i):
    for text in (f'debug: some debug message {i} {{"key int":1}}', f'info: some info message {i} {{"key string":"string"}}',
                 f"warn: some warn message {i}", f'error: some error message {i} {{"err":["a","v"]}}'):
        assert text in log, text


def exception(get, i):
    has(get(f"/exception.php?i={i}"), "hello", f"Uncaught Exception: request {i}")


def early_hints(get, i):
    answer = get(f"/early-hints.php?i={i}")
    same([(status, head["Link"], head["Request"]) for status, head in answer.interim], [(103, "</style.css>; rel=preload; as=style", str(i))])
    same((answer.headers.get("Request"), answer.headers.get("Link")), (str(i), None))


def flush(get, i):
    same(get(f"/flush.php?i={i}").body, f"Hello {i}")


def large_request(get, i):
    has(get(f"/large-request.php?i={i}", method="POST", body=b"f" * 6_048_576), f"Request body size: 6048576 ({i})")


def large_response(get, i):
    same(get("/large-response.php").body, "Hey\n" * 1024)


def fiber(name):
    return lambda get, i: same(get(f"/{name}?i={i}").body, f"Fiber {i}")


def request_headers(get, i):
    has(get(f"/request-headers.php?i={i}", headers=[("Content-Type", "text/plain"), ("Frankenphp-I", str(i))]), "[Content-Type] => text/plain",
        f"[Frankenphp-I] => {i}")


def environment(get, i):
    answer = get(f"/env/test-env.php?var={i}")
    want = (f"Set MY_VAR successfully.\nMY_VAR = HelloWorld\nMY_VAR not found in $_ENV.\nMY_VAR not found in $_SERVER.\nUnset MY_VAR successfully.\n"
            "MY_VAR is unset.\nMY_VAR set to empty successfully.\nMY_VAR = \nUnset NON_EXISTING_VAR successfully.\n")
    assert answer.body.startswith(want), answer.body


def environment_kept(get, i):
    same(get(f"/env/remember-env.php?index={i}").body, "success")
    same(get("/env/remember-env.php").body, "success")


def environment_reset(get, i):
    same(get(f"/env/putenv.php?key=test&put={i}").body, f"test={i}")
    same(get("/env/putenv.php?key=test").body, "test=")


def environment_overwritten(get, i):
    same(get("/env/overwrite-env.php").body, "custom_value")


def upload(get, i):
    body = b'--x\r\nContent-Disposition: form-data; name="file"; filename="foo.txt"\r\n\r\nbar\r\n--x--\r\n'
    has(get("/file-upload.php", method="POST", body=body, headers=[("Content-Type", "multipart/form-data; boundary=x")]), "Upload OK")


def only_headers(get, i):
    same(get("/only-headers.php").status, 204)


def file_stream(get, i):
    for word in ("word1", "word2", "word3"):
        same(get("/file-stream.php").body, word)


def counter(get, i):
    has(get("/worker.php?foo=bar", **form(baz="bat")), f"Requests handled: {2 * i}", "'foo' => 'bar'", "'baz' => 'bat'", "CUSTOM_OS_ENV_VARIABLE")
    second = get("/worker.php?foo2=bar2", **form(baz2="bat2"))
    has(second, f"Requests handled: {2 * i + 1}", "'foo2' => 'bar2'")
    assert "'foo' =>" not in second.body and "'baz' =>" not in second.body, second.body


def die(get, i):
    same(get("/die.php").body, "Hello, world")


def dd(get, i):
    answer = get(f"/dd.php?output=output{i}")
    same((answer.body, answer.status), (f"output{i}", 500))


def environment_of_worker(get, i):
    # FrankenPHP keeps the worker's environment from requests. Here it is the pool's (`env[FOO]`), and in both, as FPM's is.
    same(get(f"/worker-env.php?i={i}").body, f"barbar{i}")


def getopt(get, i):
    has(get(f"/worker-getopt.php?i={i}", headers=[("Request", str(i))]), f"[HTTP_REQUEST] => {i}", f"[REQUEST_URI] => /worker-getopt.php?i={i}")


def no_exit(log, i):
    assert "exited with code" not in log


def crashing(get, i):
    same(get("/crashing-worker.php").status, 200)


def counts(get, i):
    if i == 0:
        same(get("/worker-with-counter.php").body, "requests:1")
        same(get("/worker-with-counter.php").body, "requests:2")


def persistent_counter(get, i):
    instance, count = re.fullmatch(r"instance:(\w+),count:(\d+)", get("/worker-counter-persistent.php").body).groups()
    assert int(count) <= 10, count


def restart(get, i):
    same(get(f"/worker-restart.php?i={i}").body, f"Counter ({i})")


def timeout(get, i):
    if i < 4:
        answer = get(f"/timeout.php?i={i}")
        has(answer, f"request: {i}\n", "Maximum execution time")


def opcache_reset(get, i):
    same(get("/opcache_reset.php").body, "opcache reset done")


def server_globals(get, i):
    has(get("/server-globals.php/en"), "SCRIPT_NAME: /server-globals.php\n", "PHP_SELF: /server-globals.php/en\n", "PATH_INFO: /en\n",
        "REQUEST_URI: /server-globals.php/en\n")


def status_line(get, i):
    same((get("/custom-status-line.php").status, get("/short-status-line.php").status), (418, 200))


def not_in_worker_mode(get, i):
    has(get("/non-worker.php"), "Uncaught RuntimeException: frankenphp_handle_request()")


def invalid_length(get, i):
    same(get("/headers.php", headers=[("Content-Length", "-1")]).status, 400)
    same(get("/headers.php", headers=[("Content-Length", "something")]).status, 400)


def session_deadlock(get, i):
    # A request that waits for the session's lock runs out of time; that must not keep the lock from the others.
    if i < 6:
        same(get("/session_deadlock.php").status in (200, 500), True)
    if i == 6:
        time.sleep(8)
        has(get("/session_deadlock.php"), "Done.\nok!")


def test(script, check, log=None, module=True, worker=True, one=False, pool=""):
    return {"script": script, "check": check, "log": log, "module": module, "worker": worker, "one": one, "pool": pool}


EGPCS = "php_admin_value[variables_order] EGPCS;"
TESTS = [
    test("index.php", hello), test("finish-request.php", finish, logs_after_finish), test("server-variable.php", server_variable),
    test("server-variable.php", path_info), test("headers.php", headers), test("response-headers.php", response_headers, pool="php_admin_flag[expose_php] on;"), test("input.php", body_input),
    test("super-globals.php", post_globals), test("request-superglobal.php", request_global, pool="php_admin_value[auto_globals_jit] 1;"),
    test("request-superglobal-conditional.php", request_global_conditional, pool="php_admin_value[auto_globals_jit] 1;"), test("cookies.php", cookies),
    test("session.php", session), test("session-leak.php", session_leak, one=True, module=False), test("session-handler.php", session_handler, one=True, module=False),
    test("worker-with-session-handler.php", session_handler_before, one=True, module=False), test("phpinfo.php", phpinfo),
    test("persistent-object.php", persistent_object), test("autoloader.php", autoloader), test("log-error_log.php", error_log, logs_request),
    test("log-frankenphp_log.php", frankenphp_log, logs_levels), test("exception.php", exception, pool="php_admin_flag[display_errors] on;"),
    test("early-hints.php", early_hints), test("flush.php", flush), test("large-request.php", large_request), test("large-response.php", large_response),
    test("fiber-no-cgo.php", fiber("fiber-no-cgo.php")), test("fiber-basic.php", fiber("fiber-basic.php")), test("request-headers.php", request_headers),
    test("env/test-env.php", environment, one=True, pool=EGPCS), test("env/putenv.php", environment_reset, one=True, worker=False),
    test("env/remember-env.php", environment_kept, one=True, module=False), test("env/overwrite-env.php", environment_overwritten, module=False, pool=EGPCS),
    test("file-upload.php", upload), test("only-headers.php", only_headers), test("file-stream.php", file_stream, one="once", module=False),
    test("worker.php", counter, one=True, module=False, pool="env[CUSTOM_OS_ENV_VARIABLE] custom;"), test("die.php", die, one=True, module=False),
    test("dd.php", dd, module=False), test("worker-env.php", environment_of_worker, one=True, module=False, pool="env[FOO] bar;"),
    test("worker-getopt.php", getopt, no_exit, module=False), test("crashing-worker.php", crashing, one=True, module=False),
    test("worker-with-counter.php", counts, one=True, module=False), test("worker-counter-persistent.php", persistent_counter, module=False, pool="max_requests 10;"),
    test("worker-restart.php", restart, module=False), test("timeout.php", timeout, pool="php_admin_flag[display_errors] on;"),
    test("opcache_reset.php", opcache_reset), test("server-globals.php", server_globals), test("hello.php", status_line, worker=False),
    test("non-worker.php", not_in_worker_mode, worker=False, pool="php_admin_flag[display_errors] on;"), test("headers.php", invalid_length),
    test("session_deadlock.php", session_deadlock),
]


def start(brisk, folder, runs):
    conf = []
    for at, run in enumerate(runs):
        count = 1 if run["one"] else 4
        worker = f"worker {folder}/testdata/{run['script']};" if run["mode"] == "worker" else ""
        conf.append(f"""php_pool p{at} {{ pm ondemand; max_children {count}; queue 1000 timeout=60s; {worker} {run['pool']}
            php_value[session.save_path] {folder}/sessions; }}
        server {{ listen 127.0.0.1:{PORT}; server_name p{at}.test; root {folder}/testdata; early_hints 1; client_max_body_size 20m;
            error_log {folder}/p{at}.log;
            location / {{ fastcgi_split_path_info ^(.+?\\.php)(/.*)$; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
                fastcgi_param PATH_INFO $fastcgi_path_info; include {folder}/fastcgi_params; php_pass p{at}; }} }}""")
    here = os.path.dirname(os.path.abspath(__file__))
    params = open(f"{here}/../packaging/fastcgi.conf").read()
    with open(f"{folder}/fastcgi_params", "w") as file:
        file.write("".join(line for line in params.splitlines(True) if "SCRIPT_FILENAME" not in line))
    with open(f"{folder}/brisk.conf", "w") as file:
        file.write(f"daemon off; user nobody nogroup; worker_processes 2; pid {folder}/brisk.pid; error_log {folder}/error.log;\n"
                   f"events {{ worker_connections 2048; }}\nhttp {{ access_log off; {' '.join(conf)} }}\n")
    return subprocess.Popen([brisk, "-p", folder, "-c", f"{folder}/brisk.conf"])


def carry_out(folder, at, run):
    get = lambda target, **rest: ask(f"p{at}.test", target, **rest)
    log = f"{folder}/p{at}.log"
    try:
        if run["one"]:
            for i in range(1 if run["one"] == "once" else 10):
                run["check"](get, i)
        else:
            with concurrent.futures.ThreadPoolExecutor(10) as threads:
                list(threads.map(lambda i: run["check"](get, i), range(REQUESTS)))
        if run["log"]:
            until = time.monotonic() + 5
            while True:
                try:
                    text = open(log).read() + open(f"{folder}/error.log").read()
                    for i in range(REQUESTS):
                        run["log"](text, i)
                    break
                except AssertionError:
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.1)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def main(brisk, testdata, only=""):
    folder = tempfile.mkdtemp(prefix="php-worker-")
    os.chmod(folder, 0o755)
    shutil.copytree(testdata, f"{folder}/testdata", symlinks=True)
    subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
    os.mkdir(f"{folder}/sessions")
    os.chmod(f"{folder}/sessions", 0o1777)
    runs = [{**one, "mode": mode} for one in TESTS if only in one["script"] for mode in ("module", "worker") if one[mode]]
    server = start(os.path.realpath(brisk), folder, runs)
    failed = 0
    try:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", PORT), timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        print("| script | what | mode | result |\n|---|---|---|---|")
        for at, run in enumerate(runs):
            why = carry_out(folder, at, run)
            failed += bool(why)
            print(f"| {run['script']} | {run['check'].__name__.strip('<>')} | {run['mode']} | {'FAILED: ' + why[:300] if why else 'ok'} |", flush=True)
        print(f"\n{len(runs) - failed} of {len(runs)}")
    finally:
        server.terminate()
        server.wait()
    if not failed:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"logs: {folder}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
