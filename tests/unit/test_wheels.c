#define _POSIX_C_SOURCE 200809L /* setenv, symlink */
/* NVRTC in folders laid out as pip lays them out. */
#include "runtime/wheels.h"

#include "base/os.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

static char folder[256];

static int setup(void **state) {
    (void)state;
    os_error why;
    assert_true(os_temporary_folder(folder, &why));
    assert_int_equal(setenv("HOME", folder, 1), 0);
    assert_int_equal(setenv("PATH", folder, 1), 0);
    unsetenv("VIRTUAL_ENV");
    unsetenv("PYTHONUSERBASE");
    return 0;
}

static int teardown(void **state) {
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "/bin/rm -r '%s'", folder);
    return system(command);
}

static void put(const char *place, const char *name) {
    char command[1200];
    snprintf(command, sizeof command, "/bin/mkdir -p '%s/%s' && : > '%s/%s/%s'", folder, place,
             folder, place, name);
    assert_int_equal(system(command), 0);
}

static void finds(const char *expected) {
    char path[1024] = "", whole[600];
    bool is_found = wheels_find_nvrtc(path, sizeof path);
    if (!expected) { /* the system's own packages are nobody's affair here */
        assert_true(!is_found || strncmp(path, folder, strlen(folder)) != 0);
        return;
    }
    snprintf(whole, sizeof whole, "%s/%s", folder, expected);
    assert_string_equal(path, whole);
}

static void nothing_is_there(void **state) {
    (void)state;
    put("venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib", "libnvrtc-builtins.so.12.9");
    put("venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib", "libnvrtc.alt.so.12");
    char venv[400];
    snprintf(venv, sizeof venv, "%s/venv", folder);
    setenv("VIRTUAL_ENV", venv, 1);
    finds(NULL);
    setenv("VIRTUAL_ENV", "venv", 1); /* no place of the current folder is searched */
    finds(NULL);
}

static void newest_of_an_environment(void **state) {
    (void)state;
    char venv[400];
    put("a [b]*/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib", "libnvrtc.so.12");
    put("a [b]*/lib/python3.11/site-packages/nvidia/cu13/lib", "libnvrtc.so.13");
    put("a [b]*/lib/python3.11/site-packages/nvidia/old/lib", "libnvrtc.so.9");
    put(".local/lib/python3.11/site-packages/nvidia/cu14/lib", "libnvrtc.so.14");
    snprintf(venv, sizeof venv, "%s/a [b]*", folder);
    setenv("VIRTUAL_ENV", venv, 1);
    finds("a [b]*/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13");
    setenv("VIRTUAL_ENV", "", 1);
    finds(".local/lib/python3.11/site-packages/nvidia/cu14/lib/libnvrtc.so.14");
}

static void python_on_the_path(void **state) {
    (void)state;
    char path[1400], from[400], to[400];
    put("real/bin", "python3.13");
    put("real/lib/python3.13/site-packages/nvidia/cu13/lib", "libnvrtc.so.13");
    put("linked/bin", "other");
    snprintf(from, sizeof from, "%s/real/bin/python3.13", folder);
    snprintf(to, sizeof to, "%s/linked/bin/python3", folder);
    assert_int_equal(symlink(from, to), 0);
    snprintf(path, sizeof path, ":relative/bin:%s/none:%s/linked/bin:", folder, folder);
    setenv("PATH", path, 1);
    finds("real/lib/python3.13/site-packages/nvidia/cu13/lib/libnvrtc.so.13");
    put("linked/lib/python3.13/site-packages/nvidia/cuda_nvrtc/lib", "libnvrtc.so.12");
    finds("linked/lib/python3.13/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
}

/* Folders of shims: no Python is where the name is. */
static void shims_of_managers(void **state) {
    (void)state;
    char path[900];
    put("pyenv [1]/shims", "python3");
    put("pyenv [1]/versions/3.11.2/bin", "python3");
    put("asdf/shims", "python3");
    snprintf(path, sizeof path, "%s/pyenv [1]/shims:%s/asdf/shims", folder, folder);
    setenv("PATH", path, 1);
    finds(NULL);
    put("asdf/installs/python/3.12.1/lib/python3.12/site-packages/nvidia/cu13/lib",
        "libnvrtc.so.13");
    finds(
        "asdf/installs/python/3.12.1/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13");
    put("pyenv [1]/versions/3.11.2/lib/python3.11/site-packages/nvidia/cu12/lib", "libnvrtc.so.12");
    put("pyenv [1]/versions/3.9.1/lib/python3.9/site-packages/nvidia/cu11/lib", "libnvrtc.so.11");
    finds("pyenv [1]/versions/3.11.2/lib/python3.11/site-packages/nvidia/cu12/lib/libnvrtc.so.12");
}

static void base_of_the_user(void **state) {
    (void)state;
    char base[400];
    put("base/lib/python3.11/site-packages/nvidia/cu13/lib", "libnvrtc.so.13");
    snprintf(base, sizeof base, "%s/base", folder);
    setenv("PYTHONUSERBASE", base, 1);
    finds("base/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13");
    char room[20];
    assert_false(wheels_find_nvrtc(room, sizeof room)); /* a path that does not fit is none */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_there, setup, teardown),
        cmocka_unit_test_setup_teardown(newest_of_an_environment, setup, teardown),
        cmocka_unit_test_setup_teardown(python_on_the_path, setup, teardown),
        cmocka_unit_test_setup_teardown(shims_of_managers, setup, teardown),
        cmocka_unit_test_setup_teardown(base_of_the_user, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
