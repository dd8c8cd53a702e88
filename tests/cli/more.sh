# Faults that no list of cases shows, and drawn ones do: each needs kinds together that lists do not join.
attention() { # INPUTS BEFORE_SOFTMAX AT_THE_END
cat <<TL
kernel k
let d = 16, e = 16
Input  Q (b in batch; q in rows, d)
Input  K (b in batch; t in places, d)
Input  V (b in batch; t in places, e)
Input  scale f32
${1:-}
Output O (b in batch; q in rows, e)
Copy Q from global to shared
for i = 0:places/BN
    Copy K from global to shared
    Compute GEMM Q, K.T and get S
    Compute Multiply S, scale and get S
    ${2:-}
    Compute Softmax S
    Copy V from global to shared
    Compute GEMM S, V and accumulate O
end
${3:-}
Copy O from register to global
TL
}
compare() { # NAME
    flashtl verify wrong.tl --against right.tl --on interpreter > report; listed=$?
    flashtl verify wrong.tl --against right.tl --on interpreter --shapes none --more 256 > report; drawn=$?
    flashtl verify right.tl --on interpreter --shapes none --more 64 > right; right=$?
    echo "$1: $listed, $drawn; as it should be: $right"
}
attention > right.tl
attention "" "" "Compute Mask O, 1 where places == 0 and rows > 128 and b >= 1" > wrong.tl
compare "no keys, and several blocks of rows"
attention "Input  lim i32" "Compute Mask S where t < q - lim" > right.tl
attention "Input  lim i32" "Compute Mask S where t < q - lim and lim > 0 - 200" > wrong.tl
compare "a number with which a Mask leaves nothing"
attention "Input  most f32" "Compute Min S, most and get S" > right.tl
attention "Input  most f32" "Compute Min S, min(most, 4) and get S" > wrong.tl
compare "a limit past the values"
square="Compute Multiply O, O and get O"; limit="Compute Max O, 3000 and get O"
attention "" "" "$square
$limit" > right.tl
attention "" "" "Compute Add O, O and get O
$limit" > wrong.tl
compare "values that a constant hides"
# Nothing is left of -1e30 times a factor, but for one near 1e-30.
positive() { sed "s/scale f32/scale f32 where scale > 0/;s/    Compute Multiply S, scale/    $1\n&/"; }
attention | positive "Compute Mask S where t > q" > right.tl
attention | positive "Compute Mask S, -1e30 where t > q" > wrong.tl
compare "a factor that is tiny"
# A whole number is the nearest one, in each row alone.
whole() {
cat <<TL
kernel k
let d = 16
Input  Q (q in rows, d)
Output O i8 (q in rows)
Copy Q from global to register
Compute Multiply Q, Q and get S
Compute RowSum S and get r
$1
Copy r from register to global and get O
TL
}
whole "Compute Min r, 90 and get r" > right.tl
whole "Compute Min r, 90 and get r
Compute Add r, select(q == 5, 1, 0) and get r" > wrong.tl
flashtl verify wrong.tl --against right.tl --on interpreter > report; listed=$?
flashtl verify right.tl --on interpreter > right; echo "a step of a whole number: $listed; as it should be: $?"
