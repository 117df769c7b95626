"""Machines of an experiment: network namespaces with a share of the CPUs each, as separate hosts would have their own.

The first one is reached from here; it is the others' way to each other, too. All of it goes with the experiment. Only root may do so.
"""

import contextlib
import os
import subprocess
from pathlib import Path

from .stage import NOBODY, Refused, program

# The controller of CPU time: of cgroups' second version, or of the first.
UNIFIED = Path("/sys/fs/cgroup/cgroup.controllers")
FIRST = Path("/sys/fs/cgroup/cpu")
# A share is given out anew this often: a longer period would stop a machine for that long at once.
PERIOD_US = 10_000
# For tests between devices (RFC 2544): nobody has a route there.
NETWORK = "198.18"


def why_not():
    """Why there can be no machines here; nothing where there can."""
    if os.getuid() != 0:
        return "machines of their own need root"
    if not FIRST.is_dir() and not (UNIFIED.exists() and "cpu" in UNIFIED.read_text().split()):
        return "this kernel has no cgroups for CPUs"
    return None


class Machine:
    """A namespace with an address and a share of the CPUs; `Stage.on(machine)` starts programs there."""

    def __init__(self, name, address, cpus):
        self.name, self.address, self.cpus = name, address, cpus
        self.namespace = f"brisk-{os.getpid()}-{name}"
        self.group = (FIRST if FIRST.is_dir() else UNIFIED.parent) / self.namespace

    def make(self):
        self.group.mkdir()
        quota = round(self.cpus * PERIOD_US)
        if FIRST.is_dir():
            (self.group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self.group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (UNIFIED.parent / "cgroup.subtree_control").write_text("+cpu")
            (self.group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        ip("netns", "add", self.namespace)
        ip("-n", self.namespace, "link", "set", "lo", "up")

    def inside(self, command):
        """The command that runs `command` there. Each step replaces itself by the next, so that the PID stays."""
        enter = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', self.group / "cgroup.procs"]
        space = ["nsenter", f"--net=/run/netns/{self.namespace}"]
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        return [*enter, *space, *user, *command]

    def remove(self):
        subprocess.run([program("ip"), "netns", "del", self.namespace], check=False, capture_output=True)
        with contextlib.suppress(OSError):
            self.group.rmdir()


def ip(*words):
    done = subprocess.run([program("ip"), *words], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise Refused(f"ip {' '.join(words)} failed: {done.stderr.strip()}")


@contextlib.contextmanager
def machines(**cpus):
    """Machines of these names with so many CPUs each, in a list; shares that are below one are allowed."""
    reason = why_not()
    if reason:
        raise Refused(reason)
    made = [Machine(name, f"{NETWORK}.{number}.2", share) for number, (name, share) in enumerate(cpus.items())]
    try:
        for machine in made:
            machine.make()
        connect(made)
        yield made
    finally:
        for machine in made:
            machine.remove()


def connect(made):
    """A cable from here to the first machine, and one from there to each of the others."""
    first = made[0].namespace
    for number, machine in enumerate(made):
        near, far, gateway = f"brisk{os.getpid() % 100000}n{number}", "eth0", f"{NETWORK}.{number}.1"
        ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", machine.namespace)
        where = []
        if number:
            ip("link", "set", near, "netns", first)
            where = ["-n", first]
        ip(*where, "addr", "add", f"{gateway}/24", "dev", near)
        ip(*where, "link", "set", near, "up")
        ip("-n", machine.namespace, "addr", "add", f"{machine.address}/24", "dev", far)
        ip("-n", machine.namespace, "link", "set", far, "up")
        if number:
            ip("-n", machine.namespace, "route", "add", "default", "via", gateway)
    enter = [program("nsenter"), f"--net=/run/netns/{first}", "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"]
    subprocess.run(enter, check=True, capture_output=True)
