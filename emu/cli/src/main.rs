//! The binary `crosscall`; all of it is in the library beside.

fn main() -> std::process::ExitCode {
    emu_cli::main()
}
