"""Every query of docs/duckdb.md and docs/design/fleet.md, and what a few of them must find."""

import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import duckdb
import pageyard

ROOT = Path(__file__).resolve().parents[3]
# No request of this recording fell back.
EMPTY = "Fallbacks into pageblocks of another type"


def queries(page):
    """What each query is for, in the page's words, and the query."""
    found = re.findall(r"(?:^#[^\n]*\n)?([^\n]+(?:\n[^\n]+)*)\n\n```sql\n(.*?)```", page, re.S | re.M)
    return [(said.replace("\n", " "), query) for said, query in found]


class Queries(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.chdir(ROOT)
        cls.trace = pageyard.Trace("data/traces/build.trace")
        cls.found = {}
        with duckdb.connect() as connection:
            for said, query in queries(Path("docs/duckdb.md").read_text()):
                answer = connection.execute(query)
                if not query.startswith("CREATE"):
                    cls.found[said] = answer.fetchall()

    def answer(self, said):
        return next(rows for name, rows in self.found.items() if name.startswith(said))

    def test_there_are_twenty_and_each_finds_something(self):
        self.assertGreaterEqual(len(self.found), 20)
        empty = [said for said, rows in self.found.items() if not rows]
        self.assertEqual([said[: len(EMPTY)] for said in empty], [EMPTY])

    def test_they_count_what_the_summary_counts(self):
        summary = self.trace.summary()
        self.assertEqual(dict(self.answer("Events of each kind")), {k: n for k, n in summary["by_event"].items() if n})
        by_order = self.answer("Requests by order")
        self.assertEqual([requests for _, requests, _ in by_order], [n for n in summary["by_order"] if n])
        self.assertEqual(sum(failed for _, _, failed in by_order), summary["failed"])
        lived = sum(blocks for _, blocks, *_ in self.answer("Lifetimes by order"))
        self.assertEqual(lived, summary["perf_kmem"]["allocated_and_freed"]["requests"])
        free = {kind: after for kind, _, after in self.answer("What memory held")}["free"]
        self.assertEqual(free, summary["contents"]["after"]["frames"]["free"])
        # A recording without a failure does not show that one would be seen.
        with duckdb.connect() as connection:
            failed = connection.execute(
                "SELECT count(*) FROM 'data/traces/guest-6.12-huge.trace/events.parquet' "
                "WHERE event = 'alloc' AND nullif(pfn, 18446744073709551615) IS NULL"
            ).fetchone()
        self.assertEqual(failed[0], pageyard.Trace("data/traces/guest-6.12-huge.trace").summary()["failed"])


class Fleet(unittest.TestCase):
    """Rows of a fleet that the command wrote (`make build`), asked by DuckDB and by the command."""

    HOSTS = {"web-1": "data/traces/build.trace", "web-2": "data/traces/guest-6.12-huge.trace", "db-1": "data/traces/database.trace"}

    def pageyard(self, *arguments):
        command = [ROOT / "target/release/pageyard", *arguments]
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout

    def test_duckdb_and_the_command_find_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            fleet = Path(folder) / "fleet"
            for host, trace in self.HOSTS.items():
                self.pageyard("summary", trace, "--rows", fleet, "--as", host, "--began", "1795824000", "--window", "2")
            said = json.loads(self.pageyard("fleet", fleet, "--json"))
            found = {}
            self.addCleanup(os.chdir, os.getcwd())
            os.chdir(folder)
            with duckdb.connect() as connection:
                for name, query in queries((ROOT / "docs/design/fleet.md").read_text()):
                    found[name] = connection.execute(query).fetchall()
                rows = connection.execute("SELECT count(*) FROM 'fleet/*/*/*.parquet'").fetchone()[0]
            os.chdir(ROOT)
        self.assertEqual(len(found), 3)
        self.assertEqual((said["hosts"], said["rows"], said["left_out"]), (3, rows, []))
        worst = next(f["worst"] for f in said["figures"] if f["figure"] == "share of free memory in huge frames")
        by_query = next(rows for name, rows in found.items() if name.startswith("The worst hosts"))
        self.assertEqual([host for host, _ in by_query], [w["host"] for w in worst])
        for (_, pct), w in zip(by_query, worst):
            self.assertAlmostEqual(pct, w["value"], places=6)


if __name__ == "__main__":
    unittest.main()
