/* A program that uses an installed FlashTL: makes a sketch, prints it in canonical form. */
#include <flashtl/flashtl.h>
#include <flashtl/runtime.h>

#include <stdio.h>
#include <string.h>

int main(void) {
    ftl_context *context;
    char *sketch = NULL, *formatted = NULL;
    if (ftl_context_new(&context) != FTL_OK) return 1;
    ftl_status status = ftl_sketch(context, "attention", NULL, 0, &sketch);
    if (status == FTL_OK) {
        ftl_source source = {"sketch", sketch, strlen(sketch)};
        status = ftl_format(context, &source, &formatted);
    }
    if (status == FTL_OK) printf("%.16s, %s\n", strstr(formatted, "kernel "), ftl_version());
    else fprintf(stderr, "%s\n", ftl_context_error(context));
    ftl_free(sketch);
    ftl_free(formatted);
    ftl_context_free(context);
    return status != FTL_OK;
}
