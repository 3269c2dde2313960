"""The loads that are recorded on a host. Each is a class: `prepare` runs before the recording, `run` while it goes on.

`python3 loads.py NAME FOLDER SEED` is what `pageyard record` runs.
"""

import contextlib
import ctypes
import fcntl
import mmap
import multiprocessing
import os
import random
import shutil
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

PAGE = 4096
MIB = 1 << 20

ORDER3 = "/proc/sys/net/core/high_order_alloc_disable"
VM = "/proc/sys/vm/"
THP = "/sys/kernel/mm/transparent_hugepage/enabled"


class Load:
    """A load in the folder `folder`; `seed` decides every choice it makes."""

    # Settings while it is recorded.
    settings = {}

    def __init__(self, folder, seed):
        self.folder = Path(folder)
        self.random = random.Random(seed)

    def prepare(self):
        """Makes what the load starts from, and returns what has to stay open until the recording ends."""
        return None


class Database(Load):
    """Transactions on an SQLite file of 96 MiB, read and written through a cache of 4 MiB"""

    ROWS = 96 * 1024

    def open(self):
        base = sqlite3.connect(self.folder / "base", isolation_level=None)
        base.execute("PRAGMA cache_size=-4096")
        base.execute("PRAGMA synchronous=OFF")
        return base

    def prepare(self):
        base = self.open()
        base.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, kind INTEGER, text BLOB)")
        base.execute("BEGIN")
        for i in range(self.ROWS):
            base.execute("INSERT INTO rows VALUES (?, ?, ?)", (i, i % 1000, self.random.randbytes(900)))
        base.execute("CREATE INDEX kinds ON rows (kind)")
        base.execute("COMMIT")
        base.close()
        forget(self.folder / "base")

    def run(self):
        base = self.open()
        for step in range(3000):
            base.execute("BEGIN")
            for _ in range(6):
                row = self.random.randrange(self.ROWS)
                base.execute("SELECT text FROM rows WHERE id = ?", (row,)).fetchone()
            base.execute("UPDATE rows SET text = ? WHERE id = ?", (self.random.randbytes(900), row))
            base.execute("COMMIT")
            if step % 100 == 0:
                kind = self.random.randrange(1000)
                base.execute("SELECT count(*), max(text) FROM rows WHERE kind = ?", (kind,)).fetchone()
        base.execute("VACUUM")
        base.close()


class Containers(Load):
    """Containers started and stopped: namespaces of their own, a root in memory, a few processes in it"""

    SCRIPT = (
        "mount -t tmpfs root $0 && mkdir $0/bin $0/tmp $0/dev && cp $1 $0/bin/busybox && "
        "touch $0/dev/null $0/dev/zero && "
        "mount --bind /dev/null $0/dev/null && mount --bind /dev/zero $0/dev/zero && "
        "exec chroot $0 /bin/busybox sh -c '"
        "for i in 1 2 3; do /bin/busybox dd if=/dev/zero of=/tmp/$i bs=64k count=24 2>/dev/null; done; "
        "/bin/busybox ls -l /tmp >/tmp/list; /bin/busybox sha256sum /tmp/1 >/tmp/sum'"
    )

    def run(self):
        busybox = shutil.which("busybox")
        root = self.folder / "root"
        root.mkdir()
        command = ["unshare", "--mount", "--pid", "--fork", "--uts", "--ipc", "--net"]
        command += ["sh", "-c", self.SCRIPT, str(root), busybox]
        running = []
        for _ in range(70):
            running.append(subprocess.Popen(command))
            if len(running) == 3:
                ended(running.pop(0))
        for container in running:
            ended(container)


class Heaps(Load):
    """Two interpreters that build heaps of small objects and drop them"""

    def run(self):
        helpers = [multiprocessing.Process(target=self.build, args=(seed,)) for seed in range(2)]
        for helper in helpers:
            helper.start()
        for helper in helpers:
            helper.join()
            if helper.exitcode != 0:
                raise SystemExit("error: an interpreter failed")

    def build(self, seed):
        choose = random.Random(self.random.random() + seed)
        kept = []
        for _ in range(14):
            heap = {i: [str(i), (i, i + 1), {"name": i}] for i in range(choose.randrange(20_000, 90_000))}
            kept.append([heap[i] for i in heap if choose.random() < 0.3])
            del heap
            if len(kept) > 3:
                kept.pop(choose.randrange(len(kept)))


class Net(Load):
    """TCP and UDP over the loopback device, with buffers of order 3"""

    settings = {ORDER3: "0"}

    def run(self):
        listener = socket.create_server(("127.0.0.1", 0))
        pairs = []
        for _ in range(8):
            sender = socket.create_connection(listener.getsockname())
            receiver = listener.accept()[0]
            pairs.append((sender, receiver))
        udp = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
        udp[1].bind(("127.0.0.1", 0))
        udp[1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * MIB)
        for one in [end for pair in pairs for end in pair] + udp:
            one.setblocking(False)
        data = self.random.randbytes(MIB)
        left = 640 * MIB
        while left > 0:
            time.sleep(0.005)
            for sender, _ in pairs:
                with contextlib.suppress(BlockingIOError):
                    left -= sender.send(memoryview(data)[: self.random.randrange(1 << 10, 1 << 18)])
            for _ in range(24):
                with contextlib.suppress(BlockingIOError):
                    size = self.random.choice([200, 1400, 9000, 60_000])
                    left -= udp[0].sendto(memoryview(data)[:size], udp[1].getsockname())
            for receiver in [receiver for _, receiver in pairs] + [udp[1]]:
                with contextlib.suppress(BlockingIOError):
                    while receiver.recv(1 << 18):
                        pass


class NetOrder0(Net):
    """The same with single frames: net.core.high_order_alloc_disable=1"""

    settings = {ORDER3: "1"}


class PageCache(Load):
    """Files of 4 KiB to 4 MiB written, read again, forgotten and removed"""

    def run(self):
        files, made = [], 0
        data = self.random.randbytes(4 * MIB)
        while made < 1024 * MIB:
            path = self.folder / f"{made}"
            size = int(PAGE * 2 ** self.random.uniform(0, 10))
            path.write_bytes(memoryview(data)[:size])
            files.append(path)
            made += size
            again = self.random.choice(files)
            again.read_bytes()
            if self.random.random() < 0.2:
                forget(again)
            while len(files) > 120:
                files.pop(self.random.randrange(len(files))).unlink()


class Thp(Load):
    """Demand for huge pages as mmtests' thpscale has it: full memory full of holes, files written beside"""

    settings = {THP: "madvise"}

    def prepare(self):
        return Filled(self.folder, each=7)

    def run(self):
        stop = threading.Event()
        writer = threading.Thread(target=self.write, args=(stop,))
        writer.start()
        held = []
        for _ in range(60):
            held.append(mapped(2 * MIB * self.random.randrange(1, 5), huge=True))
            if len(held) > 30:
                held.pop(self.random.randrange(len(held))).close()
        stop.set()
        writer.join()

    def write(self, stop):
        made = 0
        while not stop.is_set():
            (self.folder / f"small-{made % 200}").write_bytes(bytes(64 * 1024))
            made += 1
            time.sleep(0.002)


class Atomic(Load):
    """A network device that receives faster than its packets are read, in full memory full of holes"""

    # Frames of the largest packet, and MiB that may wait.
    FRAMES = 16
    MOST_MIB = 448

    # A small reserve, and a background reclaim that begins late.
    settings = {VM + "min_free_kbytes": "16384", VM + "watermark_scale_factor": "1", VM + "watermark_boost_factor": "0"}

    def prepare(self):
        return Filled(self.folder, each=15)

    def run(self):
        device = Tap()
        data = self.random.randbytes(PAGE)
        for _ in range(2):
            waiting = 0
            with device.reader(2 * self.MOST_MIB * MIB):
                while waiting < self.MOST_MIB * MIB:
                    frames = self.random.randrange(1, self.FRAMES + 1)
                    # What the device has no memory for is lost, as on any network.
                    with contextlib.suppress(OSError):
                        device.receive([data] * frames)
                    waiting += frames * PAGE
            time.sleep(0.3)


LOADS = {
    "database": Database,
    "containers": Containers,
    "heaps": Heaps,
    "net-order3": Net,
    "net-order0": NetOrder0,
    "page-cache": PageCache,
    "thp": Thp,
    "atomic": Atomic,
}


class Filled:
    """Free memory filled with page cache, and one page of anonymous memory for every `each` pages of that. The kernel
    takes page cache back for those who need memory; the anonymous pages stay, a hole in every block."""

    # No more than this is held, whatever the host's size.
    MOST_HELD = 3072 * MIB

    # The part of memory that is read at a time.
    FILE = 64 * MIB

    def __init__(self, folder, each):
        held = mmap.mmap(-1, self.MOST_HELD, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        held.madvise(mmap.MADV_NOHUGEPAGE)
        self.held = held
        page = files = 0
        # No more than there is: near its watermarks the kernel takes back what was read first, without end.
        most = available("MemTotal") // self.FILE
        while available("MemFree") > 128 * MIB and files < most:
            path = Path(folder) / f"holes-{files}"
            files += 1
            with open(path, "wb") as file:
                file.truncate(self.FILE)
            with open(path, "rb") as file:
                # Single pages: nothing is read ahead.
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
                for at in range(0, self.FILE, PAGE):
                    os.pread(file.fileno(), 1, at)
                    if at // PAGE % each == 0 and page < self.MOST_HELD:
                        held[page] = 1
                        page += PAGE


class Tap:
    """A network device whose packets this process makes, in a network of its own."""

    def __init__(self):
        libc = ctypes.CDLL(None, use_errno=True)
        # CLONE_NEWNET: the device goes with this process.
        if libc.unshare(0x4000_0000) != 0:
            raise OSError(ctypes.get_errno(), "a network of its own is refused")
        self.file = os.open("/dev/net/tun", os.O_RDWR)
        self.name = b"pageyard"
        # IFF_TAP, IFF_NO_PI, IFF_NAPI, IFF_NAPI_FRAGS: packets are received as network drivers do, in fragments.
        fcntl.ioctl(self.file, 0x4004_54CA, struct.pack("16sH22x", self.name, 0x0002 | 0x1000 | 0x0010 | 0x0020))
        with socket.socket() as any_socket:
            # SIOCSIFFLAGS, IFF_UP.
            fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH22x", self.name, 1))

    def reader(self, most):
        """Opens a socket that gets every packet, and keeps up to `most` bytes of them."""
        reader = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        # SO_RCVBUFFORCE
        reader.setsockopt(socket.SOL_SOCKET, 33, min(most, 1 << 30))
        return reader

    def receive(self, parts):
        """Has the device receive one packet, of a protocol for experiments."""
        os.writev(self.file, [b"\xff" * 6 + b"\x02" * 6 + b"\x88\xb5" + bytes(46), *parts])


def available(name):
    """Returns a line of /proc/meminfo in bytes."""
    for line in open("/proc/meminfo"):
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/meminfo has no {name}")


def mapped(size, huge):
    """Maps anonymous memory and writes to each of its pages."""
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE if huge else mmap.MADV_NOHUGEPAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in range(0, size, PAGE):
        ctypes.c_char.from_address(address + page).value = b"x"
    return memory


def forget(path):
    """Has the kernel drop what it keeps of a file."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def ended(process):
    if process.wait() != 0:
        raise SystemExit("error: a container failed")


if __name__ == "__main__":
    name, folder, seed = sys.argv[1:]
    LOADS[name](folder, int(seed)).run()
