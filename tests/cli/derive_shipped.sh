# Every sketch and example that ships: the gradients that are derived of it and what is left out, or why there is none. Of a
# kernel's options those are named that change this.
of_sketch() {
    if flashtl derive sketch.tl -o derived.tl 2> refused; then
        echo "    $(sed -n 's/^Output \(d[A-Za-z_]*\) .*/\1/p' derived.tl | grep -v '_parts$\|_sum$\|_tile$\|^delta$' | sort -u | tr '\n' ' ')"
        grep '^// There is no\|^// .* counts as given\|^// .* is made entry by entry' derived.tl | sort -u | sed 's/^/    /'
    else
        sed -n '1s/^sketch.tl:[0-9:]* error: /    /p' refused
        sed -n '2s/^ *\(.*\)$/        \1/p' refused
    fi
}
flashtl sketch | awk '
    # An operator, or the kernels that it names; then its options, each alone.
    function end_of_family(i, k) {
        for (i = 1; i <= entries; i++) {
            print entry[i]
            for (k = 1; k <= options; k++) print entry[i] " --with " option[k]
        }
        entries = options = 0
    }
    /^[a-z]/ { end_of_family(); family = $1; next }
    /^    --/ { option[++options] = substr($1, 3) ($2 ~ /^[NX]$/ ? "=16" : ""); next }
    { entry[++entries] = $1 }
    END { end_of_family() }' > entries
tell() { # NAME: of sketch.tl, where that differs from the sketch without options
    of_sketch > now
    case $1 in
    *" --with "*) ! cmp -s now plain || return 0 ;;
    *) cp now plain ;;
    esac
    echo "$1"
    cat now
}
for name in chained_gemms gemm_bias_gelu row_softmax block_sparse; do echo "$name"; done >> entries
while read -r entry; do
    flashtl sketch $entry > sketch.tl 2> /dev/null && flashtl check sketch.tl > /dev/null 2>&1 || continue # an option that needs another, or is of other kernels
    tell "$entry"
done < entries
for file in "$TESTS"/../../examples/*.tl; do
    cp "$file" sketch.tl
    tell "$(basename "$file")"
done
