//! The process that runs cases on the host's processor.
//!
//! Code, data and stack of `emu_x86::flat_user` are mapped at their addresses, twice: once with the
//! rights that the case has, and once writable for this process. A case begins by a return from a
//! signal handler with the case's registers, and ends by a trap: INT3 fills the code page, and an
//! exception is a signal anyway. The handler, on a stack of its own, takes all registers from the
//! frame that the kernel made, puts the next case's there and returns into it. A whole batch runs
//! so; then the frame gets the registers with which the batch began.
//!
//! Between the first case and the last the handler must not use thread-local storage, nor call
//! anything that might (allocation, `errno`): FS belongs to the case.
//!
//! Not seen here: an instruction that the kernel emulates or handles on its own (`forms` names
//! them).

use std::io::{self, Read, Write};

use crate::wire::{self, Reader, Writer};

/// Serves batches of cases from standard input until it ends.
///
/// # Errors
/// When the memory cannot be mapped, or a stream fails.
pub fn serve() -> io::Result<()> {
    let mut machine = machine::Machine::new()?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    loop {
        let mut head = [0; 8];
        if input.read_exact(&mut head).is_err() {
            return Ok(());
        }
        let mut reader = Reader(&head);
        let (len, count) = (reader.u32(), reader.u32());
        let mut body = vec![0; len as usize];
        input.read_exact(&mut body)?;
        let mut reader = Reader(&body);
        let cases = (0..count).map(|_| wire::read_case(&mut reader)).collect();
        let mut writer = Writer::default();
        for outcome in machine.run(cases)? {
            wire::write_outcome(&mut writer, &outcome);
        }
        output.write_all(&(writer.0.len() as u32).to_le_bytes())?;
        output.write_all(&writer.0)?;
        output.flush()?;
    }
}

/// Other hosts: nothing runs, and the caller says so.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod machine {
    use std::io;

    use crate::case::{Case, Outcome};

    /// Cannot be made.
    pub(super) enum Machine {}

    impl Machine {
        pub(super) fn new() -> io::Result<Self> {
            Err(io::Error::new(io::ErrorKind::Unsupported, "needs x86-64 linux"))
        }

        pub(super) fn run(&mut self, _cases: Vec<Case>) -> io::Result<Vec<Outcome>> {
            match *self {}
        }
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod machine;
