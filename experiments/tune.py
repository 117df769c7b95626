#!/usr/bin/env python3
"""What the articles did by hand, what `brisk tune` finds, and the best of a sweep, side by side: tune.py [--apps bank,gallery,wordpress]
[--servers nginx,apache,brisk] [--children 2,200] [--minutes M] [--again] [--quick] [--brisk PROGRAM] [--out FOLDER]
tune.py --articles [000,001,002,003,004] …

Each application starts badly set up: too few PHP processes or far too many, no OPcache, no keep-alive, 8 MiB for the database's data. `brisk tune` searches on
a copy. Then the sweep looks at 81 settings of the programs themselves: three values each of processes, OPcache, keep-alive and the database's buffer pool. What the sweep of the same
application and server from another start has measured is not measured again. Then the start, the settings of the articles, those that were found and the sweep's two best (two of today's and two of an
earlier day's, where it was swept on both) are measured in turn. Needs root. What an earlier run has in FOLDER/tune.json stays unless --again says so; its sweep stays in any case. --quick takes three minutes for the first case only, without a sweep, and proves little.

--articles begins where each article begins, on nginx, and measures the start, what the article ends with, and what `brisk tune --allow correctness` finds:
FOLDER/tune-articles.json and .md.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

from lab import articles, examples, load, stage  # noqa: E402
from lab.case import APPS, USERS, Case  # noqa: E402
from lab.load import Setting  # noqa: E402

# What the articles gained by hand.
ARTICLES = {
    "bank": "000: children 5 → 12: +25 %",
    "gallery": "001: static in place of dynamic: +20 %",
    "wordpress": "003: OPcache: 12.89 → 35.36/s",
}
HEADING = """# What `brisk tune` finds

Applications that were set up badly: the articles' settings, what `brisk tune` finds on a copy, and the best of 81 settings (three values each of processes, OPcache, keep-alive and the
database's buffer pool), measured in turn on the programs themselves. `make experiment-tune` makes this page; tune.json has all rates.

"""
ARTICLES_HEADING = """# What the articles did by hand, and what `brisk tune` finds

Each article's site as it begins, on nginx; what the article ends with; and what `brisk tune --allow correctness` finds on a copy, measured in turn, five times.
`python3 experiments/tune.py --articles` makes this page; tune-articles.json has all figures.

"""
# How long each point of the sweep is measured, and how many of the best go on.
SWEEP_SLICE = "2s"
SWEEP_BEST = 2
# Where programs that were just started have other settings for their best than those that run on, as the tuner's do.
WARMUPS = {"gallery": "12s"}


def sweep(here, case, known):
    """The rate of each of the 81 settings, in one measurement each; `known`: rates of another start's sweep, which has two thirds of the settings, too."""
    rates = {name: known[name] for name in case.sweep() if name in known}
    names = [name for name in case.sweep() if name not in rates]
    texts = [case.versions[name][case.mysql()] for name in names]
    for text in dict.fromkeys(texts):
        # Settings of the same database share its start.
        with here.scope():
            case.mysql().write_text(text)
            database = case.database()
            for name in [name for name, other in zip(names, texts) if other == text]:
                with here.scope():
                    run = load.bench(here, case.up(name, database)(here), "-c", USERS, "-d", SWEEP_SLICE)
                rates[name] = load.FIGURES["rate"](run)
    return rates


def carry_out(here, app, server, children, known, options):
    """One line of the table, with all that it is made of; `known`: rates of settings of the same application and server."""
    case = Case(here, app, server, children)
    load.say(f"{case.name}: searching for {options.minutes:g} minutes")
    found = case.tune(options.brisk, options.minutes)
    load.say(f"{case.name}: {'; '.join(step(one) for one in found['steps']) or found.get('stopped')}")
    began = time.monotonic()
    swept = {} if options.quick else sweep(here, case, known)
    # Rates of an earlier day are not of this day's machine: the best of both go on.
    fresh, old = [name for name in swept if name not in known], [name for name in swept if name in known]
    best = [name for names in (fresh, old) for name in sorted(names, key=swept.get, reverse=True)[:SWEEP_BEST]]
    load.say(f"{case.name}: {len(swept)} settings in {(time.monotonic() - began) / 60:.1f} minutes; best: {'; '.join(best)}")
    settings = [Setting(version, version, case.up(version)) for version in ["start", "hand", "tuner", *best]]
    seconds, rounds = ("2s", 2) if options.quick else ("5s", 5)
    words = ["-c", USERS, "-d", seconds, "-w", WARMUPS.get(app.name, "0s")]
    measured = load.rounds(here, settings, [], words, 0, count=rounds)
    rates = {setting.key: measured.typical(setting.key) for setting in settings}
    # The articles' settings are one of the 81.
    best = max([*best, "hand"], key=rates.get)
    return {
        "app": app.name,
        "server": server,
        "children": children,
        "article": ARTICLES[app.name],
        "limit": found["limit"],
        "rates": rates,
        "sweep": swept,
        "best": best,
        "share": (rates["tuner"] - rates["start"]) / max(rates[best] - rates["start"], 1e-9),
        # Without its raw pairs, which are many.
        "found": {key: found[key] for key in ("steps", "minutes", "slices", "stopped") if key in found},
    }


def article(here, one, options):
    """One article's line: where it begins, what it does by hand, what the tuner finds."""
    with articles.case(here, one) as case:
        load.say(f"{case.name}: searching for {options.minutes:g} minutes")
        found = case.tune(options.brisk, options.minutes)
        load.say(f"{case.name}: {'; '.join(step(one) for one in found['steps']) or found.get('stopped')}")
        settings = [Setting(version, version, case.up(version)) for version in ["start", "hand", "tuner"]]
        measured = load.rounds(here, settings, [], ["-c", USERS, "-d", "5s"], 0, count=5)
        return {
            "article": one.number,
            "limit": found["limit"],
            "rates": {setting.key: measured.typical(setting.key) for setting in settings},
            "found": {key: found[key] for key in ("steps", "minutes", "slices", "stopped") if key in found},
        }


def articles_table(lines):
    """Article, hand and tuner side by side; below it the steps of each."""
    by_number = {one.number: one for one in articles.ARTICLES}
    text = ["| article | by hand | gained there | start | by hand, here | tuner | the tuner changed | minutes |"]
    text.append("|---|---|---|--:|--:|--:|---|--:|")
    for line in lines:
        one, rates, found = by_number[line["article"]], line["rates"], line["found"]
        changed = [f"`{it['knob']}` {it['from']} → {it['to']}" for it in found["steps"] if it["verdict"] == "kept"]
        text.append(
            f"| {one.number} | {one.by_hand} | {one.gain} | {rates['start']:.1f}/s | {rates['hand']:.1f}/s | {rates['tuner']:.1f}/s "
            f"| {', '.join(changed) or 'nothing'} | {found['minutes']:.1f} |"
        )
    text.append("")
    for line in lines:
        tried = "; ".join(step(one) for one in line["found"]["steps"]) or line["found"].get("stopped") or "nothing was tried"
        text.append(f"- {line['article']}: the limit is `{line['limit']['cause']}`. {tried}.")
    return "\n".join(text) + "\n"


def run_articles(here, options):
    """Measures the articles that are asked for, beside what FOLDER/tune-articles.json has of others."""
    file = options.out / "tune-articles.json"
    lines = json.loads(file.read_text()) if file.exists() else []
    for one in [one for one in articles.ARTICLES if one.number in options.articles]:
        lines = [line for line in lines if line["article"] != one.number] + [article(here, one, options)]
        lines.sort(key=lambda line: line["article"])
        file.write_text(json.dumps(lines, indent=1) + "\n")
        (options.out / "tune-articles.md").write_text(ARTICLES_HEADING + articles_table(lines))
    print(articles_table(lines))


def step(one):
    if one["verdict"] == "proposal":
        return f"{one['knob']}: proposal"
    words = f"{one['knob']} {one['from']} → {one['to']}: {one['verdict']}"
    if one.get("together"):
        words += f" together with {', '.join(one['together'])}"
    if one["ratio"] is None or one["low"] is None or one["high"] is None:
        return words
    low, high = (one["low"] - 1) * 100, (one["high"] - 1) * 100
    return f"{words} ({low:+.0f} to {high:+.0f} % cost)"


def table(lines):
    """As it stands in docs/tuning.md; below it the steps of each line."""
    head = "| application | server | processes at first | the article | start | by hand | tuner | best of the sweep | of its gain | minutes |"
    text = [head, "|---|---|--:|---|--:|--:|--:|--:|--:|--:|"]
    for line in lines:
        rates, found = line["rates"], line["found"]
        text.append(
            f"| {line['app']} | {line['server']} | {line['children']} | {line['article']} | {rates['start']:.1f}/s | {rates['hand']:.1f}/s "
            f"| {rates['tuner']:.1f}/s | {rates[line['best']]:.1f}/s | {line['share'] * 100:.0f} % | {found['minutes']:.1f} |"
        )
    text.append("")
    for line in lines:
        best = "the articles' settings" if line["best"] == "hand" else line["best"]
        tried = "; ".join(step(one) for one in line["found"]["steps"]) or line["found"].get("stopped") or "nothing was tried"
        text.append(
            f"- {line['app']} on {line['server']} from {line['children']} processes: the limit is `{line['limit']['cause']}`. {tried}. "
            f"Best of the sweep: {best}."
        )
    return "\n".join(text) + "\n"


def arguments():
    def words(kind, known):
        def read(text):
            found = [kind(word) for word in text.split(",")]
            unknown = [word for word in found if known and word not in known]
            if unknown:
                raise argparse.ArgumentTypeError(f"{unknown[0]} is none of {', '.join(known)}")
            return found

        return read

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--apps", type=words(str, list(APPS)), default=list(APPS))
    parser.add_argument("--servers", type=words(str, ["nginx", "apache", "brisk"]), default=["nginx", "apache", "brisk"])
    parser.add_argument("--children", type=words(int, None), default=[2, 200])
    parser.add_argument("--minutes", type=float, default=20, help="what each search may take [20]")
    parser.add_argument("--again", action="store_true", help="measure again what FOLDER/tune.json has")
    numbers = [one.number for one in articles.ARTICLES]
    parser.add_argument("--articles", type=words(str, numbers), nargs="?", const=numbers, help="the articles' own settings")
    parser.add_argument("--quick", action="store_true", help="three minutes for the first case only")
    parser.add_argument("--brisk", default=os.environ.get("BRISK") or HERE.parent / "target/release/brisk")
    parser.add_argument("--out", type=Path, help="the folder of tune.json and tune.md [docs/experiments; with --quick: target/experiments]")
    options = parser.parse_args()
    options.out = options.out or HERE.parent / ("target/experiments" if options.quick else "docs/experiments")
    return options


def cases(options):
    all_cases = [(app, server, count) for app in options.apps for server in options.servers for count in options.children]
    return all_cases[:1] if options.quick else all_cases


def name_of(line):
    return line["app"], line["server"], line["children"]


def swept_before(lines, app, server):
    """The rates of the settings of this application on this server that an earlier line holds."""
    return {name: rate for line in lines if name_of(line)[:2] == (app, server) for name, rate in line["sweep"].items()}


def earlier(options):
    """The lines of an earlier run, and those of them that are not to be measured again."""
    file = options.out / "tune.json"
    lines = json.loads(file.read_text()) if file.exists() else []
    wanted = cases(options) if options.again or options.quick else []
    return lines, [line for line in lines if name_of(line) not in wanted]


def main():
    options = arguments()
    if os.getuid() != 0:
        sys.exit("tune.py: run it as root: the tuner's copy needs namespaces of its own")
    options.brisk = str(Path(options.brisk).resolve())
    options.minutes = 3 if options.quick else options.minutes
    options.out.mkdir(parents=True, exist_ok=True)
    before, lines = earlier(options)
    there = [name_of(line) for line in lines]
    try:
        with stage.Stage(options.brisk, minutes=60 * 24) as here:
            if options.articles:
                run_articles(here, options)
                return
            for name, server, children in [case for case in cases(options) if case not in there]:
                with examples.application(name) as app:
                    # The database is the case's, with an option file of its own.
                    app.script("down")
                    lines.append(carry_out(here, app, server, children, swept_before(before + lines, name, server), options))
                # What is there so far counts, whatever ends it.
                lines.sort(key=lambda line: (list(APPS).index(line["app"]), *name_of(line)[1:]))
                (options.out / "tune.json").write_text(json.dumps(lines, indent=1) + "\n")
                (options.out / "tune.md").write_text(HEADING + table(lines))
    except stage.Refused as refusal:
        sys.exit(f"tune.py: {refusal}")
    print(table(lines))


if __name__ == "__main__":
    main()
