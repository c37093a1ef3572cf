/* Reads and writes where pages are mapped but neither memory nor a device answers, and a test
 * device register that does not exist.
 * Expected: each is reported once, reads of the register give 0, exit code 0. */
#include "guest.h"

void run(void) {
    volatile u64 *hole = (volatile u64 *)0xd0000000ull;
    for (int i = 0; i < 3; i++) {
        *hole = 1;
        (void)*hole;
        test_write(0xff0, 1);
        if (test_read(0xff0) != 0) finish(1);
    }
    finish(0);
}
