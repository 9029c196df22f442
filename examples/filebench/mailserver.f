# A mail server: threads deliver, read and delete mail, with the duplicates of a mail store.
#
#   gemelo filebench examples/filebench/mailserver.f --dir /mnt/test
#
# -D nfiles=100000 and -D nthreads=32 make it larger; --sweep nthreads=1,4,16 runs it once for each.

set $dir=/tmp
set $nfiles=1000
set $meandirwidth=1000
set $filesize=16k
set $nthreads=4
set $appendsize=8k

define fileset name=mail,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,prealloc=80,datasource=duplicates,distribution=primary,compressibility=50

define process name=server,instances=1
{
  thread name=worker,memsize=1m,instances=$nthreads
  {
    flowop deletefile name=delete,filesetname=mail
    flowop createfile name=deliver,filesetname=mail,fd=1
    flowop appendfilerand name=write,iosize=$appendsize,fd=1
    flowop fsync name=commit,fd=1
    flowop closefile name=delivered,fd=1
    flowop openfile name=open,filesetname=mail,fd=1
    flowop readwholefile name=read,fd=1,iosize=1m
    flowop closefile name=close,fd=1
  }
}

run 60
