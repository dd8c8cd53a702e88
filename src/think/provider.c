#include "think/provider_internal.h"

#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const OPENAI_URL = "https://api.openai.com/v1";
static const char *const ANTHROPIC_URL = "https://api.anthropic.com";

/* --- specs ------------------------------------------------------------------------------------ */

static ftl_status no_model(ftl_context *context, const char *spec) {
    return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                            "'%s' names no model: openai:NAME, anthropic:NAME, "
                            "http://HOST:PORT/v1#NAME, exec:COMMAND or replay:FILE",
                            spec);
}

static bool set(char *to, str text) {
    if (text.length >= PROVIDER_NAME_BYTES) return false;
    memcpy(to, text.data, text.length);
    to[text.length] = 0;
    return true;
}

static str without_end_slash(str url) {
    while (url.length && url.data[url.length - 1] == '/') url.length--;
    return url;
}

static ftl_status read_url(ftl_context *context, provider *p, str spec, str base) {
    str rest = base, url = str_cut(&rest, '#');
    p->kind = PROVIDER_OPENAI;
    if (!rest.length || !url.length) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "'%.*s' does not say which model: add its name after a '#'",
                                STR_ARGS(spec));
    }
    if (memchr(url.data, '@', url.length)) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "a URL with a password in it would be recorded: put the key into "
                                "a key file");
    }
    return set(p->base_url, without_end_slash(url)) && set(p->name, rest)
               ? FTL_OK
               : no_model(context, spec.data);
}

static ftl_status read_makers(ftl_context *context, provider *p, str name) {
    bool is_openai = p->kind == PROVIDER_OPENAI;
    const char *own = is_openai ? p->options.openai_base_url : p->options.anthropic_base_url;
    if (!own || !*own) own = is_openai ? OPENAI_URL : ANTHROPIC_URL;
    p->is_makers_own = true;
    bool fits =
        name.length && set(p->base_url, without_end_slash(str_from(own))) && set(p->name, name);
    return fits ? FTL_OK : no_model(context, p->model);
}

static bool cut_prefix(str *spec, str prefix) {
    if (!str_starts(*spec, prefix)) return false;
    *spec = (str){spec->data + prefix.length, spec->length - prefix.length};
    return true;
}

/* A replayed provider is called as the one that was recorded. */
static ftl_status open_replay(ftl_context *context, provider *p, const char *path) {
    p->kind = PROVIDER_REPLAY;
    ftl_status status = record_read(context, path, &p->recording);
    if (status) return status;
    for (int32_t i = 0; i < record_count(p->recording); i++) {
        const json_t *event = record_at(p->recording, i);
        bool is_ask = strcmp(json_text(event, "event"), "ask") == 0;
        bool is_step = !p->options.step || strcmp(json_text(event, "step"), p->options.step) == 0;
        if (!is_ask || !is_step) continue;
        set(p->model, str_from(json_text(event, "model")));
        return FTL_OK;
    }
    return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "'%s' records no question%s%s", path,
                            p->options.step ? " of the step " : "",
                            p->options.step ? p->options.step : "");
}

static ftl_status read_spec(ftl_context *context, provider *p, const char *text) {
    str spec = str_from(text);
    if (cut_prefix(&spec, STR("openai:"))) {
        p->kind = PROVIDER_OPENAI;
        return read_makers(context, p, spec);
    }
    if (cut_prefix(&spec, STR("anthropic:"))) {
        p->kind = PROVIDER_ANTHROPIC;
        return read_makers(context, p, spec);
    }
    if (cut_prefix(&spec, STR("exec:"))) {
        p->kind = PROVIDER_EXEC;
        return spec.length && set(p->name, spec) ? FTL_OK : no_model(context, text);
    }
    if (cut_prefix(&spec, STR("replay:"))) return open_replay(context, p, spec.data);
    bool is_url = str_starts(spec, STR("http://")) || str_starts(spec, STR("https://"));
    return is_url ? read_url(context, p, spec, spec) : no_model(context, text);
}

ftl_status provider_open(ftl_context *context, const char *spec, const provider_options *options,
                         provider **out) {
    *out = NULL;
    provider *p = calloc(1, sizeof *p);
    if (!p) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    p->options = *options;
    provider_options *o = &p->options;
    if (o->connect_timeout_s <= 0) o->connect_timeout_s = 10;
    if (o->idle_timeout_s <= 0) o->idle_timeout_s = 120;
    if (o->total_timeout_s <= 0) o->total_timeout_s = 900;
    if (o->retries < 0) o->retries = 4;
    ftl_status status =
        set(p->model, str_from(spec)) ? read_spec(context, p, spec) : no_model(context, spec);
    bool is_remote = p->kind == PROVIDER_OPENAI || p->kind == PROVIDER_ANTHROPIC;
    if (!status && is_remote) status = http_open(context, o->curl_library, &p->http);
    if (status) provider_close(p);
    else *out = p;
    return status;
}

void provider_close(provider *p) {
    if (!p) return;
    http_close(p->http);
    record_reader_free(p->recording);
    free(p);
}

const char *provider_model(const provider *p) {
    return p->model;
}

const record_reader *provider_recording(const provider *p) {
    return p->recording;
}

provider_grammar provider_takes_grammar(const provider *p) {
    bool is_openai = p->kind == PROVIDER_OPENAI || p->kind == PROVIDER_REPLAY;
    return is_openai && !p->is_grammar_refused ? p->options.grammar : PROVIDER_NO_GRAMMAR;
}

/* The key of the base URL that 'url' is under: same origin, and a path that goes on from it. */
const char *provider_key_for(const provider *p, const char *url) {
    for (int32_t i = 0; i < p->options.key_count; i++) {
        const provider_key *k = &p->options.keys[i];
        str base = without_end_slash(str_from(k->base_url)), at = str_from(url);
        bool is_under = base.length && str_starts(at, base) &&
                        (at.length == base.length || at.data[base.length] == '/');
        if (is_under) return k->key;
    }
    return NULL;
}

/* --- asking ----------------------------------------------------------------------------------- */

ftl_status provider_ask(ftl_context *context, provider *p, const provider_request *request,
                        provider_answer *answer) {
    *answer = (provider_answer){0};
    text_init(&answer->text, PROVIDER_ANSWER_BYTES_MAX);
    text_add_z(&answer->text, "");
    switch (p->kind) {
    case PROVIDER_EXEC: return exec_ask(context, p, request, answer);
    case PROVIDER_REPLAY: return replay_ask(context, p, request, answer);
    case PROVIDER_OPENAI:
    case PROVIDER_ANTHROPIC: break;
    }
    return remote_ask(context, p, request, answer);
}

void provider_answer_done(provider_answer *answer) {
    text_done(&answer->text);
    *answer = (provider_answer){0};
}

static void add_part(text_buffer *out, const char *name, str text) {
    text_format(out, "%s %zu\n", name,
                text.length); /* lengths, so that no text can feign another */
    text_add(out, text);
    text_add_z(out, "\n");
}

void provider_request_key(const provider *p, const provider_request *request, char key[33]) {
    text_buffer all;
    text_init(&all, 64 << 20);
    add_part(&all, "model", str_from(p->model));
    add_part(&all, "system", request->system);
    for (int32_t i = 0; i < request->turn_count; i++) {
        add_part(&all, request->turns[i].is_answer ? "answer" : "question", request->turns[i].text);
    }
    add_part(&all, "grammar", request->grammar_gbnf);
    hash_digits(hash_bytes(text_str(&all)), key);
    text_done(&all);
}

/* Tokenizers cut words into pieces of four to six letters, numbers into groups of three, and mostly
 * give a punctuation mark its own token.
 */
int64_t provider_estimate_tokens(str text) {
    enum { LETTERS = 6, DIGITS = 3, SPACES = 8 };
    int64_t tokens = 0;
    for (size_t i = 0; i < text.length;) {
        unsigned char c = (unsigned char)text.data[i];
        size_t begin = i;
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (is_letter) {
            while (i < text.length && (((unsigned char)text.data[i] | 32) >= 'a') &&
                   (((unsigned char)text.data[i] | 32) <= 'z'))
                i++;
            tokens += (int64_t)((i - begin + LETTERS - 1) / LETTERS);
        } else if (c >= '0' && c <= '9') {
            while (i < text.length && text.data[i] >= '0' && text.data[i] <= '9') i++;
            tokens += (int64_t)((i - begin + DIGITS - 1) / DIGITS);
        } else if (c == ' ') {
            while (i < text.length && text.data[i] == ' ') i++;
            tokens += (int64_t)((i - begin - 1 + SPACES - 1) / SPACES); /* one goes with the word */
        } else {
            i++;
            tokens++;
        }
    }
    return tokens;
}

/* --- recordings ------------------------------------------------------------------------------- */

static str prompt_of(const record_reader *r, const char *step) {
    for (int32_t i = 0; i < record_count(r); i++) {
        const json_t *event = record_at(r, i);
        bool fits = strcmp(json_text(event, "event"), "prompt") == 0 &&
                    strcmp(json_text(event, "step"), step) == 0;
        if (fits) return str_from(json_text(event, "system"));
    }
    return STR("");
}

static str shortened(str line) {
    enum { SHOWN = 100 };
    return (str){line.length ? line.data : "", line.length < SHOWN ? line.length : SHOWN};
}

/* Says where the request leaves the recorded one, so that a stale record explains itself. */
static ftl_status no_such_ask(ftl_context *context, provider *p, const provider_request *request) {
    const char *step = p->options.step ? p->options.step : "";
    const json_t *ask = record_pending_ask(p->recording, step);
    if (!ask) {
        return ftl_context_fail(context, FTL_CHECK_FAILED,
                                "the record has no further answer of the step '%s'", step);
    }
    str was = prompt_of(p->recording, step), is = request->system;
    bool in_system = !str_equal(was, is);
    if (!in_system) {
        was = str_from(json_text(ask, "question"));
        is = request->turns[request->turn_count - 1].text;
    }
    int line = 0;
    str was_line = {0}, is_line = {0};
    for (line = 1; was.length || is.length; line++) {
        was_line = str_cut(&was, '\n'), is_line = str_cut(&is, '\n');
        if (!str_equal(was_line, is_line)) break;
    }
    return ftl_context_fail(context, FTL_CHECK_FAILED,
                            "the record has no such request: line %d of the %s is '%.*s' now, and "
                            "was '%.*s' when it was recorded",
                            line, in_system ? "prompt" : "question", STR_ARGS(shortened(is_line)),
                            STR_ARGS(shortened(was_line)));
}

int64_t provider_tokens(const json_t *reported) {
    static const double MOST = 1e8;
    double count = json_number_value(reported); /* 0 for what is no number */
    bool is_count = count >= 1 && count <= MOST && count == (double)(int64_t)count;
    return is_count ? (int64_t)count : 0;
}

ftl_status replay_ask(ftl_context *context, provider *p, const provider_request *request,
                      provider_answer *answer) {
    char key[33];
    provider_request_key(p, request, key);
    const json_t *ask = record_next_ask(p->recording, key);
    if (!ask) return no_such_ask(context, p, request);
    text_add_z(&answer->text, json_text(ask, "answer"));
    answer->is_cut_off = json_is_true(json_object_get(ask, "cut_off"));
    answer->prompt_tokens = provider_tokens(json_object_get(ask, "prompt_tokens"));
    answer->answer_tokens = provider_tokens(json_object_get(ask, "answer_tokens"));
    answer->cached_tokens = provider_tokens(json_object_get(ask, "cached_tokens"));
    answer->retries = (int32_t)json_integer_value(json_object_get(ask, "retries"));
    answer->ms = json_number(ask, "ms");
    return FTL_OK;
}
