// A program in C++ that begins all structs of the API that can grow.
#include <flashtl/attention.h>
#include <flashtl/execute.h>
#include <flashtl/flashtl.h>

static const ftl_attention at_file_scope = FTL_ATTENTION_INIT;

int main() {
    ftl_attention attention = FTL_ATTENTION_INIT;
    ftl_options options = FTL_OPTIONS_INIT;
    ftl_gpu gpu = FTL_GPU_INIT;
    attention.dtype = FTL_F16;
    options.gpu = "a100";
    ftl_context *context = nullptr;
    bool is_right = ftl_context_new(&context) == FTL_OK &&
                    ftl_gpu_describe(context, options.gpu, &gpu) == FTL_OK && gpu.capability == 80 &&
                    at_file_scope.struct_bytes == sizeof attention && attention.scale == 0 &&
                    options.struct_bytes == sizeof options && options.pins == nullptr;
    ftl_context_free(context);
    return is_right ? 0 : 1;
}
