#!/usr/bin/env python3
"""Runs Apache's own tests through `brisk httpd`: apache_tests.py BINARY SUITE PERL5LIB TESTS.tsv OUT.tsv [FILTER]

SUITE is a copy of github.com/apache/httpd-tests, PERL5LIB the folder that holds Apache/Test.pm (Debian: libapache2-mod-perl2, unpacked).
TESTS.tsv names the programs and what Apache passes: file, subtests, those without CGI. None of them is ours, so none is in the repository.

The tests run as `nobody` in a network of their own. They get the modules that Debian's Apache has; what Brisk does not have is a notice to
it, and the tests' own lines that it refuses by name are taken out of their configuration, and listed in OUT.refused.
OUT.tsv has for each program: file, subtests that Apache passes without CGI, ours, planned, numbers that failed.
"""

import os, pathlib, re, shutil, subprocess, sys, tempfile

MODULES = pathlib.Path("/usr/lib/apache2/modules")
# Modules whose tests are not ours, and whose directives would have to be taken out of many places.
LEFT_OUT = """authnz_ldap ldap dav dav_fs dav_lock lua perl php8.2 php md cgid mpm_worker mpm_prefork mpm_event ssl socache_shmcb
    socache_memcache socache_dbm socache_redis proxy_html xml2enc heartbeat heartmonitor lbmethod_heartbeat suexec session session_cookie
    session_crypto session_dbd auth_form echo data reflector buffer ratelimit sed ext_filter charset_lite dumpio fcgid http2 proxy_http2
    slotmem_plain slotmem_shm proxy_hcheck proxy_express proxy_uwsgi proxy_balancer lbmethod_byrequests lbmethod_bytraffic lbmethod_bybusyness
    cache cache_disk cache_socache file_cache dbd authn_dbd authz_dbd authn_dbm authz_dbm authn_socache case_filter case_filter_in
    bucketeer dialup proxy_ajp proxy_connect proxy_ftp proxy_scgi proxy_wstunnel proxy_fdpass proxy_fcgi cern_meta asis imagemap
    mime_magic unique_id watchdog log_forensic info status ident usertrack""".split()

WRAPPER = r"""#!/usr/bin/env python3
import os, re, subprocess, sys
BRISK, REFUSED = @BRISK@, @REFUSED@
args = [BRISK, "httpd", *sys.argv[1:]]
if not set(sys.argv) & {"-v", "-V", "-l", "-t", "-k"}:
    # What is refused by name is taken out, and told.
    for _ in range(20):
        said = subprocess.run([*args, "-t"], capture_output=True, text=True)
        if said.returncode == 0:
            break
        found = re.findall(r"\[emerg\] (.*) in (/\S+):(\d+)", said.stderr)
        if not found:
            open(REFUSED, "a").write(said.stderr)
            break
        for why, path, number in {(w, p, int(n)) for w, p, n in found}:
            lines = open(path).read().split("\n")
            at = number - 1
            if lines[at].startswith("#refused "):
                continue
            what = re.sub(r"/\S*/suite/", "SUITE/", lines[at].strip())
            open(REFUSED, "a").write(f"{why}\t{what}\n")
            name = re.match(r"\s*<([A-Za-z]+)", lines[at])
            depth = 0
            while at < len(lines):
                if name:
                    depth += bool(re.match(rf"\s*<{name[1]}\b", lines[at], re.I)) - bool(re.match(rf"\s*</{name[1]}>", lines[at], re.I))
                continued = lines[at].endswith("\\")
                lines[at] = "#refused " + lines[at].rstrip("\\")
                at += 1
                if not continued and depth == 0:
                    break
            open(path, "w").write("\n".join(lines))
os.execv(BRISK, args)
"""


def write(path, text, mode=0o644):
    path.write_text(text)
    path.chmod(mode)


def prepare(work, binary, suite, perl, refused):
    """A copy of the suite, configured for a binary."""
    tree = work / "suite"
    shutil.copytree(suite, tree, symlinks=True)
    conf = tree / "t/conf/extra.conf.in"
    # Only Apache's trunk knows this function.
    conf.write_text(conf.read_text().replace('expr "util_strlen(%{REQUEST_FILENAME}) -le @limitrequestlinex2@"', '%{REQUEST_FILENAME} .'))
    wrapper = work / "httpd"
    write(wrapper, WRAPPER.replace("@BRISK@", repr(str(binary))).replace("@REFUSED@", repr(str(refused))), 0o755)
    names = sorted(path.stem.removeprefix("mod_") for path in MODULES.glob("mod_*.so"))
    lines = ["ServerRoot /etc/apache2"]
    lines += [f"LoadModule {name}_module {MODULES}/mod_{name}.so" for name in names if name not in LEFT_OUT]
    write(work / "httpd.conf", "\n".join(lines) + "\n")
    subprocess.run(["chown", "-R", "nobody:nogroup", work], check=True)
    return tree, wrapper


def as_nobody(command, tree, perl, work, seconds=300, **options):
    env = {"PATH": os.environ["PATH"], "HOME": str(work), "LC_ALL": "C", "PERL5LIB": perl, "APACHE_TEST_HTTPD": str(work / "httpd")}
    user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
    try:
        return subprocess.run([*user, *command], cwd=tree, env=env, timeout=seconds, text=True, errors="replace",
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options).stdout
    except subprocess.TimeoutExpired as error:
        said = error.stdout or ""
        return (said if isinstance(said, str) else said.decode(errors="replace")) + "\n# timed out\n"


def judged(text):
    """Passed subtests, planned ones, numbers of those that failed."""
    plan = re.search(r"^1\.\.(\d+)", text, re.M)
    # What is left out because of the version is in Apache's number, too.
    left_out = re.findall(r"^ok \d+.*# skip.*(?:module|mod_|CGI).*", text, re.M | re.I)
    passed = len(re.findall(r"^ok \d+", text, re.M)) - len(left_out)
    failed = re.findall(r"^not ok (\d+)", text, re.M)
    return passed, int(plan[1]) if plan else 0, failed


def main():
    binary, suite, perl, tests, out = sys.argv[1:6]
    wanted = sys.argv[6] if len(sys.argv) > 6 else ""
    if "BRISK_APACHE_TESTS" not in os.environ:
        os.environ["BRISK_APACHE_TESTS"] = "1"
        os.execvp("unshare", ["unshare", "-n", sys.executable, *sys.argv])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix="brisk-apache-"))
    work.chmod(0o755)
    refused = work / "refused.txt"
    write(refused, "", 0o666)
    shutil.copy2(binary, work / "brisk")
    tree, wrapper = prepare(work, work / "brisk", suite, perl, refused)
    log = [as_nobody(["perl", "Makefile.PL", "-httpd", str(wrapper), "-httpd_conf", str(work / "httpd.conf")], tree, perl, work)]
    log.append(as_nobody(["perl", "t/TEST", "-start-httpd", "-startup_timeout", "120"], tree, perl, work))
    rows = [line.split("\t") for line in pathlib.Path(tests).read_text().splitlines()[1:] if line and not line.startswith(("#", "file"))]
    logs = pathlib.Path(out).with_suffix(".logs")
    logs.mkdir(exist_ok=True)
    (logs / "start.txt").write_text("\n".join(log))
    results = []
    for name, _, without_cgi in rows:
        if wanted not in name:
            continue
        # What stands for a whole folder is left out by the harness.
        alone = ["perl", name] if name.endswith("/all.t") else ["perl", "t/TEST", "-run-tests", "-verbose", name]
        text = as_nobody(alone, tree, perl, work, 180)
        (logs / (name.replace("/", "_") + ".txt")).write_text(text)
        passed, planned, failed = judged(text)
        results.append([name, without_cgi, str(passed), str(planned), " ".join(failed)])
        print(*results[-1][:4], " ".join(failed)[:100], flush=True)
    as_nobody(["perl", "t/TEST", "-stop-httpd"], tree, perl, work)
    for name in ["error_log", "access_log"]:
        if (tree / "t/logs" / name).exists():
            shutil.copy(tree / "t/logs" / name, logs / name)
    for path in (tree / "t/conf").glob("*.conf"):
        shutil.copy(path, logs / path.name)
    pathlib.Path(out).write_text("file\twithout_cgi\tpassed\tplanned\tfailed\n" + "".join("\t".join(row) + "\n" for row in results))
    seen = sorted(set(refused.read_text().splitlines()))
    pathlib.Path(out).with_suffix(".refused").write_text("\n".join(seen) + "\n")
    passed, theirs = sum(int(row[2]) for row in results), sum(int(row[1]) for row in results)
    whole = sum(int(row[2]) >= int(row[1]) for row in results)
    print(f"{passed} of {theirs} subtests that Apache passes without CGI; {whole} of {len(results)} programs whole; {len(seen)} lines refused")
    shutil.rmtree(work, ignore_errors=True)


main()
