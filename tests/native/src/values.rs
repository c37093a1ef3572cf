//! Numbers that find faults: edges of sizes, single bits, floats of every class, anything.

use crate::rng::Rng;

const SINGLES: [u32; 30] = [
    0,
    0x8000_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x3f00_0000,
    0x3fc0_0000,
    0x4020_0000,
    0xc020_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0xffc1_2345,
    0x7f80_0001,
    0xffa0_0000,
    0x0000_0001,
    0x8000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x8080_0000,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x4eff_ffff,
    0x4f00_0000,
    0xcf00_0000,
    0xcf00_0001,
    0x5f00_0000,
    0xdf00_0000,
    0x5eff_ffff,
    0x3eff_ffff,
    0x4b00_0001,
];
const DOUBLES: [u64; 28] = [
    0,
    0x8000_0000_0000_0000,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x3fe0_0000_0000_0000,
    0xbfe0_0000_0000_0000,
    0x3ff8_0000_0000_0000,
    0x4004_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0xfff8_1234_5678_9abc,
    0x7ff0_0000_0000_0001,
    0xfff4_0000_0000_0000,
    0x0000_0000_0000_0001,
    0x800f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0xffef_ffff_ffff_ffff,
    0x41df_ffff_ffc0_0000,
    0x41e0_0000_0000_0000,
    0xc1e0_0000_0000_0000,
    0xc1e0_0000_0020_0000,
    0x43e0_0000_0000_0000,
    0xc3e0_0000_0000_0000,
    0x47ef_ffff_e000_0000,
    0x47ef_ffff_f000_0000,
    0x3690_0000_0000_0001,
];

/// An integer of 64 bits.
pub fn integer(rng: &mut Rng) -> u64 {
    let any = rng.word();
    let size = rng.pick(&[8, 16, 32, 64]);
    let edge = match rng.below(7) {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => 1 << (size - 1),
        4 => (1 << (size - 1)) - 1,
        5 => u64::MAX >> (64 - size),
        _ => 1 << rng.below(64),
    };
    match rng.below(10) {
        0..3 => edge,
        3 => edge ^ any << size.min(63),
        4 => any & 0x7f,
        5 => (any & 0x7f).wrapping_neg(),
        6 => any >> (any & 63),
        _ => any,
    }
}

/// Bits of a single.
pub fn single(rng: &mut Rng) -> u32 {
    let any = rng.word() as u32;
    match rng.below(8) {
        0..4 => rng.pick(&SINGLES),
        // Of middling size, so that sums and products stay finite.
        4 | 5 => any & 0x83ff_ffff | 0x3c00_0000,
        6 => ((any as i32 >> (any & 31)) as f32).to_bits(),
        _ => any,
    }
}

/// Bits of a double.
pub fn double(rng: &mut Rng) -> u64 {
    let any = rng.word();
    match rng.below(8) {
        0..4 => rng.pick(&DOUBLES),
        4 | 5 => any & 0x807f_ffff_ffff_ffff | 0x3f80_0000_0000_0000,
        6 => ((any as i64 >> (any & 63)) as f64).to_bits(),
        _ => any,
    }
}

/// Contents of a vector register or of 16 bytes of memory.
pub fn vector(rng: &mut Rng) -> u128 {
    match rng.below(4) {
        0 => (0..4).fold(0, |all, _| all << 32 | u128::from(single(rng))),
        1 => u128::from(double(rng)) << 64 | u128::from(double(rng)),
        2 => (0..16).fold(0, |all, _| {
            all << 8 | u128::from(rng.pick(&[0, 1, 0x7f, 0x80, 0xff, 0xfe, 0x42]) as u8)
        }),
        _ => u128::from(integer(rng)) << 64 | u128::from(integer(rng)),
    }
}
