# What has no gradient yet, each kind with its statement and the reason: nothing is left out of a gradient without a word.
for file in "$TESTS"/../derive/refused/*.tl; do
    name=$(basename "$file" .tl)
    echo "== $name"
    cp "$file" .
    flashtl derive "$name.tl" && echo "(derived)"
done
echo "== an Input that was asked for, and has none"
flashtl derive ../empty/view_of_copied.tl --of X
flashtl sketch mha --alibi | flashtl derive --of slope
flashtl sketch mha | flashtl derive --of scale
flashtl sketch mha | flashtl derive --of Q,Z
