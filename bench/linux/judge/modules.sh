# SPDX-License-Identifier: GPL-2.0
# What prepare and debian share.

die() {
	echo "error: $*" >&2
	exit 1
}

# Where the compiler is: what runs a command there, and that place's root.
within=()
top=

# Builds modules against a kernel's headers, and the initial file system that loads one of them.
build_modules() { # headers folder release [modules]
	local build=$2/module
	rm -rf "$build"
	mkdir -p "$build"
	cp "$here"/*.[ch] "$here"/Makefile "$build"
	# Without types for BPF, which would take `pahole` besides.
	"${within[@]}" make -C "$1" M="${build#"$top"}" MODULES="${4:-}" CONFIG_DEBUG_INFO_BTF_MODULES= modules >"$build/build.log" 2>&1 ||
		die "the module does not build for $3; the log is $build/build.log and ends with: $(tail -n 3 "$build/build.log")"
	local files=() module
	for module in "$build"/pageyard_*.ko; do
		files+=(--file "$module")
	done
	"$here/../launch" pack --to "$2/initrd" --init "$here/init" "${files[@]}"
}
