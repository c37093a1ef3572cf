//! The committed guest images stand for the sources beside them.

use tools_xtask::{GUEST_TARGETS, guest_hash, hex, image_note, repository_root};

/// Largest image that is committed, bytes.
const IMAGE_BYTES_MAX: usize = 512 * 1024;

#[test]
fn every_image_is_built_from_the_sources_beside_it() {
    let root = repository_root();
    let sources = hex(&guest_hash(&root).expect("guest sources"));
    for target in GUEST_TARGETS {
        let image = target.image;
        let elf =
            std::fs::read(root.join(image)).unwrap_or_else(|error| panic!("{image}: {error}"));
        assert!(elf.len() <= IMAGE_BYTES_MAX, "{image}: {} bytes", elf.len());
        let (hash, _) = image_note(&elf).unwrap_or_else(|| panic!("{image}: no note of ours"));
        assert_eq!(
            hex(&hash),
            sources,
            "{image} is older than its sources; run `cargo xtask guests`"
        );
    }
}
