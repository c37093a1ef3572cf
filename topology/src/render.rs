//! `machine show`: a machine as text, with every number, its kind and its source.

use std::fmt::Write;

use crate::model::*;
use crate::units::{show_bytes, show_frequency, show_time};

impl Machine {
    /// Returns the machine as text; features not in `implemented` are listed as masked.
    pub fn render(&self, implemented: &[&str]) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_text(&mut out, implemented);
        out
    }

    fn write_text(&self, out: &mut String, implemented: &[&str]) -> std::fmt::Result {
        writeln!(out, "{}: {}", self.id, self.name)?;
        self.write_structure(out)?;
        self.write_clocks(out)?;
        self.write_idle(out)?;
        self.write_features(out, implemented)?;
        writeln!(out, "\nnumbers (key, value, kind, source)")?;
        let keys = self.figures.iter().map(|figure| figure.key.len()).max().unwrap_or(0);
        let values = self.figures.iter().map(|figure| figure.value.len()).max().unwrap_or(0);
        for Figure { key, value, kind, source } in &self.figures {
            writeln!(out, "  {key:keys$}  {value:>values$}  {kind:8}  {source}")?;
        }
        Ok(())
    }

    fn write_structure(&self, out: &mut String) -> std::fmt::Result {
        let count = |level| self.level(level).count;
        writeln!(
            out,
            "\nstructure\n  {} cpus, {} cores, {} LLCs, {} nodes, {} packages",
            self.cpus.len(),
            self.cores.len(),
            self.llcs.len(),
            self.nodes.len(),
            count(Level::Package),
        )?;
        for place in self.levels.iter().rev().filter(|place| place.id_bits > 0) {
            let level = format!("{:?}", place.level).to_lowercase();
            let (first, last) = (place.id_shift, place.id_shift + place.id_bits - 1);
            writeln!(out, "  id bits {first} to {last}: {level} ({} in all)", place.count)?;
        }
        if self.isa == Isa::X86_64 {
            writeln!(out, "  APIC mode at hand-over: {:?}", self.apic.mode)?;
        } else {
            self.write_arm(out)?;
        }
        if let Some(core) = self.cores.first() {
            write!(out, "  core 0: L1I {}, L1D {}", cache(&core.l1i), cache(&core.l1d))?;
            if let Some(l2) = &core.l2 {
                write!(out, ", L2 {}", cache(l2))?;
            }
            if let Some(llc) = self.llcs.first().and_then(|llc| llc.cache.as_ref()) {
                write!(out, ", LLC {}", cache(llc))?;
            }
            writeln!(out)?;
        }
        for (n, node) in self.nodes.iter().enumerate() {
            let (size, cpus) = (show_bytes(node.size), node.cpus.len());
            writeln!(out, "  node {n}: {size} at {:#x}, {cpus} cpus", node.base)?;
        }
        Ok(())
    }

    fn write_arm(&self, out: &mut String) -> std::fmt::Result {
        let Arm { gic, conduit, atomics, .. } = &self.arm;
        let range = if gic.has_range_selector { " with range selector" } else { "" };
        writeln!(out, "  GIC {:?}{range}, firmware by {conduit:?}", gic.version)?;
        let first = self.cpus.first().map_or(0, |cpu| cpu.mpidr);
        let last = self.cpus.last().map_or(0, |cpu| cpu.mpidr);
        let threads = if self.arm.is_multithreaded { ", MT" } else { "" };
        writeln!(out, "  MPIDR {first:#x} to {last:#x}{threads}")?;
        for core in &self.core_types {
            writeln!(out, "  MIDR of {} {:#010x}", core.name, core.midr)?;
        }
        let Atomics { load, store, release, acquire } = atomics;
        writeln!(
            out,
            "  atomics with result {load:?}, without {store:?}, release {release:?}, acquire \
             {acquire:?}"
        )
    }

    fn write_clocks(&self, out: &mut String) -> std::fmt::Result {
        let core = show_frequency(self.clocks.core_khz * 1_000);
        let counter = show_frequency(self.clocks.tsc_khz * 1_000);
        match self.isa {
            Isa::X86_64 => {
                let timer = show_frequency(self.clocks.apic_timer_hz);
                writeln!(out, "\nclocks\n  core {core}, TSC {counter}, APIC timer {timer}")?;
            }
            Isa::Aarch64 => writeln!(out, "\nclocks\n  core {core}, counter {counter}")?,
        }
        writeln!(
            out,
            "  window W = {} ({} to the uncore + {} back)",
            show_time(self.window_ps()),
            show_time(self.min_core_uncore()),
            show_time(self.min_uncore_core()),
        )
    }

    fn write_idle(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "\nidle states (true times; advertised latency/residency in us)")?;
        for state in &self.idle {
            let store = state.exit_store.map_or_else(|| "never".to_string(), show_time);
            writeln!(
                out,
                "  {:6} {}: entry {}, exit by store {store}, by interrupt {}, told {}/{}{}",
                state.name,
                state.entry,
                show_time(state.entry_latency),
                show_time(state.exit_interrupt),
                state.advertised.latency_us,
                state.advertised.residency_us,
                if state.enabled { "" } else { ", disabled" },
            )?;
        }
        Ok(())
    }

    fn write_features(&self, out: &mut String, implemented: &[&str]) -> std::fmt::Result {
        let (shown, masked): (Vec<&str>, Vec<&str>) =
            self.features.names.iter().map(String::as_str).partition(|n| implemented.contains(n));
        writeln!(out, "\nfeatures\n  shown: {}", shown.join(" "))?;
        writeln!(out, "  masked, not implemented: {}", masked.join(" "))
    }
}

fn cache(cache: &Cache) -> String {
    format!("{} {}-way {} cycles", show_bytes(cache.size), cache.ways, cache.latency)
}
