#include "runtime/cache.h"
#include "base/needs.h"
#include "plan/plan.h"

#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char magic[] = "FLASHTL CACHE 2\n";
static const char suffix[] = ".kernel";
enum { DIGITS = 32, HEADER_BYTES = sizeof magic - 1 + DIGITS + 1, ENTRY_BYTES_MAX = 64 << 20 };

void cache_key_begin(cache_key *key) {
    text_init(&key->fields, ENTRY_BYTES_MAX);
}

void cache_key_add(cache_key *key, const char *name, str value) {
    text_format(&key->fields, "%s %zu\n", name, value.length);
    text_add(&key->fields, value);
    text_add_z(&key->fields, "\n");
}

void cache_key_end(cache_key *key) {
    hash_digits(hash_bytes(text_str(&key->fields)), key->digits);
    text_done(&key->fields);
}

static bool path_of(const char *folder, const char *name, const char *ending, char path[4096]) {
    int length = snprintf(path, 4096, "%s/%s%s", folder, name, ending);
    return length > 0 && length < 4096;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Cuts the section 'name' off the front of *rest. */
static bool take_section(str *rest, const char *name, str *out) {
    str header = str_cut(rest, '\n');
    str word = str_cut(&header, ' ');
    int64_t bytes;
    if (!str_is(word, name) || !str_to_integer(header, &bytes)) return false;
    if (bytes < 0 || (uint64_t)bytes >= rest->length) return false;
    *out = (str){rest->data, (size_t)bytes};
    if (rest->data[bytes] != '\n') return false;
    rest->data += bytes + 1;
    rest->length -= (size_t)bytes + 1;
    return true;
}

static bool is_whole(str text) {
    if (!str_starts(text, (str){magic, sizeof magic - 1}) || text.length < HEADER_BYTES)
        return false;
    char digits[33];
    hash_digits(hash_bytes((str){text.data + HEADER_BYTES, text.length - HEADER_BYTES}), digits);
    return memcmp(digits, text.data + sizeof magic - 1, DIGITS) == 0;
}

static bool take_apart(cache_entry *entry, const char *digits) {
    str rest = text_str(&entry->storage), key, kind, verdict;
    if (!is_whole(rest)) return false;
    rest.data += HEADER_BYTES;
    rest.length -= HEADER_BYTES;
    bool is_right = take_section(&rest, "key", &key) && take_section(&rest, "plan", &entry->plan) &&
                    take_section(&rest, "cuda", &entry->cuda) &&
                    take_section(&rest, "kind", &kind) &&
                    take_section(&rest, "verdict", &verdict) &&
                    take_section(&rest, "image", &entry->image) && rest.length == 0;
    entry->kind = is_right && str_is(kind, "ptx") ? FTL_PTX : FTL_CUBIN;
    entry->is_verified = is_right && str_is(verdict, "verified");
    return is_right && str_is(key, digits);
}

cache_result cache_read(const char *folder, const char digits[33], cache_entry *out) {
    *out = (cache_entry){0};
    text_init(&out->storage, ENTRY_BYTES_MAX);
    char path[4096];
    os_error ignored;
    if (!path_of(folder, digits, suffix, path) || !os_folder_is_ours(folder, &ignored) ||
        !os_file_exists(path))
        return CACHE_ABSENT;
    bool is_read = os_read_own_file(path, ENTRY_BYTES_MAX, &out->storage, &ignored);
    if (is_read && take_apart(out, digits)) return CACHE_FOUND;
    int64_t bytes = 0, modified_s;
    bool is_too_large = os_file_info(path, &bytes, &modified_s) && bytes > ENTRY_BYTES_MAX;
    bool lacks_memory = out->storage.failed && !is_too_large;
    cache_done(out);
    return lacks_memory ? CACHE_NO_MEMORY : CACHE_DAMAGED;
}

void cache_done(cache_entry *entry) {
    text_done(&entry->storage);
    *entry = (cache_entry){0};
}

/* --- writing ---------------------------------------------------------------------------------- */

static void add_section(text_buffer *out, const char *name, str bytes) {
    text_format(out, "%s %zu\n", name, bytes.length);
    text_add(out, bytes);
    text_add_z(out, "\n");
}

bool cache_write(const char *folder, const char digits[33], const cache_entry *entry,
                 os_error *why) {
    char path[4096], hash[33];
    if (!path_of(folder, digits, suffix, path)) {
        snprintf(why->text, sizeof why->text, "the cache folder's name is too long");
        return false;
    }
    text_buffer text;
    text_init(&text, ENTRY_BYTES_MAX);
    text_add_z(&text, magic);
    text_repeat(&text, '0', DIGITS);
    text_add_z(&text, "\n");
    add_section(&text, "key", str_from(digits));
    add_section(&text, "plan", entry->plan);
    add_section(&text, "cuda", entry->cuda);
    add_section(&text, "kind", entry->kind == FTL_PTX ? STR("ptx") : STR("cubin"));
    add_section(&text, "verdict", entry->is_verified ? STR("verified") : STR("unverified"));
    add_section(&text, "image", entry->image);
    bool is_written = false;
    if (text.failed) {
        snprintf(why->text, sizeof why->text, "the kernel is larger than the cache takes");
    } else {
        hash_digits(hash_bytes((str){text.data + HEADER_BYTES, text.length - HEADER_BYTES}), hash);
        memcpy(text.data + sizeof magic - 1, hash, DIGITS);
        is_written = os_make_folders(folder, why) && os_folder_is_ours(folder, why) &&
                     os_replace_file(path, text_str(&text), why);
    }
    text_done(&text);
    return is_written;
}

/* --- listing and clearing --------------------------------------------------------------------- */

/* Names of what is ours, each with zeros up to NAME_BYTES. */
enum { NAME_BYTES = 64, NAMES_BYTES_MAX = 256 << 20 };

static bool is_entry(str name) {
    return name.length == DIGITS + sizeof suffix - 1 && str_ends(name, str_from(suffix));
}

/* <entry>.tmpXXXXXX: what a writer that was killed left behind. */
static bool is_leftover(str name) {
    const size_t ending = sizeof ".tmpXXXXXX" - 1;
    return name.length == DIGITS + sizeof suffix - 1 + ending &&
           is_entry((str){name.data, name.length - ending});
}

static void collect(void *names, const char *name) {
    char place[NAME_BYTES] = {0};
    str found = str_from(name);
    if (!is_entry(found) && !is_leftover(found) && !str_is(found, "nvrtc")) return;
    memcpy(place, found.data, found.length);
    text_add(names, (str){place, NAME_BYTES});
}

static int by_name(const void *a, const void *b) {
    return strcmp(a, b);
}

/* What is ours in the folder, sorted; nothing when it is not there. */
static ftl_status list_folder(ftl_context *context, const char *folder, text_buffer *out) {
    text_init(out, NAMES_BYTES_MAX);
    os_error why;
    if (!os_file_exists(folder)) return FTL_OK;
    if (!os_list_folder(folder, collect, out, &why))
        return ftl_context_fail(context, FTL_NO_FILE, "%s", why.text);
    if (out->failed) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    if (out->length) qsort(out->data, out->length / NAME_BYTES, NAME_BYTES, by_name);
    return FTL_OK;
}

static ftl_status visit_entry(ftl_context *context, const char *folder, const char *name,
                              void (*visit)(void *user, const ftl_cache_entry *entry), void *user) {
    char path[4096], digits[33] = {0}, why[FTL_WHY_BYTES];
    if (!path_of(folder, name, "", path)) return FTL_OK;
    memcpy(digits, name, DIGITS);
    ftl_cache_entry shown = {.key = digits, .kernel = "", .gpu = "", .target = ""};
    os_file_info(path, &shown.bytes, &shown.modified_s);
    cache_entry entry;
    ftl_plan *plan = NULL;
    cache_result result = cache_read(folder, digits, &entry);
    ftl_status status = result == CACHE_NO_MEMORY ? FTL_NO_MEMORY : FTL_OK;
    if (result == CACHE_FOUND) {
        status = plan_read_json(entry.plan.data, entry.plan.length, why, &plan);
        shown.is_verified = entry.is_verified;
    }
    shown.is_damaged = !plan;
    if (plan) shown.kernel = plan->kernel, shown.gpu = plan->gpu, shown.target = plan->target;
    bool is_known = status != FTL_NO_MEMORY;
    if (is_known) visit(user, &shown);
    ftl_plan_free(plan);
    cache_done(&entry);
    return is_known ? FTL_OK : ftl_context_fail(context, status, "out of memory");
}

static bool is_named(const char *folder) {
    return folder && *folder;
}

static ftl_status no_folder(ftl_context *context) {
    return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "the cache folder has no name");
}

ftl_status ftl_cache_list(ftl_context *context, const char *folder,
                          void (*visit)(void *user, const ftl_cache_entry *entry), void *user) {
    NEEDS(visit);
    if (!is_named(folder)) return no_folder(context);
    os_error why;
    if (!os_folder_is_ours(folder, &why))
        return ftl_context_fail(context, FTL_NO_FILE, "%s", why.text);
    text_buffer names;
    ftl_status status = list_folder(context, folder, &names);
    for (size_t at = 0; !status && at < names.length; at += NAME_BYTES) {
        const char *name = names.data + at;
        if (is_entry(str_from(name))) status = visit_entry(context, folder, name, visit, user);
    }
    text_done(&names);
    return status;
}

ftl_status ftl_cache_clear(ftl_context *context, const char *folder, int64_t *removed) {
    NEEDS(removed);
    *removed = 0;
    if (!is_named(folder)) return no_folder(context);
    text_buffer names;
    ftl_status status = list_folder(context, folder, &names);
    for (size_t at = 0; !status && at < names.length; at += NAME_BYTES) {
        const char *name = names.data + at;
        char path[4096];
        os_error why;
        if (!path_of(folder, name, "", path)) continue;
        if (!os_remove_file(path, &why))
            status = ftl_context_fail(context, FTL_NO_FILE, "%s", why.text);
        *removed += is_entry(str_from(name));
    }
    text_done(&names);
    return status;
}
