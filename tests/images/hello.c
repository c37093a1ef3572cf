/* Prints one line on each console and exits with the code that EXIT_CODE says.
 * Expected: exit code 0 (or the guest's code reported as a failure). */
#include "guest.h"

#ifndef EXIT_CODE
#define EXIT_CODE 0
#endif

void run(void) {
    print("hello from com1\n");
    console("hello from the test device\n");
    finish(EXIT_CODE);
}
