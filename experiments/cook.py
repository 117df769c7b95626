#!/usr/bin/env python3
"""Measures the cookbook's advice and fills its pages: cook.py [RECIPE…] [--minutes M] [--brisk PROGRAM]

Figures go into docs/cookbook/figures.json, recipe by recipe, and from there into the pages, between the marks
`<!-- figures -->` and `<!-- end of figures -->`. --pages only fills the pages. What a page tells to run is run, too, shortened.
"""

import argparse
import datetime
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

import run as experiments  # noqa: E402
from cookbook import recipes, scenes  # noqa: E402
from lab import load, page, servers, stage, stats  # noqa: E402
from lab.advice import FIGURES, Advice  # noqa: E402
from lab.load import Setting  # noqa: E402

PAGES = HERE.parent / "docs/cookbook"
DATA = PAGES / "figures.json"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
# How a figure is called and written in the tables.
SHOWN = {
    "rate": ("requests/s", lambda value: page.number(value, 4)),
    "p50": ("p50 ms", page.number),
    "p95": ("p95 ms", page.number),
    "p99": ("p99 ms", page.number),
    "errors": ("errors", page.percent),
    "cpu": ("server: CPU µs per request", page.number),
    "cpu of all": ("all tiers: CPU µs per request", page.number),
    "memory": ("server: memory", page.megabytes),
    "memory of all": ("all tiers: memory", page.megabytes),
    "bytes": ("bytes per response", lambda value: f"{value:,.0f}"),
    "at 10 Mbit/s": ("ms at 10 Mbit/s", page.number),
}
# A page's command is tried with the two servers in the places of these addresses, and shortened by these words.
PLACES = {
    "http://127.0.0.1:8080/": 0,
    "http://127.0.0.1:8081/": 1,
    "https://127.0.0.1:8443/": 0,
    "https://127.0.0.1:8444/": 1,
}


def arguments():
    names = [recipe.name for recipe in recipes.RECIPES]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="RECIPE", help="which [all]: " + ", ".join(names))
    parser.add_argument("--minutes", type=float, default=2, help="for each recipe [2]")
    parser.add_argument("--brisk", default=os.environ.get("BRISK"), help="the program [target/release/brisk]")
    parser.add_argument("--commit", help="what the program was built of [the repository's HEAD]")
    parser.add_argument("--pages", action="store_true", help="only fill the pages from the figures that are there")
    options = parser.parse_args()
    unknown = set(options.names) - set(names)
    if unknown:
        parser.error(f"no recipe is called {unknown.pop()}")
    return options


def settings_of(recipe):
    """Both settings of each side, and what compares them."""
    rows, advices = [], []
    for number, side in enumerate(recipe.sides):
        for which, site in (("without", side.without), ("with", side.with_it)):
            label = f"{recipe.name}: {side.name()}, {which}"
            # What is done before may need a place that there is once.
            is_free = site.before is None
            rows.append(Setting(f"{number} {which}", label, scenes.on(side.server, site), stands_beside=is_free))
        advices.append(Advice(side.name(), side.line, "–", f"{number} without", f"{number} with", recipe.show[0]))
    return rows, advices


def measure(here, recipe, minutes, commit):
    """A recipe's entry in figures.json."""
    began, before = datetime.datetime.now(datetime.timezone.utc), load.load_average()
    here.foreign = []
    rows, advices = settings_of(recipe)
    results = load.rounds(here, rows, advices, recipe.load, time.monotonic() + minutes * 60)
    sides = []
    for number, (side, advice) in enumerate(zip(recipe.sides, advices)):
        entry = {"server": side.name(), "verdict": page.figures_of(advice.verdict(results))}
        for which in ("without", "with"):
            entry[which] = {figure: rounded(results.typical(f"{number} {which}", figure)) for figure in recipe.show}
        sides.append(entry)
    others = sorted(here.foreign)[len(here.foreign) // 2]
    made = {
        "at": f"{began:%Y-%m-%d %H:%M} UTC",
        "commit": commit,
        "load_before": round(before, 2),
        "others": round(others, 2),
    }
    return {"made": made, "heads": list(recipe.heads), "figures": recipe.show, "sides": sides}


def rounded(value):
    return value if value is None else float(f"{value:.4g}")


def table(entry):
    """The figures of a recipe as its page shows them."""
    without, with_it = entry["heads"]
    names = [SHOWN[figure][0] for figure in entry["figures"]]
    head = ["server"] + [f"{name}: {which}" for name in names for which in (without, with_it)]
    head.append(f"{names[0].split(': ')[-1]}, with 95 % confidence")
    rows = []
    for side in entry["sides"]:
        cells = [
            SHOWN[figure][1](side[which][figure]) if side[which][figure] is not None else "–"
            for figure in entry["figures"]
            for which in ("without", "with")
        ]
        verdict = {key: value if value is not None else float("nan") for key, value in side["verdict"].items()}
        rows.append([side["server"], *cells, str(stats.Verdict(**verdict))])
    lines = [head, ["---"] * len(head), *rows]
    made = entry["made"]
    said = (
        f"{made['at']}, Brisk {made['commit']}; load average before {made['load_before']}, "
        f"{made['others']} CPUs used by others meanwhile."
    )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n\n" + said


def filled(text, entry):
    """A page with its figures between the marks."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"a page needs {BEGIN} and {END}, once each")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table(entry)}\n{END}{rest.split(END)[1]}"


def commands_of(text):
    """What a page tells to run: the lines of its blocks of `sh`, continued ones joined."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.S)
    return [line.strip() for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.strip()]


def try_commands(here, recipe, text):
    """Runs the page's commands on both settings of the recipe's last side, each for a moment."""
    side = recipe.sides[-1]
    tried = []
    with here.scope():
        targets = [scenes.on(side.server, site)(here) for site in (side.without, side.with_it)]
        for line in commands_of(text):
            words = [placed(word, targets) for word in shlex.split(line)]
            if words[0] != "brisk":
                raise stage.Refused(f"{recipe.name}: only commands of brisk are tried, not {line!r}")
            words = [here.brisk, *shortened(words[1:])]
            done = subprocess.run(words, cwd=here.folder, capture_output=True, text=True, timeout=120)
            if done.returncode not in (0, 2):
                raise stage.Refused(f"{recipe.name}: `{line}` gave {done.returncode}:\n{done.stdout}{done.stderr}")
            tried.append({"command": line, "code": done.returncode})
    return tried


def placed(word, targets):
    for address, which in PLACES.items():
        port = address.strip("/").split(":")[2]
        word = word.replace(f"port:{port}", f"port:{targets[which].url.split(':')[2].split('/')[0]}")
    for address, which in PLACES.items():
        if word.startswith(address):
            base = "/".join(targets[which].url.split("/")[:3])
            rest = word.removeprefix(address)
            return f"{base}/{rest}" if rest else targets[which].url
    return word


def shortened(words):
    """The same for a moment: fewer pairs, shorter runs."""
    if words[:2] == ["bench", "compare"]:
        return ["bench", "compare", "--pairs", "6", "-d", "200ms", "-w", "50ms", *without_times(words[2:])]
    return [
        *words[:1],
        *(["-d", "300ms"] if words[0] == "bench" and "page" not in words[:2] else []),
        *without_times(words[1:]),
    ]


def without_times(words):
    kept, skip = [], False
    for word in words:
        if skip or word in ("-d", "--pairs", "-w"):
            skip = not skip
            continue
        kept.append(word)
    return kept


def store(data):
    """Writes the figures, in the order of the recipes."""
    ordered = {one.name: data[one.name] for one in recipes.RECIPES if one.name in data}
    DATA.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")


def fill_pages(data):
    for name, entry in data.items():
        path = PAGES / f"{name}.md"
        if path.exists():
            path.write_text(filled(path.read_text(), entry))


def main():
    options = arguments()
    data = json.loads(DATA.read_text()) if DATA.exists() else {}
    if not options.pages:
        commit = options.commit or page.commit()
        chosen = [recipe for recipe in recipes.RECIPES if not options.names or recipe.name in options.names]
        failed = []
        with stage.Stage(experiments.find_brisk(options.brisk)) as here:
            servers.versions("nginx", "Apache", "PHP")
            scenes.files(here)
            for recipe in chosen:
                try:
                    entry = measure(here, recipe, options.minutes, commit)
                    text = PAGES / f"{recipe.name}.md"
                    if text.exists():
                        entry["tried"] = try_commands(here, recipe, text.read_text())
                except (stage.Refused, subprocess.SubprocessError, RuntimeError) as problem:
                    failed.append(recipe.name)
                    print(f"{recipe.name}: {problem}", file=sys.stderr)
                    continue
                data[recipe.name] = entry
                store(data)
    fill_pages(data)
    if not options.pages and failed:
        sys.exit(f"not measured: {', '.join(failed)}")


if __name__ == "__main__":
    main()
