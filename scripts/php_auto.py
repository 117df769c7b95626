#!/usr/bin/env python3
"""`pm auto` beside fixed numbers of workers, PHP-FPM, and the rule of two per processor: php_auto.py BRISK RESULTS.json [SECONDS [overload]]

Kinds of work (it runs; waits 50 ms; does both; asks a database that serves 12 at once) under 10, 50, 100 and 200 clients without pause. Each
pool serves alone, one after the other, for SECONDS (1); `pm auto` has twenty times as long before to find its number. Before that, ten times
as many requests as the pool can serve, and what comes afterwards (`overload`: only that, less than a minute). Needs root (it runs PHP as nobody),
wrk, php-fpm and a quiet machine: ten minutes. As Markdown it writes the table of docs/php.md. It ends with 1 if a promise is not kept.
"""
import asyncio
import glob
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

CORES = len(os.sched_getaffinity(0))
FIXED = [1, 2, 4, 8, 16, 32, 64]
USERS = [10, 50, 100, 200]
SCRIPTS = {
    "run": "<?php $until = hrtime(true); $x = ''; for ($i = 0; $i < 30000; $i++) $x = md5($x . $i); echo 'ok';",
    "wait": "<?php usleep(50000); echo 'ok';",
    "both": "<?php $x = ''; for ($i = 0; $i < 6000; $i++) $x = md5($x . $i); usleep(20000); echo 'ok';",
    "database": "<?php $d = stream_socket_client('unix://DIR/database.sock'); echo fgets($d);",
}
WORDS = {"run": "runs", "wait": "waits 50 ms", "both": "runs, and waits 20 ms", "database": "asks a database that serves 12 at once, 25 ms each"}
PHP = "php_admin_flag[opcache.enable] on; php_admin_value[opcache.validate_timestamps] 0;"


def database(path):
    """Serves 12 at once."""
    async def main():
        room = asyncio.Semaphore(12)

        async def serve(reader, writer):
            async with room:
                await asyncio.sleep(0.025)
                writer.write(b"row\n")
            writer.close()
        server = await asyncio.start_unix_server(serve, path, backlog=1000)
        os.chmod(path, 0o666)
        async with server:
            await server.serve_forever()
    threading.Thread(target=lambda: asyncio.run(main()), daemon=True).start()


def pools():
    """Name and settings."""
    queue = "queue 1000 timeout=30s;"
    named = {f"s{count}": f"pm static; max_children {count}; {queue}" for count in FIXED}
    for work in SCRIPTS:
        for users in USERS:
            named[f"a-{work}-{users}"] = f"pm auto; max_children 64; {queue}"
    named["over"] = "pm auto; max_children 64; queue 64 timeout=1s;"
    return named


def start(brisk, folder):
    locations, text = [], []
    for name, settings in pools().items():
        text.append(f"php_pool {name} {{ {settings} {PHP} }}")
        locations.append((name, f"php_pass {name};"))
    fpm_sections = {
        "fpm-dynamic": "pm = dynamic\npm.max_children = 5\npm.start_servers = 2\npm.min_spare_servers = 1\npm.max_spare_servers = 3",
        "fpm-5": "pm = static\npm.max_children = 5", "fpm-50": "pm = static\npm.max_children = 50",
    }
    upstreams = ""
    fpm = f"[global]\nerror_log = {folder}/fpm.log\ndaemonize = no\n"
    for name, settings in fpm_sections.items():
        fpm += f"[{name}]\nuser = nobody\ngroup = nogroup\nlisten = {folder}/{name}.sock\nlisten.mode = 0666\nlisten.backlog = 511\n{settings}\n"
        upstreams += f"upstream {name} {{ server unix:{folder}/{name}.sock; keepalive 50; }}\n"
        locations.append((name, f"fastcgi_pass {name}; fastcgi_keep_conn on;"))
    blocks = "".join(
        f"location ~ ^/{name}/([a-z]+\\.php)$ {{ {way} fastcgi_param SCRIPT_FILENAME {folder}/$1; fastcgi_param REQUEST_METHOD $request_method;"
        f" fastcgi_param REQUEST_URI $request_uri; {'access_log ' + folder + '/over.log times;' if name == 'over' else ''} }}\n"
        for name, way in locations)
    conf = f"""daemon off; user nobody nogroup; worker_processes {CORES}; pid {folder}/brisk.pid; error_log {folder}/error.log crit;
events {{ worker_connections 8192; }}
http {{ log_format times '$msec $status $request_time'; access_log off; {' '.join(text)}
{upstreams} server {{ listen 127.0.0.1:18080; {blocks} }} }}
"""
    with open(f"{folder}/brisk.conf", "w") as file:
        file.write(conf)
    with open(f"{folder}/fpm.conf", "w") as file:
        file.write(fpm)
    program = sorted(glob.glob("/usr/sbin/php-fpm[0-9]*"))[-1]
    return [subprocess.Popen([brisk, "-p", folder, "-c", f"{folder}/brisk.conf"]),
            subprocess.Popen([program, "-y", f"{folder}/fpm.conf", "-F", "-R"], stderr=subprocess.DEVNULL)]


def load(pool, work, users, seconds):
    """Good answers per second."""
    command = ["wrk", "-t1", f"-c{users}", f"-d{max(1, round(seconds))}s", "--timeout", "30s",
               f"http://127.0.0.1:18080/{pool}/{work}.php"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    took = float(re.search(r"requests in ([\d.]+)s", out)[1])
    bad = sum(int(number) for number in re.findall(r"Non-2xx or 3xx responses: (\d+)", out))
    return (int(re.search(r"(\d+) requests in", out)[1]) - bad) / took


def status(brisk, folder, pool):
    command = [brisk, "php", "status", pool, "--json", "-p", folder, "-c", f"{folder}/brisk.conf"]
    told = subprocess.run(command, capture_output=True, text=True)
    if told.returncode:
        sys.exit(f"php_auto.py: {pool} is no pool that Brisk runs itself: {told.stderr.strip()}\nBrisk needs its program for PHP (scripts/php.sh) in"
                 " ../php beside its own, or named by BRISK_PHP; without it PHP-FPM runs the pools.")
    return json.loads(told.stdout)[pool]


def sweep(brisk, folder, seconds):
    rows = []
    for work in SCRIPTS:
        for users in USERS:
            row = {"work": work, "users": users, "fixed": {}}
            for count in FIXED:
                row["fixed"][count] = load(f"s{count}", work, users, seconds)
            for name in ("fpm-dynamic", "fpm-5", "fpm-50"):
                row[name] = load(name, work, users, seconds)
            pool = f"a-{work}-{users}"
            load(pool, work, users, 20 * seconds)
            row["auto"] = load(pool, work, users, seconds)
            row["size"] = status(brisk, folder, pool)["wanted"]
            best = max(row["fixed"], key=lambda count: row["fixed"][count])
            if row["auto"] < 0.95 * row["fixed"][best]:
                # The best of seven numbers that were looked at once is partly the luckiest: both are looked at again, in turns.
                pairs = [(load(f"s{best}", work, users, 3 * seconds), load(pool, work, users, 3 * seconds)) for _ in range(5)]
                row["again"] = {"count": best, "fixed": statistics.median(one for one, _ in pairs), "auto": statistics.median(two for _, two in pairs)}
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
    return rows


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else None


def overload(brisk, folder):
    """Ten times what the pool can serve, for ten seconds."""
    calm = load("over", "run", 50, 15)
    # As many connections as wait for an answer at most: so many requests come whatever becomes of them.
    bench = [brisk, "bench", "--rate", str(round(calm * 0.5)), "-d", "5s", "-c", "2000", "http://127.0.0.1:18080/over/run.php"]
    subprocess.run(bench, capture_output=True)
    marks = [time.time()]
    for rate, seconds in ((calm * 10, 10), (calm * 0.5, 10)):
        bench[3], bench[5] = str(round(rate)), f"{seconds}s"
        subprocess.run(bench, capture_output=True)
        marks.append(time.time())
    lines = [line.split() for line in open(f"{folder}/over.log")]
    all_ = [(float(at), int(code), float(took)) for at, code, took in lines]
    before = [took for at, code, took in all_ if marks[0] - 5 < at < marks[0] and code == 200]
    during = [(code, took) for at, code, took in all_ if marks[0] + 1 < at < marks[1]]
    after = [took for at, code, took in all_ if marks[1] + 5 < at and code == 200]
    served = [took for code, took in during if code == 200]
    refused = [took for code, took in during if code == 503]
    # The generator has ended.
    during = [(code, took) for code, took in during if code != 499]
    return {
        "rate": calm, "offered": len(during) / (marks[1] - marks[0] - 1), "served": len(served), "refused": len(refused),
        "other": len(during) - len(served) - len(refused), "p99_before": percentile(before, 0.99), "p99_served": percentile(served, 0.99),
        "p50_refused": percentile(refused, 0.5), "p99_refused": percentile(refused, 0.99), "p99_after": percentile(after, 0.99),
        "status_after": sorted({code for at, code, _ in all_ if marks[1] + 5 < at}),
    }


def broken(result):
    """What was promised and not kept."""
    over, limit = result["overload"], 1.0
    checks = {
        "offered less than nine times what can be served": over["offered"] < 9 * over["rate"],
        "answers other than 200 and 503": over["other"] > 0,
        "served requests took twice the queue's time-out": over["p99_served"] is None or over["p99_served"] >= 2 * limit,
        "refusals took more than 50 ms": over["p99_refused"] is None or over["p99_refused"] > 0.05,
        "five seconds later requests still took longer": over["p99_after"] is None or over["p99_after"] > max(2 * over["p99_before"], 0.05),
        "five seconds later requests were refused": over["status_after"] != [200],
    }
    for row in result["rows"]:
        again = row.get("again") or {"auto": row["auto"], "fixed": max(row["fixed"].values())}
        checks[f"{row['work']}, {row['users']} users: less than 0.95 of the best fixed number"] = again["auto"] < 0.95 * again["fixed"]
    return [what for what, is_broken in checks.items() if is_broken]


def markdown(rows):
    out = ["| page | users | best fixed | auto | of the best | 2 per processor | FPM dynamic | FPM 5 | FPM 50 |", "|---|---|---|---|---|---|---|---|---|"]
    rule = min(FIXED, key=lambda count: abs(count - 2 * CORES))
    for row in rows:
        again = row.get("again")
        best = max(row["fixed"], key=lambda count: row["fixed"][count])
        # The smallest that is as good as the best within 3 %.
        best = min(count for count in row["fixed"] if row["fixed"][count] >= 0.97 * row["fixed"][best])
        most = max(row["fixed"].values())
        part = again["auto"] / again["fixed"] if again else row["auto"] / most
        out.append(f"| {WORDS[row['work']]} | {row['users']} | {most:.0f} ({best}) | {row['auto']:.0f} ({row['size']}) | {part:.2f} | "
                   f"{row['fixed'][rule]:.0f} | {row['fpm-dynamic']:.0f} | {row['fpm-5']:.0f} | {row['fpm-50']:.0f} |")
    return "\n".join(out)


def main(brisk, out, seconds=1, part=None):
    folder = tempfile.mkdtemp(prefix="php-auto-")
    os.chmod(folder, 0o755)
    for name, text in SCRIPTS.items():
        with open(f"{folder}/{name}.php", "w") as file:
            file.write(text.replace("DIR", folder))
    database(f"{folder}/database.sock")
    processes = start(os.path.realpath(brisk), folder)
    try:
        for _ in range(200):
            time.sleep(0.1)
            if subprocess.run(["curl", "-fsm", "1", "http://127.0.0.1:18080/over/wait.php"], capture_output=True).returncode == 0:
                break
        result = {"overload": overload(brisk, folder), "rows": [] if part else sweep(brisk, folder, float(seconds))}
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
            process.wait()
    with open(out, "w") as file:
        json.dump(result, file, indent=1)
    print(markdown(result["rows"]))
    print(json.dumps(result["overload"], indent=1))
    shutil.rmtree(folder, ignore_errors=True)
    failures = broken(result)
    for failure in failures:
        print(f"FAILED: {failure}")
    return bool(failures)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4, 5) or sys.argv[4:] not in ([], ["overload"]):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
