# The help of a command shows its examples; every example's options are that command's own.
flashtl help fmt
flashtl cache --help | tail -4
flashtl verify --op mha -o nowhere; echo "-> $?"
# Examples are command lines: each word that begins with -- is an option of its command.
for command in $(flashtl help | sed -n '/^Commands/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    flashtl help "$command" | sed '1,/^Examples/d; s/  #.*//' | tr '|' '\n' | while read -r line; do
        name=$(echo "$line" | cut -d' ' -f2)
        for word in $(echo "$line" | grep -o -e ' --[a-z][a-z-]*'); do
            flashtl help "$name" | grep -q -e "$word" || echo "$line: there is no $word"
        done
    done
done
# The passes are those of --print-after, and the pins those that reason takes.
flashtl help passes | sed -n 's/^  \([a-z]*\)  .*/\1/p' | head -15 | tr '\n' ' '; echo
flashtl help passes | grep -c '^  [a-zA-Z_]* '
