//! A guest of a few arm64 instruction words.

use emu_machine::Image;
use topology::Isa;

/// Where it starts.
pub(crate) const START: u64 = 0x8008_0000;

/// The image of these words.
pub(crate) fn image(words: &[u32]) -> Image {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Image::from_raw(&bytes, Isa::Aarch64, START).expect("words")
}
