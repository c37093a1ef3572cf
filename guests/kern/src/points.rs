//! `point!(name)`: marks a step for the machine, without an instruction (`guests/abi`, points).

/// Marks this place under a name of `guests_abi::points::name`.
///
/// It orders the compiler like any access to memory, and the CPU not at all.
macro_rules! point {
    ($name:ident) => {{
        const _: &str = guests_abi::points::name::$name;
        crate::arch::point_here!(stringify!($name));
    }};
}

pub(crate) use point;
