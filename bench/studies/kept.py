"""Kept runs of experiments, and tables in Markdown."""

import gzip
import json

PATCHES = ["reference:patch2", "reference:patch3", "reference:patch4"]
PUBLISHED = ["published:patch2", "published:patch3", "published:patch4"]


class Study:
    """The rows of a kept run."""

    def __init__(self, path):
        with gzip.open(path, "rt") as file:
            document = json.load(file)
        if document["made"].get("checked_build") or document["quick"]:
            raise SystemExit(f"{path}: keep a full run of what `cargo build --release` builds")
        self.tables, self.units = {}, {}
        for row in document["rows"]:
            self.tables.setdefault(row["table"], {}).setdefault(row["metric"], {})[row["column"]] = row["value"]

    def at(self, table, metric, column):
        return self.tables.get(table, {}).get(metric, {}).get(column)

    def any(self, metric, column):
        """The first row of a metric and a column, in any table."""
        found = (t[metric][column] for t in self.tables.values() if column in t.get(metric, {}))
        return next(found, None)

    def columns(self, table):
        return list(dict.fromkeys(c for row in self.tables[table].values() for c in row))


def number(value):
    """Three digits or so, and thousands in groups; empty where nothing was measured."""
    if value is None:
        return ""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return "0" if value == 0 else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def signed(value, digits=1):
    return "" if value is None else f"{value:+.{digits}f}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
