/* flashtl cache: list, size, clear. */
#include "base/number.h"
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

typedef struct listing {
    bool prints, is_json;
    int64_t entries, damaged, bytes, now_s;
} listing;

static void print_entry(void *user, const ftl_cache_entry *entry) {
    listing *all = user;
    all->entries++;
    all->damaged += entry->is_damaged;
    all->bytes += entry->bytes;
    if (!all->prints) return;
    const char *kernel = entry->is_damaged ? "(damaged)" : entry->kernel;
    if (all->is_json) {
        cli_print_json(
            json_pack("{s:o,s:o,s:o,s:o,s:I,s:I,s:b,s:b}", "key", json_from(str_from(entry->key)),
                      "kernel", json_from(str_from(entry->kernel)), "gpu",
                      json_from(str_from(entry->gpu)), "target", json_from(str_from(entry->target)),
                      "bytes", (json_int_t)entry->bytes, "modified", (json_int_t)entry->modified_s,
                      "damaged", entry->is_damaged, "verified", entry->is_verified));
    } else {
        cli_tell(stdout, "%s  %-20s %-12s %-12s %8.1f KiB  %6.1f h old  %s\n", entry->key, kernel,
                 entry->gpu, entry->target, (double)entry->bytes / 1024,
                 (double)(all->now_s - entry->modified_s) / 3600,
                 entry->is_damaged    ? ""
                 : entry->is_verified ? "verified"
                                      : "not verified");
    }
}

int cli_run_CACHE(cli *c) {
    const char *verb = c->options.file_count ? cli_one_file(c) : "list";
    if (!verb) return EXIT_USAGE;
    bool lists = strcmp(verb, "list") == 0, clears = strcmp(verb, "clear") == 0;
    if (!lists && !clears && strcmp(verb, "size") != 0) {
        return cli_say(EXIT_USAGE, "'cache' takes list, size or clear; found '%s'", verb);
    }
    char buffer[4096];
    const char *folder = cli_cache_folder(c, buffer);
    if (!folder) return cli_say(EXIT_DONE, "the cache is off");
    if (!clears) {
        listing all = {.prints = lists, .is_json = c->options.json, .now_s = os_clock_s()};
        ftl_status status = ftl_cache_list(c->context, folder, print_entry, &all);
        if (status) return cli_finish(c, status);
        if (lists && all.is_json) return EXIT_DONE;
        if (all.is_json) {
            return cli_print_json(json_pack("{s:I,s:I,s:I}", "kernels", (json_int_t)all.entries,
                                            "damaged", (json_int_t)all.damaged, "bytes",
                                            (json_int_t)all.bytes));
        }
        cli_tell(stdout, "%lld kernels (%lld damaged), %.1f MiB in %s\n", (long long)all.entries,
                 (long long)all.damaged, (double)all.bytes / (1 << 20), folder);
        return EXIT_DONE;
    }
    int64_t removed;
    ftl_status status = ftl_cache_clear(c->context, folder, &removed);
    if (status) return cli_finish(c, status);
    if (c->options.json) return cli_print_json(json_pack("{s:I}", "removed", (json_int_t)removed));
    cli_tell(stdout, "%lld kernels removed from %s\n", (long long)removed, folder);
    return EXIT_DONE;
}
