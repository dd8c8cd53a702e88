/* What the files of the compile layer share. */
#ifndef FLASHTL_COMPILE_COMPILE_H
#define FLASHTL_COMPILE_COMPILE_H

#include "check/check.h"
#include "compile/context.h"
#include "flashtl/flashtl.h"
#include "gpu/gpu.h"
#include "tl/names.h"
#include "tl/tl.h"

/* Hands a buffer's text over to the caller of the API; NO_MEMORY when it had failed. */
ftl_status compile_hand_over(ftl_context *context, text_buffer *text, char **out);

/* Runs 'work' with the context's arena guarded: the one place where running out of memory ends.
 * 'work' holds nothing but what is in the arena and text buffers that the caller frees.
 */
typedef ftl_status compile_work(ftl_context *context, void *arguments);
ftl_status compile_guarded(ftl_context *context, compile_work *work, void *arguments);

/* The same of work that writes a text, which is then handed over. */
ftl_status compile_to_text(ftl_context *context, compile_work *work, void *arguments,
                           text_buffer *text, char **out);

/* REJECTED when the context's diagnostics hold an error, else OK. */
ftl_status compile_verdict(ftl_context *context);

/* Copies the source into the context, so that diagnostics can show it later, and parses it. */
tl_program *compile_read(ftl_context *context, const ftl_source *source);

/* Reads and binds; NULL when an error was reported. */
tl_program *compile_bind(ftl_context *context, const ftl_source *source);

/* Judges a bound program, a sketch or TL Code, as ftl_check does. 'given' are lengths that a
 * request fixes; NULL: none.
 */
ftl_status compile_check(ftl_context *context, tl_program *program, const char *gpu_name,
                         const check_lengths *given);

/* Has a list from outside as many entries as it says, and each of them its texts? */
bool compile_is_list(const char *const *items, int32_t count);
bool compile_is_pin_list(const ftl_pin *items, int32_t count);

tl_type compile_type(ftl_type type); /* TL_OPEN: there is none */

/* The lengths among the pins. */
check_lengths compile_lengths(arena *memory, const ftl_options *options);

/* INVALID_ARGUMENT with one sentence where a pin of the options is no number, said twice, or about
 * nothing that the bound program has.
 */
ftl_status compile_check_pins(ftl_context *context, const tl_program *program,
                              const ftl_options *options);

/* The caller's options, those of an earlier or later version of the library as this one knows them.
 * INVALID_ARGUMENT with one sentence where they are null, were not begun with FTL_OPTIONS_INIT, use
 * fields that this version lacks, or name a type that is none.
 */
ftl_status compile_take_options(ftl_context *context, const ftl_options *options, ftl_options *out);

/* The GPU of a kernel of TL Code: 'name' where given, else what the kernel says. A kernel that says
 * none, or one that nobody knows, is an error at the kernel.
 */
ftl_status compile_gpu_of(ftl_context *context, const tl_kernel *kernel, const char *name,
                          gpu *out);

/* The same where a kernel need not say one; *known is then NULL, else 'target'. */
ftl_status compile_gpu_if_said(ftl_context *context, const tl_kernel *kernel, const char *name,
                               gpu *target, const gpu **known);

/* Finds a GPU. OK; NOT_FOUND or NO_FILE with one sentence; REJECTED with the problems of its
 * description as diagnostics.
 */
ftl_status compile_find_gpu(ftl_context *context, const char *name, gpu *out);

/* The decisions that the reasoner takes for a sketch, as text. */
ftl_status compile_explain_sketch(ftl_context *context, const ftl_source *source,
                                  const ftl_options *options, char **text);

/* What the CUDA text does at a statement of TL Code for the sake of order, in words; false where
 * that is nothing.
 */
bool compile_describe_sync(const check_sync *sync, text_buffer *line);

#endif
