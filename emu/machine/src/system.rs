//! A machine of one instruction set: its nodes, its image, and what can be read from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use emu_cpu::counters::CpuCounters;
use emu_cpu::isa::Isa;
use emu_cpu::node::{Core, Far};
use emu_cpu::thread::RunState;
use emu_mem::home::Home;
use emu_mem::llc::Llc;
use emu_mem::paths::Paths;
use emu_mem::phys::Phys;
use emu_observe::{Record, Wanted};
use emu_sim::{Agenda, Chance, CoreId, CpuId, Key, LlcId, PhysAddr, SimTime};

use crate::api::{Boot, NamedLines, Options, PointRule, Stop, Until};
use crate::assemble;
use crate::bus::Bus;
use crate::dev::domains::Domains;
use crate::dma::DeviceAccesses;
use crate::earliest::Earliest;
use crate::fdt;
use crate::load::Image;
use crate::machine::BuildError;
use crate::platform::Platform;
use crate::rules::{Rules, UnknownPoint};
use crate::run::UncoreItem;

/// Start offsets at region begin are drawn below this (`guest-abi.md`, seeds).
const START_OFFSET: SimTime = SimTime::from_us(10);
/// Purpose of that draw.
const DRAW_START_OFFSET: u32 = 1;

/// A machine with its whole state; a clone is a fork. What is public is described at `Machine`.
#[derive(Clone, Debug)]
pub(crate) struct System<P: Platform> {
    pub(crate) topology: Arc<topology::Machine>,
    pub(crate) options: Options,
    pub(crate) cores: Vec<Core<P::Cpu>>,
    pub(crate) llcs: Vec<Llc>,
    pub(crate) homes: Vec<Home>,
    pub(crate) paths: Arc<Paths>,
    pub(crate) phys: Phys,
    pub(crate) unit: <P::Cpu as Isa>::Unit,
    pub(crate) uncore: Agenda<UncoreItem>,
    /// Key of the last item that the uncore handled.
    pub(crate) handled: Key,
    pub(crate) bus: Bus<P>,
    pub(crate) dma: DeviceAccesses,
    pub(crate) domains: Domains,
    /// Atomics on their way to a home, by the device that stands for them.
    pub(crate) far: BTreeMap<u32, Far>,
    pub(crate) rules: Rules,
    pub(crate) chance: Chance,
    pub(crate) now: SimTime,
    /// Time of each core's earliest item.
    pub(crate) next: Earliest,
    /// A stop that was asked for, with the time when it takes effect.
    pub(crate) stop: Option<(SimTime, Stop)>,
    /// Who marked a region last, and the time of the stop for it, if anybody asked for one.
    pub(crate) marked: Option<(CpuId, u64)>,
    pub(crate) console: Vec<u8>,
    pub(crate) named_lines: Vec<NamedLines>,
    /// When devices are asked next, unless an access asks earlier.
    pub(crate) due: u64,
    /// (core, SMT index) of each cpu that exists.
    pub(crate) places: Vec<(usize, usize)>,
    /// (architectural id, cpu), ascending.
    pub(crate) arch_ids: Vec<(u32, u32)>,
    pub(crate) image: Option<Arc<Image>>,
    pub(crate) seq: u64,
    /// Records that wait for their time to be complete.
    pub(crate) records: Vec<Record>,
    pub(crate) ipi_sent: Vec<u64>,
    /// Room for what leaves a core; empty between rounds.
    pub(crate) out: Vec<emu_cpu::node::Out>,
    /// Rounds of a shuffled run.
    pub(crate) rounds: u64,
}

impl<P: Platform> System<P> {
    /// Builds a machine.
    ///
    /// # Errors
    /// When `options` ask for cpus that the topology does not have, or the ISA cannot run yet.
    pub(crate) fn new(
        topology: &topology::Machine,
        options: Options,
    ) -> Result<System<P>, BuildError> {
        let has = topology.cpus.len() as u32;
        let cpus = options.cpus.unwrap_or(has);
        if cpus == 0 || cpus > has {
            return Err(BuildError::Cpus { asked: cpus, has });
        }
        let chance = Chance::new(options.seed);
        let paths = Arc::new(assemble::paths(topology, options.mutation));
        let make_cpu = P::cpu_maker(topology, cpus as usize, options.entry_level);
        let mut cores = Vec::new();
        let mut places = vec![(0, 0); cpus as usize];
        let mut configs: Vec<Arc<emu_cpu::config::CoreConfig>> = Vec::new();
        for (c, place) in topology.cores.iter().enumerate() {
            let config = assemble::core_config(topology, c, &options);
            let config = share(&mut configs, config);
            let mut members = Vec::new();
            for cpu in place.cpus.iter().copied().filter(|cpu| *cpu < cpus as usize) {
                places[cpu] = (c, members.len());
                let arch_id = P::arch_id(&topology.cpus[cpu]);
                members.push((CpuId(cpu as u32), arch_id, make_cpu(cpu)));
            }
            let (id, llc) = (CoreId(c as u32), LlcId(place.llc as u32));
            cores.push(Core::new(id, llc, config, members, Some(CpuId(0)), chance));
        }
        let mut arch_ids: Vec<(u32, u32)> =
            (0..cpus).map(|c| (P::arch_id(&topology.cpus[c as usize]), c)).collect();
        arch_ids.sort_unstable();
        let ram_end = topology.ram().iter().map(|r| r.base + r.size).max().unwrap_or(0);
        Ok(System {
            llcs: (0..topology.llcs.len()).map(|l| Llc::new(LlcId(l as u32), &paths)).collect(),
            homes: (0..topology.nodes.len())
                .map(|h| Home::new(emu_sim::HomeId(h as u32), &paths))
                .collect(),
            next: Earliest::new(cores.len()),
            cores,
            paths,
            phys: Phys::new(ram_end),
            unit: Default::default(),
            uncore: Agenda::default(),
            handled: Key::FIRST,
            bus: Bus::new(topology, cpus as usize, options.seed),
            dma: DeviceAccesses::default(),
            domains: Domains::new(topology, cpus as usize),
            far: BTreeMap::new(),
            rules: Rules::default(),
            chance,
            now: SimTime::ZERO,
            stop: None,
            marked: None,
            console: Vec::new(),
            named_lines: Vec::new(),
            due: u64::MAX,
            places,
            arch_ids,
            image: None,
            seq: 0,
            records: Vec::new(),
            ipi_sent: vec![0; cpus as usize],
            out: Vec::new(),
            rounds: 0,
            topology: Arc::new(topology.clone()),
            options,
        })
    }

    /// Loads an image and sets CPU 0 at its entry; what it boots with is in the device tree.
    pub(crate) fn load(&mut self, image: &Image, boot: Boot<'_>) -> Result<(), BuildError> {
        image.check_isa(self.topology.isa).map_err(BuildError::Load)?;
        let mut image = image.clone();
        let initrd = boot.initrd.map(|bytes| image.append(bytes)).transpose();
        let initrd = initrd.map_err(BuildError::Load)?;
        let cpus = self.places.len();
        let chosen = fdt::Chosen { bootargs: boot.bootargs, initrd };
        let blob = fdt::build(&self.topology, cpus, chosen).map_err(BuildError::Fdt)?;
        let handover =
            P::hand_over(&self.topology, image.entry, blob).map_err(BuildError::Handover)?;
        image
            .check_placement(&self.topology.ram(), &handover.reserved)
            .map_err(BuildError::Load)?;
        for (pa, bytes) in &handover.memory {
            self.phys.write_bytes(*pa, bytes);
        }
        for s in &image.segments {
            self.phys.write_bytes(s.base, &s.bytes);
        }
        let cpu = self.cores[self.places[0].0].isa_mut(self.places[0].1);
        P::enter(cpu, &handover.entry);
        self.image = Some(Arc::new(image));
        self.refresh_next();
        Ok(())
    }

    /// Counters of one cpu.
    pub(crate) fn counters(&self, cpu: CpuId) -> CpuCounters {
        let (core, smt) = self.places[cpu.index()];
        let mut counters = self.cores[core].thread(smt).counters().clone();
        counters.ipi_sent += self.ipi_sent[cpu.index()];
        counters
    }

    /// Counters of every LLC, then of every home.
    pub(crate) fn line_counters(
        &self,
    ) -> (Vec<&emu_mem::llc::LlcCounters>, Vec<&emu_mem::home::HomeCounters>) {
        (
            self.llcs.iter().map(Llc::counters).collect(),
            self.homes.iter().map(Home::counters).collect(),
        )
    }

    /// Interrupt messages that were sent and have not arrived.
    pub(crate) fn ipis_under_way(&self) -> u64 {
        self.cores.iter().map(Core::interrupts_under_way).sum()
    }

    /// What a cpu does.
    pub(crate) fn run_state(&self, cpu: CpuId) -> RunState {
        let (core, smt) = self.places[cpu.index()];
        self.cores[core].thread(smt).run_state()
    }

    /// The architectural state of a cpu.
    pub(crate) fn cpu(&self, cpu: CpuId) -> &P::Cpu {
        let (core, smt) = self.places[cpu.index()];
        self.cores[core].isa(smt)
    }

    /// Bytes for the console's receiver, from now on.
    pub(crate) fn input(&mut self, bytes: &[u8]) {
        let mut requests = Vec::new();
        self.bus.input(bytes, &mut requests);
        let until = Until { time: SimTime::NEVER, regions: false };
        for r in requests {
            self.serve(CpuId(0), r, self.now, &until);
        }
        self.refresh_next();
    }

    /// Copies guest memory.
    pub(crate) fn read_guest(&self, pa: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.phys.read_bytes(PhysAddr(pa), &mut bytes);
        bytes
    }

    /// Reads a 64-bit word of guest memory.
    pub(crate) fn read_guest_u64(&self, pa: u64) -> u64 {
        let mut bytes = [0; 8];
        self.phys.read_bytes(PhysAddr(pa), &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Overwrites guest memory between two runs: for loaders and debuggers. Caches hold no data,
    /// so every cpu sees it; no monitor triggers.
    pub(crate) fn write_guest(&mut self, pa: u64, bytes: &[u8]) {
        let pa = PhysAddr(pa);
        self.phys.write_bytes(pa, bytes);
        self.cores.iter_mut().for_each(|c| c.overwrite_shadow(pa, bytes));
        self.llcs.iter_mut().for_each(|l| l.overwrite_shadow(pa, bytes));
        self.homes.iter_mut().for_each(|h| h.overwrite_shadow(pa, bytes));
    }

    /// Gives a fork another seed: chance, the seed register, and the start offset of every cpu
    /// that runs.
    pub(crate) fn reseed(&mut self, seed: u64) {
        self.options.seed = seed;
        self.chance = Chance::new(seed);
        self.bus.test.set_seed(seed);
        for (cpu, (core, smt)) in self.places.iter().enumerate() {
            let ps = self.chance.below(START_OFFSET.ps(), cpu as u32, DRAW_START_OFFSET, 0);
            self.cores[*core].delay(*smt, SimTime(ps));
        }
        for core in &mut self.cores {
            core.reseed(self.chance);
        }
        self.refresh_next();
    }

    /// Sets the rules at points; an empty list watches the points without rules.
    ///
    /// # Errors
    /// A name that the image does not have.
    pub(crate) fn set_rules(&mut self, rules: &[PointRule]) -> Result<(), UnknownPoint> {
        let names = self.point_names();
        let mut points = Vec::new();
        if let Some(image) = &self.image {
            for p in &image.points {
                if let Some(i) = names.iter().position(|n| *n == p.name) {
                    points.push((p.address, i as u32));
                }
            }
        }
        let (rules, watch) = Rules::new(rules, &points, &names)?;
        self.rules = rules;
        for core in &mut self.cores {
            core.watch(Some(watch.clone()));
        }
        Ok(())
    }

    /// Stops watching points.
    pub(crate) fn clear_rules(&mut self) {
        self.rules = Rules::default();
        for core in &mut self.cores {
            core.watch(None);
        }
    }

    /// Names of the image's points; a point's index in records is its place here.
    pub(crate) fn point_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        if let Some(image) = &self.image {
            for p in &image.points {
                if !names.contains(&p.name) {
                    names.push(p.name.clone());
                }
            }
        }
        names
    }

    /// How often a cpu passed a point since the rules were set.
    pub(crate) fn passes(&self, cpu: CpuId, point: &str) -> u64 {
        let Some(index) = self.point_names().iter().position(|n| n == point) else { return 0 };
        let (core, smt) = self.places[cpu.index()];
        self.cores[core].passes(smt, index as u32)
    }

    /// Sets which records the next run makes.
    pub(crate) fn want(&mut self, wanted: Wanted) {
        for core in &mut self.cores {
            core.want(wanted);
        }
    }

    pub(crate) fn refresh_next(&mut self) {
        for (c, core) in self.cores.iter().enumerate() {
            self.next.set(c, core.next_time().ps());
        }
    }
}

/// Cores of one type share one copy of their constants.
fn share(
    known: &mut Vec<Arc<emu_cpu::config::CoreConfig>>,
    config: emu_cpu::config::CoreConfig,
) -> Arc<emu_cpu::config::CoreConfig> {
    if let Some(same) = known.iter().find(|k| ***k == config) {
        return same.clone();
    }
    known.push(Arc::new(config));
    known[known.len() - 1].clone()
}
