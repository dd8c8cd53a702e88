/* What a call of decoding divides keys by: as many splits of each sequence, by what the launch
 * knows, or stretches of about one length, by what the table of lengths says. And what lies between
 * its kernels.
 */
#include "runtime/serving_divide.h"

#include "plan/splits.h"

static plan_work work_of(const ftl_decode *c) {
    return (plan_work){c->batch, c->q_len, c->q_heads, c->kv_heads};
}

int64_t divide_sums(const attention_key *key) {
    return key->is_latent ? key->value_dim / key->columns : 1;
}

bool divide_has_whole(const attention_key *key) {
    return !(key->is_latent && key->has_lse);
}

/* The bytes that a split of a sequence leaves to the second kernel. */
static double part_bytes(const ftl_decode *c, const attention_key *key) {
    return 4.0 * (double)c->q_heads * (double)c->q_len *
           (double)(key->value_dim + divide_sums(key));
}

/* Those of so many keys with their values. */
static double bytes_of_keys(const ftl_decode *c, const attention_key *key, int64_t keys) {
    int32_t elements = key->head_dim + (key->is_latent ? 0 : key->value_dim);
    return 2.0 * (double)c->kv_heads * elements * (double)keys;
}

/* The splits of each sequence. Where there are no stretches, and the caller says how many keys
 * there are in all: as many as a batch gets whose sequences, all as long as there is room for, have
 * that many. It is smaller, so splits are more, and a long sequence among short ones is not left to
 * a few blocks. What splits leave is 'most' bytes at most, unless as many are needed as without
 * such a number.
 */
static int64_t splits_of_keys(const ftl_decode *c, const attention_key *key, const ftl_plan *plan,
                              int64_t multiprocessors, double most) {
    enum { ROUND = 8 }; /* what plan_splits gives: 1, 2, 4 or a multiple of it */
    plan_work work = work_of(c);
    int64_t room = c->pages.columns * c->pages.page_len;
    int64_t least = plan_splits(plan, multiprocessors, &work, room);
    if (!c->total_keys || !room || divide_may_stretch(key)) return least;
    int64_t alike = c->total_keys / room + (c->total_keys % room != 0);
    if (alike < work.batch) work.batch = alike;
    int64_t splits = plan_splits(plan, multiprocessors, &work, room);
    double each = part_bytes(c, key) * (double)c->batch;
    while (splits > least && each * (double)splits > most)
        splits = splits > ROUND ? splits - ROUND : splits / 2;
    return splits;
}

/* --- stretches -------------------------------------------------------------------------------- */

enum { SEQUENCES_MOST = 4096 }; /* what makes the tables goes by the square of them */
enum { BYTES_MOST = 64 << 20 }; /* that a caller is asked for: many sequences have a split each */
enum { LENGTHS_ALIGNED = 16 };  /* bytes: it reads four lengths at once */

bool divide_may_stretch(const attention_key *key) {
    return !key->is_latent;
}

/* Lengths that differ are worth tables, where they are said to: sequences that nearly fill their
 * room have as many splits each. Kernels hold numbers of cuts in f32.
 */
static bool is_worth_stretching(const ftl_decode *c) {
    static const double nearly_full = 0.875;
    double room = (double)c->pages.columns * (double)c->pages.page_len * (double)c->batch;
    return c->total_keys > 0 && c->batch > 0 && c->batch <= SEQUENCES_MOST &&
           c->kv_lens % LENGTHS_ALIGNED == 0 && room < (double)PLAN_CUT_KEYS * PLAN_CUTS_MOST &&
           (double)c->total_keys < nearly_full * room;
}

static size_t aligned(size_t bytes) {
    enum { ALIGNED = 16 };
    return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* Splits run in whole rounds of as many as run at once: a round that begins with few of them leaves
 * most of the GPU without work. Of sequences of any lengths each has about half a split more than
 * its share. Where splits are long nevertheless, one round more evens out when they end.
 */
static int64_t spare_splits(int64_t batch, int64_t at_once, bool is_long) {
    int64_t rounds = (batch + 3 * at_once - 1) / (2 * at_once);
    return (rounds + is_long) * at_once - batch / 2;
}

/* There is memory for the most splits that any lengths would have. */
static void stretch(const ftl_decode *c, const attention_key *key, int64_t at_once,
                    division_stretches *out) {
    enum { LONG_KEYS = 1024 };
    int64_t batch = c->batch < SEQUENCES_MOST ? c->batch : SEQUENCES_MOST;
    if (at_once < 1) at_once = 1;
    int64_t most = spare_splits(batch, at_once, true);
    bool is_long = c->total_keys / most >= LONG_KEYS;
    out->spare = spare_splits(batch, at_once, is_long);
    out->least = plan_cuts_least(c->pages.columns * c->pages.page_len);
    out->items = out->spare + batch;
    size_t rows = (size_t)((most + batch) * c->q_heads * c->q_len);
    out->lse = rows * (size_t)key->value_dim * 4;
    out->starts = out->lse + aligned(rows * 4);
    out->owner = out->starts + aligned((size_t)(batch + 1) * 4);
    out->bytes = out->owner + (size_t)(most + batch) * 4;
}

/* --- both ------------------------------------------------------------------------------------- */

/* What a batch needs grows with it: either its own rows fill the GPU, or as many rows of splits do.
 * Splits for fewer keys write a part of what is read at most.
 */
ftl_status divide(ftl_context *context, ftl_runtime *runtime, const ftl_decode *c,
                  const attention_key *key, const ftl_plan *plan, division *out) {
    enum { READ_FOR_EACH_WRITTEN = 4 };
    static const double exact = 9007199254740992.0; /* 2^53 */
    int multiprocessors = 0;
    ftl_status status = runtime_multiprocessors(context, runtime, key->device, &multiprocessors);
    if (status) return status;
    const plan_work work = work_of(c);
    int64_t at_once = plan_splits_at_once(plan, multiprocessors, &work);
    bool is_copied = !divide_has_whole(key); /* sequences of one split go through the memory, too */
    double parts = (double)(is_copied && c->batch > at_once ? c->batch : at_once);
    double each = part_bytes(c, key);
    if (each * (3 * parts + SEQUENCES_MOST) > exact)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "batch, q_heads and q_len are too large together");
    double most = bytes_of_keys(c, key, c->total_keys) / READ_FOR_EACH_WRITTEN;
    if (most > exact) most = exact;
    int64_t wanted = splits_of_keys(c, key, plan, multiprocessors, most);
    double wanted_bytes = wanted > 1 || is_copied ? each * (double)wanted * (double)c->batch : 0;
    double has = (double)c->workspace_bytes;
    *out = (division){.bytes = (size_t)(each * parts)};
    out->wanted = wanted_bytes > each * parts ? (size_t)wanted_bytes : out->bytes;
    if (divide_may_stretch(key)) {
        stretch(c, key, at_once, &out->stretches);
        size_t asked = out->stretches.bytes < BYTES_MOST ? out->stretches.bytes : BYTES_MOST;
        if (asked > out->wanted) out->wanted = asked;
        out->is_stretched = is_worth_stretching(c) && c->workspace_bytes >= out->stretches.bytes;
    }
    out->splits = has < wanted_bytes ? splits_of_keys(c, key, plan, multiprocessors, has) : wanted;
    out->is_whole = out->splits == 1 && !is_copied && !out->is_stretched;
    out->sums_bytes = (size_t)(c->batch * out->splits * c->q_heads * c->q_len * key->value_dim * 4);
    return FTL_OK;
}
