# A compiler that is at work when the command is ended, by whatever signal, ends too, with what it has
# started, and nothing of it stays in the folder for temporary files.
mkdir bin tmp
cat > bin/nvcc <<'END'
#!/bin/sh
touch "$TMPDIR/intermediate"
echo $$ >> "$PIDS"
sh -c 'echo $$ >> "$PIDS"; exec sleep 600' &
echo "$TMPDIR" > "$PIDS.begun"
sleep 600
END
chmod +x bin/nvcc
PIDS=$PWD/pids FLASHTL_NVRTC='' TMPDIR=$PWD/tmp
PATH=$PWD/bin:$PATH
export PIDS FLASHTL_NVRTC TMPDIR PATH
# Within two minutes, or not.
comes() { for i in $(seq 1200); do "$@" && return; sleep 0.1; done; return 1; }
alive() { for pid in $(cat pids); do grep -q '^State:.[^Z]' "/proc/$pid/status" 2> /dev/null && return; done; return 1; }
gone() { ! alive; }
empty() { [ -z "$(ls -A tmp)" ]; }
for signal in TERM INT HUP KILL; do
    rm -f pids pids.begun
    # A job of a script ignores SIGINT, which an interrupted terminal's does not.
    python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])' flashtl build --op gqa --gpu t4 --head-dim 64 -o out > /dev/null 2>&1 &
    flashtl=$!
    comes test -f pids.begun || echo "the compiler did not begin"
    case $(cat pids.begun) in $PWD/tmp/*) ;; *) echo "its own files are not where ours are" ;; esac
    kill -$signal $flashtl
    wait $flashtl 2> /dev/null
    echo "$signal -> $?"
    comes gone || echo "compilers are left"
    comes empty || echo "left: $(ls -A tmp)"
done
# One that is not ended leaves nothing either, and a missing one is said to be missing.
printf '#!/bin/sh\ntouch "$TMPDIR/intermediate"\nexit 3\n' > bin/nvcc
flashtl build --op gqa --gpu t4 --head-dim 64 -o out; echo "-> $?"
empty || echo "left: $(ls -A tmp)"
