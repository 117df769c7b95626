"""The page of an experiment: what the article says, what was run, what came of it."""

import datetime
import json
import os
import platform
import statistics
import subprocess

from . import charts, load
from .stage import REPOSITORY


class Page:
    def __init__(self, number, title, intro):
        self.number, self.title = number, title
        self.parts = [intro.strip()]
        # What the charts are drawn from, and what a program may want to read; see write().
        self.charts, self.verdict_rows, self.tables = [], [], []

    def heading(self, text):
        self.parts.append(f"## {text}")

    def text(self, text):
        self.parts.append(text.strip())

    def chart(self, name, kind, title, **what):
        """A chart of its own file; see charts.py for what is given."""
        self.charts.append({"name": name, "kind": kind, "title": title, **what})
        self.parts.append(f"![{title}]({self.number}-{name}.svg)")

    def table(self, head, rows):
        self.tables.append({"head": head, "rows": [[str(cell) for cell in row] for row in rows]})
        lines = [head, ["---"] * len(head), *rows]
        self.parts.append("\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines))

    def verdicts(self, judged, how=""):
        """The table of verdicts below what they come to in short."""
        head, rows = judged
        self.verdict_rows = rows
        self.heading("Advice, and what came of it")
        lines = []
        for word in ("gain", "no gain", "loss", "undecided"):
            found = [row[0] for row in rows if row[-1].word == word]
            if found:
                lines.append(f"- {word.capitalize()}: {'; '.join(dict.fromkeys(found))}.")
        self.parts.append("\n".join(lines))
        if how:
            self.text(how)
        self.table(head, rows)

    def write(self, folder, run):
        """The page, its figures as JSON, and the charts drawn from them; gives the text back."""
        text, made = self.markdown(run), run.describe()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.number}.md").write_text(text)
        verdicts = [
            {"advice": row[0], "setting": row[1], "article": row[2], "figure": row[3], **figures_of(row[4])}
            for row in self.verdict_rows
        ]
        data = {"number": self.number, "title": self.title, "made": made, "verdicts": verdicts}
        data |= {"charts": self.charts, "tables": self.tables}
        (folder / f"{self.number}.json").write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
        for chart in self.charts:
            (folder / f"{self.number}-{chart['name']}.svg").write_text(charts.draw(chart))
        return text

    def markdown(self, run):
        """The whole page; `run` says when, where and how it was made."""
        head = [f"# {self.number}: {self.title}", self.parts[0], run.describe()]
        return "\n\n".join(head + self.parts[1:]) + "\n"


def figures_of(verdict):
    """A verdict for JSON, which has no word for what is no number."""
    figures = {key: value if value == value else None for key, value in vars(verdict).items()}
    return {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in figures.items()}


class Run:
    """When, where, with what and how long."""

    def __init__(self, number, is_quick, built_of=None):
        self.number, self.is_quick, self.built_of = number, is_quick, built_of or commit()
        self.start = datetime.datetime.now(datetime.timezone.utc)
        self.load_before = load.load_average()
        self.versions = []
        self.foreign = []

    def seconds(self):
        return (datetime.datetime.now(datetime.timezone.utc) - self.start).total_seconds()

    def others(self):
        return statistics.median(self.foreign) if self.foreign else 0

    def describe(self):
        command = f"make experiment-{self.number}" + (" QUICK=1" if self.is_quick else "")
        lines = [
            f"Made by `{command}` on {self.start:%Y-%m-%d at %H:%M} UTC in {self.seconds() / 60:.1f} minutes",
            f"on {machine()}, whose load average was {self.load_before:.2f} when it began.",
            f"Others than the experiment used {self.others():.2f} of {os.cpu_count()} CPUs meanwhile (median of the runs).",
            f"Software: {', '.join([*self.versions, f'Brisk {self.built_of}'])}.",
        ]
        if self.is_quick:
            lines.append("**A short look**: too few and too short runs for the verdicts to mean much.")
        return "\n".join(lines)


def machine():
    model = "an unknown processor"
    with open("/proc/cpuinfo") as cpus:
        for line in cpus:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    return f"{model} ({os.cpu_count()} CPUs), {memory:.0f} GiB, {system}, Linux {platform.release()}"


def commit():
    done = subprocess.run(
        ["git", "-C", str(REPOSITORY), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "of no repository"


def number(value, digits=3):
    """1234567 as 1,234,567 and 0.01234 as 0.0123."""
    if value is None:
        return "–"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def percent(share):
    return "0" if share == 0 else f"{share * 100:.2g} %"


def megabytes(value):
    return "–" if value is None else f"{value / 1e6:.1f} MB"


def measured(results, tiers):
    """The table that every experiment has: a row per setting, the article's figure beside ours."""
    head = ["setting", "article", "requests/s", "p50 ms", "p99 ms", "errors"]
    head += [f"{tier}: CPU µs per request" for tier in tiers] + [f"{tier}: memory" for tier in tiers]
    rows = []
    for setting in results.settings:
        key = setting.key
        row = [setting.label, setting.article or "–", number(results.typical(key), 4)]
        row += [number(results.typical(key, "p50")), number(results.typical(key, "p99"))]
        row += [percent(results.typical(key, "errors"))]
        row += [number(results.tier(key, tier, "cpu_us_per_response")) for tier in tiers]
        row += [megabytes(results.tier(key, tier, "pss_bytes")) for tier in tiers]
        rows.append(row)
    return head, rows


def cpu_chart(page, results, tiers, what="CPU per request, by tier"):
    """Bars of the CPU that each tier used for a request."""
    bars = []
    for setting in results.settings:
        parts = [[tier, results.tier(setting.key, tier, "cpu_us_per_response")] for tier in tiers]
        bars.append({"label": plain(setting.label), "parts": [[tier, value] for tier, value in parts if value is not None]})
    page.chart("cpu", "stacked", what, y="CPU µs per request", tiers=used(bars, tiers), bars=bars)


def used(bars, tiers):
    """Those of the tiers that any bar has, in their order."""
    there = {tier for bar in bars for tier, _ in bar["parts"]}
    return [tier for tier in tiers if tier in there]


def plain(label):
    """A label without the marks of Markdown."""
    return label.replace("`", "")


def sweep_series(sweeps, figure, told=()):
    """The curves of sweeps, label → parts of the run; points in which nobody was done have no latency."""
    series = []
    for label, parts in sweeps.items():
        points = [[part["users"], load.FIGURES[figure](part)] for part in parts if load.FIGURES["rate"](part) > 0]
        series.append({"label": plain(label), "points": points})
    return series + [{"label": label, "points": points, "told": True} for label, points in told]


def sweep_charts(page, sweeps, told=(), **scales):
    """Throughput and median latency over the number of users; `told` are the article's points of throughput."""
    rates = sweep_series(sweeps, "rate", told)
    page.chart("throughput", "lines", "Throughput over users", x="users", y="requests/s", series=rates, **scales)
    times = sweep_series(sweeps, "p50")
    scales = {**scales, "y_scale": "log"}
    page.chart("latency", "lines", "Median latency over users", x="users", y="ms", series=times, **scales)
