//! x86 machines: local APICs in the cpus, an I/O APIC, COM1.

use std::sync::Arc;

use emu_cpu::port::{DeviceAccess, Space};
use emu_cpu::wait::Signal;
use emu_sim::{CpuId, PhysAddr, SimTime};
use emu_x86::cpu::X86Cpu;
use emu_x86::defs::rflags;
use emu_x86::state::{SegReg, Segment, TableReg, gpr};

use crate::assemble;
use crate::bus::{Asked, PAGE, Request};
use crate::dev::ioapic::{IoApic, Message};
use crate::dev::uart16550::{self, Uart16550};
use crate::handover::{self, Handover, HandoverError, X86Entry};
use crate::platform::Platform;

/// Where devices live (`guest-abi.md`, x86 map).
const IOAPIC: u64 = 0xfec0_0000;
const COM1: u64 = 0x3f8;
const COM1_END: u64 = COM1 + uart16550::PORTS as u64;

/// Devices of an x86 machine.
#[derive(Clone, Debug)]
pub(crate) struct X86 {
    uart: Uart16550,
    ioapic: IoApic,
    /// APIC ids by cpu.
    apic_ids: Vec<u32>,
}

impl Platform for X86 {
    type Cpu = X86Cpu;
    type Entry = X86Entry;
    const TEST_DEVICE: u64 = 0xfed8_0000;
    const DMA_ENGINE: u64 = guests_abi::layout::DMA_ENGINE_BASE;

    fn new(topology: &topology::Machine, cpus: usize) -> X86 {
        let apic_ids = topology.cpus.iter().take(cpus).map(Self::arch_id).collect();
        X86 { uart: Uart16550::new(), ioapic: IoApic::new(), apic_ids }
    }

    fn cpu_maker(
        topology: &topology::Machine,
        _cpus: usize,
        _entry_level: u8,
    ) -> impl Fn(usize) -> X86Cpu {
        let shared = Arc::new(assemble::x86::cpu_config(topology));
        move |cpu| X86Cpu::new(shared.clone(), assemble::x86::cpu_identity(topology, cpu))
    }

    fn arch_id(place: &topology::CpuPlace) -> u32 {
        place.apic_id
    }

    fn hand_over(
        topology: &topology::Machine,
        start: PhysAddr,
        fdt: Vec<u8>,
    ) -> Result<Handover<X86Entry>, HandoverError> {
        handover::x86(topology, start, fdt)
    }

    fn enter(cpu: &mut X86Cpu, e: &X86Entry) {
        let segment = |selector: u16, descriptor: u64| Segment {
            selector,
            base: 0,
            limit: u32::MAX,
            rights: (descriptor >> 40) as u16 & 0xf0ff,
        };
        let s = &mut cpu.state;
        s.gpr = [0; 16];
        s.gpr[gpr::RSP] = e.rsp;
        s.gpr[gpr::RDI] = e.rdi;
        s.rip = e.rip;
        s.rflags = e.rflags;
        s.cr0 = e.cr0;
        s.cr3 = e.cr3;
        s.cr4 = e.cr4;
        s.efer = e.efer;
        s.gdtr = TableReg { base: e.gdt_base, limit: e.gdt_limit };
        s.idtr = TableReg { base: 0, limit: 0 };
        s.seg = [segment(e.ds, e.ds_descriptor); 6];
        s.seg[SegReg::Cs as usize] = segment(e.cs, e.cs_descriptor);
        cpu.registers_changed();
    }

    fn access(&mut self, asked: &Asked, out: &mut Vec<Request>) -> Option<u64> {
        let a = &asked.access;
        match a.space {
            Space::Memory if (IOAPIC..IOAPIC + PAGE).contains(&a.addr) => {
                Some(self.ioapic_access(a, out))
            }
            Space::Port if (COM1..COM1_END).contains(&a.addr) => Some(self.uart_access(a, out)),
            _ => None,
        }
    }

    fn due(&self) -> Option<SimTime> {
        None
    }

    fn advance(&mut self, _now: SimTime, _out: &mut Vec<Request>) {}

    fn dma_interrupt(&mut self, is_up: bool, route: u64, out: &mut Vec<Request>) {
        let (destination, vector) = (route as u32, (route >> 32) as u8);
        let cpu = self.apic_ids.iter().position(|id| *id == destination);
        // A message when it goes up. Vectors of exceptions are none; one to nobody is lost.
        if let Some(cpu) = cpu.filter(|_| is_up && vector >= 32) {
            let signal = Signal::Interrupt { vector, level: false, logical: None };
            out.push(Request::Signal { to: CpuId(cpu as u32), signal, from: SimTime::ZERO });
        }
    }

    fn receive(&mut self, byte: u8, out: &mut Vec<Request>) -> bool {
        let has_room = self.uart.has_room();
        if has_room {
            let effects = self.uart.receive(byte);
            self.uart_effects(effects, out);
        }
        has_room
    }

    fn interrupts(cpu: &X86Cpu) -> (bool, Vec<u8>) {
        (cpu.state.rflags & rflags::IF != 0, cpu.apic.irr().iter().collect())
    }
}

impl X86 {
    fn ioapic_access(&mut self, a: &DeviceAccess, out: &mut Vec<Request>) -> u64 {
        let offset = a.addr - IOAPIC;
        let Some(value) = a.write else { return u64::from(self.ioapic.read(offset)) };
        let messages = self.ioapic.write(offset, value as u32);
        self.send(&messages, out);
        0
    }

    fn uart_access(&mut self, a: &DeviceAccess, out: &mut Vec<Request>) -> u64 {
        let offset = (a.addr - COM1) as u16;
        let (value, effects) = match a.write {
            None => self.uart.read(offset),
            Some(value) => (0, self.uart.write(offset, value as u8)),
        };
        self.uart_effects(effects, out);
        u64::from(value)
    }

    fn uart_effects(&mut self, effects: uart16550::Effects, out: &mut Vec<Request>) {
        out.extend(effects.console.map(Request::Console));
        if let Some(level) = effects.irq {
            let messages = self.ioapic.set_pin(uart16550::COM1_PIN, level);
            self.send(&messages, out);
        }
    }

    /// Sends interrupt messages; one to an id that no cpu has is lost.
    fn send(&self, messages: &[Message], out: &mut Vec<Request>) {
        for m in messages {
            let destination = u32::from(m.destination);
            let Some(cpu) = self.apic_ids.iter().position(|id| *id == destination) else {
                continue;
            };
            let signal = Signal::Interrupt { vector: m.vector, level: m.is_level, logical: None };
            let to = CpuId(cpu as u32);
            out.push(Request::Signal { to, signal, from: SimTime::ZERO });
        }
    }
}
