# Texts that are none: diagnostics, exit status 1, and nothing on standard output.
reject() {
    flashtl fmt "$1" > output
    echo "-> $?"
    test -s output && echo "something was printed"
}
: > empty.tl
reject empty.tl
printf '\357\273\277Copy Q from global to shared\r\n\tCompute Fill 0 and get S\r\n' > crlf_and_mark.tl
flashtl fmt crlf_and_mark.tl
printf 'Copy Q from global to shared\n\0\n' > nul.tl
reject nul.tl
head -c 1048577 /dev/zero | tr '\0' 'a' > long.tl
reject long.tl
yes 'for j = 0:4' | head -10000 > nested.tl
reject nested.tl 2>&1 | tail -4
printf 'Copmute GEMM Q, K.T and get S\n' > typo.tl
reject typo.tl
awk 'BEGIN { srand(1); for (i = 0; i < 1000000; i++) printf "%c", 32 + int(rand() * 95) }' > noise.tl
reject noise.tl 2>&1 | tail -2 | cut -c 1-60
# A name that is missing at both ends of a Copy is told once.
printf 'kernel a\nOutput Y f16 (i in n; j in m)\nCopy Z from register to global\n' > undefined.tl
flashtl check undefined.tl
# A file without an end, and a number without one.
for file in /dev/zero /dev/urandom; do timeout 1800 flashtl fmt $file 2>&1; echo "-> $?"; done
{ printf 'kernel a\nlet n = '; head -c 100000 /dev/zero | tr '\0' 9; echo; } > digits.tl
flashtl check digits.tl 2>&1 | head -1
