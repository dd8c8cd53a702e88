# The tool that runs compute-sanitizer over all programs, with one that finds what it is told.
cat > sanitizer <<'X'
#!/bin/sh
echo "========= COMPUTE-SANITIZER"
case $FAKE:$2 in
clean:*) echo "2 cases: 2 passed, 0 failed, 0 skipped"; echo "========= ERROR SUMMARY: 0 errors";;
races:racecheck) echo "========= RACECHECK SUMMARY: 3 hazards displayed (3 errors, 0 warnings)"; exit 9;;
races:*) echo "2 cases: 2 passed, 0 failed, 0 skipped"; echo "========= ERROR SUMMARY: 0 errors";;
wrong:*) echo "FAIL  case 0: too far"; echo "========= ERROR SUMMARY: 0 errors"; exit 1;;
crash:*) echo "cannot attach" >&2; exit 1;;
none:*) echo "0 cases: 0 passed, 0 failed, 2 skipped"; echo "========= ERROR SUMMARY: 0 errors";;
esac
X
chmod +x sanitizer
sanitize() {
    python3 "$TESTS/../../tools/sanitize.py" --binary "$(command -v flashtl)" --jobs 1 --sanitizer ./sanitizer \
        --only 'attention --head-dim 64 --gpu t4' "$@" 2>&1 | sed "s|[^ ]*/flashtl verify|flashtl verify|; s/; [0-9]* s,/; N s,/"
}
for FAKE in clean races wrong crash none; do
    export FAKE
    echo "== $FAKE"
    sanitize
done
sanitize --only nothing | tail -1
sanitize --tools valgrind | tail -1
python3 "$TESTS/../../tools/sanitize.py" --binary absent --sanitizer ./sanitizer
echo "-> $?"
