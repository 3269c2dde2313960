"""Replays of many recordings under many settings, in processes of this machine or on a cluster, by Dask.

>>> from pageyard import many
>>> many.replays(["a.trace", "b.trace"], ["linux-6.18", "linux-6.18:defrag_mode=1"], "replayed")  # doctest: +SKIP

Needs `pip install pageyard[dask]`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Callable, Union

from . import PageyardError, Report, _count, _library, _Options, _pageyard, _table_of

__all__ = ["replays"]

TOGETHER = 8
"""Replays that go to a worker at once, at most: what a worker that dies was doing is done again."""

Done = Union[Callable[[int, int], object], None]
"""A function that is called with the number of replays that are done, and of all."""


def replays(
    traces: Iterable[str | os.PathLike[str]],
    settings: Iterable[str],
    folder: str | os.PathLike[str],
    *,
    memory: int | str | None = None,
    slow_path: str | None = None,
    opening: int = 0,
    scheduler: str | None = None,
    workers: int | None = None,
    done: Done = None,
    library: Any = "arrow",
) -> Any:
    """Replays each recording on each engine with its settings, and returns one table, a row a replay.

    A row has the recording, the setting, every number that `Trace.replay` finds for the engine (`counters.pgalloc`), and
    in `error` why there are none. `folder` keeps each result as it comes: called again, whatever is there is not replayed
    a second time, as long as the recording, the setting and Pageyard's version are the same. What a worker that dies was
    doing goes to another one; a replay that kills three has an error.

    `scheduler`: the address of a Dask cluster whose workers see the recordings at the same paths; without it, `workers`
    processes of this machine, by default one for each CPU. `memory`, `slow_path` and `opening` are those of
    `Trace.replay`. `library` is `"arrow"`, `"pandas"` or `"polars"`.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    options = {"memory": memory, "slow_path": slow_path, "opening": _count("opening", opening)}
    settings = list(settings)
    jobs = {}
    for path in (Path(trace).resolve() for trace in traces):
        marks = _marks(path)
        for setting in settings:
            jobs[_key(marks, setting, options)] = (str(path), setting)
    rows = {key: row for key in jobs if (row := _kept(folder / f"{key}.json")) is not None}
    missing = [key for key in jobs if key not in rows]
    if done:
        done(len(rows), len(jobs))
    if missing:
        distributed = _library("distributed")
        local = {"n_workers": workers or os.cpu_count() or 1, "threads_per_worker": 1, "dashboard_address": None}
        with distributed.Client(scheduler) if scheduler else distributed.Client(**local) as client:
            cpus = max(1, sum(client.nthreads().values()))

            def submit(keys: list[str]) -> Any:
                trace, asked = jobs[keys[0]][0], [jobs[key][1] for key in keys]
                return client.submit(_replay, trace, asked, options, key=f"pageyard-{keys[0]}-{len(keys)}", pure=False)

            tasks = {submit(keys): keys for keys in _together(missing, jobs, cpus)}
            coming = distributed.as_completed(tasks)
            for task in coming:
                keys = tasks.pop(task)
                if task.status == "error" and len(keys) > 1:
                    # One of them ends whoever replays it: each gets its own chance.
                    for key in keys:
                        alone = submit([key])
                        tasks[alone] = [key]
                        coming.add(alone)
                    continue
                why = task.exception() if task.status == "error" else None
                found = [{"error": f"{type(why).__name__}: {why}"}] if why else task.result()
                for key, result in zip(keys, found):
                    trace, setting = jobs[key]
                    row = {"trace": trace, "setting": setting, **result}
                    if "error" not in row:
                        _keep(folder / f"{key}.json", row)
                    rows[key] = row
                task.release()
                if done:
                    done(len(rows), len(jobs))
    ordered = [rows[key] for key in jobs]
    # A row lacks what is not known of it; the table has the columns of all.
    columns = dict.fromkeys(["trace", "setting", "error", *(name for row in ordered for name in row)])
    table = _library("pyarrow").Table.from_pylist([{name: row.get(name) for name in columns} for row in ordered])
    return _table_of(table, library)


def _together(missing: list[str], jobs: dict[str, tuple[str, str]], cpus: int) -> Iterable[list[str]]:
    """Puts jobs of one recording together: they share its opening state. Few enough that every CPU has work to the end."""
    by_trace: dict[str, list[str]] = {}
    for key in missing:
        by_trace.setdefault(jobs[key][0], []).append(key)
    size = max(1, min(TOGETHER, len(missing) // (4 * cpus)))
    for keys in by_trace.values():
        for at in range(0, len(keys), size):
            yield keys[at : at + size]


def _replay(trace: str, settings: list[str], options: dict[str, Any]) -> list[dict[str, Any]]:
    """Replays of one recording, in a worker."""
    try:
        asked = _Options(tuple(settings), None, options["memory"], options["slow_path"], 0.0)
        # As `Trace.replay` does it, without the tables of what changed meanwhile.
        engines = Report(_pageyard.Recording(Path(trace)).replay(asked, False, options["opening"], 1, None, None))["engines"]
    except PageyardError as why:
        if len(settings) == 1:
            return [{"error": str(why)}]
        # One of them is at fault; the others have their rows.
        return [row for setting in settings for row in _replay(trace, [setting], options)]
    return [dict(_numbers(engine)) for engine in engines]


def _numbers(value: Any, name: str = "") -> Iterable[tuple[str, Any]]:
    """Every number of a document, with the path to it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _numbers(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, (bool, int, float)):
        yield name, value


def _marks(trace: Path) -> str:
    """What changes with a recording: its description, which has checksums, and the sizes of its tables."""
    try:
        sizes = sorted((table.name, table.stat().st_size) for table in trace.glob("*.parquet"))
        return f"{trace} {sizes} {(trace / 'meta.json').read_text(errors='replace')}"
    except OSError as why:
        # The replay says what is wrong with it.
        return f"{trace} {why}"


def _key(marks: str, setting: str, options: dict[str, Any]) -> str:
    from importlib.metadata import version

    job = json.dumps([marks, setting, options, version("pageyard")], sort_keys=True)
    return hashlib.sha256(job.encode()).hexdigest()[:32]


def _kept(path: Path) -> dict[str, Any] | None:
    try:
        row: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return row


def _keep(path: Path, row: dict[str, Any]) -> None:
    aside = path.with_suffix(f".{os.getpid()}.partial")
    aside.write_text(json.dumps(row))
    aside.replace(path)
