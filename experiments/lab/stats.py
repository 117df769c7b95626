"""From the figures of rounds to a verdict.

Every round measures every setting once, in an order of its own. A setting is compared with another by the ratios of
their figures within each round, so that what disturbs a round disturbs both.
"""

import math
import statistics
from dataclasses import dataclass

# Two-sided 95 % of Student's t by degrees of freedom; beyond the table it is 2.
T95 = [math.nan, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145]
# Less than this is nothing that anybody would change a configuration for.
NOTHING = 0.03


@dataclass
class Verdict:
    """What a setting does to a figure: the ratio to the other setting's, and where it lies with 95 % confidence."""

    word: str
    ratio: float
    low: float
    high: float

    def __str__(self):
        return f"**{self.word}** {change(self.ratio)} ({change(self.low)} … {change(self.high)})"


def change(ratio):
    """1.1 as +10 %, 12 as ×12 and 1/12 as ÷12: nobody reads +1100 %, or −91.7 %."""
    if ratio >= 3:
        return f"×{ratio:.3g}"
    if ratio <= 1 / 3:
        return f"÷{1 / ratio:.3g}"
    text = f"{(ratio - 1) * 100:+.1f}"
    return (text if text not in ("-0.0", "+0.0") else "0.0").replace("-", "−") + " %"


def verdict(before, after, more_is_better=True):
    """Whether `after` is a gain on `before`; both are lists of one figure per round, in the same order of rounds."""
    logs = [math.log(b / a) for a, b in zip(before, after) if a > 0 and b > 0]
    if len(logs) < 2:
        return Verdict("undecided", math.nan, math.nan, math.nan)
    mean = statistics.fmean(logs)
    t = T95[len(logs) - 1] if len(logs) <= len(T95) else 2.0
    half = t * statistics.stdev(logs) / math.sqrt(len(logs))
    low, high = mean - half, mean + half
    better, worse = (low > 0, high < 0) if more_is_better else (high < 0, low > 0)
    if low > math.log(1 - NOTHING) and high < math.log(1 + NOTHING):
        word = "no gain"
    elif better:
        word = "gain"
    elif worse:
        word = "loss"
    else:
        word = "undecided"
    return Verdict(word, math.exp(mean), math.exp(low), math.exp(high))
