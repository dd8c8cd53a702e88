/* Members of a trace's objects; of those that are not there, "" and 0. */
#ifndef FLASHTL_VIEW_OBJECT_H
#define FLASHTL_VIEW_OBJECT_H

#include "base/json.h"

static inline const char *text_in(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static inline long long integer_in(const json_t *object, const char *key) {
    return (long long)json_integer_value(json_object_get(object, key));
}

#endif
