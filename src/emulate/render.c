/* Results as text, in clang's manner, and as JSON. */
#include "emulate/emulate.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *const sentences[] = {
#define FINDING(id, name, sentence) sentence,
#include "emulate/findings.def"
#undef FINDING
};

static const emulate_frame *own_frame(const emulate_place *place) {
    return &place->frames[place->frame_count - 1];
}

static str short_file(str file, str source_name) {
    if (!file.length) return source_name;
    for (size_t i = file.length; i-- > 0;)
        if (file.data[i] == '/') return (str){file.data + i + 1, file.length - i - 1};
    return file;
}

static void add_position(const emulate_frame *frame, str source_name, text_buffer *out) {
    str file = short_file(frame->file, source_name);
    text_format(out, "%.*s:%d:", STR_ARGS(file), frame->line);
}

/* Which wrappers the line was reached through. */
static void add_frames(const emulate_place *place, str source_name, text_buffer *out) {
    for (int i = place->frame_count - 2; i >= 0; i--) {
        const emulate_frame *frame = &place->frames[i];
        add_position(frame, source_name, out);
        text_format(out, " note: in %.*s, inlined there\n", STR_ARGS(frame->function));
    }
}

static void add_finding(const emulate_finding *f, str source_name, text_buffer *out) {
    if (f->place.frame_count) add_position(own_frame(&f->place), source_name, out);
    else text_format(out, "%.*s:", STR_ARGS(source_name));
    text_format(out, " error: %s", sentences[f->kind]);
    if (f->detail.length) text_format(out, ": %.*s", STR_ARGS(f->detail));
    if (f->count > 1) text_format(out, "  (%llu times)", (unsigned long long)f->count);
    text_add_z(out, "\n");
    if (f->place.frame_count) add_frames(&f->place, source_name, out);
    if (!f->has_other) return;
    add_position(own_frame(&f->other), source_name, out);
    text_format(out, " note: %.*s\n", STR_ARGS(f->note));
    add_frames(&f->other, source_name, out);
}

void emulate_render_text(const emulate_result *result, str source_name, text_buffer *out) {
    if (result->outcome == EMULATE_REFUSED) {
        text_format(out, "%.*s: error: %.*s\n", STR_ARGS(source_name), STR_ARGS(result->refusal));
        return;
    }
    for (int i = 0; i < result->finding_count; i++)
        add_finding(&result->findings[i], source_name, out);
    if (result->findings_left_out)
        text_format(out, "and %llu findings at further lines\n",
                    (unsigned long long)result->findings_left_out);
}

void emulate_render_statistics(const emulate_result *result, str source_name, text_buffer *out) {
    text_format(out, "%llu blocks, %llu warp instructions\n",
                (unsigned long long)result->blocks_run, (unsigned long long)result->instructions);
    for (int i = 0; i < result->traffic_count; i++) {
        const emulate_traffic *t = &result->traffic[i];
        add_position(own_frame(&t->place), source_name, out);
        text_format(out, " %.*s: %llu times, %u bytes a lane, %.*s", STR_ARGS(t->place.opcode),
                    (unsigned long long)t->executed, t->bytes_per_lane, STR_ARGS(t->space));
        if (t->wavefronts)
            text_format(out, ", %llu wavefronts (at best %llu)", (unsigned long long)t->wavefronts,
                        (unsigned long long)t->least_wavefronts);
        if (t->sectors)
            text_format(out, ", %llu sectors (at best %llu)", (unsigned long long)t->sectors,
                        (unsigned long long)t->least_sectors);
        text_add_z(out, "\n");
    }
    for (int i = 0; i < result->opcode_count; i++)
        text_format(out, "%10llu %.*s\n", (unsigned long long)result->opcodes[i].executed,
                    STR_ARGS(result->opcodes[i].opcode));
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *text_json(str s) {
    json_t *value = json_stringn(s.length ? s.data : "", s.length);
    return value ? value : json_string("?");
}

static json_t *place_json(const emulate_place *place, str source_name) {
    json_t *frames = json_array();
    for (int i = place->frame_count - 1; i >= 0; i--) {
        const emulate_frame *f = &place->frames[i];
        json_t *frame = json_object();
        json_object_set_new(frame, "file", text_json(f->file.length ? f->file : source_name));
        json_object_set_new(frame, "line", json_integer(f->line));
        if (f->function.length) json_object_set_new(frame, "function", text_json(f->function));
        json_array_append_new(frames, frame);
    }
    json_t *object = json_object();
    json_object_set_new(object, "frames", frames);
    json_object_set_new(object, "ptx_line", json_integer(place->ptx_line));
    json_object_set_new(object, "opcode", text_json(place->opcode));
    return object;
}

static json_t *finding_json(const emulate_finding *f, str source_name) {
    json_t *object = json_object();
    json_object_set_new(object, "kind", json_string(emulate_kind_name(f->kind)));
    json_object_set_new(object, "message", json_string(sentences[f->kind]));
    json_object_set_new(object, "detail", text_json(f->detail));
    if (f->place.frame_count)
        json_object_set_new(object, "place", place_json(&f->place, source_name));
    if (f->has_other) {
        json_object_set_new(object, "note", text_json(f->note));
        json_object_set_new(object, "other", place_json(&f->other, source_name));
    }
    json_t *block = json_array();
    for (int i = 0; i < 3; i++) json_array_append_new(block, json_integer(f->block[i]));
    json_object_set_new(object, "block", block);
    if (f->warp >= 0) json_object_set_new(object, "warp", json_integer(f->warp));
    if (f->lane >= 0) json_object_set_new(object, "lane", json_integer(f->lane));
    json_object_set_new(object, "count", json_integer((json_int_t)f->count));
    return object;
}

static json_t *traffic_json(const emulate_traffic *t, str source_name) {
    json_t *object = json_object();
    json_object_set_new(object, "place", place_json(&t->place, source_name));
    json_object_set_new(object, "space", text_json(t->space));
    json_object_set_new(object, "bytes_per_lane", json_integer(t->bytes_per_lane));
    json_object_set_new(object, "executed", json_integer((json_int_t)t->executed));
    json_object_set_new(object, "wavefronts", json_integer((json_int_t)t->wavefronts));
    json_object_set_new(object, "least_wavefronts", json_integer((json_int_t)t->least_wavefronts));
    json_object_set_new(object, "sectors", json_integer((json_int_t)t->sectors));
    json_object_set_new(object, "least_sectors", json_integer((json_int_t)t->least_sectors));
    return object;
}

static void add_opcode(json_t *object, str opcode, json_t *count) {
    char key[128];
    size_t length = opcode.length < sizeof key ? opcode.length : sizeof key - 1;
    memcpy(key, opcode.data, length);
    key[length] = '\0';
    json_object_set_new(object, key, count);
}

void emulate_render_json(const emulate_result *result, str source_name, text_buffer *out) {
    static const char *const outcomes[] = {"clean", "found", "refused"};
    json_t *root = json_object(), *findings = json_array(), *traffic = json_array();
    json_t *opcodes = json_object();
    json_object_set_new(root, "outcome", json_string(outcomes[result->outcome]));
    if (result->outcome == EMULATE_REFUSED)
        json_object_set_new(root, "refusal", text_json(result->refusal));
    for (int i = 0; i < result->finding_count; i++)
        json_array_append_new(findings, finding_json(&result->findings[i], source_name));
    for (int i = 0; i < result->traffic_count; i++)
        json_array_append_new(traffic, traffic_json(&result->traffic[i], source_name));
    for (int i = 0; i < result->opcode_count; i++) {
        const emulate_opcode_count *o = &result->opcodes[i];
        add_opcode(opcodes, o->opcode, json_integer((json_int_t)o->executed));
    }
    json_object_set_new(root, "findings", findings);
    json_object_set_new(root, "traffic", traffic);
    json_object_set_new(root, "opcodes", opcodes);
    json_object_set_new(root, "blocks", json_integer((json_int_t)result->blocks_run));
    json_object_set_new(root, "instructions", json_integer((json_int_t)result->instructions));
    char *dump = json_dumps(root, JSON_COMPACT);
    if (dump) text_add_z(out, dump);
    text_add_z(out, "\n");
    free(dump);
    json_decref(root);
}
