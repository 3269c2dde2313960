# Ages a guest for two hours, as the script of bench/linux/launch:
#
#   truncate -s 8G cache.img; truncate -s 1G 20.img 50.img 80.img 110.img
#   bench/linux/launch --kernel FILE --folder FOLDER --script bench/recordings/aged.sh --memory 1024 --cpus 2 \
#     --program target/release/pageyard --file target/release/pageyard-lab --read-only cache.img \
#     --disk 20.img --disk 50.img --disk 80.img --disk 110.img --seconds 9000 --until done
#
# Loads of what-ifs take turns, two processes at a time hold memory of which half was given back, and files come and go
# that live for minutes. After 20, 50, 80 and 110 minutes 15 seconds are recorded, each on a disk of its own, as a tar.
mkdir -p /l /rec
echo 0 2147483647 >/proc/sys/net/ipv4/ping_group_range
long_lived() {
	n=0
	while :; do
		n=$((n + 1))
		mkdir /l/$n; f=0
		while [ $f -lt 200 ]; do : >/l/$n/$f; f=$((f + 1)); done
		f=0
		while [ $f -lt 20 ]; do head -c $(((n * 37 + f * 911) % 16000 + 1)) /dev/zero >/l/$n/data$f; f=$((f + 1)); done
		if [ $n -gt 80 ]; then gone=$((n - (n * 7919 % 80))); rm -rf /l/$gone; fi
		if [ $((n % 97)) = 0 ]; then for old in /l/*; do [ ${old#/l/} -lt $((n - 80)) ] && rm -rf $old; done; fi
		sleep 3
	done
}
holders() {
	n=0
	while :; do
		n=$((n + 1))
		(sleep $((200 + n * 131 % 500))) | /pageyard-lab what-if-load age --size $((40 + n * 53 % 120)) --seed $n --cache / >/dev/null &
		sleep 150
	done
}
loads() {
	n=0
	while :; do
		n=$((n + 1))
		work() { /pageyard-lab what-if-load $1 --size $2 --seed $n --cache /dev/vda >/dev/null 2>&1; }
		case $((n % 7)) in
		0) work fork 40 ;;
		1) work files 384 ;;
		2) work net 96 ;;
		3) work huge 160 ;;
		4) work files 200 & work fork 30; wait $! ;;
		5) work atomic 2000 ;;
		6) work files 128 & work huge 120; wait $! ;;
		esac
	done
}
long_lived & holders & loads &
for at in 1200 3000 4800 6600; do
	while read up idle </proc/uptime; [ ${up%.*} -lt $at ]; do echo "up $up"; cat /proc/buddyinfo | grep -v DMA,; sleep 60; done
	/bin/pageyard record -o /rec/aged.trace --seconds 15 2>&1 | tail -5
	minutes=$((at / 60))
	case $minutes in 20) to=/dev/vdb ;; 50) to=/dev/vdc ;; 80) to=/dev/vdd ;; *) to=/dev/vde ;; esac
	tar cf $to -C /rec aged.trace && sync && echo "recorded after $minutes minutes"
	rm -rf /rec/aged.trace
done
echo done
