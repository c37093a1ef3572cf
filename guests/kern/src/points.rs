//! `point!(name)`: marks a step for the machine, without an instruction (`guests/abi`, points).

/// `asm!` of some instructions, with a point on the first, under a name of
/// `guests_abi::points::name`; operands and options stand behind `;`.
macro_rules! asm_at_point {
    ($name:ident, $first:literal $(, $more:literal)*; $($operands:tt)*) => {{
        const _: &str = guests_abi::points::name::$name;
        core::arch::asm!(
            concat!("771: ", $first),
            $($more,)*
            ".pushsection .crosscall.points, \"\", @progbits",
            ".quad 771b",
            concat!(".asciz \"", stringify!($name), "\""),
            ".balign 8",
            ".popsection",
            $($operands)*
        )
    }};
}
pub(crate) use asm_at_point;

/// Marks this place, without an instruction.
///
/// It orders the compiler like any access to memory, and the CPU not at all.
macro_rules! point {
    ($name:ident) => {{
        #[expect(unsafe_code, reason = "a label in assembly; no instruction")]
        // SAFETY: emits no instruction, only an entry of a section that is not loaded.
        unsafe {
            crate::points::asm_at_point!($name, ""; options(nostack, preserves_flags))
        }
    }};
}
pub(crate) use point;
