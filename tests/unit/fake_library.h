/* The fake driver, compiler and cuDNN of tests/fake_cuda, as a test finds their records. */
#ifndef TESTS_FAKE_LIBRARY_H
#define TESTS_FAKE_LIBRARY_H

#include "base/os.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void *record_of(const char *library, const char *symbol) {
    const char *names[] = {library, NULL};
    os_error why;
    void *handle = os_library_open(names, &why);
    assert_non_null(handle);
    void *record = os_library_symbol(handle, symbol);
    assert_non_null(record);
    return record;
}

#endif
