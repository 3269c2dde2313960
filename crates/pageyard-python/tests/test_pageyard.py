"""The installed package: reports and their tables, settings, everything that is refused, and work that is stopped."""

import os
import signal
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import pageyard

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "data/traces/build.trace"
GUEST = ROOT / "data/traces/guest-6.12-huge.trace"


def figures(replay, of=0):
    """What a replay found, less what times and names it."""
    engine = replay["engines"][of]
    return {key: engine[key] for key in ("after", "counters", "failed_allocs", "buddyinfo")}


class Reports(unittest.TestCase):
    def test_a_summary_counts_what_the_table_holds(self):
        trace = pageyard.Trace(BUILD)
        summary, events = trace.summary(), trace.table()
        self.assertTrue(summary["schema"].startswith("pageyard.summary/"))
        self.assertEqual((trace.name, len(trace)), ("build", events.num_rows))
        self.assertEqual(summary["allocs"], events.column("event").to_pylist().count("alloc"))
        self.assertEqual(trace.meta["kernel"], "Linux 6.18.44")
        self.assertIn("310,967", str(summary))

    def test_blame_is_a_table_by_thread_and_by_content(self):
        blame = pageyard.Trace(GUEST).blame()
        self.assertIn("lost to huge frames", str(blame))
        rows = blame.table("by.content", "pandas")
        self.assertEqual(sorted(rows.columns), ["alone", "frames", "name", "pageblocks"])
        lost = blame.table("lost")
        self.assertEqual(lost.num_rows, blame["lost_pageblocks"])
        # The first pageblock was lost before the recording: nobody knows since when.
        self.assertNotIn("since_ns", blame["lost"][0])
        self.assertEqual(lost.num_rows - lost.column("since_ns").null_count, blame["lost_meanwhile_pageblocks"])

    def test_a_replay_has_a_table_for_each_file_of_its_series(self):
        replay = pageyard.Trace(BUILD).replay("linux-6.18", "linux-6.18:pcp_policy=classic", samples=50)
        self.assertEqual(replay["engines"][0]["name"], "linux-6.18")
        self.assertEqual(replay.table().num_rows, 2 * 52)
        for name in replay.TABLES:
            self.assertIn("engine", replay.table(name).column_names)
        self.assertEqual(replay.table("zones", "pandas").columns[0], "engine")
        self.assertGreater(replay.table("blocks", "polars").height, 100)
        self.assertEqual(replay.table("engines").num_rows, 2)

    def test_a_replay_leaves_no_files_behind(self):
        with tempfile.TemporaryDirectory() as folder:
            before, tempfile.tempdir = tempfile.tempdir, folder
            try:
                replay = pageyard.Trace(GUEST).replay("linux-6.12")
                self.assertEqual(len(os.listdir(folder)), 1)
                del replay
                with self.assertRaises(pageyard.PageyardError):
                    pageyard.Trace(GUEST).replay("linux-6.13")
                self.assertEqual(os.listdir(folder), [])
            finally:
                tempfile.tempdir = before

    def test_a_setting_changes_what_it_sets(self):
        trace = pageyard.Trace(GUEST)
        plain = trace.replay("linux-6.18")
        same = trace.replay("linux-6.18", settings={"defrag_mode": False})
        changed = trace.replay("linux-6.18", settings={"defrag_mode": True})
        named = trace.replay("linux-6.18", settings={"linux-6.18:defrag_mode": 1})
        self.assertEqual(figures(plain), figures(same))
        self.assertNotEqual(figures(plain), figures(changed))
        self.assertEqual(figures(changed), figures(named))
        self.assertIn("defrag_mode", pageyard.knobs().table("knobs").column("name").to_pylist())

    def test_requests_fail_on_purpose(self):
        engine = pageyard.Trace(GUEST).replay("linux-6.12", fail_page_alloc="1,100,0,7")["engines"][0]
        self.assertEqual(engine["failed_on_purpose"], 7)
        self.assertGreaterEqual(engine["failed_allocs"], 7)

    def test_settings_are_compared(self):
        comparison = pageyard.Trace(GUEST).compare("linux-6.12", "linux-6.18", seeds=2)
        self.assertTrue(comparison["schema"].startswith("pageyard.compare/"))
        self.assertEqual(comparison.table("rows").num_rows, len(comparison["rows"]))
        self.assertIn("<html", comparison.page)


class Refused(unittest.TestCase):
    def refuses(self, says, call):
        with self.assertRaises(pageyard.PageyardError) as raised:
            call()
        self.assertIn(says, str(raised.exception))

    def test_what_is_refused_is_an_exception_with_a_sentence(self):
        trace = pageyard.Trace(GUEST)
        self.refuses("nowhere.trace", lambda: pageyard.Trace("nowhere.trace"))
        self.refuses("there are pageyard", lambda: trace.replay("linux-6.81"))
        self.refuses("defrag_mode", lambda: trace.replay("linux-6.18", settings={"defrag_moed": 1}))
        self.refuses("slow", lambda: trace.replay(slow_path="magic"))
        self.refuses("one thread", lambda: trace.replay(slow_path="reclaim", threads=True))
        self.refuses("two settings", lambda: trace.compare("linux-6.18"))
        self.refuses("it has after", lambda: trace.table("nothing"))
        self.refuses("arrow, pandas or polars", lambda: trace.table("events", "excel"))
        replay = trace.replay("linux-6.12")
        self.refuses("it has trust.replays, engines", lambda: replay.table("nothing"))
        self.refuses("`trace.name`", lambda: replay.table("trace.name"))

    def test_numbers_out_of_range_are_refused(self):
        trace = pageyard.Trace(GUEST)
        for number in [-1, 0, 2**63, 2**64 - 1, 2**64]:
            self.refuses("", lambda number=number: trace.replay("linux-6.18", memory=number))
            self.refuses("", lambda number=number: trace.replay("linux-6.18", samples=number))
        for number in [-1, 0, 2**64 - 1, 2**64]:
            self.refuses("", lambda number=number: trace.compare("linux-6.12", "linux-6.18", seeds=number))
        self.refuses("2^64 - 1", lambda: trace.replay("linux-6.18", opening=-1))
        self.refuses("512M", lambda: trace.replay(memory="four"))
        self.refuses("is not possible", lambda: trace.replay("linux-6.18", memory="1.5KiB"))
        self.refuses("1.5G", lambda: trace.replay(memory=b"4G"))
        self.refuses("slow_path", lambda: trace.replay(pinned=0.1))
        self.refuses("1,10,0,-1", lambda: trace.replay(fail_page_alloc="often"))
        self.refuses("fail_min_order", lambda: trace.replay(fail_page_alloc="1,10,0,-1", fail_min_order=11))
        for share in [-0.1, 1.1, float("nan")]:
            self.refuses("from 0 to 1", lambda share=share: trace.replay(pinned=share))

    def test_other_types_are_refused(self):
        trace = pageyard.Trace(GUEST)
        for call in [lambda: pageyard.Trace(None), lambda: trace.replay(6.18), lambda: trace.replay(samples="many")]:
            with self.assertRaises((TypeError, pageyard.PageyardError)):
                call()

    def test_a_trace_that_goes_away_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "gone.trace"
            copy.mkdir()
            for file in GUEST.iterdir():
                (copy / file.name).write_bytes(file.read_bytes())
            trace = pageyard.Trace(copy)
            (copy / "events.parquet").write_bytes(b"PAR1 and then nothing")
            self.refuses("events.parquet", trace.summary)
            self.refuses("events.parquet", trace.table)


class Stopped(unittest.TestCase):
    def test_progress_is_reported_and_may_stop_the_work(self):
        told = []

        def stop(doing, done, of):
            told.append((doing, done, of))
            raise LookupError("enough")

        with self.assertRaises(LookupError):
            pageyard.Trace(BUILD).compare("linux-6.12", "linux-6.18", seeds=20, progress=stop)
        self.assertEqual(len(told), 1)
        doing, done, of = told[0]
        self.assertTrue(doing and done <= of)

    def test_progress_can_be_a_line(self):
        keep, sys.stderr = sys.stderr, tempfile.TemporaryFile("w+")
        try:
            pageyard.Trace(BUILD).compare("linux-6.12", "linux-6.18", seeds=2, progress=True)
            sys.stderr.seek(0)
            self.assertIn(" %", sys.stderr.read())
        finally:
            sys.stderr.close()
            sys.stderr = keep

    def test_a_signal_stops_the_work(self):
        # A shell starts background jobs with the signal ignored.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        trace = pageyard.Trace(BUILD)
        began = time.monotonic()
        trace.compare("linux-6.12", "linux-6.18", seeds=2)
        of_two = time.monotonic() - began
        threading.Timer(of_two / 2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        began = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            trace.compare("linux-6.12", "linux-6.18", seeds=64)
        # A signal that waited for the end would have taken 32 times as long as two seeds.
        self.assertLess(time.monotonic() - began, 16 * of_two)
        self.assertIn("schema", pageyard.Trace(GUEST).replay("linux-6.18"))

    def test_threads_share_a_trace(self):
        trace, found = pageyard.Trace(GUEST), []
        threads = [threading.Thread(target=lambda: found.append(figures(trace.replay("linux-6.18")))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [figures(trace.replay("linux-6.18"))] * 3)

    def test_a_forked_child_replays_too(self):
        trace = pageyard.Trace(GUEST)
        expected = figures(trace.replay("linux-6.18"))
        held = trace.replay("linux-6.18")
        child = os.fork()
        if child == 0:
            same = figures(trace.replay("linux-6.18")) == expected
            # The parent's tables outlive the child's copy of the object.
            del held
            os._exit(0 if same else 1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertGreater(held.table().num_rows, 0)


if __name__ == "__main__":
    unittest.main()
