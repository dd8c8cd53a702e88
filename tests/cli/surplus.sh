# Vectors along the rows of a tile `as lines` that has fewer rows than its warps have places: nothing beyond the tile is
# written or read, in global memory or in shared, where other tiles lie.
cat > rows.tl <<'TL'
kernel rows for a100
let BM = 16, n = 16
Input  X f32 (row in rows, n)
Input  u f32 (row in rows)
Input  names i32 (row in rows)
Input  w f32 (place in places)
Output Y f32 (row in rows)
Output Z f32 (row in rows)
grid block in rows/BM
role math with 4 warps
    Allocate T in register f32 (BM, n) as lines
    Allocate r in register f32 (BM) as rows of T
    Allocate v in register f32 (BM) as rows of T
    Allocate c in shared f32 (BM)
    Allocate after in shared f32 (BM)
    Compute Fill 3 and get v
    Copy v from register to shared and get after
    Copy X (BM, n) in coordinate [L = block] from global to register and get T
    Copy u (BM) in coordinate [L = block] from global to register and get v
    Compute RowSum T and get r
    Compute Add r, v and get r
    Copy r from register to shared and get c
    Wait c
    Copy c from shared to register and get v
    Release c
    Compute Multiply v, w[names[row]] in coordinate [L = block] and get v
    Copy v (BM) in coordinate [L = block] from register to global and get Y
    Wait after
    Copy after from shared to register and get r
    Release after
    Copy r (BM) in coordinate [L = block] from register to global and get Z
end
TL
for tile in "16 with 2" "16 with 4" "16 with 8" "48 with 4" "80 with 8" "8 with 3"; do
    sed "s/BM = 16/BM = ${tile%% *}/; s/with 4/with ${tile##* }/" rows.tl > tile.tl
    echo "$tile: $(flashtl verify tile.tl --on emulator --shapes 113x40,80x40 | tail -1 | sed 's/;.*//')"
    sed "s/, n = 16/, n = 16, rows = 240/" tile.tl > whole.tl
    echo "whole: $(flashtl verify whole.tl --on emulator --shapes 40 | tail -1 | sed 's/;.*//')"
done
# What a sketch gets where its tile is pinned to so few rows.
cat > largest.tl <<'TL'
kernel largest
Input  X f32 (row in rows, column in columns)
Output Y (row in rows)
Compute Fill -1e30 and get r
for j = 0:columns/BN
    Copy X from global to register and get T
    Compute RowMax T and accumulate r
end
Copy r from register to global and get Y
TL
flashtl verify largest.tl --gpu a100 --dtype f16 --let BM=16 --let BN=16 --on emulator --shapes 33x40 | tail -1 | sed 's/;.*//'
