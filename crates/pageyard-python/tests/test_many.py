"""Replays on Dask: one table, nothing done twice, and nothing lost with a worker."""

import os
import signal
import tempfile
import unittest
import warnings
from pathlib import Path

import pageyard
from pageyard import many

ROOT = Path(__file__).resolve().parents[3]
TRACES = [ROOT / "data/traces/build.trace", ROOT / "data/traces/guest-6.12-huge.trace"]
SETTINGS = ["linux-6.12", "linux-6.18", "linux-6.18:defrag_mode=1"]


def workers():
    """The processes that a local cluster of this one replays in."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
            command = status.with_name("cmdline").read_bytes().decode()
        except OSError:
            continue
        parent = next(int(line.split()[1]) for line in text.splitlines() if line.startswith("PPid:"))
        if parent == os.getpid() and "spawn_main" in command:
            found.append(int(status.parent.name))
    return found


class Many(unittest.TestCase):
    def setUp(self):
        # Dask's own processes are ended without waiting.
        warnings.simplefilter("ignore", ResourceWarning)
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_a_row_a_replay_and_a_killed_worker_loses_nothing(self):
        killed, seen = [], []

        def done(n, of):
            seen.append((n, of))
            if n == 2 and not killed:
                killed.extend(workers()[:1])
                os.kill(killed[0], signal.SIGKILL)

        table = many.replays(TRACES, SETTINGS, self.folder.name, workers=2, done=done).to_pylist()
        self.assertEqual(len(killed), 1)
        self.assertEqual(seen[-1], (6, 6))
        self.assertEqual([row["error"] for row in table], [None] * 6)
        self.assertEqual([row["setting"] for row in table], SETTINGS * 2)
        alone = pageyard.Trace(TRACES[1]).replay("linux-6.18")["engines"][0]
        self.assertEqual(table[4]["counters.pgalloc"], alone["counters"]["pgalloc"])
        # Again, and nothing is replayed: no cluster is started.
        seen.clear()
        again = many.replays(TRACES, SETTINGS, self.folder.name, scheduler="tcp://127.0.0.1:1", done=seen_by(seen))
        self.assertEqual((again.to_pylist(), seen), (table, [(6, 6)]))

    def test_what_cannot_be_replayed_has_a_reason_in_its_row(self):
        traces = [TRACES[1], Path(self.folder.name) / "none.trace"]
        table = many.replays(traces, ["linux-6.12", "linux-0.1"], self.folder.name, workers=1, library="pandas")
        self.assertEqual([isinstance(why, str) for why in table["error"]], [False, True, True, True])
        self.assertIn("linux-0.1", table["error"][1])


    def test_replays_of_one_recording_go_together(self):
        jobs = {f"{trace}{n}": (trace, f"s{n}") for trace in "ab" for n in range(100)}
        batches = list(many._together(list(jobs), jobs, 2))
        self.assertEqual([key for keys in batches for key in keys], list(jobs))
        self.assertEqual(max(map(len, batches)), many.TOGETHER)
        self.assertTrue(all(len({jobs[key][0] for key in keys}) == 1 for keys in batches))
        # With little to do, every CPU gets some of it.
        self.assertEqual({len(keys) for keys in many._together(list(jobs)[:6], jobs, 2)}, {1})

    def test_one_that_cannot_be_replayed_leaves_the_others_of_its_batch(self):
        options = {"memory": None, "slow_path": None, "opening": 0}
        rows = many._replay(TRACES[1], ["linux-6.12", "linux-0.1", "linux-6.18"], options)
        self.assertEqual(["error" in row for row in rows], [False, True, False])
        alone = pageyard.Trace(TRACES[1]).replay("linux-6.18")["engines"][0]
        self.assertEqual(rows[2]["counters.pgalloc"], alone["counters"]["pgalloc"])


def seen_by(seen):
    return lambda n, of: seen.append((n, of))


if __name__ == "__main__":
    unittest.main()
