//! The library from C and C++: the header is what the sources say, and programs compiled against it run, also under the
//! address sanitizer and valgrind.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// Runs a command; its output, where it succeeds.
///
/// # Panics
/// Where it fails.
fn run(command: &mut Command) -> Output {
    let out = command.output().unwrap_or_else(|why| panic!("{command:?}: {why}"));
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(out.status.success(), "{command:?}: {}\n{}{}", out.status, said(&out.stdout), said(&out.stderr));
    out
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success())
}

/// Returns the static library that belongs to this test.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let profile = test.parent().and_then(Path::parent).unwrap();
        let name = profile.file_name().unwrap().to_str().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", "pageyard-capi", "--profile"]);
        cargo.arg(if name == "debug" { "dev" } else { name });
        run(cargo.arg("--target-dir").arg(profile.parent().unwrap()).current_dir(HERE));
        profile.join("libpageyard_capi.a")
    })
}

/// Compiles a program; returns where it lies.
fn compiled(source: &str, compiler: &str, flags: &[&str], to: &Path) -> PathBuf {
    let name = Path::new(source).file_stem().unwrap().to_str().unwrap();
    let program = to.join(format!("{name}-{}", flags.concat().replace(['=', '/', ','], "")));
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-O1", "-g"]).args(flags);
    command
        .arg(format!("-I{HERE}/include"))
        .arg(Path::new(HERE).join(source))
        .args(["-x", "none"])
        .arg(library());
    run(command.args(["-lpthread", "-ldl", "-lm", "-lgcc_s", "-o"]).arg(&program));
    program
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("pageyard-capi-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn the_header_is_what_the_sources_say() {
    let mut written = Vec::new();
    let config = cbindgen::Config::from_file(format!("{HERE}/cbindgen.toml")).unwrap();
    cbindgen::Builder::new().with_crate(HERE).with_config(config).generate().unwrap().write(&mut written);
    let path = format!("{HERE}/include/pageyard.h");
    if std::env::var_os("PAGEYARD_BLESS").is_some() {
        std::fs::write(&path, &written).unwrap();
    }
    let there = std::fs::read(&path).unwrap_or_default();
    assert!(there == written, "write {path} anew with PAGEYARD_BLESS=1");
}

#[test]
fn programs_in_c_run_and_so_they_do_under_the_address_sanitizer_and_valgrind() {
    let folder = folder("c");
    for source in ["tests/c/calls.c", "tests/c/threads.c", "examples/forward.c", "examples/ukalloc.c"] {
        let plain = compiled(source, "cc", &["-std=gnu11"], &folder);
        print!("{}", String::from_utf8_lossy(&run(&mut Command::new(&plain)).stdout));
        let checked = compiled(source, "cc", &["-std=gnu11", "-fsanitize=address"], &folder);
        // What an example leaves to the end of the process is no leak that matters.
        run(Command::new(checked).env("ASAN_OPTIONS", "detect_leaks=0"));
        if source.starts_with("tests/c/calls") && has("valgrind") {
            run(Command::new("valgrind").args(["--quiet", "--error-exitcode=9"]).arg(&plain));
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_header_works_from_cpp() {
    if !has("c++") {
        println!("skipped: there is no C++ compiler");
        return;
    }
    let folder = folder("cpp");
    let program = folder.join("program.cpp");
    let text = r#"
        #include "pageyard.h"
        int main() {
            pageyard_arena arena{};
            void *page = nullptr;
            bool done = pageyard_arena_new(1 << 20, PAGEYARD_BACKING_BASE, &arena) == PAGEYARD_ERROR_OK
                && pageyard_alloc(arena, 4096, &page) == PAGEYARD_ERROR_OK
                && pageyard_free(arena, page, 4096) == PAGEYARD_ERROR_OK
                && pageyard_arena_delete(arena) == PAGEYARD_ERROR_OK;
            return done ? 0 : 1;
        }
    "#;
    std::fs::write(&program, text).unwrap();
    run(&mut Command::new(compiled(program.to_str().unwrap(), "c++", &["-std=c++17"], &folder)));
    std::fs::remove_dir_all(folder).unwrap();
}
