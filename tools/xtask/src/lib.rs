//! Project tasks that tests use as well; the binary is a thin dispatcher over this.

mod guest_image;

mod guest_source;
pub mod tidy;

pub use guest_image::{GUEST_TARGETS, GuestTarget, image_note};
pub use guest_source::{guest_hash, hex};

use std::path::PathBuf;

/// Root folder of the repository.
pub fn repository_root() -> PathBuf {
    // The manifest of this crate lies two folders below the root.
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).components().collect::<PathBuf>().join("../..")
}
