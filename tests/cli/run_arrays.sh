# A sketch, TL Code and a kernel on NumPy arrays (f2; f4 in Fortran order; f8) agree with plain Python.
export PYTHONDONTWRITEBYTECODE=1
python3 "$TESTS/arrays.py" make
attention() { flashtl run --op gqa --causal --in Q=q.npy --in K=k.npy,V=v.npy --let scale=0.25 "$@"; }
attention --out O=sketch.npy
attention --gpu t4 --on interpreter --out O=code.npy
attention --gpu a100 --on interpreter --out O=code_a100.npy
python3 "$TESTS/arrays.py" judge sketch.npy code.npy code_a100.npy
# What cannot be run: one sentence each.
attention --gpu t4 --on gpu; echo "-> $?"
attention --on paper; echo "-> $?"
flashtl run --op gqa --in Q=q.npy; echo "-> $?"
attention --in V=q.npy; echo "-> $?"
attention --out X=x.npy; echo "-> $?"
attention --out O=/no/such/folder/o.npy; echo "-> $?"
head -c 100 q.npy > cut.npy
flashtl run --op gqa --in Q=cut.npy; echo "-> $?"
flashtl run --op gqa --in Q="$TESTS/arrays.py" 2>&1 | sed "s|'.*/|'|"
flashtl run --op gqa --in Q=q.npy --in K=k.npy --in V=q.npy --out O=o.npy --let scale=1; echo "-> $?"
flashtl run --op gqa --in Q=q.npy --in K=k.npy --in V=v.npy --out O=o.npy; echo "-> $?"
