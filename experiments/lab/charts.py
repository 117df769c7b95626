"""The charts of a page, drawn from its figures: SVG without scripts, readable in light and in dark.

A chart is data: {"name", "kind", "title", ...}. "lines" has "x", "y" and series of [x, y] points; series that an article
printed are "told" and drawn as hollow points. "stacked" has "y", "tiers" and bars: {"label", "parts": [[tier, value], ...]}.
Programs have a colour each; settings of one program differ by dashes and marks, never by colour alone.
"""

import math
from xml.sax.saxutils import escape

WIDTH = 720
# A mean letter of a sans-serif font, as a part of its size: labels are cut to what they have room for.
LETTER = 0.54
SIZE = 13
COLOURS = {"nginx": "s0", "Brisk": "s1", "Apache": "s2", "Node": "s3", "Java": "s4", "PHP": "s5"}
DASHES = ["", "7 4", "2 4", "11 4 2 4", "4 2"]
STYLE = """
svg { background: #fff; font: 13px system-ui, sans-serif; --ink: #1f2328; --soft: #59636e; --line: #d1d9e0;
  --s0: #1a7f37; --s1: #0969da; --s2: #bc4c00; --s3: #8250df; --s4: #bf3989; --s5: #6e7781 }
@media (prefers-color-scheme: dark) { svg { background: #0d1117; --ink: #f0f6fc; --soft: #9198a1; --line: #3d444d;
  --s0: #3fb950; --s1: #58a6ff; --s2: #f0883e; --s3: #bc8cff; --s4: #f778ba; --s5: #9198a1 } }
text { fill: var(--ink) } .soft { fill: var(--soft) } .title { font-weight: 600; font-size: 15px }
.grid { stroke: var(--line); stroke-width: 1 } .series { fill: none; stroke-width: 2; stroke-linejoin: round }
"""
STYLE += "".join(f".s{n} {{ --c: var(--s{n}) }} " for n in range(6))
STYLE += ".series, .mark { stroke: var(--c) } .mark { fill: var(--c) } .told { fill: none; stroke-width: 2 } .bar { fill: var(--c) }"


def draw(chart):
    """The SVG of one chart."""
    return {"lines": lines, "stacked": stacked}[chart["kind"]](chart)


def document(height, title, parts):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">'
    body = "\n".join(parts)
    return (
        f"{head}\n<title>{escape(title)}</title>\n<style>{STYLE}\n</style>\n{text(16, 24, title, 'title')}\n{body}\n</svg>\n"
    )


def text(x, y, words, kind="", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(str(words))}</text>'


def fitted(words, room):
    """These words, shortened in the middle if they do not fit: what tells them apart stands at both ends."""
    letters = int(room / (LETTER * SIZE))
    if len(words) <= letters:
        return words
    kept = max(2, letters - 1)
    return words[: kept - kept // 2] + "…" + words[len(words) - kept // 2 :]


def said(value):
    """A figure of an axis: 1500 as 1,500, 0.05 as 0.05."""
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.3g}"


class Axis:
    """From figures to places between `start` and `end`, and the figures to be marked."""

    def __init__(self, values, start, end, scale="linear", from_zero=True):
        self.start, self.end, self.scale = start, end, scale
        values = [value for value in values if value > 0] or [1]
        if scale == "log":
            self.low, self.high = min(values), max(values)
            self.low, self.high = (self.low / 1.2, self.high * 1.2) if self.low == self.high else (self.low, self.high)
        else:
            self.low, self.high = (0 if from_zero else min(values)), max(values)
        self.ticks = self.decades() if scale == "log" else self.steps()

    def place(self, value):
        of = math.log if self.scale == "log" else float
        share = (of(max(value, self.low)) - of(self.low)) / (of(self.high) - of(self.low))
        return self.start + share * (self.end - self.start)

    def steps(self):
        raw = (self.high - self.low) / 4
        unit = 10 ** math.floor(math.log10(raw))
        step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= raw)
        self.high = math.ceil(self.high / step) * step
        return [self.low + step * number for number in range(round((self.high - self.low) / step) + 1)]

    def decades(self):
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        factors = (1, 2, 5) if last - first <= 2 else (1,)
        self.low, self.high = 10.0**first, 10.0**last
        return [
            10.0**power * factor
            for power in range(first, last + 1)
            for factor in factors
            if 10.0**power * factor <= self.high
        ]


def classes(series):
    """Colour and dashes of each series: the program's colour, another dash for each of its settings."""
    used, styles = {}, []
    for number, one in enumerate(series):
        program = next((name for name in COLOURS if one["label"].startswith(name)), None)
        colour = "s5" if one.get("told") else COLOURS.get(program, f"s{(number + 3) % 6}")
        styles.append((colour, DASHES[used.get(colour, 0) % len(DASHES)]))
        used[colour] = used.get(colour, 0) + 1
    return styles


def lines(chart):
    """One or several curves over the number of users, or whatever "x" is."""
    series = chart["series"]
    xs = sorted({x for one in series for x, _ in one["points"]})
    ys = [y for one in series for _, y in one["points"]]
    left, right, top, bottom = 76, WIDTH - 24, 56, 316
    across = Axis(xs, left, right, chart.get("x_scale", "linear"), from_zero=False)
    if chart.get("x_scale") == "log":
        across.low, across.high = xs[0], max(xs[-1], xs[0] * 1.01)
    else:
        across.low, across.high = 0, xs[-1]
    up = Axis(ys, bottom, top, chart.get("y_scale", "linear"))
    parts = [text(left - 8, top - 12, chart["y"], "soft", "start")]
    for tick in up.ticks:
        y = up.place(tick)
        parts.append(f'<path class="grid" d="M{left} {y:.1f}H{right}"/>')
        parts.append(text(left - 8, y + 4, said(tick), "soft", "end"))
    # Every number of users that was tried is named, unless its name would cover the last one's.
    edge = -math.inf
    for x in xs:
        name = said(x)
        half = len(name) * LETTER * SIZE / 2 + 4
        if across.place(x) - half > edge:
            parts.append(text(across.place(x), bottom + 20, name, "soft", "middle"))
            edge = across.place(x) + half
    parts.append(text(right, bottom + 40, chart["x"], "soft", "end"))
    styles = classes(series)
    for one, (colour, dash) in zip(series, styles):
        places = [(across.place(x), up.place(y)) for x, y in one["points"]]
        parts += told(places, dash) if one.get("told") else curve(places, colour, dash)
    rows, height = legend(series, styles, bottom + 62)
    return document(height, chart["title"], parts + rows)


def told(places, dash):
    """An article's points: hollow, each series with a shape of its own."""
    shapes = {"": "a6 6 0 1 1 -12 0a6 6 0 1 1 12 0", "7 4": "v-6h-12v12h12z", "2 4": "l-7 -7l-7 7l7 7z"}
    starts = {"": 6, "7 4": 6, "2 4": 7}
    shape, start = shapes.get(dash, "l-6 -10l-6 10z"), starts.get(dash, 6)
    return [f'<path class="mark told s5" d="M{x + start:.1f} {y:.1f}{shape}"/>' for x, y in places]


def curve(places, colour, dash):
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    dots = [f'<circle class="mark {colour}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places]
    return [f'<path class="series {colour}" stroke-dasharray="{dash}" d="{path}"/>', *dots]


def legend(series, styles, y):
    """Two columns of names below the chart, and where the chart ends."""
    parts = []
    for number, (one, (colour, dash)) in enumerate(zip(series, styles)):
        x, line = 24 + (number % 2) * (WIDTH - 24) / 2, y + number // 2 * 22
        if one.get("told"):
            parts += told([(x + 15, line - 4)], dash)
        else:
            parts.append(f'<path class="series {colour}" stroke-dasharray="{dash}" d="M{x:.1f} {line - 4}h30"/>')
        parts.append(text(x + 38, line, fitted(one["label"], (WIDTH - 24) / 2 - 48)))
    return parts, y + (len(series) + 1) // 2 * 22 + 2


def stacked(chart):
    """A bar for each setting, of the parts that its tiers have in it; its sum stands behind it."""
    bars = chart["bars"]
    tiers = chart["tiers"]
    longest = max(len(bar["label"]) for bar in bars) * LETTER * SIZE
    left = min(24 + longest, WIDTH * 0.5)
    sums = [sum(value for _, value in bar["parts"]) for bar in bars]
    scale = Axis(sums, left, WIDTH - 84)
    top, step = 74, 26
    bottom = top + step * len(bars)
    rows = []
    for number, tier in enumerate(tiers):
        x = 24 + number * (WIDTH - 48) / max(4, len(tiers))
        rows.append(f'<rect class="bar s{number}" x="{x:.1f}" y="40" width="14" height="14"/>')
        rows.append(text(x + 20, 52, fitted(tier, (WIDTH - 48) / max(4, len(tiers)) - 26)))
    for tick in scale.ticks:
        rows.append(f'<path class="grid" d="M{scale.place(tick):.1f} {top - 4}V{bottom}"/>')
    # Every second figure where five digits stand side by side.
    for tick in scale.ticks[:: 2 if scale.high >= 1e5 else 1]:
        rows.append(text(scale.place(tick), bottom + 18, said(tick), "soft", "middle"))
    rows.append(text(WIDTH - 16, bottom + 38, chart["y"], "soft", "end"))
    for number, (bar, total) in enumerate(zip(bars, sums)):
        y, x = top + number * step, left
        rows.append(text(left - 8, y + 15, fitted(bar["label"], left - 24), "", "end"))
        for tier, value in bar["parts"]:
            width = scale.place(value) - left
            rows.append(f'<rect class="bar s{tiers.index(tier)}" x="{x:.1f}" y="{y + 2}" width="{width:.1f}" height="18"/>')
            x += width
        rows.append(text(x + 6, y + 15, said(total) if total >= 1 else f"{total:.2g}", "soft"))
    return document(bottom + 50, chart["title"], rows)
