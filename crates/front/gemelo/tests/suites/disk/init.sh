#!/bin/busybox sh
# First process of the guest: drivers, file systems, devices by udev, and then what the test does.
/bin/busybox --install -s /bin
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ LC_ALL=C
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev
mkdir -p /dev/shm /run /tmp; mount -t tmpfs t /dev/shm; mount -t tmpfs t /tmp; mount -t tmpfs t /run
for module in $(cat /modules/order); do insmod /modules/$module.ko; done
ip link set lo up
/lib/systemd/systemd-udevd --daemon; udevadm trigger --type=devices; udevadm settle -t 20
mkdir -p /p /a /c
. /lib.sh
. /job.sh
say done
sync
poweroff -f
