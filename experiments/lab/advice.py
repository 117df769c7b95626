"""Advice of an article, put to the test: the setting without it, the setting with it, and the verdict."""

from dataclasses import dataclass

from . import stats

# Each figure that may decide: its name in the table, and whether more of it is better.
FIGURES = {
    "rate": ("requests/s", True),
    "cpu": ("CPU of the server per request", False),
    "cpu of all": ("CPU of all tiers per request", False),
    "memory": ("memory of the server", False),
    "memory of all": ("memory of all tiers", False),
    "p50": ("median latency", False),
    "p95": ("95th percentile of latency", False),
    "p99": ("99th percentile of latency", False),
}


@dataclass
class Advice:
    """`without` and `with_it` are keys of settings; `by` is the figure that decides."""

    advice: str
    setting: str
    article: str
    without: str
    with_it: str
    by: str = "rate"


def judged(results, advices):
    """Head and rows of the table of verdicts."""
    rows = []
    for advice in advices:
        before, after = (results.figures(key, advice.by) for key in (advice.without, advice.with_it))
        name, more_is_better = FIGURES[advice.by]
        verdict = stats.verdict(before, after, more_is_better)
        rows.append([advice.advice, advice.setting, advice.article, name, verdict])
    return ["advice", "setting", "the article", "figure", "measured here (with 95 % confidence)"], rows
