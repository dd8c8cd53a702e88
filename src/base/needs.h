/* The first lines of public functions: a pointer that must not be null and is. For functions
 * that return an ftl_status and have an ftl_context 'context', which may be null itself.
 */
#ifndef FLASHTL_BASE_NEEDS_H
#define FLASHTL_BASE_NEEDS_H

#define NEEDS(pointer)                                                                             \
    do {                                                                                           \
        if (!(pointer))                                                                            \
            return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "'" #pointer "' is null");      \
    } while (0)

/* The same of the context and of where the result goes, which is null until there is one. */
#define NEEDS_RESULT(result)                                                                       \
    NEEDS(context);                                                                                \
    NEEDS(result);                                                                                 \
    *(result) = NULL

#endif
