#!/usr/bin/env python3
"""Writes the sections of docs/conformance.md from results.

  conformance.py nginx-tests RESULTS.tsv LOGS BASELINE.tsv    what run.sh of the runner wrote, mainline's own results
  conformance.py corpus RESULTS.tsv                           what scripts/corpus.sh wrote

Ends with 1 if something fails that no list explains.
"""
import csv
import os
import re
import sys
from collections import Counter, defaultdict

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs")
PAGE = os.path.join(DOCS, "conformance.md")
EXCEPTIONS_MAX = 6
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
    """Directives of nginx that are not here, and their modules by short name."""
    modules = defaultdict(list)
    for row in table(f"{DOCS}/nginx-coverage.tsv"):
        if row["in Brisk"] == "refused":
            modules[row["directive"]].append(short(row["nginx module"]))
    return modules


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

github.com/nginx/nginx-tests against the release binary, beside nginx 1.31.5's own results. Of {sum(counts.values())} files
{counts['ok']} pass; {counts['as mainline']} do not run with mainline either; {counts['waits']} need a module that is not there yet
([conformance-waiting.tsv](conformance-waiting.tsv)); {counts['exception']} are exceptions on purpose
([conformance-exceptions.tsv](conformance-exceptions.tsv)); {counts['FAILS']} fail. So {counts['ok']} of the {owed} files that can
be expected to pass do.
"""
    for area, rows in sorted(areas.items()):
        text += f"\n### {area}\n\n| file | result | subtests | mainline | verdict | |\n|---|---|--:|---|---|---|\n"
        for row in rows:
            text += "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n"
    replace_section("nginx-tests", text)
    print(f"docs/conformance.md: {dict(counts)}")
    return unexplained


def corpus(results):
    """Rows: file, nginx's verdict, its message, Brisk's verdict, its messages joined by ' || '."""
    _, waiting = lists()
    refused = refused_directives()
    counts, by_directive, unexplained, rows = Counter(), Counter(), [], []
    for result in table(results):
        nginx, brisk = result["nginx"], result["brisk"]
        if nginx == brisk:
            counts["agree"] += 1
            rows.append((result["file"], nginx, brisk, ""))
            continue
        if brisk == "ok":
            counts["newer"] += 1
            rows.append((result["file"], nginx, brisk, result["nginx message"][:160]))
            continue
        messages = result["brisk messages"].split(" || ")
        names = [re.match(r'\[emerg\] unknown directive "([^"]+)"', message) for message in messages]
        explained = [name[1] for name in names if name and name[1] in refused]
        rest = [message for message, name in zip(messages, names) if not (name and name[1] in refused)]
        rest = [message for message in rest if message.startswith("[emerg]") and not follows(message, refused)]
        if rest:
            counts["unexplained"] += 1
            unexplained.append(f"{result['file']}: {rest[0]}")
            rows.append((result["file"], nginx, brisk, "UNEXPLAINED: " + rest[0]))
        else:
            counts["later"] += 1
            by_directive.update(set(explained))
            rows.append((result["file"], nginx, brisk, ", ".join(sorted(set(explained)))))
    text = f"""## Public configurations

`brisk -t` beside `nginx -t` on {sum(counts.values())} public configurations. {counts['agree']} times both agree; {counts['later']}
times Brisk refuses only directives of modules that are not there yet; {counts['newer']} times Brisk takes what the older
nginx refuses; {counts['unexplained']} disagreements are without an explanation, so by the grammar or a core directive.

| directive not there yet | module | configurations |
|---|---|--:|
"""
    for directive, count in sorted(by_directive.items(), key=lambda item: (-item[1], item[0])):
        text += f"| `{directive}` | {', '.join(sorted(set(refused[directive])))} | {count} |\n"
    text += "\n| configuration | nginx | Brisk | what Brisk refuses, or nginx |\n|---|---|---|---|\n"
    for row in rows:
        text += "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n"
    replace_section("corpus", text)
    print(f"docs/conformance.md: {dict(counts)}")
    return unexplained


def follows(message, refused):
    """Errors that only follow from a refused directive: a variable that its module would define, a parameter of it."""
    variable = re.search(r'unknown "([a-z0-9_]+)" variable', message)
    prefixes = ("upstream_", "proxy_", "ssl_", "fastcgi_", "gzip_", "realip_", "geoip", "http2", "limit_", "slice_")
    return bool(variable) and variable[1].startswith(prefixes)


def main():
    what, *arguments = sys.argv[1:] or ["help"]
    if what == "nginx-tests" and len(arguments) == 3:
        unexplained = nginx_tests(*arguments)
    elif what == "corpus" and len(arguments) == 1:
        unexplained = corpus(*arguments)
    else:
        sys.exit(__doc__)
    for line in unexplained:
        print(line, file=sys.stderr)
    sys.exit(1 if unexplained else 0)


main()
