# What has no gradient yet, each kind with its statement and the reason: nothing is left out of a gradient without a word.
for file in "$TESTS"/../derive/refused/*.tl; do
    name=$(basename "$file" .tl)
    echo "== $name"
    cp "$file" .
    flashtl derive "$name.tl" && echo "(derived)"
done
echo "== an Input that has none, while others have: a note, or the reason where it was asked for"
for file in "$TESTS"/../derive/left_out/*.tl; do
    name=$(basename "$file" .tl)
    cp "$file" .
    flashtl derive "$name.tl" | grep '^// There is no'
    flashtl derive "$name.tl" --of w
done
echo "== an Input that was asked for, and has none"
flashtl sketch mha | flashtl derive --of scale
flashtl sketch mha | flashtl derive --of Q,Z
