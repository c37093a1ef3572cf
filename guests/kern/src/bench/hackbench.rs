//! `bench=hackbench`: groups of senders and receivers that pass messages through pipes.
//!
//! The tool's `-g groups -f fds -l loops -s datasize --threads --pipe`. Each of the `fds` senders
//! of a group writes `loops` messages to each of its `fds` pipes, each of its receivers reads
//! those of its pipe. All sleep until all are ready; the region ends when the last has finished,
//! as the time that the tool prints. Not modelled: socket pairs, processes.

use guests_abi::block::SampleKind;
use guests_abi::class::LineClass;
use guests_sched::preempt::Class;

use super::gate::Crowd;
use crate::arch::atomic::{AtomicU8, Ordering::Relaxed};
use crate::console::die;
use crate::link::Link;
use crate::pipe::Pipe;
use crate::samples::{Series, SeriesTable};
use crate::start::config;
use crate::{machine, memory, task, testdev};

/// A sender.
struct Sender {
    crowd: &'static Crowd,
    pipes: &'static [Link<Pipe>],
    data: &'static [AtomicU8],
}

/// A receiver.
struct Receiver {
    crowd: &'static Crowd,
    pipe: &'static Pipe,
    data: &'static [AtomicU8],
    /// What the bytes of its messages are.
    mark: u8,
    series: Series,
}

/// Runs the benchmark; returns the exit code.
pub(super) fn run() -> u64 {
    let messages = config().messages;
    let receivers = messages.groups * messages.fds;
    let crowd = Crowd::new(2 * receivers);
    let table = SeriesTable::publish(receivers);
    for group in 0..messages.groups {
        start_group(crowd, &table, group);
    }
    crowd.run();
    guests_abi::exit::PASS
}

/// Starts the threads of a group, receivers first.
fn start_group(crowd: &'static Crowd, table: &SeriesTable, group: usize) {
    let fds = config().messages.fds;
    let mark = group as u8;
    let pipes: &[Link<Pipe>] = memory::alloc_slice(machine::node(task::idlest_cpu()), fds);
    for (at, link) in pipes.iter().enumerate() {
        let cpu = task::idlest_cpu();
        let node = machine::node(cpu);
        let pipe = Pipe::new(node);
        link.set(Some(pipe));
        let series = table.define(group * fds + at, SampleKind::Units, cpu, cpu, 1);
        let receiver = Receiver { crowd, pipe, data: new_message(node, 0), mark, series };
        let receiver = memory::alloc_value(node, receiver);
        task::kthread_run_unbound(cpu, Class::Normal, receive, receiver);
    }
    for _ in 0..fds {
        let cpu = task::idlest_cpu();
        let node = machine::node(cpu);
        let sender = Sender { crowd, pipes, data: new_message(node, mark) };
        task::kthread_run_unbound(cpu, Class::Normal, send, memory::alloc_value(node, sender));
    }
}

fn new_message(node: usize, mark: u8) -> &'static [AtomicU8] {
    let data = memory::alloc_bytes(node, config().messages.datasize, 64);
    testdev::declare_lines(data.as_ptr() as u64, data.len(), LineClass::Bench);
    data.iter().for_each(|byte| byte.store(mark, Relaxed));
    data
}

extern "C" fn send(sender: &'static Sender) {
    sender.crowd.enter();
    for _ in 0..config().messages.loops {
        for pipe in sender.pipes.iter().filter_map(Link::get) {
            pipe.write(sender.data);
        }
    }
    sender.crowd.leave();
}

extern "C" fn receive(receiver: &'static Receiver) {
    let Receiver { crowd, pipe, data, mark, series } = receiver;
    series.touch();
    series.finish(1);
    crowd.enter();
    let messages = config().messages;
    for received in 1..=messages.loops * messages.fds as u64 {
        let mut bytes = 0;
        while bytes < data.len() {
            bytes += pipe.read(&data[bytes..]);
        }
        series.record(0, received);
    }
    if data.iter().any(|byte| byte.load(Relaxed) != *mark) {
        die!(FAIL, "hackbench: a message is not what was sent");
    }
    crowd.leave();
}
