/* Runs a fuzz target over files where libFuzzer is not linked in: fuzz_NAME FILE... */
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        text_buffer content;
        os_error why;
        text_init(&content, 16 << 20);
        if (!os_read_file(argv[i], 16 << 20, &content, &why)) {
            fprintf(stderr, "%s\n", why.text);
            return 1;
        }
        /* A block of its own, so that the sanitizer sees its end. */
        uint8_t *data = malloc(content.length ? content.length : 1);
        if (!data) return 1;
        if (content.length) memcpy(data, content.data, content.length);
        LLVMFuzzerTestOneInput(data, content.length);
        free(data);
        text_done(&content);
    }
    return 0;
}
