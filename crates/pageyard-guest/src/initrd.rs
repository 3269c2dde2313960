//! A guest's initial file system, in the `newc` form of cpio: an init script, BusyBox, programs and what they are
//! linked with, modules.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Modules that a guest's disks need, in the order in which they are loaded. A kernel that has one built in lacks the
/// file.
const MODULES: [&str; 6] =
    ["virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk"];

/// Where a package has its modules, below itself: since Debian 13 in `usr`.
const MODULE_FOLDERS: [&str; 2] = ["lib/modules", "usr/lib/modules"];

/// Returns the guest's first process: it mounts file systems, loads modules and goes on with `then`.
fn init(then: &str) -> String {
    format!(
        "#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t tracefs tracefs /sys/kernel/tracing
for module in {}; do
	[ -e /$module.ko ] && /bin/busybox insmod /$module.ko
done
/bin/busybox ifconfig lo 127.0.0.1 up
{then}
",
        MODULES.join(" ")
    )
}

/// An initial file system under way.
pub struct Initrd(Archive);

impl Initrd {
    /// Begins with BusyBox and a shell script that runs once file systems are mounted and modules loaded.
    ///
    /// # Errors
    /// BusyBox is missing.
    pub fn new(script: &str) -> Result<Initrd, String> {
        Initrd::with_init(&init(script))
    }

    /// Begins with BusyBox and a first process, which mounts and loads what it needs.
    ///
    /// # Errors
    /// BusyBox is missing.
    pub fn with_init(init: &str) -> Result<Initrd, String> {
        let mut archive = Archive::default();
        for folder in ["bin", "proc", "sys", "dev", "tmp", "modules"] {
            archive.folder(folder);
        }
        archive.file("init", init.as_bytes());
        let busybox = ["/bin/busybox", "/usr/bin/busybox"].iter().find_map(|p| fs::read(p).ok());
        archive.file(
            "bin/busybox",
            &busybox.ok_or("busybox is missing; on Debian: apt-get install busybox-static")?,
        );
        Ok(Initrd(archive))
    }

    /// Adds a file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn file(&mut self, place: &str, path: &Path) -> Result<(), String> {
        self.0.file(place, &read(path)?);
        Ok(())
    }

    /// Adds files to `/`.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn files(&mut self, paths: &[PathBuf]) -> Result<(), String> {
        paths
            .iter()
            .try_for_each(|path| self.file(&path.file_name().unwrap_or_default().to_string_lossy(), path))
    }

    /// Adds a program as `/bin/pageyard`, with its shared libraries.
    ///
    /// # Errors
    /// The program, a library or `ldd` is missing.
    pub fn program(&mut self, program: &Path) -> Result<(), String> {
        self.file("bin/pageyard", program)?;
        for library in libraries(program)? {
            self.file(library.to_string_lossy().trim_start_matches('/'), &library)?;
        }
        Ok(())
    }

    /// Adds the modules that disks need, from a kernel's unpacked package.
    ///
    /// # Errors
    /// A module cannot be read or unpacked.
    pub fn modules(&mut self, kernel: &Path) -> Result<(), String> {
        let Some(package) = package(kernel) else { return Ok(()) };
        for name in MODULES {
            let folders = MODULE_FOLDERS.map(|folder| package.join(folder));
            if let Some(path) = folders.iter().find_map(|folder| find(folder, name)) {
                self.0.file(&format!("{name}.ko"), &module(&path)?);
            }
        }
        Ok(())
    }

    /// Writes the archive.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(self, to: &Path) -> Result<(), String> {
        fs::write(to, self.0.end()).map_err(|e| format!("{} cannot be written: {e}", to.display()))
    }
}

/// Returns the folder in which a kernel's package is unpacked, from one of the places where [`kernel`] finds it.
fn package(kernel: &Path) -> Option<&Path> {
    let in_boot = kernel.parent()?.ends_with("boot");
    kernel.ancestors().nth(if in_boot { 2 } else { 5 })
}

/// Finds the kernel of a package of the distribution that is unpacked in a folder. Since 6.19 it lies among its
/// modules.
///
/// # Errors
/// There is none.
pub fn kernel(package: &Path) -> Result<PathBuf, String> {
    let here = |folder: &Path| {
        let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
        files
            .filter(|p| p.is_file())
            .find(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("vmlinuz")))
    };
    let below = package.join(MODULE_FOLDERS[1]);
    let releases = fs::read_dir(&below).into_iter().flatten().flatten().map(|e| e.path());
    here(&package.join("boot")).or_else(|| releases.into_iter().find_map(|release| here(&release))).ok_or_else(|| {
        format!(
            "{} has no kernel: unpack a package there, as with `apt-get download linux-image-6.12-cloud-amd64` and \
             `dpkg-deb -x`; from 6.19 on a kernel is in linux-binary-RELEASE and linux-modules-RELEASE",
            package.display()
        )
    })
}

/// Returns the shared libraries of a program, as `ldd` says; none for one that is linked statically.
fn libraries(program: &Path) -> Result<BTreeSet<PathBuf>, String> {
    let said = Command::new("ldd").arg(program).output().map_err(|e| format!("ldd cannot be run: {e}"))?;
    let text = String::from_utf8_lossy(&said.stdout);
    let paths = text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from);
    Ok(paths.filter(|path| path.is_file()).collect())
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let names = [format!("{name}.ko"), format!("{name}.ko.xz")];
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                folders.push(entry.path());
            } else if entry.file_name().to_str().is_some_and(|n| names.iter().any(|name| name == n)) {
                return Some(entry.path());
            }
        }
    }
    None
}

/// Reads a module, unpacked.
fn module(path: &Path) -> Result<Vec<u8>, String> {
    if path.extension().is_some_and(|e| e == "ko") {
        return read(path);
    }
    let unpacked = Command::new("busybox").args(["xzcat"]).arg(path).output();
    match unpacked {
        Ok(done) if done.status.success() => Ok(done.stdout),
        _ => Err(format!("{} cannot be unpacked with busybox xzcat", path.display())),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|e| format!("{} cannot be read: {e}", path.display()))
}

/// A cpio archive under way.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    known: BTreeSet<String>,
    entries: u32,
}

impl Archive {
    fn folder(&mut self, name: &str) {
        if self.known.insert(name.to_owned()) {
            self.entry(name, 0o040_755, &[]);
        }
    }

    fn file(&mut self, name: &str, contents: &[u8]) {
        for (at, _) in name.match_indices('/') {
            self.folder(&name[..at]);
        }
        if self.known.insert(name.to_owned()) {
            self.entry(name, 0o100_755, contents);
        }
    }

    fn entry(&mut self, name: &str, mode: u32, contents: &[u8]) {
        self.entries += 1;
        self.bytes.extend_from_slice(b"070701");
        let mut field = |n: u32| self.bytes.extend_from_slice(format!("{n:08x}").as_bytes());
        let links = 1;
        for n in
            [self.entries, mode, 0, 0, links, 0, contents.len() as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0]
        {
            field(n);
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(contents);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn end(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_lies_in_one_of_two_places() {
        for place in ["boot/vmlinuz-6.12", "usr/lib/modules/7.2/vmlinuz"] {
            let package = tempfile::tempdir().unwrap();
            assert!(kernel(package.path()).unwrap_err().contains("dpkg-deb -x"));
            let file = package.path().join(place);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            assert_eq!(kernel(package.path()).as_ref(), Ok(&file));
            assert_eq!(super::package(&file), Some(package.path()));
        }
    }

    #[test]
    fn an_archive_has_its_folders_once_and_is_padded() {
        let mut archive = Archive::default();
        archive.file("a/b/c", b"hello");
        archive.file("a/d", b"x");
        let bytes = archive.end();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(text.matches("070701").count(), 5);
        assert!(text.contains("a/b/c\0") && text.contains("hello") && text.contains("TRAILER!!!"));
        // The header of the first entry: 13 fields of eight digits after the magic number, then the name.
        assert_eq!(&bytes[110..112], b"a\0");
        assert_eq!(&bytes[6 + 11 * 8..6 + 12 * 8], b"00000002");
    }
}
