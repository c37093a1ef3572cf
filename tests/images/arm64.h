/* What the test guests for arm64 need of the guest contract (docs/guest-abi.md), and nothing else.
 * Freestanding C: no part of this project builds or links these programs. */
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

/* The FDT says where these are; the machines of this project agree on it. */
#define TEST_DEVICE 0x09000000ull
#define TEST_ID 0x00
#define TEST_CPUS 0x08
#define TEST_CONSOLE 0x10
#define TEST_EXIT 0x18
#define REGION_BEGIN 0x20
#define UART 0x09010000ull
#define GICD 0x08000000ull
#define GICR 0x0a000000ull
#define GICR_BYTES 0x20000ull

#define READ_SYSREG(name)                                        \
    ({                                                           \
        u64 value_;                                              \
        __asm__ volatile("mrs %0, " name : "=r"(value_)::"memory"); \
        value_;                                                  \
    })
#define WRITE_SYSREG(name, value) \
    __asm__ volatile("msr " name ", %0" ::"r"((u64)(value)) : "memory")
#define ISB() __asm__ volatile("isb" ::: "memory")
#define DSB() __asm__ volatile("dsb sy" ::: "memory")

static inline u64 read64(u64 at) { return *(volatile u64 *)at; }
static inline u32 read32(u64 at) { return *(volatile u32 *)at; }
static inline void write64(u64 at, u64 value) { *(volatile u64 *)at = value; }
static inline void write32(u64 at, u32 value) { *(volatile u32 *)at = value; }

static inline u64 test_read(u64 reg) { return read64(TEST_DEVICE + reg); }

static inline void test_write(u64 reg, u64 value) {
    DSB();
    write64(TEST_DEVICE + reg, value);
}

static inline void pause(void) { __asm__ volatile("yield" ::: "memory"); }

/* The PL011 as real software uses it: wait for room, then write. */
static inline void serial_byte(u8 byte) {
    while (read32(UART + 0x18) & 1 << 5) pause();
    write32(UART, byte);
}

#include "text.h"

__attribute__((noreturn)) static inline void finish(u64 code) {
    test_write(TEST_EXIT, code);
    for (;;) __asm__ volatile("wfi");
}

/* Firmware by HVC, as the FDT of these machines says. */
static inline u64 firmware(u64 function, u64 a, u64 b, u64 c) {
    register u64 x0 __asm__("x0") = function;
    register u64 x1 __asm__("x1") = a;
    register u64 x2 __asm__("x2") = b;
    register u64 x3 __asm__("x3") = c;
    __asm__ volatile("hvc #0" : "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x3)::"memory");
    return x0;
}
