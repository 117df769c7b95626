"""What of the library can be wrong without any server: python3 -m unittest discover -s experiments"""

import math
import random
import tempfile
import unittest
from pathlib import Path

from lab import advice, load, page, servers, stage, stats


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
        self.assertTrue(0.93 <= held <= 0.97, held)

    def test_too_little_is_undecided(self):
        for before, after in [([], []), ([1.0], [2.0]), ([1.0, 2.0], [0.0, 3.0])]:
            self.assertEqual(stats.verdict(before, after).word, "undecided")

    def test_changes_as_people_say_them(self):
        cases = [(1.1, "+10.0 %"), (0.9, "−10.0 %"), (0.99999, "0.0 %"), (12, "×12"), (1 / 12, "÷12"), (1234, "×1.23e+03")]
        for ratio, text in cases:
            self.assertEqual(stats.change(ratio), text)


class Tables(unittest.TestCase):
    def run_of(self, rate, cpu):
        tier = {"cpu_us_per_response": cpu, "pss_bytes": 1e6, "cpus": 0.1}
        return {
            "good_responses_per_second": rate,
            "latency_us": {"p50": 1e3, "p95": 2e3, "p99": 3e3, "mean": 1e3},
            "error_share": 0.0,
            "tiers": {"server": tier, "PHP 1": dict(tier), "PHP 2": dict(tier)},
        }

    def results(self):
        settings = [load.Setting(key, key, None) for key in ("a", "b")]
        results = load.Results(settings)
        results.runs = {"a": [self.run_of(100 + n, 20) for n in range(5)], "b": [self.run_of(200 + n, 10) for n in range(5)]}
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

    def test_figures(self):
        cases = [(None, "–"), (0, "0"), (0.01234, "0.0123"), (12.345, "12.3"), (123.4, "123"), (1234567, "1,234,567")]
        for value, text in cases:
            self.assertEqual(page.number(value), text)


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


if __name__ == "__main__":
    unittest.main()
