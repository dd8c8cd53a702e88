# Errors that go together, grow along a curve or pass a type's end are no fault; a small change beside them is one.
product() { # BEFORE_THE_SECOND_PRODUCT AT_THE_END [OUTPUT_TYPE]
cat <<TL
kernel k
let d = 32, e = 32
Input  Q (b in batch; q in rows, d)
Input  K (b in batch; t in places, d)
Input  V (b in batch; t in places, e)
Input  a f32
Output O ${3:-} (b in batch; q in rows, e)
Copy Q from global to ${4:-shared}
${5:-}
for i = 0:places/BN
    Copy K from global to shared
    Compute GEMM Q, K.T and get S
    $1
    Copy V from global to ${6:-shared}
    ${7:-}
    Compute GEMM S, V and accumulate O
end
$2
Copy O from register to global
TL
}
compare() { # NAME
    flashtl verify right.tl --gpu l40s --on interpreter --shapes none --more 24 > right; right=$?
    flashtl verify wrong.tl --gpu l40s --against right.tl --on interpreter --shapes none --more 24 > report; wrong=$?
    echo "$1: $right; changed: $wrong"
}
nearly() { # OFFSET: every element is rounded in the same direction, and V has a mean
    product "Compute MultiplyAdd S, 0.00000001, $1 and get S" "" f32 shared "" register "Compute Abs V and get V"
}
nearly 0.70001 > right.tl
nearly 0.70101 > wrong.tl
compare "operands that are nearly equal"
norm="Compute Multiply Q, Q and get P
Compute RowSum P and get r
Compute Add r, 0.1 and get r
Compute Rsqrt r and get r
Compute Multiply Q, r and get Q"
product "Compute Subtract S, 1.5 and get S" "" f32 register "$norm" register "Compute Abs V and get V" > right.tl
product "Compute Subtract S, 1.52 and get S" "" f32 register "$norm" register "Compute Abs V and get V" > wrong.tl
compare "an error that all scores of a row have"
sigmoid() { # STEP
    product "Compute Divide S, abs(a) + 0.01 and get S" "Compute Multiply O, -1 and get O
Compute Exp O and get O
Compute Add O, $1 and get O
Compute Reciprocal O and get O"
}
sigmoid 1 > right.tl
sigmoid 1.02 > wrong.tl
compare "a sigmoid of what may have either sign"
tail() { # FACTOR
    product "Compute MultiplyAdd S, 0.125, 0.25 and get S" "Compute Erfc O and get O
Compute Multiply O, $1 and get O" f32
}
tail 1 > right.tl
tail 1.02 > wrong.tl
compare "the tail of a steep function"
passed_on() { # FACTOR
    product "Compute Multiply S, S and get S" "" e5m2
    cat <<TL
kernel after
let e = 32
Input  O e5m2 (b in batch; q in rows, e)
Input  W (b in batch; u in others, e)
Output G f32 (b in batch; q in rows, u in others)
Copy W from global to shared
Copy O from global to shared
Compute GEMM O, W.T and get F
Compute Multiply F, $1 and get F
Copy F from register to global and get G
TL
}
passed_on 1 > right.tl
passed_on 1.5 > wrong.tl
compare "what a type of 8 bits holds of a larger number"
places() { # FACTOR
    cat <<TL
kernel k
let d = 32, h = 24, most = 16
Input  A (query in rows, d)
Input  Y (d, h)
Output Best i32 (query in rows, most)
Output Out (query in rows, h)
Copy A from global to shared
Copy Y from global to register
Compute Multiply Y, Y and get Y
Compute GEMM A, Y and get O
Compute Max O, 0 and get O
Compute RowTopK $1 and get top
Copy top from register to global and get Best
Copy O from register to global and get Out
TL
}
places "O, most" > right.tl
places "A, most" > wrong.tl
compare "places that an element passes several of"
overflown() { # FACTOR
    cat <<TL
kernel k
let d = 16, h = 64, most = 8
Input  X (q in rows, d)
Input  K (d, x in h)
Output Best i32 (q in rows, most)
Copy X from global to shared
Copy K from global to shared
Compute GEMM X, K and get S
Compute Multiply S, $1 and get S
Compute Exp S and get S
Compute Multiply S, select(h <= q, 0.3, -0.5) and get S
Compute Max S, 0 and get S
Compute RowTopK S, most and get top
Copy top from register to global and get Best
TL
}
overflown 8 > right.tl
overflown -8 > wrong.tl
compare "places among numbers that overflow"
shifted() { # FACTOR: numbers of 16 bits lie on a grid, and each row's own number shifts all of them against it
    cat <<TL
kernel k
let d = 64
Input  Q (b in batch; q in rows, d)
Input  K (b in batch; t in places, d)
Input  v (b in batch; q in rows)
Output S f32 (b in batch; q in rows, t in places)
Copy Q from global to register
Copy v from global to register
Compute Add Q, v and get Q
for i = 0:places/BN
    Copy K from global to shared
    Compute GEMM Q, K.T and get S
    Compute Multiply S, $1 and get S
    Copy S from register to global
end
TL
}
shifted 1 > right.tl
shifted 1.02 > wrong.tl
compare "a grid that is shifted row by row"
chunks() { # FACTOR: an error of all that was added up has the signs of the keys, and meets queries that have them, too
    sed "s/accumulate A/accumulate A\n    Compute Multiply A, $1 and get A/" "$TESTS/../../examples/chunked_retention.tl"
}
compare_at() { # NAME SEED CASE
    at="--gpu h200 --on interpreter --let d=64 --let dv=64 --shapes none --more 64 --seed $2 --case $3"
    flashtl verify right.tl $at > right; right=$?
    flashtl verify wrong.tl --against right.tl $at > report; wrong=$?
    echo "$1: $right; changed: $wrong"
}
chunks 1 > right.tl
chunks 1.05 > wrong.tl
compare_at "errors with the signs of what meets them" 93011 1
grows() { # FACTOR: what is small beside a sum is lost whole, time after time
    cat <<TL
kernel k
Input  X (t in steps; r in rows, c in columns)
Output O f32 (r in rows, c in columns)
for t = 0:steps
    Copy X from global to register
    Compute Exp X and get X
    Compute Cast X and accumulate S
end
Compute Multiply S, $1 and get S
Copy S from register to global and get O
TL
}
grows 1 > right.tl
grows 1.0001 > wrong.tl
compare "a sum that grows by many elements"
beyond() { # MASK: where a power overflows, and its infinity less another one is NaN
    cat <<TL
kernel k
let d = 32
Input  Q (b in batch; q in rows, d)
Input  K (b in batch; t in places, d)
Output O f32 (b in batch; q in rows)
Copy Q from global to shared
Compute Fill 0 and get r
for i = 0:places/BN
    Copy K from global to shared
    Compute GEMM Q, K.T and get S
    Compute Multiply S, select(q % 2 == 0, 16, 0.01) and get S
    Compute Exp S and get S
    Compute RowMax S and accumulate r
end
Compute Multiply r, -0.0625 and get s
Compute Add r, s and get r
Compute Multiply r, r and get r
Compute Multiply r, select(q == 9, $1, 1) and get r
Copy r from register to global and get O
TL
}
beyond 1 > right.tl
beyond 1.001 > wrong.tl
compare "infinities that others are taken from"
steps() { # FACTOR: in every step elements lie on the same grid, shifted by a number of their column
    cat <<TL
kernel k
let d = 32, e = 32
Input  Q (q in rows, d)
Input  K (s in steps; t in places, d)
Input  V (s in steps; t in places, e)
Input  w f32 (e)
Output O f32 (q in rows, e)
Copy Q from global to register
for s = 0:steps
    for i = 0:places/BN
        Copy K from global to shared
        Compute GEMM Q, K.T and get S
        Compute Multiply S, S and get S
        Copy V from global to register
        Compute Add V, w[e] and get V
        Compute GEMM S, V and accumulate O
    end
end
Compute Multiply O, $1 and get O
Copy O from register to global and get O
TL
}
steps 1 > right.tl
steps 1.01 > wrong.tl
compare "grids that are shifted alike, step by step"
product "Compute Multiply S, select(q % 2 == 0, 16, 0.01) and get S
    Compute Exp S and get S
    Compute Exp S and get S" "Compute Multiply O, -1 and get O
Compute Exp O and get O
Compute Add O, 1 and get O
Compute Reciprocal O and get O" f32 > right.tl
sed 's/O, -1/O, select(q == 9, -0.98, -1)/' right.tl > wrong.tl
compare "a sigmoid of infinities of both signs"
