#!/usr/bin/env python3
"""Real applications beside Apache: htaccess_apps.py BINARY TREES FILES OUT.tsv [--urls 60]

TREES has a folder for each application, as it is installed (Debian's packages unpacked, or what `examples/wordpress/wordpress.sh up
database` makes); FILES has what programs write for them, named APP.SOMETHING or all.SOMETHING, as `.htaccess` files. None of them is ours,
so none is in the repository. Each of the files becomes a site over a copy of its tree (`all`: over each), a tree without one is asked with
its own files. Both servers, with one PHP-FPM behind, are asked for so many URLs: files, folders and scripts of the tree, what may not be
read, what is not there, and what the rules' own patterns match.

The same must come back: status, Location, fields; the body of what is a file. Ends with 1 if a difference is not explained, or something can
be read that Apache refuses. As root; needs apache2 and php-fpm.
"""

import argparse, collections, os, pathlib, random, re, shutil, signal, subprocess, sys, tempfile, urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.dont_write_bytecode = True
import htaccess
from htaccess import EXPLAINED, TYPES, apache, ask, brisk, fpm_of, port, quoted, requests_of, start

ASKED = """/ /?p=1 /index.php /index.php/x/y?z=1 /none /none/at/all.php /.htaccess /.htpasswd /.env /.git/config /composer.json /wp-config.php
    /wp-login.php /xmlrpc.php /wp-admin/ /wp-json/ /feed/ /2024/01/hello/ /hello-world/ /wiki/Main_Page /readme.html /README.md /CHANGELOG.md
    /config/ /vendor/ /robots.txt /favicon.ico /index.php.bak //index.php /INDEX.PHP /a%2fb""".split()

FIELDS = ["", "Accept-Encoding: gzip\r\nUser-Agent: Mozilla/5.0 (compatible; badbot)\r\nCookie: wordpress_logged_in_x=1; comment_author_x=1\r\n",
          "X-Forwarded-Proto: https\r\nReferer: http://elsewhere.example/\r\n"]

# Of pages that scripts make, what differs from request to request.
VARYING = ("set-cookie", "expires", "x-request-id", "content-security-policy", "x-powered-by", "last-modified", "x-dokuwiki-nonce")

def is_same_but_coding(theirs, ours):
    """Whether only Apache has compressed the answer, by its AddOutputFilterByType."""
    status, fields, _ = theirs.shown()
    rest = tuple(field for field in fields if field != ("content-encoding", "gzip") and field[0] not in VARYING)
    return ("content-encoding", "gzip") in fields and (status, rest) == (ours.shown()[0], tuple(field for field in ours.shown()[1] if field[0] not in VARYING))


def is_same_but_type(theirs, ours):
    """Whether only Apache has told a type, by an ending that is not the last (`a.css.map`)."""
    (status, fields, body), (our_status, our_fields, our_body) = theirs.shown(), ours.shown()
    return (status, body) == (our_status, our_body) and tuple(f for f in fields if f[0] != "content-type") == our_fields


def is_missing_script(target, theirs, ours):
    """Whether a script is missing whose folder is, too: the location asks PHP for it, Apache's `FilesMatch` sees the folder's name."""
    fields = set(ours.shown()[1])
    return ".php" in target and theirs.status == ours.status == 404 and set(theirs.shown()[1]) <= fields


OWN = [
    ("types are the location's, which go by the last ending", lambda t, a, b: is_same_but_type(a, b)),
    ("a script that is missing with its folder is PHP's 404 by the location, and Apache's own there", is_missing_script),
    ("a folder whose name ends with .php is a script to the location", lambda t, a, b: ".php/" in t and a.status == 200 and b.status == 404),
    ("a folder's list is each server's own", lambda t, a, b: a.status == b.status == 200 and "Index of" in a.text and "Index of" in b.text),
    ("whether types are compressed is the location's gzip", lambda t, a, b: a.status == 200 and is_same_but_coding(a, b)),
]


def urls(tree, text, count, chance):
    """Files of all kinds, the same number of each; folders; and what is not to be read."""
    kinds = collections.defaultdict(list)
    for path in sorted(tree.rglob("*")):
        if path.is_file():
            kinds[path.suffix.lower() or path.name].append(path)
        elif path.is_dir():
            kinds["/"].append(path)
    names = [kind for kind in kinds if len(kinds[kind]) > 1 or kind in (".php", "/")]
    own = [target for target, _ in requests_of(text, chance) if not re.search(r"[^!-~]", target)]
    chosen = list(ASKED) + own[: count // 4]
    while len(chosen) < count + len(own[: count // 4]) and names:
        path = chance.choice(kinds[chance.choice(names)])
        end = "/" if path.is_dir() and chance.random() < 0.6 else ""
        chosen.append("/" + quoted(str(path.relative_to(tree))) + end + chance.choice(["", "", "", "?x=1", "/more" if not end else ""]))
    return list(dict.fromkeys(chosen))


def shown(answer, is_file):
    status, fields, body = answer.shown()
    if is_file:
        return status, fields, body
    return status, tuple(field for field in fields if field[0] not in VARYING), ""


def lay_out(root, trees, files):
    sites = []
    for tree in sorted(trees.iterdir()):
        own = [file for file in sorted(files.iterdir()) if file.name.split(".")[0] in (tree.name, "all")]
        for file in own or [None]:
            site = root / f"s{len(sites)}"
            shutil.copytree(tree, site, symlinks=False, ignore_dangling_symlinks=True)
            if file:
                (site / ".htaccess").write_bytes(file.read_bytes())
            sites.append((tree.name + (f" + {file.name}" if file else ""), site))
    return sites


def compare(at, sites, count, logs, out):
    totals = collections.Counter()
    for number, (name, site) in enumerate(sites):
        chance, counts = random.Random(name), collections.Counter()
        text = (site / ".htaccess").read_text("latin-1") if (site / ".htaccess").exists() else ""
        marks = [len(log.read_bytes()) if log.exists() else 0 for log in logs]
        different = []
        for target in urls(site, text, count, chance):
            path = target.split("?")[0]
            fields = chance.choice(FIELDS)
            theirs, ours = (ask(p, f"s{number}.test", target, fields) for p in at)
            counts["asked"] += 1
            # What is not there may be a script's page by the rules.
            is_file = (site / urllib.parse.unquote(path).lstrip("/")).is_file() and bool(re.search(r"\.(css|js|png|gif|jpe?g|svg|txt|html?|xml|json|md|ini|ico|woff2?|ttf|map|less|sql|po|mo|gz)$", path))
            if shown(theirs, is_file) == shown(ours, is_file):
                counts["same"] += 1
            else:
                different.append((target, fields, theirs, ours, is_file))
        said = [htaccess.refused_by(log.read_bytes()[mark:].decode("latin-1") if log.exists() else "", f"s{number}") for log, mark in zip(logs, marks)]
        for target, fields, theirs, ours, is_file in different:
            why = next((why for why, holds in EXPLAINED + OWN if holds(target, theirs, ours)), None)
            for status, refused, who in ((theirs.status, said[0], "Apache has not"), (ours.status, said[1], "Brisk refuses")):
                if not why and status == 500 and refused:
                    why = f"{who}: " + ", ".join(sorted(refused))
            counts["open"] += ours.status == 200 and theirs.status in (401, 403)
            counts["explained" if why else "unexplained"] += 1
            out.write("\t".join([name, target, fields.replace("\r\n", " | "), why or "NOT EXPLAINED", repr(shown(theirs, is_file))[:400], repr(shown(ours, is_file))[:400]]) + "\n")
        print(name, dict(counts), flush=True)
        totals += counts
        totals["sites"] += 1
    return totals


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("binary", "trees", "files", "out"):
        arguments.add_argument(name)
    arguments.add_argument("--urls", type=int, default=60)
    wishes = arguments.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(prefix="brisk-apps-"))
    processes = []
    try:
        sites = lay_out(work / "sites", pathlib.Path(wishes.trees), pathlib.Path(wishes.files))
        (work / "mime.types").write_text(TYPES + "\n")
        subprocess.run(["chmod", "-R", "a+rwX", str(work)], check=True)
        ports = [port() for _ in range(3)]
        # Applications need their extensions of PHP.
        fpm = [word for word in fpm_of(work, ports[2]) if word != "-n"]
        commands = [(fpm, 2), (apache(work, len(sites), ports[0], ports[2]), 0), (brisk(os.path.realpath(wishes.binary), work, len(sites), ports[1], ports[2]), 1)]
        for command, which in commands:
            processes.append(start(command, ports[which], stderr=subprocess.DEVNULL))
        with open(wishes.out, "w") as out:
            totals = compare(ports[:2], sites, wishes.urls, [work / "apache.log", work / "brisk.log"], out)
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
            process.wait()
        if not os.environ.get("KEEP"):
            shutil.rmtree(work, ignore_errors=True)
    print(" ".join(f"{name}={count}" for name, count in totals.items()))
    sys.exit(1 if totals["unexplained"] or totals["open"] else 0)


if __name__ == "__main__":
    main()
