#!/usr/bin/env python3
"""Draws the charts of pages anew, from their figures: charts.py [docs/experiments/002.json …]"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

from lab import charts  # noqa: E402


def drawn(file):
    """The charts of a page: path → SVG."""
    data = json.loads(Path(file).read_text())
    return {Path(file).with_name(f"{data['number']}-{chart['name']}.svg"): charts.draw(chart) for chart in data["charts"]}


if __name__ == "__main__":
    for page in sys.argv[1:] or sorted((HERE.parent / "docs/experiments").glob("[0-9]*.json")):
        for path, svg in drawn(page).items():
            path.write_text(svg)
            print(path)
