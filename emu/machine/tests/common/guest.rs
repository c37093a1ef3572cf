//! Builds the freestanding guests of `tests/images` with C compilers of the host system.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The outside programs that make an image.
pub(crate) struct Toolchain {
    compiler: &'static str,
    target: &'static [&'static str],
    linker: &'static str,
    /// Linker script, beside the sources.
    script: &'static str,
}

// No red zone below an interrupt's frame.
const CLANG: Toolchain = Toolchain {
    compiler: "clang",
    target: &["--target=x86_64-none-elf", "-mno-red-zone"],
    linker: "ld.lld",
    script: "guest.ld",
};
const GCC: Toolchain = Toolchain {
    compiler: "gcc",
    target: &["-m64", "-fno-pie", "-mno-red-zone"],
    linker: "ld",
    script: "guest.ld",
};
// One with LSE atomics, one with exclusives. Before translation is on, accesses are aligned.
const CLANG_ARM64: Toolchain = Toolchain {
    compiler: "clang",
    target: &["--target=aarch64-none-elf", "-march=armv8.1-a", "-mstrict-align"],
    linker: "ld.lld",
    script: "arm64.ld",
};
const GCC_ARM64: Toolchain = Toolchain {
    compiler: "aarch64-linux-gnu-gcc",
    target: &["-march=armv8-a", "-mno-outline-atomics", "-mstrict-align", "-fno-pie"],
    linker: "aarch64-linux-gnu-ld",
    script: "arm64.ld",
};

/// Flags of every guest: no host headers, no SIMD state.
const FLAGS: [&str; 9] = [
    "-std=gnu11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-ffreestanding",
    "-fno-pic",
    "-mgeneral-regs-only",
    "-fno-stack-protector",
];

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Returns every complete toolchain for x86-64; none means that the caller's test is skipped.
///
/// With `CROSSCALL_REQUIRE_TOOLS=1` absence is a failure.
pub(crate) fn toolchains() -> Vec<Toolchain> {
    complete([CLANG, GCC])
}

/// As `toolchains`, for arm64.
pub(crate) fn arm64_toolchains() -> Vec<Toolchain> {
    complete([CLANG_ARM64, GCC_ARM64])
}

#[expect(clippy::print_stdout, reason = "a skipped test must say what it needs")]
fn complete(all: [Toolchain; 2]) -> Vec<Toolchain> {
    let needs = all.each_ref().map(|t| format!("{} with {}", t.compiler, t.linker)).join(" or ");
    let found = all.into_iter().filter(|t| has(t.compiler) && has(t.linker));
    let found: Vec<Toolchain> = found.collect();
    if found.is_empty() {
        let is_required = std::env::var("CROSSCALL_REQUIRE_TOOLS").is_ok_and(|v| v == "1");
        assert!(!is_required, "needs {needs}");
        println!("skipped: needs {needs}");
    }
    found
}

/// The folder of the sources.
pub(crate) fn sources() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = here.ancestors().map(|folder| folder.join("tests/images"));
    folders
        .find(|folder| folder.join("guest.ld").is_file())
        .expect("tests/images in the repository")
}

impl Toolchain {
    /// Name of the compiler, for file names and messages.
    pub(crate) fn name(&self) -> &'static str {
        self.compiler
    }

    /// Builds `name`.c into `out` with extra flags and returns the bytes of the ELF file.
    pub(crate) fn build(&self, name: &str, extra: &[&str], out: &Path) -> Vec<u8> {
        let sources = sources();
        let [object, image] = own_files(out, name);
        let mut compile = Command::new(self.compiler);
        compile.args(self.target).args(FLAGS).args(extra);
        compile.arg("-c").arg(sources.join(format!("{name}.c"))).arg("-o").arg(&object);
        run(compile);
        let mut link = Command::new(self.linker);
        link.arg("-T").arg(sources.join(self.script)).arg("--build-id=none");
        link.arg("-o").arg(&image).arg(&object);
        run(link);
        take([object, image])
    }

    /// Builds the 32-bit guest, which only serves to be refused.
    pub(crate) fn build_32(&self, out: &Path) -> Vec<u8> {
        let [object, image] = own_files(out, "hello32");
        let mut compile = Command::new(self.compiler);
        let target = if self.compiler == "gcc" { "-m32" } else { "--target=i386-none-elf" };
        compile.args([target, "-O2", "-ffreestanding", "-fno-pic", "-c"]);
        compile.arg(sources().join("hello32.c")).arg("-o").arg(&object);
        run(compile);
        let mut link = Command::new(self.linker);
        link.args(["-m", "elf_i386", "-e", "start", "--build-id=none"]);
        link.arg("-o").arg(&image).arg(&object);
        run(link);
        take([object, image])
    }
}

/// Names of an object and an image that no other build uses: tests run side by side.
fn own_files(out: &Path, name: &str) -> [PathBuf; 2] {
    static BUILDS: AtomicU32 = AtomicU32::new(0);
    let n = BUILDS.fetch_add(1, Ordering::Relaxed);
    ["o", "elf"].map(|kind| out.join(format!("{name}-{}-{n}.{kind}", std::process::id())))
}

/// The bytes of the image; both files go.
fn take(files: [PathBuf; 2]) -> Vec<u8> {
    let bytes = std::fs::read(&files[1]).expect("the linker wrote the image");
    for file in files {
        let _ = std::fs::remove_file(file);
    }
    bytes
}

fn run(mut command: Command) {
    let output = command.output().expect("the program was found before");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed:\n{text}");
}
