#include "cli/build_verify.h"

#include "cli/machine.h"
#include "verify/built.h"

#include <string.h>

int build_verify(cli *c, const cli_request *r, ftl_runtime *runtime, ftl_product *product) {
    if (c->options.no_verify || !product->kernel_count || verify_is_shipped(product))
        return EXIT_DONE;
    machine_program made = {.product = product,
                            .code = {r->source.name, product->code, strlen(product->code)}};
    verify_program program = machine_verify_program(&made, r);
    verify_built found;
    ftl_status status = verify_product(c->context, &program, runtime, cli_interrupted(), &found);
    if (status) return cli_finish(c, status);
    if (found.finding == VERIFY_WRONG) return cli_say(EXIT_REJECTED, "%s", found.what);
    if (found.finding == VERIFY_OPEN) cli_say(0, "%s", found.what);
    return EXIT_DONE;
}
