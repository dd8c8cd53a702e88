/* What the database knows, as texts: for the reasoner, and for people. */
#include "tune/tune.h"

#include <string.h>

static ftl_status failure(ftl_context *context, store *database) {
    ftl_status status = ftl_context_fail(context, FTL_NO_FILE, "%s", store_error(database));
    store_close(database);
    return status;
}

static ftl_status open_database(ftl_context *context, const char *path, store **out) {
    os_error why;
    if (store_open(path, out, &why)) return FTL_OK;
    return ftl_context_fail(context, FTL_NO_FILE, "%s", why.text);
}

static void add_entry(void *user, const store_best *best) {
    text_buffer *out = user;
    const store_row *row = best->row;
    text_format(out, "problem %s # %s\n  pins %s\n  measured ", best->problem, best->title,
                row->decided);
    if (row->tflops > 1e-6) {
        text_format(out, "%.1f TFLOPS, the model's choice %.1f", row->tflops, row->model_tflops);
    }
    text_format(out, " (%.3f times as fast in turns); rounds spread by %.1f %%; %s; %s; %s\n",
                row->ratio, row->spread * 100, best->cases, best->device, best->software);
}

ftl_status tune_export(ftl_context *context, const char *path, const char *gpu, text_buffer *out) {
    store *database = NULL;
    ftl_status status = open_database(context, path, &database);
    if (status) return status;
    text_format(out,
                "# Decisions measured by `flashtl tune` for %s, which writes these entries"
                " (docs/tuning.md).\n",
                gpu);
    if (!store_each_best(database, gpu, add_entry, out)) return failure(context, database);
    store_close(database);
    return FTL_OK;
}

typedef struct listing {
    text_buffer *out;
    int left;
    int counts[STORE_STATE_COUNT];
} listing;

static void add_row(void *user, const store_row *row) {
    listing *l = user;
    l->counts[row->state]++;
    if (row->state != STORE_MEASURED || l->left-- <= 0) return;
    text_format(l->out, "| %s | %.3f | %.0f | %.1f %% | %d | %d |\n",
                row->pins[0] ? row->pins : "(the model's choice)", row->ratio, row->tflops,
                row->spread * 100, row->registers, row->shared_bytes);
}

ftl_status tune_report(ftl_context *context, const char *path, const char *gpu, const char *problem,
                       int most, text_buffer *out) {
    store *database = NULL;
    ftl_status status = open_database(context, path, &database);
    if (status) return status;
    listing l = {.out = out, .left = most};
    text_add_z(out, "| decisions beside the model's | times the model's speed | TFLOPS | spread |"
                    " registers | shared memory |\n|---|---|---|---|---|---|\n");
    int64_t id = store_newest(database, gpu, problem);
    if (id && !store_each(database, id, add_row, &l)) return failure(context, database);
    text_add_z(out, "\n");
    const char *comma = "";
    for (int i = 0; i < STORE_STATE_COUNT; i++) {
        if (!l.counts[i]) continue;
        text_format(out, "%s%d %s", comma, l.counts[i], store_state_name((store_state)i));
        comma = ", ";
    }
    text_add_z(out, id ? "\n" : "nothing was tried\n");
    store_close(database);
    return FTL_OK;
}

static void add_json_text(text_buffer *out, const char *name, const char *text) {
    text_format(out, ",\"%s\":\"", name);
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\') text_format(out, "\\%c", *c);
        else text_format(out, "%c", (unsigned char)*c < 0x20 ? ' ' : *c);
    }
    text_add_z(out, "\"");
}

static void add_object(void *user, const store_row *row) {
    text_buffer *out = user;
    text_format(out, "{\"state\":\"%s\"", store_state_name(row->state));
    add_json_text(out, "pins", row->pins);
    add_json_text(out, "decided", row->decided);
    if (row->state == STORE_MEASURED) {
        text_format(out, ",\"ratio\":%.4f,\"tflops\":%.2f,\"model_tflops\":%.2f,\"spread\":%.4f",
                    row->ratio, row->tflops, row->model_tflops, row->spread);
    }
    text_format(out,
                ",\"predicted_tflops\":%.1f,\"registers\":%d,\"spill_bytes\":%d,"
                "\"shared_bytes\":%d,\"attempts\":%d",
                row->predicted_tflops, row->registers, row->spill_bytes, row->shared_bytes,
                row->attempts);
    if (row->why[0]) add_json_text(out, "why", row->why);
    text_add_z(out, "}\n");
}

ftl_status tune_report_json(ftl_context *context, const char *path, const char *gpu,
                            const char *problem, text_buffer *out) {
    store *database = NULL;
    ftl_status status = open_database(context, path, &database);
    if (status) return status;
    int64_t id = store_newest(database, gpu, problem);
    if (id && !store_each(database, id, add_object, out)) return failure(context, database);
    store_close(database);
    return FTL_OK;
}
