/* flashtl grammar: the language in three forms. */
#include "cli/cli.h"

#include <string.h>

int cli_run_GRAMMAR(cli *c) {
    static const char *const names[] = {"ebnf", "gbnf", "lark"};
    static const ftl_grammar_form forms[] = {FTL_EBNF, FTL_GBNF, FTL_LARK};
    const char *wanted = c->options.format ? c->options.format : names[0];
    if (c->options.file_count) return cli_say(EXIT_USAGE, "'grammar' takes no file");
    for (int i = 0; i < 3; i++) {
        if (strcmp(names[i], wanted) != 0) continue;
        char *text = NULL;
        ftl_status status = ftl_grammar(c->context, forms[i], &text);
        return status ? cli_finish(c, status) : cli_put(c, text);
    }
    return cli_say(EXIT_USAGE, "'--format' is ebnf, gbnf or lark; found '%s'", wanted);
}
