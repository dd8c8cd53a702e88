# Headers of several kernels meet in one file of C, and of C++; what they say of min and max is what the language says.
for compiler in cc c++; do
    command -v $compiler > compiler || { echo "there is no $compiler" > ../skipped; exit; }
done
cat > bounded.tl <<'TL'
kernel bounded
Input  X f32 (row in rows, column in columns)
Input  least f32
Input  most f32 where max(least, most) >= 2 and min(most, least) <= 2 and max(rows, least) >= 2 and abs(min(least, 0)) < 4
Output Y f32 (row in rows, column in columns)
Copy X from global to register and get T
Compute Max T, least and get T
Compute Min T, most and get T
Copy T from register to global and get Y
TL
flashtl sketch gqa --causal > attention.tl
for options in "attention.tl --name large --head-dim 128" "attention.tl --name small --head-dim 64" "bounded.tl --name bounded"; do
    flashtl build --gpu h200 --no-compile -o . $options > said 2>&1 || cat said
done
for name in FTL_LAUNCH_ARITHMETIC FTL_LAUNCH_DIVISOR FTL_LAUNCH_MAPS; do
    echo "$name:" $(grep -l "define $name" ./*.h)
done
cat > program.c <<'C'
#include "bounded.h"
#include "large.h"
#include "small.h"

#include <math.h>
#include <stdio.h>

int main(void) {
    const double values[] = {1, 2, 3, -4, (double)NAN};
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < 5; k++) {
            const char *why = bounded_check(2, 4, values[i], values[k]);
            printf("%s", why ? "no " : "yes ");
        }
        printf("%g\n", values[i]);
    }
    printf("%d\n", large_ENTRY[0] && small_ENTRY[0]);
    return 0;
}
C
cp program.c program.cpp
for language in "cc -std=c99 program.c" "cc -std=c11 program.c" "c++ -std=c++11 program.cpp"; do
    $language -Wall -Wextra -Wpedantic -Werror -I . -o program && ./program > "said by ${language%% *}" || echo "failed: $language"
done
cmp "said by cc" "said by c++" && cat "said by cc"
# The numbers among them, as the library judges them: it takes no NaN.
python3 -c 'import npy; npy.write("X.npy", (2, 4), [1.0] * 8, "f4")'
for least in 1 2 3 -4; do
    for most in 1 2 3 -4; do
        flashtl run bounded.tl --in X=X.npy --let least=$least --let most=$most --out Y=Y.npy > said 2>&1 && printf 'yes ' || printf 'no '
    done
    echo "$least"
done
