"""Load and figures: `brisk bench` and the old tools' names, run as anybody would run them in a terminal."""

import json
import os
import random
import ssl
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field

from . import advice, stats
from .stage import Refused

LOOK_SECONDS_MAX = 60
# Of all settings, before single pairs are measured further.
ROUNDS_OF_ALL = 4
# Where all are measured in turns afterwards, which says more in the same time: it tells how fast they are.
ROUNDS_BEFORE_SLICES = 1
# A round of settings whose servers may run beside each other: short slices in turns, there and back, since what others do to the machine
# within some seconds then falls on all. What several are compared with is measured once for all of them.
SLICES = 2
SLICE = "400ms"
# The servers have answered before; only the connections are new.
SLICE_WARM_UP = "50ms"
# Below this rate such a slice would hold few requests, of which some are half done at its end: then it is a number of requests, as many as
# come in that time, but so many of each user at least.
TIMED_RATE_MIN = 1000
SLICE_SECONDS = 0.4
SLICE_REQUESTS = 4
# Of what is undecided, that takes part which probably needs so many times the rounds of the nearest verdict, or so few.
NEAR_TIMES = 4
NEAR_ROUNDS = 8
# Long enough for a page of WordPress that is compiled anew for each request, on a machine that has other work.
PATIENT_RUN = "20s"


@dataclass
class Target:
    """Where a setting is asked, and the processes whose cost is counted: tier → PID."""

    url: str
    tiers: dict
    options: list = field(default_factory=list)
    # What a right answer contains.
    contains: str = ""
    # Requests of five users beforehand, where each process has to become warm by itself.
    prime: int = 0


@dataclass
class Setting:
    """One row of a table: `up(stage)` starts its servers and returns a Target."""

    key: str
    label: str
    up: object
    article: str = ""
    # Its servers may run beside another setting's: no socket and no folder of theirs has a fixed name.
    stands_beside: bool = False


def beside(key, label, up, article=""):
    """A setting whose servers may run beside another's."""
    return Setting(key, label, up, article, stands_beside=True)


class Results:
    """The runs of each setting, a list per round: one run, or several slices; None in rounds that it had no part in."""

    def __init__(self, settings):
        self.settings = settings
        self.runs = {setting.key: [] for setting in settings}

    def begin_round(self):
        for runs in self.runs.values():
            runs.append(None)

    def is_sliced(self, key):
        return any(runs and len(runs) > 1 for runs in self.runs[key])

    def figures(self, key, figure="rate", beside=None):
        """The figure of each round; of the same kind of rounds as the setting `beside` that it is compared with.

        Where both were measured in slices, too, rounds of one run do not count: they scatter more. For memory nothing else counts: servers
        that run beside each other share what each alone would have for itself.
        """
        wants_slices = not figure.startswith("memory") and self.is_sliced(key) and self.is_sliced(beside or key)
        counts = [runs and (len(runs) > 1) == wants_slices for runs in self.runs[key]]
        return [typical_of(runs, figure) if does else None for runs, does in zip(self.runs[key], counts)]

    def measured(self, key):
        return [run for runs in self.runs[key] if runs for run in runs]

    def typical(self, key, figure="rate"):
        values = [value for value in self.figures(key, figure) if value is not None]
        return statistics.median(values) if values else None

    def tier(self, key, tier, what):
        """The median; of a tier of several servers, "PHP 1" and "PHP 2", it is their sum."""
        values = []
        is_memory = what.startswith("pss")
        alone = [run for runs in self.runs[key] if runs and len(runs) == 1 for run in runs]
        for run in alone if is_memory and alone else self.measured(key):
            parts = [of[what] for name, of in run["tiers"].items() if name == tier or name.startswith(tier + " ")]
            if parts and None not in parts:
                values.append(sum(parts))
        return statistics.median(values) if values else None


def typical_of(runs, figure):
    """The figure of a round: of its slices the geometric mean, as rounds are compared by ratios."""
    values = [FIGURES[figure](run) for run in runs]
    if None in values:
        return None
    # A share of errors may be nothing.
    if len(values) == 1 or min(values) <= 0:
        return statistics.fmean(values)
    return statistics.geometric_mean(values)


def tiers_of(run, what):
    return sum(tier[what] or 0 for tier in run.get("tiers", {}).values())


FIGURES = {
    "rate": lambda run: run["good_responses_per_second"],
    "p50": lambda run: run["latency_us"]["p50"] / 1e3,
    "p95": lambda run: run["latency_us"]["p95"] / 1e3,
    "p99": lambda run: run["latency_us"]["p99"] / 1e3,
    "mean": lambda run: run["latency_us"]["mean"] / 1e3,
    "errors": lambda run: run["error_share"],
    "cpu": lambda run: run["tiers"]["server"]["cpu_us_per_response"] if "server" in run["tiers"] else None,
    "cpu of all": lambda run: tiers_of(run, "cpu_us_per_response"),
    "memory": lambda run: run["tiers"]["server"]["pss_bytes"] if "server" in run["tiers"] else None,
    "memory of all": lambda run: tiers_of(run, "pss_bytes"),
    "bytes": lambda run: run["bytes"] / run["responses"],
    "at 10 Mbit/s": lambda run: milliseconds_at_10_mbit(run),
}


def milliseconds_at_10_mbit(run):
    """What a response takes on a line of 10 Mbit/s, and what the server's CPU needs for it before."""
    return FIGURES["bytes"](run) * 8 / 10e6 * 1e3 + run["tiers"]["server"]["cpu_us_per_response"] / 1e3


def say(text):
    print(text, file=sys.stderr, flush=True)


def brisk(stage, *words, check=True, timeout=900):
    """A command of the program, and what it printed."""
    command = [stage.brisk, *[str(word) for word in words]]
    done = subprocess.run(command, cwd=stage.folder, capture_output=True, text=True, timeout=timeout)
    if check and done.returncode not in (0, 2, 3):
        raise Refused(f"`brisk {' '.join(command[1:])}` failed:\n{done.stderr.strip()}")
    return done.stdout + done.stderr


def look(target):
    """Asks once, so that scripts are compiled and caches warm, and refuses to measure a page that is not the right one."""
    fields = [after for word, after in zip(target.options, target.options[1:]) if word == "-H"]
    fields += [f"Cookie: {after}" for word, after in zip(target.options, target.options[1:]) if word == "-b"]
    request = urllib.request.Request(target.url, headers=dict(line.split(": ", 1) for line in fields))
    # Certificates of an experiment are its own.
    context = ssl._create_unverified_context()
    try:
        with urllib.request.urlopen(request, timeout=LOOK_SECONDS_MAX, context=context) as answer:
            status, body = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, body = error.code, error.read()
    except OSError as error:
        raise Refused(f"{target.url} does not answer: {error}") from None
    if status != 200 or target.contains.encode() not in body:
        raise Refused(f"{target.url} gave {status}, not a page with {target.contains!r}:\n{body[:2000]!r}")


def bench(stage, target, *options):
    """One run of `brisk bench` as its JSON, against servers that were just started."""
    warm(stage, target)
    return bench_warm(stage, target, *options)


def warm(stage, target):
    look(target)
    if target.prime:
        brisk(stage, "bench", "-q", "-c", "5", "-n", target.prime, "--timeout", PATIENT_RUN, *target.options, target.url)


def bench_warm(stage, target, *options):
    """The same where they have answered before. A run in which nobody was done yet is made again, longer."""
    for more in ([], ["-d", PATIENT_RUN, "--timeout", PATIENT_RUN]):
        run = bench_once(stage, target, [*options, *more])
        parts = run.get("runs", [run])
        failed = {kind: count for part in parts for kind, count in part["errors"].items() if count}
        statuses = {status: count for part in parts for status, count in part["statuses"].items()}
        # Nobody answered as he should: a figure of that would be a lie.
        if any(part["good_responses_per_second"] > 0 for part in parts):
            stage.foreign += [of_others(part) for part in parts]
            return run
        if failed or statuses:
            break
    raise Refused(f"{target.url} gave no good response: statuses {statuses}, errors {failed}")


def of_others(run):
    """How many CPUs were used by processes that are no part of the experiment."""
    ours = run["generator_cpu_share"] + sum(tier["cpus"] or 0 for tier in run.get("tiers", {}).values())
    machine = run.get("machine") or {}
    return max(0, machine["busy_share"] * machine["cpus"] - ours) if "cpus" in machine else 0


def bench_once(stage, target, options):
    file = stage.folder / "run.json"
    if file.exists():
        file.unlink()
    watch = ["--watch", ",".join(f"{tier}={pid}" for tier, pid in target.tiers.items())] if target.tiers else []
    said = brisk(stage, "bench", "-q", *watch, *target.options, *options, f"--json={file}", target.url)
    if not file.exists():
        raise Refused(f"`brisk bench {target.url}` left no figures:\n{said.strip()}")
    return json.loads(file.read_text())


def rounds(stage, settings, advices, options, until, count=ROUNDS_OF_ALL, seed=1):
    """`count` rounds of all settings, in an order of each round's own, then of those that decide what is undecided.

    Servers are started anew for each round. Of the pairs that are not decided, the one goes first that probably needs the
    fewest rounds more, and with it, where servers may run beside each other, those that need not many more; no round is begun that
    would not be over at `until` (of time.monotonic).
    """
    results, order = Results(settings), random.Random(seed)
    by_key = {setting.key: setting for setting in settings}
    if until > time.monotonic() and all(setting.stands_beside for setting in settings):
        count = min(count, ROUNDS_BEFORE_SLICES)
    for number in range(count):
        one_round(stage, results, settings, order, options, f"round {number + 1} of {count}")
    longest, spent = 0, {one_round: 0.0, sliced_round: 0.0}
    while True:
        found = list(zip(advices, advice.verdicts(results, advices)))
        undecided = [one for one, said in found if said.word == "undecided"]
        # What has no verdict at all yet comes first.
        unjudged = [one for one, said in found if said.rounds < stats.ROUNDS_JUDGED_MIN]
        if not undecided or time.monotonic() + longest > until:
            return results
        noise = advice.noises(results, advices)
        missing = {one: one.rounds_missing(results, noise[one.by]) for one in unjudged or undecided}
        began = time.monotonic()
        in_slices = {one: rounds_ for one, rounds_ in missing.items() if may_be_sliced(one, by_key)}
        alone = {one: rounds_ for one, rounds_ in missing.items() if one not in in_slices}
        # Both kinds have as much of the time where both are wanted.
        takes_slices = not alone or in_slices and spent[sliced_round] <= spent[one_round]
        measure, chosen = (sliced_round, near(in_slices)) if takes_slices else (one_round, [min(alone, key=alone.get)])
        keys = dict.fromkeys(key for one in chosen for key in one.keys)
        measure(stage, results, [by_key[key] for key in keys], order, options, f"{len(undecided)} undecided")
        spent[measure] += time.monotonic() - began
        longest = max(longest, time.monotonic() - began)


def near(missing):
    """Of these advices, by the rounds that each probably needs, those that are worth a turn now."""
    most = max(NEAR_ROUNDS, NEAR_TIMES * min(missing.values()))
    return [one for one, rounds_ in missing.items() if rounds_ <= most]


def may_be_sliced(one, by_key):
    """Whether its settings' servers may run beside each other, and what decides can be seen then."""
    return all(by_key[key].stands_beside for key in one.keys) and not one.by.startswith("memory")


def slice_options(rate, target, options):
    """The options of a slice of a setting that makes so many requests per second."""
    left_out = {at + more for at, word in enumerate(options) if word in ("-w", "-d") for more in (0, 1)}
    kept = [word for at, word in enumerate(options) if at not in left_out]
    if rate >= TIMED_RATE_MIN:
        return [*kept, "-w", SLICE_WARM_UP, "-d", SLICE]
    words = [*target.options, *options]
    users = int(next(after for word, after in zip(words, words[1:]) if word == "-c"))
    return [*kept, "-n", max(SLICE_REQUESTS * users, round(rate * SLICE_SECONDS))]


def one_round(stage, results, settings, order, options, where):
    shuffled = list(settings)
    order.shuffle(shuffled)
    results.begin_round()
    for setting in shuffled:
        with stage.scope():
            run = bench(stage, setting.up(stage), *options)
        results.runs[setting.key][-1] = [run]
        say(f"  {where}: {setting.label}: {FIGURES['rate'](run):.1f}/s")


def sliced_round(stage, results, settings, order, options, where):
    """All of these settings' servers at once, asked in turns: A B C, C B A."""
    turn = list(settings)
    order.shuffle(turn)
    rates = {setting.key: results.typical(setting.key) for setting in settings}
    results.begin_round()
    with stage.scope():
        targets = {setting.key: setting.up(stage) for setting in settings}
        for target in targets.values():
            warm(stage, target)
        for _ in range(SLICES):
            for setting in turn:
                target = targets[setting.key]
                run = bench_warm(stage, target, *slice_options(rates[setting.key], target, options))
                results.runs[setting.key][-1] = (results.runs[setting.key][-1] or []) + [run]
            turn.reverse()
    for setting in settings:
        say(f"  {where}: {setting.label}: {results.figures(setting.key)[-1]:.1f}/s")


def load_average():
    return os.getloadavg()[0]
