#include "cli/operator.h"

#include <stdio.h>

enum { SETTINGS_MAX = CLI_LIST_MAX + 8 };

ftl_status cli_sketch(cli *c, char **out) {
    const cli_options *o = &c->options;
    const char *settings[SETTINGS_MAX];
    char window[64], softcap[64];
    int count = 0;
    if (o->causal) settings[count++] = "causal";
    if (o->alibi) settings[count++] = "alibi";
    if (o->lse) settings[count++] = "lse";
    if (o->window) {
        snprintf(window, sizeof window, "window=%s", o->window);
        settings[count++] = window;
    }
    if (o->softcap) {
        snprintf(softcap, sizeof softcap, "softcap=%s", o->softcap);
        settings[count++] = softcap;
    }
    for (int i = 0; i < o->with.count; i++) settings[count++] = o->with.items[i];
    return ftl_sketch(c->context, o->op, settings, count, out);
}
