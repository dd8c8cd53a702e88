/* Known calls: their table, and making one by PyTorch's stable C functions. No header and no
 * library of PyTorch is needed to build this.
 */
#include "again_inside.h"

#include "flashtl/attention.h"
#include "flashtl/serving.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

again_torch torch;

enum {
    CALLS_MOST = 1024,
    SLOTS = 2048, /* a power of two, twice CALLS_MOST */
};

/* A call that was described, in one piece of memory with all that it points to. */
typedef struct known {
    again_call call;
    uint64_t hash;
    int32_t uses; /* how many threads are making it, and one for the table */
    int32_t word_count;
    int64_t words[];
} known;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static known *slots[SLOTS];
static int32_t known_count;
static _Thread_local const again_call *to_learn;

/* --- the table -------------------------------------------------------------------------------- */

static void leave(known *k) {
    if (--k->uses == 0) free(k);
}

static void forget_all(void) {
    for (int32_t i = 0; i < SLOTS; i++) {
        if (slots[i]) leave(slots[i]);
        slots[i] = NULL;
    }
    known_count = 0;
}

void flashtl_again_forget(void) {
    pthread_mutex_lock(&lock);
    forget_all();
    pthread_mutex_unlock(&lock);
}

/* A child has no other threads: whoever held the lock at the fork is not there to give it back. */
static void begin_child(void) {
    pthread_mutex_init(&lock, NULL);
    memset(slots, 0, sizeof slots);
    known_count = 0;
}

static uint64_t hash_of(const operands *o) {
    uint64_t hash = 0;
    for (int32_t i = 0; i < o->word_count; i++) {
        hash = (hash ^ (uint64_t)o->words[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

/* The slot of these operands: theirs, or the empty one where they belong. */
static known **slot_of(const operands *o, uint64_t hash) {
    uint64_t i = hash % SLOTS;
    for (; slots[i]; i = (i + 1) % SLOTS) {
        const known *k = slots[i];
        if (k->hash == hash && k->word_count == o->word_count &&
            !memcmp(k->words, o->words, (size_t)o->word_count * sizeof *o->words))
            break;
    }
    return &slots[i];
}

static known *find(const operands *o) {
    uint64_t hash = hash_of(o);
    pthread_mutex_lock(&lock);
    known *k = *slot_of(o, hash);
    if (k) k->uses++;
    pthread_mutex_unlock(&lock);
    return k;
}

static void release(known *k) {
    pthread_mutex_lock(&lock);
    leave(k);
    pthread_mutex_unlock(&lock);
}

/* --- learning --------------------------------------------------------------------------------- */

static size_t aligned(size_t bytes) {
    return (bytes + 15) / 16 * 16;
}

static bool is_small(const again_call *call) {
    bool is = call->output_count <= AGAIN_OUTPUTS_MOST;
    for (int32_t i = 0; i < call->launch_count; i++)
        is = is && call->launches[i].byte_count <= AGAIN_STRUCT_BYTES_MOST;
    return is;
}

static void *put(char **at, const void *from, size_t bytes) {
    void *to = *at;
    if (bytes) memcpy(to, from, bytes);
    *at += aligned(bytes);
    return to;
}

static known *copy_of(const again_call *call, const operands *o) {
    size_t head = aligned(sizeof(known) + (size_t)o->word_count * sizeof *o->words);
    size_t outputs = (size_t)call->output_count * sizeof *call->outputs;
    size_t launches = (size_t)call->launch_count * sizeof *call->launches;
    size_t bytes = head + aligned(outputs) + aligned(launches);
    for (int32_t i = 0; i < call->launch_count; i++) {
        const again_launch *l = &call->launches[i];
        bytes += aligned(l->byte_count) + aligned((size_t)l->address_count * sizeof *l->addresses);
    }
    char *memory = malloc(bytes);
    if (!memory) return NULL;
    known *k = (known *)memory;
    char *at = memory + head;
    *k = (known){.call = *call, .hash = hash_of(o), .uses = 1, .word_count = o->word_count};
    memcpy(k->words, o->words, (size_t)o->word_count * sizeof *o->words);
    k->call.outputs = put(&at, call->outputs, outputs);
    again_launch *copies = put(&at, call->launches, launches);
    k->call.launches = copies;
    for (int32_t i = 0; i < call->launch_count; i++) {
        const again_launch *l = &call->launches[i];
        copies[i].bytes = put(&at, l->bytes, l->byte_count);
        copies[i].addresses =
            put(&at, l->addresses, (size_t)l->address_count * sizeof *l->addresses);
    }
    return k;
}

bool flashtl_again_learn(const again_call *call) {
    to_learn = call && is_small(call) ? call : NULL;
    return to_learn || !call;
}

static void learn(const again_call *call, const operands *o) {
    known *k = copy_of(call, o);
    if (!k) return;
    pthread_mutex_lock(&lock);
    if (known_count >= CALLS_MOST) forget_all();
    known **slot = slot_of(o, k->hash);
    if (*slot) leave(*slot);
    else known_count++;
    *slot = k;
    pthread_mutex_unlock(&lock);
}

/* --- making a call ---------------------------------------------------------------------------- */

void operands_begin(operands *o, int64_t options, int64_t total_keys) {
    o->count = 0;
    o->words[0] = options;
    o->word_count = 2;
    o->total_keys = total_keys;
}

bool operands_add(operands *o, const operand *one) {
    if (one->axes > FTL_AXES_MAX || o->count == AGAIN_TENSORS_MOST) return false;
    if (o->count == 0)
        o->type = one->type, o->device_type = one->device_type, o->device = one->device;
    int64_t *word = &o->words[o->word_count];
    size_t axes = (size_t)one->axes;
    *word++ = (int64_t)one->type << 32 | one->axes;
    *word++ = (int64_t)one->device_type << 32 | (uint32_t)one->device;
    memcpy(word, one->extents, axes * sizeof *word);
    memcpy(word + axes, one->strides, axes * sizeof *word);
    o->word_count += 2 + 2 * (int32_t)axes;
    o->addresses[o->count++] = one->address;
    o->words[1] = o->count;
    return true;
}

static pthread_key_t contexts;

static void free_context(void *context) {
    ftl_context_free(context);
}

/* This thread's own, where nobody reads what is wrong. */
static ftl_context *context_of_thread(void) {
    ftl_context *context = pthread_getspecific(contexts);
    if (!context && !ftl_context_new(&context)) pthread_setspecific(contexts, context);
    return context;
}

static bool make_outputs(const again_call *call, operands *o, void **made) {
    for (int32_t i = 0; i < call->output_count; i++) {
        const again_output *out = &call->outputs[i];
        int32_t type = out->type == AGAIN_F32     ? torch.dtype_float32()
                       : out->type == AGAIN_BYTES ? torch.dtype_uint8()
                                                  : o->type;
        bool is_made = !(type & AGAIN_NO_TYPE) &&
                       !torch.empty_strided(out->axis_count, out->extents, out->strides, type,
                                            o->device_type, o->device, &made[i]) &&
                       (!out->is_zero || !torch.zero_(made[i]));
        if (!is_made || torch.get_data_ptr(made[i], &o->addresses[o->count + i])) return false;
    }
    return true;
}

typedef union again_struct {
    char bytes[AGAIN_STRUCT_BYTES_MOST];
    ftl_attention attention;
    ftl_varlen varlen;
    ftl_decode decode;
    ftl_mla mla;
    ftl_tensor tensors[1];
} again_struct;

/* Memory beside the tensors: PyTorch frees it in the stream's order. */
static bool take_workspace(const operands *o, size_t bytes, void **tensor, uint64_t *address) {
    const int64_t extent = (int64_t)bytes, stride = 1;
    void *at = NULL;
    if (bytes && (torch.empty_strided(1, &extent, &stride, torch.dtype_uint8(), o->device_type,
                                      o->device, tensor) ||
                  torch.get_data_ptr(*tensor, &at)))
        return false;
    *address = (uint64_t)(uintptr_t)at;
    return true;
}

static ftl_status launch_decode(ftl_context *context, ftl_runtime *runtime, again_struct *s,
                                const operands *o, void *stream) {
    void *workspace = NULL;
    s->decode.total_keys = o->total_keys;
    ftl_status status =
        ftl_attention_decode_workspace(context, runtime, &s->decode, &s->decode.workspace_bytes);
    if (!status && !take_workspace(o, s->decode.workspace_bytes, &workspace, &s->decode.workspace))
        status = FTL_NO_MEMORY;
    if (!status) status = ftl_attention_decode(context, runtime, &s->decode, stream);
    if (workspace) torch.delete_tensor_object(workspace);
    return status;
}

static ftl_status launch_mla(ftl_context *context, ftl_runtime *runtime, again_struct *s,
                             const operands *o, void *stream) {
    void *workspace = NULL;
    s->mla.total_keys = o->total_keys;
    ftl_status status =
        ftl_mla_decode_workspace(context, runtime, &s->mla, &s->mla.workspace_bytes);
    if (!status && !take_workspace(o, s->mla.workspace_bytes, &workspace, &s->mla.workspace))
        status = FTL_NO_MEMORY;
    if (!status) status = ftl_mla_decode(context, runtime, &s->mla, stream);
    if (workspace) torch.delete_tensor_object(workspace);
    return status;
}

static ftl_status launch(ftl_context *context, ftl_runtime *runtime, const again_launch *l,
                         const operands *o, void *stream) {
    again_struct s;
    memcpy(s.bytes, l->bytes, l->byte_count);
    for (int32_t i = 0; i < l->address_count; i++) {
        const again_address *a = &l->addresses[i];
        uint64_t address = (uint64_t)(uintptr_t)o->addresses[a->source] + (uint64_t)a->delta;
        memcpy(s.bytes + a->offset, &address, sizeof address);
    }
    switch ((again_kind)l->kind) {
    case AGAIN_ATTENTION: return ftl_attention_forward(context, runtime, &s.attention, stream);
    case AGAIN_VARLEN: return ftl_attention_varlen(context, runtime, &s.varlen, stream);
    case AGAIN_DECODE: return launch_decode(context, runtime, &s, o, stream);
    case AGAIN_MLA: return launch_mla(context, runtime, &s, o, stream);
    case AGAIN_MODULE: break;
    }
    const ftl_arguments arguments = {
        s.tensors, l->tensor_count, (const ftl_scalar *)(const void *)(s.tensors + l->tensor_count),
        l->scalar_count};
    return ftl_module_launch(context, l->module, &arguments, stream);
}

static bool stream_of(const operands *o, void **stream) {
    int32_t current;
    *stream = NULL;
    if (o->device_type != torch.device_type_cuda()) return true;
    return !torch.get_current_device_index(&current) && current == o->device &&
           !torch.get_current_cuda_stream(o->device, stream);
}

/* Two arguments that were one tensor are written to a struct as one of them. */
static bool are_same(const again_call *call, const operands *o) {
    bool are = true;
    for (int32_t i = 0; i < o->count; i++)
        are = are && o->addresses[i] == o->addresses[call->same[i]];
    return are;
}

/* Whether it was made; then the results are there. */
static bool make(const again_call *call, operands *o, void **results) {
    void *made[AGAIN_OUTPUTS_MOST] = {0}, *stream;
    ftl_context *context = context_of_thread();
    bool is_done =
        context && are_same(call, o) && stream_of(o, &stream) && make_outputs(call, o, made);
    for (int32_t i = 0; i < call->launch_count && is_done; i++)
        is_done = !launch(context, call->runtime, &call->launches[i], o, stream);
    for (int32_t i = 0; i < call->output_count; i++) {
        int32_t result = call->outputs[i].result;
        if (is_done && result >= 0) results[result] = made[i];
        else if (made[i]) torch.delete_tensor_object(made[i]);
    }
    return is_done;
}

void again_make(operands *o, void *results[AGAIN_RESULTS]) {
    known *k = to_learn ? NULL : find(o);
    if (to_learn) learn(to_learn, o);
    if (!k) return;
    make(&k->call, o, results);
    release(k);
}

/* --- PyTorch's functions ------------------------------------------------------------------------ */

bool again_take(void *const *libraries, int32_t count, const char *name, void *function) {
    void *found = NULL;
    for (int32_t i = 0; i < count && !found; i++) found = dlsym(libraries[i], name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

bool again_open(void *const *libraries, int32_t count) {
#define TORCH(name, parameters)                                                                    \
    if (!again_take(libraries, count, "aoti_torch_" #name, &torch.name)) return false;
#define TYPE(name) TORCH(name, )
#include "again.def"
    static bool is_open;
    if (is_open) return true;
    is_open = !pthread_key_create(&contexts, free_context) &&
              !pthread_atfork(NULL, NULL, begin_child);
    return is_open;
}
