#!/usr/bin/env bash
# Operation rates of three workloads: gemelo filebench and, where it is installed, the original on
# the same scripts. Usage: benches/filebench.sh [DIR...] DIR: directories to run in, each on the
# file system to measure [a temporary one, /dev/shm] GEMELO: the binary [target/release/gemelo];
# FILEBENCH: the original [filebench]; SECONDS_EACH: length of a run [10]; ROUNDS: alternations, of
# which the median counts [3].
set -euo pipefail

gemelo=${GEMELO:-target/release/gemelo}
original=${FILEBENCH:-filebench}
seconds=${SECONDS_EACH:-10}
rounds=${ROUNDS:-3}
[ -x "$gemelo" ] || { echo "build it first: cargo build --release" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
[ $# -gt 0 ] || set -- "$work/disk" /dev/shm

# Opens, reads whole and closes as many files of a set as asked for.
readers() {
    for n in $(seq "$2"); do
        echo "flowop openfile name=open$n,filesetname=$1,fd=1"
        echo "flowop readwholefile name=read$n,fd=1,iosize=1m"
        echo "flowop closefile name=shut$n,fd=1"
    done
}

script() {
    echo "set \$dir=$2"
    size='cvar(type=cvar-gamma,parameters=mean:MEAN;gamma:1.5)'
    case $1 in
    fileserver)
        echo "set \$size=$size" | sed s/MEAN/131072/
        echo 'define fileset name=share,path=$dir,size=$size,entries=10000,dirwidth=20,prealloc=80'
        echo 'define process name=server,instances=1 { thread name=user,memsize=10m,instances=50 {'
        echo 'flowop createfile name=new,filesetname=share,fd=1'
        echo 'flowop writewholefile name=fill,srcfd=1,fd=1,iosize=1m'
        echo 'flowop closefile name=close1,fd=1'
        echo 'flowop openfile name=open2,filesetname=share,fd=1'
        echo 'flowop appendfilerand name=grow,iosize=16k,fd=1'
        echo 'flowop closefile name=close2,fd=1'
        readers share 1
        echo 'flowop deletefile name=remove,filesetname=share'
        echo 'flowop statfile name=look,filesetname=share'
        ;;
    varmail)
        echo "set \$size=$size" | sed s/MEAN/16384/
        echo 'define fileset name=mail,path=$dir,size=$size,entries=1000,dirwidth=1000000,prealloc=80'
        echo 'define process name=server,instances=1 { thread name=box,memsize=10m,instances=16 {'
        echo 'flowop deletefile name=remove,filesetname=mail'
        echo 'flowop createfile name=new,filesetname=mail,fd=1'
        echo 'flowop appendfilerand name=add1,iosize=16k,fd=1'
        echo 'flowop fsync name=sync1,fd=1'
        echo 'flowop closefile name=close1,fd=1'
        echo 'flowop openfile name=again,filesetname=mail,fd=1'
        echo 'flowop readwholefile name=reread,fd=1,iosize=1m'
        echo 'flowop appendfilerand name=add2,iosize=16k,fd=1'
        echo 'flowop fsync name=sync2,fd=1'
        echo 'flowop closefile name=close2,fd=1'
        readers mail 1
        ;;
    webserver)
        echo "set \$size=$size" | sed s/MEAN/16384/
        echo 'define fileset name=pages,path=$dir,size=$size,entries=1000,dirwidth=20,prealloc=100,readonly'
        echo 'define fileset name=logs,path=$dir,size=$size,entries=1,dirwidth=20,prealloc'
        echo 'define process name=server,instances=1 { thread name=worker,memsize=10m,instances=100 {'
        readers pages 10
        echo 'flowop appendfilerand name=log,filesetname=logs,iosize=16k,fd=2'
        ;;
    esac
    echo '} }'
    echo "run $seconds"
}

# Operations a second, of the last summary line.
rate() { sed -n "s/.*IO Summary: *[0-9]* ops *\([0-9.]*\) ops\/s.*/\1/p" | tail -n 1; }
median() { sort -n | awk '{ value[NR] = $1 } END { print NR ? value[int((NR + 1) / 2)] : "none" }'; }

command -v "$original" >/dev/null || echo "the original is not installed: its column is empty"
printf '%-12s %-20s %14s %14s %8s\n' workload directory 'gemelo ops/s' 'original ops/s' ratio
for directory in "$@"; do
    dir=$directory/gemelo-filebench.$$
    mkdir -p "$dir"
    for name in fileserver varmail webserver; do
        script $name "$dir" >"$work/$name.f"
        : >"$work/ours"
        : >"$work/theirs"
        for _ in $(seq "$rounds"); do
            { "$gemelo" filebench "$work/$name.f" || true; } | rate >>"$work/ours"
            if command -v "$original" >/dev/null; then
                # It relies on equal addresses in all of its processes.
                { setarch -R "$original" -f "$work/$name.f" 2>/dev/null || true; } | rate >>"$work/theirs"
                rm -rf "${dir:?}"/*
            fi
        done
        ours=$(median <"$work/ours")
        theirs=$(median <"$work/theirs")
        ratio=$(awk "BEGIN { if (\"$theirs\" != \"none\") printf \"%.2f\", $ours / $theirs }")
        printf '%-12s %-20s %14s %14s %8s\n' $name "$directory" "$ours" "$theirs" "$ratio"
    done
    rm -rf "$dir"
done
