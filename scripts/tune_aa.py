#!/usr/bin/env python3
"""How often `brisk tune` finds a gain where there is none: tune_aa.py BRISK [--runs 20] [--budget 5m] [--out RESULTS.json [--resume]]

A page of PHP on nginx and PHP-FPM, and settings that it does not touch: nothing that is found is true. Needs root, nginx and PHP-FPM; takes
RUNS times BUDGET at most; --resume counts the runs that RESULTS.json has already. Ends with 1 if more than one run of twenty has changed
something.
"""
import argparse
import glob
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

PARAMS = Path(__file__).resolve().parent.parent / "packaging/fastcgi.conf"
# No TLS, no body, no file, no back end by HTTP, nothing compressed.
INERT = ["http2_max_concurrent_streams", "client_body_buffer_size", "ssl_buffer_size", "gzip_min_length", "sendfile_max_chunk"]
# It runs for some milliseconds, as pages do.
PAGE = "<?php for ($i = 0, $x = ''; $i < 4000; $i++) $x = md5($x . $i); echo 'ok';"
SHARE_MAX = 0.05


def site(folder):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder.chmod(0o777)
    (folder / "site.conf").write_text(
        f"pid {folder}/nginx.pid;\nerror_log {folder}/error.log;\nevents {{ }}\nhttp {{\n    access_log off;\n    server {{\n"
        f"        listen 127.0.0.1:{port};\n        root {folder};\n        location / {{\n{PARAMS.read_text()}\n"
        f"            fastcgi_pass unix:{folder}/php.sock;\n        }}\n    }}\n}}\n"
    )
    (folder / "pool.conf").write_text(
        f"[inert]\nuser = nobody\ngroup = nogroup\nlisten = {folder}/php.sock\nlisten.mode = 0666\npm = static\npm.max_children = 4\n"
    )
    (folder / "php.ini").write_text("memory_limit = 64M\n")
    (folder / "page.php").write_text(PAGE)
    (folder / "page.php").chmod(0o644)
    return f"http://127.0.0.1:{port}/page.php"


def run(options, folder, url):
    words = [options.brisk, "tune", url, "-q", "--json", "--users", "8", "--budget", options.budget, "--knobs", ",".join(INERT)]
    words += ["--site", folder / "site.conf", "--program", "nginx", "--fpm", folder / "pool.conf", "--php-ini", folder / "php.ini"]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 2, 3):
        sys.exit(f"tune_aa: {done.stderr}")
    return json.loads(done.stdout)


def tell(number, result):
    """Prints one run. Returns whether it has changed something."""
    final = result["final"] or {}
    is_changed = final.get("outcome") == "kept"
    verdicts = ", ".join(f"{step['knob']}: {step['verdict']}" for step in result["steps"])
    said = f"kept {final.get('settings')}" if is_changed else "nothing was changed"
    print(f"run {number}: {said} ({verdicts})", flush=True)
    return is_changed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("brisk", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--budget", default="5m")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_args()
    if os.getuid() != 0 or not glob.glob("/usr/sbin/php-fpm*"):
        sys.exit("tune_aa: run it as root, on a machine with nginx and PHP-FPM")
    found = json.loads(options.out.read_text()) if options.resume and options.out and options.out.exists() else []
    changed = sum(tell(number, result) for number, result in enumerate(found, 1))
    with tempfile.TemporaryDirectory(prefix="brisk-tune-aa-") as name:
        folder = Path(name)
        url = site(folder)
        for number in range(len(found) + 1, options.runs + 1):
            found.append(run(options, folder, url))
            changed += tell(number, found[-1])
            if options.out:
                options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{changed} of {len(found)} runs changed something; at most {SHARE_MAX:.0%} may")
    sys.exit(changed > SHARE_MAX * len(found))


if __name__ == "__main__":
    main()
