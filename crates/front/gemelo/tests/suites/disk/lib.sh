# What the jobs of the guest use. Each check is a line of the report.
say() { echo "DISK: $*"; }
# check NAME COMMAND...: says whether the command succeeds, and what it said if it does not.
check() {
    name=$1; shift
    if "$@" >/tmp/said 2>&1; then say "ok $name"; else say "FAILED $name: $(tail -n 5 /tmp/said)"; fi
}
# refused NAME TEXT COMMAND...: the command fails and says the text.
refused() {
    name=$1 text=$2; shift 2
    if "$@" >/tmp/said 2>&1; then say "FAILED $name: not refused"
    elif grep -q "$text" /tmp/said; then say "ok $name"
    else say "FAILED $name: $(tail -n 5 /tmp/said)"; fi
}
# within SECONDS COMMAND...: waits until the command succeeds.
within() {
    tries=$(($1 * 10)); shift
    while [ $tries -gt 0 ]; do
        if "$@" >/dev/null 2>&1; then return 0; fi
        tries=$((tries - 1)); sleep 0.1
    done
    return 1
}
# Starts a server of the pool with these options, and waits until it is ready.
serve() {
    /gemelo serve /p/pool "$@" >/tmp/server 2>&1 &
    server=$!
    within 30 grep -q '^listening' /tmp/server || say "FAILED serve $*: $(cat /tmp/server)"
}
killed() { kill -9 $server; wait $server 2>/dev/null; }
stopped() { kill $server; wait $server; }
size_of() { blockdev --getsize64 /dev/gemelo/pool/$1; }
has_size() { [ "$(size_of $1)" = $2 ]; }
is_gone() { [ ! -e $1 ]; }
