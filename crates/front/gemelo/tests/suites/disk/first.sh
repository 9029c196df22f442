# The first boot: a pool is made, its volumes become disks, the server dies and comes back, and the
# machine loses its power.
M=$((1 << 20))
check 'a file system for the pool' mkfs.ext4 -q -E lazy_itable_init=0 /dev/vda
check 'mount it' mount -t ext4 /dev/vda /p
check 'a pool' /gemelo pool create /p/pool --capacity 1500m
for volume in a:256m b:96m c:320m; do
    check "volume $volume" /gemelo volume create /p/pool/${volume%:*} --size ${volume#*:}
done
refused 'a device without a server' 'no process serves the pool' /gemelo attach /p/pool/a
serve --ublk a b
check 'a name by the rule of udev' within 10 test -b /dev/gemelo/pool/a
check 'attach another one' /gemelo attach /p/pool/c
check 'its name' within 10 test -b /dev/gemelo/pool/c
refused 'attach it twice' 'is attached already' /gemelo attach /p/pool/c
check 'ext4' mkfs.ext4 -q /dev/gemelo/pool/a
check 'xfs' mkfs.xfs -q /dev/gemelo/pool/c
check 'mount ext4' mount -t ext4 -o discard /dev/gemelo/pool/a /a
check 'mount xfs' mount -t xfs -o discard /dev/gemelo/pool/c /c
seq 1 400000 >/a/numbers; cp /a/numbers /a/copy; cp /a/numbers /c/numbers; seq 1 200000 >/c/removed
(cd /a; sha256sum numbers copy) >/tmp/a.sums; (cd /c; sha256sum numbers) >/tmp/c.sums
sync; rm /c/removed; sync
check 'trim ext4' fstrim /a
check 'trim xfs' fstrim /c
refused 'detach while mounted' 'mounted at /a' /gemelo detach /p/pool/a
refused 'remove a volume that is attached' '1 connected client' /gemelo volume rm /p/pool/a

# Four jobs write and check one disk, files are written on another one, and the server dies.
fio --name=jobs --filename=/dev/gemelo/pool/b --direct=1 --rw=randrw --rwmixread=30 --bsrange=4k-64k \
    --numjobs=4 --size=12m --offset_increment=12m --ioengine=libaio --iodepth=8 --rate_iops=80,160 \
    --fsync=32 --loops=2 --verify=crc32c --verify_fatal=1 --group_reporting >/tmp/fio 2>&1 &
fio=$!
(while [ ! -e /tmp/enough ]; do
    seq 1 $RANDOM >/a/some; cat /a/some /a/numbers >/a/both; sha256sum /a/both >/tmp/both
done) &
writer=$!
for death in 1 2 3 4 5; do
    sleep 1.2
    killed
    serve --ublk a b
done
touch /tmp/enough
check 'jobs over five deaths' wait $fio
check 'files over five deaths' wait $writer
sync; echo 3 >/proc/sys/vm/drop_caches
check 'what was written last' sha256sum -c /tmp/both
check 'files of ext4' sh -c 'cd /a; sha256sum -c /tmp/a.sums'
check 'files of xfs' sh -c 'cd /c; sha256sum -c /tmp/c.sums'

# A snapshot is a read-only disk.
check 'a snapshot' /gemelo volume snapshot /p/pool/a s
check 'attach it' /gemelo attach /p/pool/s
check 'it is read-only' within 10 sh -c '[ "$(blockdev --getro /dev/gemelo/pool/s)" = 1 ]'
check 'detach it' /gemelo detach /p/pool/s
check 'its name is gone' within 10 is_gone /dev/gemelo/pool/s

# This kernel shows a new size to those that attach again.
check 'grow a volume' /gemelo volume resize /p/pool/b --size 128m
check 'the disk has its size' has_size b $((96 * M))
check 'detach it' /gemelo detach /p/pool/b
check 'attach it again' /gemelo attach /p/pool/b
check 'the disk has the new size' within 10 has_size b $((128 * M))

# Another place is another pool, also with the same ids.
check 'unmount xfs' umount /c
killed
mv /p/pool /p/elsewhere; mkdir /p/moved; mv /p/elsewhere /p/moved/pool
/gemelo serve /p/moved/pool --ublk b >/tmp/other 2>&1 & other=$!
check 'a server of another place' within 30 grep -q '^listening' /tmp/other
check 'takes none of the devices' sh -c '! grep -q "ublkb[012]$" /tmp/other'
kill $other; wait $other
mv /p/moved/pool /p/pool
serve --ublk
check 'the first place gets its devices back' sh -c 'cd /a; sha256sum -c /tmp/a.sums'
check 'force the removal of a volume' /gemelo volume rm --force /p/pool/c
check 'its disk is gone' within 10 is_gone /dev/gemelo/pool/c

# An unused disk goes with its server. One in use waits.
stopped
check 'an unused disk has gone' within 10 is_gone /dev/gemelo/pool/b
check 'a mounted one has not' test -b /dev/gemelo/pool/a
serve --ublk a
echo 1 >/proc/sys/vm/drop_caches
check 'it goes on' sh -c 'cd /a; sha256sum -c /tmp/a.sums'

# A device that no server takes back within its time fails its requests.
check 'detach a mounted disk by force' /gemelo detach --force /p/pool/a
check 'its file system goes as well' umount /a
stopped
serve --ublk b --ublk-timeout 3s
killed
(dd if=/dev/gemelo/pool/b of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null; echo "it ended: $?" >/tmp/read) &
sleep 1
check 'a read waits at first' test ! -e /tmp/read
check 'and fails with the time' within 20 grep -q 'it ended: [1-9]' /tmp/read
check 'the disk is gone' within 10 is_gone /dev/gemelo/pool/b
serve --ublk a b --ublk-timeout 3s
check 'mount again' within 10 mount -t ext4 -o discard /dev/gemelo/pool/a /a
killed
serve --ublk a
sleep 4
check 'who is taken back in time goes on' touch /a/touched

# What was flushed survives a loss of power; what was not may.
seq 1 300000 >/a/flushed; sync
seq 1 250000 >/a/not-flushed
dmesg | grep -iE 'blocked for more|kernel bug|call trace' && say 'FAILED kernel'
say power
sleep 600
