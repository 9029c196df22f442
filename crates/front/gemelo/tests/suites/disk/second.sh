# The boot after the loss of power. The server has the rights of the user of the pool, and one more
# when it begins.
rights="--reuid 900 --regid 900 --clear-groups --inh-caps +sys_admin --ambient-caps +sys_admin"
check 'mount the pool' mount -t ext4 /dev/vda /p
check 'the pool is consistent' /gemelo pool check --data /p/pool
chown -R gemelo:gemelo /p/pool; chmod 755 /p; mkdir -p /run/gemelo; chown gemelo /run/gemelo
/usr/bin/setpriv $rights /gemelo serve /p/pool --ublk a --ublk-timeout 60s >/tmp/server 2>&1 & server=$!
check 'a server that is not root' within 30 grep -q '^listening' /tmp/server
check 'has no rights left' sh -c "! grep -hE '^Cap(Eff|Prm|Amb|Inh):' /proc/$server/task/*/status | grep -v ':\s*0*$'"
check 'the disk is there' within 10 test -b /dev/gemelo/pool/a
check 'mount it' mount -t ext4 -o discard /dev/gemelo/pool/a /a
seq 1 300000 | check 'what was flushed' cmp - /a/flushed
seq 1 400000 | check 'and what was there before' cmp - /a/numbers
check 'unmount it' umount /a
check 'its file system is consistent' e2fsck -fn /dev/gemelo/pool/a
check 'detach it' /gemelo detach /p/pool/a
check 'attach it again' /gemelo attach /p/pool/a
check 'the disk is there again' within 10 test -b /dev/gemelo/pool/a
killed
/usr/bin/setpriv $rights /gemelo serve /p/pool >/tmp/server 2>&1 & server=$!
check 'the next server takes it back' within 30 grep -q '^listening at ublk:' /tmp/server
check 'and it is read' dd if=/dev/gemelo/pool/a of=/dev/null bs=64k count=16 iflag=direct
stopped
