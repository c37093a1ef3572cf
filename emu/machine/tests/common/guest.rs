//! Builds the freestanding guests of `tests/images` with the C compiler of the host system.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The outside programs that make an image.
pub(crate) struct Toolchain {
    compiler: &'static str,
    target: &'static [&'static str],
    linker: &'static str,
}

const CLANG: Toolchain =
    Toolchain { compiler: "clang", target: &["--target=x86_64-none-elf"], linker: "ld.lld" };
const GCC: Toolchain = Toolchain { compiler: "gcc", target: &["-m64", "-fno-pie"], linker: "ld" };

/// Flags of every guest: no host headers, no SIMD state, no red zone below an interrupt's frame.
const FLAGS: [&str; 10] = [
    "-std=gnu11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-ffreestanding",
    "-fno-pic",
    "-mno-red-zone",
    "-mgeneral-regs-only",
    "-fno-stack-protector",
];

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Returns every complete toolchain; none means that the caller's test is skipped.
///
/// With `CROSSCALL_REQUIRE_TOOLS=1` absence is a failure.
#[expect(clippy::print_stdout, reason = "a skipped test must say what it needs")]
pub(crate) fn toolchains() -> Vec<Toolchain> {
    let all = [CLANG, GCC].into_iter();
    let found: Vec<Toolchain> = all.filter(|t| has(t.compiler) && has(t.linker)).collect();
    if found.is_empty() {
        let is_required = std::env::var("CROSSCALL_REQUIRE_TOOLS").is_ok_and(|v| v == "1");
        assert!(!is_required, "needs clang with ld.lld, or gcc with ld");
        println!("skipped: needs clang");
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
        link.arg("-T").arg(sources.join("guest.ld")).arg("--build-id=none");
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
