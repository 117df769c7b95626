"""From the figures of rounds to a verdict.

Every round measures settings once each, in an order of its own. A setting is compared with another by the ratios of
their figures within each round, so that what disturbs a round disturbs both. The same pair is looked at again after further
rounds until it is decided: the intervals are wide enough for all looks together.
"""

import math
import statistics
from dataclasses import dataclass

# The level of one look. Twenty looks at growing data, each at this level, err together in fewer than 5 of 100 cases
# (test_many_looks_err_as_rarely_as_they_say): the intervals are called 95 %.
LOOK_LEVEL = 0.007
ONE_LOOK = 0.05
# Less than this is nothing that anybody would change a configuration for: 3 % of CPU or memory, 5 % of a rate or a time.
NOTHING = 0.03
NOTHING_TIMED = 0.05
# From here on a change is said as a factor.
FACTOR = 3
ROUNDS_JUDGED_MIN = 3


@dataclass
class Verdict:
    """What a setting does to a figure: the ratio to the other setting's, and where it lies with 95 % confidence."""

    word: str
    ratio: float
    low: float
    high: float
    rounds: int = 0

    def __str__(self):
        if math.isnan(self.ratio):
            return f"**{self.word}**: too few rounds"
        say = notation(self.ratio, self.low, self.high)
        return f"**{self.word}** {say(self.ratio)} ({say(self.low)} … {say(self.high)})"


def notation(*ratios):
    """How these ratios are said, all in the same way: 1.1 as +10 %, or, if one of them is large, 12 as ×12 and 1/12 as ÷12."""
    if all(1 / FACTOR < ratio < FACTOR for ratio in ratios):
        return in_percent
    return divided if ratios[0] < 1 else times


def in_percent(ratio):
    text = f"{(ratio - 1) * 100:+.1f}"
    return (text if text not in ("-0.0", "+0.0") else "0.0").replace("-", "−") + " %"


def times(ratio):
    return "×" + short(ratio)


def divided(ratio):
    return "÷" + short(1 / ratio)


def short(value):
    """Three digits that mean something: 1,630 and 12.3 and 0.91."""
    if value >= 1000:
        digits = 3 - len(str(int(value)))
        return f"{round(value, digits):,.0f}"
    return f"{value:.3g}"


def student(level, freedom):
    """Two-sided quantile of Student's t: Hill's algorithm 396 (CACM 13, 1970); six digits from 3 degrees of freedom on."""
    if freedom == 1:
        return 1 / math.tan(level * math.pi / 2)
    if freedom == 2:
        return math.sqrt(2 / (level * (2 - level)) - 2)
    a = 1 / (freedom - 0.5)
    b = 48 / a**2
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * math.sqrt(a * math.pi / 2) * freedom
    y = (d * level) ** (2 / freedom)
    if y > 0.05 + a:
        x = statistics.NormalDist().inv_cdf(level / 2)
        y = x * x
        if freedom < 5:
            c += 0.3 * (freedom - 4.5) * (x + 0.6)
        c = (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b + c
        y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x
        y = math.expm1(a * y * y)
    else:
        y = (
            (1 / (((freedom + 6) / (freedom * y) - 0.089 * d - 0.822) * (freedom + 2) * 3) + 0.5 / (freedom + 4)) * y - 1
        ) * ((freedom + 1) / (freedom + 2)) + 1 / y
    return math.sqrt(freedom * y)


@dataclass(frozen=True)
class Noise:
    """How far rounds scatter where several pairs are measured alike: a variance, and how many degrees of freedom it is worth.

    A pair of three rounds says little about its own scatter. What it says is averaged with this, each by its degrees of freedom
    (Smyth 2004, moderated t): where pairs scatter alike a verdict needs few rounds, where they do not each is judged by itself.
    """

    variance: float = 0.0
    freedom: float = 0.0

    def moderated(self, logs):
        """Variance and degrees of freedom for a pair with these logarithms."""
        own = len(logs) - 1
        freedom = self.freedom + own
        return (self.freedom * self.variance + own * statistics.variance(logs)) / freedom, freedom


# Fewer pairs do not show how much their scatter differs.
NOISE_PAIRS_MIN = 5
# However alike they look: a page has a dozen pairs, not hundreds.
NOISE_FREEDOM_MAX = 20


def noise_of(pairs):
    """The common noise of pairs of figures, `(before, after)` each; none of it where they are few, or scatter too differently."""
    samples = [logs_of(before, after) for before, after in pairs]
    samples = [(statistics.variance(logs), len(logs) - 1) for logs in samples if len(logs) >= ROUNDS_JUDGED_MIN]
    samples = [(variance, freedom) for variance, freedom in samples if variance > 0]
    if len(samples) < NOISE_PAIRS_MIN:
        return Noise()
    # The moments of ln s² under a scaled F distribution.
    middles = [math.log(variance) - digamma(freedom / 2) + math.log(freedom / 2) for variance, freedom in samples]
    beyond = statistics.variance(middles) - statistics.fmean(trigamma(freedom / 2) for _, freedom in samples)
    middle = statistics.fmean(middles)
    if beyond <= trigamma(NOISE_FREEDOM_MAX / 2):
        return Noise(math.exp(middle), NOISE_FREEDOM_MAX)
    freedom = 2 * trigamma_inverse(beyond)
    return Noise(math.exp(middle + digamma(freedom / 2) - math.log(freedom / 2)), freedom)


def digamma(x):
    """The derivative of ln Γ: its recurrence up to 6, from there on its asymptotic series."""
    below = 0.0
    while x < 6:
        below -= 1 / x
        x += 1
    return below + math.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6)


def trigamma(x):
    """The derivative of digamma, in the same way."""
    below = 0.0
    while x < 6:
        below += 1 / x**2
        x += 1
    return below + 1 / x + 1 / (2 * x**2) + 1 / (6 * x**3) - 1 / (30 * x**5) + 1 / (42 * x**7)


def trigamma_inverse(y):
    """By halves: trigamma falls all the way."""
    low, high = 1e-6, 1e6
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if trigamma(middle) > y else (low, middle)
    return low


def logs_of(before, after):
    """The logarithms of the ratios of the rounds in which both have a figure."""
    return [math.log(b / a) for a, b in zip(before, after) if a is not None and b is not None and a > 0 and b > 0]


def verdict(before, after, more_is_better=True, nothing=NOTHING, noise=Noise()):
    """Whether `after` is a gain on `before`; both are lists of one figure per round, in the same order of rounds.

    `noise`: that of all pairs that were measured with this one.
    """
    logs = logs_of(before, after)
    if len(logs) < ROUNDS_JUDGED_MIN:
        return Verdict("undecided", math.nan, math.nan, math.nan, len(logs))
    mean = statistics.fmean(logs)
    variance, freedom = noise.moderated(logs)
    half = student(LOOK_LEVEL, freedom) * math.sqrt(variance / len(logs))
    low, high = mean - half, mean + half
    better, worse = (low > 0, high < 0) if more_is_better else (high < 0, low > 0)
    if low > math.log(1 - nothing) and high < math.log(1 + nothing):
        word = "no gain"
    elif better:
        word = "gain"
    elif worse:
        word = "loss"
    else:
        word = "undecided"
    return Verdict(word, math.exp(mean), math.exp(low), math.exp(high), len(logs))


def rounds_missing(before, after, nothing=NOTHING, noise=Noise()):
    """How many more rounds a verdict probably takes: until the interval excludes no change, or lies within the margin."""
    logs = logs_of(before, after)
    if len(logs) < ROUNDS_JUDGED_MIN:
        return ROUNDS_JUDGED_MIN - len(logs)
    mean = abs(statistics.fmean(logs))
    wanted = max(mean, nothing - mean)
    variance, freedom = noise.moderated(logs)
    needed = (student(LOOK_LEVEL, freedom + len(logs) + 1) / wanted) ** 2 * variance
    return max(1.0, needed - len(logs))


def interval(values):
    """Mean of these figures, and half of its 95 % interval; None if there are too few for one."""
    values = [value for value in values if value is not None]
    mean = statistics.fmean(values)
    if len(values) < ROUNDS_JUDGED_MIN:
        return mean, None
    return mean, student(ONE_LOOK, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
