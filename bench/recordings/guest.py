"""Recordings of a stock kernel in a guest with two CPUs, each on a memory node of its own."""

import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PREPARE = ROOT / "bench/linux/judge/prepare"

VERSIONS = ["6.1", "6.12"]

# MiB of each of the two nodes.
NODE_MIB = 512

# Seconds that a guest may take: it is emulated.
PATIENCE = 420

# What the disks need; a kernel that has one built in lacks the file.
MODULES = ["virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk"]

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

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tracefs tracefs /sys/kernel/tracing
for module in {modules}; do
	[ -e /$module.ko ] && insmod /$module.ko
done
ifconfig lo 127.0.0.1 up
exec </dev/null >/dev/console 2>&1
exec 7</dev/vda
load() {{
	name=$1
	size=$2
	shift 2
	"$@" /bin/pageyard what-if-load $name --size $size --seed 1 --cache /dev/vda
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
poweroff -f
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
    kernels = sorted((folder / "boot").glob("vmlinuz-*"))
    if len(kernels) != 1:
        raise SystemExit(
            f"error: {folder}/boot has {len(kernels)} kernels, not one: unpack one package there with `dpkg-deb -x`"
        )
    version = kernels[0].name.removeprefix("vmlinuz-").split(".")[:2]
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


def record(kernel, name, label, program, out, say):
    """Boots a guest that records one load, and puts the trace into the folder `out` as LABEL.trace."""
    _, version, load = name.split("-")
    setting, size = "", None
    if load in SETTINGS:
        _, besides, load, size, file, value = SETTINGS[load]
        setting = f"echo {value} > /proc/sys/{file} && said {besides}"
    for tool in ["qemu-system-x86_64", "busybox", "cpio"]:
        if not shutil.which(tool):
            raise SystemExit(
                f"error: {tool} is missing; on Debian: apt-get install qemu-system-x86 busybox-static cpio"
            )
    kernel = kernel or prepared(version, name, say)
    with tempfile.TemporaryDirectory(prefix="pageyard-guest-") as folder:
        folder = Path(folder)
        _, usual, cache, aged = LOADS[load]
        init = INIT.format(
            modules=" ".join(MODULES), name=name, load=load, size=size or usual, cache=cache, aged=aged, setting=setting
        )
        initrd(folder, kernel.parent.parent, program, init)
        for disk, length in [("cache.img", 8 << 30), ("out.img", 256 << 20)]:
            with open(folder / disk, "wb") as file:
                file.truncate(length)
        boot(name, kernel, folder, say)
        unpack(folder, name, out / f"{label}.trace")


def initrd(folder, package, program, init):
    """Makes the initial file system: BusyBox, the program and what it is linked with, modules."""
    root = folder / "root"
    for place in ["bin", "proc", "sys", "dev"]:
        (root / place).mkdir(parents=True)
    (root / "init").write_text(init)
    (root / "init").chmod(0o755)
    shutil.copy(shutil.which("busybox"), root / "bin/busybox")
    shutil.copy(program, root / "bin/pageyard")
    # A static program has no libraries.
    linked = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    for library in (word for word in linked.split() if word.startswith("/") and os.path.isfile(word)):
        place = root / library.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)
    for module in MODULES:
        # Since Debian 13 packages have them below `usr`.
        found = [p for top in ("lib", "usr/lib") for p in (package / top / "modules").rglob(f"{module}.ko*")]
        for path in found:
            if path.suffix == ".xz":
                unpacked = subprocess.run(["xz", "-dc", path], capture_output=True, check=True).stdout
                (root / f"{module}.ko").write_bytes(unpacked)
            else:
                shutil.copy(path, root / f"{module}.ko")
    subprocess.run(
        "find . | cpio --quiet -o -H newc > ../initrd", shell=True, cwd=root, check=True
    )


def boot(name, kernel, folder, say):
    """Runs the guest to its end, and repeats what it says."""
    nodes = []
    for node in range(2):
        nodes += ["-object", f"memory-backend-ram,id=m{node},size={NODE_MIB}M"]
        nodes += ["-numa", f"node,nodeid={node},cpus={node},memdev=m{node}"]
    console = folder / "console.log"
    append = "console=ttyS0 quiet panic=-1 nowatchdog rcupdate.rcu_cpu_stall_suppress=1 tsc=reliable no_timer_check"
    guest = subprocess.Popen(
        ["qemu-system-x86_64", "-M", "pc", "-cpu", "max", "-smp", "2", "-accel", "tcg,thread=multi"]
        + ["-m", f"{2 * NODE_MIB}M", *nodes, "-display", "none", "-nodefaults", "-no-reboot"]
        + ["-kernel", kernel, "-initrd", folder / "initrd", "-append", append]
        + ["-drive", f"file={folder}/cache.img,format=raw,if=virtio,readonly=on"]
        + ["-drive", f"file={folder}/out.img,format=raw,if=virtio,cache=unsafe"]
        + ["-serial", f"file:{console}"],
        stdin=subprocess.DEVNULL,
    )
    begun, told = time.monotonic(), 0
    try:
        while guest.poll() is None and time.monotonic() - begun < PATIENCE:
            time.sleep(0.2)
            told = repeat(console, told, name, say)
        repeat(console, told, name, say)
        text = console.read_text(errors="replace") if console.exists() else ""
        if guest.returncode is None:
            raise SystemExit(f"error: {name}: the guest is not done after {PATIENCE} s")
        if "guest: recorded" not in text:
            last = [line for line in text.splitlines() if line.strip()][-3:]
            raise SystemExit(f"error: {name}: the guest ended without a recording; it said: {' / '.join(last)}")
    finally:
        if guest.poll() is None:
            guest.kill()
            guest.wait()


def repeat(console, told, name, say):
    """Says the guest's complete lines that are new, and returns how many there are."""
    if not console.exists():
        return told
    lines = console.read_text(errors="replace").split("\n")[:-1]
    for line in lines[told:]:
        line = line.strip()
        if line.startswith("guest: "):
            say(f"{name}: {line[7:]}")
        elif " events in " in line or line.startswith(("pageyard:", "pageyard-lab:", "error:")):
            say(f"{name}: {line}")
    return len(lines)


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
