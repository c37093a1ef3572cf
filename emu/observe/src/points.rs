//! The points of an image as observers need them: index to name, address to name.

/// Names and addresses of the points of an image, by the index that events carry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PointTable {
    entries: Vec<(u64, String)>,
    /// Indices sorted by address.
    by_address: Vec<u32>,
}

impl PointTable {
    /// Makes the table; the position of an entry is its index.
    #[must_use]
    pub fn new(entries: Vec<(u64, String)>) -> Self {
        let mut by_address: Vec<u32> = (0u32..).take(entries.len()).collect();
        by_address.sort_by_key(|&index| (entries[index as usize].0, index));
        PointTable { entries, by_address }
    }

    /// Name of the point with that index; `?` when there is none.
    #[must_use]
    pub fn name(&self, index: u32) -> &str {
        self.entries.get(index as usize).map_or("?", |entry| entry.1.as_str())
    }

    /// Names of the points at that address.
    pub fn at(&self, address: u64) -> impl Iterator<Item = &str> {
        let place = |index: u32| self.entries[index as usize].0;
        let first = self.by_address.partition_point(|&index| place(index) < address);
        let here = self.by_address[first..].iter();
        here.take_while(move |&&index| place(index) == address).map(|&index| self.name(index))
    }

    /// All entries as (address, name), by index.
    #[must_use]
    pub fn entries(&self) -> &[(u64, String)] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::PointTable;

    #[test]
    fn points_are_found_by_index_and_by_address() {
        let entry = |address, name: &str| (address, name.to_owned());
        let table = PointTable::new(vec![entry(32, "b"), entry(16, "a"), entry(32, "c")]);
        assert_eq!((table.name(1), table.name(9)), ("a", "?"));
        assert_eq!(table.at(32).collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(table.at(17).count(), 0);
    }
}
