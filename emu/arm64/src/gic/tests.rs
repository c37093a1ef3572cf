//! Priorities, preemption, the life of an interrupt, register frames.

use super::*;

const CONFIG: GicConfig = GicConfig { affinity: 0x0001_0203, number: 5, is_last: true };

/// A GIC that takes all: awake, group 1 enabled, mask open.
fn gic() -> LocalGic {
    let mut gic = LocalGic::new(CONFIG);
    gic.redistributor.write(0x14, 4, 0);
    gic.redistributor.write(0x1_0080, 4, 0xffff_ffff);
    gic.redistributor.write(0x1_0100, 4, 0xffff_ffff);
    gic.write(IccReg::Igrpen(1), 1);
    gic.write(IccReg::Pmr, 0xff);
    gic
}

fn set_priority(gic: &mut LocalGic, intid: u64, priority: u64) {
    gic.redistributor.write(0x1_0400 + intid, 1, priority);
}

fn intid(gic: &LocalGic) -> Option<u32> {
    gic.pending().map(|p| p.intid)
}

#[test]
fn every_mask_holds_an_interrupt_back() {
    let masks: [fn(&mut LocalGic); 6] = [
        |gic| gic.redistributor.write(0x14, 4, 2),
        |gic| gic.redistributor.write(0x1_0180, 4, 1 << 3),
        |gic| gic.write(IccReg::Igrpen(1), 0),
        |gic| gic.write(IccReg::Pmr, 0x80),
        |gic| gic.redistributor.write(0x1_0080, 4, 0),
        |gic| gic.redistributor.write(0x1_0280, 4, 1 << 3),
    ];
    for (n, mask) in masks.into_iter().enumerate() {
        let mut gic = gic();
        set_priority(&mut gic, 3, 0x80);
        assert!(gic.redistributor.set_pending(3));
        assert!(!gic.redistributor.set_pending(3), "merged");
        assert_eq!(intid(&gic), Some(3));
        mask(&mut gic);
        assert_eq!(intid(&gic), None, "mask {n}");
    }
}

#[test]
fn a_redistributor_that_sleeps_forwards_no_shared_interrupt() {
    let mut gic = gic();
    gic.forward(Pending { intid: 40, group: 1, priority: 0x80 });
    gic.redistributor.write(0x14, 4, 2);
    assert_eq!((intid(&gic), gic.acknowledge(1)), (None, INTID_NONE));
    assert!(gic.wake_request());
    gic.redistributor.write(0x14, 4, 0);
    assert_eq!(gic.acknowledge(1), 40);
}

#[test]
fn the_highest_priority_wins_then_the_lower_number() {
    let mut gic = gic();
    for (intid, priority) in [(2, 0xa0), (7, 0x90), (9, 0x90)] {
        set_priority(&mut gic, intid, priority);
        gic.redistributor.set_pending(intid as u8);
    }
    assert_eq!(gic.read(IccReg::Hppir(1)), 7);
    gic.forward(Pending { intid: 40, group: 1, priority: 0x88 });
    let taken: Vec<u32> = (0..5)
        .map(|_| {
            let intid = gic.acknowledge(1);
            gic.end(IccReg::Eoir(1), intid);
            intid
        })
        .collect();
    assert_eq!(taken, [40, 7, 9, 2, INTID_NONE]);
}

#[test]
fn preemption_follows_the_binary_point() {
    // Running priority, new priority, BPR1: preempts.
    let table = [
        (0xa0, 0x98, 3, true),
        (0xa0, 0xa0, 3, false),
        (0xa0, 0xa8, 3, false),
        (0xa8, 0xa0, 3, true),
        (0xa8, 0xa0, 4, false),
        (0xa8, 0x90, 4, true),
        (0xf0, 0x80, 7, false),
        (0xf0, 0x78, 7, true),
    ];
    for (running, new, bpr, preempts) in table {
        let mut gic = gic();
        gic.write(IccReg::Bpr(1), bpr);
        set_priority(&mut gic, 20, running);
        set_priority(&mut gic, 21, new);
        gic.redistributor.set_pending(20);
        assert_eq!(gic.acknowledge(1), 20);
        gic.redistributor.set_pending(21);
        assert_eq!(intid(&gic).is_some(), preempts, "{running:#x} {new:#x} {bpr}");
    }
}

#[test]
fn running_priorities_nest_and_drop() {
    let mut gic = gic();
    assert_eq!(gic.read(IccReg::Rpr), 0xff);
    for (intid, priority) in [(1, 0xa0), (2, 0x80)] {
        set_priority(&mut gic, intid, priority);
        gic.redistributor.set_pending(intid as u8);
        assert_eq!(gic.acknowledge(1), intid as u32);
        assert_eq!(gic.read(IccReg::Rpr), priority);
    }
    assert_eq!(gic.redistributor.active(), 0b110);
    gic.end(IccReg::Eoir(1), 2);
    assert_eq!((gic.read(IccReg::Rpr), gic.redistributor.active()), (0xa0, 0b010));
    gic.end(IccReg::Eoir(1), 1023);
    assert_eq!(gic.read(IccReg::Rpr), 0xa0, "special numbers end nothing");
    gic.end(IccReg::Eoir(1), 1);
    assert_eq!((gic.read(IccReg::Rpr), gic.redistributor.active()), (0xff, 0));
}

#[test]
fn split_end_drops_first_and_deactivates_later() {
    let mut gic = gic();
    gic.write(IccReg::Ctlr, 2);
    gic.redistributor.set_pending(4);
    assert_eq!(gic.acknowledge(1), 4);
    gic.redistributor.set_pending(4);
    gic.end(IccReg::Eoir(1), 4);
    assert_eq!(gic.read(IccReg::Rpr), 0xff);
    assert_eq!(intid(&gic), None, "active and pending");
    gic.end(IccReg::Dir, 4);
    assert_eq!(intid(&gic), Some(4));
}

#[test]
fn a_level_stays_pending_and_an_edge_does_not() {
    let mut gic = gic();
    gic.redistributor.set_line(27, true);
    assert_eq!(gic.acknowledge(1), 27);
    gic.end(IccReg::Eoir(1), 27);
    assert_eq!(intid(&gic), Some(27), "the line is still up");
    gic.redistributor.set_line(27, false);
    assert_eq!(intid(&gic), None);
    gic.redistributor.write(0x1_0c04, 4, 2 << (2 * 11));
    gic.redistributor.set_line(27, true);
    assert_eq!(gic.acknowledge(1), 27);
    gic.end(IccReg::Eoir(1), 27);
    assert_eq!(intid(&gic), None, "no second edge");
}

#[test]
fn groups_are_acknowledged_by_their_own_register() {
    let mut gic = gic();
    gic.write(IccReg::Igrpen(0), 1);
    gic.redistributor.write(0x1_0080, 4, !(1 << 6));
    gic.redistributor.set_pending(6);
    assert_eq!(gic.pending().map(|p| p.group), Some(0));
    assert_eq!(gic.acknowledge(1), INTID_NONE);
    assert_eq!(gic.acknowledge(0), 6);
    gic.end(IccReg::Eoir(0), 6);
    assert_eq!(gic.read(IccReg::Rpr), 0xff);
}

#[test]
fn sgi_targets_decode() {
    let list = |cluster, first, list| SgiTarget::List { cluster, first, list };
    let table = [
        (1u64 << 40 | 7 << 24, SgiTarget::AllButSelf, 7),
        (0x0001, list(0, 0, 1), 0),
        (3 << 16 | 15 << 24 | 0x8001, list(0x300, 0, 0x8001), 15),
        (2 << 44 | 4 << 32 | 5 << 48 | 1 << 24 | 6, list(0x0504_0000, 32, 6), 1),
    ];
    for (value, target, intid) in table {
        assert_eq!(SgiTarget::from_register(value), (target, intid), "{value:#x}");
    }
}

/// Whom a write of ICC_SGI1R_EL1 addresses, read from the manual's field table, one field a line,
/// and without the decoder: affinity 3.2.1.0 of each of its bytes.
///
/// Source: \[GICv3\] ICC_SGI1R_EL1, "Field descriptions".
fn is_addressed(value: u64, affinity: [u8; 4], is_sender: bool) -> bool {
    let bits = |high: u32, low: u32| value << (63 - high) >> (63 - high + low);
    if bits(40, 40) == 1 {
        return !is_sender;
    }
    let [aff3, aff2, aff1, aff0] = affinity.map(u64::from);
    let is_cluster = (aff3, aff2, aff1) == (bits(55, 48), bits(39, 32), bits(23, 16));
    is_cluster && aff0 / 16 == bits(47, 44) && bits(15, 0) / (1 << (aff0 % 16)) % 2 == 1
}

/// The same by the decoder, as the sender and each receiver use it.
fn is_reached(value: u64, affinity: u32, is_sender: bool) -> bool {
    let target = SgiTarget::from_register(value).0;
    match target.only() {
        _ if target == SgiTarget::AllButSelf => !is_sender,
        Some(only) => only == affinity,
        None => target.contains(affinity),
    }
}

/// The cpus of one value of Aff3.Aff2.Aff1 that a write reaches, as sixteen bits for each sixteen
/// values of Aff0.
fn reached(value: u64, cluster: u32) -> [u16; 16] {
    let target = SgiTarget::from_register(value).0;
    let only = target.only();
    let mut sets = [0; 16];
    for aff0 in 0..256_u32 {
        let affinity = cluster << 8 | aff0;
        if only.map_or_else(|| target.contains(affinity), |only| only == affinity) {
            sets[aff0 as usize / 16] |= 1 << (aff0 % 16);
        }
    }
    sets
}

/// The oracle is a bit copied: the list stands for the cpus of one cluster and one range.
#[test]
fn every_mask_of_24_clusters_of_16_reaches_whom_the_manual_says() {
    for cluster in 0..24_u64 {
        for list in 0..=u16::MAX {
            let value = cluster << 16 | 9 << 24 | u64::from(list);
            let (target, intid) = SgiTarget::from_register(value);
            assert_eq!(intid, 9);
            let only = target.only();
            for aff1 in 0..24_u32 {
                let is_in = |core: &u32| {
                    let affinity = aff1 << 8 | core;
                    only.map_or_else(|| target.contains(affinity), |only| only == affinity)
                };
                let mask = (0..16).filter(is_in).fold(0, |mask, core| mask | 1_u16 << core);
                assert_eq!(mask, if u64::from(aff1) == cluster { list } else { 0 }, "{value:#x}");
            }
        }
    }
}

#[test]
fn every_mask_of_every_range_reaches_whom_the_manual_says() {
    // Affinities with holes: 7.6.5 and its neighbours in each field.
    let clusters = [0x07_0605_u32, 0x07_0604, 0x07_0705, 0x06_0605];
    for range in 0..16 {
        for list in 0..=u16::MAX {
            let value = 7 << 48 | range << 44 | 6 << 32 | 5 << 16 | u64::from(list);
            let mut wanted = [0; 16];
            wanted[range as usize] = list;
            assert_eq!(reached(value, clusters[0]), wanted, "{value:#x}");
            // Strangers are the slow part, and a few lists say whether the cluster counts.
            if list % 251 == 0 || list.is_power_of_two() {
                for stranger in &clusters[1..] {
                    assert_eq!(reached(value, *stranger), [0; 16], "{value:#x} {stranger:#x}");
                }
            }
        }
    }
}

#[test]
fn every_field_of_an_sgi_counts() {
    let affinities = [0, 1, 15, 16, 31, 255].map(|aff0| [0, 0, 0, aff0]);
    let others = [[0, 0, 1, 0], [0, 1, 0, 1], [1, 0, 0, 15], [5, 4, 3, 33], [255, 255, 255, 255]];
    let affinities: Vec<[u8; 4]> = affinities.into_iter().chain(others).collect();
    let lists = [0, 1, 2, 0x8000, 0x8001, 0xffff];
    for &[aff3, aff2, aff1, aff0] in &affinities {
        for range in [u64::from(aff0 / 16), 0, 1, 15] {
            for list in lists {
                for irm in [0, 1] {
                    let [a3, a2, a1] = [aff3, aff2, aff1].map(u64::from);
                    let value = a3 << 48 | range << 44 | irm << 40 | a2 << 32 | a1 << 16 | list;
                    for receiver in &affinities {
                        for is_sender in [false, true] {
                            let packed = u32::from_be_bytes(*receiver);
                            assert_eq!(
                                is_reached(value, packed, is_sender),
                                is_addressed(value, *receiver, is_sender),
                                "{value:#x} {packed:#x}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn frames_read_what_they_hold() {
    let mut gic = gic();
    let redist = &mut gic.redistributor;
    redist.write(0x1_0400, 4, 0xffa0_7f08);
    redist.set_pending(9);
    let table = [
        (0x08, 8, 0x0001_0203_0000_0510),
        (0x0c, 4, 0x0001_0203),
        (0x14, 4, 0),
        (0xffe8, 4, 0x3b),
        (0x1_0080, 4, 0xffff_ffff),
        (0x1_0180, 4, 0xffff_ffff),
        (0x1_0200, 4, 1 << 9),
        (0x1_0400, 4, 0xf8a0_7808),
        (0x1_0402, 1, 0xa0),
        (0x1_0c00, 4, 0xaaaa_aaaa),
        (0x1_0c04, 4, 0),
        (0x1_9000, 4, 0),
    ];
    for (offset, size, value) in table {
        assert_eq!(redist.read(offset, size), value, "{offset:#x}");
    }
}

#[test]
fn registers_keep_what_is_implemented() {
    let mut gic = gic();
    let table = [
        (IccReg::Pmr, 0xff, 0xf8),
        (IccReg::Bpr(0), 0, 2),
        (IccReg::Bpr(1), 0, 3),
        (IccReg::Bpr(1), 5, 5),
        (IccReg::Ctlr, 0xff, 0x4_8403),
        (IccReg::Bpr(1), 6, 3),
        (IccReg::Sre, 0, 7),
        (IccReg::Igrpen(1), 0, 0),
    ];
    for (reg, written, read) in table {
        gic.write(reg, written);
        assert_eq!(gic.read(reg), read, "{reg:?}");
    }
}
