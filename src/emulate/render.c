/* Results as text, in clang's manner, and as JSON. */
#include "base/json.h"
#include "emulate/emulate.h"

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

static json_t *place_json(json_writer *w, const emulate_place *place, str source_name) {
    json_t *frames = json_array();
    for (int i = place->frame_count - 1; i >= 0; i--) {
        const emulate_frame *f = &place->frames[i];
        json_t *frame = json_object();
        json_put(w, frame, "file", json_from(f->file.length ? f->file : source_name));
        json_put(w, frame, "line", json_integer(f->line));
        if (f->function.length) json_put(w, frame, "function", json_from(f->function));
        json_add(w, frames, frame);
    }
    json_t *object = json_object();
    json_put(w, object, "frames", frames);
    json_put(w, object, "ptx_line", json_integer(place->ptx_line));
    json_put(w, object, "opcode", json_from(place->opcode));
    return object;
}

static json_t *finding_json(json_writer *w, const emulate_finding *f, str source_name) {
    json_t *object = json_object();
    json_put(w, object, "kind", json_string(emulate_kind_name(f->kind)));
    json_put(w, object, "message", json_string(sentences[f->kind]));
    json_put(w, object, "detail", json_from(f->detail));
    if (f->place.frame_count) json_put(w, object, "place", place_json(w, &f->place, source_name));
    if (f->has_other) {
        json_put(w, object, "note", json_from(f->note));
        json_put(w, object, "other", place_json(w, &f->other, source_name));
    }
    json_t *block = json_array();
    for (int i = 0; i < 3; i++) json_add(w, block, json_integer(f->block[i]));
    json_put(w, object, "block", block);
    if (f->warp >= 0) json_put(w, object, "warp", json_integer(f->warp));
    if (f->lane >= 0) json_put(w, object, "lane", json_integer(f->lane));
    json_put(w, object, "count", json_integer((json_int_t)f->count));
    return object;
}

static json_t *traffic_json(json_writer *w, const emulate_traffic *t, str source_name) {
    json_t *object = json_object();
    json_put(w, object, "place", place_json(w, &t->place, source_name));
    json_put(w, object, "space", json_from(t->space));
    json_put(w, object, "bytes_per_lane", json_integer(t->bytes_per_lane));
    json_put(w, object, "executed", json_integer((json_int_t)t->executed));
    json_put(w, object, "wavefronts", json_integer((json_int_t)t->wavefronts));
    json_put(w, object, "least_wavefronts", json_integer((json_int_t)t->least_wavefronts));
    json_put(w, object, "sectors", json_integer((json_int_t)t->sectors));
    json_put(w, object, "least_sectors", json_integer((json_int_t)t->least_sectors));
    return object;
}

static void add_opcode(json_writer *w, json_t *object, str opcode, json_t *count) {
    char key[128];
    size_t length = opcode.length < sizeof key ? opcode.length : sizeof key - 1;
    memcpy(key, opcode.data, length);
    key[length] = '\0';
    json_put(w, object, key, count);
}

void emulate_render_json(const emulate_result *result, str source_name, text_buffer *out) {
    static const char *const outcomes[] = {"clean", "found", "refused"};
    json_t *root = json_object(), *findings = json_array(), *traffic = json_array();
    json_t *opcodes = json_object();
    json_writer writer = {0}, *w = &writer;
    json_put(w, root, "outcome", json_string(outcomes[result->outcome]));
    if (result->outcome == EMULATE_REFUSED)
        json_put(w, root, "refusal", json_from(result->refusal));
    for (int i = 0; i < result->finding_count; i++)
        json_add(w, findings, finding_json(w, &result->findings[i], source_name));
    for (int i = 0; i < result->traffic_count; i++)
        json_add(w, traffic, traffic_json(w, &result->traffic[i], source_name));
    for (int i = 0; i < result->opcode_count; i++) {
        const emulate_opcode_count *o = &result->opcodes[i];
        add_opcode(w, opcodes, o->opcode, json_integer((json_int_t)o->executed));
    }
    json_put(w, root, "findings", findings);
    json_put(w, root, "traffic", traffic);
    json_put(w, root, "opcodes", opcodes);
    json_put(w, root, "blocks", json_integer((json_int_t)result->blocks_run));
    json_put(w, root, "instructions", json_integer((json_int_t)result->instructions));
    json_write_line(w, root, JSON_COMPACT, out);
    json_decref(root);
}
