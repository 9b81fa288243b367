-- What is live at the peak of each rank, by line, over all ranks
with each_rank as (
  select run, step, rank, device, file, line, name, sum(requested) as requested, sum(allocations) as allocations
  from at_peak
  group by run, step, rank, device, file, line, name
)
select
  file, line, name,
  sum(requested) as total_bytes,
  max(requested) as most_bytes,
  min(requested) as least_bytes,
  count(*) as ranks,
  sum(allocations) as total_allocations
from each_rank
group by file, line, name
order by total_bytes desc, file, line, name
