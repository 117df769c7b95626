"""What of the library can be wrong without any server: python3 -m unittest discover -s experiments"""

import json
import math
import random
import tempfile
import time
import unittest
import xml.etree.ElementTree
from pathlib import Path
from unittest import mock

import charts as redrawn
import cook
import tune
from cookbook import recipes
from lab import advice, charts, load, page, servers, stage, stats

PAGES = Path(__file__).resolve().parent.parent / "docs/experiments"


def simulated(generator, effect, rounds=6, noise=0.05):
    """Figures of two settings over rounds that disturb both alike, and each by itself."""
    before, after = [], []
    for _ in range(rounds):
        disturbance = math.exp(generator.gauss(0, 0.3))
        before.append(1000 * disturbance * math.exp(generator.gauss(0, noise)))
        after.append(1000 * disturbance * effect * math.exp(generator.gauss(0, noise)))
    return before, after


class Stats(unittest.TestCase):
    def words(self, effect, more_is_better=True, **how):
        generator = random.Random(7)
        return [stats.verdict(*simulated(generator, effect, **how), more_is_better).word for _ in range(400)]

    def test_nothing_is_rarely_called_something(self):
        words = self.words(1.0)
        self.assertLessEqual((words.count("gain") + words.count("loss")) / len(words), 0.07)

    def test_something_is_called_by_its_name(self):
        self.assertGreater(self.words(1.25).count("gain") / 400, 0.95)
        self.assertGreater(self.words(0.8).count("loss") / 400, 0.95)
        # Less CPU is a gain.
        self.assertGreater(self.words(0.8, more_is_better=False).count("gain") / 400, 0.95)

    def test_what_is_known_to_be_nothing_is_no_gain(self):
        self.assertGreater(self.words(1.0, noise=0.005).count("no gain") / 400, 0.9)
        # A real difference that nobody would notice.
        self.assertGreater(self.words(1.01, noise=0.002).count("no gain") / 400, 0.95)

    def test_intervals_hold_the_truth(self):
        generator = random.Random(3)
        verdicts = [stats.verdict(*simulated(generator, 1.1)) for _ in range(1000)]
        held = sum(verdict.low <= 1.1 <= verdict.high for verdict in verdicts) / len(verdicts)
        # Wide enough for many looks, they hold it oftener at one.
        self.assertTrue(0.98 <= held <= 1, held)

    def test_too_little_is_undecided(self):
        for before, after in [([], []), ([1.0], [2.0]), ([1.0, 2.0], [0.0, 3.0])]:
            self.assertEqual(stats.verdict(before, after).word, "undecided")

    def test_changes_as_people_say_them(self):
        cases = [(1.1, "+10.0 %"), (0.9, "−10.0 %"), (0.99999, "0.0 %"), (12, "×12"), (1 / 12, "÷12"), (1634, "×1,630")]
        for ratio, text in cases:
            self.assertEqual(stats.notation(ratio)(ratio), text)

    def test_a_verdict_has_one_notation(self):
        cases = [
            ((0.334, 0.3125, 0.358), "÷2.99 (÷3.2 … ÷2.79)"),
            ((1.135, 1.093, 1.178), "+13.5 % (+9.3 % … +17.8 %)"),
            ((2.5, 0.9, 7), "×2.5 (×0.9 … ×7)"),
        ]
        for (ratio, low, high), text in cases:
            self.assertEqual(str(stats.Verdict("gain", ratio, low, high)), f"**gain** {text}")

    def test_quantiles_are_students(self):
        table = [
            (0.05, 1, 12.706),
            (0.05, 2, 4.303),
            (0.01, 2, 9.925),
            (0.05, 5, 2.571),
            (0.01, 10, 3.169),
            (0.01, 60, 2.660),
        ]
        for level, freedom, wanted in table:
            self.assertAlmostEqual(stats.student(level, freedom), wanted, delta=0.0015)

    def test_many_looks_err_as_rarely_as_they_say(self):
        generator, wrong, tried = random.Random(11), 0, 1500
        for _ in range(tried):
            before, after = simulated(generator, 1.0, rounds=3)
            while len(before) < 23 and stats.verdict(before, after).word == "undecided":
                more = simulated(generator, 1.0, rounds=1)
                before, after = before + more[0], after + more[1]
            wrong += stats.verdict(before, after).word in ("gain", "loss")
        self.assertLess(wrong / tried, 0.05)

    def test_pairs_that_scatter_alike_lend_each_other_their_scatter(self):
        """Twelve pairs of a page, each with a noise of its own; rounds are added to what is undecided, as on a page."""
        generator, wrong, tried, known, alone = random.Random(13), 0, 0, 0, 0
        for spread in [0, 0.3, 0.6] * 15:
            noises = [0.01 * math.exp(generator.gauss(0, spread)) for _ in range(12)]
            pairs = [simulated(generator, 1.0, rounds=4, noise=noise) for noise in noises]
            alone += sum(stats.verdict(*pair).word != "undecided" for pair in pairs)
            for turn in range(8):
                common = stats.noise_of(pairs)
                words = [stats.verdict(*pair, noise=common).word for pair in pairs]
                known += sum(word != "undecided" for word in words) if turn == 0 else 0
                for at, word in enumerate(words):
                    if word == "undecided":
                        more = simulated(generator, 1.0, rounds=1, noise=noises[at])
                        pairs[at] = tuple(have + new for have, new in zip(pairs[at], more))
            common = stats.noise_of(pairs)
            wrong += sum(stats.verdict(*pair, noise=common).word in ("gain", "loss") for pair in pairs)
            tried += len(pairs)
        self.assertLess(wrong / tried, 0.05)
        # At once, after four rounds.
        self.assertGreater(known, 2 * alone)

    def test_common_noise_is_that_of_the_pairs(self):
        generator = random.Random(3)
        pairs = [simulated(generator, 1.0, rounds=4, noise=0.05) for _ in range(40)]
        common = stats.noise_of(pairs)
        # A ratio has the noise of both figures.
        self.assertAlmostEqual(math.sqrt(common.variance), 0.05 * math.sqrt(2), delta=0.01)
        self.assertEqual(common.freedom, stats.NOISE_FREEDOM_MAX)
        unlike = pairs[:3] + [simulated(generator, 1.0, rounds=4, noise=10 ** -turn) for turn in range(6)]
        self.assertLess(stats.noise_of(unlike).freedom, 2)
        self.assertEqual(stats.noise_of(pairs[:4]), stats.Noise())

    def test_functions_of_gamma(self):
        self.assertAlmostEqual(stats.digamma(1), -0.5772157, delta=1e-6)
        self.assertAlmostEqual(stats.trigamma(1), math.pi**2 / 6, delta=1e-6)
        self.assertAlmostEqual(stats.trigamma(stats.trigamma_inverse(0.3)), 0.3, delta=1e-9)

    def test_what_will_be_decided_soon_misses_few_rounds(self):
        generator = random.Random(5)
        clear, unclear = simulated(generator, 1.3, rounds=4), simulated(generator, 1.02, rounds=4)
        self.assertLess(stats.rounds_missing(*clear), stats.rounds_missing(*unclear))

    def test_rounds_without_a_figure_do_not_count(self):
        before, after = simulated(random.Random(1), 1.5)
        holes = [None, *before, None, 3.0], [4.0, *after, None, None]
        self.assertEqual(stats.verdict(*holes), stats.verdict(before, after))


class Tables(unittest.TestCase):
    def run_of(self, rate, cpu):
        tier = {"cpu_us_per_response": cpu, "pss_bytes": 1e6, "cpus": 0.1}
        return {
            "good_responses_per_second": rate,
            "latency_us": {"p50": 1e3, "p95": 2e3, "p99": 3e3, "mean": 1e3},
            "error_share": 0.0,
            "bytes": 50_000,
            "responses": 10,
            "tiers": {"server": tier, "PHP 1": dict(tier), "PHP 2": dict(tier)},
        }

    def results(self):
        settings = [load.Setting(key, key, None) for key in ("a", "b")]
        results = load.Results(settings)
        results.runs = {"a": [[self.run_of(100 + n, 20)] for n in range(5)], "b": [[self.run_of(200 + n, 10)] for n in range(5)]}
        return results

    def test_a_row_per_setting_with_medians_and_sums_of_tiers(self):
        head, rows = page.measured(self.results(), ["server", "PHP", "database"])
        self.assertTrue(all(len(row) == len(head) for row in rows))
        self.assertEqual(rows[0][:6], ["a", "–", "102", "1", "3", "0"])
        self.assertEqual(rows[0][6:9], ["20", "40", "–"])

    def test_advice_is_judged_by_its_figure(self):
        advices = [advice.Advice("do b", "b", "–", "a", "b", by) for by in ("rate", "cpu")]
        head, rows = advice.judged(self.results(), advices)
        self.assertEqual([row[-1].word for row in rows], ["gain", "gain"])
        made = page.Page("009", "title", "intro")
        made.verdicts((head, rows))
        self.assertIn("- Gain: do b.", made.parts)

    def test_compression_is_judged_by_line_and_cpu_together(self):
        # 5,000 bytes are 4 ms at 10 Mbit/s.
        self.assertAlmostEqual(load.FIGURES["at 10 Mbit/s"](self.run_of(1, 100)), 4.1)

    def test_figures(self):
        cases = [(None, "–"), (0, "0"), (0.01234, "0.0123"), (12.345, "12.3"), (123.4, "123"), (1234567, "1,234,567")]
        for value, text in cases:
            self.assertEqual(page.number(value), text)


class Rounds(unittest.TestCase):
    def go(self, effects, seconds, stands_beside=False, alone=()):
        """Rounds over a base and settings that change its rate by so much; what was measured, in order."""
        generator, asked = random.Random(2), []
        keys = ["base", *effects]
        settings = [load.Setting(key, key, lambda _, key=key: key, "", stands_beside and key not in alone) for key in keys]
        advices = [advice.Advice(key, key, "–", "base", key) for key in effects]

        def bench(_, key, *options):
            asked.append(key)
            rate = 10_000 * effects.get(key, 1) * math.exp(generator.gauss(0, 0.04))
            return {"good_responses_per_second": rate}

        here = mock.Mock(scope=lambda: mock.MagicMock())
        patches = {"bench": bench, "bench_warm": bench, "warm": mock.Mock(), "say": mock.Mock()}
        with mock.patch.multiple(load, **patches):
            results = load.rounds(here, settings, advices, [], time.monotonic() + seconds, 4)
        return asked, results, advices

    def test_all_are_measured_and_then_what_is_undecided(self):
        asked, results, advices = self.go({"clear": 2, "small": 1.05}, 20)
        self.assertEqual(sorted(asked[:3]), ["base", "clear", "small"])
        self.assertGreater(asked.count("small"), asked.count("clear"))
        self.assertEqual([one.verdict(results).word for one in advices][0], "gain")
        self.assertNotEqual(advices[1].verdict(results).word, "undecided")

    def test_pairs_that_stand_beside_each_other_are_measured_in_turns(self):
        asked, results, advices = self.go({"small": 1.05}, 20, stands_beside=True)
        self.assertNotEqual(advices[0].verdict(results).word, "undecided")
        after = asked[2 * load.ROUNDS_BEFORE_SLICES :]
        self.assertEqual(len(after) % (2 * load.SLICES), 0)
        # A B, B A: each has its turn first and last.
        self.assertEqual(after[0], after[3])
        self.assertEqual(after[1], after[2])
        self.assertEqual(len(results.measured("small")), asked.count("small"))
        self.assertEqual(len(results.figures("small")), load.ROUNDS_BEFORE_SLICES + len(after) // (2 * load.SLICES))

    def test_a_setting_that_stands_alone_is_compared_with_one_that_is_sliced(self):
        _, results, advices = self.go({"small": 1.05, "alone": 1.5}, 20, stands_beside=True, alone=["alone"])
        self.assertEqual([one.verdict(results).word for one in advices], ["gain", "gain"])

    def test_a_slice_of_few_requests_has_a_number_of_them(self):
        options = ["-c", "5", "-w", "1s", "-d", "2s"]
        target = load.Target("http://127.0.0.1/", {})
        self.assertEqual(load.slice_options(5000, target, options), ["-c", "5", "-w", load.SLICE_WARM_UP, "-d", load.SLICE])
        self.assertEqual(load.slice_options(14, target, options), ["-c", "5", "-n", 20])
        self.assertEqual(load.slice_options(500, target, options), ["-c", "5", "-n", 200])
        # The users may be the target's own.
        self.assertEqual(load.slice_options(100, load.Target("", {}, ["-c", "60"]), ["-d", "1s"]), ["-n", 240])

    def test_memory_is_that_of_servers_alone(self):
        results = load.Results([load.Setting("a", "a", None)])
        run = {"good_responses_per_second": 5, "error_share": 0, "tiers": {"server": {"pss_bytes": 7}}}
        results.runs["a"] = [[run], [run, {**run, "tiers": {"server": {"pss_bytes": 1}}}]]
        self.assertEqual([memory and round(memory) for memory in results.figures("a", "memory")], [7, None])
        self.assertIsNone(results.figures("a")[0])
        self.assertAlmostEqual(results.figures("a")[1], 5)
        self.assertEqual(results.typical("a", "errors"), 0)
        self.assertEqual(results.tier("a", "server", "pss_bytes"), 7)

    def test_what_several_are_compared_with_is_measured_once_for_all(self):
        asked, results, advices = self.go({"more": 1.07, "less": 0.94}, 20, stands_beside=True)
        self.assertNotIn("undecided", [one.verdict(results).word for one in advices])
        first = asked[3 * load.ROUNDS_BEFORE_SLICES :][: 3 * load.SLICES]
        self.assertEqual(sorted(first), sorted(["base", "more", "less"] * load.SLICES))

    def test_what_is_far_from_a_verdict_waits(self):
        self.assertEqual(load.near({"a": 20, "b": 75, "c": 90}), ["a", "b"])
        self.assertEqual(load.near({"a": 1, "b": 8, "c": 9}), ["a", "b"])

    def test_the_time_ends_them(self):
        asked, results, _ = self.go({"small": 1.01}, 0)
        self.assertEqual(len(asked), 8)
        self.assertEqual(results.figures("base").count(None), 0)


class Charts(unittest.TestCase):
    LINES = {
        "kind": "lines",
        "title": "Rate & users",
        "x": "users",
        "y": "requests/s",
        "series": [
            {
                "label": "nginx, a pool of PHP processes with a very long name <indeed>",
                "points": [[1, 10], [10, 90], [200, 120.5]],
            },
            {"label": "nginx, another", "points": [[1, 11], [10, 80]]},
            {"label": "the article", "points": [[200, 66]], "told": True},
        ],
    }

    def test_charts_are_xml_for_light_and_dark(self):
        bars = [{"label": "Brisk", "parts": [["server", 10], ["PHP", 1200]]}, {"label": "nothing", "parts": []}]
        for chart in [
            self.LINES,
            {**self.LINES, "x_scale": "log", "y_scale": "log"},
            {"kind": "stacked", "title": "CPU", "y": "µs", "tiers": ["server", "PHP"], "bars": bars},
        ]:
            svg = charts.draw(chart)
            xml.etree.ElementTree.fromstring(svg)
            self.assertIn("prefers-color-scheme: dark", svg)

    def test_nothing_lies_outside_of_a_chart(self):
        for scale in ("linear", "log"):
            root = xml.etree.ElementTree.fromstring(charts.draw({**self.LINES, "x_scale": scale, "y_scale": scale}))
            height = float(root.get("height"))
            for mark in root.iter("{http://www.w3.org/2000/svg}circle"):
                self.assertTrue(0 < float(mark.get("cx")) < charts.WIDTH and 0 < float(mark.get("cy")) < height)

    def test_settings_of_one_program_have_its_colour_and_their_own_dashes(self):
        styles = charts.classes(self.LINES["series"])
        self.assertEqual(styles[0][0], styles[1][0])
        self.assertNotEqual(styles[0][1], styles[1][1])

    def test_long_names_are_shortened_in_the_middle(self):
        self.assertEqual(charts.fitted("short", 200), "short")
        self.assertRegex(charts.fitted("nginx, a pool of PHP processes, the first", 150), "^nginx.*….*first$")

    def test_the_pages_charts_are_those_of_their_figures(self):
        for figures in PAGES.glob("[0-9]*.json"):
            text = figures.with_suffix(".md").read_text()
            for path, svg in redrawn.drawn(figures).items():
                self.assertEqual(path.read_text(), svg, f"{path}: run experiments/charts.py")
                self.assertIn(f"({path.name})", text)
            linked = text.count(".svg)")
            self.assertEqual(linked, len(json.loads(figures.read_text())["charts"]))


class Cookbook(unittest.TestCase):
    def setUp(self):
        self.pages = {path.stem: path.read_text() for path in cook.PAGES.glob("*.md") if path.stem != "README"}
        self.figures = json.loads(cook.DATA.read_text())

    def test_each_recipe_has_its_page_and_figures(self):
        names = [recipe.name for recipe in recipes.RECIPES]
        self.assertEqual(sorted(names), sorted(self.pages))
        self.assertEqual(sorted(names), sorted(self.figures))
        index = (cook.PAGES / "README.md").read_text()
        for name, text in self.pages.items():
            self.assertEqual(index.count(f"]({name}.md)"), 1, name)
            self.assertIn(f"[{text.splitlines()[0].removeprefix('# ')}]({name}.md)", index)

    def test_pages_show_the_figures_that_were_measured(self):
        for name, text in self.pages.items():
            self.assertEqual(cook.filled(text, self.figures[name]), text, f"{name}: run experiments/cook.py --pages")

    def test_pages_show_the_settings_that_were_measured(self):
        for recipe in recipes.RECIPES:
            for side in recipe.sides:
                self.assertIn(side.line, self.pages[recipe.name], recipe.name)

    def test_all_commands_were_tried(self):
        for name, text in self.pages.items():
            tried = [one["command"] for one in self.figures[name]["tried"]]
            self.assertEqual(cook.commands_of(text), tried, f"{name}: run experiments/cook.py {name}")
            self.assertTrue(tried, name)

    def test_figures_are_those_of_the_recipes(self):
        for recipe in recipes.RECIPES:
            entry = self.figures[recipe.name]
            self.assertEqual(entry["figures"], recipe.show)
            self.assertEqual([side["server"] for side in entry["sides"]], [side.name() for side in recipe.sides])

    def test_commands_are_shortened(self):
        words = cook.shortened("bench compare --pairs 20 -d 2s A B".split())
        self.assertEqual(words, "bench compare --pairs 6 -d 200ms -w 50ms A B".split())
        self.assertEqual(cook.shortened("bench -c 20 -d 10s U".split()), "bench -d 300ms -c 20 U".split())
        self.assertEqual(cook.shortened("bench page -k U".split()), "bench page -k U".split())


class Stage(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        brisk = Path(self.folder.name) / "brisk"
        brisk.write_text("#!/bin/sh\nexit 3\n")
        brisk.chmod(0o755)
        self.stage = stage.Stage(brisk)
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(self.stage.__exit__)

    def test_templates_are_filled_to_the_end(self):
        template = Path(self.folder.name) / "t.conf"
        template.write_text("listen @PORT@; root @DIR@/x; @MORE@\n")
        filled = self.stage.fill(template, "filled", PORT=1, MORE="a @PORT@;").read_text()
        self.assertEqual(filled, f"listen 1; root {self.stage.folder}/x; a 1;\n")
        with self.assertRaisesRegex(stage.Refused, "nothing was given for @MORE@"):
            self.stage.fill(template, "filled", PORT=1)

    def test_a_program_that_ends_is_quoted(self):
        port = self.stage.port()
        with self.assertRaisesRegex(stage.Refused, "(?s)it does not start.*no such luck"):
            self.stage.start("it", ["/bin/sh", "-c", "echo no such luck; exit 1"], port)

    def test_what_a_scope_started_ends_with_it(self):
        script = "import socket,sys,time; s=socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(1000)"
        port = self.stage.port()
        with self.stage.scope():
            process = self.stage.start("server", ["/usr/bin/python3", "-c", script, port], port)
            self.assertTrue(process.is_alive())
        self.assertFalse(process.is_alive())
        self.assertFalse(stage.takes_connections(port))

    def test_apaches_types_are_nginxs(self):
        types = servers.mime_types(self.stage).read_text().splitlines()
        self.assertIn("text/css css", types)


class Tune(unittest.TestCase):
    def test_a_line_says_what_was_found_and_how_much_of_the_best_s_gain_it_is(self):
        steps = [
            {"knob": "pm.max_children", "from": "2", "to": "11", "verdict": "kept", "ratio": 0.5, "low": 0.4, "high": 0.6},
            {"knob": "access_log", "from": "a", "to": None, "verdict": "proposal", "ratio": None, "low": None, "high": None},
            {"knob": "gzip", "from": "off", "to": "off", "verdict": "undecided", "ratio": 1, "low": 0, "high": None},
        ]
        line = {
            "app": "bank",
            "server": "nginx",
            "children": 2,
            "article": "+25 %",
            "limit": {"cause": "pool-too-small"},
            "rates": {"start": 100.0, "hand": 150.0, "tuner": 200.0, "12 processes": 210.0},
            "best": "12 processes",
            "share": 0.909,
            "found": {"minutes": 3.2, "steps": steps},
        }
        text = tune.table([line])
        self.assertIn("| 100.0/s | 150.0/s | 200.0/s | 210.0/s | 91 % | 3.2 |", text)
        self.assertIn("the limit is `pool-too-small`", text)
        self.assertIn("pm.max_children 2 → 11: kept (-60 to -40 % cost)", text)
        self.assertIn("access_log: proposal; gzip off → off: undecided. Best of the sweep: 12 processes.", text)
        self.assertEqual(len({row.count("|") for row in text.splitlines() if row.startswith("|")}), 1)

    def test_an_article_stands_beside_hand_and_tuner(self):
        steps = [{"knob": "pm", "from": "dynamic", "to": "static", "verdict": "kept", "ratio": 0.8, "low": 0.7, "high": 0.9}]
        line = {
            "article": "001",
            "limit": {"cause": "pool-too-small"},
            "rates": {"start": 20.0, "hand": 400.0, "tuner": 390.0},
            "found": {"minutes": 8.0, "steps": steps},
        }
        text = tune.articles_table([line])
        self.assertIn("| 20.0/s | 400.0/s | 390.0/s | `pm` dynamic → static | 8.0 |", text)
        self.assertIn("- 001: the limit is `pool-too-small`. pm dynamic → static: kept (-30 to -10 % cost).", text)


if __name__ == "__main__":
    unittest.main()
