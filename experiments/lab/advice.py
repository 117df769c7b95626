"""Advice of an article, put to the test: the setting without it, the setting with it, and the verdict."""

from dataclasses import dataclass

from . import stats

# Each figure that may decide: its name in the table, whether more of it is better, and what of it is nothing.
FIGURES = {
    "rate": ("requests/s", True, stats.NOTHING_TIMED),
    "cpu": ("CPU of the server per request", False, stats.NOTHING),
    "cpu of all": ("CPU of all tiers per request", False, stats.NOTHING),
    "memory": ("memory of the server", False, stats.NOTHING),
    "memory of all": ("memory of all tiers", False, stats.NOTHING),
    "p50": ("median latency", False, stats.NOTHING_TIMED),
    "p95": ("95th percentile of latency", False, stats.NOTHING_TIMED),
    "p99": ("99th percentile of latency", False, stats.NOTHING_TIMED),
    "bytes": ("bytes per response", False, stats.NOTHING),
    "at 10 Mbit/s": ("time of a response at 10 Mbit/s, the server's CPU included", False, stats.NOTHING),
}


@dataclass(frozen=True)
class Advice:
    """`without` and `with_it` are keys of settings; `by` is the figure that decides."""

    advice: str
    setting: str
    article: str
    without: str
    with_it: str
    by: str = "rate"

    @property
    def keys(self):
        return self.without, self.with_it

    def verdict(self, results, noise=stats.Noise()):
        before, after = self.figures(results)
        _, more_is_better, nothing = FIGURES[self.by]
        return stats.verdict(before, after, more_is_better, nothing, noise)

    def rounds_missing(self, results, noise=stats.Noise()):
        before, after = self.figures(results)
        return stats.rounds_missing(before, after, FIGURES[self.by][2], noise)

    def figures(self, results):
        return [results.figures(self.without, self.by, self.with_it), results.figures(self.with_it, self.by, self.without)]


def noises(results, advices):
    """The noise of each figure that decides, over all pairs that it decides."""
    by_figure = {by: [one.figures(results) for one in advices if one.by == by] for by in {one.by for one in advices}}
    return {by: stats.noise_of(pairs) for by, pairs in by_figure.items()}


def verdicts(results, advices):
    """A verdict on each."""
    noise = noises(results, advices)
    return [one.verdict(results, noise[one.by]) for one in advices]


def judged(results, advices):
    """Head and rows of the table of verdicts."""
    found = verdicts(results, advices)
    rows = [[one.advice, one.setting, one.article, FIGURES[one.by][0], said] for one, said in zip(advices, found)]
    return ["advice", "setting", "the article", "figure", "measured here (with 95 % confidence)"], rows
