/* User-level waits: TPAUSE and UMWAIT until a deadline, UMWAIT after the line was written.
 * Expected: exit code 0 with WAITPKG; without it "no waitpkg" and exit code 9. */
#include "guest.h"

static volatile u64 line[8] __attribute__((aligned(64)));

#define MSR_UMWAIT_CONTROL 0xe1
/* State: bit 0 set asks for C0.1, the one that every machine grants. */
#define C0_1 1u

static int tpause(u32 state, u64 deadline) {
    u8 limited;
    __asm__ volatile("tpause %1\n\tsetc %0"
                     : "=r"(limited)
                     : "r"(state), "a"((u32)deadline), "d"((u32)(deadline >> 32))
                     : "memory", "cc");
    return limited;
}

static int umwait(u32 state, u64 deadline) {
    u8 limited;
    __asm__ volatile("umwait %1\n\tsetc %0"
                     : "=r"(limited)
                     : "r"(state), "a"((u32)deadline), "d"((u32)(deadline >> 32))
                     : "memory", "cc");
    return limited;
}

static void umonitor(const volatile void *at) {
    __asm__ volatile("umonitor %0" ::"r"(at) : "memory");
}

void run(void) {
    u32 out[4];
    cpuid(7, 0, out);
    if (!(out[2] & 1u << 5)) {
        console("no waitpkg\n");
        finish(9);
    }
    wrmsr(MSR_UMWAIT_CONTROL, 0); /* no time limit of the system */

    u64 deadline = rdtsc() + 20000;
    if (tpause(C0_1, deadline)) finish(2);
    if (rdtsc() < deadline) finish(3);

    deadline = rdtsc() + 20000;
    umonitor(line);
    if (umwait(C0_1, deadline)) finish(4);
    if (rdtsc() < deadline) finish(5);

    /* Without an armed monitor UMWAIT falls through at once. */
    u64 before = rdtsc();
    umwait(C0_1, before + 100000000);
    if (rdtsc() - before > 50000) finish(6);

    /* The system's limit ends a wait early and says so by the carry flag. */
    wrmsr(MSR_UMWAIT_CONTROL, 10000);
    if (!tpause(C0_1, rdtsc() + 100000000)) finish(7);
    finish(0);
}
