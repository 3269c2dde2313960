"""Copies of the tree in which changes are made, kept from run to run: cargo then builds again only what changed."""
import contextlib
import filecmp
import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = {"target", "node_modules", ".git", "__pycache__"}


def mirrored(copy):
    """Makes a copy of the tree equal to it, and returns the copy.

    A file that differs gets the time of now, not that of its original. What a run left in a copy was built with, and
    cargo builds again only what is newer than what it has built.
    """
    copy.mkdir(parents=True, exist_ok=True)
    for folder, folders, files in os.walk(ROOT):
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        folders[:] = [name for name in folders if name not in LEFT_OUT and name not in links]
        here = copy / Path(folder).relative_to(ROOT)
        for extra in set(os.listdir(here)) - {*folders, *files, *links}:
            removed(here / extra)
        for name in folders:
            (here / name).mkdir(exist_ok=True)
        for name in files + links:
            original, place = Path(folder) / name, here / name
            if original.is_symlink():
                if not place.is_symlink() or os.readlink(place) != os.readlink(original):
                    removed(place)
                    place.symlink_to(os.readlink(original))
            elif place.is_symlink() or not place.is_file() or not filecmp.cmp(original, place, shallow=False):
                removed(place)
                shutil.copyfile(original, place)
                shutil.copymode(original, place)
    return copy


def removed(place):
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


@contextlib.contextmanager
def changed(path, text):
    """Replaces the text of a file, and puts the old one back."""
    before = path.read_text()
    path.write_text(text)
    try:
        yield
    finally:
        path.write_text(before)
