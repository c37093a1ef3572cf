#!/bin/sh
# The script of the boot: what it prints is checked line by line.
B=/bin/busybox
$B mount -t proc proc /proc
$B mount -t sysfs sys /sys
echo machine $($B uname -m) on $($B nproc) cpus
echo sum $($B seq 1 100 | $B awk '{ s += $1 } END { print s }')
echo text | $B tr a-z A-Z | $B sed 's/TEXT/sed ran/'
$B sleep 0.01
cd /sys/devices/system
$B grep -H '' cpu/online cpu/possible cpu/present cpu/cpuidle/current_driver \
    cpu/cpu*/topology/*_id cpu/cpu*/topology/*_list cpu/cpu*/cache/index*/*[!p] \
    cpu/cpu*/regs/identification/midr_el1 cpu/cpu*/cpuidle/state*/[ln]a* \
    cpu/cpu*/cpuidle/state*/desc cpu/cpu*/cpuidle/state*/residency \
    node/online node/node*/cpulist node/node*/distance 2>/dev/null | $B sed 's/^/sysfs /'
echo messages $($B dmesg | $B grep -c .)
$B dmesg -r | $B sed -n 's/^<[0-4]>/complaint /p'
read part
read line
echo typed $line
exec $B poweroff -f
