//! The tree of packages down to cpus, expanded from widths.
//!
//! A width is one number for all parents of a level, or a list with one number each. Units are
//! numbered machine-wide, parent by parent.

use crate::model::Level;
use crate::schema::{LEVELS, Numbering, Spec};

/// Most cpus a machine may have.
pub(crate) const CPUS_MAX: usize = 1024;

/// One unit of a level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
    /// Unit one level further out.
    pub(crate) parent: usize,
    /// Index inside the parent.
    pub(crate) index: usize,
}

/// All units of all levels.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) units: [Vec<Unit>; 6],
}

/// Why widths do not expand.
pub(crate) enum Misfit {
    /// A list has the wrong number of entries.
    Length { level: usize, parents: usize, found: usize },
    /// A level has more units than a machine may have cpus.
    TooMany { level: usize, count: usize },
}

impl Layout {
    /// Expands the widths of a file.
    pub(crate) fn new(spec: &Spec) -> Result<Layout, Misfit> {
        let mut units: [Vec<Unit>; 6] = Default::default();
        let mut parents = 1;
        for (level, widths) in spec.levels.widths.iter().enumerate() {
            let widths = &widths.value;
            if widths.len() != 1 && widths.len() != parents {
                return Err(Misfit::Length { level, parents, found: widths.len() });
            }
            let width = |parent: usize| widths.get(parent).unwrap_or(&widths[0]);
            let count: u64 = (0..parents).map(|parent| u64::from(*width(parent))).sum();
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            if count > CPUS_MAX {
                return Err(Misfit::TooMany { level, count });
            }
            units[level] = (0..parents)
                .flat_map(|parent| {
                    (0..*width(parent) as usize).map(move |index| Unit { parent, index })
                })
                .collect();
            parents = count;
        }
        Ok(Layout { units })
    }

    /// Returns how many units a level has.
    pub(crate) fn count(&self, level: Level) -> usize {
        self.units[level as usize].len()
    }

    /// Returns the largest width of a level.
    pub(crate) fn width_max(&self, level: Level) -> usize {
        self.units[level as usize].iter().map(|unit| unit.index + 1).max().unwrap_or(0)
    }

    /// Returns the unit of `outer` that contains `unit` of `level`.
    pub(crate) fn outer(&self, level: Level, unit: usize, outer: Level) -> usize {
        let range = (outer as usize + 1..=level as usize).rev();
        range.fold(unit, |unit, level| self.units[level][unit].parent)
    }

    /// Returns the level names, for messages.
    pub(crate) fn name(level: usize) -> &'static str {
        LEVELS[level].0
    }

    /// Returns the smt unit of each cpu number; a list must have been checked.
    pub(crate) fn order(&self, numbering: &Numbering) -> Vec<usize> {
        let smt = &self.units[Level::Smt as usize];
        let mut order: Vec<usize> = (0..smt.len()).collect();
        match numbering {
            Numbering::SmtFirst => {}
            Numbering::SmtLast => order.sort_by_key(|&unit| (smt[unit].index, unit)),
            Numbering::List(list) => {
                order = list.value.iter().map(|&unit| unit as usize).collect();
            }
        }
        order
    }
}

/// Returns the bits that hold the values `0..count`.
pub(crate) fn bits_for(count: usize) -> u32 {
    count.max(1).next_power_of_two().trailing_zeros()
}

/// Bits that the ids of a level take, in their plain order or in that of the file.
fn bits_needed(spec: &Spec, layout: &Layout, level: usize) -> u32 {
    let largest = match &spec.ids.orders[level] {
        Some(order) => order.value.iter().max().map_or(0, |&id| id as usize),
        None => layout.width_max(LEVELS[level].1).saturating_sub(1),
    };
    bits_for(largest.saturating_add(1))
}

/// Shift and width of each level's field in the architectural ID.
pub(crate) fn id_fields(spec: &Spec, layout: &Layout) -> [(u32, u32); 6] {
    let mut fields = [(0, 0); 6];
    let mut next = 0;
    for (at, field) in fields.iter_mut().enumerate().rev() {
        let needed = bits_needed(spec, layout, at);
        let bits = spec.ids.bits[at].as_ref().map_or(needed, |bits| bits.value);
        *field = (next, bits);
        next += bits.min(64);
    }
    fields
}

/// Why levels do not fit into the affinity fields of `MPIDR_EL1`.
pub(crate) enum AffinityMisfit {
    /// There are more levels than fields.
    Levels,
    /// A field has eight bits.
    Wide { field: usize, bits: u32 },
    /// There is no such field.
    Field { level: usize },
}

/// Affinity fields of `MPIDR_EL1`: Aff0 to Aff2 at bits 0, 8 and 16, Aff3 at bit 32.
///
/// A level lies in the field that the file gives to it, beside others of the same field, the inner
/// one low. Where the file gives none, levels that have more than one unit take a field each,
/// innermost in Aff0; with threads in Aff0 even where a core has one, if the file says so.
pub(crate) fn affinity_fields(
    spec: &Spec,
    layout: &Layout,
) -> Result<[(u32, u32); 6], AffinityMisfit> {
    const SHIFTS: [u32; 4] = [0, 8, 16, 32];
    let is_given = spec.ids.affinity.iter().any(Option::is_some);
    let mut fields = [(0, 0); 6];
    let mut used = [0; 4];
    let mut next = usize::from(spec.ids.is_multithreaded.value);
    for (level, place) in fields.iter_mut().enumerate().rev() {
        let needed = bits_needed(spec, layout, level);
        let field = match &spec.ids.affinity[level] {
            Some(field) => field.value as usize,
            None if needed == 0 => continue,
            None if is_given => return Err(AffinityMisfit::Field { level }),
            None if LEVELS[level].1 == Level::Smt => 0,
            None => next,
        };
        next = next.max(field + 1);
        let Some(used) = used.get_mut(field) else { return Err(AffinityMisfit::Levels) };
        let bits = spec.ids.bits[level].as_ref().map_or(needed, |bits| bits.value);
        *place = (SHIFTS[field] + *used, bits);
        *used = bits.saturating_add(*used);
        if *used > 8 {
            return Err(AffinityMisfit::Wide { field, bits: *used });
        }
    }
    Ok(fields)
}
