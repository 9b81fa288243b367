-- Highest counters of each rank, the highest peak first
select run, step, rank, device, peak_requested, peak_allocated, peak_reserved, gap, end_requested, ooms, verdict
from ranks
order by peak_requested desc, run, step, rank, device
