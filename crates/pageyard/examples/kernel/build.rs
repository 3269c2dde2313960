//! Names the linker script of the processor.

fn main() {
    let (here, arch) = (env("CARGO_MANIFEST_DIR"), env("CARGO_CFG_TARGET_ARCH"));
    println!("cargo::rerun-if-changed=link");
    println!("cargo::rustc-link-arg-bins=-T{here}/link/{arch}.ld");
}

fn env(name: &str) -> String {
    std::env::var(name).expect("cargo sets it")
}
