//! Images: what a good one gives, how each bad one is refused, and that no bytes make us panic.

#[path = "common/elf.rs"]
mod elf;

use emu_machine::load::{Image, LoadError, Reserved};
use emu_sim::Chance;
use topology::{Isa, RamRange};

const X86: Option<Isa> = Some(Isa::X86_64);
const RAM: [RamRange; 3] = [
    RamRange { base: 0, size: 0xa_0000, node: 0 },
    RamRange { base: 0x10_0000, size: 0x10_0000, node: 0 },
    RamRange { base: 0x20_0000, size: 0x10_0000, node: 1 },
];

fn good_image() -> Image {
    Image::from_elf(&elf::good(), X86).expect("the generated image is good")
}

#[test]
fn a_good_image_gives_segments_symbols_points_and_origin() {
    let image = good_image();
    assert_eq!((image.isa, image.entry.0), (Isa::X86_64, elf::ENTRY));
    let segments: Vec<_> =
        image.segments.iter().map(|s| (s.base.0, s.bytes.len(), s.size, s.is_writable)).collect();
    assert_eq!(segments, [(0x10_0000, 0x40, 0x40, false), (0x20_0000, 0x10, 0x100, true)]);
    assert_eq!(image.symbols.describe(0x10_0034), "helper+0x4");
    assert_eq!(image.counters().map(|s| (s.address, s.size)), Some((0x20_0000, 0x40)));
    assert_eq!(image.samples(), None);
    assert_eq!(image.point_names(), ["idle_wait"]);
    let origin = image.origin.expect("the note is there");
    assert_eq!((origin.source_hash, origin.compiler.as_str()), ([0xab; 32], "rustc 1.96.0"));
}

#[test]
fn every_bad_image_is_refused_with_its_reason() {
    for bad in elf::bad() {
        let found = Image::from_elf(&bad.bytes, X86).map(|_| ()).map_err(|e| e.to_string());
        let text = found.expect_err(bad.name);
        assert!(text.contains(bad.expect), "{}: {text}", bad.name);
        assert!(
            !text.ends_with('.')
                && text.starts_with(|c: char| !c.is_ascii_uppercase() || text.starts_with("ELF")),
            "{}: {text}",
            bad.name
        );
    }
}

#[test]
fn an_image_without_sections_is_good_and_has_no_symbols() {
    let mut bytes = elf::good();
    elf::patch(&mut bytes, 40, &[0; 8]);
    let image = Image::from_elf(&bytes, X86).expect("sections are optional");
    assert!(image.symbols.is_empty() && image.points.is_empty() && image.origin.is_none());
    assert_eq!(image.symbols.describe(0x10_0034), "0x100034");
}

#[test]
fn placement_accepts_touching_ranges_and_refuses_holes_and_reserved_pages() {
    let mut image = good_image();
    image.check_placement(&RAM, &[]).expect("both segments lie in memory");
    image.segments[0].size = 0x10_0001;
    image.check_placement(&RAM, &[]).expect("two ranges that touch are one memory");

    image.segments[1].size = 0x10_0001;
    let found = image.check_placement(&RAM, &[]);
    assert!(matches!(found, Err(LoadError::OutsideRam { missing: 0x30_0000, .. })), "{found:?}");

    let hole = [Reserved { base: 0x20_0000, last: 0x20_0fff, name: "the test page" }];
    let found = image.check_placement(&RAM, &hole).map_err(|error| error.to_string());
    let text = found.expect_err("segment 0 reaches into the page");
    assert!(text.contains("overlaps the test page (0x200000-0x200fff)"), "{text}");
}

#[test]
fn no_prefix_and_no_mutation_of_a_good_image_panics() {
    const MUTATIONS: u64 = 10_000;
    let good = elf::good();
    for len in 0..good.len() {
        assert!(Image::from_elf(&good[..len], X86).is_err(), "prefix of {len} bytes");
    }
    let chance = Chance::new(1);
    let mut refused = 0;
    for round in 0..MUTATIONS {
        let mut bytes = good.clone();
        let draw = |n, bound| chance.below(bound, u32::try_from(round).expect("small"), 0, n);
        for change in 0..=draw(0, 4) {
            let n = 1 + change * 3;
            let at = usize::try_from(draw(n, bytes.len() as u64)).expect("in the file");
            let value = draw(n + 1, 256).to_le_bytes()[0];
            // Extreme values find more than random ones.
            bytes[at] = [value, 0, 0xff, 0x7f, 0x80][usize::try_from(draw(n + 2, 5)).expect("5")];
        }
        match Image::from_elf(&bytes, None) {
            Ok(image) => {
                let loaded: usize = image.segments.iter().map(|s| s.bytes.len()).sum();
                assert!(loaded <= bytes.len());
                let _ = image.check_placement(&RAM, &[]);
                let _ = image.symbols.describe(image.entry.0);
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
        }
    }
    assert!((1000..MUTATIONS).contains(&refused), "{refused} of {MUTATIONS} refused");
}
