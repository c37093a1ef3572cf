//! The sweep of a device's registers against the table of its manual.

use std::fmt::Debug;

/// First and last offset, step; bytes of an access; value after reset, and after all ones.
pub type Row = (u64, u64, u64, &'static [u8], u64, u64);

/// Reads every offset of a fresh device at every width, writes all ones, and reads again. What no
/// row has reads as zero, and a write to it changes nothing.
///
/// # Panics
/// At the first access that does otherwise.
pub fn check<D: Clone + PartialEq + Debug>(
    fresh: &D,
    rows: &[Row],
    offsets: impl IntoIterator<Item = u64>,
    read: impl Fn(&D, u64, u8) -> u64,
    write: impl Fn(&mut D, u64, u8, u64),
) {
    for offset in offsets {
        for size in [1, 2, 4, 8] {
            let row = rows.iter().find(|(first, last, step, sizes, ..)| {
                (*first..=*last).contains(&offset)
                    && (offset - first) % step == 0
                    && sizes.contains(&size)
            });
            let (reset, written) = row.map_or((0, 0), |row| (row.4, row.5));
            assert_eq!(read(fresh, offset, size), reset, "{offset:#x}, {size}");
            let mut device = fresh.clone();
            write(&mut device, offset, size, u64::MAX);
            assert_eq!(read(&device, offset, size), written, "{offset:#x}, {size}");
            if row.is_none() {
                assert_eq!(device, *fresh, "{offset:#x}, {size}");
            }
        }
    }
}
