#!/usr/bin/env python3
"""Writes the sections of docs/conformance.md from results.

  conformance.py nginx-tests RESULTS.tsv LOGS BASELINE.tsv    what run.sh of the runner wrote, mainline's own results
  conformance.py apache-tests RESULTS.tsv                     what apache_tests.py wrote
  conformance.py cache-tests RESULTS.tsv                      what cache-tests.mjs wrote
  conformance.py php RESULTS.tsv                              what php_tests.py wrote
  conformance.py php-fpm RESULTS.tsv                          what "php_tests.py fpm" wrote
  conformance.py limbo RESULTS.tsv                            what the program limbo of the test kit wrote
  conformance.py corpus BRISK FOLDER                          tests FOLDER/*/nginx.conf with nginx and Brisk

Ends with 1 if something fails that no list explains.
"""
import csv
import fnmatch
import glob
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs")
PAGE = os.path.join(DOCS, "conformance.md")
EXCEPTIONS_MAX = 18
CONFIGURATIONS_MIN = 40
# Of the cache tests' 160 required and 105 optimal ones.
CACHE_TESTS_MIN = {"required": 155, "optimal": 90}
# Directives that nginx had once; configurations of that time still have them.
REMOVED = ("ssl", "http2_max_field_size", "spdy_headers_comp", "limit_zone")
HEAD = """# Conformance

Written by `make conformance` and `make corpus`; do not edit. Neither the suite nor the configurations are part of this
repository: see [scripts/conformance.sh](../scripts/conformance.sh) and [scripts/corpus.sh](../scripts/corpus.sh) for what
to put where.
"""


def table(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def lists():
    exceptions = {row["file"]: row["reason"] for row in table(f"{DOCS}/conformance-exceptions.tsv")}
    waiting = {row["module"]: row["comes with"] for row in table(f"{DOCS}/conformance-waiting.tsv")}
    if len(exceptions) > EXCEPTIONS_MAX:
        sys.exit(f"{len(exceptions)} exceptions; at most {EXCEPTIONS_MAX} are allowed")
    return exceptions, waiting


def refused_directives():
    """Directives and variables of nginx that are not here, and their modules by short name."""
    modules = defaultdict(list)
    for row in table(f"{DOCS}/nginx-coverage.tsv"):
        if row["in Brisk"] == "refused":
            modules[row["directive or variable"]].append(short(row["nginx module"]))
    # Names that HTTP has too are meant there.
    http = {name: [m for m in found if not m.startswith(("stream", "mail"))] or found for name, found in modules.items()}
    return http


def short(module):
    """ngx_http_limit_req_module -> limit_req"""
    return re.sub(r"^ngx_(http_)?|(_filter)?_module$", "", module)


def replace_section(name, text):
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    page = open(PAGE).read() if os.path.exists(PAGE) else HEAD
    section = begin + text.strip("\n") + "\n" + end
    if begin in page:
        before, rest = page.split(begin)
        page = before + section + rest.split(end)[1]
    else:
        page = page + "\n" + section
    with open(PAGE, "w") as file:
        file.write(page)


def why_waiting(result, log, waiting, refused):
    """The module of a later release that the file needs, by its own words: a skip, or what the server refused."""
    found = re.match(r"no (\w+) available", result["reason"])
    if found:
        return found[1] if found[1] in waiting else None
    for directive in re.findall(r'unknown directive "([^"]+)"', result["reason"] + log):
        for module in refused.get(directive, []):
            if module in waiting:
                return module
    return None


def cache_tests(results):
    rows = [line.rstrip("\n").split("\t") for line in open(results)]
    passed = Counter(kind for kind, verdict, *_ in rows if verdict in ("pass", "yes"))
    total = Counter(kind for kind, *_ in rows)
    text = f"""## The HTTP cache tests

github.com/http-tests/cache-tests through `proxy_cache_mode rfc9111` ([cache-tests.conf](../scripts/cache-tests.conf)):
{passed['required']} of {total['required']} required and {passed['optimal']} of {total['optimal']} optimal tests pass; {passed['check']} of {total['check']} questions
of behaviour are answered with yes. What does not pass:

| kind | test | result | |
|---|---|---|---|
"""
    for kind, verdict, test, note in rows:
        if kind != "check" and verdict != "pass":
            text += f"| {kind} | {test} | {verdict.replace('_', ' ')} | {note.replace('|', '/')} |\n"
    replace_section("cache-tests", text)
    few = CACHE_TESTS_MIN.items()
    return [f"cache-tests: {passed[kind]} {kind}, at least {least}" for kind, least in few if passed[kind] < least]


# Of PHP's tests that php-cgi does not skip: so many of a hundred have the same result in a pool.
PHP_TESTS_MIN = 99
# Why a pool cannot have the same result.
PHP_TESTS = {
    "tests/basic/021.phpt": "`upload_tmp_dir=.`: a worker that is there before its request has no folder of its caller's",
}


def php(results):
    rows = [row for row in table(results) if row["reference"] not in ("SKIPPED", "BORKED", "")]
    other = [row for row in rows if row["reference"] != row["pool"]]
    share = 100 * (len(rows) - len(other)) / max(1, len(rows))
    passed = sum(row["pool"] == "PASSED" for row in rows)
    text = f"""## PHP's own tests

Those of `tests/basic`, `ext/session`, `ext/standard/tests/general_functions` and `sapi/cgi` that need php-cgi, of Debian's source package, by
`run-tests.php` with a bridge to a running pool in its place ([php_tests.py](../scripts/php_tests.py)): {len(rows) - len(other)} of {len(rows)} have the result that
php-cgi has ({share:.1f} %), {passed} pass.

| test | php-cgi | pool | |
|---|---|---|---|
"""
    for row in other:
        text += f"| {row['test']} | {row['reference']} | {row['pool']} | {PHP_TESTS.get(row['test'], '')} |\n"
    replace_section("php", text)
    return [f"php: {share:.1f} % have the same result, at least {PHP_TESTS_MIN} %"] if share < PHP_TESTS_MIN else []


# Of PHP-FPM's own tests: why those whose names have these parts do not pass in a pool, the first that fits.
PHP_FPM_TESTS = [
    ("status-listen", "`pm.status_listen`: `brisk php status` answers while all workers are busy"),
    ("status-ping", "`pm.status_listen`: `brisk php status` answers while all workers are busy"),
    ("status-basic", "the help texts of OpenMetrics are others"),
    ("high-nprocs", "12,800 workers: a pool has 4,096 at most"),
    ("socket-reduced-inherit", "not run: 129 pools, each with a master of its own"),
    ("log-bm-", "`error_log()` is logged once, by the request's connection; FPM writes it to its own log, too, if workers' output is caught"),
    ("bug72185", "`error_log()` is logged once, by the request's connection; FPM writes it to its own log, too, if workers' output is caught"),
    ("split-fallback", "a byte 0 is shown as an escape in the server's error log"),
    ("invalid-allowed-clients", "workers do not see addresses: a pool's socket is the server's alone"),
    ("ipv6-access-log", "`%R` is the client's address; FPM's is that of the web server"),
    ("apparmor", "`apparmor_hat` is refused"),
]


# What must pass of those that Debian's php-fpm passes, in percent.
PHP_FPM_TESTS_MIN = 70


def php_fpm(results):
    rows = [row for row in table(results) if row["reference"] == "PASSED"]
    other = [row for row in rows if row["pool"] != "PASSED"]
    share = 100 * (len(rows) - len(other)) / max(1, len(rows))
    environment = [row for row in rows if "/fcgi-env-" in row["test"]]
    good = sum(row["pool"] == "PASSED" for row in environment)
    text = f"""## PHP-FPM's own tests

Of `sapi/fpm/tests` those that Debian's php-fpm passes, with a pool in its place ([php_fpm.py](../scripts/php_fpm.py)): {len(rows) - len(other)} of {len(rows)}
pass ({share:.1f} %), among them {good} of {len(environment)} of what requests tell scripts (`fcgi-env-*`). What belongs to the program php-fpm and not to a pool is
the script's: options, global settings, addresses that are listened on, and the words of messages. What they tell of is Brisk's: processes, users,
settings and their mistakes, logs, what workers print, reloads and ends.

| test | |
|---|---|
"""
    for row in other:
        name = os.path.basename(row["test"])
        text += f"| {name} | {next((why for part, why in PHP_FPM_TESTS if part in name), '')} |\n"
    replace_section("php-fpm", text)
    few = [f"php-fpm: {share:.1f} % pass, at least {PHP_FPM_TESTS_MIN} %"] if share < PHP_FPM_TESTS_MIN else []
    return few + [f"php-fpm: {row['test']} does not pass" for row in environment if row["pool"] != "PASSED"]


# Of Apache's own tests: so many subtests pass. What is less is found here.
APACHE_TESTS_MIN = 3100
# Why a program cannot pass as a whole.
APACHE_TESTS = {
    "t/modules/aaa.t": "form logins (mod_auth_form) are not there",
    "t/modules/autoindex2.t": "a listing shows folders that are closed; `IndexIgnore` hides them",
    "t/modules/rewrite.t": "`RewriteMap prg:` is refused, `.htaccess` asks no back ends, no `Vary` where no condition has read a field",
    "t/modules/vhost_alias.t": "`VirtualDocumentRoot` is not there",
    "t/modules/brotli.t": "a quality that RFC 9110 §12.4.2 does not allow (`q=`, four digits) is none",
    "t/apache/expr.t": "`file()` is not for `.htaccess`; `-U` and `-F` are 500",
    "t/apache/expr_string.t": "the error log has nginx's form",
    "t/apache/headers.t": "folded fields (obs-fold) are 400 (RFC 9112 §5.2)",
    "t/apache/limits.t": "`LimitRequestLine` is the larger of both sizes; a body without a length is 411 under `LimitRequestBody`",
}


def apache_tests(results):
    rows = table(results)
    with open(os.path.splitext(results)[0] + ".refused") as file:
        refused = file.read().splitlines()
    passed, theirs = sum(int(row["passed"]) for row in rows), sum(int(row["without_cgi"]) for row in rows)
    whole = [row for row in rows if int(row["passed"]) >= int(row["without_cgi"])]
    text = f"""## Apache's own tests

Programs of apache/httpd-tests that concern Brisk, through `brisk httpd` with those of Debian's modules that they need
([apache_tests.py](../scripts/apache_tests.py)): {passed} of the {theirs} subtests pass that Apache 2.4.71 passes without CGI, in {len(whole)} of
{len(rows)} programs all of them.

| program | Apache without CGI | Brisk | |
|---|---|---|---|
"""
    for row in rows:
        why = APACHE_TESTS.get(row["file"], "") if int(row["passed"]) < int(row["without_cgi"]) else ""
        text += f"| {row['file'].removeprefix('t/')} | {row['without_cgi']} | {row['passed']} | {why} |\n"
    text += "\nLines of their configuration that Brisk refuses by name, and that are taken out for the run:\n\n"
    for line in refused:
        why, _, what = line.partition("\t")
        text += f"- `{what}`: {why}\n"
    replace_section("apache-tests", text)
    unexplained = [row["file"] for row in rows if int(row["passed"]) < int(row["without_cgi"]) and row["file"] not in APACHE_TESTS]
    return [f"apache-tests: {name} does not pass whole" for name in unexplained] + (
        [f"apache-tests: {passed} subtests, at least {APACHE_TESTS_MIN}"] if passed < APACHE_TESTS_MIN else [])


# How the cases of x509-limbo are put to Brisk.
LIMBO_WAYS = {
    "back end": "a TLS server shows the chain to `proxy_ssl_verify on`",
    "client": "a TLS client shows it to `ssl_verify_client on`",
    "in memory": "the same contexts shake hands without sockets: the case sets the time, which no running server can be told",
    "call": "no handshake: the case has no key, one that TLS cannot use, or no name; the verifier is called",
}


def limbo(results):
    rows = table(results)
    version = re.search(r"OpenSSL [\d.]+\w*", subprocess.run(["openssl", "version"], capture_output=True, text=True).stdout)
    right = {who: sum(one[who] == one["expected"] for one in rows) for who in ("brisk", "openssl")}
    text = f"""## x509-limbo

{len(rows)} cases of github.com/C2SP/x509-limbo, with `openssl verify` of {version[0] if version else "OpenSSL"} beside it: the same purpose
(`sslserver`, `sslclient`), security level 2, time, depth and name. An address is good for OpenSSL if it stands among the
certificate's names or addresses: nginx asks for names. The corpus asks for more than OpenSSL checks (the profile of public
authorities): {right['brisk']} of Brisk's verdicts are the corpus' own, {right['openssl']} of OpenSSL's.

| how | cases | both accept | both refuse | only OpenSSL accepts | only Brisk accepts |
|---|--:|--:|--:|--:|--:|
"""
    for way, what in LIMBO_WAYS.items():
        counts = Counter((one["openssl"], one["brisk"]) for one in rows if one["how"] == way)
        both = [("accepts", "accepts"), ("refuses", "refuses"), ("accepts", "refuses"), ("refuses", "accepts")]
        text += row(f"{way}: {what}", *(str(number) for number in [counts.total(), *(counts[verdicts] for verdicts in both)]))
    text += "\n| case | the corpus | OpenSSL | Brisk | why |\n|---|---|---|---|---|\n"
    for one in rows:
        if one["openssl"] != one["brisk"]:
            why = one["brisk says"] or one["openssl says"]
            text += row(one["id"], one["expected"], one["openssl"], one["brisk"], why)
    replace_section("x509-limbo", text)
    return [f"{one['id']}: accepted; {one['openssl says']}" for one in rows if one["brisk"] == "accepts" != one["openssl"]]


def nginx_tests(results, logs, baseline):
    exceptions, waiting = lists()
    refused = refused_directives()
    mainline = {row["file"]: row for row in table(baseline)}
    areas, unexplained, counts = defaultdict(list), [], Counter()
    for result in table(results):
        file, status = result["file"], result["status"]
        theirs = mainline[file]["status"]
        path = f"{logs}/{file}.log"
        log = open(path, errors="replace").read() if os.path.exists(path) else ""
        if status == "ok":
            verdict, note = "ok", ""
            if file in exceptions:
                unexplained.append(f"{file} passes: take it off the list of exceptions")
        elif theirs != "ok":
            verdict, note = "as mainline", result["reason"] if status == "skip" else ""
        elif file in exceptions:
            verdict, note = "exception", exceptions[file]
        elif module := why_waiting(result, log, waiting, refused):
            verdict, note = "waits", f"for {module}: {waiting[module]}"
        else:
            verdict, note = "FAILS", result["reason"][:200]
            unexplained.append(f"{file}: {status}: {result['reason'][:300]}")
        counts[verdict] += 1
        subtests = f"{result['passed']}/{result['subtests']}" if status != "skip" else ""
        areas[result["area"]].append((file, status, subtests, theirs, verdict, note))

    owed = sum(counts.values()) - counts["as mainline"] - counts["waits"]
    text = f"""## nginx's own tests

github.com/nginx/nginx-tests against Brisk, beside nginx 1.31.5's own results. Of {sum(counts.values())} files
{counts['ok']} pass; {counts['as mainline']} do not run with mainline either; {counts['waits']} need a module that is not there yet
([conformance-waiting.tsv](conformance-waiting.tsv)); {counts['exception']} are exceptions on purpose
([conformance-exceptions.tsv](conformance-exceptions.tsv)); {counts['FAILS']} fail. So {counts['ok']} of the {owed} files that can
be expected to pass do.
"""
    for area, rows in sorted(areas.items()):
        text += f"\n### {area}\n\n| file | result | subtests | mainline | verdict | |\n|---|---|--:|---|---|---|\n"
        text += "".join(row(*cells) for cells in rows)
    replace_section("nginx-tests", text)
    print(f"docs/conformance.md: {dict(counts)}")
    return unexplained


def corpus(brisk, folder):
    """Tests FOLDER/NAME/nginx.conf for each NAME with both."""
    refused = refused_directives()
    paths = sorted(glob.glob(f"{folder}/*/nginx.conf"))
    if len(paths) < CONFIGURATIONS_MIN:
        sys.exit(f"{folder}: {len(paths)} configurations NAME/nginx.conf; at least {CONFIGURATIONS_MIN} are wanted")
    verdicts, counts, by_name, unexplained, rows = {}, Counter(), Counter(), [], []
    for path in paths:
        name = os.path.basename(os.path.dirname(path))
        theirs, their_errors = tested("nginx", path)
        ours, our_errors = tested(brisk, path)
        if ours == theirs:
            verdict, note = "agree", "" if ours == "ok" else (their_errors or [""])[0]
        elif ours == "ok":
            verdict, note = "newer", (their_errors or [""])[0]
        else:
            reasons = [explained(error, refused) for error in our_errors]
            strange = [error for error, reason in zip(our_errors, reasons) if not reason]
            if strange or not our_errors:
                verdict, note = "UNEXPLAINED", (strange or ["no message"])[0]
                unexplained.append(f"{name}: {note}")
            else:
                verdict, note = "later", some(sorted(set(reasons)))
                by_name.update(set(reasons))
        counts[verdict] += 1
        rows.append((name, theirs, ours, verdict, note.replace(folder + "/", "")))
    version = re.search(r"nginx/[\d.]+", run(["nginx", "-v"])[1])
    text = f"""## Public configurations

`brisk -t` beside `nginx -t` ({version[0] if version else "nginx"}) on {len(rows)} public configurations. {counts["agree"]} times both
say the same. {counts["later"]} times Brisk refuses directives, variables or parameters of modules that are not there yet, and nothing
else. {counts["newer"]} times Brisk takes what this nginx does not know yet. {counts["UNEXPLAINED"]} disagreements are without such an
explanation, and so by the grammar or the core.

| not there yet | module of nginx | configurations |
|---|---|--:|
"""
    for name, count in sorted(by_name.items(), key=lambda item: (-item[1], item[0])):
        text += row(f"`{name}`", some(sorted(set(refused.get(name, [])))), str(count))
    text += "\n| configuration | nginx | Brisk | verdict | not there yet, or the error |\n|---|---|---|---|---|\n"
    text += "".join(row(*cells) for cells in rows)
    replace_section("corpus", text)
    print(f"docs/conformance.md: {dict(counts)}")
    return unexplained


def run(command):
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60)
    return done.returncode, done.stderr.decode("utf8", "replace")


def tested(binary, path):
    """ok or refused, and the errors without their levels and process ids. A crash is neither."""
    code, text = run([binary, "-t", "-c", path, "-p", os.path.dirname(path) + "/"])
    errors = re.findall(r"(?m)^\S+ (?:\[emerg\]|\[error\]) (?:\d+#\d+: )?(.*)", text)
    return {0: "ok", 1: "refused"}.get(code, f"exit code {code}"), errors


def explained(error, refused):
    """What of a module that is not there yet the error is about."""
    if found := re.match(r'unknown directive "([^"]+)"', error):
        name = found[1]
        return name if name in refused else f"{name} (removed from nginx)" if name in REMOVED else None
    if found := re.match(r'unknown "([^"]+)" variable', error):
        return next((name for name in refused if name[0] == "$" and fnmatch.fnmatch(found[1], name[1:])), None)
    if found := re.match(r'the "([^"]+)" parameter is not supported yet', error):
        return f"listen {found[1]}"
    if found := re.match(r"(.*?) (?:is|are) not supported yet", error):
        return found[1]
    return None


def some(names, most=8):
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def row(*cells):
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def main():
    what, *arguments = sys.argv[1:] or ["help"]
    if what == "nginx-tests" and len(arguments) == 3:
        unexplained = nginx_tests(*arguments)
    elif what == "cache-tests" and len(arguments) == 1:
        unexplained = cache_tests(*arguments)
    elif what == "apache-tests" and len(arguments) == 1:
        unexplained = apache_tests(*arguments)
    elif what == "php-fpm" and len(arguments) == 1:
        unexplained = php_fpm(*arguments)
    elif what == "php" and len(arguments) == 1:
        unexplained = php(*arguments)
    elif what == "limbo" and len(arguments) == 1:
        unexplained = limbo(*arguments)
    elif what == "corpus" and len(arguments) == 2:
        unexplained = corpus(*arguments)
    else:
        sys.exit(__doc__)
    for line in unexplained:
        print(line, file=sys.stderr)
    sys.exit(1 if unexplained else 0)


main()
