//! Steps of the tables' roles and handlers as machine code.

use std::collections::BTreeMap;
use std::sync::Mutex;

use iced_x86::code_asm::*;

use crate::table::{Table, number};
use crate::world::{LINE, LOG, Rig, Role, STARTUP, word};

/// Words of a role: how often it was started, whether it came to its end.
pub(crate) const RUNS: [u64; 2] = [word(20), word(22)];
pub(crate) const DONE: [u64; 2] = [word(24), word(26)];

impl Table {
    /// Vectors that any step names.
    fn vectors(&self) -> Vec<u32> {
        let named = self.steps.iter().filter(|s| SENDS_VECTOR.contains(&s.1.as_str()));
        let mut all: Vec<u32> = named.filter_map(|s| hex(s.2.first()?).ok()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn assemble(&self, r: &mut Role<'_>, role: char, apic_id: u32) -> Result<(), String> {
        let mut labels = BTreeMap::new();
        for (_, step, args) in self.steps.iter().filter(|s| s.0 == role) {
            emit(r, step, args, apic_id, &mut labels)?;
        }
        Ok(())
    }

    /// Boots both roles, `b` on that cpu.
    pub(crate) fn rig(&self, topology: &topology::Machine, b: u32) -> Result<Rig, String> {
        let ids = [topology.cpus[0].apic_id, topology.cpus[b as usize].apic_id];
        let problem = Mutex::new(Ok(()));
        let body = |r: &mut Role<'_>, n: usize| {
            let mut end = r.a.create_label();
            r.a.lock().inc(qword_ptr(RUNS[n])).unwrap();
            r.a.cmp(qword_ptr(RUNS[n]), 1).unwrap();
            r.a.jne(end).unwrap();
            // What a role touches besides its steps is there, so that only they take time.
            r.a.mov(qword_ptr(DONE[n]), 0).unwrap();
            r.a.mov(rbx, qword_ptr(LINE + 2048)).unwrap();
            r.a.mov(rbx, qword_ptr(LOG)).unwrap();
            r.a.mfence().unwrap();
            r.mark(["a", "b"][n]);
            let made = self.assemble(r, ['a', 'b'][n], ids[1 - n]);
            if made.is_err() {
                *problem.lock().unwrap() = made;
            }
            r.a.set_label(&mut end).unwrap();
            r.a.mov(qword_ptr(DONE[n]), 1).unwrap();
        };
        let handlers = |r: &mut Role<'_>| {
            if let Err(e) = self.handlers(r) {
                *problem.lock().unwrap() = Err(e);
            }
        };
        let mut points: Vec<&str> = vec![self.sweep.0.as_str()];
        points.extend(self.delays.iter().map(|d| d.0.as_str()));
        points.extend(["a", "b"].iter().filter(|p| !points.contains(p)).collect::<Vec<_>>());
        let rig =
            Rig::with_handlers(topology, b, |r| body(r, 0), |r| body(r, 1), handlers, &points);
        problem.into_inner().unwrap().map(|()| rig)
    }

    /// A handler logs its vector and where it returns to, then runs the steps of `h`, or of `n`.
    fn handlers(&self, r: &mut Role<'_>) -> Result<(), String> {
        let mut common = r.a.create_label();
        for vector in [vec![2], self.vectors()].concat() {
            r.mark(&if vector == 2 { "nmi".to_owned() } else { format!("irq{vector:x}") });
            r.a.push(rax).unwrap();
            r.a.mov(eax, vector).unwrap();
            r.a.jmp(common).unwrap();
        }
        let (mut nmi, mut out) = (r.a.create_label(), r.a.create_label());
        r.a.set_label(&mut common).unwrap();
        for register in [rcx, rdx, rbx] {
            r.a.push(register).unwrap();
        }
        r.a.mov(rcx, qword_ptr(rsp + 32)).unwrap();
        r.a.mov(edx, 1).unwrap();
        r.a.lock().xadd(qword_ptr(LOG), rdx).unwrap();
        r.a.shl(rdx, 4).unwrap();
        r.a.mov(rbx, LOG + 64).unwrap();
        r.a.mov(qword_ptr(rbx + rdx), rcx).unwrap();
        r.a.mov(qword_ptr(rbx + rdx + 8), rax).unwrap();
        r.a.cmp(eax, 2).unwrap();
        r.a.je(nmi).unwrap();
        r.mark("h");
        self.assemble(r, 'h', 0)?;
        if !self.steps.iter().any(|s| s.0 == 'h') {
            r.apic(0xb0, 0);
        }
        r.a.jmp(out).unwrap();
        r.a.set_label(&mut nmi).unwrap();
        // Two labels do not go to one instruction.
        r.a.nop().unwrap();
        r.mark("n");
        self.assemble(r, 'n', 0)?;
        r.a.set_label(&mut out).unwrap();
        r.a.nop().unwrap();
        r.mark("return");
        for register in [rbx, rdx, rcx, rax] {
            r.a.pop(register).unwrap();
        }
        r.a.iretq().unwrap();
        r.mark("fault");
        r.a.mov(qword_ptr(crate::world::FAULT), 1).unwrap();
        r.halt();
        Ok(())
    }
}

/// Steps whose first argument is a vector, in hexadecimal.
const SENDS_VECTOR: [&str; 4] = ["ipi", "self-ipi", "timer", "deadline"];

fn hex(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 16).map_err(|_| format!("`{text}` is no vector"))
}

/// Emits one step; `other` is the APIC id of the other role.
fn emit(
    r: &mut Role<'_>,
    step: &str,
    args: &[String],
    other: u32,
    labels: &mut BTreeMap<String, CodeLabel>,
) -> Result<(), String> {
    let arg = |n: usize| args.get(n).map_or("0", String::as_str);
    let count = |n: usize| number(arg(n)).map(|v| v as u32);
    match step {
        // The watched line.
        "warm" => r.warm(),
        "monitor" => r.monitor(LINE),
        "mwait" => r.mwait(hex(arg(0))?, hex(arg(1))?),
        "look" => {
            r.a.mov(rbx, qword_ptr(LINE)).unwrap();
            r.a.or(r8, rbx).unwrap();
        }
        "store" => r.a.mov(byte_ptr(LINE + number(arg(0))?), 1).unwrap(),
        "lock-inc" => r.a.lock().inc(dword_ptr(LINE)).unwrap(),
        "flush" => {
            r.a.clflush(byte_ptr(LINE)).unwrap();
            r.a.mfence().unwrap();
        }
        // Interrupts.
        "sti" => r.a.sti().unwrap(),
        "cli" => r.a.cli().unwrap(),
        "hlt" => r.a.hlt().unwrap(),
        // MWAIT behind STI, with its registers set before.
        "sti-mwait" => {
            r.a.mov(eax, hex(arg(0))?).unwrap();
            r.a.xor(ecx, ecx).unwrap();
            r.a.sti().unwrap();
            r.a.mwait().unwrap();
        }
        // The instruction behind it is in its shadow: a register move at a mark.
        "mov-ss" => {
            r.a.mov(ebx, 0x10).unwrap();
            r.a.mov(ss, ebx).unwrap();
        }
        "ipi" => r.send(other, 0x4000 | hex(arg(0))?),
        "nmi" => r.send(other, 0x4400),
        "init" => r.send(other, 0x4500),
        "sipi" => r.send(other, STARTUP),
        "self-ipi" => r.send(0, 0x4_4000 | hex(arg(0))?),
        "eoi" => r.apic(0xb0, 0),
        "tpr" => r.apic(0x80, hex(arg(0))?),
        "cr8" => {
            r.a.mov(ebx, hex(arg(0))?).unwrap();
            r.a.mov(cr8, rbx).unwrap();
        }
        "timer" => {
            r.apic(0x3e0, 0b1011);
            r.apic(0x320, hex(arg(0))?);
            r.apic(0x380, count(1)?);
        }
        "deadline" => {
            r.apic(0x320, hex(arg(0))? | 2 << 17);
            r.a.mfence().unwrap();
            r.a.rdtsc().unwrap();
            r.a.add(eax, count(1)?).unwrap();
            r.a.mov(ecx, 0x6e0).unwrap();
            r.a.wrmsr().unwrap();
        }
        // Time and places.
        "spend" => r.spend(count(0)?),
        "nop" => r.a.nop().unwrap(),
        "mark" => {
            let label = *labels.entry(arg(0).to_owned()).or_insert_with(|| r.a.create_label());
            r.mark(arg(0));
            let mut here = label;
            r.a.set_label(&mut here).unwrap();
            r.a.nop().unwrap();
        }
        "goto-if-seen" | "goto-unless-seen" => {
            let label = *labels.entry(arg(0).to_owned()).or_insert_with(|| r.a.create_label());
            r.a.test(r8, r8).unwrap();
            if step == "goto-if-seen" { r.a.jne(label) } else { r.a.je(label) }.unwrap();
        }
        _ => return Err(format!("unknown step `{step}`")),
    }
    Ok(())
}
