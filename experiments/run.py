#!/usr/bin/env python3
"""Runs one of the articles' experiments and writes its page: run.py 002 [--quick] [--minutes M] [--out FOLDER] [--brisk PROGRAM]

A whole run takes at most 15 minutes and writes docs/experiments/002.md, its figures (002.json) and its charts; --quick takes two or three and writes into
target/experiments, because its figures prove little.
"""

import argparse
import importlib.util
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

from lab import page, stage  # noqa: E402


def arguments():
    numbers = sorted(path.parent.name for path in HERE.glob("[0-9]*/experiment.py"))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("number", choices=numbers, help="which of the articles")
    parser.add_argument("--quick", action="store_true", help="a short look, for tests")
    parser.add_argument("--minutes", type=float, default=stage.MINUTES_MAX, help="the time that it may take [15]")
    parser.add_argument("--out", type=Path, help="the folder of the page")
    parser.add_argument("--brisk", default=os.environ.get("BRISK"), help="the program [target/release/brisk]")
    parser.add_argument("--commit", help="what the program was built of [the repository's HEAD]")
    return parser.parse_args()


def find_brisk(named):
    for path in [named] if named else [HERE.parent / "target/release/brisk", HERE.parent / "target/debug/brisk"]:
        if os.access(path, os.X_OK):
            return Path(path).resolve()
    raise stage.Refused(f"there is no program {named or 'target/release/brisk'}: run `make build`")


def main():
    options = arguments()
    spec = importlib.util.spec_from_file_location("experiment", HERE / options.number / "experiment.py")
    experiment = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(experiment)
    out = options.out or HERE.parent / ("target/experiments" if options.quick else "docs/experiments")
    try:
        brisk = find_brisk(options.brisk)
        run = page.Run(options.number, options.quick, options.commit)
        with stage.Stage(brisk, options.minutes) as here:
            made = experiment.run(here, run)
            run.foreign = here.foreign
    except stage.Refused as refusal:
        sys.exit(f"experiment {options.number}: {refusal}")
    except KeyboardInterrupt:
        sys.exit(f"experiment {options.number}: interrupted; everything it had started is stopped")
    print(made.write(out, run))
    print(f"written to {out / options.number}.md", file=sys.stderr)


if __name__ == "__main__":
    main()
