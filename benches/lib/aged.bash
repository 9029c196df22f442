# shellcheck shell=bash
# Ages a served volume: a store in long use has only short runs of free blocks. A benchmark of
# writes measures a fresh store, and the same one after this. The pool should be about 1.4 times as
# large as the volume, so that 70 % is in use.

# age SOCKET SIZE RESTART...: writes all SIZE of the default export, overwrites blocks of 4 KiB at
# random with twice as much data, and calls RESTART twice, a command that ends the server and starts
# it again. The volume is a power of two.
age() {
    local socket=$1 size=$2
    shift 2
    local job=(fio --name=age --ioengine=nbd --uri="nbd+unix:///?socket=$socket" --size="$size" --refill_buffers
        --randrepeat=0 --end_fsync=1)
    "${job[@]}" --bs=1m --rw=write --iodepth=4 >/dev/null 2>&1
    "${job[@]}" --bs=4k --rw=randwrite --norandommap --iodepth=32 --loops=2 >/dev/null 2>&1
    "$@"
    "$@"
}
