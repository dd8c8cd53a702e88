# Decisions in paragraphs and aligned tables: no line has more than 120 characters, whatever the kernel; candidates are
# told apart by columns that differ, and are there as data.
flashtl explain --op gqa --causal --gpu t4 --head-dim 64
flashtl explain --op mha --gpu h200 --head-dim 128 | sed -n '/the best candidates/,/taken/p' | sed 's/ *[0-9.]* *$//'
for gpu in t4 a100 l40s h200; do
    for op in "gqa --causal" "mqa --window 100 --softcap 20 --alibi --lse" "mla --let d_rotary=32" gemm_bias_gelu "chained_gemms --let k=64 --let e=64" row_softmax; do
        flashtl explain --op $op --gpu $gpu --head-dim 64 2> said > explained || { cat said; continue; }
        awk -v what="$op $gpu" 'length > 120 { print what ": " length ": " $0 }' explained
        awk '/^ *taken / { width = length } /^ *[0-9]+  / && width && length != width { print "not aligned: " $0 }' explained
        flashtl reason --op $op --gpu $gpu --head-dim 64 | flashtl explain | awk -v what="code of $op $gpu" 'length > 120 { print what ": " length ": " $0 }'
    done
done
flashtl explain --op mha --gpu h200 --head-dim 128 --json | python3 -c "
import json, sys
told = json.load(sys.stdin)
for table in told['comparisons']:
    columns = [c['name'] for c in table['columns']]
    assert all(len(row) == len(columns) for row in table['rows']) and table['rows'][0][0] == 'taken', table
    rows = [tuple(row[1:]) for row in table['rows']]
    assert table['subject'] == 'tile sizes' and len(rows) > 1, table
    assert all(isinstance(cell, (int, float)) or cell in ('yes', 'no') for row in rows for cell in row), rows
    print(table['kernel'], table['title'], columns, [c['unit'] for c in table['columns']])
assert len(set(tuple(row[1:]) for row in told['comparisons'][0]['rows'])) == len(told['comparisons'][0]['rows']), 'told apart'
by = dict(zip([c['name'] for c in told['comparisons'][0]['columns']], told['comparisons'][0]['rows'][0]))
taken = {d['name']: d['value'] for d in told['decisions']}
assert by['BM'] == taken['BM'] and by['BN'] == taken['BN'], (by, taken)
"
