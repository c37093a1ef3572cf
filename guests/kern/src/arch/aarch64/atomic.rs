//! Atomics: by exclusives, or by single instructions where the CPUs have them (LSE).
//!
//! Which of the two is decided once, at boot: each operation has a branch to the exclusives that
//! [`use_lse`] replaces by a NOP, so both cost what they cost and nothing is read to choose. As in
//! Linux, an operation of order `SeqCst` is a full barrier: LSE has the acquire-release form for
//! it, exclusives a release store and DMB behind it.

use core::arch::asm;

pub(crate) use core::sync::atomic::{AtomicU8, AtomicU16, AtomicUsize, Ordering};

use super::{barrier, sysreg_read};

/// Whether this place uses LSE; `true` once [`use_lse`] has run.
#[inline(always)]
fn is_lse() -> bool {
    // SAFETY: a branch, or a NOP.
    unsafe {
        asm!(
            "771: b {exclusives}",
            ".pushsection .lse_sites, \"a\", @progbits",
            ".quad 771b",
            ".popsection",
            exclusives = label { return false },
            options(nomem, nostack, preserves_flags)
        );
    }
    true
}

const NOP: u32 = 0xd503_201f;

/// Turns all atomics into LSE if the CPUs have it; CPU 0, before any other starts.
pub(crate) fn use_lse() {
    unsafe extern "C" {
        static LSE_SITES: u64;
        static LSE_SITES_END: u64;
    }
    if sysreg_read!("id_aa64isar0_el1") >> 20 & 0xf < 2 {
        return;
    }
    let (mut site, end) = (&raw const LSE_SITES, &raw const LSE_SITES_END);
    while site < end {
        // SAFETY: the section is a list of addresses of branches in the text, which is writable.
        unsafe {
            let branch = *site as *mut u32;
            if !branch.is_null() {
                branch.write_volatile(NOP);
                asm!("dc cvau, {}", in(reg) branch, options(nostack, preserves_flags));
            }
            site = site.add(1);
        }
    }
    barrier!("dsb ish");
    barrier!("ic ialluis");
    barrier!("dsb ish");
    barrier!("isb");
}

/// A macro with the suffix that an order has in LSE instructions, before its other arguments.
macro_rules! by_order {
    ($order:expr, $form:ident, $($argument:expr),*) => {
        match $order {
            Ordering::Relaxed => $form!("", $($argument),*),
            Ordering::Acquire => $form!("a", $($argument),*),
            Ordering::Release => $form!("l", $($argument),*),
            _ => $form!("al", $($argument),*),
        }
    };
}

/// One LSE instruction with an operand and a result.
macro_rules! lse {
    ($suffix:literal, $name:expr, $width:expr, $word:expr, $operand:expr) => {{
        let result;
        // SAFETY: an atomic operation on a word that the caller holds a reference to.
        unsafe {
            asm!(
                ".arch_extension lse",
                concat!($name, $suffix, " {operand:", $width, "}, {result:", $width, "}, [{word}]"),
                operand = in(reg) $operand,
                result = lateout(reg) result,
                word = in(reg) $word.as_ptr(),
                options(nostack, preserves_flags)
            )
        }
        result
    }};
}

/// Compare and swap; the result is what was there.
macro_rules! cas {
    ($suffix:literal, $width:expr, $word:expr, $expected:expr, $new:expr) => {{
        let mut seen = $expected;
        // SAFETY: as in `lse`.
        unsafe {
            asm!(
                ".arch_extension lse",
                concat!("cas", $suffix, " {seen:", $width, "}, {new:", $width, "}, [{word}]"),
                seen = inout(reg) seen,
                new = in(reg) $new,
                word = in(reg) $word.as_ptr(),
                options(nostack, preserves_flags)
            )
        }
        seen
    }};
}

/// Order of the store half by exclusives, with a barrier to follow when it is full.
#[inline(always)]
fn exclusives_order(order: Ordering) -> Ordering {
    if matches!(order, Ordering::SeqCst) { Ordering::Release } else { order }
}

/// The barrier behind exclusives of full order.
#[inline(always)]
fn full_barrier(order: Ordering) {
    if matches!(order, Ordering::SeqCst) {
        barrier!("dmb ish");
    }
}

/// Defines a type as that of `core`, with loads, stores and compare-and-swap.
macro_rules! atomic {
    ($name:ident, [$($parameter:ident)?], $value:ty, $width:literal) => {
        /// An atomic word.
        #[repr(transparent)]
        pub(crate) struct $name$(<$parameter>)?(core::sync::atomic::$name$(<$parameter>)?);

        impl$(<$parameter>)? $name$(<$parameter>)? {
            /// A word with this value.
            pub(crate) const fn new(value: $value) -> Self {
                Self(core::sync::atomic::$name::new(value))
            }

            /// Loads.
            #[inline(always)]
            pub(crate) fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }

            /// Stores.
            #[inline(always)]
            pub(crate) fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, order);
            }

            /// Address of the word.
            #[inline(always)]
            pub(crate) const fn as_ptr(&self) -> *mut $value {
                self.0.as_ptr()
            }

            /// Stores if `current` was there; returns what was. A failure orders nothing.
            #[inline(always)]
            pub(crate) fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                order: Ordering,
                _failure: Ordering,
            ) -> Result<$value, $value> {
                if is_lse() {
                    let seen: $value = by_order!(order, cas, $width, self.0, current, new);
                    return if seen == current { Ok(seen) } else { Err(seen) };
                }
                let order_here = exclusives_order(order);
                let seen = self.0.compare_exchange(current, new, order_here, Ordering::Relaxed)?;
                full_barrier(order);
                Ok(seen)
            }
        }
    };
}

/// Defines read-modify-writes: method, LSE instruction, operand of that.
macro_rules! fetch {
    (
        $name:ident, [$($parameter:ident)?], $value:ty, $width:literal,
        $($method:ident $lse:literal $operand:expr;)*
    ) => {
        impl$(<$parameter>)? $name$(<$parameter>)? {$(
            /// The operation of that name; returns what was there.
            #[inline(always)]
            pub(crate) fn $method(&self, value: $value, order: Ordering) -> $value {
                if is_lse() {
                    let operand: fn($value) -> $value = $operand;
                    return by_order!(order, lse, $lse, $width, self.0, operand(value));
                }
                let seen = self.0.$method(value, exclusives_order(order));
                full_barrier(order);
                seen
            }
        )*}
    };
}

atomic!(AtomicU32, [], u32, "w");
atomic!(AtomicU64, [], u64, "x");
atomic!(AtomicPtr, [T], *mut T, "x");
fetch!(AtomicU32, [], u32, "w", swap "swp" |value| value; fetch_add "ldadd" |value| value;
    fetch_or "ldset" |value| value;);
fetch!(AtomicU64, [], u64, "x", fetch_add "ldadd" |value| value;
    fetch_sub "ldadd" |value| value.wrapping_neg(););
fetch!(AtomicPtr, [T], *mut T, "x", swap "swp" |value| value;);

/// Sets bits: without a result, so that LSE can do it far away.
#[inline(always)]
pub(crate) fn set_bits(word: &AtomicU32, bits: u32) {
    if is_lse() {
        without_result!("stset", "w", word, bits);
    } else {
        word.0.fetch_or(bits, Ordering::Relaxed);
    }
}

/// Clears bits, as [`set_bits`].
#[inline(always)]
pub(crate) fn clear_bits(word: &AtomicU32, bits: u32) {
    if is_lse() {
        without_result!("stclr", "w", word, bits);
    } else {
        word.0.fetch_and(!bits, Ordering::Relaxed);
    }
}

/// Adds, as [`set_bits`].
#[inline(always)]
pub(crate) fn add(word: &AtomicU64, value: u64) {
    if is_lse() {
        without_result!("stadd", "x", word, value);
    } else {
        word.0.fetch_add(value, Ordering::Relaxed);
    }
}

/// One LSE instruction without a result.
macro_rules! without_result {
    ($name:literal, $width:literal, $word:expr, $operand:expr) => {
        // SAFETY: as in `lse`.
        unsafe {
            asm!(
                ".arch_extension lse",
                concat!($name, " {operand:", $width, "}, [{word}]"),
                operand = in(reg) $operand,
                word = in(reg) $word.as_ptr(),
                options(nostack, preserves_flags)
            )
        }
    };
}
use without_result;
