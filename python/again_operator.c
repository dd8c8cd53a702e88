/* Known calls by operators of PyTorch, which its dispatcher finds: no header and no library of
 * PyTorch is needed to build them.
 */
#include "again_inside.h"

static bool read_tensor(operands *o, void *tensor) {
    operand one;
    int64_t *extents, *strides;
    bool is_read = !torch.get_data_ptr(tensor, &one.address) && !torch.get_dim(tensor, &one.axes) &&
                   !torch.get_sizes(tensor, &extents) && !torch.get_strides(tensor, &strides) &&
                   !torch.get_dtype(tensor, &one.type) &&
                   !torch.get_device_type(tensor, &one.device_type) &&
                   !torch.get_device_index(tensor, &one.device);
    one.extents = extents, one.strides = strides;
    return is_read && operands_add(o, &one);
}

static bool read_operands(operands *o, const again_value *stack, uint64_t inputs) {
    operands_begin(o, (int64_t)stack[inputs - 2], (int64_t)stack[inputs - 1]);
    for (uint64_t i = 0; i + 2 < inputs; i++)
        if (!read_tensor(o, (void *)(uintptr_t)stack[i])) return false;
    return true;
}

/* again3(Tensor t0, Tensor t1, Tensor t2, int call, int total_keys) -> (Tensor, Tensor, Tensor,
 * Tensor), and so on: results that are not there are tensors without a value, which Python sees as
 * None.
 */
static void again(again_value *stack, uint64_t inputs, uint64_t outputs) {
    operands o;
    void *results[AGAIN_RESULTS] = {0};
    (void)outputs;
    if (read_operands(&o, stack, inputs)) again_make(&o, results);
    for (uint64_t i = 0; i + 2 < inputs; i++)
        torch.delete_tensor_object((void *)(uintptr_t)stack[i]);
    for (int32_t i = 0; i < AGAIN_RESULTS; i++) {
        if (!results[i]) torch.new_uninitialized_tensor(&results[i]);
        stack[i] = (again_value)(uintptr_t)results[i];
    }
}

bool flashtl_again_register(void *const *libraries, int32_t library_count, const char *key) {
    void *library;
    bool is_done = again_open(libraries, library_count) &&
                   !torch.library_init_impl("flashtl", key, "again_operator.c", 1, &library);
    for (int32_t count = 2; count <= AGAIN_TENSORS_MOST && is_done; count++) {
        char name[] = "again00";
        name[5] = (char)('0' + count / 10), name[6] = (char)('0' + count % 10);
        is_done = !torch.library_impl(library, name, again);
    }
    return is_done;
}
