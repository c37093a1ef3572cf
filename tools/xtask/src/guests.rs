//! `cargo xtask guests`: builds the guest kernel and puts it where it is embedded from.
//!
//! Two ways to a compiler for a bare target, tried in this order: a toolchain that has the
//! target's `core` (`rustup target add ...`), else `/usr/bin/rustc` with its sources, as
//! distributions package them, which builds `core` itself.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tools_xtask::{GUEST_TARGETS, GuestTarget, guest_hash, hex, image_note, repository_root};

/// Largest image that is committed, bytes.
const IMAGE_BYTES_MAX: u64 = 512 * 1024;

const DISTRIBUTION_RUSTC: &str = "/usr/bin/rustc";

/// A compiler for a bare target.
struct Compiler {
    rustc: PathBuf,
    /// The target's `core` has to be built from source.
    builds_core: bool,
}

/// Builds all images, or with `--check` only compares their hashes with the sources'.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let is_check = match args {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => return Err(format!("unknown arguments {args:?}; the only flag is --check")),
    };
    let root = fs::canonicalize(repository_root()).map_err(|error| error.to_string())?;
    let hash = guest_hash(&root).map_err(|error| format!("guest sources: {error}"))?;
    for target in GUEST_TARGETS {
        if is_check {
            check(&root, target, &hash)?;
        } else {
            build(&root, target, &hash)?;
        }
    }
    Ok(())
}

fn check(root: &Path, target: &GuestTarget, hash: &[u8]) -> Result<(), String> {
    let elf = read_image(&root.join(target.image))?;
    match image_note(&elf) {
        Some((found, compiler)) if found == hash => {
            println!("{}: fresh, built by {compiler}", target.image);
            Ok(())
        }
        Some((found, _)) => Err(format!(
            "{}: stale: sources are {}, image is of {}; run cargo xtask guests",
            target.image,
            hex(hash),
            hex(&found)
        )),
        None => Err(format!("{}: has no note of ours; run cargo xtask guests", target.image)),
    }
}

fn build(root: &Path, target: &GuestTarget, hash: &[u8]) -> Result<(), String> {
    let compiler = find_compiler(target.triple)?;
    let version = output(Command::new(&compiler.rustc).arg("-V"))?;
    let folder = root.join("guests/kern");
    let target_dir = target_dir(root);
    let mut flags = vec![
        format!("-Clink-arg=-T{}", target.linker_script),
        "-Clink-arg=-zmax-page-size=4096".to_owned(),
        "-Crelocation-model=static".to_owned(),
        format!("--remap-path-prefix={}=.", root.display()),
    ];
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(&folder).args(["build", "--release", "--locked", "--target", target.triple]);
    if compiler.builds_core {
        flags.push("-Clinker=ld.lld".to_owned());
        cargo.arg("-Zbuild-std=core").env("RUSTC_BOOTSTRAP", "1");
    }
    cargo
        .env("RUSTC", &compiler.rustc)
        .env("CARGO_TARGET_DIR", &target_dir)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env("CROSSCALL_SOURCE_HASH", hex(hash))
        .env("CROSSCALL_RUSTC", version.trim())
        .env_remove("RUSTFLAGS")
        .env_remove("RUSTC_WRAPPER");
    let status = cargo.status().map_err(|error| format!("cargo: {error}"))?;
    if !status.success() {
        return Err(format!("{}: the build failed", target.triple));
    }
    install(root, target, &target_dir.join(target.triple).join("release/kern"), hash)
}

/// Copies a built image to its place, after a look at it.
fn install(root: &Path, target: &GuestTarget, built: &Path, hash: &[u8]) -> Result<(), String> {
    let elf = read_image(built)?;
    if elf.len() as u64 > IMAGE_BYTES_MAX {
        return Err(format!("{}: {} bytes, max {IMAGE_BYTES_MAX}", target.image, elf.len()));
    }
    if image_note(&elf).is_none_or(|(found, _)| found != hash) {
        return Err(format!("{}: the built image lacks the note", built.display()));
    }
    let image = root.join(target.image);
    if let Some(folder) = image.parent() {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    fs::write(&image, &elf).map_err(|error| format!("{}: {error}", image.display()))?;
    println!("{}: {} bytes, sources {}", target.image, elf.len(), hex(hash));
    Ok(())
}

fn read_image(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn target_dir(root: &Path) -> PathBuf {
    let outer = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| OsString::from("target"));
    root.join(outer).join("guests")
}

fn find_compiler(triple: &str) -> Result<Compiler, String> {
    let rustc = PathBuf::from(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    if let Ok(sysroot) = output(Command::new(&rustc).args(["--print", "sysroot"]))
        && Path::new(sysroot.trim()).join("lib/rustlib").join(triple).exists()
    {
        return Ok(Compiler { rustc, builds_core: false });
    }
    let distribution = PathBuf::from(DISTRIBUTION_RUSTC);
    if let Ok(sysroot) = output(Command::new(&distribution).args(["--print", "sysroot"]))
        && Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/core").exists()
    {
        return Ok(Compiler { rustc: distribution, builds_core: true });
    }
    Err(format!(
        "no compiler for {triple}: run `rustup target add {triple}`, or install a packaged rustc \
         with its sources and lld (Debian: rustc-web rust-web-src lld)"
    ))
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{command:?}: {error}"))
}
