# Loops that run as often as an element of a table says which a loop around them walks: 0 times now, several times next.
# What a Copy has to wait for then follows from how often they ran before.
cat > parts.tl <<'TL'
kernel parts for a100
let BM = 64, n = 64
Input  X f32 (row in rows, n)
Input  u f32 (j in steps, n)
Input  T i32 (j in steps)
Output Y f32 (row in rows, n)
grid block in rows/BM
role math with 4 warps
    Allocate A in register f32 (BM, n) as lines
    Allocate p in register f32 (n) as columns of A
    Allocate q in register f32 (n) as columns of A
    Allocate r in register f32 (n) as columns of A
    Allocate S in shared f32 (n)
    Allocate U in shared f32 (n)
    Copy X (BM, n) in coordinate [L = block] from global to register and get A
    for j = 0:steps
        let count = T[j]
        Copy u (n) in coordinate [j] from global to register and get p
        for i = 0:FIRST
            Copy p from register to shared and get S
            Wait S
            Copy S from shared to register and get q
            Release S
            Compute Add A, q and get A
            Copy p from register to shared and get U
            Wait U
            Copy U from shared to register and get r
            Release U
            Compute Add A, r and get A
        end
        for k = SECOND
            Copy p from register to shared and get U
            Wait U
            Copy U from shared to register and get q
            Release U
            Compute Subtract A, q and get A
            Copy p from register to shared and get S
            Wait S
            Copy S from shared to register and get r
            Release S
            Compute Subtract A, r and get A
        end
    end
    Copy A (BM, n) in coordinate [L = block] from register to global and get Y
end
TL
for bounds in '2*T[j] 2*T[j]:2' 'T[j] 0:3-T[j]' '2*count 2*T[j]:2' 'count 0:3-count' 'ceil(T[j]/2) 0:3-ceil(count/2)'; do
    sed "s|FIRST|${bounds% *}|; s|SECOND|${bounds#* }|" parts.tl > bounds.tl
    echo "$bounds"
    flashtl verify bounds.tl --on emulator --shapes 70x9,130x5 2>&1 | tail -1 | sed 's/;.*//'
    # Without any one of them it is no program.
    for line in $(grep -n 'Wait\|Release\|to shared' bounds.tl | sed 's/:.*//'); do
        if sed "${line}d" bounds.tl | flashtl check - > /dev/null 2>&1; then echo "passes without line $line"; fi
    done
done
