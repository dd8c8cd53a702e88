/* Lets a jansson archive that was compiled for executables be part of the shared library.
 *
 * With its symbols hidden (-Wl,--exclude-libs) the archive needs no relocation at run time but one:
 * json_loadf compares its argument with stdin, which such code can address in an executable only.
 * The library reads JSON from memory, never from a FILE, so -Wl,--wrap=stdin hands that comparison
 * this variable instead.
 */
#include <stdio.h>

extern FILE *__wrap_stdin;
__attribute__((visibility("hidden"))) FILE *__wrap_stdin;
