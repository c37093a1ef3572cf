/* Stores to a linear address that no page maps, with an empty IDT.
 * Expected: guest fault; the report names the page fault and its address 0x100000000000. */
#include "guest.h"

void run(void) {
    *(volatile u64 *)0x100000000000ull = 1;
    finish(1);
}
