/* Prints without end.
 * Expected: the output limit ends the run. */
#include "guest.h"

void run(void) {
    for (;;) console("all work and no play makes jack a dull boy\n");
}
