#include "compile/plan_words.h"

#include <string.h>

const plan_word plan_operators[] = {
    {FTL_PUSH_INTEGER, "integer"},
    {FTL_PUSH_NUMBER, "number"},
    {FTL_PUSH_SIZE, "size"},
    {FTL_PUSH_SCALAR, "scalar"},
    {FTL_ADD, "+"},
    {FTL_SUBTRACT, "-"},
    {FTL_MULTIPLY, "*"},
    {FTL_DIVIDE_UP, "/up"},
    {FTL_DIVIDE_DOWN, "/down"},
    {FTL_DIVIDE_REAL, "/"},
    {FTL_MODULO, "%"},
    {FTL_MIN, "min"},
    {FTL_MAX, "max"},
    {FTL_NEGATE, "negate"},
    {FTL_ABS, "abs"},
    {FTL_LESS, "<"},
    {FTL_LESS_EQUAL, "<="},
    {FTL_GREATER, ">"},
    {FTL_GREATER_EQUAL, ">="},
    {FTL_EQUAL, "=="},
    {FTL_NOT_EQUAL, "!="},
    {FTL_AND, "and"},
    {FTL_OR, "or"},
    {FTL_NOT, "not"},
    {0, NULL},
};
const plan_word plan_types[] = {{FTL_F16, "f16"},   {FTL_BF16, "bf16"}, {FTL_F32, "f32"},
                                {FTL_E4M3, "e4m3"}, {FTL_E5M2, "e5m2"}, {FTL_I32, "i32"},
                                {0, NULL}};
const plan_word plan_roles[] = {
    {FTL_INPUT, "input"}, {FTL_OUTPUT, "output"}, {FTL_WORKSPACE, "workspace"}, {0, NULL}};

const plan_word plan_grids[] = {
    {FTL_GRID_PERSISTENT, "persistent"}, {FTL_GRID_DYNAMIC, "dynamic"}, {0, NULL}};
const plan_word plan_derivations[] = {{FTL_DERIVED_VALUE, "value"},
                                      {FTL_DERIVED_TILES, "tiles"},
                                      {FTL_DERIVED_DIVISOR, "divisor"},
                                      {0, NULL}};
const plan_word plan_uses[] = {{FTL_TABLE_FREE, "free"},
                               {FTL_TABLE_LENGTH, "length"},
                               {FTL_TABLE_INDEX, "index"},
                               {FTL_TABLE_STARTS, "starts"},
                               {0, NULL}};

const char *plan_word_name(const plan_word *words, int value) {
    while (words->name && words->value != value) words++;
    return words->name ? words->name : "";
}

int plan_word_value(const plan_word *words, const char *name) {
    while (words->name && strcmp(words->name, name) != 0) words++;
    return words->name ? words->value : 0;
}
