//! Console output through the test device, and the end of a kernel that cannot go on.

use core::fmt;

/// The console as a formatter's target. Lines of different CPUs may mix.
pub(crate) struct Console;

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(crate::testdev::console);
        Ok(())
    }
}

/// Prints a line.
macro_rules! kprintln {
    ($($arg:tt)*) => {{
        use core::fmt::Write as _;
        // The console never fails.
        let _ = writeln!(crate::console::Console, $($arg)*);
    }};
}

pub(crate) use kprintln;

/// Prints a reason and ends the run.
macro_rules! die {
    ($code:ident, $($arg:tt)*) => {{
        crate::console::kprintln!("kern: {}", format_args!($($arg)*));
        crate::testdev::exit(guests_abi::exit::$code)
    }};
}

pub(crate) use die;

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    die!(PANIC, "{info}")
}
