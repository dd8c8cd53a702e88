"""The structs and values of include/flashtl as ctypes has them. Fields bear the headers' names: python/tests compares them."""
import ctypes as c

AXES_MAX = 8
DIAGNOSTICS_TEXT, DIAGNOSTICS_JSON = 1, 3
EXACT = 1  # of ftl_arithmetic
INPUT, OUTPUT = 1, 2  # of ftl_tensor_role
TYPES = {"f16": 1, "bf16": 2, "f32": 3, "e4m3": 4, "e5m2": 5, "i32": 6, "i8": 7, "i4": 8, "u4": 9}
BITS = {"f16": 16, "bf16": 16, "f32": 32, "e4m3": 8, "e5m2": 8, "i32": 32, "i8": 8, "i4": 4, "u4": 4}
OK, REJECTED, INVALID_ARGUMENT, CHECK_FAILED = 0, 1, 2, 5


class ftl_source(c.Structure):
    _fields_ = [("name", c.c_char_p), ("text", c.c_char_p), ("length", c.c_size_t)]


class ftl_pin(c.Structure):
    _fields_ = [("name", c.c_char_p), ("value", c.c_char_p)]


class ftl_options(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("gpu", c.c_char_p), ("dtype", c.c_int), ("pins", c.POINTER(ftl_pin)),
                ("pin_count", c.c_int32), ("stop_after", c.c_char_p), ("measured", c.c_char_p), ("entry", c.c_char_p)]


class ftl_formula(c.Structure):
    _fields_ = [("text", c.c_char_p), ("steps", c.c_void_p), ("step_count", c.c_int32)]


class ftl_plan_axis(c.Structure):
    _fields_ = [("name", c.c_char_p), ("extent", ftl_formula), ("size", c.c_int32), ("stride_offset", c.c_int32),
                ("is_stride_short", c.c_bool)]


class ftl_plan_tensor(c.Structure):
    _fields_ = [("name", c.c_char_p), ("type", c.c_int), ("role", c.c_int), ("axes", ftl_plan_axis * AXES_MAX),
                ("axis_count", c.c_int32), ("pointer_offset", c.c_int32), ("alignment_bytes", c.c_int32), ("use", c.c_int),
                ("limit", ftl_formula), ("is_distinct", c.c_bool), ("is_sum", c.c_bool), ("is_kept", c.c_bool)]


class ftl_plan_size(c.Structure):
    _fields_ = [("name", c.c_char_p), ("offset", c.c_int32)]


class ftl_plan_scalar(c.Structure):
    _fields_ = [("name", c.c_char_p), ("type", c.c_int), ("offset", c.c_int32)]


class ftl_plan(c.Structure):  # its beginning
    _fields_ = [("kernel", c.c_char_p), ("entry", c.c_char_p), ("gpu", c.c_char_p), ("target", c.c_char_p),
                ("threads", c.c_int32), ("shared_bytes", c.c_int32), ("blocks_per_sm", c.c_int32),
                ("parameter_bytes", c.c_int32), ("tensors", c.POINTER(ftl_plan_tensor)), ("tensor_count", c.c_int32),
                ("sizes", c.POINTER(ftl_plan_size)), ("size_count", c.c_int32), ("scalars", c.POINTER(ftl_plan_scalar)),
                ("scalar_count", c.c_int32)]


class ftl_kernel(c.Structure):
    _fields_ = [("cuda", c.c_char_p), ("plan", c.POINTER(ftl_plan))]


class ftl_product(c.Structure):
    _fields_ = [("sketch", c.c_char_p), ("code", c.c_char_p), ("reasons", c.c_char_p), ("predicted_tflops", c.c_double),
                ("kernels", c.POINTER(ftl_kernel)), ("kernel_count", c.c_int32)]


class ftl_tensor(c.Structure):
    _fields_ = [("name", c.c_char_p), ("address", c.c_uint64), ("type", c.c_int), ("extents", c.c_int64 * AXES_MAX),
                ("strides", c.c_int64 * AXES_MAX), ("axis_count", c.c_int32)]


class ftl_scalar(c.Structure):
    _fields_ = [("name", c.c_char_p), ("value", c.c_double)]


class ftl_arguments(c.Structure):
    _fields_ = [("tensors", c.POINTER(ftl_tensor)), ("tensor_count", c.c_int32), ("scalars", c.POINTER(ftl_scalar)),
                ("scalar_count", c.c_int32)]


class ftl_emulation(c.Structure):
    _fields_ = [("finding_count", c.c_int32), ("findings", c.c_char_p), ("statistics", c.c_char_p), ("json", c.c_char_p),
                ("instructions", c.c_uint64), ("blocks", c.c_uint64), ("wavefronts", c.c_uint64),
                ("least_wavefronts", c.c_uint64)]


class ftl_image(c.Structure):
    _fields_ = [("kind", c.c_int), ("bytes", c.c_void_p), ("length", c.c_size_t), ("ptx", c.c_void_p), ("log", c.c_void_p),
                ("registers", c.c_int32), ("spill_bytes", c.c_int32), ("stack_bytes", c.c_int32), ("compiler", c.c_char * 64)]


class ftl_runtime_options(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("cuda_library", c.c_char_p), ("nvrtc_library", c.c_char_p),
                ("cache_folder", c.c_char_p), ("is_unverified", c.c_bool)]


class ftl_device(c.Structure):
    _fields_ = [("name", c.c_char * 128), ("major", c.c_int32), ("minor", c.c_int32), ("multiprocessors", c.c_int32),
                ("driver_version", c.c_int32), ("memory_bytes", c.c_int64), ("l2_bytes", c.c_int64)]


class ftl_gpu(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("name", c.c_char * 64), ("title", c.c_char * 64), ("target", c.c_char * 32),
                ("capability", c.c_int32), ("multiprocessors", c.c_int32), ("shared_bytes", c.c_int64),
                ("l2_bytes", c.c_int64), ("memory_gb_per_s", c.c_double), ("tensor_tflops", c.c_double),
                ("mma_tflops", c.c_double)]


class ftl_attention_tensor(c.Structure):
    _fields_ = [("address", c.c_uint64), ("batch_stride", c.c_int64), ("length_stride", c.c_int64), ("head_stride", c.c_int64)]


class ftl_attention(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("dtype", c.c_int), ("batch", c.c_int64), ("q_len", c.c_int64),
                ("kv_len", c.c_int64), ("q_heads", c.c_int64), ("kv_heads", c.c_int64), ("head_dim", c.c_int64),
                ("value_dim", c.c_int64), ("q", ftl_attention_tensor), ("k", ftl_attention_tensor),
                ("v", ftl_attention_tensor), ("o", ftl_attention_tensor), ("lse", ftl_attention_tensor),
                ("alibi_slopes", c.c_uint64), ("scale", c.c_double), ("causal", c.c_bool), ("window", c.c_int32),
                ("softcap", c.c_double)]


class ftl_nsa(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("dtype", c.c_int), ("batch", c.c_int64), ("q_len", c.c_int64), ("kv_len", c.c_int64),
                ("q_heads", c.c_int64), ("kv_heads", c.c_int64), ("head_dim", c.c_int64), ("value_dim", c.c_int64),
                ("q", ftl_attention_tensor), ("k", ftl_attention_tensor), ("v", ftl_attention_tensor), ("o", ftl_attention_tensor),
                ("gate_mean", ftl_attention_tensor), ("gate_chosen", ftl_attention_tensor), ("gate_near", ftl_attention_tensor),
                ("k_mean", ftl_attention_tensor), ("v_mean", ftl_attention_tensor), ("mean_blocks", c.c_int64), ("top", c.c_int32),
                ("window", c.c_int32), ("quad", c.c_int32), ("scale", c.c_double), ("workspace", c.c_uint64),
                ("workspace_bytes", c.c_size_t)]


class ftl_pages(c.Structure):
    _fields_ = [("page_len", c.c_int64), ("count", c.c_int64), ("table", c.c_uint64), ("columns", c.c_int64), ("stride", c.c_int64)]


class ftl_scoring(c.Structure):
    _fields_ = [("sinks", c.c_uint64), ("alibi_slopes", c.c_uint64), ("bias", c.c_uint64), ("bias_batch_stride", c.c_int64),
                ("bias_head_stride", c.c_int64), ("bias_query_stride", c.c_int64), ("bias_columns", c.c_int64),
                ("padding", c.c_uint64), ("window_before", c.c_int32), ("window_after", c.c_int32), ("chunk", c.c_int32)]


class ftl_varlen(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("dtype", c.c_int), ("batch", c.c_int64), ("q_tokens", c.c_int64),
                ("kv_tokens", c.c_int64), ("max_q_len", c.c_int64), ("q_heads", c.c_int64), ("kv_heads", c.c_int64),
                ("head_dim", c.c_int64), ("value_dim", c.c_int64), ("q", ftl_attention_tensor), ("k", ftl_attention_tensor),
                ("v", ftl_attention_tensor), ("o", ftl_attention_tensor), ("lse", ftl_attention_tensor), ("q_start", c.c_uint64),
                ("kv_start", c.c_uint64), ("q_used", c.c_uint64), ("kv_used", c.c_uint64), ("pages", ftl_pages),
                ("scale", c.c_double), ("causal", c.c_bool), ("is_first", c.c_bool), ("window", c.c_int32),
                ("softcap", c.c_double), ("scoring", ftl_scoring)]


class ftl_decode(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("dtype", c.c_int), ("batch", c.c_int64), ("q_len", c.c_int64),
                ("q_heads", c.c_int64), ("kv_heads", c.c_int64), ("head_dim", c.c_int64), ("value_dim", c.c_int64),
                ("q", ftl_attention_tensor), ("k", ftl_attention_tensor), ("v", ftl_attention_tensor),
                ("o", ftl_attention_tensor), ("lse", ftl_attention_tensor), ("pages", ftl_pages), ("kv_lens", c.c_uint64),
                ("workspace", c.c_uint64), ("workspace_bytes", c.c_size_t), ("scale", c.c_double), ("causal", c.c_bool),
                ("window", c.c_int32), ("softcap", c.c_double), ("scoring", ftl_scoring),
                ("total_keys", c.c_int64)]


class ftl_append(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("dtype", c.c_int), ("tokens", c.c_int64), ("q_heads", c.c_int64),
                ("kv_heads", c.c_int64), ("head_dim", c.c_int64), ("value_dim", c.c_int64), ("q", ftl_attention_tensor),
                ("q_rotated", ftl_attention_tensor), ("k", ftl_attention_tensor), ("v", ftl_attention_tensor),
                ("k_pool", ftl_attention_tensor), ("v_pool", ftl_attention_tensor), ("page_len", c.c_int64), ("pages", c.c_int64),
                ("slots", c.c_uint64), ("rotary_dim", c.c_int64), ("is_interleaved", c.c_bool), ("cosine", c.c_uint64),
                ("sine", c.c_uint64), ("angle_stride", c.c_int64), ("places_count", c.c_int64), ("places", c.c_uint64)]


class ftl_mla(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("dtype", c.c_int), ("batch", c.c_int64), ("q_len", c.c_int64), ("heads", c.c_int64),
                ("head_dim", c.c_int64), ("value_dim", c.c_int64), ("q", ftl_attention_tensor), ("cache", ftl_attention_tensor),
                ("o", ftl_attention_tensor), ("lse", ftl_attention_tensor), ("pages", ftl_pages), ("kv_lens", c.c_uint64),
                ("workspace", c.c_uint64), ("workspace_bytes", c.c_size_t), ("scale", c.c_double), ("causal", c.c_bool),
                ("total_keys", c.c_int64)]


# --- python/again.h ------------------------------------------------------------------------------------------------------

class again_output(c.Structure):
    _fields_ = [("extents", c.c_int64 * AXES_MAX), ("strides", c.c_int64 * AXES_MAX), ("axis_count", c.c_int32), ("type", c.c_int32),
                ("result", c.c_int32), ("is_zero", c.c_bool)]


class again_address(c.Structure):
    _fields_ = [("offset", c.c_int32), ("source", c.c_int32), ("delta", c.c_int64)]


class again_launch(c.Structure):
    _fields_ = [("bytes", c.c_void_p), ("byte_count", c.c_size_t), ("addresses", c.POINTER(again_address)), ("module", c.c_void_p),
                ("address_count", c.c_int32), ("kind", c.c_int32), ("tensor_count", c.c_int32), ("scalar_count", c.c_int32)]


class again_call(c.Structure):
    _fields_ = [("outputs", c.POINTER(again_output)), ("launches", c.POINTER(again_launch)), ("runtime", c.c_void_p),
                ("output_count", c.c_int32), ("launch_count", c.c_int32), ("same", c.c_int32 * 12)]


class again_objects(c.Structure):
    _fields_ = [(name, c.py_object) for name in ("numbers", "tensor", "parameter", "is_neg", "modes", "transforms", "forward", "level",
                                                 "requires_grad", "integer", "none", "no")]
