"""Recordings of a stock kernel in a guest with two CPUs, each on a memory node of its own."""

import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PREPARE = ROOT / "bench/linux/judge/prepare"
LAUNCH = ROOT / "bench/linux/launch"

VERSIONS = ["6.1", "6.12"]

# MiB of each of the two nodes.
NODE_MIB = 512

# Seconds that a guest may take: it is emulated.
PATIENCE = 420

# Loads: what `pageyard-lab what-if-load` does, how much of it, MiB of page cache that are there before, and MiB of memory
# that are held, half of them given back here and there.
LOADS = {
    "fork": ("short processes, four at a time", 150, 100, 0),
    "files": ("files read through once, in memory that is full", 256, 900, 0),
    "net": ("bursts through 16 TCP connections over the loopback device", 192, 300, 0),
    "huge": ("mappings that ask for huge pages, in aged memory that is full", 200, 700, 420),
    "atomic": ("datagrams that packet sockets keep copies of, in memory that is full", 12000, 900, 420),
}

# Loads of kernels that have a setting, since a version: what is said besides, the load, how much of it, the setting and its value.
SETTINGS = {
    "defrag": ((6, 15), "with vm.defrag_mode=1", "atomic", 90_000, "vm/defrag_mode", 1),
}

SCRIPT = """exec 7</dev/vda
load() {{
	name=$1
	size=$2
	shift 2
	"$@" /bin/pageyard what-if-load $name --size $size --seed {seed} --cache /dev/vda
}}
said() {{ echo "guest: $*"; }}
said filling {cache} MiB of page cache
dd if=/dev/vda of=/dev/null bs=1M skip=4096 count={cache} 2>/dev/null
if [ {aged} -gt 0 ]; then
	said aging {aged} MiB
	mkfifo /hold
	sleep 100000 >/hold &
	load age {aged} </hold >/aged &
	until [ -s /aged ]; do sleep 1; done
	dd if=/dev/vda of=/dev/null bs=1M skip=6144 count={cache} 2>/dev/null
fi
{setting}
said recording
load {load} {size} /bin/pageyard record -o /{name}.trace --
tar -cf /dev/vdb -C / {name}.trace && said recorded
"""


class Guests:
    """Stock kernels that are fetched, and one of a package that is unpacked in the folder `own`, if there is one."""

    def __init__(self, own):
        self.kernels = dict.fromkeys(VERSIONS)
        if own:
            kernel, version = packaged(own)
            self.kernels[version] = kernel

    def names(self):
        found = {}
        for version in self.kernels:
            about = f"Linux {version} in a guest with two nodes"
            for load in LOADS:
                found[f"guest-{version}-{load}"] = f"{about}: {LOADS[load][0]}"
            for name, (since, besides, load, *_) in SETTINGS.items():
                if tuple(map(int, version.split("."))) >= since:
                    found[f"guest-{version}-{name}"] = f"{about}, {besides}: {LOADS[load][0]}"
        return found

    def record(self, name, *rest):
        record(self.kernels[name.split("-")[1]], name, *rest)


def packaged(folder):
    """Returns the kernel of a package that is unpacked in a folder, and its version."""
    # Since 6.19 the distribution's kernel lies among its modules.
    kernels = sorted([*(folder / "boot").glob("vmlinuz-*"), *(folder / "usr/lib/modules").glob("*/vmlinuz")])
    if len(kernels) != 1:
        raise SystemExit(
            f"error: {folder} has {len(kernels)} kernels, not one: unpack one kernel's packages there with `dpkg-deb -x`"
        )
    release = kernels[0].parent.name if kernels[0].name == "vmlinuz" else kernels[0].name.removeprefix("vmlinuz-")
    version = release.split(".")[:2]
    if len(version) != 2 or not all(part.isdecimal() for part in version):
        raise SystemExit(f"error: {kernels[0]} does not say which version it is")
    return kernels[0], ".".join(version)


def prepared(version, name, say):
    """Fetches a stock kernel, or finds it where it was fetched before."""
    say(f"{name}: preparing the kernel")
    made = subprocess.run([PREPARE, version], stdout=subprocess.PIPE, text=True)
    if made.returncode != 0:
        raise SystemExit(made.returncode)
    return Path(next(line[7:] for line in made.stdout.splitlines() if line.startswith("kernel ")))


def record(kernel, name, label, program, out, seed, say):
    """Boots a guest that records one load, and puts the trace into the folder `out` as LABEL.trace."""
    _, version, load = name.split("-")
    setting, size = "", None
    if load in SETTINGS:
        _, besides, load, size, file, value = SETTINGS[load]
        setting = f"echo {value} > /proc/sys/{file} && said {besides}"
    kernel = kernel or prepared(version, name, say)
    with tempfile.TemporaryDirectory(prefix="pageyard-guest-") as folder:
        folder = Path(folder)
        _, usual, cache, aged = LOADS[load]
        (folder / "script").write_text(
            SCRIPT.format(name=name, load=load, seed=seed, size=size or usual, cache=cache, aged=aged, setting=setting)
        )
        for disk, length in [("cache.img", 8 << 30), ("out.img", 256 << 20)]:
            with open(folder / disk, "wb") as file:
                file.truncate(length)
        boot(name, kernel, program, folder, say)
        unpack(folder, name, out / f"{label}.trace")


def boot(name, kernel, program, folder, say):
    """Runs the guest to its end, and repeats what it says."""
    command = [LAUNCH, "--kernel", kernel, "--folder", folder, "--script", folder / "script", "--program", program]
    command += ["--cpus", "2", "--node", f"{NODE_MIB}:0", "--node", f"{NODE_MIB}:1"]
    command += ["--read-only", folder / "cache.img", "--disk", folder / "out.img"]
    command += ["--seconds", str(PATIENCE), "--until", "guest: recorded"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as guest:
        try:
            for line in guest.stdout:
                repeat(line.strip(), name, say)
        except BaseException:
            guest.terminate()
            raise
    if guest.returncode != 0:
        raise SystemExit(f"error: {name}: the guest failed")


def repeat(line, name, say):
    """Says a line of the guest that is meant for people."""
    if line.startswith("guest: "):
        say(f"{name}: {line[7:]}")
    elif " events in " in line or line.startswith(("pageyard:", "pageyard-lab:", "error:")):
        say(f"{name}: {line}")


def unpack(folder, name, trace):
    """Takes the trace off the guest's disk."""
    with tarfile.open(folder / "out.img", ignore_zeros=False) as archive:
        for member in archive:
            if not member.isfile():
                continue
            place = Path(member.name).name
            if Path(member.name).parts != (f"{name}.trace", place):
                raise SystemExit(f"error: {name}: the guest left a file {member.name!r}")
            (folder / "trace").mkdir(exist_ok=True)
            (folder / "trace" / place).write_bytes(archive.extractfile(member).read())
    shutil.move(folder / "trace", trace)
