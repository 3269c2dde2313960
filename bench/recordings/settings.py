"""Settings of the host that come back, however the script ends."""

import os
import signal
import sys


class Settings:
    """Files below /proc and /sys, each with the value that it gets back at the end.

    A process of its own in a session of its own puts them back: it waits for the end of a pipe, which comes when
    this process ends the block, and also when it is killed.
    """

    def __init__(self, wanted):
        self.wanted = wanted

    def __enter__(self):
        before = [(path, read(path)) for path in self.wanted]
        end, self.pipe = os.pipe()
        self.keeper = os.fork()
        if self.keeper == 0:
            os.close(self.pipe)
            os.setsid()
            keep(end, before)
        os.close(end)
        try:
            for path, value in self.wanted.items():
                write(path, value)
                print(f"  {path}: {value}", file=sys.stderr)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        os.close(self.pipe)
        _, status = os.waitpid(self.keeper, 0)
        if status != 0:
            raise OSError(f"settings could not be put back: {', '.join(self.wanted)}")


def keep(end, before):
    """Waits for the end of a pipe, writes the values back, and ends this process.

    What is sent to end the script may reach this process too: it ends after its work, not before.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    status = 0
    try:
        while os.read(end, 1):
            pass
        for path, value in reversed(before):
            try:
                write(path, value)
            except OSError as error:
                print(f"error: {path} could not be set back to {value}: {error.strerror}", file=sys.stderr)
                status = 1
    finally:
        os._exit(status)


def read(path):
    """Returns a setting's value; of several words the one in brackets."""
    with open(path) as file:
        text = file.read().strip()
    chosen = [word for word in text.split() if word.startswith("[")]
    return chosen[0].strip("[]") if chosen else text


def write(path, value):
    with open(path, "w") as file:
        file.write(value)
