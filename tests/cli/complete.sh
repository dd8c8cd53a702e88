# Completions name values, not only options: what bash would offer.
flashtl help --form bash > completion
mkdir kernels; : > kernel.tl; : > my.gpu
cat > ask.bash <<'P'
. ./completion
ask() { # WORDS...: the last one is being written
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    _flashtl
    echo "${*:2}<tab>: ${COMPREPLY[*]}"
}
ask flashtl ver
ask flashtl build --gp
ask flashtl build --gpu a1
ask flashtl build --gpu m
ask flashtl build --gpu t4,l4
ask flashtl build --gpu = h2
ask flashtl reason --op m
ask flashtl sketch row
ask flashtl sketch gqa --with so
ask flashtl verify --on ''
ask flashtl verify --dtype ''
ask flashtl verify --dtype =
ask flashtl verify --shapes ''
ask flashtl bench --grid p
ask flashtl translate --to ''
ask flashtl translate --plan --t
ask flashtl emulate --plan k
ask flashtl reason --measured no
ask flashtl cache --cache k
ask flashtl cache cl
ask flashtl help tran
ask flashtl help --form ''
ask flashtl gpus rtx-4
ask flashtl reason --op mha k
ask flashtl build --head-dim ''
P
bash ask.bash
