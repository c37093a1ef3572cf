//! Tests of one APIC from outside: messages and register writes in, state and effects out.

use super::super::defs::MSR_APIC_BASE;
use super::*;

const NOW: SimTime = SimTime::ZERO;
const DISABLED: u64 = 0xfee0_0000;
const XAPIC: u64 = 0xfee0_0800;
const X2APIC: u64 = 0xfee0_0c00;

const ID: u64 = 0x20;
const TPR: u64 = 0x80;
const PPR: u64 = 0xa0;
const EOI: u64 = 0xb0;
const LDR: u64 = 0xd0;
const DFR: u64 = 0xe0;
const SVR: u64 = 0xf0;
const ESR: u64 = 0x280;
const ICR_LOW: u64 = 0x300;
const ICR_HIGH: u64 = 0x310;
const LVT_TIMER: u64 = 0x320;
const LVT_PERFORMANCE: u64 = 0x340;
const LVT_LINT0: u64 = 0x350;
const LVT_LINT1: u64 = 0x360;
const LVT_ERROR: u64 = 0x370;
const INITIAL_COUNT: u64 = 0x380;
const DIVIDE_CONFIG: u64 = 0x3e0;
const MSR_ICR: u32 = 0x830;
const MSR_SELF_IPI: u32 = 0x83f;

fn config(id: u32) -> LocalApicConfig {
    LocalApicConfig {
        id: ApicId(id),
        is_bsp: id == 0,
        version: 0x10,
        has_cmci: false,
        can_suppress_eoi_broadcast: true,
        can_send_lowest_priority: true,
        has_x2apic: true,
        has_tsc_deadline: true,
        phys_addr_bits: 48,
        timer_freq: Freq::from_khz(100_000),
        tsc_freq: Freq::from_khz(2_450_000),
    }
}

impl LocalApic {
    fn put(&mut self, offset: u64, value: u64) -> Effects {
        self.mmio_write(offset, 4, value, NOW).unwrap()
    }

    fn get(&mut self, offset: u64) -> u64 {
        self.mmio_read(offset, 4, NOW).unwrap()
    }

    fn base(&mut self, value: u64) -> Result<Effects, ApicFault> {
        self.msr_write(MSR_APIC_BASE, value, NOW)
    }

    fn errors(&mut self) -> u64 {
        let _ = self.put(ESR, 0);
        self.get(ESR)
    }

    fn edge(&mut self, vector: u8) -> Accept {
        self.accept(vector, Trigger::Edge)
    }

    /// IRR and ISR as lists.
    fn state(&self) -> (Vec<u8>, Vec<u8>) {
        (self.irr().iter().collect(), self.isr().iter().collect())
    }
}

/// An xAPIC that software has enabled, spurious vector 0xff.
fn enabled(id: u32) -> LocalApic {
    let mut apic = LocalApic::new(config(id));
    let _ = apic.put(SVR, 0x1ff);
    apic
}

fn x2apic(id: u32) -> LocalApic {
    let mut apic = enabled(id);
    let _ = apic.base(X2APIC).unwrap();
    apic
}

fn in_service(vectors: &[u8]) -> LocalApic {
    let mut apic = enabled(0);
    for &vector in vectors {
        assert_eq!(apic.edge(vector), Accept::Accepted);
        assert_eq!(apic.acknowledge(), vector);
    }
    apic
}

// Priorities.

#[test]
fn the_processor_priority_is_the_higher_class() {
    // TPR, in service, PPR.
    let table: [(u64, &[u8], u64); 10] = [
        (0x00, &[], 0x00),
        (0x2c, &[], 0x2c),
        (0x00, &[0x31], 0x30),
        (0x2f, &[0x31], 0x30),
        (0x30, &[0x31], 0x30),
        (0x3f, &[0x31], 0x3f),
        (0x41, &[0x31], 0x41),
        (0x00, &[0x31, 0x45, 0xfe], 0xf0),
        (0xf3, &[0x31, 0x45, 0xe0], 0xf3),
        (0xff, &[], 0xff),
    ];
    for (tpr, vectors, ppr) in table {
        let mut apic = in_service(vectors);
        let _ = apic.put(TPR, tpr);
        assert_eq!(apic.get(PPR), ppr, "tpr {tpr:#x} in service {vectors:x?}");
    }
}

#[test]
fn a_vector_is_pending_when_its_class_is_above_the_processor_priority() {
    for vector in 16..=255u8 {
        for tpr in 0..=255u8 {
            let mut apic = enabled(0);
            apic.edge(vector);
            let _ = apic.put(TPR, u64::from(tpr));
            let want = (vector >> 4 > tpr >> 4).then_some(vector);
            assert_eq!(apic.pending(), want, "vector {vector:#x} tpr {tpr:#x}");
        }
    }
}

#[test]
fn the_highest_request_is_served_first_and_lower_classes_wait_for_its_end() {
    let mut apic = enabled(0);
    for vector in [0x31, 0x3f, 0x52, 0x51] {
        apic.edge(vector);
    }
    assert_eq!(apic.acknowledge(), 0x52);
    assert_eq!(apic.pending(), None, "0x51 is of the same class");
    apic.edge(0x60);
    assert_eq!(apic.acknowledge(), 0x60, "a higher class nests");
    assert_eq!(apic.state(), (vec![0x31, 0x3f, 0x51], vec![0x52, 0x60]));
    let _ = apic.put(EOI, 0);
    assert_eq!(apic.pending(), None);
    let _ = apic.eoi();
    for vector in [0x51, 0x3f, 0x31] {
        assert_eq!(apic.acknowledge(), vector);
        assert!(apic.eoi().pending_changed);
    }
    assert_eq!(apic.eoi(), Effects::default(), "nothing in service");
    assert_eq!(apic.state(), (vec![], vec![]));
}

#[test]
fn a_request_that_tpr_hides_between_signal_and_acknowledge_is_spurious() {
    let mut apic = enabled(0);
    let _ = apic.put(SVR, 0x1ef);
    apic.edge(0x31);
    let _ = apic.set_cr8(3).unwrap();
    assert_eq!(apic.acknowledge(), 0xef);
    assert_eq!(apic.state(), (vec![0x31], vec![]), "no ISR bit, the request stays");
    let _ = apic.set_cr8(2).unwrap();
    assert_eq!(apic.acknowledge(), 0x31);
}

#[test]
fn cr8_is_the_class_of_the_task_priority() {
    let mut apic = enabled(0);
    let _ = apic.put(TPR, 0x5c);
    assert_eq!(apic.cr8(), 5);
    for class in 0..16 {
        assert!(apic.set_cr8(class).unwrap().pending_changed);
        assert_eq!((apic.cr8(), apic.get(TPR)), (class, class << 4));
    }
    for value in [16, 0x100, 1 << 32 | 1, u64::MAX] {
        assert_eq!(apic.set_cr8(value), Err(ApicFault::GeneralProtection));
    }
    assert_eq!(apic.cr8(), 15);
}

// Accept and EOI.

#[test]
fn a_vector_holds_one_request_and_one_service() {
    let mut apic = enabled(0);
    assert_eq!(apic.edge(0x40), Accept::Accepted);
    assert_eq!(apic.edge(0x40), Accept::Merged);
    assert_eq!(apic.acknowledge(), 0x40);
    assert_eq!(apic.edge(0x40), Accept::Accepted, "one more while in service");
    assert_eq!(apic.edge(0x40), Accept::Merged);
    assert_eq!(apic.pending(), None);
    let _ = apic.eoi();
    assert_eq!(apic.pending(), Some(0x40));
}

#[test]
fn eoi_and_accept_of_one_edge_vector_commute() {
    let mut accept_first = in_service(&[0x40]);
    let mut eoi_first = accept_first.clone();
    assert_eq!(accept_first.edge(0x40), Accept::Accepted);
    let _ = accept_first.eoi();
    let _ = eoi_first.eoi();
    assert_eq!(eoi_first.edge(0x40), Accept::Accepted);
    assert_eq!(accept_first, eoi_first);
}

#[test]
fn the_trigger_of_the_last_accepted_request_decides_the_eoi_broadcast() {
    let mut apic = enabled(0);
    apic.accept(0x40, Trigger::Level);
    assert!(apic.tmr().contains(0x40));
    apic.acknowledge();
    assert_eq!(apic.eoi().eoi_broadcast, Some(0x40));
    apic.edge(0x40);
    apic.acknowledge();
    assert_eq!(apic.eoi().eoi_broadcast, None);
    let _ = apic.put(SVR, 0x11ff);
    apic.accept(0x40, Trigger::Level);
    apic.acknowledge();
    assert_eq!(apic.eoi().eoi_broadcast, None, "suppressed");
}

// Software disable, errors.

#[test]
fn software_disable_holds_requests_and_refuses_new_ones() {
    let mut apic = enabled(0);
    let _ = apic.put(LVT_TIMER, 0x40);
    apic.edge(0x31);
    let _ = apic.put(SVR, 0xff);
    assert_eq!((apic.pending(), apic.get(LVT_TIMER)), (None, 0x1_0040));
    assert_eq!(apic.edge(0x32), Accept::Rejected);
    let at = |delivery| Ipi {
        destination: Destination::AllIncludingSelf,
        vector: 8,
        delivery,
        trigger: Trigger::Edge,
    };
    let table = [
        (Delivery::Nmi, Arrival::Nmi),
        (Delivery::Smi, Arrival::Smi),
        (Delivery::Init, Arrival::Init),
        (Delivery::StartUp, Arrival::StartUp { page: 8 }),
        (Delivery::ExtInt, Arrival::Ignored),
        (Delivery::Fixed, Arrival::Vector(Accept::Rejected)),
        (Delivery::LowestPriority, Arrival::Vector(Accept::Rejected)),
    ];
    for (delivery, want) in table {
        assert_eq!(apic.receive(&at(delivery)), want, "{delivery:?}");
    }
    assert!(apic.put(ICR_LOW, 0x40).ipi.is_some(), "it can still send");
    let _ = apic.put(SVR, 0x1ff);
    assert_eq!(apic.pending(), Some(0x31), "held, not lost");
    assert_eq!(apic.get(LVT_TIMER), 0x1_0040, "enabling unmasks nothing");
    assert_eq!(apic.receive(&at(Delivery::ExtInt)), Arrival::ExtInt);
}

#[test]
fn illegal_vectors_are_logged_by_sender_and_receiver() {
    let mut apic = enabled(0);
    assert_eq!(apic.put(ICR_LOW, 0x0f).ipi, None);
    assert_eq!(apic.errors(), 0x20);
    assert_eq!(apic.edge(0x0f), Accept::Rejected);
    assert_eq!(apic.errors(), 0x40);
    assert_eq!(apic.put(ICR_LOW, 0x400).ipi.unwrap().delivery, Delivery::Nmi);
    assert_eq!(apic.errors(), 0, "an NMI has no vector");
    assert_eq!(apic.state(), (vec![], vec![]));
    let mut apic = x2apic(0);
    assert_eq!(apic.msr_write(MSR_SELF_IPI, 0x0f, NOW).unwrap().ipi, None);
    let _ = apic.msr_write(0x828, 0, NOW).unwrap();
    assert_eq!(apic.msr_read(0x828, NOW), Ok(0x20));
}

#[test]
fn an_error_interrupts_once_until_the_status_is_written() {
    let mut apic = enabled(0);
    let _ = apic.put(LVT_ERROR, 0xfe);
    assert!(apic.put(ICR_LOW, 0x01).pending_changed);
    assert_eq!(apic.acknowledge(), 0xfe);
    let _ = apic.eoi();
    let _ = apic.put(ICR_LOW, 0x01);
    assert_eq!(apic.pending(), None);
    assert_eq!(apic.errors(), 0x20);
    let _ = apic.get(0x040);
    assert_eq!(apic.pending(), Some(0xfe), "a read of a reserved place counts");
    assert_eq!(apic.errors(), 0x80);
}

#[test]
fn an_error_vector_that_is_illegal_itself_ends() {
    let mut apic = enabled(0);
    let _ = apic.put(LVT_ERROR, 0x03);
    let _ = apic.put(ICR_LOW, 0x01);
    assert_eq!(apic.errors(), 0x60);
    assert_eq!(apic.pending(), None);
}

#[test]
fn a_part_without_lowest_priority_messages_logs_only_that() {
    let config = LocalApicConfig { can_send_lowest_priority: false, ..config(0) };
    let mut apic = LocalApic::new(config);
    for low in [0x101, 0x140] {
        assert_eq!(apic.put(ICR_LOW, low).ipi, None);
        assert_eq!(apic.errors(), 0x10);
    }
    assert!(enabled(0).put(ICR_LOW, 0x140).ipi.is_some());
}

// Sending.

#[test]
fn an_icr_write_sends_what_both_halves_say() {
    let mut apic = enabled(3);
    let _ = apic.put(ICR_HIGH, 0x0700_0000);
    let ipi = apic.put(ICR_LOW, 0x40fb).ipi.unwrap();
    assert_eq!((ipi.destination, ipi.vector), (Destination::Physical(7), 0xfb));
    assert_eq!(apic.get(ICR_LOW), 0x40fb, "delivery status reads idle");
    let to_self = apic.put(ICR_LOW, 0x4_00fb).ipi.unwrap();
    assert_eq!(to_self.destination, Destination::SelfOnly(ApicId(3)));
    let mut apic = x2apic(1000);
    let ipi = apic.msr_write(MSR_ICR, 999 << 32 | 0xfb, NOW).unwrap().ipi.unwrap();
    assert_eq!(ipi.destination, Destination::Physical(999));
    let ipi = apic.msr_write(MSR_SELF_IPI, 0xfb, NOW).unwrap().ipi.unwrap();
    assert_eq!(ipi.destination, Destination::SelfOnly(ApicId(1000)));
    assert!(apic.matches(ipi.destination));
    assert_eq!(apic.receive(&ipi), Arrival::Vector(Accept::Accepted));
}

// Destinations.

#[test]
fn shorthands_go_by_the_hardware_id() {
    let mut apic = enabled(3);
    let _ = apic.put(ID, 0x0900_0000);
    assert!(apic.matches(Destination::Physical(9)), "software renamed it");
    assert!(!apic.matches(Destination::Physical(3)));
    assert!(apic.matches(Destination::SelfOnly(ApicId(3))));
    assert!(!apic.matches(Destination::SelfOnly(ApicId(9))));
    assert!(!apic.matches(Destination::AllExcludingSelf(ApicId(3))));
    assert!(apic.matches(Destination::AllExcludingSelf(ApicId(9))));
    assert!(apic.matches(Destination::AllIncludingSelf));
}

#[test]
fn xapic_logical_destinations_go_by_ldr_and_dfr() {
    const FLAT: u64 = 0xffff_ffff;
    const CLUSTER: u64 = 0x0fff_ffff;
    let table: [(u64, u64, u8, bool); 12] = [
        (FLAT, 0x01, 0x01, true),
        (FLAT, 0x80, 0xff, true),
        (FLAT, 0x04, 0xfb, false),
        (FLAT, 0x00, 0xff, false),
        (CLUSTER, 0x21, 0x21, true),
        (CLUSTER, 0x21, 0x2e, false),
        (CLUSTER, 0x21, 0x11, false),
        (CLUSTER, 0x21, 0x2f, true),
        (CLUSTER, 0x21, 0xff, true),
        (CLUSTER, 0x21, 0xf2, false),
        (CLUSTER, 0xe8, 0xe8, true),
        (0x7fff_ffff, 0xff, 0xff, false),
    ];
    for (dfr, ldr, mda, want) in table {
        let mut apic = enabled(0);
        let _ = apic.put(DFR, dfr);
        let _ = apic.put(LDR, ldr << 24);
        let got = apic.matches(Destination::Logical(mda));
        assert_eq!(got, want, "dfr {dfr:#x} ldr {ldr:#x} mda {mda:#x}");
        assert!(!apic.matches(Destination::LogicalX2 { cluster: 0, mask: 0xffff }));
    }
}

/// Ids among `ids` that an ICR write of the first one reaches.
fn reached(ids: &[u32], icr: u64) -> Vec<u32> {
    let mut sender = x2apic(ids[0]);
    let destination = sender.msr_write(MSR_ICR, icr, NOW).unwrap().ipi.unwrap().destination;
    ids.iter().copied().filter(|&id| x2apic(id).matches(destination)).collect()
}

#[test]
fn x2apic_destinations_reach_any_number_of_cpus() {
    let (logical, nmi) = (1u64 << 11, 0x400u64);
    for cpus in [1u32, 2, 16, 17, 255, 256, 257, 384, 1024] {
        let ids: Vec<u32> = (0..cpus).collect();
        let last = cpus - 1;
        let broadcast = u64::from(u32::MAX) << 32 | nmi;
        assert_eq!(reached(&ids, broadcast), ids);
        assert_eq!(reached(&ids, broadcast | logical), ids);
        assert_eq!(reached(&ids, 3 << 18 | nmi), ids[1..]);
        assert_eq!(reached(&ids, 2 << 18 | 0x40), ids);
        assert_eq!(reached(&ids, 1 << 18 | 0x40), [0]);
        for id in [0, last / 2, last, 254, 255, 256, 257] {
            let alone: Vec<u32> = ids.iter().copied().filter(|&other| other == id).collect();
            assert_eq!(reached(&ids, u64::from(id) << 32 | nmi), alone, "{cpus} cpus");
            let one = u64::from((id >> 4) << 16 | 1 << (id & 15)) << 32;
            assert_eq!(reached(&ids, one | logical | nmi), alone, "{cpus} cpus");
            let members = u64::from((id >> 4) << 16 | 0xffff) << 32;
            let cluster: Vec<u32> = ids.iter().copied().filter(|i| i >> 4 == id >> 4).collect();
            assert_eq!(reached(&ids, members | logical | nmi), cluster, "{cpus} cpus");
        }
    }
}

#[test]
fn ids_with_holes_keep_their_clusters() {
    // Twelve complexes in four bits: ids jump from 0xb. to 0x10. and on.
    let ids: Vec<u32> = (0..4).flat_map(|p| (0..12).map(move |c| p << 8 | c << 4 | 3)).collect();
    let icr = u64::from(0x1b << 16 | 1u32 << 3) << 32 | 1 << 11 | 0x40;
    assert_eq!(reached(&ids, icr), [0x1b3]);
}

#[test]
fn an_xapic_id_of_255_is_a_broadcast_and_an_x2apic_id_of_255_is_not() {
    let mut xapic = enabled(1);
    let _ = xapic.put(ICR_HIGH, 0xff00_0000);
    let all = xapic.put(ICR_LOW, 0x40).ipi.unwrap().destination;
    assert!(enabled(2).matches(all) && xapic.matches(all));
    let ids = [254, 255, 256, 511];
    assert_eq!(reached(&ids, 255 << 32 | 0x40), [255]);
}

// Modes and reset.

#[test]
fn a_mode_exists_on_its_way_in_only() {
    let mut apic = enabled(0x105);
    assert_eq!((apic.id(), apic.get(ID)), (5, 0x0500_0000), "the low eight bits");
    assert!(apic.msr_read(0x802, NOW).is_err());
    assert!(apic.base(X2APIC).unwrap().base_changed);
    assert_eq!((apic.id(), apic.msr_read(0x802, NOW)), (0x105, Ok(0x105)));
    assert_eq!(apic.mmio_read(ID, 4, NOW), None);
    assert_eq!(apic.msr_read(0x80d, NOW), Ok(0x10_0020));
    assert_eq!(apic.base(XAPIC), Err(ApicFault::GeneralProtection));
    let _ = apic.base(DISABLED).unwrap();
    assert!(apic.msr_read(0x802, NOW).is_err());
    assert_eq!(apic.mmio_read(ID, 4, NOW), None);
    assert_eq!(apic.base(X2APIC), Err(ApicFault::GeneralProtection));
    let _ = apic.base(XAPIC | 0x1_0000).unwrap();
    assert_eq!(apic.page_address(), PhysAddr(0xfee1_0000));
}

#[test]
fn entering_x2apic_mode_keeps_interrupts_and_drops_what_has_another_source() {
    let mut apic = enabled(3);
    let _ = apic.put(ID, 0x0900_0000);
    let _ = apic.put(TPR, 0x20);
    let _ = apic.put(ICR_HIGH, 0x0700_0000);
    let _ = apic.put(ICR_LOW, 0xfb);
    apic.edge(0x31);
    apic.acknowledge();
    apic.edge(0x41);
    let _ = apic.base(X2APIC).unwrap();
    assert_eq!(apic.state(), (vec![0x41], vec![0x31]));
    assert_eq!(apic.msr_read(0x808, NOW), Ok(0x20));
    assert_eq!(apic.msr_read(0x80f, NOW), Ok(0x1ff));
    assert_eq!(apic.msr_read(MSR_ICR, NOW), Ok(0xfb));
    assert_eq!(apic.id(), 3);
}

#[test]
fn disabling_resets_and_stops_everything() {
    let mut apic = enabled(3);
    let _ = apic.put(ID, 0x0900_0000);
    let _ = apic.put(INITIAL_COUNT, 5);
    apic.edge(0x31);
    let _ = apic.base(DISABLED).unwrap();
    assert_eq!((apic.pending(), apic.next_expiry()), (None, None));
    assert_eq!(apic.edge(0x31), Accept::Rejected);
    assert!(!apic.matches(Destination::AllIncludingSelf));
    assert_eq!(apic.raise(LvtEntry::Lint1), Arrival::Ignored);
    let _ = apic.base(XAPIC).unwrap();
    let mut fresh = LocalApic::new(config(3));
    assert_eq!(apic, fresh);
    let _ = fresh.put(SVR, 0x1ff);
    assert_eq!(fresh.pending(), None);
}

#[test]
fn init_resets_all_but_id_and_mode() {
    let mut apic = enabled(3);
    let _ = apic.put(ID, 0x0900_0000);
    let _ = apic.put(LVT_LINT1, 0x400);
    let _ = apic.put(INITIAL_COUNT, 5);
    apic.edge(0x31);
    let _ = apic.set_cr8(7).unwrap();
    apic.init();
    let mut want = LocalApic::new(config(3));
    let _ = want.put(ID, 0x0900_0000);
    assert_eq!(apic, want);
    let mut apic = x2apic(300);
    apic.edge(0x31);
    apic.init();
    assert_eq!((apic.mode(), apic.id()), (Mode::X2Apic, 300), "x2APIC mode outlives INIT");
    assert_eq!((apic.state(), apic.cr8()), ((vec![], vec![]), 0));
    assert!(apic.matches(Destination::Physical(300)), "the start-up message finds it");
}

// Local sources.

#[test]
fn the_timer_fires_through_its_entry() {
    let mut apic = enabled(0);
    let _ = apic.put(DIVIDE_CONFIG, 0xb);
    let _ = apic.put(LVT_TIMER, 0x2_00ec);
    assert!(apic.put(INITIAL_COUNT, 10).timer_changed);
    let (first, second) = (SimTime::from_ns(100), SimTime::from_ns(200));
    assert_eq!(apic.next_expiry(), Some(first));
    assert_eq!(apic.expire(SimTime::from_ns(99)), None);
    assert_eq!(apic.expire(first), Some(Accept::Accepted));
    assert_eq!(apic.expire(second), Some(Accept::Merged), "the CPU was busy for a period");
    let _ = apic.put(LVT_TIMER, 0x3_00ec);
    assert_eq!(apic.expire(SimTime::from_ns(300)), None, "masked: lost");
    assert_eq!(apic.next_expiry(), Some(SimTime::from_ns(400)), "but it counts on");
    assert_eq!(apic.state(), (vec![0xec], vec![]));
}

#[test]
fn the_deadline_msr_exists_with_its_feature_only() {
    const DEADLINE: u32 = 0x6e0;
    let without = LocalApicConfig { has_tsc_deadline: false, ..config(0) };
    let mut apic = LocalApic::new(without);
    assert!(apic.msr_read(DEADLINE, NOW).is_err() && apic.msr_write(DEADLINE, 1, NOW).is_err());
    let _ = apic.put(SVR, 0x1ff);
    let _ = apic.put(LVT_TIMER, 0x4_00ec);
    assert_eq!(apic.get(LVT_TIMER), 0xec, "its mode bit is reserved");
    let mut apic = enabled(0);
    let _ = apic.msr_write(DEADLINE, 2_450, NOW).unwrap();
    assert_eq!(apic.msr_read(DEADLINE, NOW), Ok(0), "ignored in one-shot mode");
    let _ = apic.put(LVT_TIMER, 0x4_00ec);
    assert!(apic.msr_write(DEADLINE, 2_450, NOW).unwrap().timer_changed);
    assert_eq!(apic.next_expiry(), Some(SimTime::from_us(1)));
    assert_eq!(apic.expire(SimTime::from_us(1)), Some(Accept::Accepted));
    assert_eq!(apic.msr_read(DEADLINE, NOW), Ok(0));
    assert!(LocalApic::has_msr(DEADLINE) && !LocalApic::has_msr(0x900));
}

#[test]
fn the_reserved_timer_mode_faults_in_x2apic_mode_and_never_runs_in_xapic_mode() {
    let mut apic = enabled(0);
    let _ = apic.put(LVT_TIMER, 0x6_00ec);
    let _ = apic.put(INITIAL_COUNT, 10);
    assert_eq!(apic.next_expiry(), None);
    let mut apic = x2apic(0);
    assert_eq!(apic.msr_write(0x832, 0x6_00ec, NOW), Err(ApicFault::GeneralProtection));
}

#[test]
fn pins_and_counters_fire_as_their_entries_say() {
    let mut apic = enabled(0);
    assert_eq!(apic.raise(LvtEntry::Lint0), Arrival::Ignored, "masked after reset");
    let _ = apic.put(LVT_LINT0, 0x700);
    let _ = apic.put(LVT_LINT1, 0x400);
    assert_eq!(apic.raise(LvtEntry::Lint0), Arrival::ExtInt);
    assert_eq!(apic.raise(LvtEntry::Lint1), Arrival::Nmi);
    let _ = apic.put(LVT_PERFORMANCE, 0x400);
    assert_eq!(apic.raise(LvtEntry::Performance), Arrival::Nmi);
    assert_eq!(apic.get(LVT_PERFORMANCE), 0x1_0400, "the counter masks itself");
    assert_eq!(apic.raise(LvtEntry::Performance), Arrival::Ignored);
}

#[test]
fn a_level_pin_waits_for_its_eoi() {
    let mut apic = enabled(0);
    let _ = apic.put(LVT_LINT0, 0x8050);
    assert_eq!(apic.raise(LvtEntry::Lint0), Arrival::Vector(Accept::Accepted));
    assert_eq!(apic.raise(LvtEntry::Lint0), Arrival::Vector(Accept::Merged));
    assert_eq!(apic.get(LVT_LINT0), 0xc050, "remote IRR");
    assert_eq!(apic.acknowledge(), 0x50);
    let _ = apic.eoi();
    assert_eq!(apic.get(LVT_LINT0), 0x8050);
    assert_eq!(apic.raise(LvtEntry::Lint0), Arrival::Vector(Accept::Accepted));
}
