# The boot after the loss of power.
check 'mount the pool' mount -t ext4 /dev/vda /p
check 'the pool is consistent' /gemelo pool check --data /p/pool
serve --ublk a
check 'the disk is there' within 10 test -b /dev/gemelo/pool/a
check 'mount it' mount -t ext4 -o discard /dev/gemelo/pool/a /a
seq 1 300000 | check 'what was flushed' cmp - /a/flushed
seq 1 400000 | check 'and what was there before' cmp - /a/numbers
check 'unmount it' umount /a
check 'its file system is consistent' e2fsck -fn /dev/gemelo/pool/a
check 'detach it' /gemelo detach /p/pool/a
stopped
