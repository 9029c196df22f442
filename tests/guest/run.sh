#!/usr/bin/env bash
# Boots a Debian with systemd by QEMU, without hardware support, installs the package there, and
# uses the disks of gemelo as an administrator would. Says ok or FAILED for each check.
#
#   tests/guest/run.sh [JOB...]      files of tests/guest/jobs (all, in the order of ORDER)
#
# Each job is a boot with the disks that the job before it has left. Without any, `install` comes
# first. The last line is the verdict. `random` takes SECONDS_OF_RANDOM (3600) and SEED.
# Variables: BINARY (target/debug/gemelo), MINUTES of a boot (30), DISKS (a directory),
# QEMU_MORE and KERNEL_MORE (options).
set -euo pipefail
cd "$(dirname "$0")/../.."

mapfile -t jobs < <(if [ $# -gt 0 ]; then printf '%s\n' "$@"; else cat tests/guest/jobs/ORDER; fi)
lab=$(tests/guest/image.sh)
disks="${DISKS:-$lab/disks}"
minutes=${MINUTES:-30}
random_seconds=${SECONDS_OF_RANDOM:-3600}
# Without AVX, because QEMU 10.0 reads 32 bytes for an operand of `vinsertf128` that has 16.
processor=max,-avx,-avx2,-fma,-f16c
shutdown_seconds=120

mkdir -p "$disks"
binary=${BINARY:-target/debug/gemelo}
# What nobody keeps need not be small.
export DPKG_DEB_COMPRESSOR_TYPE=none
packed="$disks/gemelo.deb"
changed() { find contrib docs scripts packaging "$binary" -newer "$packed" -print -quit; }
if [ ! -e "$packed" ] || [ -n "$(changed)" ]; then
    cp "$(BINARY="$binary" scripts/deb.sh "$disks/package")" "$packed"
fi
tar -cf "$disks/jobs.tar" -C tests/guest library load.py random_load.py jobs -C "$(realpath "$disks")" gemelo.deb
if [ "${jobs[0]}" != install ] && [ ! -e "$disks/root.qcow2" ]; then jobs=(install "${jobs[@]}"); fi
if [ "${jobs[0]}" = install ] || [ ! -e "$disks/root.qcow2" ]; then
    rm -f "$disks/root.qcow2" "$disks/data" "$disks"/console-*
    qemu-img create -q -f qcow2 -b "$PWD/$lab/root.ext4" -F raw "$disks/root.qcow2"
    truncate --size 12G "$disks/data"
fi

# What a job wants the kernel to be told.
options_of() { sed -n 's/^# kernel: //p' "tests/guest/jobs/$1"; }

boot() {
    # shellcheck disable=SC2086
    exec qemu-system-x86_64 -machine q35,accel=tcg -cpu "$processor" -smp 2 -m 3072 \
        -nodefaults -display none -no-reboot -serial "file:$disks/console-$1" \
        -kernel "$lab/vmlinuz" -initrd "$lab/initrd" \
        -append "root=/dev/vda rw console=ttyS0 quiet panic=-1 mitigations=off gemelo.job=$1 gemelo.seconds=$random_seconds gemelo.seed=${SEED:-} $(options_of "$1") ${KERNEL_MORE:-}" \
        -drive "file=$disks/root.qcow2,if=none,id=root,cache=unsafe,discard=unmap" \
        -drive "file=$disks/data,if=none,id=data,format=raw,discard=unmap,cache=unsafe" \
        -drive "file=$disks/jobs.tar,if=none,id=jobs,format=raw,read-only=on" \
        -device virtio-blk-pci,drive=root -device virtio-blk-pci,drive=data,serial=data \
        -device virtio-blk-pci,drive=jobs,serial=jobs ${QEMU_MORE:-} </dev/null
}

said() { tr -d '\r' <"$disks/console-$1" | sed -n 's/.*GUEST: //p'; }

# Runs a job until the guest ends, or its time is over. The guest may hang while it ends as well.
run() {
    local job=$1 end latest failed=0
    : >"$disks/console-$job"
    boot "$job" & qemu=$!
    end=$((SECONDS + minutes * 60))
    [ "$job" != random ] || end=$((end + random_seconds))
    while kill -0 "$qemu" 2>/dev/null && [ "$SECONDS" -lt "$end" ]; do
        case "$(said "$job" | tail -n 1)" in
        power) break ;;
        'done')
            latest=$((SECONDS + shutdown_seconds))
            [ "$end" -lt "$latest" ] || end=$latest
            ;;
        esac
        sleep 1
    done
    if kill -9 "$qemu" 2>/dev/null && [ "$(said "$job" | tail -n 1)" != power ]; then
        echo "FAILED $job: the guest did not end in time"
        failed=1
    fi
    wait "$qemu" 2>/dev/null || true
    said "$job" | sed "s/^/$job: /"
    if ! said "$job" | tail -n 1 | grep -qE '^(done|power)$' || said "$job" | grep -q ^FAILED; then
        failed=1
    fi
    return "$failed"
}

qemu=
trap '[ -z "$qemu" ] || kill -9 "$qemu" 2>/dev/null || true' EXIT
bad=()
for job in "${jobs[@]}"; do
    run "$job" || bad+=("$job")
done
if [ ${#bad[@]} -gt 0 ]; then
    echo "FAILED: ${bad[*]} of ${jobs[*]}"
    exit 1
fi
echo "ok: ${jobs[*]}"
