/* Starts all CPUs by PSCI, lets each take SGIs, see stores and lose translations, prints, exits.
 *
 * Question: do CPU_ON, SGIs (to one, to all others, by lists), stores that every CPU reads, TLBI for
 * all, atomics and both consoles work on 1 to 1024 CPUs? It takes nothing from the FDT: the
 * redistributors say which CPUs there are, and with -DGICV2 the firmware does.
 * A region begins when all are up.
 * Exit: 0 = every CPU answered, 1 = wrong counts, 2 = an exception, 3 = wrong device, 4 = PSCI. */
#include "arm64.h"

#define CPUS_MAX 1024
#define STACK_BYTES 4096
#define ROUNDS 4
#define SGI_ONE 1
#define SGI_ALL 5
#define SGI_MAP 9
#define SGI_READ 15
#define CPU_ON 0xc4000003ull
#define AFFINITY_INFO 0xc4000004ull
#define ALREADY_ON (-4ull)
#define NOBODY (-2ull)

/* 1 GiB blocks, devices in the first two, memory behind; in the last one a page of its own. */
static u64 table[512] __attribute__((aligned(4096)));
static u64 window_l2[512] __attribute__((aligned(4096)));
static u64 window_l3[512] __attribute__((aligned(4096)));
static u64 pages[2][512] __attribute__((aligned(4096)));
#define WINDOW (511ull << 30)
static u8 stacks[CPUS_MAX][STACK_BYTES] __attribute__((aligned(16), used));
static u64 affinities[CPUS_MAX];
static u32 took_one[CPUS_MAX];
static u32 ready, ones, alls, reads, maps, wrong;

/* Lines of their own: what is read, and whether it may be. */
static struct {
    u32 value __attribute__((aligned(64)));
    u32 round __attribute__((aligned(64)));
    u32 end __attribute__((aligned(64)));
} shared;

__attribute__((noreturn, used)) void run(void);
__attribute__((noreturn, used)) void ap_main(u32 index);
__attribute__((noreturn, used)) void on_exception(void);
__attribute__((used)) void on_irq(void);
extern const u8 ap_start[], vectors[];

/* CPU 0 has a stack; the others come with their index in x0, and make theirs of it. */
__asm__(".pushsection .text.start, \"ax\"\n"
        ".globl start, ap_start, vectors\n"
        ".type start, @function\n"
        "start:\n"
        "    bl run\n"
        "    brk #0\n"
        ".size start, . - start\n"
        "ap_start:\n"
        "    adrp x1, stacks\n"
        "    add x1, x1, :lo12:stacks\n"
        "    add x2, x0, #1\n"
        "    add x1, x1, x2, lsl #12\n"
        "    mov sp, x1\n"
        "    bl ap_main\n"
        "    brk #0\n"
        ".balign 2048\n"
        "vectors:\n"
        ".set vector, 0\n"
        ".rept 16\n"
        ".balign 128\n"
        ".if vector == 5\n"
        "    b irq_entry\n"
        ".else\n"
        "    bl on_exception\n"
        ".endif\n"
        ".set vector, vector + 1\n"
        ".endr\n"
        ".balign 128\n"
        "irq_entry:\n"
        "    stp x0, x1, [sp, #-160]!\n    stp x2, x3, [sp, #16]\n"
        "    stp x4, x5, [sp, #32]\n    stp x6, x7, [sp, #48]\n"
        "    stp x8, x9, [sp, #64]\n    stp x10, x11, [sp, #80]\n"
        "    stp x12, x13, [sp, #96]\n    stp x14, x15, [sp, #112]\n"
        "    stp x16, x17, [sp, #128]\n    stp x18, x30, [sp, #144]\n"
        "    bl on_irq\n"
        "    ldp x18, x30, [sp, #144]\n    ldp x16, x17, [sp, #128]\n"
        "    ldp x14, x15, [sp, #112]\n    ldp x12, x13, [sp, #96]\n"
        "    ldp x10, x11, [sp, #80]\n    ldp x8, x9, [sp, #64]\n"
        "    ldp x6, x7, [sp, #48]\n    ldp x4, x5, [sp, #32]\n"
        "    ldp x2, x3, [sp, #16]\n    ldp x0, x1, [sp], #160\n"
        "    eret\n"
        ".popsection\n");

static void enable_mmu(void) {
    WRITE_SYSREG("vbar_el1", vectors);
    WRITE_SYSREG("mair_el1", 0xff04);
    WRITE_SYSREG("tcr_el1", 25 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23 |
                                (READ_SYSREG("id_aa64mmfr0_el1") & 7) << 32);
    WRITE_SYSREG("ttbr0_el1", table);
    DSB();
    ISB();
    WRITE_SYSREG("sctlr_el1", 0x30d0180d);
    ISB();
}

static u64 my_affinity(void) { return READ_SYSREG("mpidr_el1") & 0xff00ffffff; }

#ifdef GICV2
#define GICC (GICD + 0x10000)

/* CPUs of two clusters at most, in the order of their numbers. */
static void find_cpus(u32 cpus) {
    u32 found = 0;
    for (u64 at = 0; at < 0x200 && found < cpus; at += (at & 0xff) < 7 ? 1 : 0xf9)
        if (firmware(AFFINITY_INFO, at, 0, 0) != NOBODY) affinities[found++] = at;
    if (found != cpus) finish(4);
}

static void enable_distributor(void) { write32(GICD, 1); }

static void enable_gic(u32 index) {
    write32(GICD + 0x100, 0xffff);
    if ((read32(GICD + 0x800) & 0xff) != 1u << index) wrong = 1;
    write32(GICC + 4, 0xf0);
    write32(GICC, 1);
}

static u32 acknowledge(void) { return read32(GICC + 0xc); }
static void end_of_interrupt(u32 iar) { write32(GICC + 0x10, iar); }

/* What the target will read must be visible first. */
static void send_to_others(u32 intid) {
    DSB();
    write32(GICD + 0xf00, 1 << 24 | intid);
}

/* To the CPUs from `first` on that one write reaches; returns the next one. */
static u32 send_to_list(u32 first, u32 end, u32 intid) {
    DSB();
    write32(GICD + 0xf00, ((1 << end) - (1 << first)) << 16 | intid);
    return end;
}
#else
static void find_cpus(u32 cpus) {
    for (u32 i = 0; i < cpus; i++) {
        u64 typer = read64(GICR + i * GICR_BYTES + 8) >> 32;
        affinities[i] = (typer & 0xff000000) << 8 | (typer & 0xffffff);
    }
}

static void enable_distributor(void) { write32(GICD, 1 << 4 | 1 << 1); }

/* Group 1, own interrupts enabled, nothing masked. */
static void enable_gic(u32 index) {
    u64 own = GICR + index * GICR_BYTES;
    write32(own + 0x14, read32(own + 0x14) & ~2u);
    while (read32(own + 0x14) & 4) pause();
    write32(own + 0x10080, 0xffffffff);
    write32(own + 0x10100, 0xffff);
    WRITE_SYSREG("S3_0_C12_C12_5", READ_SYSREG("S3_0_C12_C12_5") | 1); /* ICC_SRE_EL1 */
    ISB();
    WRITE_SYSREG("S3_0_C4_C6_0", 0xff); /* ICC_PMR_EL1 */
    WRITE_SYSREG("S3_0_C12_C12_7", 1);  /* ICC_IGRPEN1_EL1 */
    ISB();
}

static u32 acknowledge(void) { return (u32)READ_SYSREG("S3_0_C12_C12_0"); } /* ICC_IAR1_EL1 */

static void end_of_interrupt(u32 intid) {
    WRITE_SYSREG("S3_0_C12_C12_1", intid); /* ICC_EOIR1_EL1 */
    ISB();
}

/* What the target will read must be visible first. */
static void send(u64 value) {
    DSB();
    WRITE_SYSREG("S3_0_C12_C11_5", value); /* ICC_SGI1R_EL1 */
    ISB();
}

static void send_to_others(u32 intid) { send(1ull << 40 | intid << 24); }

/* Fields of the register for a CPU, but for its bit in the list. */
static u64 cluster_of(u64 affinity) {
    return (affinity >> 32 & 0xff) << 48 | (affinity >> 4 & 0xf) << 44 |
           (affinity >> 16 & 0xff) << 32 | (affinity >> 8 & 0xff) << 16;
}

/* To the CPUs from `first` on that one write reaches; returns the next one. */
static u32 send_to_list(u32 first, u32 end, u32 intid) {
    u64 cluster = cluster_of(affinities[first]), bits = 0;
    u32 i = first;
    for (; i < end && cluster_of(affinities[i]) == cluster; i++) bits |= 1 << (affinities[i] & 0xf);
    send(cluster | intid << 24 | bits);
    return i;
}
#endif

/* The stack says who runs: CPU 0 has the one it came with. */
static u32 my_index(void) {
    u64 offset = (u64)__builtin_frame_address(0) - (u64)stacks;
    return offset < sizeof stacks ? (u32)(offset / STACK_BYTES) : 0;
}

/* Every store of the writer must reach every reader, the value before its round. */
static void on_read(void) {
    for (u32 round = 1; round <= ROUNDS; round++) {
        while (__atomic_load_n(&shared.round, __ATOMIC_ACQUIRE) != round) pause();
        if (__atomic_load_n(&shared.value, __ATOMIC_RELAXED) != 77 * round) wrong = 1;
        __atomic_fetch_add(&reads, 1, __ATOMIC_SEQ_CST);
    }
}

void on_irq(void) {
    u32 iar = acknowledge(), intid = iar & 0x3ff;
    DSB();
    if (intid == SGI_ONE) {
        u32 index = my_index();
        if (affinities[index] == my_affinity()) took_one[index]++;
        __atomic_fetch_add(&ones, 1, __ATOMIC_SEQ_CST);
    } else if (intid == SGI_ALL) {
        __atomic_fetch_add(&alls, 1, __ATOMIC_SEQ_CST);
    } else if (intid == SGI_MAP) {
        if (read64(WINDOW) != shared.value) wrong = 1;
        __atomic_fetch_add(&maps, 1, __ATOMIC_SEQ_CST);
    } else if (intid == SGI_READ) {
        on_read();
    } else {
        wrong = 1;
        return;
    }
    end_of_interrupt(iar);
}

void on_exception(void) {
    console("exception\n");
    finish(2);
}

void ap_main(u32 index) {
    enable_mmu();
    enable_gic(index);
    if (affinities[index] != my_affinity()) wrong = 1;
    __atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
    __asm__ volatile("msr daifclr, #2" ::: "memory");
    for (;;) __asm__ volatile("wfi" ::: "memory");
}

static void wait_for(u32 *count, u32 value) {
    while (__atomic_load_n(count, __ATOMIC_SEQ_CST) != value) pause();
}

/* Each CPU by itself, this one too, then all others, then all by lists. */
static void send_sgis(u32 cpus) {
    for (u32 i = 0; i < cpus; i++) send_to_list(i, i + 1, SGI_ONE);
    wait_for(&ones, cpus);
    send_to_others(SGI_ALL);
    wait_for(&alls, cpus - 1);
    for (u32 i = 0; i < cpus;) i = send_to_list(i, cpus, SGI_ALL);
    wait_for(&alls, 2 * cpus - 1);
}

/* One writer, all others readers, in rounds. */
static void store_for_all(u32 cpus) {
    send_to_others(SGI_READ);
    for (u32 round = 1; round <= ROUNDS; round++) {
        __atomic_store_n(&shared.value, 77 * round, __ATOMIC_RELAXED);
        __atomic_store_n(&shared.round, round, __ATOMIC_RELEASE);
        wait_for(&reads, round * (cpus - 1));
    }
}

/* Every CPU reads through a translation that is then another one. */
static void map_for_all(u32 cpus) {
    for (u32 round = 1; round <= ROUNDS; round++) {
        u64 *page = pages[round % 2];
        window_l3[0] = 0;
        DSB();
        __asm__ volatile("tlbi vae1is, %0" ::"r"(WINDOW >> 12) : "memory");
        DSB();
        page[0] = shared.value = 1000 + round;
        window_l3[0] = (u64)page | 3 << 8 | 1 << 10 | 1 << 2 | 3;
        DSB();
        ISB();
        send_to_others(SGI_MAP);
        wait_for(&maps, round * (cpus - 1));
        if (read64(WINDOW) != 1000 + round) wrong = 1;
    }
}

static int has_all_answered(u32 cpus) {
    for (u32 i = 0; i < cpus; i++)
        if (took_one[i] != 1) return 0;
    return !wrong && ones == cpus && alls == 2 * cpus - 1;
}

void run(void) {
    for (u64 gib = 0; gib < 512; gib++)
        table[gib] = gib << 30 | 1 << 10 | 1 | (gib < 2 ? 3ull << 53 : 3 << 8 | 1 << 2);
    table[511] = (u64)window_l2 | 3;
    window_l2[0] = (u64)window_l3 | 3;
    enable_mmu();
    u32 cpus = (u32)test_read(TEST_CPUS);
    if (test_read(TEST_ID) >> 32 != 0x5843414c || cpus == 0 || cpus > CPUS_MAX) finish(3);
    enable_distributor();
    find_cpus(cpus);
    enable_gic(0);
    if (affinities[0] != my_affinity()) wrong = 1;
    DSB();
    for (u32 i = 1; i < cpus; i++)
        if (firmware(CPU_ON, affinities[i], (u64)ap_start, i) != 0) finish(4);
    if (firmware(CPU_ON, affinities[0], (u64)ap_start, 0) != ALREADY_ON) finish(4);
    wait_for(&ready, cpus - 1);
    test_write(REGION_BEGIN, 1);
    __asm__ volatile("msr daifclr, #2" ::: "memory");
    send_sgis(cpus);
    store_for_all(cpus);
    map_for_all(cpus);

    print("smp: ");
    print_number(cpus);
    print(" cpus, ");
    print_number(ones);
    print(" answered\n");
    int ok = has_all_answered(cpus);
    console(ok ? "smp: passed\n" : "smp: failed\n");
    finish(ok ? 0 : 1);
}
