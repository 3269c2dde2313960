"""Recordings of Linux's page allocator: read them, replay them under other settings, compare, and see who holds memory.

>>> import pageyard
>>> trace = pageyard.Trace("build.trace")                              # doctest: +SKIP
>>> print(trace.summary())                                             # doctest: +SKIP
>>> replay = trace.replay("linux-6.12", "linux-6.18")                  # doctest: +SKIP
>>> replay.table("samples", "pandas")                                  # doctest: +SKIP
>>> trace.blame().table("by.thread", "polars")                         # doctest: +SKIP

Each call returns a `Report`: a dict with what the command `pageyard` prints under `--json`. `print` shows its text.
What is refused raises `PageyardError`.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Union

from . import _pageyard
from ._pageyard import PageyardError

__all__ = ["Comparison", "PageyardError", "Progress", "Replay", "Report", "Trace", "knobs"]

Progress = Union[Callable[[str, int, int], object], bool, None]
"""`True` writes a line to standard error. A function is called with the name of the step, the amount done and the total, in
rows. Where the total is unknown it is 0, and the amount is in seconds. An exception from the function stops the work."""

Library = Literal["arrow", "pandas", "polars"]
"""Whose table is returned: `pyarrow.Table`, or a data frame."""


class Report(dict[str, Any]):
    """What the command prints under `--json`, as a dict. Its text is `str(report)`."""

    text: str

    def __init__(self, said: tuple[str, str]) -> None:
        super().__init__(json.loads(said[0]))
        self.text = said[1]

    def __str__(self) -> str:
        return self.text

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.text)

    def table(self, name: str, library: Library = "arrow") -> Any:
        """One of the report's lists of records as a table. `name` leads to it: `"rows"`, `"by.thread"`."""
        records: Any = self
        for key in name.split("."):
            records = records.get(key) if isinstance(records, dict) else None
        if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
            raise PageyardError(f"the report has no table `{name}`; it has {', '.join(_tables(self)) or 'none'}")
        # A record lacks the keys of what is not known of it; a table has the columns of all.
        columns = dict.fromkeys(key for record in records for key in record)
        rows = [{column: record.get(column) for column in columns} for record in records]
        return _table_of(_library("pyarrow").Table.from_pylist(rows), library)


class Comparison(Report):
    """A recording replayed under several settings. `page` is the same as an HTML page."""

    page: str

    def __init__(self, said: tuple[tuple[str, str], str]) -> None:
        super().__init__(said[0])
        self.page = said[1]


class Replay(Report):
    """A replay, and what changed while it ran: `table` also takes `samples`, `zones`, `blocks`, `pageblocks` and
    `failures`, which `pageyard replay --out` writes."""

    TABLES = ("samples", "zones", "blocks", "pageblocks", "failures")

    def __init__(self, said: tuple[str, str], folder: Path) -> None:
        super().__init__(said)
        self._folder = folder
        weakref.finalize(self, _remove, folder, os.getpid())

    def table(self, name: str = "samples", library: Library = "arrow") -> Any:
        if name in self.TABLES:
            return _table_in(self._folder / "series" / f"{name}.parquet", library)
        return super().table(name, library)


class Trace:
    """A recording: a folder NAME.trace, made by `pageyard record` or `pageyard import`. Threads may share one."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._recording = _pageyard.Recording(self.path)

    def __repr__(self) -> str:
        return f"Trace({str(self.path)!r})"

    def __len__(self) -> int:
        """The number of recorded events."""
        return self._recording.rows()

    @property
    def name(self) -> str:
        return self._recording.name()

    @property
    def meta(self) -> dict[str, Any]:
        """When, where and how it was recorded."""
        meta: dict[str, Any] = json.loads(self._recording.meta())
        return meta

    def table(self, name: str = "events", library: Library = "arrow") -> Any:
        """A table of the folder as it is stored: `events`, and `before`, `after`, `samples`, `moves` where recorded."""
        path = self.path / f"{name}.parquet"
        if not path.exists():
            there = ", ".join(sorted(table.stem for table in self.path.glob("*.parquet")))
            raise PageyardError(f"{self.path} has no table `{name}`; it has {there}")
        return _table_in(path, library)

    def summary(self, *, progress: Progress = None) -> Report:
        """Requests, frees, failures, and the state of memory before and after."""
        with _reporting(progress) as report:
            return Report(self._recording.summary(report))

    def blame(self, *, progress: Progress = None) -> Report:
        """Who keeps pageblocks from becoming huge frames at the end of the recording."""
        with _reporting(progress) as report:
            return Report(self._recording.blame(report))

    def replay(
        self,
        *engines: str,
        settings: Mapping[str, object] | None = None,
        memory: int | str | None = None,
        slow_path: str | None = None,
        pinned: float = 0.0,
        fail_page_alloc: str | None = None,
        fail_min_order: int = 0,
        threads: bool = False,
        opening: int = 0,
        samples: int | None = None,
        progress: Progress = None,
    ) -> Replay:
        """Repeats the recorded calls on engines, as `pageyard replay` does.

        `settings`: knobs for every engine that has them; `"linux-6.18:pcp_batch"` sets one engine's. `knobs()` lists all.
        `memory`: a smaller machine, in bytes or as `"4G"`.
        `slow_path`: `"reclaim"`, `"compaction"`, or `"reclaim,compaction"`.
        `pinned`: the share of movable frames that neither can take, from 0 to 1 (the command's is a percentage).
        `fail_page_alloc`: requests fail on purpose as Linux's boot parameter of that name says, `"interval,probability,
        space,times"`: `"1,10,0,-1"` fails one in ten. `fail_min_order`: the smallest order that does.
        `threads`: one thread for each recorded CPU.
        `opening`: a seed for the order in which free blocks lie on their lists at the start.
        `samples`: the number of samples in the timeline.
        """
        folder = Path(tempfile.mkdtemp(prefix="pageyard-"))
        try:
            options = _Options(engines, settings, memory, slow_path, pinned, fail_page_alloc, fail_min_order)
            opening, samples = _count("opening", opening), None if samples is None else _count("samples", samples)
            with _reporting(progress) as report:
                said = self._recording.replay(options, threads, opening, samples, folder / "series", report)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return Replay(said, folder)

    def compare(
        self,
        *engines: str,
        settings: Mapping[str, object] | None = None,
        seeds: int = 5,
        memory: int | str | None = None,
        slow_path: str | None = None,
        progress: Progress = None,
    ) -> Comparison:
        """Replays it under several settings, from `seeds` opening states each, and tells differences between settings
        from those between openings, as `pageyard compare` does. The other arguments are those of `replay`."""
        options = _Options(engines, settings, memory, slow_path, 0.0)
        with _reporting(progress) as report:
            return Comparison(self._recording.compare(options, _count("seeds", seeds), report))


def knobs() -> Report:
    """The settings of every engine, by name; a table of them is `knobs().table("knobs")`."""
    return Report(_pageyard.knobs())


class _Options:
    """Read by the compiled half, attribute by attribute."""

    def __init__(
        self,
        engines: tuple[str, ...],
        settings: Mapping[str, object] | None,
        memory: int | str | None,
        slow_path: str | None,
        pinned: float,
        fail_page_alloc: str | None = None,
        fail_min_order: int = 0,
    ) -> None:
        if not 0.0 <= pinned <= 1.0:
            raise PageyardError(f"`pinned` is a share, from 0 to 1; {pinned} was given")
        if pinned and slow_path is None:
            raise PageyardError("`pinned` limits what reclaim and compaction can take; give a `slow_path`, too")
        self.engines = list(engines)
        self.settings = [(name, _value(value)) for name, value in (settings or {}).items()]
        self.memory = None if memory is None else _bytes(memory)
        self.slow_path = slow_path
        if not 0 <= fail_min_order <= 10:
            raise PageyardError(f"`fail_min_order` is an order, from 0 to 10; {fail_min_order} was given")
        self.pinned = pinned
        self.fail_page_alloc = fail_page_alloc
        self.fail_min_order = fail_min_order


def _value(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _count(what: str, number: int) -> int:
    if not 0 <= number < 1 << 64:
        raise PageyardError(f"`{what}` is a number from 0 to 2^64 - 1; {number} was given")
    return number


def _bytes(size: int | str) -> int:
    if isinstance(size, int):
        return _count("memory", size)
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(?:([kmgt])(?:i?b)?)?", str(size).strip(), re.IGNORECASE)
    if found is None:
        raise PageyardError(f"`{size}` is not a size; write it like 512M or 1.5G")
    return _count("memory", int(float(found[1]) * (1 << 10 * " kmgt".index((found[2] or " ").lower()))))


@contextmanager
def _reporting(progress: Progress) -> Iterator[Callable[[str, int, int], object] | None]:
    if progress is not True:
        yield progress or None
        return

    def line(doing: str, done: int, of: int) -> None:
        far = f"{100 * done // of} %" if of else f"{done} s"
        print(f"\r{doing}: {far}\033[K", end="", file=sys.stderr, flush=True)

    try:
        yield line
    finally:
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def _remove(folder: Path, owner: int) -> None:
    # A forked child has the parent's objects, but not its files.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _tables(report: Any, path: str = "") -> list[str]:
    if isinstance(report, dict):
        return [name for key, value in report.items() for name in _tables(value, f"{path}.{key}" if path else key)]
    return [path] if isinstance(report, list) and report and isinstance(report[0], dict) else []


def _table_in(path: Path, library: Library) -> Any:
    parquet = _library("pyarrow.parquet")
    try:
        return _table_of(parquet.read_table(path), library)
    except (OSError, _library("pyarrow").ArrowException) as why:
        raise PageyardError(f"{path}: {why}") from why


def _table_of(table: Any, library: Library) -> Any:
    if library == "arrow":
        return table
    if library == "pandas":
        _library("pandas")
        return table.to_pandas()
    if library == "polars":
        return _library("polars").from_arrow(table)
    raise PageyardError(f"there are no tables of `{library}`; name arrow, pandas or polars")


def _library(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as why:
        package = module.partition(".")[0]
        raise PageyardError(f"this table needs {package}; run: pip install {package}") from why
