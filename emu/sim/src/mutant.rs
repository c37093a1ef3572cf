//! Wrong variants of the engine, each of which a test must catch (`engine.md` section 12).
//!
//! They exist under the feature `mutants` only. Without it no [`Mutation`] but that of the rules
//! as written can be made, it takes no room, and every question after a mutant is a constant.

/// A rule of the engine, broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The window is wider than W by so many picoseconds (H2, K3).
    WindowPlus(u64),
    /// Items of one instant and phase are ordered by one count of the machine, in the order in
    /// which the host made them, instead of by source and its own count (K1, K4).
    GlobalSequence,
    /// Homes and LLCs grant a write while other copies still stand (L2).
    EarlyGrant,
    /// A core answers a snoop of a line that it has asked for after its own grant only (L3).
    SnoopBehindRequest,
    /// A core keeps a line that it was granted to write until a waiting store has used it (L5).
    ConditionalHold,
    /// A core that gives a line up does not say that it watches it (W3).
    ForgottenWatch,
    /// A value that leaves without permission is read when it arrives, not copied when it leaves
    /// (V2).
    ValueNotCopied,
    /// A store-release drains before older stores (A2).
    EarlyRelease,
    /// DMB ST and DSB ST part no stores (A2).
    NoStoreBarrier,
    /// A reservation stands although the core has lost the line (A4).
    KeptReservation,
    /// An atomic that is performed at the home reads there when it is sent, not when its turn has
    /// come (V2).
    FarReadsEarly,
    /// A skipped spin is made good with one iteration too many (S4).
    ElisionOffByOne,
}

/// The rules as written, or one mutant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mutation {
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

#[cfg(feature = "mutants")]
impl Mutation {
    /// The rules with this one broken.
    #[must_use]
    pub const fn of(mutant: Mutant) -> Mutation {
        Mutation { mutant: Some(mutant) }
    }

    const fn get(self) -> Option<Mutant> {
        self.mutant
    }
}

#[cfg(not(feature = "mutants"))]
impl Mutation {
    const fn get(self) -> Option<Mutant> {
        None
    }
}

impl Mutation {
    /// Whether `mutant` was chosen.
    #[inline]
    #[must_use]
    pub fn is(self, mutant: Mutant) -> bool {
        self.get() == Some(mutant)
    }

    /// Picoseconds by which the window is wider than is legal.
    #[must_use]
    pub const fn beyond_window(self) -> u64 {
        match self.get() {
            Some(Mutant::WindowPlus(ps)) => ps,
            _ => 0,
        }
    }
}
