#include "gpu/gpu.h"

#include "base/embedded.h"
#include "base/os.h"
#include "gpu/read.h"

#include <limits.h>
#include <string.h>

enum { FILE_BYTES_MAX = 64 * 1024, NAME_BYTES_MAX = 4096, LANES = 32 };

/* --- finding ---------------------------------------------------------------------------------- */

static str file_text(const embedded_file *file) {
    return (str){file->data, file->length};
}

static bool is_path(str name) {
    for (size_t i = 0; i < name.length; i++) {
        if (name.data[i] == '/') return true;
    }
    return str_ends(name, STR(".gpu"));
}

static str base_name(str path) {
    size_t begin = path.length;
    while (begin > 0 && path.data[begin - 1] != '/') begin--;
    str name = {path.data + begin, path.length - begin};
    if (str_ends(name, STR(".gpu"))) name.length -= 4;
    return name;
}

static bool find_path(arena *memory, str path, gpu *out, diag_list *problems) {
    /* Taken before the buffer holds memory of malloc: a guarded arena may jump. */
    char *room = arena_array(memory, char, FILE_BYTES_MAX + 1);
    const char *path_z = str_copy_z(memory, path);
    text_buffer content;
    os_error why;
    text_init(&content, FILE_BYTES_MAX);
    bool read = os_read_file(path_z, FILE_BYTES_MAX, &content, &why);
    str text = {room, read ? content.length : 0};
    if (text.length) memcpy(room, content.data, text.length);
    text_done(&content);
    diag_init(problems, memory, path, text);
    if (!read) {
        diag_report(problems, DIAG_GPU_FILE, ((diag_range){0, 0}), str_from(why.text));
        return false;
    }
    return gpu_read(memory, base_name(path), text, out, problems);
}

/* Each name of each shipped GPU: the file's, the title, the aliases. */
typedef struct name_walk {
    const embedded_file *file;
    str aliases;
    int stage;
} name_walk;

static bool next_name(name_walk *walk, str *name) {
    for (; walk->file->name; walk->file++, walk->stage = 0) {
        if (walk->stage == 0) {
            walk->stage = 1;
            *name = str_from(walk->file->name);
            return true;
        }
        if (walk->stage == 1) {
            walk->stage = 2;
            walk->aliases = read_value(file_text(walk->file), "aliases");
            *name = read_value(file_text(walk->file), "title");
            return true;
        }
        if (walk->aliases.length) {
            *name = str_trim(str_cut(&walk->aliases, ','));
            return true;
        }
    }
    return false;
}

static const embedded_file *file_named(arena *memory, str plain) {
    name_walk walk = {.file = embedded_gpus};
    str name;
    while (next_name(&walk, &name)) {
        if (str_equal(read_plain_name(memory, name), plain)) return walk.file;
    }
    return NULL;
}

bool gpu_nearest(arena *memory, str name, str *nearest) {
    str plain = read_plain_name(memory, name), known;
    name_walk walk = {.file = embedded_gpus};
    int least = INT_MAX;
    while (next_name(&walk, &known)) {
        int distance = str_distance(plain, read_plain_name(memory, known));
        if (distance >= least) continue;
        least = distance;
        *nearest = str_from(walk.file->name);
    }
    bool is_near = least == 1 || (size_t)least * 3 <= plain.length;
    return is_near && (size_t)least < plain.length;
}

static void report_unknown(arena *memory, str name, diag_list *problems) {
    bool huge = name.length > 60;
    str shown = huge ? str_format(memory, "%.60s...", str_copy_z(memory, name)) : name;
    diag_init(problems, memory, STR("<gpu>"), name);
    diag_range all = {0, 0};
    diag_report(problems, DIAG_GPU_UNKNOWN, all, shown);
    str known = {NULL, 0};
    gpu_names names = gpu_list(memory);
    for (int i = 0; i < names.count; i++) {
        known = str_format(memory, "%.*s%s%.*s", STR_ARGS(known), i ? ", " : "",
                           STR_ARGS(names.names[i]));
    }
    diag_report(problems, DIAG_GPU_KNOWN, all, known);
    str nearest;
    if (!huge && gpu_nearest(memory, name, &nearest)) {
        diag_report(problems, DIAG_GPU_NEAREST, all, nearest);
    }
}

bool gpu_find(arena *memory, str name, gpu *out, diag_list *problems) {
    name = str_trim(name);
    if (name.length > NAME_BYTES_MAX) name.length = NAME_BYTES_MAX;
    if (is_path(name)) return find_path(memory, name, out, problems);
    str plain = read_plain_name(memory, name);
    const embedded_file *file = plain.length ? file_named(memory, plain) : NULL;
    if (!file) {
        report_unknown(memory, name, problems);
        return false;
    }
    diag_init(problems, memory, str_format(memory, "gpus/%s.gpu", file->name), file_text(file));
    return gpu_read(memory, str_from(file->name), file_text(file), out, problems);
}

static int64_t capability_of(const embedded_file *file) {
    int64_t capability = 0;
    str_to_integer(read_value(file_text(file), "capability"), &capability);
    return capability;
}

gpu_names gpu_list(arena *memory) {
    gpu_names list = {0};
    while (embedded_gpus[list.count].name) list.count++;
    list.names = arena_array(memory, str, list.count + 1);
    const embedded_file **files = arena_array(memory, const embedded_file *, list.count + 1);
    for (int i = 0; i < list.count; i++) {
        /* Insertion keeps the order of names among equals: the table is sorted by name. */
        int at = i;
        int64_t capability = capability_of(&embedded_gpus[i]);
        while (at > 0 && capability_of(files[at - 1]) > capability) {
            files[at] = files[at - 1];
            at--;
        }
        files[at] = &embedded_gpus[i];
    }
    for (int i = 0; i < list.count; i++) list.names[i] = str_from(files[i]->name);
    return list;
}

/* --- features --------------------------------------------------------------------------------- */

static const char *const FEATURE_WORDS[] = {
#define FEATURE(word, meaning) #word,
#include "gpu/features.def"
#undef FEATURE
};

_Static_assert(GPU_FEATURE_COUNT <= 64, "features are bits of a 64-bit word");

bool gpu_has(const gpu *g, gpu_feature feature) {
    return g->features >> feature & 1;
}

bool gpu_feature_named(str word, gpu_feature *feature) {
    for (int i = 0; i < GPU_FEATURE_COUNT; i++) {
        if (!str_is(word, FEATURE_WORDS[i])) continue;
        *feature = (gpu_feature)i;
        return true;
    }
    return false;
}

const char *gpu_feature_word(gpu_feature feature) {
    return FEATURE_WORDS[feature];
}

/* --- derived figures -------------------------------------------------------------------------- */

static double per_second(const gpu *g, double per_sm_clock) {
    return per_sm_clock * (double)g->sms * g->clock * 1e6;
}

double gpu_tensor_tflops(const gpu *g) {
    return per_second(g, g->tensor) * 1e-12;
}

double gpu_mma_tflops(const gpu *g) {
    return per_second(g, g->mma) * 1e-12;
}

double gpu_product_rate(const gpu *g, int operand_bytes, bool is_async) {
    if (operand_bytes == 1) return is_async ? g->tensor8 : g->mma8;
    return is_async ? g->tensor : g->mma;
}

bool gpu_cuts_byte_sums(const gpu *g) {
    enum { BITS_ENOUGH = 20 };
    return g->mma8_sum_bits <= BITS_ENOUGH;
}

/* --- occupancy -------------------------------------------------------------------------------- */

static int64_t round_up(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

/* Registers are divided among the schedulers, and given to whole warps. */
static int64_t warps_by_registers(const gpu *g, int registers) {
    int64_t per_warp = round_up((int64_t)registers * LANES, g->register_unit);
    return g->registers / g->schedulers / per_warp * g->schedulers;
}

static void tighten(int64_t *blocks, gpu_limit *limit, int64_t at_most, gpu_limit reason) {
    if (at_most >= *blocks) return;
    *blocks = at_most;
    *limit = reason;
}

int gpu_occupancy(const gpu *g, gpu_block block, gpu_limit *limit) {
    int64_t warps = round_up(block.threads > 0 ? block.threads : 1, LANES) / LANES;
    int64_t blocks = g->blocks;
    gpu_limit reason = GPU_LIMIT_BLOCKS;
    tighten(&blocks, &reason, g->threads / LANES / warps, GPU_LIMIT_THREADS);
    if (block.threads > g->block_threads) tighten(&blocks, &reason, 0, GPU_LIMIT_THREADS);
    if (block.registers > 0) {
        int64_t by_registers = warps_by_registers(g, block.registers) / warps;
        if (block.registers > g->thread_registers) by_registers = 0;
        tighten(&blocks, &reason, by_registers, GPU_LIMIT_REGISTERS);
    }
    int64_t shared = round_up(block.shared_bytes + g->reserved_shared, g->shared_unit);
    if (block.shared_bytes > g->block_shared) {
        tighten(&blocks, &reason, 0, GPU_LIMIT_SHARED);
    } else if (shared > 0) {
        tighten(&blocks, &reason, g->shared / shared, GPU_LIMIT_SHARED);
    }
    if (limit) *limit = reason;
    return (int)blocks;
}

int gpu_registers_for(const gpu *g, int threads, int blocks) {
    int64_t warps = round_up(threads, LANES) / LANES * blocks;
    int64_t per_scheduler = round_up(warps, g->schedulers) / g->schedulers;
    if (per_scheduler <= 0) return (int)g->thread_registers;
    int64_t per_warp = g->registers / g->schedulers / per_scheduler;
    int64_t registers = per_warp / g->register_unit * g->register_unit / LANES;
    return (int)(registers < g->thread_registers ? registers : g->thread_registers);
}

int64_t gpu_shared_for(const gpu *g, int blocks) {
    int64_t each = g->shared / (blocks > 0 ? blocks : 1) / g->shared_unit * g->shared_unit;
    int64_t bytes = each - g->reserved_shared;
    if (bytes < 0) bytes = 0;
    return bytes < g->block_shared ? bytes : g->block_shared;
}
