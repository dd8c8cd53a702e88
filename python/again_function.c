/* Known calls by a function of Python, without PyTorch's dispatcher: tensors are read by DLPack's
 * C functions for exchange (DLPack 1.2 and later), and results become Python's by the function by
 * which PyTorch makes all of its own. Python's functions are of its stable ABI, found at run time.
 */
#include "again_inside.h"

#include <string.h>
#include <sys/types.h>

static struct {
#define PYTHON(result, name, parameters) result(*name) parameters;
#include "again_python.def"
    void *(*wrap)(void *tensor); /* THPVariable_Wrap(at::TensorBase const &) */
    bool (*is_grad_enabled)(void);
} python;

/* DLPack's structs, as far as they are read. */
typedef struct dl_tensor {
    void *address;
    int32_t device_type, device;
    int32_t axes;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *extents, *strides;
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_exchange {
    uint32_t major, minor;
    struct dl_exchange *before; /* of an older version */
    void *allocate, *take, *give;
    int (*look)(void *object, dl_tensor *out);
    void *stream;
} dl_exchange;

enum {
    DL_MAJOR = 1,
    DL_CPU = 1, /* kinds of devices */
    DL_CUDA = 2,
    DL_INTEGER = 0, /* kinds of elements */
    DL_FLOAT = 2,
    DL_BFLOAT = 4,
    DL_E4M3FN = 10,
    DL_E5M2 = 12,
};

static const dl_exchange *exchange;
static again_objects objects;
static _Thread_local bool is_noting;

void flashtl_again_note(bool is) {
    is_noting = is;
}

/* --- what PyTorch does beside what a kernel does ------------------------------------------------ */

/* Of a function without arguments: whether it gives nothing but 0 or False. */
static bool is_none_active(void *function) {
    void *found = python.PyObject_CallObject(function, NULL);
    if (!found) return false;
    int is = python.PyObject_IsTrue(found);
    python.Py_DecRef(found);
    return is == 0;
}

static bool is_attribute_false(void *object, void *name) {
    void *found = python.PyObject_GetAttr(object, name);
    if (!found) return false;
    python.Py_DecRef(found); /* False and True stay */
    return found == objects.no;
}

/* Forward-mode gradients: their level is below 0 where there are none. */
static bool has_no_tangents(void) {
    void *level = python.PyObject_GetAttr(objects.forward, objects.level);
    if (!level) return false;
    ssize_t value = python.PyLong_AsSsize_t(level);
    python.Py_DecRef(level);
    return value < 0 && !python.PyErr_Occurred();
}

/* A tensor of its own memory, of which all is in the memory: no subclass, no gradient, no view
 * whose sign is kept beside it.
 */
static bool is_plain(void *tensor, bool has_gradients) {
    void *type = python.PyObject_Type(tensor);
    if (!type) return false;
    python.Py_DecRef(type);
    if (type != objects.tensor && type != objects.parameter) return false;
    if (has_gradients && !is_attribute_false(tensor, objects.requires_grad)) return false;
    void *is_negative = python.PyObject_CallFunctionObjArgs(objects.is_neg, tensor, NULL);
    if (is_negative) python.Py_DecRef(is_negative);
    return is_negative == objects.no;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* PyTorch's number of a type that kernels have, in which a result may be made; of others (booleans,
 * that only masks are) one that it does not use.
 */
static int32_t type_of(const dl_tensor *seen) {
    const struct {
        int32_t code, bits;
        int32_t (*number)(void);
    } types[] = {
        {DL_FLOAT, 16, torch.dtype_float16},    {DL_BFLOAT, 16, torch.dtype_bfloat16},
        {DL_FLOAT, 32, torch.dtype_float32},    {DL_INTEGER, 32, torch.dtype_int32},
        {DL_INTEGER, 8, torch.dtype_int8},      {DL_E4M3FN, 8, torch.dtype_float8_e4m3fn},
        {DL_E5M2, 8, torch.dtype_float8_e5m2},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].code == seen->code && types[i].bits == seen->bits) return types[i].number();
    return AGAIN_NO_TYPE | seen->code << 8 | seen->bits;
}

static bool read_tensor(operands *o, void *tensor) {
    dl_tensor seen;
    if (exchange->look(tensor, &seen) || seen.lanes != 1 || !seen.strides) return false;
    bool is_cuda = seen.device_type == DL_CUDA;
    if (!is_cuda && seen.device_type != DL_CPU) return false;
    const operand one = {
        .address = (char *)seen.address + seen.byte_offset,
        .axes = seen.axes,
        .extents = seen.extents,
        .strides = seen.strides,
        .type = type_of(&seen),
        .device_type = is_cuda ? torch.device_type_cuda() : torch.device_type_cpu(),
        .device = seen.device,
    };
    return operands_add(o, &one);
}

static bool read_tensors(operands *o, void *tuple) {
    bool has_gradients = python.is_grad_enabled();
    ssize_t count = python.PyTuple_Size(tuple);
    for (ssize_t i = 0; i < count; i++) {
        void *tensor = python.PyTuple_GetItem(tuple, i);
        if (!is_plain(tensor, has_gradients) || !read_tensor(o, tensor)) return false;
    }
    return count > 0;
}

/* The number of these options, which are known. */
static bool read_options(operands *o, void *options, void *total_keys) {
    void *number = python.PyDict_GetItemWithError(objects.numbers, options);
    ssize_t total = 0;
    if (!number) return false;
    if (total_keys && total_keys != objects.none) {
        void *type = python.PyObject_Type(total_keys);
        python.Py_DecRef(type);
        if (type != objects.integer) return false; /* True is no number of keys */
        total = python.PyLong_AsSsize_t(total_keys);
        if (total < 0) return false;
    }
    operands_begin(o, python.PyLong_AsSsize_t(number), total);
    return true;
}

/* --- the function ------------------------------------------------------------------------------- */

/* Their tuple, or None: Python makes the call. */
static void *answer(void *results[AGAIN_RESULTS]) {
    ssize_t count = 0;
    while (count < AGAIN_RESULTS && results[count]) count++;
    if (count == 0) {
        python.Py_IncRef(objects.none);
        return objects.none;
    }
    void *tuple = python.PyTuple_New(count);
    for (ssize_t i = 0; i < count; i++) {
        void *made = tuple ? python.wrap(results[i]) : NULL;
        torch.delete_tensor_object(results[i]);
        if (made) python.PyTuple_SetItem(tuple, i, made); /* which has it from then on */
        else if (tuple) python.Py_DecRef(tuple), tuple = NULL;
    }
    return tuple;
}

/* again(options, tensors, total_keys=None). Other threads go on while it allocates and launches,
 * which may wait for the GPU.
 */
static void *again(void *self, void *const *given, ssize_t count) {
    operands o;
    void *results[AGAIN_RESULTS] = {0};
    (void)self;
    bool is_known = (count == 2 || count == 3) && !is_noting &&
                    read_options(&o, given[0], count == 3 ? given[2] : NULL) &&
                    is_none_active(objects.modes) && is_none_active(objects.transforms) &&
                    has_no_tangents() && read_tensors(&o, given[1]);
    if (is_known) {
        void *thread = python.PyEval_SaveThread();
        again_make(&o, results);
        python.PyEval_RestoreThread(thread);
    } else if (python.PyErr_Occurred()) {
        python.PyErr_Clear();
    }
    return answer(results);
}

again_fast *flashtl_again_function(void *const *libraries, int32_t count, void *exchange_capsule,
                                   const again_objects *given) {
#define PYTHON(result, name, parameters)                                                           \
    if (!again_take(libraries, count, #name, &python.name)) return NULL;
#include "again_python.def"
    bool is_there =
        again_open(libraries, count) &&
        again_take(libraries, count, "_Z16THPVariable_WrapRKN2at10TensorBaseE", &python.wrap) &&
        again_take(libraries, count, "aoti_torch_grad_mode_is_enabled", &python.is_grad_enabled);
    if (!is_there) return NULL;
    exchange = python.PyCapsule_GetPointer(exchange_capsule, "dlpack_exchange_api");
    while (exchange && exchange->major > DL_MAJOR) exchange = exchange->before;
    if (python.PyErr_Occurred()) python.PyErr_Clear();
    if (!exchange || exchange->major != DL_MAJOR || !exchange->look) return NULL;
    objects = *given;
    return again;
}
