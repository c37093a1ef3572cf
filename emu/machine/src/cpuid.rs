//! CPUID leaves as plain data, computed from the topology.
//!
//! Modelled: identity, features (those of the machine that are implemented), topology by leaves
//! 0xB, 0x1F and 0x8000001E, caches by leaf 4 or 0x8000001D, MONITOR and its states, XSAVE areas,
//! clocks. Not modelled: performance counters, thermal data, TLB descriptors, resource
//! allocation, SGX, SVM, 0x80000026.
//!
//! What depends on control registers is left to the cpu, which overrides it at execution: OSXSAVE
//! and OSPKE follow CR4, the APIC bit follows APIC_BASE, the XSAVE size follows XCR0.
//! Source: [SDM-2] "CPUID"; [APM-3] "Obtaining Processor Information Via the CPUID Instruction".
//! Status: spec.

mod feature;

pub use feature::{Feature, FeatureSite, Register};

use topology::{Cache, IdleEntry, Isa, Level, Machine};

/// Registers EAX, EBX, ECX, EDX of one leaf.
pub type Registers = [u32; 4];

/// One answer of CPUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// EAX of the question.
    pub leaf: u32,
    /// ECX of the question; `None` where the leaf does not look at it.
    pub subleaf: Option<u32>,
    /// The answer.
    pub registers: Registers,
}

/// All answers of one cpu, by leaf and subleaf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuidTable {
    rows: Vec<Row>,
}

impl CpuidTable {
    /// Returns what CPUID answers; zeros for what the cpu does not have.
    ///
    /// Intel parts answer questions above the highest basic leaf with that leaf's data, AMD parts
    /// with zeros. No software that we know depends on the former. Status: assumed.
    #[must_use]
    pub fn lookup(&self, eax: u32, ecx: u32) -> Registers {
        let first = self.rows.partition_point(|row| row.leaf < eax);
        let rows = self.rows[first..].iter().take_while(|row| row.leaf == eax);
        let mut found = rows.filter(|row| row.subleaf.is_none_or(|subleaf| subleaf == ecx));
        if let Some(row) = found.next() {
            return row.registers;
        }
        // Topology leaves echo the level that was asked for and still give the x2APIC ID.
        match self.rows.get(first) {
            Some(row) if row.leaf == eax && matches!(eax, 0xb | 0x1f) => {
                [0, 0, ecx & 0xff, row.registers[3]]
            }
            _ => [0; 4],
        }
    }

    /// Returns all rows in order of leaf and subleaf.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn leaf(&mut self, leaf: u32, registers: Registers) {
        self.rows.push(Row { leaf, subleaf: None, registers });
    }

    fn subleaf(&mut self, leaf: u32, subleaf: u32, registers: Registers) {
        self.rows.push(Row { leaf, subleaf: Some(subleaf), registers });
    }
}

/// What the leaves of one cpu are computed from.
struct Source<'a> {
    machine: &'a Machine,
    cpu: usize,
    features: Vec<Feature>,
    is_amd: bool,
}

/// Returns the features of a machine that are implemented, in order of [`Feature::ALL`].
#[must_use]
pub fn shown_features(machine: &Machine, implemented: &[Feature]) -> Vec<Feature> {
    let has =
        |feature: &Feature| machine.features.has(feature.name()) && implemented.contains(feature);
    Feature::ALL.iter().copied().filter(has).collect()
}

/// Returns the names of a machine's features that no CPUID bit will show.
#[must_use]
pub fn masked_features<'a>(machine: &'a Machine, implemented: &[Feature]) -> Vec<&'a str> {
    let names = machine.features.names.iter().map(String::as_str);
    names
        .filter(|name| Feature::from_name(name).is_none_or(|f| !implemented.contains(&f)))
        .collect()
}

/// Computes the CPUID answers of cpu number `cpu` of an x86 machine.
///
/// `implemented` is what the cpu model can execute; a feature shows when the machine has it too.
#[must_use]
pub fn leaves(machine: &Machine, cpu: usize, implemented: &[Feature]) -> CpuidTable {
    debug_assert_eq!(machine.isa, Isa::X86_64);
    let source = Source {
        machine,
        cpu,
        features: shown_features(machine, implemented),
        is_amd: machine.identity.vendor == "AuthenticAMD",
    };
    let mut table = CpuidTable::default();
    source.basic(&mut table);
    source.extended(&mut table);
    table.rows.sort_by_key(|row| (row.leaf, row.subleaf));
    table
}

/// Kind of a topology level in leaves 0xB and 0x1F.
const SMT: u32 = 1;
const CORE: u32 = 2;
const MODULE: u32 = 3;
const TILE: u32 = 4;
const DIE: u32 = 5;

/// Bits of linear addresses with four levels of tables.
const LINEAR_BITS: u32 = 48;

impl Source<'_> {
    fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    fn apic_id(&self) -> u32 {
        self.machine.cpus[self.cpu].apic_id
    }

    /// Lowest bit of the ID of a unit of this level.
    fn shift(&self, level: Level) -> u32 {
        self.machine.level(level).id_shift
    }

    /// The bits of all shown features in one register of a leaf.
    fn bits(&self, leaf: u32, subleaf: u32, register: Register) -> u32 {
        let sites = self.features.iter().map(|feature| feature.site());
        sites
            .filter(|site| (site.leaf, site.subleaf) == (leaf, subleaf))
            .filter(|site| site.register == register)
            .fold(0, |bits, site| bits | 1 << site.bit)
    }

    fn basic(&self, table: &mut CpuidTable) {
        let max = if self.is_amd { 0xd } else { 0x1f };
        let vendor = text_words::<3>(&self.machine.identity.vendor);
        table.leaf(0, [max, vendor[0], vendor[2], vendor[1]]);
        table.leaf(1, self.leaf_1());
        if !self.is_amd {
            // Descriptor 0xff: caches are in leaf 4.
            table.leaf(2, [0x00ff_0001, 0, 0, 0]);
            self.cache_leaves(table, 4);
        }
        if self.has(Feature::Monitor) {
            table.leaf(5, self.leaf_5());
        }
        table.leaf(6, [self.bits(6, 0, Register::Eax), 0, 0, 0]);
        let seven = |register| self.bits(7, 0, register);
        table.subleaf(7, 0, [0, seven(Register::Ebx), seven(Register::Ecx), seven(Register::Edx)]);
        self.topology_leaf(table, 0xb, &[(SMT, Level::Core), (CORE, Level::Package)]);
        self.xsave_leaves(table);
        if !self.is_amd {
            table.leaf(0x15, self.leaf_15());
            table.leaf(0x16, self.leaf_16());
            self.topology_leaf(table, 0x1f, &self.levels_of_1f());
        }
    }

    fn leaf_1(&self) -> Registers {
        let identity = &self.machine.identity;
        let (family, model) = (identity.family, identity.model);
        let base_family = family.min(0xf);
        // The extended model counts for families 6 and 15 only; all of ours are.
        let eax = (family - base_family) << 20
            | (model >> 4 & 0xf) << 16
            | base_family << 8
            | (model & 0xf) << 4
            | identity.stepping & 0xf;
        let cpus = (1u32 << self.shift(Level::Package).min(8)).min(255);
        let line = self.machine.cores[self.machine.cpus[self.cpu].core].l1d.line;
        let ebx = (self.apic_id() & 0xff) << 24 | cpus << 16 | (line / 8) << 8;
        // HTT says that the count in EBX is valid: more than one APIC ID in the package.
        let htt = if cpus > 1 { 1 << 28 } else { 0 };
        let edx = self.bits(1, 0, Register::Edx) | htt;
        [eax, ebx, self.bits(1, 0, Register::Ecx), edx]
    }

    fn leaf_5(&self) -> Registers {
        let line = self.machine.monitor.line_size;
        let mut states = 0u32;
        for state in self.machine.idle.iter().filter(|state| state.enabled) {
            if let IdleEntry::Mwait(hint) = state.entry {
                // Hint 0xf0 is C0, 0x00 is C1; a nibble of EDX counts the sub-states of each.
                let shift = (((hint >> 4) + 1) & 0xf).min(7) * 4;
                let count = states >> shift & 0xf;
                states = states & !(0xf << shift) | (count + 1).min(0xf) << shift;
            }
        }
        [line, line, 0b11, states]
    }

    /// TSC as a multiple of the crystal, which also clocks the APIC timer.
    fn leaf_15(&self) -> Registers {
        let tsc_hz = self.machine.clocks.tsc_khz.saturating_mul(1000);
        let crystal_hz = self.machine.clocks.apic_timer_hz;
        let divisor = gcd(tsc_hz, crystal_hz).max(1);
        let words = [crystal_hz / divisor, tsc_hz / divisor, crystal_hz].map(u32::try_from);
        match words {
            [Ok(denominator), Ok(numerator), Ok(crystal)] => [denominator, numerator, crystal, 0],
            _ => [0; 4],
        }
    }

    fn leaf_16(&self) -> Registers {
        let core = &self.machine.cores[self.machine.cpus[self.cpu].core];
        let mhz = |khz: u64| u32::try_from(khz / 1000).unwrap_or(0);
        [mhz(self.machine.clocks.tsc_khz), mhz(core.core_khz), 100, 0]
    }

    /// Levels of leaf 0x1F with the level whose ID remains after the shift: those with ID bits.
    fn levels_of_1f(&self) -> Vec<(u32, Level)> {
        let inner = [(MODULE, Level::Cluster), (TILE, Level::Complex), (DIE, Level::Die)];
        let mut kinds = vec![SMT, CORE];
        let mut next = vec![Level::Core];
        for (kind, level) in inner {
            if self.machine.level(level).id_bits > 0 {
                kinds.push(kind);
                next.push(level);
            }
        }
        next.push(Level::Package);
        kinds.into_iter().zip(next).collect()
    }

    /// Writes a leaf of levels: each with the shift to the next one, and how many cpus it holds.
    fn topology_leaf(&self, table: &mut CpuidTable, leaf: u32, levels: &[(u32, Level)]) {
        for (index, &(kind, next)) in (0u32..).zip(levels) {
            let shift = self.shift(next);
            let mine = id_above(self.apic_id(), shift);
            let cpus = &self.machine.cpus;
            let held = cpus.iter().filter(|cpu| id_above(cpu.apic_id, shift) == mine).count();
            let held = u32::try_from(held).unwrap_or(u32::MAX);
            table.subleaf(leaf, index, [shift, held, kind << 8 | index, self.apic_id()]);
        }
    }

    fn xsave_leaves(&self, table: &mut CpuidTable) {
        const LEGACY_AND_HEADER: u32 = 576;
        const AVX_BYTES: u32 = 256;
        if !self.has(Feature::Xsave) {
            return;
        }
        let has_avx = self.has(Feature::Avx);
        let size = LEGACY_AND_HEADER + if has_avx { AVX_BYTES } else { 0 };
        let mask = if has_avx { 0b111 } else { 0b011 };
        table.subleaf(0xd, 0, [mask, LEGACY_AND_HEADER, size, 0]);
        let compact = self.has(Feature::Xsavec) || self.has(Feature::Xsaves);
        let ebx = if compact { size } else { 0 };
        table.subleaf(0xd, 1, [self.bits(0xd, 1, Register::Eax), ebx, 0, 0]);
        if has_avx {
            table.subleaf(0xd, 2, [AVX_BYTES, LEGACY_AND_HEADER, 0, 0]);
        }
    }

    fn extended(&self, table: &mut CpuidTable) {
        let max = if self.is_amd { 0x8000_001e } else { 0x8000_0008 };
        let vendor = if self.is_amd { text_words(&self.machine.identity.vendor) } else { [0; 3] };
        table.leaf(0x8000_0000, [max, vendor[0], vendor[2], vendor[1]]);
        table.leaf(0x8000_0001, self.extended_1());
        let brand = text_words::<12>(&self.machine.identity.brand);
        for (leaf, words) in (0x8000_0002..).zip(brand.chunks_exact(4)) {
            table.leaf(leaf, [words[0], words[1], words[2], words[3]]);
        }
        if self.is_amd {
            self.amd_caches(table);
            self.cache_leaves(table, 0x8000_001d);
            table.leaf(0x8000_001e, self.amd_1e());
        } else {
            let core = self.core();
            table.leaf(0x8000_0006, [0, 0, core.l2.as_ref().map_or(0, legacy_l2), 0]);
        }
        table.leaf(0x8000_0007, [0, 0, 0, self.bits(0x8000_0007, 0, Register::Edx)]);
        table.leaf(0x8000_0008, self.extended_8());
    }

    fn core(&self) -> &topology::CorePlace {
        &self.machine.cores[self.machine.cpus[self.cpu].core]
    }

    fn extended_1(&self) -> Registers {
        /// Bits of leaf 1 EDX that AMD repeats here.
        const REPEATED: u32 = 0x0183_f3ff;
        let mut edx = self.bits(0x8000_0001, 0, Register::Edx);
        let mut ecx = self.bits(0x8000_0001, 0, Register::Ecx);
        let eax = if self.is_amd { self.leaf_1()[0] } else { 0 };
        if self.is_amd {
            edx |= self.bits(1, 0, Register::Edx) & REPEATED;
            // CmpLegacy: the count in leaf 1 is of cores, not of threads of one core.
            ecx |= u32::from(self.machine.level(Level::Package).id_shift > 0) << 1;
        }
        [eax, 0, ecx, edx]
    }

    fn extended_8(&self) -> Registers {
        let eax = LINEAR_BITS << 8 | self.machine.identity.physical_bits & 0xff;
        let ebx = self.bits(0x8000_0008, 0, Register::Ebx);
        let mut ecx = 0;
        if self.is_amd {
            let package = self.machine.cpus[self.cpu].package;
            let held = self.machine.cpus.iter().filter(|cpu| cpu.package == package).count();
            let threads = u32::try_from(held).unwrap_or(1).clamp(1, 256) - 1;
            ecx = self.shift(Level::Package) << 12 | threads;
        }
        [eax, ebx, ecx, 0]
    }

    /// Leaves 0x80000005 and 0x80000006, which AMD parts still fill.
    fn amd_caches(&self, table: &mut CpuidTable) {
        let core = self.core();
        let l1 = |cache: &Cache| {
            let kib = low(cache.size >> 10).min(0xff);
            kib << 24 | cache.ways.min(0xff) << 16 | 1 << 8 | cache.line
        };
        table.leaf(0x8000_0005, [0, 0, l1(&core.l1d), l1(&core.l1i)]);
        let l2 = core.l2.as_ref().map_or(0, legacy_l2);
        let l3 = self.machine.llcs[core.llc].cache.as_ref().map_or(0, |cache| {
            low(cache.size >> 19) << 18 | ways_code(cache.ways) << 12 | 1 << 8 | cache.line
        });
        table.leaf(0x8000_0006, [0, 0, l2, l3]);
    }

    fn amd_1e(&self) -> Registers {
        let place = &self.machine.cpus[self.cpu];
        let threads = low(self.core().cpus.len() as u64).max(1);
        let core_id = id_above(self.apic_id(), self.shift(Level::Core)) & 0xff;
        // One node per package: what firmware splits by NPS is memory, not this number.
        let node = low(place.package as u64) & 0xff;
        [self.apic_id(), (threads - 1) << 8 | core_id, node, 0]
    }

    /// Writes leaf 4 or its twin 0x8000001D.
    fn cache_leaves(&self, table: &mut CpuidTable, leaf: u32) {
        const DATA: u32 = 1;
        const CODE: u32 = 2;
        const UNIFIED: u32 = 3;
        let core = self.core();
        let own = self.shift(Level::Core);
        let mut caches = vec![(DATA, 1, &core.l1d, own), (CODE, 1, &core.l1i, own)];
        if let Some(l2) = &core.l2 {
            caches.push((UNIFIED, 2, l2, own));
        }
        if let Some(llc) = &self.machine.llcs[core.llc].cache {
            let level = if core.l2.is_some() { 3 } else { 2 };
            caches.push((UNIFIED, level, llc, self.llc_shift()));
        }
        for (index, (kind, level, cache, shift)) in (0u32..).zip(caches) {
            let sharing = (1u32 << shift.min(12)) - 1;
            let cores = (1u32 << (self.shift(Level::Package) - own).min(6)) - 1;
            let cores = if self.is_amd { 0 } else { cores };
            let eax = cores << 26 | sharing << 14 | 1 << 8 | level << 5 | kind;
            let ebx = (cache.ways - 1) << 22 | (cache.line - 1);
            table.subleaf(leaf, index, [eax, ebx, low(cache.sets()) - 1, 0]);
        }
        // A subleaf of type 0 ends the list; lookup gives it without a row.
    }

    /// The shift after which the IDs of this cpu's LLC domain are one and differ from others'.
    fn llc_shift(&self) -> u32 {
        let cpus = &self.machine.cpus;
        let llc = cpus[self.cpu].llc;
        let shares = |shift: u32| {
            let mine = id_above(self.apic_id(), shift);
            cpus.iter().filter(|cpu| cpu.llc == llc).all(|c| id_above(c.apic_id, shift) == mine)
        };
        // A level boundary first: an LLC with holes in its IDs still owns the whole field.
        let levels = [Level::Core, Level::Cluster, Level::Complex, Level::Die, Level::Package];
        let shifts = levels.map(|level| self.shift(level));
        shifts.into_iter().find(|&shift| shares(shift)).unwrap_or(shifts[4])
    }
}

/// An ID without its lowest bits; nothing is left of 32 shifted ones.
fn id_above(id: u32, shift: u32) -> u32 {
    id.checked_shr(shift).unwrap_or(0)
}

fn low(value: u64) -> u32 {
    (value & 0xffff_ffff) as u32
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// L2 in the form of leaf 0x80000006 ECX.
fn legacy_l2(cache: &Cache) -> u32 {
    low(cache.size >> 10) << 16 | ways_code(cache.ways) << 12 | 1 << 8 | cache.line
}

/// Associativity as leaf 0x80000006 encodes it; 9 refers to leaf 0x8000001D.
fn ways_code(ways: u32) -> u32 {
    match ways {
        0 => 0,
        1 => 1,
        2 => 2,
        4 => 4,
        8 => 6,
        16 => 8,
        32 => 0xa,
        48 => 0xb,
        64 => 0xc,
        96 => 0xd,
        128 => 0xe,
        _ => 9,
    }
}

/// Text as little-endian words, cut or filled with NULs.
fn text_words<const N: usize>(text: &str) -> [u32; N] {
    let mut words = [0; N];
    for (index, &byte) in text.as_bytes().iter().take(N * 4).enumerate() {
        words[index / 4] |= u32::from(byte) << (index % 4 * 8);
    }
    words
}
