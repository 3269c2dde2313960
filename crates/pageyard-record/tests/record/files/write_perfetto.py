#!/usr/bin/env python3
"""Writes `perfetto.pftrace` with Google's protobuf and Perfetto's own description of its messages: a writer that knows
nothing of the importer. Takes `pip install perfetto protobuf`.

    python3 write_perfetto.py [FILE]
"""

import random
import sys
import zlib
from pathlib import Path

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto

choose = random.Random(7)
trace = perfetto.Trace()

clock = trace.packet.add()
clock.clock_snapshot.clocks.add(clock_id=6, timestamp=1)
system = trace.packet.add()
system.trusted_packet_sequence_id = 1
system.system_info.utsname.sysname = "Linux"
system.system_info.utsname.release = "6.12.117+deb12-cloud-amd64"
system.system_info.utsname.machine = "x86_64"
system.system_info.page_size = 4096
system.system_info.num_cpus = 4
for phase, overrun in [(1, 7), (2, 19)]:
    stats = trace.packet.add().ftrace_stats
    stats.phase = phase
    stats.cpu_stats.add(cpu=0, overrun=overrun, dropped_events=0)

time = [5_000_000 + cpu for cpu in range(4)]
for _ in range(12):
    for cpu in range(4):
        bundle = trace.packet.add().ftrace_events
        bundle.cpu = cpu
        for _ in range(20):
            time[cpu] += choose.randrange(10, 5000)
            event = bundle.event.add(timestamp=time[cpu], pid=choose.randrange(1, 9), common_flags=choose.choice([0, 1, 16]))
            order = choose.choice([0, 0, 0, 3, 9])
            pfn = choose.randrange(1 << 11) << 9
            kind = choose.randrange(8)
            if kind == 0:
                event.sched_switch.prev_comm = "somebody"
                event.sched_switch.next_pid = 3
            elif kind < 4:
                event.mm_page_alloc.gfp_flags = 0xCC0
                event.mm_page_alloc.migratetype = choose.randrange(3)
                event.mm_page_alloc.order = order
                event.mm_page_alloc.page = pfn
                event.mm_page_alloc.pfn = (1 << 64) - 1 if kind == 1 and order == 9 else pfn
            elif kind == 4:
                event.mm_page_pcpu_drain.migratetype = 1
                event.mm_page_pcpu_drain.order = 0
                event.mm_page_pcpu_drain.page = pfn
                event.mm_page_pcpu_drain.pfn = pfn
            elif kind == 5:
                extfrag = event.mm_page_alloc_extfrag
                extfrag.alloc_migratetype, extfrag.alloc_order = 0, 3
                extfrag.fallback_migratetype, extfrag.fallback_order = 1, 9
                extfrag.page = extfrag.pfn = pfn
                extfrag.change_ownership = 1
            else:
                event.mm_page_free.order = order
                event.mm_page_free.page = event.mm_page_free.pfn = pfn

# Half of the packets compressed, as with `compression_type: COMPRESSION_TYPE_DEFLATE`.
half = len(trace.packet) // 2
packed = perfetto.Trace()
packed.packet.extend(trace.packet[half:])
whole = perfetto.Trace()
whole.packet.extend(trace.packet[:half])
whole.packet.add().compressed_packets = zlib.compress(packed.SerializeToString())

file = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("perfetto.pftrace")
file.write_bytes(whole.SerializeToString())

count = {}
for packet in trace.packet:
    for event in packet.ftrace_events.event:
        name = event.WhichOneof("event")
        count[name] = count.get(name, 0) + 1
failed = sum(e.mm_page_alloc.pfn == (1 << 64) - 1 for p in trace.packet for e in p.ftrace_events.event)
frames = sum(e.mm_page_free.pfn for p in trace.packet for e in p.ftrace_events.event)
print(count, "failed", failed, "sum of freed frames", frames, "last", max(time), "first", min(
    e.timestamp for p in trace.packet for e in p.ftrace_events.event if e.WhichOneof("event") != "sched_switch"))
