#include "reason/prices.h"

#include "reason/panels.h"
#include "reason/warpgroups.h"

#include <math.h>

enum {
    LANES = 32,
    TMA_BYTES = 32, /* a clock, of the level-2 cache */
    PANEL_BYTES_LEAST = 16,
    UNEVEN_STORE_CLOCKS = 10, /* of a panel's row that begins inside 32 bytes, on its way out */
    CACHE_LINE_BYTES = 128,
    BOX_CLOCKS = 30,  /* of a box that one thread issues, after it has read where its page is */
    OPEN_BYTES = 256, /* a clock, of what open panels have past the ends of rows */
};

static const double UNEVEN_LOAD_CLOCKS = 3.2; /* of a panel's row that begins inside 32 bytes */
static const double LINE_CLOCKS = 1.8;        /* of a line of the level-2 cache, of others */
static const double FP32_CLOCKS = 2;          /* an instruction of a warp, beside products */
static const double EXP2_CLOCKS = 8;          /* the same, of special functions */
static const double CONVERT_CLOCKS = 1;       /* half of an instruction that takes two elements */

/* --- elementwise work ------------------------------------------------------------------------- */

prices_units prices_of_elements(const gpu *g, double elements, prices_element of) {
    return (prices_units){.fp32 = elements * of.fp32 / g->fp32,
                          .exp2 = elements * of.exp2 / g->exp2,
                          .conversions = elements * of.conversions / g->conversions};
}

double prices_of_issue(const gpu *g, double elements) {
    return elements / LANES / (double)g->schedulers;
}

double prices_of_element(prices_element of) {
    return of.fp32 * FP32_CLOCKS + of.exp2 * EXP2_CLOCKS + of.conversions * CONVERT_CLOCKS;
}

/* --- products --------------------------------------------------------------------------------- */

double prices_together(double a, double b) {
    static const double POWER = 3.2;
    return pow(pow(a, POWER) + pow(b, POWER), 1 / POWER);
}

prices_pair prices_of_product(const gpu *g, prices_product p) {
    double a = p.rows, b = p.columns, k = p.contracted, left_bytes = p.operand_bytes * a * k;
    double rate = gpu_product_rate(g, p.operand_bytes, false);
    return (prices_pair){
        .tensor = p.times * 2 * a * b * k / (rate > 0 ? rate : g->mma),
        .shared = p.times * (p.operand_bytes * p.warps * b * k + (p.reads_left ? left_bytes : 0)) /
                  g->shared_rate,
    };
}

/* Each warpgroup reads the right operand from shared memory, and its rows of the left one if that
 * lies there: with few columns this takes longer than the product.
 */
double prices_of_async_product(const gpu *g, prices_product p) {
    double a = p.rows, b = p.columns, deep = p.contracted;
    double bytes = (a / WARPGROUP_ROWS * b + (p.reads_left ? a : 0)) * deep * p.operand_bytes;
    double rate = gpu_product_rate(g, p.operand_bytes, true);
    return fmax(2 * a * b * deep / rate, bytes / g->shared_rate);
}

/* --- copies ----------------------------------------------------------------------------------- */

/* Panels of a tile's row, and lines of the level-2 cache that they touch: rows begin anywhere at
 * multiples of the power of two that divides them, and a panel that crosses a line's end asks
 * twice.
 */
static double panels_of(prices_lines line) {
    double panel = line.swizzle > 0 ? line.swizzle : PANEL_BYTES_LEAST;
    return ceil((double)line.bytes / panel);
}

static double cache_lines_of(prices_lines line) {
    double unit = fmin((double)(line.bytes & -line.bytes), CACHE_LINE_BYTES);
    return panels_of(line) * (1 - unit / CACHE_LINE_BYTES) + (double)line.bytes / CACHE_LINE_BYTES;
}

static prices_copy bytes_or_requests(prices_lines lines) {
    double rows = lines.rows, bytes = rows * (double)lines.bytes / TMA_BYTES;
    if (lines.is_even) {
        double open = (double)(panels_line_bytes(lines.bytes, lines.swizzle) - lines.bytes);
        double all =
            fmax(bytes, rows * cache_lines_of(lines) * LINE_CLOCKS) + rows * open / OPEN_BYTES;
        return (prices_copy){all, all - bytes};
    }
    double panels = rows * panels_of(lines); /* rows that begin inside what memory moves at once */
    if (!lines.is_load) return (prices_copy){0, panels * UNEVEN_STORE_CLOCKS};
    return (prices_copy){fmax(bytes, panels * UNEVEN_LOAD_CLOCKS), 0};
}

/* A tile in one page has one box for all its panels, one in several a box for each panel of each.
 */
prices_copy prices_of_lines(prices_lines lines) {
    prices_copy clocks = bytes_or_requests(lines);
    if (lines.is_load) clocks.all = fmax(clocks.all, lines.boxes * panels_of(lines) * BOX_CLOCKS);
    return clocks;
}
