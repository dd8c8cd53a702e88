#include "interpret/machine.h"
bool code_run(machine *m) { (void)m; return false; }
