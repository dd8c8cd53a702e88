# A sample of emitted kernels through NVIDIA's own compiler; 3: nvcc is not here.
add_test(NAME compile_sample
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/compile_all.py
                 --binary $<TARGET_FILE:flashtl> --jobs 2)
set_tests_properties(compile_sample PROPERTIES LABELS "exec;slow" SKIP_RETURN_CODE 3)

# tanh where all arguments of a warp are small, where some are not, and where they are large: three
# ways of one kernel for warpgroups.
foreach(cap 60 12 2)
    add_test(NAME near_softcap_${cap}
             COMMAND flashtl verify --op attention --softcap ${cap} --head-dim 64 --gpu h200 --on emulator
                     --case 0..3)
    set_tests_properties(near_softcap_${cap} PROPERTIES LABELS exec)
endforeach()

# The functions of kernels, within their bounds; 77: NumPy or a CUDA compiler is not here.
add_test(NAME functions
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/functions.py $<TARGET_FILE:flashtl>)
set_tests_properties(functions PROPERTIES LABELS exec SKIP_RETURN_CODE 77)

# Extremes pass over NaN; 77: NumPy or a CUDA compiler is not here.
add_test(NAME not_a_number
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/not_a_number.py $<TARGET_FILE:flashtl>)
set_tests_properties(not_a_number PROPERTIES LABELS exec SKIP_RETURN_CODE 77)

# Products into tiles whose values the compiler knows, or knows to be another tile's: it would write
# them after the fence.
foreach(fence clamped filled masked copied added)
    add_test(NAME fence_${fence}
             COMMAND flashtl verify ${CMAKE_CURRENT_LIST_DIR}/fences/${fence}.tl --gpu h200 --let d=32
                     --on emulator --case 0..2)
    set_tests_properties(fence_${fence} PROPERTIES LABELS exec)
endforeach()
add_test(NAME fence_chosen
         COMMAND flashtl verify ${CMAKE_CURRENT_LIST_DIR}/fences/chosen.tl --gpu h200 --let d=128 --let dv=24
                 --on emulator --case 0..2)
set_tests_properties(fence_chosen PROPERTIES LABELS exec)

# Rows that one weight dominates, or many equal ones, in bf16: what a denominator adds unrounded and
# a product takes rounded. Each of these is beyond the bound where the maximum moves only when it
# must (near_maximum=0), or where saturated scores are guarded, too.
set(peaked_cases
    "a100\;1\;156\;mla\;--causal\;--let\;d_rotary=32"
    "l40s\;1\;156\;mla\;--causal\;--let\;d_rotary=32"
    "a100\;1\;156\;attention\;--causal\;--softcap\;20"
    "a100\;2\;153\;attention\;--causal\;--softcap\;20")
foreach(peaked IN LISTS peaked_cases)
    list(POP_FRONT peaked gpu seed case)
    string(REPLACE ";" "_" name "peaked_${gpu}_${seed}_${case}_${peaked}")
    string(REGEX REPLACE "[^a-z0-9_]" "" name "${name}")
    add_test(NAME ${name}
             COMMAND flashtl verify --op ${peaked} --head-dim 64 --gpu ${gpu} --dtype bf16
                     --on interpreter --shapes all --seed ${seed} --case ${case})
    set_tests_properties(${name} PROPERTIES LABELS exec)
endforeach()

# A maximum that moves by 2^1 to 2^300, and by what a GPU makes 0 of.
add_test(NAME maximum_moves COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/moves.py $<TARGET_FILE:flashtl>)
set_tests_properties(maximum_moves PROPERTIES LABELS "exec;slow" SKIP_RETURN_CODE 77)

# Rows of which all scores, or some, lie far out, as a padding of -1e9 leaves them.
add_test(NAME far_rows COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/far_rows.py $<TARGET_FILE:flashtl>)
set_tests_properties(far_rows PROPERTIES LABELS exec SKIP_RETURN_CODE 77)

# Launches at once on a GPU, by hand: `ninja launches`, then `launches` where the GPU is.
add_executable(launches EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/launches.c)
target_link_libraries(launches PRIVATE flashtl_all)

# An engine's steps on a GPU, likewise by hand: `ninja serving`.
add_executable(serving EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/serving.c)
target_link_libraries(serving PRIVATE flashtl_all)

# Products of 8-bit floats by warpgroups; 77: NumPy or a CUDA compiler is not here.
add_test(NAME bytes_of_warpgroups
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/bytes.py $<TARGET_FILE:flashtl>)
set_tests_properties(bytes_of_warpgroups PROPERTIES LABELS "exec;slow" SKIP_RETURN_CODE 77)

# Weights on the line between powers of two beside a product and sum that are no weight's.
foreach(guard 0 1)
    add_test(NAME biased_codes_guard_${guard}
             COMMAND flashtl verify ${CMAKE_CURRENT_LIST_DIR}/bytes/biased.tl --gpu h200 --head-dim 64
                     --let linear_weights=1 --let guard=${guard} --on interpreter --case 0..5)
    set_tests_properties(biased_codes_guard_${guard} PROPERTIES LABELS exec)
endforeach()

# The same by warps: every way an operand comes to its fragments.
add_test(NAME bytes_of_warps
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/fragments.py $<TARGET_FILE:flashtl>)
set_tests_properties(bytes_of_warps PROPERTIES LABELS exec SKIP_RETURN_CODE 77)

# Every code of 4 bits through products, groups with scales and zero points; 77 likewise.
add_test(NAME four_bits
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/four_bits.py $<TARGET_FILE:flashtl>)
set_tests_properties(four_bits PROPERTIES LABELS "exec;slow" SKIP_RETURN_CODE 77)

# Elements of tensors of 8 bits and of 4 in expressions; 77 likewise.
add_test(NAME byte_elements
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/byte_elements.py $<TARGET_FILE:flashtl>)
set_tests_properties(byte_elements PROPERTIES LABELS exec SKIP_RETURN_CODE 77)

# Keys that a table names many times, in blocks that the sketch gives the size of, are rounded alike;
# one that is left out is found all the same.
add_test(NAME repeated_keys
         COMMAND flashtl verify --op nsa_selected --head-dim 64 --dtype e4m3 --gpu l40s --on interpreter --case 5)
add_test(NAME lost_keys
         COMMAND ${CMAKE_CURRENT_LIST_DIR}/lost_keys.sh $<TARGET_FILE:flashtl>)
set_tests_properties(repeated_keys lost_keys PROPERTIES LABELS "exec;slow")

# Blocks that neighbouring queries share, by a count of them.
add_test(NAME counted_blocks
         COMMAND flashtl verify --op nsa_selected --with shared --head-dim 64 --gpu h200 --on interpreter --case 6)
set_tests_properties(counted_blocks PROPERTIES LABELS exec)

# Where clang is the only compiler; 77: it is not here, or does not know GPUs.
add_test(NAME by_clang
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/by_clang.py $<TARGET_FILE:flashtl>)
set_tests_properties(by_clang PROPERTIES LABELS "exec;slow" SKIP_RETURN_CODE 77)

# Masks of many conditions: none gets lost on the way, and the bounds of the loop can still be read.
foreach(conditions conditions conditions_apart)
    foreach(gpu t4 h200)
        add_test(NAME many_${conditions}_${gpu}
                 COMMAND flashtl verify ${CMAKE_CURRENT_LIST_DIR}/odd/${conditions}.tl --gpu ${gpu} --head-dim 64
                         --on interpreter --case 3..8)
        set_tests_properties(many_${conditions}_${gpu} PROPERTIES LABELS "exec;slow")
    endforeach()
endforeach()
# Nor does any become a branch in which the compiler touches sums that products have.
foreach(type f16 bf16)
    add_test(NAME many_conditions_in_flight_${type}
             COMMAND flashtl verify ${CMAKE_CURRENT_LIST_DIR}/odd/conditions_apart.tl --gpu h200 --head-dim 64 --dtype ${type}
                     --on emulator --case 3..8)
    flashtl_case_labels(many_conditions_in_flight_${type} exec)
endforeach()
# Where no end is ragged, nothing else would miss a condition.
add_test(NAME many_conditions_whole
         COMMAND flashtl verify ${CMAKE_CURRENT_LIST_DIR}/odd/conditions.tl --gpu h200 --head-dim 64 --let kv_len=256
                 --on interpreter --case 12)
set_tests_properties(many_conditions_whole PROPERTIES LABELS exec)

# Conditions on what is the same for a whole tile, beside elements that are read only where these hold.
foreach(gpu t4 h200)
    add_test(NAME chosen_scores_${gpu}
             COMMAND flashtl verify ${CMAKE_CURRENT_LIST_DIR}/odd/chosen_scores.tl --gpu ${gpu} --head-dim 64 --let few=3
                     --on emulator --case 0..6)
    set_tests_properties(chosen_scores_${gpu} PROPERTIES LABELS exec)
endforeach()

# Indices below 0 of elements that are past the end of an axis: nothing is read, and nothing is wrong.
foreach(on interpreter emulator)
    add_test(NAME near_bias_${on}
             COMMAND flashtl verify ${CMAKE_CURRENT_LIST_DIR}/odd/near_bias.tl --gpu t4 --head-dim 64 --on ${on}
                     --shapes 1x1,99x67,65x64,33x3,40x0)
    set_tests_properties(near_bias_${on} PROPERTIES LABELS exec)
endforeach()

# A product that adds to what arithmetic reads before.
add_test(NAME added_beside_emulator
         COMMAND flashtl verify ${CMAKE_CURRENT_LIST_DIR}/../derive/added_beside.tl --gpu h200 --head-dim 64 --on emulator --shapes 33x65,129x97)
set_tests_properties(added_beside_emulator PROPERTIES LABELS exec)

# Who reports an index outside of a tensor, and where it reads 0; 77: NumPy or a CUDA compiler is not here.
add_test(NAME outside COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/outside.py $<TARGET_FILE:flashtl>)
set_tests_properties(outside PROPERTIES LABELS exec SKIP_RETURN_CODE 77)

# One table by queries and by keys: lengths are drawn so that both fit, for the sketch alone and for kernels.
set(one_table_sketch --let d=64 --let dv=64)
set(one_table_t4 --gpu t4 --head-dim 64)
set(one_table_h200 --gpu h200 --head-dim 64)
foreach(way sketch t4 h200)
    add_test(NAME one_table_${way}
             COMMAND flashtl verify ${CMAKE_CURRENT_LIST_DIR}/odd/one_table.tl ${one_table_${way}} --on interpreter --case 0..9)
    set_tests_properties(one_table_${way} PROPERTIES LABELS exec)
endforeach()

# Integers of every operator beside each other one.
foreach(gpu t4 h200)
    add_test(NAME brackets_${gpu}
             COMMAND flashtl verify ${CMAKE_CURRENT_LIST_DIR}/odd/brackets.tl --gpu ${gpu} --let d=48 --on emulator --case 0..6)
    set_tests_properties(brackets_${gpu} PROPERTIES LABELS exec)
endforeach()

# Integers on their way from fragments through shared memory.
foreach(on interpreter emulator)
    add_test(NAME integers_${on}
             COMMAND flashtl verify ${CMAKE_CURRENT_LIST_DIR}/odd/integers.tl --gpu a100 --on ${on})
    set_tests_properties(integers_${on} PROPERTIES LABELS exec)
endforeach()
# Every operation on them, and products and sums of which the reasoner makes one.
foreach(gpu t4 h200)
    add_test(NAME whole_elements_${gpu}
             COMMAND flashtl verify ${CMAKE_CURRENT_LIST_DIR}/odd/whole_elements.tl --gpu ${gpu} --let k=48 --on emulator
                     --shapes 70,1,129)
    set_tests_properties(whole_elements_${gpu} PROPERTIES LABELS exec)
endforeach()

# What the calls of flashtl/serving.h are made of, on each class of GPU: ragged batches, pages, and what goes into these.
set(serving_programs
    "varlen\;--causal\;--window\;40\;--lse\;--with\;q_used"
    "varlen\;--with\;paged\;--let\;page_len=16\;--causal\;--softcap\;20"
    "varlen\;--with\;paged\;--let\;page_len=64\;--causal\;--lse"
    "varlen\;--with\;first\;--with\;kv_used\;--window\;33"
    "decode\;--with\;page_len=16\;--with\;group=8\;--causal\;--lse"
    "varlen\;--with\;sinks\;--with\;bias\;--with\;padded\;--causal\;--lse"
    "varlen\;--with\;paged\;--let\;page_len=16\;--with\;alibi\;--with\;sides\;--with\;chunk=40"
    "decode\;--with\;page_len=16\;--with\;sinks\;--with\;bias\;--with\;padded\;--with\;sides\;--with\;chunk=40"
    "decode\;--with\;page_len=16\;--with\;stretches\;--with\;group=8\;--causal\;--lse"
    "decode\;--with\;lengths\;--with\;stretches\;--with\;sinks\;--with\;bias\;--with\;padded\;--with\;sides"
    "decode\;--with\;page_len=16\;--with\;latent\;--with\;columns=32\;--with\;group=16\;--lse"
    "paged_decode\;--with\;page_len=16\;--with\;sinks\;--with\;bias\;--causal\;--lse"
    "paged_decode\;--with\;page_len=16\;--with\;latent\;--with\;columns=32\;--with\;group=16"
    "append\;--let\;half=32\;--let\;page_len=16"
    "append\;--let\;half=16\;--let\;page_len=1\;--with\;interleaved"
    "rotate\;--let\;half=32")
foreach(program IN LISTS serving_programs)
    foreach(gpu t4 a100 l40s h200)
        string(REPLACE ";" "_" name "serving_${gpu}_${program}")
        string(REGEX REPLACE "[^a-z0-9_]" "" name "${name}")
        add_test(NAME ${name}
                 COMMAND flashtl verify --op ${program} --head-dim 64 --gpu ${gpu} --on emulator --case 5,6,11,12)
        flashtl_case_labels(${name} exec)
    endforeach()
endforeach()

# Latent values that two warpgroups share: an even and an odd number of blocks, cut ends, boxes of a page and of several.
set(shared_latent_programs
    "decode\;--with\;page_len=64\;--with\;group=128\;--lse"
    "decode\;--with\;page_len=16\;--with\;group=16\;--causal"
    "paged_decode\;--with\;page_len=128\;--with\;group=8")
foreach(dtype f16 bf16)
    foreach(program IN LISTS shared_latent_programs)
        string(REPLACE ";" "_" name "shared_latent_${program}_${dtype}")
        string(REGEX REPLACE "[^a-z0-9_]" "" name "${name}")
        add_test(NAME ${name}
                 COMMAND flashtl verify --op ${program} --with latent --with columns=320 --head-dim 384:320 --gpu h200 --dtype ${dtype}
                         --on emulator --case 0,1,2,5,6,11,12)
        flashtl_case_labels(${name} exec)
    endforeach()
endforeach()

# The same, with two sums each and values beside the keys.
add_test(NAME shared_sums
         COMMAND flashtl verify ${CMAKE_CURRENT_LIST_DIR}/odd/four_sums.tl --head-dim 64:512 --gpu h200 --on emulator
                 --let batch=1 --let heads=1 --case 0,1,2,3,6)
flashtl_case_labels(shared_sums exec)
