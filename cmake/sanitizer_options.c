/* How sanitized builds run by default; ASAN_OPTIONS goes over it.
 *
 * Where a library that was opened (NVRTC) has thread-local memory, LeakSanitizer takes that
 * memory's size from what stands before it in the heap, which glibc does not promise: it scans a
 * range that is none, and ends the process.
 */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void) {
    return "intercept_tls_get_addr=0";
}
