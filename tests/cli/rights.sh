# What is written has the rights that the umask leaves; what was there keeps its own.
mode() { stat -c '%a %n' "$@"; }
make() { flashtl sketch gqa -o "$1"; }
(umask 077; make private.tl); mode private.tl
(umask 027; make group.tl); mode group.tl
(umask 022; make usual.tl); mode usual.tl
(umask 000; make open.tl); mode open.tl
: > secret.tl; chmod 600 secret.tl
(umask 022; make secret.tl); mode secret.tl
: > shared.tl; chmod 664 shared.tl
(umask 077; make shared.tl); mode shared.tl
cmp secret.tl shared.tl && echo "both were written"
(umask 077; flashtl build --op gqa --gpu t4 --head-dim 64 -o kernels > /dev/null 2>&1); mode kernels/*.cu kernels/*.h | sed 's/ .*//' | sort -u
(umask 077; flashtl fmt --in-place shared.tl); mode shared.tl
# A file that may not be written is not replaced (root may write all).
cp usual.tl fixed.tl; chmod 444 fixed.tl
if [ "$(id -u)" != 0 ]; then flashtl sketch mqa -o fixed.tl; fi > words 2>&1
cmp usual.tl fixed.tl && echo "untouched"
ls
