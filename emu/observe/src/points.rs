//! The points of an image as observers need them: index to name, address to index.

/// Names and addresses of the points of an image. A point that was inlined several times has one
/// name, one index, and several addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PointTable {
    names: Vec<String>,
    /// (address, index), ascending.
    places: Vec<(u64, u32)>,
}

impl PointTable {
    /// Makes the table from the names by index and the places as (address, index).
    #[must_use]
    pub fn new(names: Vec<String>, mut places: Vec<(u64, u32)>) -> Self {
        places.sort_unstable();
        PointTable { names, places }
    }

    /// Name of the point with that index; `?` when there is none.
    #[must_use]
    pub fn name(&self, index: u32) -> &str {
        self.names.get(index as usize).map_or("?", String::as_str)
    }

    /// Indices of the points at that address, ascending.
    pub fn at(&self, address: u64) -> impl Iterator<Item = u32> {
        let first = self.places.partition_point(|place| place.0 < address);
        let here = self.places[first..].iter();
        here.take_while(move |place| place.0 == address).map(|place| place.1)
    }

    /// Names by index.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::PointTable;

    #[test]
    fn points_are_found_by_index_and_by_address() {
        let names = ["a", "b", "c"].map(str::to_owned).to_vec();
        let table = PointTable::new(names, vec![(32, 1), (16, 0), (32, 2), (64, 1)]);
        assert_eq!((table.name(1), table.name(9)), ("b", "?"));
        assert_eq!(table.at(32).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(table.at(17).count(), 0);
    }
}
