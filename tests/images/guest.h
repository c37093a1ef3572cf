/* What the test guests need of the guest contract (docs/guest-abi.md), and nothing else.
 * Freestanding C for x86-64: no part of this project builds or links these programs. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define TEST_DEVICE 0xfed80000ull
#define TEST_ID 0x00
#define TEST_CPUS 0x08
#define TEST_CONSOLE 0x10
#define TEST_EXIT 0x18
#define COM1 0x3f8

static inline u64 test_read(u64 reg) { return *(volatile u64 *)(TEST_DEVICE + reg); }

static inline void test_write(u64 reg, u64 value) {
    *(volatile u64 *)(TEST_DEVICE + reg) = value;
}

static inline void outb(u16 port, u8 value) {
    __asm__ volatile("outb %0, %1" ::"a"(value), "Nd"(port));
}

static inline u8 inb(u16 port) {
    u8 value;
    __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
    return value;
}

static inline u64 rdmsr(u32 msr) {
    u32 low, high;
    __asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr));
    return (u64)high << 32 | low;
}

static inline void wrmsr(u32 msr, u64 value) {
    __asm__ volatile("wrmsr" ::"c"(msr), "a"((u32)value), "d"((u32)(value >> 32)) : "memory");
}

static inline u64 rdtsc(void) {
    u32 low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (u64)high << 32 | low;
}

static inline void cpuid(u32 leaf, u32 subleaf, u32 out[4]) {
    __asm__ volatile("cpuid"
                     : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3])
                     : "a"(leaf), "c"(subleaf));
}

static inline void pause(void) { __asm__ volatile("pause" ::: "memory"); }

/* COM1 as real software uses it: wait for the transmitter, then write. */
static inline void serial_byte(u8 byte) {
    while (!(inb(COM1 + 5) & 0x20)) pause();
    outb(COM1, byte);
}

#include "text.h"

__attribute__((noreturn)) static inline void finish(u64 code) {
    test_write(TEST_EXIT, code);
    for (;;) __asm__ volatile("cli; hlt");
}

/* Entry: rdi = FDT, rsp = top of a stack. `run` must not return. */
__attribute__((noreturn, used)) void run(void);

__asm__(".pushsection .text.start, \"ax\"\n"
        ".globl start\n"
        ".type start, @function\n"
        "start:\n"
        "    call run\n"
        "    ud2\n"
        ".size start, . - start\n"
        ".popsection\n");
