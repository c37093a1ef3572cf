//! Runs an ELF image on a machine by the library: `cargo run --example embed -- IMAGE [MACHINE]`.

use emu_cpu::isa::Isa;
use emu_machine::{Image, Machine, Options, Until};
use emu_sim::{CpuId, SimTime};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: embed IMAGE [MACHINE] [BOOTARGS]")?;
    let topology = topology::Machine::load(&args.next().unwrap_or("duo".into()), &[])?;
    let bootargs = args.next().unwrap_or_default();
    let image = Image::from_elf(&std::fs::read(path)?, None)?;
    let mut machine = Machine::new(&topology, Options::default())?;
    machine.load(&image, &bootargs)?;
    let until = Until {
        time: SimTime::from_us(
            std::env::var("US").ok().and_then(|v| v.parse().ok()).unwrap_or(10_000_000),
        ),
        regions: false,
    };
    let begun = std::time::Instant::now();
    let stop = machine.run(&until, &mut ());
    let host = begun.elapsed().as_secs_f64();
    print!("{}", String::from_utf8_lossy(machine.console()));
    let count = |c: usize| machine.counters(CpuId(c as u32)).instructions;
    let instructions: u64 = (0..machine.cpus()).map(count).sum();
    println!("{stop:?} at {}; {instructions} instructions", machine.now());
    println!(
        "{:.2} MIPS, {host:.3} s, {} pages",
        instructions as f64 / host / 1e6,
        machine.touched_pages()
    );
    for c in 0..machine.cpus().min(8) {
        let cpu = machine.cpu(CpuId(c as u32));
        if std::env::var("DBG").is_ok() {
            println!("{:?} {:x?}", machine.counters(CpuId(c as u32)), cpu.registers());
            println!("{:x?}", cpu.apic);
        }
        println!("cpu{c}: rip {:#x} {:?}", cpu.state.rip, machine.run_state(CpuId(c as u32)));
    }
    Ok(())
}
