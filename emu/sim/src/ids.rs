//! Dense model indices, architectural ids and addresses.
//!
//! Dense indices number the parts of one machine from zero; architectural ids are what software
//! sees and may have holes. They convert only in `topology` and `machine`.

use std::fmt;

/// Bytes in a cache line, as a power of two.
pub const LINE_SIZE_LOG2: u32 = 6;
/// Bytes in a cache line.
pub const LINE_SIZE: u64 = 1 << LINE_SIZE_LOG2;
/// Bytes in a base page, as a power of two.
pub const PAGE_SIZE_LOG2: u32 = 12;
/// Bytes in a base page.
pub const PAGE_SIZE: u64 = 1 << PAGE_SIZE_LOG2;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The number as an index into a table.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

index!(
    /// A logical processor (Intel "logical processor", Arm "PE"), by Linux number.
    CpuId, "cpu");
index!(
    /// A physical core: its SMT cpus and private caches.
    CoreId, "core");
index!(
    /// A last-level-cache domain.
    LlcId, "llc");
index!(
    /// A home: the directory slice and memory channel of one NUMA node.
    HomeId, "home");
index!(
    /// Local APIC id as software sees it.
    ApicId, "apic");

/// A node of the engine: what owns state and handles items one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeRef {
    /// A core with its private caches, cpus and local interrupt controllers.
    Core(CoreId),
    /// Tags and directory of a last-level cache.
    Llc(LlcId),
    /// Directory above the LLCs, with its memory.
    Home(HomeId),
    /// A device, by number.
    Device(u32),
    /// The machine itself: stop and region marks.
    Machine,
}

impl NodeRef {
    /// A dense rank that orders nodes in keys; it depends on the topology only.
    #[must_use]
    pub const fn rank(self) -> u32 {
        match self {
            NodeRef::Core(c) => c.0,
            NodeRef::Llc(l) => 1 << 24 | l.0,
            NodeRef::Home(h) => 2 << 24 | h.0,
            NodeRef::Device(d) => 3 << 24 | d,
            NodeRef::Machine => 4 << 24,
        }
    }
}

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    };
}

address!(
    /// A guest physical address.
    PhysAddr);
address!(
    /// A guest virtual (x86: linear) address.
    VirtAddr);
address!(
    /// A physical address without its offset in the line.
    LineAddr);

impl PhysAddr {
    /// The line that holds this byte.
    #[must_use]
    pub const fn line(self) -> LineAddr {
        LineAddr(self.0 >> LINE_SIZE_LOG2)
    }

    /// Offset of this byte in its line.
    #[must_use]
    pub const fn line_offset(self) -> u64 {
        self.0 & (LINE_SIZE - 1)
    }
}

impl LineAddr {
    /// Address of the first byte of the line.
    #[must_use]
    pub const fn base(self) -> PhysAddr {
        PhysAddr(self.0 << LINE_SIZE_LOG2)
    }

    /// Page frame that holds the line.
    #[must_use]
    pub const fn page(self) -> u64 {
        self.0 >> (PAGE_SIZE_LOG2 - LINE_SIZE_LOG2)
    }

    /// Index of the line in its page, 0 to 63.
    #[must_use]
    pub const fn index_in_page(self) -> usize {
        (self.0 & 63) as usize
    }
}
