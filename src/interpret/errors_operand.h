/* A product's operand, as errors_product.c and errors_rounding.c see it. */
#ifndef FLASHTL_INTERPRET_ERRORS_OPERAND_H
#define FLASHTL_INTERPRET_ERRORS_OPERAND_H

#include "interpret/machine.h"

typedef struct operand {
    const tile *t;
    const double *errors;
    int64_t rows, columns, row_step, step; /* as it is in the product */
    double alike, turned;                  /* of errors along the contracted axis: see 'tile' */
    const double *signs;
} operand;

/* How one operand lies to the other: its lines are rows of the left one, columns of the right one,
 * and 'count' elements of each meet those of 'width' lines of the other.
 */
typedef struct meeting {
    int64_t lines, count, width;
    int64_t line, step;    /* between the operand's lines, and along one */
    int64_t along, across; /* the other's: between elements along the contracted axis, and lines */
} meeting;

meeting errors_meeting(const operand *o, const operand *by, bool is_left);
/* Sums of numbers that lie as the operand's elements do, times what these are multiplied by: line
 * by line, 'width' each.
 */
void errors_sum(const meeting *of, const double *numbers, const operand *by, double *sums);

/* Variances: by how much more than independent errors roundings change sums. */
void errors_add_roundings(machine *m, const operand *o, const operand *by, bool is_left,
                          double *to);
/* Beyond chance, of sums whose variance is known: what the roundings of elements as they are change
 * them by.
 */
void errors_add_as_rounded(machine *m, const operand *o, const operand *by, bool is_left,
                           double *to);
/* The same of sums that grow product by product: what roundings change them by goes on with its
 * signs, and is counted, instead of what was counted before, where all of it is beyond chance.
 */
void errors_drift(machine *m, const operand *o, const operand *by, bool is_left, double *drift);
void errors_settle(int64_t count, const double *drift, const double *together, double *counted,
                   double *variances);
/* The same, by chance: of elements that were there in earlier products of the sum, too, by how much
 * more than independent errors their roundings change it. 'at': the product, the 'id'th of all.
 */
void errors_add_repeated(machine *m, const tl_statement *at, const tile *target, int64_t id,
                         const operand *o, const operand *by, bool is_left, bool accumulates,
                         double *together);
struct errors_past **errors_past_of(machine *m); /* what is known of them; NULL: nothing yet */

#endif
